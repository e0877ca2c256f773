# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize
"""smq_conv: what a command of an attached host points to goes while the layer has the command.

The table in drivers/core/README.md, "What goes while a command of an attached host is under way",
has a cell for each way in which an object goes and each state of the command. Each cell is a test.
"""
import errno
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from kit import conv
from kit.attach import all_done, attach, attached, detach, name
from kit.faults import Faults
from kit.fiojob import fio, load_on
from kit.host import KernelLog, find_hosts, load, under_way, unload, wait_for
from kit.sanitizing import TIME_FACTOR
from kit.sgio import (DID_TIME_OUT, SG_SCSI_RESET_DEVICE, SG_SCSI_RESET_HOST,
                      SG_SCSI_RESET_TARGET, SgDev)

pytestmark = pytest.mark.limit(150)
PSEUDO = Path("/sys/bus/pseudo/drivers/scsi_debug")
CPU = Path("/sys/devices/system/cpu/cpu1/online")
# Bits of scsi_debug's opts: it never ends a command, or refuses it.
LOSE, BUSY = 4, 0x8000
PARAMS = {"ndelay": 2_000_000, "dev_size_mb": 16, "max_queue": 32, "max_luns": 2}
LOAD = {"ioengine": "libaio", "rw": "randwrite", "bs": 4096, "iodepth": 32, "time_based": True,
        "runtime": 600}
READ = bytes.fromhex("28000000000000000800")
RESETS = SG_SCSI_RESET_DEVICE, SG_SCSI_RESET_TARGET, SG_SCSI_RESET_HOST


def misbehave(opts, every):
    """Makes scsi_debug lose or refuse one of @every commands; 0: none."""
    conv.write(PSEUDO / "every_nth", 0)
    conv.write(PSEUDO / "opts", opts if every else 0)
    conv.write(PSEUDO / "every_nth", every)


class Bench:
    """A host of scsi_debug with two LUNs, and smq_conv."""

    def __init__(self):
        self.host = None
        self.luns = []
        self.loads = ExitStack()

    def ready(self):
        """Makes the host and both LUNs if they are gone, attaches the host, and makes prio
        effective: it has a rate."""
        if not Path("/sys/module/scsi_debug").exists():
            load("scsi_debug", **PARAMS)
        misbehave(0, 0)
        if not find_hosts("scsi_debug"):
            conv.write(PSEUDO / "add_host", 1)
        self.host = wait_for("the host", lambda: find_hosts("scsi_debug"))[0]
        conv.write(self.host.sysfs / "scan", "- - -")
        self.luns = self.host.wait_luns(2)
        for lun in self.luns:
            # Error handling may have given up: the driver loses its commands, too.
            if (lun.sysfs / "state").read_text(encoding="ascii") != "running\n":
                conv.write(lun.sysfs / "state", "running")
            conv.write(lun.queue / "scheduler", "none")
            conv.write(lun.sysfs / "queue_depth", 8)
            conv.write(lun.sysfs / "timeout", 1)
        if name(self.host) not in attached():
            attach(self.host)
        conv.write(self.host.sysfs / "smq/policy", "prio")
        conv.write(self.host.sysfs / "smq_prio/bytes_per_sec", 10**9)
        Faults(self.host).set("fail_abort", 0)

    def works(self):
        """Checks that the host works, and that the layer has no command left."""
        self.ready()
        for lun in self.luns:
            fio(lun.sd, ioengine="libaio", rw="randread", bs=4096, iodepth=8, number_ios=200)
        stats = all_done(self.host)
        assert stats["held"] == stats["inflight"] == 0


@pytest.fixture(name="bench", scope="module")
def bench_fixture():
    """The bench, while both modules are loaded. The kernel log has no report afterwards."""
    with KernelLog() as log:
        load("smq_conv")
        bench = Bench()
        try:
            bench.ready()
            yield bench
        finally:
            misbehave(0, 0)
            unload("smq_conv")
            unload("scsi_debug")
        assert not log.faults(), log.tail(80)


# The states of a command.

@contextmanager
def held(bench):
    """The policy holds commands of the second LUN, and the first one has some, too."""
    with bench.loads:
        for lun in bench.luns:
            bench.loads.enter_context(load_on(lun.sd, ok=False, **LOAD))
        wait_for("held commands", lambda: int(bench.host.attr("smq/held")) > 0, 40)
        # Until fio has begun, a signal kills it without a report.
        for lun in bench.luns:
            under_way(lun, 20)
        yield


