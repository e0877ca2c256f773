# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 7.2
"""smq_conv: a LUN that is blocked delays no error handling of another LUN.

A command waits for the blocked LUN, and its timer expires again and again. Meanwhile a READ of
another LUN times out twice, so that the lower host has to reset that LUN. Each test does this with
both disks bare and then with both claimed, and compares the steps and how long they took.
"""
import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from kit import conv, iscsi, softfc
from kit.host import SCSI_DEVICES, Host, Lun, load, run, unload, wait_for
from kit.lio import iblock, write_attr
from kit.paths import read_by_block
from kit.ramdir import RamDir, ram_host
from kit.sanitizing import TIME_FACTOR
from kit.steps import recorded

# A disk's timeout. The block layer may let a timer expire a second late.
READ_MS = 700
TIMED_OUT = READ_MS / 1000 + 1.1
# How long a command of a slow disk takes, in nanoseconds, for each time that its timer expires. A
# slow kernel handles an expired timer late, and a command that ends before is not repeated.
SLOW = 2_500_000_000 * TIME_FACTOR
STEPS = ["abort", "LUN reset"]
SECONDS = 60

pytestmark = pytest.mark.limit(240)


@dataclass(frozen=True)
class Pair:
    """Two lower LUNs. @ram: where @one has its data; a slow one makes a READ of @one time out.
    @blocked: makes a context manager: @other is blocked inside its block. @timers: how often a
    timer expires until error handling begins."""
    one: Lun
    other: Lun
    ram: RamDir
    blocked: Callable[[], AbstractContextManager]
    timers: int = 1


class Reader(threading.Thread):
    """A thread that reads a block of a disk."""

    def __init__(self, lun: Lun):
        super().__init__(daemon=True)
        self._lun, self.error = lun, None
        self.start()

    def run(self):
        try:
            read_by_block(self._lun, 64, 8)
        except OSError as error:
            self.error = error

    def sleeps(self) -> bool:
        """Whether the thread waits in the kernel, and no signal can end that."""
        stat = Path(f"/proc/self/task/{self.native_id}/stat").read_text(encoding="ascii")
        return stat.rpartition(")")[2].split()[0] == "D"

    def ended(self) -> None:
        """Waits until the READ has ended, and checks that it succeeded."""
        self.join(SECONDS)
        assert not self.is_alive() and self.error is None, self.error


def state(lun: Lun) -> str:
    """The state of a LUN's scsi_device."""
    return (lun.sysfs / "state").read_text(encoding="ascii").strip()


@contextmanager
def quiesced(how: str, lun: Lun):
    """smq_quiesce blocks a LUN during the block."""
    load("smq_quiesce")
    try:
        conv.write(f"/sys/module/smq_quiesce/parameters/{how}", lun.address)
        assert state(lun) == ("blocked" if how == "blocked" else "running")
        yield
    finally:
        unload("smq_quiesce")


@contextmanager
def luns_of_one_host(how):
    """Two LUNs of smq_ram."""
    with ram_host(luns=2) as (ram, host):
        one, other = host.luns()
        yield Pair(one, other, ram, lambda: quiesced(how, other))


@contextmanager
def fc_ports():
    """LUNs behind two remote ports of one FC host."""
    if softfc.missing(("bridge",)):
        pytest.skip("this kernel has no soft FC, or no bridge")
    with ram_host() as (ram, host), iblock("store", host.luns()[0].sd) as store, \
            softfc.soft_fc(luns=0, stores=(store,), second=True) as link:
        one, other = sorted(link.luns(), key=lambda lun: lun.number)
        yield Pair(one, other, ram, link.second_blocked)


def iscsi_lun(port: str) -> Lun | None:
    """The LUN of the session to a port of the target."""
    for connection in Path("/sys/class/iscsi_connection").glob("connection*"):
        session = connection.resolve().parents[2]
        if (connection / "persistent_port").read_text(encoding="ascii").strip() == port:
            for device in SCSI_DEVICES.glob("*:*:*:*"):
                if session in device.resolve().parents:
                    return Host(int(device.name.partition(":")[0])).wait_luns(1)[0]
    return None


