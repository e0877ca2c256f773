# SPDX-License-Identifier: GPL-2.0
# on: uml 7.2
# not on sanitize: it tests programs, which are the same there
"""libsmq's functions with a device, called in the shared library that programs load."""

import contextlib
import ctypes
import errno
import os
import random
import signal
import subprocess

import pytest
import vmdisk
from kit import smqsg
from smqlib import (AT_LBA, COMMANDS, FEATURE_CANCEL, FEATURE_HELD, FEATURE_POLLED, HELD, IN, OUT,
                    WITH_BUFFER, Device, Memory, Ring, Run, Slot, library, opened, run_list,
                    slot_list, slot_range)

READ_1 = "88000000000000000000000000010000"
WRITE_1 = "8a000000000000000000000000010000"
BEYOND = "8800000000ffffffffff000000010000"
TUR = "000000000000"
BUILT = vmdisk.ROOT / "build/tools/libsmq"


@pytest.fixture(scope="module")
def lib():
    return library()


@pytest.fixture
def dev(lib, smq_disk):
    with opened(Device, lib, smq_disk.smq) as device:
        yield device


@pytest.fixture
def ring(lib):
    with opened(Ring, lib) as made:
        yield made


def block(lba, version=0):
    return random.Random(lba << 8 | version).randbytes(512)


@pytest.fixture
def filled(smq_disk):
    """Writes block(LBA) to each of the disk's first 64 blocks."""
    with open(smq_disk.sd, "r+b", buffering=0) as f:
        f.write(b"".join(map(block, range(64))))
        os.fsync(f.fileno())


def test_info_reports_the_limits(dev, smq_disk):
    info = dev.info()
    # The disk's host has no poll queues.
    assert info.features & (FEATURE_CANCEL | FEATURE_POLLED) == FEATURE_CANCEL
    assert info.slots == 0
    assert info.depth == int(smq_disk.attribute("queue_depth"))
    assert info.max_segments > 0 and info.max_transfer >= 1 << 20
    assert info.max_waiting > 0 and not any(info.reserved)
    assert info.alignment and info.alignment & (info.alignment - 1) == 0
    assert dev.setup(7) == 0
    assert (dev.info().slots, dev.lib.smq_slots(dev.handle)) == (7, 7)


def test_open_of_other_files_fails(lib, smq_disk):
    assert Device(lib, smq_disk.sg).error == -errno.ENOTTY
    assert Device(lib, "/dev/smqsg999").error == -errno.ENOENT
    assert lib.smq_strerror(0, -errno.ENOTTY) == b"not a /dev/smqsgN"


def test_setup_works_once_and_within_limits(dev):
    for slots, sense in ((0, 96), (1048577, 96), (1, 104), (1, 7)):
        assert dev.setup(slots, sense) == -errno.EINVAL
    assert dev.setup(4) == 0
    assert dev.setup(4) == -errno.EBUSY


def test_requests_are_kept_until_close(lib, smq_disk, filled):
    """A device keeps requests, on kernels that can, from its first commands until it is closed. The
    flag and the share that once asked for that are accepted, are checked and have no effect."""
    share = int(smq_disk.smq_attribute("pool_share"))
    most = int(smq_disk.attribute("queue_depth")) * share // 100
    with opened(Device, lib, smq_disk.smq) as device:
        assert device.setup_held(8, 101) == -errno.EINVAL
        assert device.setup_held(8, 25) == 0
        memory = Memory()
        assert device.lend(0, memory) == 0
        assert device.prepare(0, *(Slot(READ_1, IN, 512, offset=512 * i, flags=HELD)
                                   for i in range(8))) == (0, 8)
        for _ in range(3):
            memory[:8 * 512] = bytes(8 * 512)
            assert device.execute(slot_range(0, 8)) == (0, 0)
            assert memory[:8 * 512] == block(0) * 8
            assert bool(share) <= int(smq_disk.smq_attribute("pool")) <= min(most, 8)
        assert device.info().max_held == most
        assert bool(device.info().features & FEATURE_HELD) == bool(share)
    assert int(smq_disk.smq_attribute("pool")) == 0


