# SPDX-License-Identifier: GPL-2.0
# on: uml 7.2
# not on sanitize: it tests programs, which are the same there
"""smq_load, the bench's load from inside the kernel: it sends the commands that it reports, and
every run ends."""
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit.host import Lun, load, loaded, run, settle, unload, wait_for
from kit.trace import recording

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "bench"))

from smqbench.errors import BenchError  # noqa: E402
from wallclock import load as inkernel  # noqa: E402

CHUNK = 250
COUNT, WARMUP = 2000, 300


@pytest.fixture(autouse=True)
def smq_load(klog):
    """Loads the module; after the test the kernel log must show no fault."""
    load("smq_load")
    yield
    unload("smq_load")
    assert not klog.faults(), klog.tail(40)


def done_by(lun: Lun) -> int:
    """The number of a LUN's commands that have ended in the mid-layer."""
    return int((lun.sysfs / "iodone_cnt").read_text(encoding="ascii"), 16)


@pytest.fixture(name="luns")
def fixture_luns():
    """Three LUNs. The block layer does not merge their reads."""
    with loaded("smq_ram", luns=3, hw_queues=2) as hosts:
        luns = hosts[0].luns()
        for lun in luns:
            (lun.queue / "nomerges").write_text("2", encoding="ascii")
        yield luns


SHAPES = [
    {"op": "tur", "qd": 1, "batch": 1},
    {"op": "tur", "qd": 32, "batch": 16},
    {"op": "tur", "qd": 32, "batch": 16, "requests": 16},
    {"op": "read10", "qd": 1, "batch": 1},
    {"op": "read10", "qd": 32, "batch": 16, "bs": 4096},
    {"op": "read10", "qd": 200, "batch": 40, "requests": 32},
    {"op": "read", "qd": 1, "batch": 1},
    {"op": "read", "qd": 32, "batch": 1},
    {"op": "read", "qd": 32, "batch": 16, "bs": 4096},
    {"op": "read", "qd": 32, "batch": 1, "spin": 1},
    {"op": "read", "qd": 200, "batch": 7},
]


@pytest.mark.smoke
@pytest.mark.parametrize("cpus", [(0,), (0, 1)], ids=len)
def test_every_command_reaches_the_device(luns, cpus):
    for shape in SHAPES:
        check_shape(luns, cpus, shape)


def check_shape(luns, cpus, shape):
    """Checks that smq_load and the device count the same commands. The device also counts the
    commands of the warm-up and the last ones of a run, which smq_load may leave out."""
    before = [done_by(lun) for lun in luns]
    jobs = inkernel.run(devices=[lun.sd for lun in luns], cpus=cpus, count=COUNT, warmup=WARMUP,
                        **shape)
    seen = [done_by(lun) - was for lun, was in zip(luns, before)]
    counted = sum(job.commands for job in jobs)
    slack = len(jobs) * (WARMUP + 2 * shape["qd"] + shape["batch"] + CHUNK) + 20
    assert counted <= sum(seen) <= counted + slack
    assert [job.cpu for job in jobs] == list(cpus)
    # Both jobs began together, and the job that finished first ended the run.
    assert max(job.commands for job in jobs) >= COUNT
    for job in jobs:
        assert sum(commands for commands, _ in job.chunks) == job.commands
        assert sum(ns for _, ns in job.chunks) == job.ns
        assert all(commands >= CHUNK and ns > 0 for commands, ns in job.chunks)
    if cpus == (0,):
        # The job uses the LUNs in turn: none is left out.
        assert max(seen) - min(seen) <= 20


def test_a_job_has_its_own_devices(luns):
    """With two CPUs and three LUNs the first CPU's job uses two LUNs."""
    before = [done_by(lun) for lun in luns]
    inkernel.run("read", [lun.sd for lun in luns], cpus=(0, 1), count=CHUNK, warmup=3000)
    first, second, third = (done_by(lun) - was for lun, was in zip(luns, before))
    assert abs(first - third) < 30
    assert second > 2900 and first > 1400


def test_each_slot_reads_its_own_blocks(luns):
    """Each slot reads one place, the same each time, as the mid-layer's trace events show."""
    with recording("scsi/scsi_dispatch_cmd_start") as lines:
        inkernel.run("read10", [luns[0].sd], qd=24, batch=24, bs=4096, count=CHUNK, warmup=0)
    seen = Counter(re.findall(r"cmnd=\(READ_10 lba=(\d+) txlen=(\d+) ", "\n".join(lines)))
    assert set(seen) == {(str(place * 8), "8") for place in range(24)}
    assert sum(seen.values()) >= CHUNK


@pytest.mark.smoke
def test_softirq_runs_beside_a_spinning_job(klog):
    """With one hardware queue the softirq completes commands. It must run although a job spins on
    the CPU."""
    with loaded("smq_ram", hw_queues=1) as hosts:
        disk = hosts[0].luns()[0].sd
        for spin in (0, 1):
            inkernel.run("read", [disk], cpus=(0, 1), qd=32, count=COUNT, spin=spin)
            inkernel.run("tur", [disk], cpus=(0, 1), qd=8, batch=8, count=COUNT, spin=spin)
        settle(hosts[0])


