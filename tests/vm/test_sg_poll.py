# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 7.2
"""Polled rings: prepared and ad hoc commands through poll queues. test_sg_events.py has what ends
them."""
import errno
import os
import random
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from kit import cdb, smqsg, uring
from kit.adhoc import push_adhoc
from kit.child import running
from kit.host import loaded, run
from kit.kernel import SCSI_DEBUG_POLLS
from kit.memory import PAGE, Memory
from kit.probe import calls
from kit.sanitizing import TIME_FACTOR
from kit.slots import BLOCK, FEATURE_POLLED, command, read, write
from kit.slowdisk import DEPTH, SLOW, opened
from kit.uring import SETUP_CQE32, SETUP_IOPOLL, SETUP_SQE128, Ring

RINGS = {"plain": 0, "sqpoll": uring.SETUP_SQPOLL, "sqe128": SETUP_SQE128,
         "defer": uring.SETUP_SINGLE_ISSUER | uring.SETUP_DEFER_TASKRUN}
WIDE = SETUP_IOPOLL | SETUP_SQE128 | SETUP_CQE32
pytestmark = pytest.mark.usefixtures("sg_module")


def polls(disk) -> int:
    """Returns how many commands of a disk's host ended in a poll."""
    return int(disk.host.stats()["polled"])


@contextmanager
def no_task_work():
    """Checks that task work reports no command that is sent in the with statement."""
    with calls("smq_sg", "smqsg_slot_task_work") as slots, \
            calls("smq_sg", "smqsg_batch_task_work") as batches:
        yield
        assert (slots(), batches()) in ((0, 0), (None, None))


@pytest.mark.smoke
@pytest.mark.parametrize("sqe_flags", (0, uring.SQE_ASYNC), ids=("", "async"))
@pytest.mark.parametrize("ring", RINGS)
def test_each_command_is_found_by_a_poll(polled, ring, sqe_flags):
    """A poll finds each command, even if there are more commands than the depth. Task work reports
    none of them."""
    with opened(polled.path) as file, Ring(64, SETUP_IOPOLL | RINGS[ring]) as opened_ring:
        assert file.info().features & FEATURE_POLLED
        before = polls(polled)
        with no_task_work():
            for turn in range(4):
                file.memory[:] = b"\xa5" * file.memory.size
                for slot in range(40):
                    file.push(opened_ring, slot, sqe_flags)
                file.push_batch(opened_ring, range(40, 64), 100, sqe_flags)
                opened_ring.submit()
                got = opened_ring.wait(41)
                assert sorted(got) == [(slot, 0) for slot in range(40)] + [(100, 0)]
                assert file.memory[:] == bytes(file.memory.size)
                assert [file.status(slot).runs for slot in range(64)] == [turn + 1] * 64
        assert polls(polled) - before == 4 * 64


@pytest.mark.smoke
def test_commands_are_refused_without_poll_queue(device):
    """On a polled ring a node without poll queue refuses each kind of command at once. The node
    reports that it has no poll queue."""
    with opened(device.path) as file, Ring(8, WIDE) as ring:
        file.push(ring, 0)
        file.push_batch(ring, range(4), 100)
        keep = push_adhoc(ring, file.fd, cdb.plain(cdb.TEST_UNIT_READY), 101)
        ring.submit()
        assert sorted(ring.wait(3)) == [(number, -errno.EOPNOTSUPP) for number in (0, 100, 101)]
        del keep
        assert file.status(0).runs == 0
        assert not file.info().features & FEATURE_POLLED
    with opened(device.path) as file, Ring(8) as ring:
        file.push(ring, 0)
        ring.submit()
        assert ring.wait(1) == [(0, 0)]