def test_buffers_are_lent_and_taken_back(dev):
    memory = Memory()
    assert dev.setup(2) == 0
    assert dev.lend(3, memory) == 0
    assert dev.lend(3, memory) == -errno.EEXIST
    assert dev.lend(4, memory, size=0) == -errno.EINVAL
    assert dev.lend(65535, memory) == -errno.EINVAL
    assert dev.take_back(4) == -errno.ENOENT
    assert dev.prepare(0, Slot(READ_1, IN, 512, buffer=3)) == (0, 1)
    assert dev.take_back(3) == -errno.EBUSY
    assert dev.prepare(0, Slot()) == (0, 1)
    assert dev.take_back(3) == 0
    assert dev.lend(3, memory) == 0


def test_prepare_reports_the_wrong_slot_and_field(dev):
    memory = Memory()
    assert dev.setup(8) == 0
    assert dev.lend(0, memory, size=4096) == 0
    good = Slot(READ_1, IN, 512)
    assert dev.prepare(0, good, good, Slot(READ_1, IN, 512, offset=8192)) == (-errno.ERANGE, 2)
    assert dev.field == b"offset"
    assert dev.prepare(0, good, Slot(READ_1, IN, 512, buffer=1)) == (-errno.ENOENT, 1)
    assert dev.field == b"buffer"
    assert dev.prepare(0, Slot("0000", 0, 0)) == (-errno.EINVAL, 0)
    assert dev.field == b"cdb_len"
    for unused, field in (Slot(TUR, offset=512), b"offset"), (Slot(timeout_ms=1), b"cdb_len"):
        assert dev.prepare(0, unused) == (-errno.EINVAL, 0) and dev.field == field
    assert dev.prepare(7, good, good)[0] == -errno.EINVAL and dev.field == b"first"
    assert dev.prepare(0, good) == (0, 1) and dev.field is None
    assert dev.lib.smq_strerror(3, errno.ERANGE) == b"the data is not inside the buffer"


def test_execute_runs_lists_ranges_and_runs(dev, filled):
    memory = Memory()
    assert dev.setup(16) == 0
    assert dev.lend(0, memory) == 0
    assert dev.lend(1, memory, at=1 << 19, size=1 << 19) == 0
    assert dev.prepare(0, *(Slot(f"88{lba:018x}0000010000"[:32], IN, 512, offset=512 * lba)
                            for lba in range(16))) == (0, 16)
    assert dev.execute(slot_range(0, 16)) == (0, 0)
    assert memory[:16 * 512] == b"".join(map(block, range(16)))
    memory[:16 * 512] = bytes(16 * 512)
    assert dev.execute(slot_list(9, 3, 12)) == (0, 0)
    for lba in range(16):
        want = block(lba) if lba in (9, 3, 12) else bytes(512)
        assert memory[512 * lba:512 * lba + 512] == want
    # Reads another LBA, or into another buffer.
    assert dev.execute(run_list(Run(0, 0, AT_LBA, 40), Run(1, 1, WITH_BUFFER, 0),
                                Run(2, 1, AT_LBA | WITH_BUFFER, 63))) == (0, 0)
    assert memory[:512] == block(40)
    assert memory[512:1024] == bytes(512)
    assert memory[(1 << 19) + 512:(1 << 19) + 1024] == block(1)
    assert memory[(1 << 19) + 1024:(1 << 19) + 1536] == block(63)
    # The slot's own CDB has not changed.
    assert dev.execute(slot_list(0)) == (0, 0)
    assert memory[:512] == block(0)
    assert [dev.runs(slot) for slot in (0, 9, 15)] == [3, 2, 1]


