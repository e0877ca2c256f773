# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 6.12 7.2
"""Rings: entries of both sizes, entries that change, each kind of queue, several devices; and the
memory of ad hoc commands that wait."""
import errno
import mmap
import random
import resource
import struct
import time
from contextlib import ExitStack

import pytest
from kit import cdb, sgio, smqsg, uring
from kit.adhoc import push_adhoc
from kit.child import become_nobody, ended, spawn
from kit.host import loaded, wait_for
from kit.memory import PAGE, Memory
from kit.ramdir import ram_host
from kit.slots import BLOCK, URING_RUN, SlotFile, read, run_of, write
from kit.slowdisk import opened
from kit.uring import SETUP_CQE32, SETUP_SQE128, Ring


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


# Ad hoc commands that wait.

# How long other commands hold the host's tags, in ns.
HELD = 2_000_000_000
TUR = cdb.plain(cdb.TEST_UNIT_READY)


def test_iovecs_are_read_at_submission(device):
    """smq_sg reads iovecs at the submission: the program may change them afterwards, even before
    the command is sent."""
    area, length = Memory(PAGE), 36
    with opened(device.path) as file, Ring(8, SETUP_SQE128 | SETUP_CQE32) as ring, Ring() as others:
        device.slow()
        file.push_batch(others, range(8))
        others.submit()
        area[:16] = struct.pack("<QQ", area.address + PAGE // 4, length)
        keep = push_adhoc(ring, file.fd, cdb.inquiry(length), 0, area, 0, length, iovecs=1)
        ring.submit()
        assert smqsg.attr(device.path, "waiting") == 2
        area[:16] = struct.pack("<QQ", area.address + PAGE // 2, length)
        assert ring.wait(1) == [(0, 0)] and others.wait(1) == [(0, 0)]
        assert any(area[PAGE // 4:PAGE // 4 + length])
        assert not any(area[PAGE // 2:PAGE // 2 + length])
        del keep


def test_data_of_waiting_commands_is_locked_memory(sg_module):
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


def test_data_is_locked_memory_until_it_is_unpinned(sg_module):
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