def test_bad_runs_are_reported_on_a_polled_ring(polled):
    """A bad run or batch on a polled ring gets its error, and the ring does not hang."""
    with opened(polled.path) as file, Ring(64, SETUP_IOPOLL) as ring:
        polled.slow()
        file.prepare([command(b"")], 5)
        file.prepare([command(cdb.plain(cdb.TEST_UNIT_READY))], 6)
        file.push(ring, 3)
        file.push(ring, 3)
        file.push(ring, 64)
        file.push(ring, 5)
        file.push(ring, 6, flags=1, lba=0)
        file.push(ring, 7, flags=2, buffer=9)
        file.push_batch(ring, [3, 5, 64, 8], 100)
        file.push_batch(ring, range(60, 70), 101)
        ring.submit()
        assert sorted(ring.wait(8)) == sorted([
            (3, 0), (3, -errno.EBUSY), (64, -errno.EINVAL), (5, -errno.ENODATA),
            (6, -errno.EOPNOTSUPP), (7, -errno.ENOENT), (100, 3), (101, -errno.EINVAL)])


@pytest.mark.not_sanitized(
    "needs commands that take longer than the submission of a thousand others")
def test_commands_beyond_max_waiting_end_with_eagain(polled):
    """Commands beyond max_waiting end with EAGAIN, and a command that waits too long ends with
    ETIMEDOUT. The ring reports both."""
    most = smqsg.attr(polled.path, "max_waiting")
    with opened(polled.path, 2048) as file, Ring(2048, SETUP_IOPOLL) as ring:
        file.prepare([read(0, timeout_ms=300)], 100)
        polled.slow(SLOW * 10 * TIME_FACTOR)
        for slot in range(most + DEPTH + 50):
            file.push(ring, slot)
        ring.submit()
        got = ring.wait(51, 10 * TIME_FACTOR)
        assert sorted(got) == [(100, -errno.ETIMEDOUT)] + [
            (slot, -errno.EAGAIN) for slot in range(most + DEPTH, most + DEPTH + 50)]
        polled.slow(0)
        assert sorted(ring.wait(most + DEPTH - 1, 30 * TIME_FACTOR)) == [
            (slot, 0) for slot in range(most + DEPTH) if slot != 100]


def keep_busy(path: str, flags: int, stop: Memory, cpu: int) -> int:
    """Runs slots on one CPU until @stop is set. The task spins on the ring's completions. Each run
    must end GOOD."""
    os.sched_setaffinity(0, {cpu})
    with opened(path) as file, Ring(64, flags) as ring:
        turns = 0
        while not stop[0] or not turns:
            for slot in range(8):
                file.push(ring, slot)
            file.push_batch(ring, range(8, 24), 100)
            ring.submit()
            assert sorted(ring.wait(9, 40, spin=True)) == [(slot, 0) for slot in range(8)] + [
                (100, 0)]
            turns += 1
    return 0


@pytest.mark.smoke
def test_rings_of_several_cpus_share_a_lun(polled):
    """Two polled rings and one without IOPOLL use one LUN on several CPUs. A poll of one ring may
    find commands of another; each ring gets its own completions."""
    stop = Memory(PAGE, 1 | 0x20)
    cpus = sorted(os.sched_getaffinity(0))
    polled.slow(200_000)
    with ExitStack() as stack:
        done = [stack.enter_context(running(lambda at=at: keep_busy(
            polled.path, SETUP_IOPOLL if at < 2 else 0, stop, cpus[at % len(cpus)])))[1]
            for at in range(3)]
        time.sleep(3)
        stop[0:1] = b"x"
        assert [status(30) for status in done] == [0, 0, 0]


def test_each_ring_gets_its_own_completions(polled):
    """Each ring gets the completions of its own commands, whichever ring polls."""
    with opened(polled.path) as file, Ring(64, SETUP_IOPOLL) as one, \
            Ring(64, SETUP_IOPOLL) as other:
        for _ in range(50):
            for slot in range(0, 64, 2):
                file.push(one, slot)
                file.push(other, slot + 1)
            one.submit()
            other.submit()
            # Polling the first ring also finds commands of the second ring.
            assert sorted(one.wait(32, spin=True)) == [(slot, 0) for slot in range(0, 64, 2)]
            assert sorted(other.wait(32)) == [(slot, 0) for slot in range(1, 64, 2)]