def test_write_reaches_the_disk(dev, smq_disk):
    memory = Memory()
    memory[:512] = block(1, 5)
    assert dev.setup(1) == 0
    assert dev.lend(0, memory, flags=1) == 0
    assert dev.prepare(0, Slot(READ_1, IN, 512))[0] != 0
    assert dev.prepare(0, Slot(WRITE_1, OUT, 512)) == (0, 1)
    assert dev.execute(run_list(Run(0, 0, AT_LBA, 50))) == (0, 0)
    assert smq_disk.read(50, 1) == block(1, 5)


def test_outcomes_are_decoded(dev):
    memory = Memory()
    assert dev.setup(5, 32) == 0
    assert dev.lend(0, memory) == 0
    assert dev.prepare(0, Slot(TUR), Slot(BEYOND, IN, 512), Slot("120000006000", IN, 96),
                       Slot("c00000000000")) == (0, 4)
    assert dev.execute(slot_range(0, 5)) == (0, 3)
    good, beyond, inquiry, opcode, empty = map(dev.outcome, range(5))
    assert dev.lib.smq_good(ctypes.byref(good)) and not dev.lib.smq_good(ctypes.byref(beyond))
    assert (beyond.status, beyond.key, beyond.asc, beyond.ascq) == (2, 5, 0x21, 0)
    assert 18 <= beyond.sense_len <= 32 and beyond.sense[0] in (0x70, 0x72)
    assert dev.lib.smq_good(ctypes.byref(inquiry)) and inquiry.resid == 0
    assert (opcode.status, opcode.asc) == (2, 0x20)
    assert (empty.error, empty.status) == (errno.ENODATA, 0)
    assert dev.text(1) == ("CHECK CONDITION: Illegal Request (5h): Logical block address out of "
                           "range (21h/00h)")
    assert dev.text(4) == "ENODATA: the slot is empty"
    assert dev.outcome(5).error == errno.EINVAL


def test_execute_refuses_bad_batches(dev):
    assert dev.execute(slot_range(0, 1))[0] == -errno.EINVAL
    assert dev.setup(4) == 0
    assert dev.execute(slot_range(0, 0))[0] == -errno.EINVAL


def test_ring_executes_runs_and_batches(dev, ring, filled):
    memory = Memory()
    assert dev.setup(8) == 0
    assert dev.lend(0, memory) == 0
    assert dev.prepare(0, *(Slot(READ_1, IN, 512, offset=512 * i) for i in range(7))) == (0, 7)
    for known in (False, True):
        if known:
            assert ring.add(dev) == 0
            assert ring.add(dev) == -errno.EEXIST
        assert ring.run(dev, 0, tag=2 ** 64 - 1) == 0
        assert ring.run_with(dev, Run(1, 0, AT_LBA, 33), tag=7) == 0
        keep = run_list(Run(2, 0, AT_LBA, 34), Run(3, 0, AT_LBA, 35))
        assert ring.batch(dev, keep, tag=8) == 0
        assert ring.batch(dev, slot_range(4, 4), tag=9) == 0
        assert ring.submit() == 4
        got = dict(ring.reap(least=4))
        # The last slot of the range is empty.
        assert got == {2 ** 64 - 1: 0, 7: 0, 8: 0, 9: 1}
        assert memory[512:4 * 512] == block(33) + block(34) + block(35)
        memory[:4 * 512] = bytes(4 * 512)
    assert ring.remove(dev) == 0
    assert ring.remove(dev) == -errno.ENOENT


def test_ring_reports_errors_of_runs(dev, ring):
    memory = Memory()
    assert dev.setup(3) == 0
    assert dev.lend(0, memory) == 0
    assert dev.prepare(0, Slot(TUR), Slot("280000000000000001" + "00", IN, 512)) == (0, 2)
    for tag, run in enumerate((Run(0, 0, AT_LBA, 0), Run(1, 0, AT_LBA, 1 << 32), Run(2),
                               Run(3), Run(1, 9, WITH_BUFFER), Run(0, 0, 4))):
        assert ring.run_with(dev, run, tag=tag) == 0
    got = dict(ring.reap(least=6))
    assert got[0] == -errno.EOPNOTSUPP
    assert got[1] == -errno.ERANGE
    assert got[2] == -errno.ENODATA
    assert got[3] == -errno.EINVAL
    assert got[4] < 0
    assert got[5] == -errno.EINVAL


