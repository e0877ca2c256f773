# SPDX-License-Identifier: GPL-2.0
"""Runs in the guest: compares steer with direct on a host with four hardware queues. In most cases
the device serves each hardware queue separately."""

import os
import time
import zlib
from pathlib import Path

from smqbench import timing
from smqbench.errors import BenchError
from wallclock.devices import write

from .notes import Notes, program
from .prio import sample_during
from .ram import Host, host

QUEUES = 4
# How long a hardware queue takes for a command, in ns. Even on a slow machine four CPUs need less
# time to issue four commands.
SLOW_NS = 2000000
WORDS = ("direct", "again", "steer")
THRESHOLD = 16
MIB = 1 << 20
LATENCIES = {"lat_p50": "p50", "lat_p99": "p99", "lat_p999": "p999"}

# For experiment(): thresholds in % of a hardware queue's tags. The threshold "off" is more than a
# hardware queue can have in flight.
TAGS = 64
SHARES = (2, 10, 25, 50, 75, 98)
OFF = 4096
READ_MIB = 48
# How long commands of 64 KiB take. With hwq_ns the device serves each hardware queue separately;
# with service_ns all commands at the same time.
KINDS = {"tagset": {"hwq_ns": 1000000}, "map": {"hwq_ns": 1000000},
         "alike": {"service_ns": 16000000}}
BEGIN = 2.0             # seconds from a program's start to the middle of its warm-up
BEGIN_READS = 0.15


class Counted:
    """Sums of the policy's counters over all hardware queues, and the number of ended commands."""

    def __init__(self, device: Host):
        self._device = device
        self._before = self._now()

    def _now(self) -> dict[str, int]:
        rows = self._device.lines("policy")
        return {name: sum(int(row.get(name, 0)) for row in rows)
                for name in ("steered", "backed_off", "fell_back")} | {
                    "done": self._device.done()}

    def since(self) -> dict[str, int]:
        """Returns how much each count has grown since the object was made."""
        now = self._now()
        return {name: now[name] - self._before[name] for name in now}


def steered(found: dict[str, int]) -> float:
    """Returns the percentage of commands that were steered."""
    return 100 * found["steered"] / max(found["done"], 1)


