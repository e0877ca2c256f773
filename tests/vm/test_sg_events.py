# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 7.2
"""Commands in flight and waiting, by each way of sending them (kit.ways), when something happens.

A device takes DEPTH commands at a time, or none, because other LUNs use all tags of the host. So
some commands wait, and then an event comes. In each case the same must hold: each command ends
once; those that the event ends have its errno, and all others end GOOD; a command has written its
block, or filled its memory, exactly if it ended GOOD; and afterwards the device takes commands as
before.
"""
import ctypes
import errno
import os
import signal
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from kit import cdb, sgio, smqsg
from kit.child import as_nobody, ended, spawn
from kit.host import Lun, counted, run, wait_for
from kit.quiesce import quiescer, set_state
from kit.ramdir import RamDir, ram_host
from kit.sanitizing import SANITIZING, TIME_FACTOR
from kit.slots import BLOCK, SlotFile, command
from kit.slowdisk import DEPTH, slow_disk, straight_disk
from kit.uring import Ring
from kit.ways import WAYS, Cmd, End

COUNT = 12
SERVICE = 1.2       # seconds that a command takes
LATE = 4.0          # seconds by which a busy machine may be late
TUR = cdb.plain(cdb.TEST_UNIT_READY)
pytestmark = [pytest.mark.usefixtures("sg_module"), pytest.mark.limit(120)]
SMOKE = {"run", "batch", "adhoc", "v3", "run-polled"}


def ways(*names):
    """Runs a test for these ways, as smoke tests for those in SMOKE."""
    return pytest.mark.parametrize("way", [
        pytest.param(name, marks=pytest.mark.smoke) if name in SMOKE else name
        for name in names or WAYS])


# Ways whose commands wait for a tag without a sleeping thread.
TAG_WAYS = "run", "run-async", "batch", "adhoc"


@dataclass
class Full:
    """A LUN that takes @room of the commands that are sent to it; free() ends that."""
    lun: Lun
    path: str
    room: int
    dir: RamDir
    removal: threading.Thread | None = None

    def free(self) -> None:
        """Lets the device be fast from now on."""
        self.dir.set("model/service_ns", 0)

    def wait(self, way) -> int:
        """Waits until as many commands as can be are in flight, and the others wait. Returns how
        many entries wait."""
        left = COUNT - self.room
        entries = left if way.alone else 1
        wait_for("commands in flight and waiting", lambda: (
            smqsg.attr(self.path, "inflight"), smqsg.attr(self.path, "waiting")) == (
                self.room, entries))
        return entries


@contextmanager
def no_place(polled: bool = False):
    """A slow LUN whose depth is DEPTH."""
    with slow_disk(poll_queues=2 if polled else 0) as disk:
        disk.slow(round(SERVICE * 1e9))
        yield Full(disk.lun, disk.path, DEPTH, disk.dir)


@contextmanager
def no_tag(_polled: bool = False):
    """A LUN of a host whose tags other LUNs use. On a host on which a policy may hold commands, two
    LUNs use all tags."""
    with ram_host(depth=DEPTH, hw_queues=1, luns=3) as (host_dir, host), ExitStack() as stack:
        for lun in host.luns():
            # With an elevator a request would get its tag only when it is dispatched.
            (lun.queue / "scheduler").write_text("none", encoding="ascii")
        *others, last = (smqsg.node(lun) for lun in host.luns())
        ring = stack.enter_context(Ring())
        host_dir.set("model/service_ns", round(2 * SERVICE * 1e9))
        for path in others:
            file = stack.enter_context(SlotFile(path, DEPTH))
            file.prepare([command(TUR)] * DEPTH)
            file.push_batch(ring, range(DEPTH))
        ring.submit()
        yield Full(host.luns()[-1], last, 0, host_dir)
        host_dir.set("model/service_ns", 0)
        assert ring.wait(2) == [(0, 0)] * 2
        if os.path.exists(last):
            smqsg.idle(last)


SCARCE = {"place": no_place, "tag": no_tag}


def block(number: int) -> bytes:
    """The data that command @number writes."""
    return bytes([number + 1]) * BLOCK


def writes() -> list[Cmd]:
    """COUNT commands, each of which writes a block."""
    return [Cmd(cdb.blocks(cdb.WRITE_10, number, 1), dout=block(number))
            for number in range(COUNT)]


def both() -> list[Cmd]:
    """COUNT commands: every second one reads a block of zeroes."""
    return [Cmd(cdb.blocks(cdb.READ_10, COUNT, 1), BLOCK) if number % 2 else cmd
            for number, cmd in enumerate(writes())]