@contextlib.contextmanager
def slow_and_shallow(disk):
    """Sets a disk to one command at a time; a command that moves data takes 0.9 s."""
    with smqsg.depth(disk, 1), smqsg.slow(0.9):
        yield
    # smqsg.slow() leaves ndelay=0: scsi_debug then uses its default delay, in jiffies.
    vmdisk.set_param("delay", 0)


def test_cancel_ends_waiting_commands(dev, ring, smq_disk):
    """A waiting command that is cancelled is not sent, and ends with ECANCELED. A command that was
    sent cannot be cancelled."""
    memory = Memory()
    assert dev.setup(8) == 0 and dev.lend(0, memory) == 0
    assert dev.prepare(0, *[Slot(READ_1, IN, 512)] * 7) == (0, 7)
    assert dev.cancel_all() == 0
    with slow_and_shallow(smq_disk):
        for slot in range(4):
            assert ring.run(dev, slot, tag=slot) == 0
        assert ring.batch(dev, slot_range(4, 3), tag=4) == 0
        assert ring.submit() == 5
        vmdisk.wait_for(lambda: int(smq_disk.smq_attribute("waiting")) >= 4)
        assert dev.cancel(2) == 0
        assert ring.reap() == [(2, -errno.ECANCELED)]
        for slot, error in ((0, errno.EALREADY), (2, errno.ENOENT), (7, errno.ENOENT),
                            (8, errno.EINVAL)):
            assert dev.cancel(slot) == -error, slot
        # A batch counts as one. In its result each command that was not sent counts as failed.
        assert dev.cancel_all() == 3
        got = dict(ring.reap(least=4))
    assert got == {0: 0, 1: -errno.ECANCELED, 3: -errno.ECANCELED, 4: 3}
    assert [dev.runs(slot) for slot in range(7)] == [1] + [0] * 6
    assert dev.lib.smq_strerror(8, errno.EALREADY) == b"the slot's command was sent already"
    assert dev.text(4).startswith("ECANCELED: ")
    assert dev.execute(slot_range(0, 7)) == (0, 0)


def test_full_ring_refuses_a_run(lib, dev):
    assert dev.setup(1) == 0
    assert dev.prepare(0, Slot(TUR)) == (0, 1)
    with opened(Ring, lib, entries=4) as ring:
        assert [ring.run(dev, 0) for _ in range(5)] == [0] * 4 + [-errno.EAGAIN]
        # A run whose slot is in flight ends with an error: each of the four runs has an event.
        got = ring.reap(least=4)
        assert len(got) == 4 and {result for _, result in got} <= {0, -errno.EBUSY}
        assert ring.run(dev, 0) == 0
        assert ring.reap() == [(0, 0)]


def test_reap_waits_no_longer_than_its_timeout(ring, dev):
    assert dev.setup(1) == 0
    assert ring.reap(least=0) == []
    assert ring.reap(least=1, seconds=0.2) == []
    assert ring.reap(least=2, most=1) == -errno.EINVAL
    assert ring.reap(least=0, most=0) == -errno.EINVAL


def test_signal_ends_a_wait_without_limit(ring, dev):
    """A signal ends a wait without a time limit, even if the same call has submitted queued
    entries."""
    assert dev.setup(1) == 0
    assert dev.prepare(0, Slot(TUR)) == (0, 1)
    came = []
    before = signal.signal(signal.SIGALRM, lambda *_: came.append(1))
    try:
        for queued in (1, 0):
            assert queued == 0 or ring.run(dev, 0, tag=5) == 0
            signal.setitimer(signal.ITIMER_REAL, 0.5)
            assert ring.reap(least=2, seconds=-1e-9) == [(5, 0)] * queued
    finally:
        signal.signal(signal.SIGALRM, before)
    assert came == [1, 1]


