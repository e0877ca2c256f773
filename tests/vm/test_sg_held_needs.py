# SPDX-License-Identifier: GPL-2.0
# vm: --cpus 4
"""Who needs what held slots keep has it soon: idle ones delay nobody by more than 50 ms, and busy
ones lose no command."""
import mmap
import os
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from kit import smqsg
from kit.held import holding, keep, kept, node_share, put_into, quiescer, without_elevator
from kit.host import (Lun, ModuleError, loaded, run, under_way, unload,
                      wait_for)
from kit.ramdir import ram_host
from kit.sanitizing import PATIENCE, SANITIZING
from kit.slots import HELD
from kit.slowdisk import left_alone, opened
from kit.waits import waits, waits_on

SLOTS = 8
TURNS = 3
MOST = 0.05         # s, that idle held slots may delay anybody
# What a machine that others use as well, under TCG, may take for what takes a moment elsewhere.
HANGS = 10
CPU = 3
ENODEV = "19"
COMMANDS = 50000    # more than are served before their device has gone
SD = Path("/sys/bus/scsi/drivers/sd")


def put(path: Path, value) -> None:
    """Writes an attribute."""
    path.write_text(str(value), encoding="ascii")


@dataclass(frozen=True)
class Need:
    """An operation that waits for all requests of a queue, or of a CPU's part of it, and back. Each
    turn is another."""
    do: Callable[[Lun, int], None]
    undo: Callable[[Lun], None] = lambda lun: None


def rescan(lun: Lun) -> None:
    """Has a host find a LUN again."""
    host, channel, target, number = lun.address.split(":")
    put(Path(f"/sys/class/scsi_host/host{host}/scan"), f"{channel} {target} {number}")


NEEDS = {
    "nr_requests": Need(lambda lun, turn: put(lun.queue / "nr_requests", 20 + turn % 32)),
    "elevator": Need(lambda lun, turn: put(lun.queue / "scheduler", "mq-deadline"),
                     lambda lun: put(lun.queue / "scheduler", "none")),
    "unbind": Need(lambda lun, turn: put(SD / "unbind", lun.address),
                   lambda lun: put(SD / "bind", lun.address)),
    "cpu": Need(lambda lun, turn: put(Path(f"/sys/devices/system/cpu/cpu{CPU}/online"), 0),
                lambda lun: put(Path(f"/sys/devices/system/cpu/cpu{CPU}/online"), 1)),
    "suspend": Need(lambda lun, turn: put_into("quiesce", lun.address),
                    lambda lun: put_into("quiesce", "")),
    "delete": Need(lambda lun, turn: put(lun.sysfs / "delete", 1), rescan),
}


# Of them each freezes, empties or quiesces a queue in a way of its own.
KERNELS_DIFFER = ("elevator", "cpu", "suspend")


@contextmanager
def host_of(driver: str, luns: int = 1, depth: int = 64, queues: int = 4):
    """Of smq_ram, where held requests go through the plug, or of scsi_debug, which has no doorbell
    for several commands: there they go straight."""
    if driver == "smq_ram":
        with ram_host(luns=luns, depth=depth, hw_queues=queues) as (_, host):
            yield host
    else:
        with loaded("scsi_debug", luns=luns, max_luns=luns, max_queue=depth, delay=0,
                    submit_queues=queues, io_errors=True) as (host,):
            yield host


DRIVERS = pytest.mark.parametrize("driver", ("smq_ram", "scsi_debug"))


@pytest.fixture(name="driver")
def fixture_driver():
    """Unless a test says otherwise."""
    return "smq_ram"


@pytest.fixture(name="host")
def fixture_host(sg_module, driver):
    """A host with a LUN and a hardware queue for each CPU."""
    run("modprobe", "mq-deadline")
    # Each CPU is the last of its hctx.
    assert os.cpu_count() == 4
    with host_of(driver) as host, quiescer():
        without_elevator(*host.wait_luns(1))
        yield host