def written(lun: Lun) -> list[int]:
    """The commands whose blocks are written. No block has other data than its own."""
    with sgio.SgDev(lun.sg) as dev:
        smqsg.clear_attentions(lun.sg)
        got = dev.cmd(cdb.blocks(cdb.READ_10, 0, COUNT), din=COUNT * BLOCK)
    assert got.good, got
    found = [got.data[at:at + BLOCK] for at in range(0, len(got.data), BLOCK)]
    assert all(data in (block(number), bytes(BLOCK)) for number, data in enumerate(found))
    return [number for number, data in enumerate(found) if any(data)]


def works(full: Full, name: str) -> None:
    """Checks that the device takes commands as before."""
    full.free()
    wait_for("nothing in flight or waiting", lambda: not any(
        smqsg.attr(full.path, what) for _ in range(3) for what in ("waiting", "inflight")))
    smqsg.clear_attentions(full.lun.sg)
    with WAYS[name](full.path, writes()) as way:
        way.send()
        assert {end.outcome for end in way.ends()} == {0}
    assert written(full.lun) == list(range(COUNT))


# Results.

SHORT = Cmd(cdb.blocks(cdb.READ_10, 0, 8), 8 * BLOCK)
RESULTS = {
    "good": (None, {}, SHORT), "data-out": (None, {}, Cmd(cdb.blocks(cdb.WRITE_10, 9, 2),
                                                          dout=bytes(range(256)) * 4)),
    "no-data": (None, {}, Cmd(TUR)), "odd": (None, {}, Cmd(cdb.inquiry(36), 36)),
    "beyond": (None, {}, Cmd(cdb.blocks(cdb.READ_10, 1 << 30, 1), BLOCK)),
    "short": ("short", {}, SHORT), "sense": ("sense", {"sense": 0x031100}, SHORT),
    "status": ("status", {"status": sgio.RESERVATION_CONFLICT}, SHORT),
    "retried": ("task_set_full", {}, SHORT),
}


@pytest.fixture(name="fast")
def _fast(sg_module):
    """A fast LUN with poll queues; its first blocks have data."""
    with slow_disk(poll_queues=2) as disk:
        with sgio.SgDev(disk.lun.sg) as dev:
            assert dev.cmd(cdb.blocks(cdb.WRITE_10, 0, 8), dout=os.urandom(8 * BLOCK)).good
        yield disk


def check_results(fast, way):
    """Sends each of RESULTS four times, the third time with its fault."""
    for name, (fault, settings, cmd) in RESULTS.items():
        with WAYS[way](fast.path, [cmd]) as one, sgio.SgDev(fast.lun.sg) as dev:
            for turn in range(4):
                def arm(turn=turn, fault=fault, settings=settings):
                    fast.dir.arm(fault if fault and turn == 2 else "none", count=1, **settings)
                arm()
                got = dev.cmd(cmd.raw, cmd.din, cmd.dout)
                arm()
                one.send()
                end, = one.ends()
                bad = got.status | got.host << 8
                assert end == End(bad, got.resid, got.triple or (0, 0, 0),
                                  b"" if bad else got.data), (name, turn, got)
                assert bool(bad or got.resid) == (
                    name == "beyond" or turn == 2 and name in ("short", "sense", "status"))
            if cmd.dout:
                assert dev.cmd(cdb.blocks(cdb.READ_10, 9, 2), 1024).data == cmd.dout


@pytest.mark.parametrize("own", ("off", "on"))
@ways()
def test_each_way_has_the_result_that_sg_has(fast, way, own):
    """Status, host byte, residual, sense and data are those of SG_IO on sg's node. No result
    affects the next command, which may have the same request."""
    (smqsg.CLASS / Path(fast.path).name / "own_queue").write_text(own, encoding="ascii")
    # Its slots let the node create its own queue.
    with SlotFile(fast.path, 1):
        assert smqsg.attr(fast.path, "own_queue_exists") == (own == "on")
        check_results(fast, way)


@pytest.mark.parametrize("kind, way", [
    ("lost", "run"), ("lost", "run-polled"), ("lost", "batch"), ("lost", "batch-polled"),
    ("lost", "ioctl"), ("lost", "adhoc"), ("lost", "adhoc-polled"), ("lost", "v3"), ("lost", "v4"),
    ("lost", "write"), ("timeout", "run"), ("timeout", "run-polled"), ("timeout", "adhoc")])
