# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 7.2
"""Ad hoc commands of smq_sg that wait for a tag. The process that submitted a command may be
stopped or may have ended when the command gets the tag."""
import errno
import os
import resource
import signal
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from kit import cdb, smqsg
from kit.adhoc import push_adhoc
from kit.child import become_nobody, ended, spawn
from kit.host import Lun, wait_for
from kit.memory import PAGE, Memory
from kit.ramdir import ram_host
from kit.slots import SlotFile
from kit.slowdisk import opened
from kit.uring import SETUP_CQE32, SETUP_SQE128, Ring

TUR = cdb.plain(cdb.TEST_UNIT_READY)
# How long other commands hold the host's two tags, in ns.
HELD = 2_000_000_000
pytestmark = pytest.mark.usefixtures("sg_module")


@dataclass
class Waiting:
    """A process whose command waits for a tag, the command's LUN, and the files whose commands have
    the tags."""
    pid: int
    lun: Lun
    others: list[SlotFile]

    def signal(self, number: int) -> None:
        """Sends the process a signal."""
        os.kill(self.pid, number)

    def stop(self) -> None:
        """Stops the process."""
        self.signal(signal.SIGSTOP)
        state = Path(f"/proc/{self.pid}/stat")
        wait_for("the process to stop", lambda: state.read_text().split()[2] == "T")


def one_command(path: str, notify: int, then: Callable[[Ring], int]) -> Callable[[], int]:
    """Returns the function that the process runs: it submits one command, writes a byte to the
    descriptor @notify, and returns the result of @then(ring)."""
    def work():
        with SlotFile(path) as file, Ring(4, SETUP_SQE128 | SETUP_CQE32) as ring:
            raw = push_adhoc(ring, file.fd, TUR)
            ring.submit()
            os.write(notify, b"x")
            status = then(ring)
            del raw
            return status
    return work


def one_vectored(path: str, notify: int, then: Callable[[Ring], int]) -> Callable[[], int]:
    """As one_command(), but the command is an INQUIRY with an iovec. As soon as the command is
    submitted, the process changes the iovec to other memory."""
    def work():
        area, length = Memory(PAGE), 36
        first, second = PAGE // 4, PAGE // 2
        with SlotFile(path) as file, Ring(4, SETUP_SQE128 | SETUP_CQE32) as ring:
            area[:16] = struct.pack("<QQ", area.address + first, length)
            raw = push_adhoc(ring, file.fd, bytes((0x12, 0, 0, 0, length, 0)), 0, area, 0, length,
                             iovecs=1)
            ring.submit()
            area[:16] = struct.pack("<QQ", area.address + second, length)
            os.write(notify, b"x")
            status = then(ring)
            del raw
            untouched = bytes(length)
            return status or int(area[first:first + length] == untouched or
                                 area[second:second + length] != untouched)
    return work


def one_batch(path: str, notify: int, then: Callable[[Ring], int]) -> Callable[[], int]:
    """As one_command(), but with a batch of 64 commands."""
    def work():
        with opened(path) as file, Ring() as ring:
            file.push_batch(ring, range(64))
            ring.submit()
            os.write(notify, b"x")
            return then(ring)
    return work


def answer(ring: Ring) -> int:
    """Waits for the command; returns its errno."""
    return -ring.wait(1, 30)[0][1]


def closed(ring: Ring) -> int:
    """Closes the ring before the command has ended. Returns later, so that the process still
    runs when the command gets its tag."""
    ring.close()
    time.sleep(HELD / 1e9)
    return 0


@contextmanager
def waiting_command(then: Callable[[Ring], int] = answer, send=one_command) -> Iterator[Waiting]:
    """Yields a process whose command waits: smq_sg's dispatcher sleeps until it gets a tag for the
    command."""
    with ExitStack() as stack:
        host_dir, host = stack.enter_context(ram_host(depth=1, hw_queues=1, luns=3))
        luns = host.luns()
        for lun in luns:
            # A scheduler would have tags of its own.
            (lun.queue / "scheduler").write_text("none", encoding="ascii")
        path, *others = (smqsg.node(lun) for lun in luns)
        files = [stack.enter_context(opened(other, 2)) for other in others]
        ring = stack.enter_context(Ring())
        host_dir.set("model/service_ns", HELD)
        for number, file in enumerate(files):
            file.push(ring, number)
        ring.submit()
        wait_for("the commands that take the tags", lambda: int(host.attr("smq/inflight")) == 2)
        ready, notify = os.pipe()
        pid = spawn(send(path, notify, then))
        try:
            assert os.read(ready, 1) == b"x"
            # The command has no place yet: the dispatcher sleeps for a tag first.
            wait_for("the command to wait", lambda: smqsg.attr(path, "waiting") == 1 and
                     not smqsg.attr(path, "inflight"))
            assert int(host.attr("smq/inflight")) == 2
            yield Waiting(pid, luns[0], files)
            assert sorted(ring.wait(2)) == [(0, 0), (1, 0)]
        finally:
            os.close(ready)
            os.close(notify)
            if Path(f"/proc/{pid}").exists():
                os.kill(pid, signal.SIGKILL)
                ended(pid)
        if os.path.exists(path):
            smqsg.idle(path)


