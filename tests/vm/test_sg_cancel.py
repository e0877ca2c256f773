# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 7.2
"""SMQ_SG_CANCEL ends waiting commands with ECANCELED; commands that were sent complete normally."""
import errno
import os
import statistics
import threading
import time

import pytest
from kit import cdb, smqsg
from kit.child import as_nobody
from kit.host import wait_for
from kit.sgio import SgDev
from kit.slots import CANCEL, Cancel, Field, SlotFile, command, ioctl
from kit.slowdisk import DEPTH, SLOW, opened
from kit.uring import Ring

TUR = cdb.plain(cdb.TEST_UNIT_READY)
SOON = SLOW / 1e9 / 2     # seconds: half of a slow command's time


def waiting(device, count):
    """Waits until @count entries wait at the node."""
    wait_for(f"{count} waiting", lambda: smqsg.attr(device.path, "waiting") == count)


@pytest.mark.smoke
def test_one_waiting_slot_is_cancelled(device):
    """Cancels one slot's waiting run; all other runs end GOOD."""
    with opened(device.path) as file, Ring() as ring:
        device.slow(4 * SLOW)
        for slot in range(12):
            file.push(ring, slot)
        ring.submit()
        waiting(device, 12 - DEPTH)
        assert file.cancel(9) == (0, 1)
        assert ring.wait(1) == [(9, -errno.ECANCELED)]
        # It ends before the commands in flight do.
        assert smqsg.attr(device.path, "inflight") == DEPTH
        assert file.status(9).result == -errno.ECANCELED and file.status(9).runs == 0
        assert file.cancel(9) == (errno.ENOENT, 0)
        assert file.cancel(0) == (errno.EALREADY, 0)
        device.slow(0)
        assert sorted(ring.wait(11)) == [(slot, 0) for slot in range(12) if slot != 9]
        assert file.run_one(9).result == 0


@pytest.mark.smoke
def test_all_waiting_runs_of_a_file_are_cancelled(device):
    """Cancels all waiting runs of one file, whichever call submitted them. Runs of
    another file keep waiting."""
    with opened(device.path) as file, opened(device.path) as other, Ring() as ring, \
            Ring() as others:
        # Long enough that even on a busy machine all others wait before the first command ends.
        device.slow(10 * SLOW)
        for slot in range(DEPTH + 4):
            file.push(ring, slot)
        ring.submit()
        waiting(device, 4)
        for slot in range(2):
            other.push(others, slot)
        others.submit()
        file.push_batch(ring, range(40, 60), 100)
        ring.submit()
        ended = []
        threads = [threading.Thread(target=lambda: ended.append(file.run(range(20, 30)))),
                   threading.Thread(target=lambda: ended.append(sg_io(file)))]
        for thread in threads:
            thread.start()
        waiting(device, 4 + 2 + 1 + 2)
        assert file.cancel() == (0, 4 + 1 + 2)
        got = dict(ring.wait(5))
        for thread in threads:
            thread.join(20)
        # Cancelled runs end before the commands in flight do.
        assert smqsg.attr(device.path, "inflight") == DEPTH
        device.slow(0)
        assert got == {slot: -errno.ECANCELED for slot in range(DEPTH, DEPTH + 4)} | {100: 20}
        assert (0, 10) in ended and errno.ECANCELED in ended
        for slot in (*range(20, 30), *range(40, 60)):
            assert file.status(slot).result == -errno.ECANCELED
        assert file.cancel() == (0, 0)
        assert sorted(ring.wait(DEPTH)) == [(slot, 0) for slot in range(DEPTH)]
        assert sorted(others.wait(2)) == [(0, 0), (1, 0)]


def sg_io(file):
    """Calls SG_IO through the same open file; returns its errno, or 0."""
    with SgDev(file.path) as dev:
        # Use @file's open file in place of the one that SgDev has just opened.
        os.dup2(file.fd, dev.fd)
        try:
            dev.cmd(TUR)
        except OSError as error:
            return error.errno
    return 0


def test_batch_is_cancelled_while_it_is_sent(device):
    """A batch can be cancelled even while the dispatcher sends the part of it that has room."""
    with opened(device.path) as file, Ring() as ring:
        device.slow(1_000_000)
        times, cancelled = [], []
        for turn in range(20):
            file.push_batch(ring, [slot % 64 for slot in range(2000)], turn)
            ring.submit()
            wait_for("commands in flight", lambda: smqsg.attr(device.path, "inflight"))
            time.sleep(turn / 1000)
            assert file.cancel()[0] == 0
            start = time.monotonic()
            [(tag, failed)] = ring.wait(1)
            assert tag == turn and failed <= 2000
            times.append(time.monotonic() - start)
            cancelled.append(failed > 0)
        # A busy machine delays some of them, or cancels them after their end.
        assert statistics.median(times) < SOON and sum(cancelled) > 10


@pytest.mark.smoke
def test_bad_fields_are_refused(device):
    with opened(device.path, 4) as file:
        for fields, field in (({"flags": 2}, Field.FLAGS), ({"slot": 1}, Field.SLOT),
                              ({"flags": 1, "slot": 4}, Field.SLOT),
                              ({"flags": 1, "slot": 1 << 31}, Field.SLOT),
                              ({"reserved": (0, 1)}, Field.RESERVED)):
            arg = Cancel(**fields)
            assert (ioctl(file.fd, CANCEL, arg), arg.field) == (errno.EINVAL, field), fields
        assert file.cancel() == (0, 0) and file.cancel(3) == (errno.ENOENT, 0)
    with SlotFile(device.path) as file:
        assert file.cancel(0) == (errno.EINVAL, 0) and file.field == Field.SLOT
        assert file.cancel() == (0, 0)


def test_other_users_may_not_cancel(device):
    """Only the user who owns a file's slots may cancel their waiting runs."""
    with opened(device.path) as file, Ring() as ring:
        device.slow()
        for slot in range(8):
            file.push(ring, slot)
        ring.submit()
        waiting(device, 8 - DEPTH)
        assert as_nobody(lambda: file.cancel()[0]) == errno.EPERM
        assert as_nobody(lambda: file.cancel(7)[0]) == errno.EPERM
        assert sorted(ring.wait(8)) == [(slot, 0) for slot in range(8)]


@pytest.mark.limit(120)
def test_each_run_ends_once_while_runs_are_cancelled(device):
    """One thread runs slots while another cancels them: each run ends once, whether it was sent or
    cancelled."""
    stop, counts = threading.Event(), {0: 0, -errno.ECANCELED: 0}

    def canceller(file):
        slot = 0
        while not stop.is_set():
            slot = (slot + 7) % 64
            file.cancel(slot if slot % 3 else None)
            os.sched_yield()

    with opened(device.path) as file, Ring() as ring:
        device.slow(200_000)
        file.prepare([command(bytes(6))] * 32)
        thread = threading.Thread(target=canceller, args=(file,))
        thread.start()
        try:
            for _ in range(60):
                for slot in range(64):
                    file.push(ring, slot)
                ring.submit()
                got = ring.wait(64)
                assert sorted(tag for tag, _ in got) == list(range(64))
                for _, result in got:
                    counts[result] += 1
        finally:
            stop.set()
            thread.join()
    assert all(counts.values()), counts