def test_timeout_affects_only_its_own_command(fast, kind, way):
    """Error handling begins when a command's own timeout expires, whether the device lost the
    command or is late."""
    before = int(fast.host.stats()["timeouts"])
    with WAYS[way](fast.path, writes(), timeout_ms=1000) as sent:
        # Later commands have the requests of these.
        sent.send()
        assert {end.outcome for end in sent.ends()} == {0}
        fast.dir.arm(kind, count=1, delay_ms=4000)
        start = time.monotonic()
        sent.send()
        found = Counter(end.outcome for end in sent.ends(40))
    assert time.monotonic() - start > 0.9
    assert found == {0: COUNT - 1, sgio.DID_TIME_OUT << 8: 1}
    assert fast.host.stats()["timeouts"] == before + 1
    fast.dir.arm("none")
    smqsg.clear_attentions(fast.lun.sg)


@pytest.mark.parametrize("disk", (slow_disk, straight_disk), ids=("doorbell", "no-doorbell"))
@ways("run", "batch", "adhoc", "v3")
def test_no_command_reaches_a_blocked_device(way, disk):
    """Commands wait while the device is quiesced or blocked, or its host is blocked, and none
    reaches the driver, with new requests and with those that are kept. Then each ends."""
    # Slots let the node create its own queue.
    with disk() as device, quiescer(), SlotFile(device.path, 1), \
            WAYS[way](device.path, [Cmd(TUR)] * COUNT) as sent:
        for state in ("quiesce", "block", "blocked", "host") * 2:
            before = counted(device.lun, "iodone_cnt")
            set_state(state, device.lun.address)
            try:
                sent.send()
                # Faulty code would have sent the commands within this time.
                time.sleep(0.3)
                assert counted(device.lun, "iodone_cnt") == before, state
            finally:
                set_state(state, "")
            assert {end.outcome for end in sent.ends()} == {0}


@ways("run", "batch", "ioctl", "adhoc", "v3", "v4", "write")
def test_rights(fast, way):
    """A user without CAP_SYS_RAWIO may read, with a file open for writing also write, and send no
    other command. Root may send any command, also with a file open for reading."""
    read, write = SHORT, Cmd(cdb.blocks(cdb.WRITE_10, 20, 1), dout=block(0))
    others = [Cmd(bytes(raw)) for raw in (
        (0xc1, *bytes(9)), (0x5e, *bytes(9)), (0x3b, *bytes(9)), (0x48, 2, *bytes(8)),
        (0xa4, 10, *bytes(10)), (0x1b, *bytes(5)))]
    os.chmod(fast.path, 0o666)

    def errors(flags, cmds):
        found = []
        for cmd in cmds:
            with WAYS[way](fast.path, [cmd], flags=flags) as one:
                if not one.refused:
                    one.send()
                found += [min(end.outcome, 0) for end in one.ends()]
        return found

    def work():
        denied = -errno.EPERM
        if way != "write":      # write() needs a file that is open for writing.
            assert errors(os.O_RDONLY, [Cmd(TUR), read, write]) == [0, 0, denied]
        assert errors(os.O_RDWR, [Cmd(TUR), read, write]) == [0, 0, 0]
        assert errors(os.O_RDWR, others) == [denied] * len(others)
        return 0
    assert as_nobody(work) == 0
    flags = os.O_RDWR if way == "write" else os.O_RDONLY
    assert errors(flags, [write, *others]) == [0] * (1 + len(others))


# Events that end the waiting of commands. Each returns the errno of the commands that waited; 0:
# they are sent later.

def nothing(full, _way, _entries):
    """All commands are sent one after the other."""
    full.free()
    return 0


def cancel(_full, way, entries):
    """SMQ_SG_CANCEL ends all waiting commands of the file."""
    assert way.file.cancel() == (0, entries)
    assert way.file.cancel() == (0, 0)
    return -errno.ECANCELED


def remove(full, _way, _entries):
    """The device is removed. The removal may have to wait until commands have ended."""
    full.removal = threading.Thread(target=lambda: (full.lun.sysfs / "delete").write_text("1"))
    full.removal.start()
    return -errno.ENODEV


def reset(full, _way, _entries):
    """A LUN reset ends the commands in flight, or they are repeated."""
    with sgio.SgDev(full.lun.sg) as dev:
        dev.reset(sgio.SG_SCSI_RESET_DEVICE)
    full.free()
    return 0


FEW = "run", "run-polled", "batch", "v3", "write"
# Those that differ in more than the kind of ring.
MAIN = (*FEW, "run-async", "batch-polled", "ioctl", "adhoc", "adhoc-polled", "v4")


