# SPDX-License-Identifier: GPL-2.0
"""The storage test of a device: the same steps on the bare LUN, on the LUN claimed by smq_conv, and
on the bare LUN while its host is attached.

Block I/O (kit.stamped) and prepared commands (kit.lanes) run at the same time. For each step the
test prints what the device did; this must be what the device's row (kit.devices) says.
"""
import errno
import os
import random
import time
from collections import Counter
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

import pytest

from . import attach, conv, smqsg
from .devices import LEVELS, Attached, Device
from .host import KernelLog, Lun, wait_for
from .lanes import FIRST, KNOWN_SIZE, Lanes
from .lio import clear_attentions
from .paths import SECONDS, write_by_sg
from .sgio import (RESERVATION_CONFLICT, SG_SCSI_RESET_NO_ESCALATE, UNIT_ATTENTION, Result,
                   SgDev)
from .softfc import missing
from .stamped import Stamped

TUR, READ = bytes(6), bytes.fromhex("28000000000000000100")
RESERVE, RELEASE = bytes.fromhex("160000000000"), bytes.fromhex("170000000000")
# Name, CDB, size of the data-in buffer.
COMMANDS = (
    ("INQUIRY, buffer longer than its data", "120000006000", 512),
    ("unknown VPD page", "1201ee00fc00", 252),
    ("unknown opcode", "2c000000000000000000", 0),
    ("LBA out of range", "2800fffffff000000100", 512),
    ("READ of one block, buffer of eight", "28000000000000000100", 4096),
    ("READ of nothing", "28000000000000000000", 0),
    ("READ CAPACITY", "25000000000000000000", 8),
    ("MODE SENSE", "1a003f00ff00", 255),
    ("REPORT LUNS", "a00000000000000000400000", 64),
)
# The block layer checks timers only once a second, and then aborts each command that is older than
# this.
SHORT_MS = 1
# A command that the device forgets in a reset by ioctl ends only when this timer runs out.
LOST_MS = 3000
# The timeout of prepared commands: if the device loses one, error handling begins after this time.
PREPARED_MS = 5000
LANES_SECONDS = 0.3


def _get(path: Path) -> str:
    return path.read_text(encoding="ascii").strip()


def timeouts(lun: Lun) -> int:
    """How many of a device's commands have timed out."""
    return int(_get(lun.sysfs / "iotmo_cnt"), 16)


@contextmanager
def _all_in_flight(lun: Lun):
    """During the block the policy prio of an attached host does not learn the LUN's depth: a device
    that is not slow ends its commands too early for a timeout if it gets few at a time."""
    learn = conv.host_of(lun).sysfs / "smq_prio/learn"
    conv.write(learn, 0)
    try:
        yield
    finally:
        conv.write(learn, 1)


@contextmanager
def timeout(lun: Lun, milliseconds: int):
    """Sets the timeout of the disk's commands during the block, and lets sd retry them without
    limit: with a short timeout a command may time out more often than sd's default of five retries
    allows."""
    retries, = (lun.sysfs / "scsi_disk").glob("*/max_retries")
    with ExitStack() as stack:
        for knob, value in ((lun.queue / "io_timeout", milliseconds), (retries, -1)):
            stack.callback(knob.write_text, _get(knob), encoding="ascii")
            knob.write_text(str(value), encoding="ascii")
        yield


def _counts(ends: Counter) -> str:
    return ", ".join(f"{word} {count}" for word, count in sorted(ends.items()))