def test_null_blk_gets_reads_but_no_scsi_commands():
    """smq_load can read a device that is not a SCSI device, but cannot send it SCSI commands."""
    run("modprobe", "null_blk", "queue_mode=2", "irqmode=0", "gb=1")
    try:
        inkernel.run("read", ["/dev/nullb0"], qd=32, batch=16, count=COUNT)
        for op in ("tur", "read10"):
            with pytest.raises(BenchError, match=f"op: {op} is for SCSI devices, which nullb0 is"):
                inkernel.run(op, ["/dev/nullb0"])
    finally:
        run("modprobe", "-r", "null_blk")


@contextmanager
def endless_run(*luns):
    """Starts, in a process, a run that does not end by itself."""
    words = " ".join(f"dev={lun.sd}" for lun in luns)
    writer = subprocess.Popen(
        ["sh", "-c", f"echo op=read {words} qd=4 count=10000000 seconds=3000 "
         f"> {inkernel.DEBUGFS}/run"], stderr=subprocess.PIPE, text=True)
    try:
        before = done_by(luns[0])
        wait_for("the load", lambda: done_by(luns[0]) > before + 1000)
        yield writer
    finally:
        writer.kill()
        writer.communicate()


def last_error():
    """The error of the last run."""
    return json.loads((inkernel.DEBUGFS / "result").read_text(encoding="ascii"))["error"]


def test_failed_commands_end_a_run_without_a_result():
    """One of two LUNs fails all commands: the run ends by itself, without a result."""
    with loaded("smq_ram", luns=2, io_errors=True) as hosts:
        good, bad = hosts[0].luns()
        with endless_run(good, bad) as writer:
            (bad.sysfs / "state").write_text("offline\n", encoding="ascii")
            writer.wait(20)
        assert "commands failed, one with error -5" in last_error()
        (bad.sysfs / "state").write_text("running\n", encoding="ascii")
        inkernel.run("read", [good.sd, bad.sd], qd=4)
        inkernel.run("read10", [good.sd, bad.sd], qd=4)


def test_run_is_stopped_at_its_time_limit(luns):
    with pytest.raises(BenchError, match="no end within 1 seconds"):
        inkernel.run("read", [luns[0].sd], count=10000000, seconds=1)


def test_signal_ends_a_run(luns):
    """A signal ends a run at once; then the module can be unloaded."""
    with endless_run(luns[0]) as writer:
        refused = run("rmmod", "smq_load", ok=False)
        assert refused.returncode and "in use" in refused.stderr
        os.kill(writer.pid, signal.SIGTERM)
        writer.wait(20)
    assert last_error() == "interrupted"
    inkernel.run("read", [luns[0].sd])


@pytest.mark.not_uml("its delays are loops, and too short if the machine was busy at the start")
def test_delay_and_spin():
    """A delay takes at least 95 % of its time; a spin takes 0.1 to 100 us on each CPU."""
    jobs = inkernel.run("delay", count=500, delay_ns=20000)
    assert all(time_ >= 19000 for time_ in jobs[0].per_command())
    for job in inkernel.run("spin", cpus=(0, 1), count=20000):
        assert 100 < min(job.per_command()) < 100000


BAD = [
    ({"op": "write"}, "op: 'write' is none of tur, read10, read, delay, spin"),
    ({"devices": []}, "dev: none given"),
    ({"qd": 0}, "qd: '0' is not a number from 1 to 1024"),
    ({"qd": 1025}, "qd: '1025' is not a number from 1 to 1024"),
    ({"qd": 4, "batch": 5}, "batch: 5 is more than qd, which is 4"),
    ({"batch": 2, "qd": 2, "requests": 3}, "requests: 3 is more than batch, which is 2"),
    ({"requests": 33}, "requests: '33' is not a number from 1 to 32"),
    ({"marked": 2}, "marked: '2' is not a number from 0 to 1"),
    ({"bs": 8192}, "bs: '8192' is not a number from 512 to 4096"),
    ({"bs": 700}, "bs: 700 is no multiple of sd.'s block, 512"),
    ({"count": 249}, "count: '249' is not a number from 250 to 10000000"),
    ({"count": "1x"}, "count: '1x' is not a number"),
    ({"cpus": (0, 77)}, "cpus: '0,77' is no list of 1 to 8 CPUs that are online"),
    ({"cpus": ()}, "cpus: '' is no list"),
    ({"delay_ns": 1000001}, "delay_ns: '1000001' is not a number from 0 to 1000000"),
    ({"seconds": 0}, "seconds: '0' is not a number from 1 to 3600"),
    ({"frob": 1}, "there is no setting 'frob'"),
    ({"devices": ["/dev/nonexistent"]}, "dev: '/dev/nonexistent' cannot be opened, error -2"),
    ({"devices": ["/dev/null"]}, "dev: '/dev/null' is no block device"),
    ({"devices": ["DISK"] * 65}, "dev: more than 64"),
]


def test_bad_settings_are_refused(luns):
    """The error names the bad setting, and no command is sent."""
    disk = luns[0].sd
    for settings, message in BAD:
        settings = {"op": "read", "devices": ["DISK"], **settings}
        settings["devices"] = [disk if name == "DISK" else name for name in settings["devices"]]
        before = done_by(luns[0])
        with pytest.raises(BenchError, match=message):
            inkernel.run(**settings)
        assert done_by(luns[0]) - before < 10, settings