def cases(table, tag=True):
    """@table: for each event the ways that it is tested with, for commands that wait for a place.
    With @tag those of TAG_WAYS also wait for a tag. SMOKE's are smoke tests."""
    found = []
    for event, names in table.items():
        for name in names:
            for scarce in SCARCE if tag and name in TAG_WAYS else ("place",):
                found.append(pytest.param(
                    event, name, scarce, id=f"{getattr(event, '__name__', event)}-{name}-{scarce}",
                    marks=[pytest.mark.smoke] if name in SMOKE else []))
    # Under the sanitizers all would take half an hour.
    return pytest.mark.parametrize("event, way, scarce", found[::4] if SANITIZING else found)


@cases({nothing: TAG_WAYS, cancel: MAIN, remove: MAIN, reset: FEW})
def test_event_ends_waiting_commands(event, way, scarce):
    with SCARCE[scarce](WAYS[way].polled) as full, WAYS[way](full.path, both()) as sent:
        sent.send()
        error = event(full, sent, full.wait(sent))
        found = [end.outcome for end in sent.ends()]
        # Those that were in flight may have been ended by the removal or the reset.
        good = [number for number, outcome in enumerate(found) if outcome == 0 or
                outcome > 0 and event in (remove, reset)]
        assert found.count(error) == COUNT - len(good) if error else len(good) == COUNT, found
        assert not error or len(good) == full.room, found
        moved = {number for number in range(1, COUNT, 2) if sent.touched(number)}
        ended_good = {number for number in range(1, COUNT, 2) if found[number] == 0}
        assert moved == ended_good or event is reset and moved > ended_good
        if event is remove:
            full.removal.join()
            assert not os.path.exists(full.path)
            sent.send()
            assert {end.outcome for end in sent.ends()} == {-errno.ENODEV}
            return
        full.free()
        assert event is reset or written(full.lun) == [
            number for number in good if not number % 2]
        works(full, way)


@cases({"late": [name for name in MAIN if WAYS[name].alone]})
def test_command_that_waits_too_long_is_not_sent(event, way, scarce):
    """A command whose timeout passes while it waits is not sent; one without a timeout waits on. (A
    batch waits as a whole, without the timeouts of its slots.)"""
    assert event
    with SCARCE[scarce](WAYS[way].polled) as full, WAYS["run"](full.path, writes()) as first, \
            WAYS[way](full.path, writes(), timeout_ms=300) as late:
        first.send()
        full.wait(first)
        late.send()
        assert {end.outcome for end in late.ends(SERVICE)} == {-errno.ETIMEDOUT}
        full.free()
        assert {end.outcome for end in first.ends()} == {0}
        works(full, way)


@cases({"ring": [name for name in WAYS if name not in ("ioctl", "v3", "v4", "write")],
        "file": ("run", "batch", "adhoc", "run-polled")})
def test_all_commands_run_after_close(event, way, scarce):
    """All commands run, even those in flight or waiting when the ring or the file is closed."""
    with SCARCE[scarce](WAYS[way].polled) as full:
        sent = WAYS[way](full.path, writes())
        sent.send()
        full.wait(sent)
        if event == "ring":
            sent.ring.close()
        else:
            sent.file.close()
        full.free()
        wait_for("nothing in flight or waiting", lambda: not any(
            smqsg.attr(full.path, what) for _ in range(3) for what in ("waiting", "inflight")))
        if event == "file":
            sent.ring.wait(COUNT if sent.alone else 1)
        assert written(full.lun) == list(range(COUNT))
        sent.close()
        works(full, way)


# Events of the process that sent the commands.

def stop(pid):
    """Sends SIGSTOP, and then SIGCONT before the process has stopped. Both signals have their
    default action."""
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.1)
    os.kill(pid, signal.SIGCONT)


def debug(pid):
    """Attaches a debugger, and detaches it."""
    seize, interrupt, detach = 0x4206, 0x4207, 17
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    assert ptrace(seize, pid, None, None) == 0
    assert ptrace(interrupt, pid, None, None) == 0
    # The process stops only when it returns to user space.
    wait_for("the stop", lambda: os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT))
    assert ptrace(detach, pid, None, None) == 0


