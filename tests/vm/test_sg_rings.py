# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 6.12 7.2
"""Prepared commands: sent by each kind of ring, on each kind of queue, and to several devices."""
import errno
import mmap
import random
import struct
import time
from contextlib import ExitStack

import pytest
from kit import cdb, sgio, smqsg, uring
from kit.adhoc import push_adhoc
from kit.child import ended, spawn
from kit.host import loaded
from kit.memory import PAGE, Memory
from kit.slots import BLOCK, URING_RUN, SlotFile, read, run_of, write
from kit.slowdisk import opened
from kit.uring import Ring


RINGS = {"plain": 0, "sqpoll": uring.SETUP_SQPOLL, "sqe128": uring.SETUP_SQE128,
         "defer": uring.SETUP_SINGLE_ISSUER | uring.SETUP_DEFER_TASKRUN}


@pytest.mark.smoke
@pytest.mark.parametrize("sqe_flags", (0, uring.SQE_ASYNC), ids=("", "async"))
@pytest.mark.parametrize("ring", RINGS)
def test_slots_run_by_each_kind_of_ring(device, ring, sqe_flags):
    with opened(device.path) as file, Ring(64, RINGS[ring]) as opened_ring:
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


@pytest.mark.smoke
def test_mixed_ring_takes_both_sizes_of_entries(device):
    """One ring takes entries of both sizes: small ones for prepared commands, and large ones for ad
    hoc commands, whose completions are large too."""
    try:
        ring = Ring(8, uring.SETUP_SQE_MIXED | uring.SETUP_CQE_MIXED)
    except OSError as error:
        assert error.errno == errno.EINVAL
        pytest.skip("no mixed rings in this kernel")
    area, sense = Memory(PAGE), Memory(PAGE)
    beyond = cdb.blocks(cdb.READ_10, 0x7fffffff, 1)
    with ring, opened(device.path) as file:
        for turn in range(24):
            # Each turn begins at another entry of the ring.
            alone = list(range(turn % 3))
            file.memory[:] = b"\xa5" * file.memory.size
            area[:BLOCK] = b"\xa5" * BLOCK
            for slot in alone:
                file.push(ring, slot)
            file.push_batch(ring, range(8, 16), 100)
            good = turn % 2
            raw = cdb.blocks(cdb.READ_10, 3, 1) if good else beyond
            keep = push_adhoc(ring, file.fd, raw, 101, area, length=BLOCK, sense=sense)
            ring.submit()
            assert sorted(ring.wait(len(alone) + 2)) == [
                *((slot, 0) for slot in alone), (100, 0), (101, 0)]
            del keep
            assert file.memory[8 * BLOCK:16 * BLOCK] == bytes(8 * BLOCK)
            # Only the ad hoc command has a status in its completion.
            assert ring.more.keys() == {101}
            assert ring.more.pop(101) & 0xff == (0 if good else sgio.CHECK_CONDITION)
            assert area[:BLOCK] == (bytes(BLOCK) if good else b"\xa5" * BLOCK)
        # A large entry can carry a run, with zeroes behind it.
        ring.push(file.fd, URING_RUN, run_of(5).ljust(80, b"\0"), 5)
        ring.submit()
        assert ring.wait(1) == [(5, 0)] and not ring.more


@pytest.mark.parametrize("hw_queues, poll_queues, scheduler", (
    (2, 0, "mq-deadline"), (2, 2, "none"), (1, 1, "mq-deadline")))
def test_slots_run_on_each_kind_of_queue(sg_module, hw_queues, poll_queues, scheduler):
    """Slots run on hosts with and without poll queues, with and without a scheduler, and also while
    the scheduler changes."""
    with loaded("smq_ram", hw_queues=hw_queues, poll_queues=poll_queues) as hosts:
        lun = hosts[0].luns()[0]
        for name in (scheduler, "none", "mq-deadline"):
            (lun.queue / "scheduler").write_text(name, encoding="ascii")
            with opened(smqsg.node(lun)) as file, Ring() as ring:
                for slot in range(64):
                    file.push(ring, slot)
                    if slot == 32:
                        ring.submit()
                        (lun.queue / "scheduler").write_text("none", encoding="ascii")
                ring.submit()
                assert sorted(ring.wait(64)) == [(slot, 0) for slot in range(64)]
                assert file.run(range(64)) == (0, 0)