def one_cpu_only() -> list[Path]:
    """Leaves one CPU online. Returns the paths of the "online" attributes of the others."""
    gone = []
    for path in sorted(Path("/sys/devices/system/cpu").glob("cpu[1-9]*/online")):
        if path.read_text(encoding="ascii").strip() == "1":
            path.write_text("0", encoding="ascii")
            gone.append(path)
    return gone


def test_waiting_commands_are_sent_with_one_cpu(polled):
    """Even if a task polls all the time on the only CPU, the dispatcher gets CPU time to send
    waiting commands."""
    gone = one_cpu_only()
    try:
        with opened(polled.path) as file, Ring(64, SETUP_IOPOLL) as ring:
            polled.slow(2_000_000)
            for _ in range(5):
                for slot in range(48):
                    file.push(ring, slot)
                file.push_batch(ring, range(48, 64), 100)
                ring.submit()
                assert len(ring.wait(49, 20, spin=True)) == 49
    finally:
        for path in gone:
            path.write_text("1", encoding="ascii")


# Rings with IOPOLL for which no task polls.

def test_unpolled_ring_does_not_delay_others(polled):
    """The commands of a ring for which no task polls take all places. When the device has completed
    them, commands of other files and rings get the places."""
    with opened(polled.path) as file, opened(polled.path) as other, \
            Ring(64, SETUP_IOPOLL) as ring, Ring(64, SETUP_IOPOLL) as second:
        for slot in range(DEPTH):
            file.push(ring, slot)
        ring.submit()
        began = time.monotonic()
        assert other.run(range(16)) == (0, 0)
        assert time.monotonic() - began < 15 * TIME_FACTOR
        assert ring.wait(DEPTH) and file.run(range(DEPTH)) == (0, 0)
        # Commands of a ring that is polled get the places too.
        for slot in range(DEPTH):
            file.push(ring, slot)
        ring.submit()
        other.push_batch(second, range(32))
        second.submit()
        assert second.wait(1, spin=True) == [(0, 0)]
        assert sorted(ring.wait(DEPTH)) == [(slot, 0) for slot in range(DEPTH)]