def freeze(pid):
    """Freezes the cgroup of the process for a while."""
    with tempfile.TemporaryDirectory() as top:
        run("mount", "-t", "cgroup2", "none", top)
        try:
            group = Path(top) / "smq_sg"
            group.mkdir(exist_ok=True)
            (group / "cgroup.procs").write_text(str(pid), encoding="ascii")
            (group / "cgroup.freeze").write_text("1", encoding="ascii")
            time.sleep(0.1)
            (group / "cgroup.freeze").write_text("0", encoding="ascii")
        finally:
            run("umount", "-l", top)


def handled(pid):
    """Sends a signal for which the process has a handler."""
    os.kill(pid, signal.SIGUSR1)


def sender(way: str, full: Full, how: str = ""):
    """The process: sends commands; then ends as @how says, or when its commands have ended, with
    status 1 if one is not GOOD."""
    def work():
        signal.signal(signal.SIGUSR1, lambda *_: None)
        sent = WAYS[way](full.path, writes())
        if way == "ioctl":
            # In this thread, which gets the signals.
            return int(sent.file.run(range(COUNT)) != (0, 0))
        sent.send()
        if how:
            full.wait(sent)
        if how == "exec":
            os.execv("/bin/true", ["true"])
        if how == "exit":
            os._exit(0)
        return int(any(end.outcome for end in sent.ends(60)))
    return work


ENDED = ("run-registered", "run-sqpoll", "run-polled", "batch-registered", "adhoc-polled",
         "adhoc-sqpoll", "adhoc-defer")


@cases({"SIGKILL": WAYS, "exec": ENDED, "exit": ENDED})
def test_waiting_commands_of_an_ended_process_are_not_sent(event, way, scarce):
    """While some of its commands are in flight and others wait, a process exits, is killed or
    executes another program. The commands in flight complete."""
    with SCARCE[scarce](WAYS[way].polled) as full:
        began = time.monotonic()
        pid = spawn(sender(way, full, "" if event == "SIGKILL" else event))
        if event == "SIGKILL":
            full.wait(WAYS[way])
            os.kill(pid, signal.SIGKILL)
        killed = time.monotonic()
        assert ended(pid, 60) == (-signal.SIGKILL if event == "SIGKILL" else 0)
        # io_uring waits until a process's commands have ended; SG_IO does not.
        took = time.monotonic() - killed
        assert took < SERVICE + LATE * TIME_FACTOR
        if way in ("v3", "v4", "ioctl") and took < SERVICE / 2:
            assert smqsg.attr(full.path, "inflight") == full.room
        wait_for("nothing waiting", lambda: not smqsg.attr(full.path, "waiting"), LATE)
        # In each SERVICE seconds the device takes as many commands as it has room for.
        rounds = 1 + (time.monotonic() - began) // SERVICE
        smqsg.idle(full.path)
        full.free()
        assert full.room <= len(written(full.lun)) <= min(full.room * rounds, COUNT - 1)
        works(full, way)


@cases({stop: ("run-defer", "batch", "ioctl", "adhoc", "v3", "write"), debug: ("ioctl", "v3"),
        freeze: ("ioctl", "v3"), handled: ("run", "v3", "write")}, tag=False)
def test_all_commands_of_a_process_that_goes_on_are_sent(event, way, scarce):
    """An event that does not end the process ends no command. (A signal with a handler ends
    SMQ_SG_RUN: test_signal_ends_a_run_with_eintr has that.)"""
    with SCARCE[scarce]() as full:
        pid = spawn(sender(way, full))
        full.wait(WAYS[way])
        event(pid)
        full.free()
        assert ended(pid, 60) == 0
        assert written(full.lun) == list(range(COUNT))


@cases({"SIGCONT": ("run", "batch", "adhoc"), "SIGKILL": ("adhoc",), "remove": ("adhoc",)})
def test_commands_are_sent_while_their_process_is_stopped(event, way, scarce):
    """Commands are sent, and give back places and tags, while their process is stopped. It finds
    the results when it continues. Meanwhile the device can be removed."""
    with SCARCE[scarce]() as full:
        pid = spawn(sender(way, full))
        full.wait(WAYS[way])
        os.kill(pid, signal.SIGSTOP)
        wait_for("the process to stop",
                 lambda: Path(f"/proc/{pid}/stat").read_text().split()[2] == "T")
        if event == "remove":
            deleted = spawn(lambda: (full.lun.sysfs / "delete").write_text("1") * 0)
            try:
                assert ended(deleted) == 0
            finally:
                os.kill(pid, signal.SIGCONT)
            assert ended(pid) == 1
            return
        works(full, way)
        os.kill(pid, getattr(signal, event))
        assert ended(pid) == (0 if event == "SIGCONT" else -signal.SIGKILL)