def run(notes: Notes, device: Host, name: str, word: str, jobs: int, count: int) -> None:
    """Measures random reads of one task on CPU 0, or of one task on each CPU. Chooses the policy
    during the warm-up: if a policy is chosen under load, it finds out at once whether it has
    something to do. If it is chosen before the load, that may take five seconds."""
    workload = {"path": "io_uring", "op": "read", "bs": 4096, "qd": 64, "batch": 16, "luns": 1,
                "jobs": jobs}
    device.choose("direct")
    before = Counted(device)
    said, _ = sample_during(lambda: program(
        "uring", "--bs", 4096, "--depth", 64, "--batch", 16, "--jobs", jobs, "--warmup",
        count // 2, "--count", count, "--latencies", device.disk), BEGIN,
        lambda: chosen(device, word, THRESHOLD))
    found = before.since() if word == "steer" else {"steered": 0, "done": 1}
    parameters = {"threshold": THRESHOLD, **found}
    for metric, key in LATENCIES.items():
        notes.value(f"{name}_{word}", metric, said["lat_ns"][key] / 1e6, **workload,
                    parameters=parameters)
    notes.value(f"{name}_{word}", "iops", 1e9 * said["count"] * jobs / said["ns"], **workload,
                parameters=parameters)
    notes.value(f"{name}_{word}", "steered", steered(found), **workload, parameters=parameters)


def chosen(device: Host, word: str, threshold: int) -> None:
    """Chooses steer with a threshold. For "direct" and "again" keeps the policy direct."""
    if word not in ("direct", "again"):
        device.choose("steer", threshold=threshold)


def loops(notes: Notes, repeats: int, quick: bool) -> None:
    """Measures a load that steer speeds up, one that needs no steering, and one that steer cannot
    speed up."""
    with host("steer", 64, hw_queues=QUEUES, depth=256) as device:
        write(device.device / "queue_depth", 256)
        for name, jobs, count, model in (
                ("steer_apart", 1, 2000, {"hwq_ns": SLOW_NS, "service_ns": 0}),
                ("steer_balanced", QUEUES, 1000, {"hwq_ns": SLOW_NS, "service_ns": 0}),
                ("steer_pool", 1, 8000, {"hwq_ns": 0, "service_ns": 20000000})):
            device.model(irq_affinity=1, **model)
            for _, word in timing.turns(WORDS, repeats):
                run(notes, device, name, word, jobs, count // (2 if quick else 1))


def read_all(device: Host, pinned: bool) -> tuple[float, int, int]:
    """Reads the disk through the page cache in a child process, with some computation between two
    reads. Returns how long that took, in seconds, the checksum of the data, and how often the child
    migrated. Raises BenchError if the child fails."""
    Path("/proc/sys/vm/drop_caches").write_text("3", encoding="ascii")
    child = os.pipe()
    pid = os.fork()
    if not pid:
        status = 1
        try:
            os.sched_setaffinity(0, {0} if pinned else range(os.cpu_count() or 1))
            crc, began = 0, time.monotonic()
            with open(device.disk, "rb", buffering=0) as disk:
                for _ in range(READ_MIB):
                    data = disk.read(MIB)
                    crc = zlib.crc32(data, crc)
            took = time.monotonic() - began
            moved = [line.split()[-1] for line in Path("/proc/self/sched").read_text(
                encoding="ascii").splitlines() if line.startswith("se.nr_migrations")]
            os.write(child[1], f"{took} {crc} {moved[0] if moved else 0}".encode())
            status = 0
        finally:
            os._exit(status)
    os.close(child[1])
    with open(child[0], "rb") as end:
        said = end.read().split()
    _, status = os.waitpid(pid, 0)
    if status or len(said) != 3:
        raise BenchError(f"buffered reads ended with status {status}")
    return float(said[0]), int(said[1]), int(said[2])


def experiment(notes: Notes, repeats: int, quick: bool) -> None:
    """Measures reads of 1 MiB through the page cache, with thresholds that are percentages of a
    hardware queue's tags."""
    for kind, model in KINDS.items():
        with host(f"reads_{kind}", READ_MIB, hw_queues=QUEUES, depth=TAGS,
                  host_tagset=int(kind != "map")) as device:
            device.set_queue(max_sectors_kb=64, read_ahead_kb=4096)
            right = fill(device)
            device.model(irq_affinity=1, **model)
            words = ["direct", "again", *map(str, SHARES if not quick else (2, 50)), "off"]
            for _, word in timing.turns(words, 1 if quick else repeats):
                for pinned in (False, True):
                    reads(notes, device, kind, word, pinned, right)


def fill(device: Host) -> int:
    """Writes the data that read_all() reads later; returns its checksum."""
    crc = 0
    with open(device.disk, "wb", buffering=0) as disk:
        for number in range(READ_MIB):
            data = number.to_bytes(4, "little") * (MIB // 4)
            crc = zlib.crc32(data, crc)
            disk.write(data)
        os.fsync(disk.fileno())
    return crc


def reads(notes: Notes, device: Host, kind: str, word: str, pinned: bool, right: int) -> None:
    """Measures one round of read_all(). @right is the checksum that the data must have."""
    device.choose("direct")
    threshold = max(TAGS * int(word) // 100, 1) if word.isdigit() else OFF
    before = Counted(device)
    (took, crc, moved), _ = sample_during(lambda: read_all(device, pinned), BEGIN_READS,
                                          lambda: chosen(device, word, threshold))
    if crc != right:
        raise BenchError("buffered reads: the data is not what was written")
    found = before.since() if word not in ("direct", "again") else {"steered": 0, "done": 1}
    workload = {"path": "buffered_pinned" if pinned else "buffered", "op": "read", "bs": MIB,
                "qd": 1, "batch": 1, "luns": 1, "jobs": 1}
    parameters = {"threshold": threshold, "migrations": moved, **found}
    notes.value(f"steer_{kind}_{word}", "seconds", took, **workload, parameters=parameters)
    notes.value(f"steer_{kind}_{word}", "steered", steered(found), **workload,
                parameters=parameters)
    notes.value(f"steer_{kind}_{word}", "migrations", moved, **workload, parameters=parameters)


def measure(notes: Notes, repeats: int, quick: bool) -> None:
    """Measures all cases."""
    loops(notes, repeats, quick)
    experiment(notes, repeats, quick)
