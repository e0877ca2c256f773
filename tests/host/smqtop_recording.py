# SPDX-License-Identifier: GPL-2.0
"""A recording as smqtop writes it, of a machine that has a bit of all."""

import json

BEGIN = 1_800_000_000    # 2027-01-15 08:00:00
INTERVALS = 30
RECOVERY, GONE, FULL = 5, 10, 15    # when these begin
FAST, SLOW = 30, 129    # buckets: 3.8 us, 20 ms


def row(name, label, text="", done=0, device=None, inflight=-1, depth=-1, **counts):
    interval = {"done": done, "bytes": 4096 * done, **counts}
    if done:
        interval |= {"device": device, "queued": max(1, done // 16),
                     "queue_ns": 9000 * max(1, done // 16)}
    return {"name": name, "label": label, "text": text, "inflight": inflight, "depth": depth,
            "total": {key: 7 * value for key, value in interval.items() if key != "device"},
            "interval": interval}


def luns(n):
    for i in range(40):
        if i == 3:
            yield row("0:0:0:3", "sdd", done=178, device=[SLOW - 3, 20, SLOW, 150, SLOW + 8, 8],
                      inflight=192 if n >= FULL else 4, depth=192, failed=2, timeouts=1)
        elif i != 5 or n < GONE:
            yield row(f"0:0:0:{i}", f"sd{chr(97 + i) if i < 26 else 'a' + chr(71 + i)}",
                      done=22 + i, device=[FAST, 20, FAST + 3 * (i % 7), 2 + i], inflight=0,
                      depth=192)
    yield row("1:0:0:0", "sdzz", done=0, inflight=1, depth=32)


def interval(n):
    state = "recovery" if RECOVERY <= n < RECOVERY + 3 else "running"
    return {
        "smqtop": 1, "time": BEGIN + 2.0 * n, "seconds": 2.0, "times": True, "missed": 0,
        "hosts": [row("host0", "scsi_debug", "running", 1000, [FAST, 900, SLOW, 100], 4, 192,
                      failed=2, timeouts=1),
                  row("host1", "qla2xxx", state, 0, None, 1, 32, eh_wakeups=2,
                      eh_ns=1_500_000_000 * (n == RECOVERY), aborts=3, escalations=1,
                      target_resets=4, bus_resets=5, host_resets=6)],
        "luns": [*luns(n)],
        "queues": [row("host0", f"q{q}", done=500, device=[FAST, 450, SLOW, 50])
                   for q in range(2)],
        "opcodes": [row("READ(10)", "28h", done=200, device=[SLOW, 200]),
                    row("INQUIRY", "12h", done=800, device=[FAST, 800])],
        "errors": [row("0:0:0:3", "READ(10)", "Medium Error (3h): Unrecovered read error "
                       "(11h/00h)", failed=2),
                   row("host1", "-", "error handling was woken", failed=int(n == RECOVERY))],
        "commands": [row("0:0:0:3", str(9 - i), f"fio/{4711 + i} 21.{i}ms READ(10) lba={8 * i} "
                         "blocks=8 GOOD") for i in range(3)],
        "files": [row("smqsg3", "sdd", "share=96 pool=64 waiting=3 refused=0", inflight=192,
                      depth=192),
                  row("smqsg3", "replay/4711:5", "share=96 pool=60 waiting=3 slots=1024",
                      inflight=190),
                  row("smqsg3", "fio/4712:12", "share=96 pool=4 waiting=0 slots=16", inflight=2)],
        "smq": [row("host2", "policy", "prio"), row("host2", "held", "12"),
                row("host2", "busy", "queue 0, host 0, device 37, target 0")],
    }


def line(value):
    return json.dumps(value, separators=(",", ":")) + "\n"


def write(path, intervals=INTERVALS):
    path.write_text("".join(line(interval(n)) for n in range(intervals)), encoding="ascii")
    return path