@pytest.mark.parametrize("what", ("block", "freeze"))
def test_unpolled_ring_keeps_no_places(polled, what):
    """When the device has completed the commands of a ring for which no task polls, block I/O gets
    their places, and the queue can be frozen."""
    with opened(polled.path) as file, Ring(64, SETUP_IOPOLL) as ring:
        polled.slow(SLOW // 8)
        for slot in range(DEPTH):
            file.push(ring, slot)
        ring.submit()
        began = time.monotonic()
        if what == "block":
            run("dd", f"if={polled.lun.sd}", "of=/dev/null", "bs=4096", "count=1", "iflag=direct")
        else:
            (polled.lun.queue / "nr_requests").write_text("4", encoding="ascii")
        assert time.monotonic() - began < 15 * TIME_FACTOR
        assert sorted(ring.wait(DEPTH)) == [(slot, 0) for slot in range(DEPTH)]


# Ad hoc commands: their data is in the memory of the submitting process.

@pytest.mark.smoke
@pytest.mark.parametrize("at", (0, 13), ids=("", "copied"))
def test_adhoc_data_and_sense_reach_the_caller(polled, at):
    """Data and sense data reach the caller's memory, even if there are more commands than the
    queue depth allows. Data at an odd address is copied."""
    data = random.Random(5).randbytes(40 * BLOCK)
    with opened(polled.path) as file, Ring(64, WIDE) as ring:
        file.prepare([write(slot, offset=slot * BLOCK) for slot in range(40)])
        file.memory[:len(data)] = data
        assert file.run(range(40)) == (0, 0)
        area, sense = Memory(41 * BLOCK), Memory(PAGE)
        for turn in range(3):
            area[:] = bytes(41 * BLOCK)
            keep = [push_adhoc(ring, file.fd, cdb.blocks(cdb.READ_10, block, 1), block, area,
                               at + block * BLOCK, BLOCK) for block in range(40)]
            ring.submit()
            assert sorted(ring.wait(40, spin=turn == 1)) == [(block, 0) for block in range(40)]
            assert area[at:at + 40 * BLOCK] == data
        keep = push_adhoc(ring, file.fd, bytes((0xff,)) * 6, 99, sense=sense)
        ring.submit()
        assert ring.wait(1) == [(99, 0)] and sense[2] & 0xf == 5 and sense[12] == 0x20
        del keep


def test_data_reaches_the_submitter_when_another_process_polls(polled):
    """Two processes use one file, each with its own ring. Data gets into the memory of the process
    that submitted the command."""
    stop = Memory(PAGE, 1 | 0x20)
    with opened(polled.path) as file:
        data = random.Random(6).randbytes(BLOCK)
        file.prepare([write(0)])
        file.memory[:BLOCK] = data
        assert file.run([0]) == (0, 0)
        area = Memory(2 * PAGE)

        def work():
            """Polls in a child process, which has its own copy of @area at the same address. The
            parent's data must not get into that copy."""
            with Ring(64, SETUP_IOPOLL) as ring:
                while not stop[0]:
                    for slot in range(1, 33):
                        file.push(ring, slot)
                    ring.submit()
                    ring.wait(32, 30, spin=True)
            return int(area[:] != bytes(2 * PAGE))
        with running(work) as (_, status), Ring(64, WIDE) as ring:
            for _ in range(100):
                area[:] = bytes(2 * PAGE)
                keep = push_adhoc(ring, file.fd, cdb.blocks(cdb.READ_10, 0, 1), 0, area, 13, BLOCK)
                ring.submit()
                # Meanwhile the other process probably finds the command.
                time.sleep(0.002)
                assert ring.wait(1) == [(0, 0)]
                assert area[13:13 + BLOCK] == data
                del keep
            stop[0:1] = b"x"
            assert status(30) == 0


# scsi_debug.

@pytest.mark.smoke
@pytest.mark.parametrize("seconds", (
    pytest.param(0, id="inline"),
    pytest.param(0.0005, id="polled", marks=pytest.mark.skipif(
        not SCSI_DEBUG_POLLS, reason="this scsi_debug ends polled commands too early")),
))
def test_scsi_debug_ends_commands_inline_and_by_polls(sg_module, seconds):
    """Without a delay scsi_debug ends commands inside queuecommand. With a delay, polls end
    them."""
    with loaded("scsi_debug", delay=0, submit_queues=2, poll_queues=1, dev_size_mb=8,
                names=("add_host", "max_luns")) as hosts:
        lun = hosts[0].luns()[0]
        smqsg.clear_attentions(lun.sg)
        with smqsg.slow(seconds), smqsg.depth(lun, 16), opened(smqsg.node(lun)) as file, \
                Ring(64, SETUP_IOPOLL) as ring, no_task_work():
            data = random.Random(7).randbytes(64 * BLOCK)
            file.memory[:] = data
            file.prepare([write(slot, offset=slot * BLOCK) for slot in range(64)])
            for turn in range(2):
                for slot in range(40):
                    file.push(ring, slot)
                file.push_batch(ring, range(40, 64), 100)
                ring.submit()
                assert sorted(ring.wait(41, spin=bool(turn))) == [
                    (slot, 0) for slot in range(40)] + [(100, 0)]
                assert file.memory[:] == data
                if not turn:
                    file.memory[:] = bytes(64 * BLOCK)
                    file.prepare([read(slot, offset=slot * BLOCK) for slot in range(64)])