class Storage:
    """A device under test, its expected data, and the steps that were done on it."""

    def __init__(self, device: Device, attached: Attached, known: bytes):
        self.device, self.attached, self._known = device, attached, known
        self._stamped = Stamped()
        # The steps done with a variant: bare, converted or attached.
        self._did: list[str] = []
        lun = self.ready(attached.lun())
        with SgDev(lun.sg) as plain:
            write_by_sg(plain, FIRST, known)
        self._stamped.fill(lun)

    @staticmethod
    def ready(lun: Lun) -> Lun:
        """Clears a LUN's unit attentions."""
        smqsg.clear_attentions(lun.sg)
        return lun

    def _all_done(self, column: str, between: str = "; ") -> None:
        """Asserts that exactly the steps in the device's row were done."""
        did = between.join(self._did)
        self._did.clear()
        print(f"{self.device.name}: {column}: {did}")
        assert did == self.device.cells()[column]

    def verified(self, lun: Lun) -> None:
        """Checks all data that block I/O has written, then the known data by prepared commands."""
        self._stamped.check(self.ready(lun))
        with Lanes([lun], [self._known]) as lanes:
            lanes.go(LANES_SECONDS, writing=True)
            # stop() waits for all lanes in flight, however slow the machine is.
            assert set(lanes.stop()) == {"GOOD"}
            lanes.written()
        smqsg.idle(smqsg.node(lun))

    def _busy(self, lun: Lun):
        """Runs block I/O during the with block. It writes and compares only if the device's row
        allows WRITEs in faults."""
        writes = self.device.writes
        return self._stamped.running(lun, writes=writes, compare=writes)

    def _reset(self, sg: SgDev, name: str) -> bool:
        """Resets at level @name; returns whether it succeeded. A level that the row has is tried
        again for 20 s, because a reset also fails while other error handling runs."""
        end = time.monotonic() + 20
        while True:
            try:
                sg.reset(LEVELS[name] | SG_SCSI_RESET_NO_ESCALATE)
                return True
            except OSError as error:
                assert error.errno == errno.EIO
                if name not in self.device.resets or time.monotonic() > end:
                    print(f"{self.device.name}: no {name} reset")
                    return False
                time.sleep(0.2)

    def _aborts(self, variant: str, lun: Lun, lower: Lun, lanes: Lanes) -> None:
        """Makes commands time out, if the row has aborts. I/O must continue."""
        before, writes = timeouts(lower), self.device.writes
        if self.device.aborts:
            with self.attached.slow(), timeout(lun, SHORT_MS), (
                    _all_in_flight(lun) if variant == "attached" else nullcontext()):
                wait_for("timeouts", lambda: lanes.go(LANES_SECONDS, writing=writes) and
                         timeouts(lower) > before, 20)
            self._did.append("aborts")
            print(f"{self.device.name}, {variant}: {timeouts(lower) - before} timeouts")
        if not writes:
            lanes.stop()
        self._stamped.wait(50)

    def faults(self, variant: str, lun: Lun, lower: Lun) -> None:
        """Causes aborts, and resets the lower device at each level, with block I/O and prepared
        commands in flight. No block I/O may fail, and each prepared command must end once."""
        writes = self.device.writes
        with Lanes([lun], [self._known], PREPARED_MS) as lanes, SgDev(lower.sg) as sg, \
                timeout(lun, LOST_MS):
            with self._busy(lun):
                self._stamped.wait(50)
                self._aborts(variant, lun, lower, lanes)
                done = []
                for name in self.device.levels(variant):
                    if writes:
                        lanes.go(0.1, writing=True)
                    if self._reset(sg, name):
                        done.append(name)
                    self._stamped.wait(20)
                self._did.append(f"resets: {', '.join(done) or 'none'}")
            assert not self._stamped.errors, self._stamped.errors
            print(f"{self.device.name}, {variant}: {self._stamped.total} block I/Os; "
                  f"{_counts(lanes.stop())}")
        self.verified(lun)

    def pulled(self, variant: str, lun: Lun) -> None:
        """Removes the device while block I/O and prepared commands are in flight, and brings it
        back. Each command must end."""
        writes = self.device.writes
        with Lanes([lun], [self._known]) as lanes:
            with self._busy(lun):
                self._stamped.wait(50)
                lanes.go(LANES_SECONDS, writing=writes)
                self.attached.pull()
                wait_for("the removal of the LUN", lambda: not lun.sysfs.exists(), SECONDS)
                lanes.go(LANES_SECONDS, writing=writes)
            ends = lanes.stop()
            assert len(self._stamped.errors) and ends[f"errno {errno.ENODEV}"], ends
            print(f"{self.device.name}, {variant}: {self._stamped.total} block I/Os, "
                  f"{len(self._stamped.errors)} errors; {_counts(ends)}")
        self._did.append(self.device.pulled)
        self.attached.back()

    def bare(self) -> None:
        """Runs all steps on the bare device."""
        self._did.clear()
        lun = self.ready(self.attached.lun())
        self.verified(lun)
        self.faults("bare", lun, lun)
        self.pulled("bare", lun)
        self.verified(self.attached.lun())
        self._all_done("bare")

    def _ends(self, dev: SgDev, below: SgDev, rival: SgDev | None) -> dict[str, Result]:
        """Sends the commands whose results must be the same on the bare and on the claimed LUN, and
        returns the results by name."""
        found = {name: dev.cmd(bytes.fromhex(raw), din=size) for name, raw, size in COMMANDS}
        found["parameter list"] = dev.cmd(bytes.fromhex("151000000c00"), dout=bytes([0xff] * 12))
        if "device" in self.device.resets:
            below.reset(LEVELS["device"] | SG_SCSI_RESET_NO_ESCALATE)
            for number in range(3):
                found[f"after a reset, {number}"] = dev.cmd(TUR)
        if rival:
            clear_attentions(rival)
            taken = rival.cmd(RESERVE)
            assert taken.good, taken
            for number in range(2):
                found[f"reserved by another, {number}"] = dev.cmd(TUR)
            found["READ, reserved"] = dev.cmd(READ, din=512)
            assert rival.cmd(RELEASE).good
        found["at the end"] = dev.cmd(READ, din=512)
        return found

    def compare_bare(self) -> None:
        """Sends the same commands to the bare and to the claimed LUN. Their results must be the
        same in each field."""
        self._did.clear()
        rival = self.attached.rival and self.ready(self.attached.rival())
        with conv.module(io_errors=True), (
                SgDev(rival.sg) if rival else nullcontext()) as other:
            lower = self.ready(self.attached.lun())
            with SgDev(lower.sg) as dev:
                bare = self._ends(dev, dev, other)
            upper = self.ready(conv.claim(lower))
            with SgDev(upper.sg) as dev, SgDev(lower.sg) as below:
                found = self._ends(dev, below, other)
            for name, result in bare.items():
                assert found[name] == result, f"{name}: bare {result}, converted {found[name]}"
            conv.all_done(upper)
            conv.release(lower)
        for name, result in bare.items():
            print(f"{self.device.name}, exact: {name}: {result}")
        keys = {result.triple[0] for name, result in bare.items()
                if "after" in name and result.triple}
        for word, seen in (("opcode", bare["unknown opcode"].triple),
                           ("LBA", bare["LBA out of range"].triple),
                           ("residual", any(result.status == 0 and result.resid
                                            for result in bare.values())),
                           ("unit attention", UNIT_ATTENTION in keys),
                           ("reservation conflict", any(
                               result.status == RESERVATION_CONFLICT
                               for result in bare.values()))):
            self._did += [word] if seen else []
        self._all_done("same ends", ", ")

    def converted(self) -> None:
        """Runs all steps on the claimed device, and releases it."""
        self._did.clear()
        with conv.module(io_errors=True):
            lower = self.attached.lun()
            upper = conv.claim(lower)
            self.verified(upper)
            self.faults("converted", upper, lower)
            self.pulled("converted", upper)
            lower = self.attached.lun()
            upper = conv.claim(lower)
            self.verified(upper)
            conv.all_done(upper)
            lower = conv.release(lower)
            self.verified(lower)
            self._did.append("released")
        self._all_done("converted")

    def in_place(self) -> None:
        """Runs all steps on the device while its host is attached, with the policy prio, and
        detaches the host."""
        def attached() -> Lun:
            lun = self.attached.lun()
            host = conv.host_of(lun)
            if attach.name(host) not in attach.attached():
                attach.attach(host)
            conv.write(host.sysfs / "smq/policy", "prio")
            return lun
        self._did.clear()
        with conv.module(io_errors=True):
            lun = attached()
            self.verified(lun)
            self.faults("attached", lun, lun)
            self.pulled("attached", lun)
            lun = attached()
            self.verified(lun)
            attach.all_done(conv.host_of(lun))
            attach.detach(conv.host_of(lun))
            self.verified(lun)
            self._did.append("detached")
        self._all_done("attached")


@contextmanager
def _storage(device: Device, known: bytes):
    """Yields a device while smq_sg is loaded. At the end the kernel log must have no fault."""
    with KernelLog() as log:
        with smqsg.module(), device.make() as attached:
            yield Storage(device, attached, known)
        assert not log.faults(), "the kernel log reports a bug:\n" + log.tail(80)


def device_fixture(devices: dict[str, Device]):
    """Makes the fixture of a test file, which yields these devices one after the other."""
    @pytest.fixture(scope="module", name="storage", params=devices.values(),
                    ids=lambda device: device.name.replace(", ", "-").replace(" ", "-"))
    def made(request):
        lacking = missing() if request.param.name == "soft FC" else ""
        if lacking:
            pytest.skip(f"Linux {os.uname().release} has no soft FC: no module {lacking}")
        with _storage(request.param, random.Random(request.param.name).randbytes(KNOWN_SIZE)
                      ) as found:
            yield found
    return made
