# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 7.2
"""Polled rings: prepared and ad hoc commands through poll queues, and each way in which a polled
command ends."""
import errno
import os
import random
import signal
import struct
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from kit import cdb, sgio, smqsg, uring
from kit.adhoc import push_adhoc
from kit.child import ended, running, spawn
from kit.conv import dispatched
from kit.host import loaded, run, wait_for
from kit.kernel import SCSI_DEBUG_POLLS
from kit.memory import PAGE, Memory
from kit.probe import calls
from kit.sanitizing import TIME_FACTOR
from kit.slots import BLOCK, FEATURE_POLLED, RESULT_SENSE, RESULT_SHORT, command, read, write
from kit.slowdisk import DEPTH, SLOW, opened
from kit.uring import SETUP_CQE32, SETUP_IOPOLL, SETUP_SQE128, Ring

RINGS = {"plain": 0, "sqpoll": uring.SETUP_SQPOLL, "sqe128": SETUP_SQE128,
         "defer": uring.SETUP_SINGLE_ISSUER | uring.SETUP_DEFER_TASKRUN}
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
@pytest.mark.parametrize("spin", (False, True), ids=("", "spin"))
def test_polled_commands_move_the_right_data(polled, spin):
    """Polled commands, single ones and batches of each kind, write and read the right data, even if
    the run names another buffer."""
    data = random.Random(3).randbytes(64 * BLOCK)
    with opened(polled.path) as file, Ring(64, SETUP_IOPOLL) as ring:
        file.prepare([write(slot, offset=slot * BLOCK) for slot in range(64)])
        file.memory[:] = data
        for slot in range(20):
            file.push(ring, slot)
        file.push_batch(ring, range(20, 62), 100)
        file.push_batch(ring, [62, 63], 101)
        ring.submit()
        assert sorted(ring.wait(22, spin=spin)) == [(slot, 0) for slot in range(20)] + [
            (100, 0), (101, 0)]
        file.prepare([read(slot, offset=slot * BLOCK) for slot in range(64)])
        other = Memory(file.memory.size)
        assert file.lend(1, other) == 0
        file.memory[:] = bytes(64 * BLOCK)
        runs = [struct.pack("<IHHQ", slot, 1, 2, 0) for slot in range(64)]
        file.push_batch(ring, runs[:40], 100)
        file.push_batch(ring, runs[40:50], 101)
        for slot in range(50, 64):
            file.push(ring, slot, flags=2, buffer=1)
        ring.submit()
        assert sorted(ring.wait(16, spin=spin)) == [(slot, 0) for slot in range(50, 64)] + [
            (100, 0), (101, 0)]
        assert other[:] == data and file.memory[:] == bytes(64 * BLOCK)
        assert file.take_back(1) == 0


@pytest.mark.smoke
def test_commands_are_refused_without_poll_queue(device):
    """On a polled ring a node without poll queue refuses each kind of command at once. The node
    reports that it has no poll queue."""
    flags = SETUP_IOPOLL | SETUP_SQE128 | SETUP_CQE32
    with opened(device.path) as file, Ring(8, flags) as ring:
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


def test_sense_data_is_reported_on_a_polled_ring(polled):
    """If the device ends a polled command with an error, sense data and residual are reported."""
    with opened(polled.path) as file, Ring(8, SETUP_IOPOLL) as ring:
        file.prepare([read(1 << 30), read(0, 8), command(bytes((0xff,)) * 6)])
        polled.dir.arm("short", count=1)
        file.push(ring, 1)
        ring.submit()
        assert ring.wait(1) == [(1, 0)] and file.status(1).resid == 2048
        file.push(ring, 0)
        file.push(ring, 2)
        file.push_batch(ring, [3, 1], 100)
        ring.submit()
        failed = RESULT_SENSE | sgio.CHECK_CONDITION
        assert sorted(ring.wait(3)) == [(0, failed | RESULT_SHORT), (2, failed), (100, 0)]
        assert file.status(0).triple == (5, 0x21, 0) and file.status(2).triple == (5, 0x20, 0)


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