def test_one_ring_serves_several_devices(lib, three, ring):
    devices = [Device(lib, disk.smq) for disk in three]
    try:
        for device in devices:
            assert device.setup(4) == 0
            assert device.prepare(0, *[Slot(TUR)] * 4) == (0, 4)
            assert ring.add(device) == 0
        before = [disk.done() for disk in three]
        for i in range(12):
            assert ring.run(devices[i % 3], i // 3, tag=i) == 0
        assert sorted(ring.reap(least=12)) == [(i, 0) for i in range(12)]
        assert [disk.done() - b for disk, b in zip(three, before)] == [4, 4, 4]
    finally:
        for device in devices:
            device.close()


def test_a_closed_device_is_not_mistaken_for_the_next(lib, three, ring):
    """A second device gets the descriptor number of the first one, and perhaps its memory. Still
    the second device's commands go to the second device."""
    first = Device(lib, three[0].smq)
    assert first.setup(1) == 0
    assert first.prepare(0, Slot(TUR)) == (0, 1)
    assert ring.add(first) == 0
    first.close()
    with opened(Device, lib, three[1].smq) as second:
        assert second.setup(1) == 0
        assert second.prepare(0, Slot(TUR)) == (0, 1)
        before = [disk.done() for disk in three]
        assert ring.run(second, 0) == 0
        assert ring.reap() == [(0, 0)]
        assert [disk.done() - b for disk, b in zip(three, before)] == [0, 1, 0]


def test_queued_commands_reach_a_device_removed_from_the_ring(lib, three, ring):
    """If a device is removed from the ring after commands for it were queued, the commands go to
    it, and not to the device that is added in its place."""
    with opened(Device, lib, three[0].smq) as first, opened(Device, lib, three[1].smq) as second:
        for device in (first, second):
            assert device.setup(1) == 0
            assert device.prepare(0, Slot(TUR)) == (0, 1)
        assert ring.add(first) == 0
        before = [disk.done() for disk in three]
        assert ring.run(first, 0, tag=1) == 0
        assert ring.remove(first) == 0 and ring.add(second) == 0
        assert ring.reap() == [(1, 0)]
        assert [disk.done() - b for disk, b in zip(three, before)] == [1, 0, 0]


def test_whole_commands_need_a_ring_for_them(lib, dev, ring):
    command = (ctypes.c_uint8 * 80)()
    assert lib.smq_queue_command(ring.handle, dev.handle, command, ctypes.c_uint64(0)) == \
        -errno.EOPNOTSUPP
    for flags, entries in ((4, 4), (0, 0), (0, 32769)):
        assert Ring(lib, entries, flags).error == -errno.EINVAL
    # A ring made with COMMANDS accepts whole commands and runs of slots.
    with opened(Ring, lib, flags=COMMANDS) as both:
        assert dev.setup(1) == 0
        assert dev.prepare(0, Slot(TUR)) == (0, 1)
        assert both.run(dev, 0, tag=1) == 0
        assert lib.smq_queue_command(both.handle, dev.handle, command, ctypes.c_uint64(2)) == 0
        assert lib.smq_queue_command_fd(both.handle, -1, command, ctypes.c_uint64(3)) == \
            -errno.EBADF
        assert dict(both.reap(least=2)) == {1: 0, 2: -errno.EINVAL}


@pytest.mark.smoke
def test_examples_work(smq_disk):
    def run(*args):
        return subprocess.run(args, capture_output=True, text=True, check=False, timeout=60)
    done = run(BUILT / "inquiry", smq_disk.smq)
    assert (done.returncode, done.stdout, done.stderr) == (
        0, f"Linux    scsi_debug       {smq_disk.attribute('rev').strip()}\n", "")
    before = smq_disk.done()
    done = run(BUILT / "random_reads", smq_disk.smq, str(vmdisk.BLOCKS), "1600")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "1600 reads, 0 of them not good\n"
    assert smq_disk.done() - before == 1600
    done = run(BUILT / "random_reads", smq_disk.smq, str(1 << 40), "1600")
    assert done.returncode == 1 and "1600 reads, 1600 of them not good\n" == done.stdout