@contextmanager
def on(cpus: set[int]):
    """This process, and what it starts, on these CPUs."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def ready(host) -> Lun:
    """Its LUN, with its disk and our node."""
    lun, = host.wait_luns(1)
    smqsg.node(lun)
    return lun


def seconds_of(what: Callable[[], None]) -> float:
    """How long it takes."""
    began = time.monotonic()
    what()
    return time.monotonic() - began


def beside_idle(host, need: Need, kind: int, turn: int) -> float:
    """How long an operation takes beside idle slots of a kind, which ran on one CPU."""
    lun = ready(host)
    path = smqsg.node(lun)
    with opened(path, SLOTS, kind, held_share=100) as file:
        with on({CPU}):
            for _ in range(2):
                assert file.run(range(SLOTS)) == (0, 0)
        assert kept(path) == (SLOTS if kind else 0)
        with on({0}):
            took = seconds_of(lambda: need.do(lun, turn))
        # It had to wait for them, or it is not what it is taken for.
        assert not os.path.exists(path) or kept(path) == 0
        need.undo(lun)
        lun = ready(host)
        if os.path.exists(path) and path == smqsg.node(lun):
            assert file.run(range(SLOTS)) in ((0, 0), (0, SLOTS))
    return took


@pytest.mark.smoke
@pytest.mark.limit(240)
@pytest.mark.skipif(SANITIZING, reason="a time that is compared with another")
@pytest.mark.parametrize("name", NEEDS)
def test_idle_slots_delay_nobody(host, name):
    """By more than 50 ms: in turns with slots that keep nothing, the fastest of each, as other
    load delays any of them but what waits for the slots waits each time."""
    took: dict[int, list[float]] = {0: [], HELD: []}
    for turn in range(2 * TURNS):
        kind = HELD if turn % 2 else 0
        took[kind].append(beside_idle(host, NEEDS[name], kind, turn))
    usual, held = (min(took[kind]) for kind in (0, HELD))
    print(f"{name}: {usual * 1000:.1f} ms, beside held slots {held * 1000:.1f} ms")
    assert held <= usual + MOST, took


@DRIVERS
@pytest.mark.limit(180)
@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.smoke] if name in KERNELS_DIFFER else [])
    for name in NEEDS if name != "delete"])
def test_busy_slots_lose_nothing(host, name):
    """They run all the time, one by one and in batches, while somebody needs the queue."""
    need, lun = NEEDS[name], ready(host)
    path = smqsg.node(lun)
    more = {"held": True, "ms": 1500 * PATIENCE}
    with on({CPU} if name == "cpu" else os.sched_getaffinity(0)), \
            waits_on(path, depth=SLOTS, **more) as lone, \
            waits_on(path, path="batch", depth=2, batch=SLOTS, **more) as batch, on({0}):
        turn = 0
        while lone.job.poll() is None and batch.job.poll() is None:
            assert seconds_of(lambda: need.do(lun, turn)) < HANGS * PATIENCE
            assert seconds_of(lambda: need.undo(lun)) < HANGS * PATIENCE
            lun = ready(host)
            turn += 1
            time.sleep(0.05)
        said = [lone.result(), batch.result()]
    print(f"{name}: {turn} times beside {[one['served'] for one in said]} commands")
    assert turn > 1
    for one, each in zip(said, (1, SLOTS), strict=True):
        assert one["results"] == {"status": 0, "0": one["sent"]}
        assert one["served"] == one["sent"] * each > 100
    smqsg.idle(path)
    # And they keep their requests as before.
    without_elevator(lun)
    with holding(path, SLOTS) as file:
        keep(file, SLOTS)


@DRIVERS
@pytest.mark.smoke
@pytest.mark.limit(120)
def test_a_device_that_goes(host):
    """Under busy slots: all that was sent ends, once, and the device can come back."""
    for _ in range(2):
        lun = ready(host)
        path = smqsg.node(lun)
        more = {"held": True, "count": COMMANDS}
        with waits_on(path, depth=SLOTS, **more) as lone, \
                waits_on(path, path="batch", depth=2, batch=SLOTS, **more) as batch:
            wait_for("both", lambda path=path: smqsg.attr(path, "share") == 64 // 2)
            under_way(lun, 500)
            assert seconds_of(lambda lun=lun: put(lun.sysfs / "delete", 1)) < HANGS * PATIENCE
            said = [lone.result(), batch.result()]
        for one in said:
            assert sum(one["results"].values()) == one["sent"] == COMMANDS
        assert said[0]["results"][ENODEV] > 0 < said[1]["results"]["status"]
        wait_for("no node", lambda path=path: not os.path.exists(path))
        rescan(lun)
    with holding(smqsg.node(ready(host)), SLOTS) as file:
        keep(file, SLOTS)


@pytest.mark.smoke
def test_the_module_of_the_host(sg_module):
    """It cannot go while the file is open, and at once when it is closed: nothing is kept then.
    (How long it takes to go scatters by more than what held slots could add.)"""
    for _ in range(2):
        with loaded("scsi_debug", delay=0, submit_queues=2) as (host,):
            lun, = host.luns()
            left_alone(lun)
            path = smqsg.node(lun)
            with holding(path, SLOTS) as file:
                keep(file, SLOTS)
                with pytest.raises(ModuleError, match="in use"):
                    unload("scsi_debug", 0)
                # That may have taken the second after which they go back.
                keep(file, SLOTS)
                assert smqsg.tags(lun) == SLOTS
            assert kept(path) == smqsg.tags(lun) == 0
            unload("scsi_debug", 0)


# Others of the same host.

def read_block(fd: int, area: mmap.mmap) -> None:
    """Direct: a command for each."""
    assert os.preadv(fd, [area], 0) == len(area)


@pytest.mark.smoke
@pytest.mark.skipif(SANITIZING, reason="a time that is compared with another")
def test_a_starving_lun(sg_module):
    """All tags of a host are kept for one LUN: another's read has one within 50 ms. As above, the
    fastest read of each kind."""
    with loaded("scsi_debug", luns=2, max_luns=2, max_queue=4, delay=0) as hosts:
        first, second = hosts[0].luns()
        without_elevator(first, second)
        path = smqsg.node(first)
        fd = os.open(second.sd, os.O_RDONLY | os.O_DIRECT)
        took: dict[int, list[float]] = {0: [], HELD: []}
        with node_share(path, 100), mmap.mmap(-1, mmap.PAGESIZE) as area:
            for turn in range(2 * TURNS):
                kind = HELD if turn % 2 else 0
                with opened(path, 4, kind, held_share=100) as file:
                    for _ in range(2):
                        assert file.run(range(4)) == (0, 0)
                    assert smqsg.tags(first) == kept(path) == (4 if kind else 0)
                    took[kind].append(seconds_of(lambda: read_block(fd, area)))
                    assert file.run(range(4)) == (0, 0)
        os.close(fd)
    usual, held = (min(took[kind]) for kind in (0, HELD))
    print(f"read: {usual * 1000:.1f} ms, beside held slots {held * 1000:.1f} ms")
    assert held <= usual + MOST, took


@DRIVERS
@pytest.mark.limit(120)
@pytest.mark.parametrize("depth", (4, 1))
def test_a_lun_beside_busy_slots(sg_module, driver, depth):
    """Each has its turn on a host with few tags, block I/O and held slots."""
    with host_of(driver, 2, depth, 1) as host:
        first, second = host.luns()
        without_elevator(first, second)
        path = smqsg.node(first)
        with node_share(path, 100), \
                waits_on(path, depth=16, ms=3500 * PATIENCE, held=True) as job:
            under_way(first, 50)
            said = waits(second.sd, path="read", ms=1000 * PATIENCE)
            mine = job.result()
        print({name: said[name] for name in ("served", "sent", "median_us", "worst_us")},
              mine["served"])
        assert said["results"] == {"status": 0, "0": said["sent"]} and said["sent"] >= 10
        assert said["worst_us"] < 5000000 * PATIENCE
        assert mine["results"] == {"status": 0, "0": mine["sent"]} and mine["sent"] > 100