def wait_ended(process):
    """Waits until the process's command neither waits nor is in flight. The process may be
    stopped."""
    path = smqsg.node(process.lun)
    wait_for("the command to get its tag", lambda: not smqsg.attr(path, "waiting"))
    smqsg.idle(path)


@pytest.mark.smoke
def test_a_command_is_sent_once_a_tag_is_free():
    with waiting_command() as process:
        assert ended(process.pid) == 0


def test_iovecs_are_read_at_submission():
    """smq_sg reads iovecs at the submission: the program may change them afterwards, even before
    the command is sent."""
    with waiting_command(send=one_vectored) as process:
        assert ended(process.pid) == 0


@pytest.mark.smoke
def test_a_command_is_sent_while_its_process_is_stopped():
    """A command is sent while its process is stopped. After the command has ended, other commands
    can have its place and its tag. The process finds the result when it continues."""
    with waiting_command() as process:
        process.stop()
        wait_ended(process)
        # These commands need both tags at once.
        with Ring() as ring:
            for number, file in enumerate(process.others):
                file.push(ring, number)
            ring.submit()
            assert sorted(ring.wait(2)) == [(0, 0), (1, 0)]
        process.signal(signal.SIGCONT)
        assert ended(process.pid) == 0


def test_process_killed_while_its_command_waits():
    with waiting_command() as process:
        process.signal(signal.SIGKILL)
        assert ended(process.pid) == -signal.SIGKILL


def test_batch_whose_process_is_killed_is_not_sent():
    """A batch that waits is not sent if its process is killed before its turn."""
    def sent(lun):
        return int((lun.sysfs / "iorequest_cnt").read_text(encoding="ascii"), 16)
    with waiting_command(send=one_batch) as process:
        before = sent(process.lun)
        process.signal(signal.SIGKILL)
        assert ended(process.pid) == -signal.SIGKILL
        wait_ended(process)
        assert sent(process.lun) == before


def test_process_killed_after_its_command_was_sent():
    with waiting_command() as process:
        process.stop()
        wait_ended(process)
        process.signal(signal.SIGKILL)
        assert ended(process.pid) == -signal.SIGKILL


def test_ring_closed_while_its_command_waits():
    with waiting_command(closed) as process:
        smqsg.idle(smqsg.node(process.lun))
        assert ended(process.pid) == 0


def test_data_of_waiting_commands_is_locked_memory():
    """The data of all waiting commands counts as locked memory. A command whose data would exceed
    the limit ends with EAGAIN at once."""
    with ram_host(depth=1, hw_queues=1) as (host_dir, host):
        path = smqsg.node(host.wait_luns(1)[0])
        host_dir.set("model/service_ns", HELD // 4)

        def work():
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (16 * PAGE,) * 2)
            area, raw = Memory(8 * PAGE), cdb.blocks(cdb.READ_10, 0, 8 * PAGE // 512)
            with SlotFile(path) as file, Ring(8, SETUP_SQE128 | SETUP_CQE32) as ring:
                become_nobody()
                for _ in range(2):
                    kept = [push_adhoc(ring, file.fd, raw, number, area, 0, 8 * PAGE)
                            for number in range(5)]
                    # A command without data does not count.
                    kept.append(push_adhoc(ring, file.fd, TUR, 5))
                    ring.submit()
                    # One command is sent; one waits, and its data counts as nine pages.
                    assert sorted(ring.wait(6)) == [
                        (0, 0), (1, 0), *((number, -errno.EAGAIN) for number in (2, 3, 4)), (5, 0)]
            return 0
        refused = smqsg.attr(path, "refused")
        assert ended(spawn(work)) == 0
        assert smqsg.attr(path, "refused") == refused + 6


def test_data_is_locked_memory_until_it_is_unpinned():
    """When a command no longer waits for a tag, its data still counts as locked memory, because the
    pages are pinned until the command ends."""
    with ram_host(depth=1, hw_queues=1) as (host_dir, host):
        path = smqsg.node(host.wait_luns(1)[0])
        host_dir.set("model/service_ns", HELD)

        def work():
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (16 * PAGE,) * 2)
            area, raw = Memory(8 * PAGE), cdb.blocks(cdb.READ_10, 0, 8 * PAGE // 512)
            with SlotFile(path) as file, Ring(8, SETUP_SQE128 | SETUP_CQE32) as ring:
                become_nobody()
                kept = [push_adhoc(ring, file.fd, raw, number, area, 0, 8 * PAGE)
                        for number in range(2)]
                ring.submit()
                assert ring.wait(1) == [(0, 0)]
                wait_for("the second command in flight", lambda: not smqsg.attr(path, "waiting"))
                kept.append(push_adhoc(ring, file.fd, raw, 2, area, 0, 8 * PAGE))
                ring.submit()
                assert ring.wait(2) == [(2, -errno.EAGAIN), (1, 0)]
            return 0
        assert ended(spawn(work)) == 0


@pytest.mark.smoke
def test_device_removed_while_the_process_is_stopped():
    """A device can be removed although the process that submitted a command to it is stopped."""
    with waiting_command() as process:
        process.stop()

        def delete():
            (process.lun.sysfs / "delete").write_text("1", encoding="ascii")
            return 0
        deleted = spawn(delete)
        try:
            assert ended(deleted) == 0
        finally:
            process.signal(signal.SIGCONT)
        assert ended(process.pid) == errno.ENODEV