@pytest.mark.limit(90)
@pytest.mark.parametrize("flags", (0, uring.SETUP_SQPOLL,
                                   uring.SETUP_SQE128 | uring.SETUP_CQE32),
                         ids=("plain", "sqpoll", "sqe128"))
def test_rewritten_sqe_ends_once(device, flags):
    """Another process writes to SQEs while they are submitted. Any result is allowed, but each SQE
    ends once, and the node still works afterwards."""
    stop = mmap.mmap(-1, PAGE)
    with opened(device.path) as file, Ring(32, flags) as ring:
        other = Memory(PAGE)
        assert file.lend(1, other) == 0
        size = len(ring.sqes) // ring.entries
        rand = random.Random(flags)
        bad = [struct.pack("<IHHQ", rand.choice((0, 63, 64, 1 << 31)), rand.choice((0, 1, 9)),
                           rand.choice((0, 1, 2, 3, 8)), rand.choice((0, 5, 1 << 40)))
               for _ in range(200)]
        bad += [struct.pack("<QII", rand.choice((0, 60, file.memory.address, 8)),
                            rand.choice((1, 5, 64, 300)), rand.choice((0, 1, 2, 3)))
                for _ in range(200)]

        def scribble():
            at = 0
            while not stop[0]:
                for entry in range(ring.entries):
                    ring.sqes[entry * size + 48:entry * size + 64] = bad[(at + entry) % len(bad)]
                at += 7
            return 0
        pid = spawn(scribble)
        try:
            end, sent, seen = time.monotonic() + 5, 0, 0
            while time.monotonic() < end and sent < 20000:
                for turn in range(16):
                    if turn % 4:
                        file.push(ring, turn)
                    else:
                        file.push_batch(ring, range(16, 24), 100)
                ring.submit()
                sent += 16
                while seen < sent:
                    assert time.monotonic() < end + 30, f"{seen} of {sent} completions"
                    seen += len(ring.reap())
        finally:
            stop[0] = 1
            assert ended(pid) == 0
        assert seen == sent > 200
    with opened(device.path) as file:
        assert file.run(range(64)) == (0, 0)


@pytest.mark.smoke
@pytest.mark.parametrize("poll_queues", (0, 2), ids=("", "polled"))
def test_one_ring_runs_slots_of_ten_luns(sg_module, poll_queues):
    with loaded("smq_ram", luns=10, poll_queues=poll_queues) as hosts, ExitStack() as stack, \
            Ring(256, uring.SETUP_IOPOLL if poll_queues else 0) as ring:
        area = Memory(10 * 8 * BLOCK)
        files = []
        for at, lun in enumerate(hosts[0].luns()):
            file = stack.enter_context(SlotFile(smqsg.node(lun), 16, 0))
            assert file.lend(0, area) == 0
            file.prepare([write(slot, offset=(at * 8 + slot) * BLOCK) for slot in range(8)])
            file.prepare([read(slot, offset=(at * 8 + slot) * BLOCK) for slot in range(8)], 8)
            files.append(file)
        data = random.Random(10).randbytes(area.size)
        for first in (0, 8):
            area[:] = bytes(area.size) if first else data
            for slot in range(first, first + 8):
                for file in files:
                    file.push(ring, slot)
            assert ring.submit() == 80
            assert sorted(ring.wait(80, spin=bool(poll_queues))) == sorted(
                (slot, 0) for slot in range(first, first + 8) for _ in files)
        assert area[:] == data