@pytest.mark.smoke
@pytest.mark.parametrize("polling", (False, True), ids=("idle", "polling"))
def test_removal_of_the_device_ends_all_commands(polled, polling):
    """When the device is removed, commands in flight end, and waiting commands end with ENODEV. The
    removal does not wait until a task polls."""
    with opened(polled.path) as file, Ring(64, SETUP_IOPOLL) as ring:
        polled.slow()
        for slot in range(12):
            file.push(ring, slot)
        file.push_batch(ring, range(20, 40), 100)
        ring.submit()
        wait_for("waiting commands", lambda: smqsg.attr(polled.path, "waiting") > 0)

        def remove():
            began = time.monotonic()
            (polled.lun.sysfs / "delete").write_text("1", encoding="ascii")
            return int(time.monotonic() - began > 15 * TIME_FACTOR)
        if polling:
            with running(remove) as (_, status):
                got = dict(ring.wait(13, spin=True))
                assert status() == 0
        else:
            assert remove() == 0
            got = dict(ring.wait(13))
        gone = [slot for slot in range(12) if got[slot] == -errno.ENODEV]
        # While the device is polled some commands may end before the removal.
        assert 0 < len(gone) <= 12 - DEPTH and 0 < got[100] <= 20, got
        assert polling or len(gone) == 12 - DEPTH and got[100] == 20, got
        assert all(got[slot] >= 0 for slot in range(12) if slot not in gone), got
        file.push(ring, 0)
        file.push_batch(ring, range(4), 100)
        ring.submit()
        assert sorted(ring.wait(2)) == [(0, -errno.ENODEV), (100, 4)]


@pytest.mark.parametrize("kind", ("lost", "timeout"))
@pytest.mark.parametrize("spin", (False, True), ids=("", "spin"))
def test_ring_reports_a_command_that_timed_out(polled, kind, spin):
    """If no poll finds a command, error handling ends it. The ring gets the completion whether the
    task spins or sleeps."""
    with opened(polled.path) as file, Ring(64, SETUP_IOPOLL) as ring:
        file.prepare([read(slot, timeout_ms=1000) for slot in range(12)])
        before = int(polled.host.stats()["timeouts"])
        polled.dir.arm(kind, count=1, delay_ms=4000)
        for slot in range(12):
            file.push(ring, slot)
        ring.submit()
        got = dict(ring.wait(12, 40, spin=spin))
        bad = [slot for slot, res in got.items() if res]
        assert len(bad) == 1 and got[bad[0]] >> 8 & 0xff == sgio.DID_TIME_OUT, got
        assert polled.host.stats()["timeouts"] == before + 1
        polled.dir.arm("none")
        smqsg.clear_attentions(polled.lun.sg)
        file.push_batch(ring, range(64))
        ring.submit()
        assert ring.wait(1) == [(0, 0)]


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


@pytest.mark.smoke
@pytest.mark.parametrize("first", ("ring", "file"))
def test_all_commands_run_after_close(polled, first):
    """If the ring or the file is closed, all commands in flight and all waiting commands run."""
    with opened(polled.path) as file:
        ring = Ring(64, SETUP_IOPOLL)
        polled.slow(SLOW // 4)
        for slot in range(12):
            file.push(ring, slot)
        file.push_batch(ring, range(12, 24), 100)
        ring.submit()
        if first == "ring":
            ring.close()
            polled.idle()
            assert [file.status(slot).runs for slot in range(24)] == [1] * 24
        else:
            file.close()
            assert sorted(ring.wait(13)) == [(slot, 0) for slot in range(12)] + [(100, 0)]
            ring.close()


@pytest.mark.smoke
@pytest.mark.timing
@pytest.mark.parametrize("how", ("spin", "asleep", "batch"))
def test_waiting_commands_of_a_killed_process_are_not_sent(polled, how):
    """When a process is killed, its waiting commands are not sent."""
    ready, told = os.pipe()

    def work():
        with opened(polled.path) as file, Ring(64, SETUP_IOPOLL) as ring:
            polled.slow()
            os.write(told, b"x")
            if how == "batch":
                file.push_batch(ring, range(64))
            else:
                for slot in range(40):
                    file.push(ring, slot)
            ring.submit()
            ring.wait(99, 60, spin=how != "asleep")
        return 0
    before = dispatched(polled.lun)
    pid = spawn(work)
    assert os.read(ready, 1) == b"x"
    wait_for("commands waiting", lambda: smqsg.attr(polled.path, "waiting") > 0)
    os.kill(pid, signal.SIGKILL)
    assert ended(pid) == -signal.SIGKILL
    polled.idle()
    # On a busy machine more than those in flight may have been sent by then, but not all.
    assert DEPTH <= dispatched(polled.lun) - before < 40
    os.close(ready)
    os.close(told)


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