@contextmanager
def unseen(bench):
    """Error handling has ended a command of the second LUN by a reset, a moment ago."""
    Faults(bench.host).set("fail_abort", 1)
    misbehave(LOSE, 1)
    with SgDev(bench.luns[-1].sg) as sg, ThreadPoolExecutor(1) as pool:
        job = pool.submit(sg.cmd, READ, din=4096, timeout_ms=1000)
        wait_for("the command", lambda: bench.host.stats()["inflight"] == 1)
        misbehave(0, 0)
        assert job.result().host == DID_TIME_OUT
    yield


@contextmanager
def refused(bench):
    """The driver refuses every second command."""
    with held(bench):
        misbehave(BUSY, 2)
        busy = bench.host.hwqs()[0]["busy_host"]
        wait_for("refusals", lambda: bench.host.hwqs()[0]["busy_host"] > busy + 20)
        yield


@contextmanager
def timed_out(bench, count="timeouts"):
    """Commands are lost, and aborted."""
    with held(bench):
        before = bench.host.stats()[count]
        misbehave(LOSE, 25)
        wait_for(count, lambda: bench.host.stats()[count] > before)
        yield


@contextmanager
def being_reset(bench):
    """Commands are lost, and ended by resets. Other resets run at the same time."""
    goes_on = True

    def resets():
        count = 0
        while goes_on:
            with suppress(OSError), SgDev(bench.luns[0].sg) as sg:
                sg.reset(RESETS[count % 3])
            time.sleep(0.05)
            count += 1
    Faults(bench.host).set("fail_abort", -1)
    with ThreadPoolExecutor(1) as pool, timed_out(bench, "lun_resets"):
        job = pool.submit(resets)

        def stop():
            nonlocal goes_on
            goes_on = False
            job.result()
        bench.loads.callback(stop)
        try:
            yield
        finally:
            goes_on = False


# The ways in which an object goes.

def lun_removed(bench):
    """The second LUN goes, the first one stays."""
    conv.write(bench.luns[-1].sysfs / "delete", 1)


def last_lun_removed(bench):
    """The only LUN goes: the host is detached."""
    conv.write(bench.luns[-1].sysfs / "delete", 1)
    assert not attached()


def host_removed(bench):
    """The host goes."""
    conv.write(PSEUDO / "add_host", -1)
    assert not bench.host.sysfs.exists() and not attached()


def driver_unloaded(bench):
    """The host's driver goes."""
    misbehave(0, 0)
    # An open node references the driver.
    bench.loads.close()
    unload("scsi_debug")
    assert not attached()


def detached(bench):
    """The host is detached, perhaps only when its LUNs no longer have commands that are lost, and a
    recovery has ended."""
    for last in (False, False, True):
        try:
            detach(bench.host)
            return
        except OSError as error:
            assert error.errno == errno.EBUSY and not last
            misbehave(0, 0)


def policy_switched(bench):
    """Another policy, and others after that."""
    for policy in ("batch", "bucket", "direct", "prio"):
        conv.write(bench.host.sysfs / "smq/policy", policy)


def depth_changed(bench):
    """Another queue_depth."""
    for depth in (2, 16, 8):
        conv.write(bench.luns[-1].sysfs / "queue_depth", depth)


def elevator_switched(bench):
    """The elevator comes and goes: the requests that are with the mid-layer are its."""
    for elevator in ("mq-deadline", "none"):
        for lun in bench.luns:
            conv.write(lun.queue / "scheduler", elevator)


def hctx_offline(_bench):
    """A CPU, and with it the hardware queue's, goes offline."""
    for online in "01":
        CPU.write_text(online, encoding="ascii")


STATES = {one.__name__: one for one in (held, unseen, refused, timed_out, being_reset)}
WAYS = {one.__name__: one for one in (
    lun_removed, last_lun_removed, host_removed, driver_unloaded, detached, policy_switched,
    depth_changed, elevator_switched, hctx_offline)}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("way", WAYS)
def test_goes(bench, way, state):
    """One cell of the table. Nothing is used after it was freed, no command is lost, and the way
    does not take long: as long as a detach that fails after 20 s and one that waits for recovery
    and commands, or as four freezes, each of which waits for the recovery of lost commands."""
    if way == "hctx_offline" and not CPU.exists():
        pytest.skip("this kernel takes no CPU offline")
    # The layer looks for unseen commands once a second. Once at least it has not looked yet.
    for phase in (0, 0.35, 0.7) if state == "unseen" else (0,):
        bench.ready()
        if way == "last_lun_removed":
            conv.write(bench.luns.pop(0).sysfs / "delete", 1)
        time.sleep(phase)
        with STATES[state](bench):
            start = time.monotonic()
            WAYS[way](bench)
            most = 80 if state == "being_reset" else 30
            assert time.monotonic() - start < most * TIME_FACTOR
            if state == "unseen":
                time.sleep(1.5)
        bench.works()