@contextmanager
def iscsi_sessions():
    """LUNs of two sessions. In iscsi_tcp each session has a host of its own."""
    @contextmanager
    def blocked():
        write_attr(iscsi.group(2) / "enable", 0)
        try:
            wait_for("the session to be blocked", lambda: state(other) == "blocked", SECONDS)
            yield
        finally:
            write_attr(iscsi.group(2) / "enable", 1)
            wait_for("the session", lambda: state(other) == "running", SECONDS)

    if run("modprobe", "--dry-run", "--quiet", "--all", iscsi.MODULE, iscsi.TARGET_MODULE,
           ok=False).returncode:
        pytest.skip("this kernel has no iSCSI")
    portals = iscsi.PORTAL, iscsi.SECOND
    with ram_host() as (ram, host), iblock("store", host.luns()[0].sd) as store, \
            iscsi.target(store, portals), iscsi.initiator():
        for portal in portals:
            iscsi.login(portal)
        one, other = (wait_for("the LUN", lambda port=portal.partition(":")[2]: iscsi_lun(port))
                      for portal in portals)
        # The command may just have been sent; then iscsi_tcp asks whether the target is there.
        yield Pair(one, other, ram, blocked, timers=3)


def recovery(pair: Pair, one: Lun, other: Lun) -> float:
    """A READ of @one times out twice, while @other is blocked. Returns how long it took."""
    for lun in (one, other):
        (lun.queue / "io_timeout").write_text(str(READ_MS), encoding="ascii")
    with recorded(pair.one) as steps:
        with pair.blocked():
            waits = Reader(other)
            wait_for("the command to wait", waits.sleeps)
            time.sleep(TIMED_OUT)
            before, start = conv.dispatched(pair.one), time.monotonic()
            pair.ram.set("model/service_ns", pair.timers * SLOW)
            try:
                read = Reader(one)
                wait_for("the second READ", lambda: conv.dispatched(pair.one) >= before + 2)
                time.sleep(pair.timers * TIMED_OUT)
            finally:
                pair.ram.set("model/service_ns", 0)
            read.ended()
            took = time.monotonic() - start
            assert waits.is_alive() and waits.sleeps()
        waits.ended()
        # libfc may reset the LUN twice.
        assert steps()[:2] == STEPS and set(steps()) == set(STEPS)
    return took


CASES = {"queue quiesced": lambda: luns_of_one_host("block"),
         "queue stopped": lambda: luns_of_one_host("stop"),
         "state blocked": lambda: luns_of_one_host("blocked"),
         "FC remote port blocked": fc_ports, "iSCSI session blocked": iscsi_sessions}


@pytest.mark.parametrize("case", CASES)
def test_recovery_does_not_wait_for_a_blocked_lun(case):
    """The lower host recovers a LUN while another one is blocked, as soon as for bare disks."""
    with conv.module(io_errors=True), CASES[case]() as pair:
        bare = recovery(pair, pair.one, pair.other)
        uppers = [conv.claim(lun) for lun in (pair.one, pair.other)]
        claimed = recovery(pair, *uppers)
        print(f"{case}, {os.uname().release}: bare {bare:.1f} s, claimed {claimed:.1f} s")
        # Two timers may each expire a second late, on a busy machine more. A recovery that waited
        # for the blocked LUN would not end.
        assert claimed < 2 * bare + 10
        for upper, lower in zip(uppers, (pair.one, pair.other), strict=True):
            above = conv.all_done(upper)
            assert above["lun_resets"] == above["host_resets"] == 0
            conv.release(lower)


def restart(ram: RamDir, lower: Lun, lun: Lun) -> float:
    """A READ ends with "initializing command required", after which the mid-layer's error handler
    starts the unit. Returns how long it took."""
    (lun.sysfs / "scsi_disk" / lun.address / "allow_restart").write_text("1", encoding="ascii")
    before, start = conv.dispatched(lower), time.monotonic()
    ram.arm("sense", count=1, sense=0x020402)
    Reader(lun).ended()
    assert conv.dispatched(lower) >= before + 2
    return time.monotonic() - start


@pytest.mark.smoke
@pytest.mark.parametrize("how, policy", [("block", "direct"), ("blocked", "prio")])
def test_upper_error_handler_runs_beside_a_blocked_lun(how, policy):
    """The mid-layer's error handler begins when no command of the host is in flight. A command for
    a blocked LUN is none, on the upper host as on the lower one."""
    with luns_of_one_host(how) as pair, conv.module(io_errors=True):
        lowers = pair.one, pair.other
        for claimed in (False, True):
            one, other = map(conv.claim, lowers) if claimed else lowers
            if claimed:
                conv.write(conv.host_of(one).sysfs / "smq/policy", policy)
            with pair.blocked():
                waits = Reader(other)
                wait_for("the command to wait", waits.sleeps)
                took = restart(pair.ram, pair.one, one)
                assert waits.is_alive() and waits.sleeps()
            waits.ended()
            print(f"{how}, {policy if claimed else 'bare'}: {took:.1f} s")
        for lower in lowers:
            conv.release(lower)
