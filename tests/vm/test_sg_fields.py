# SPDX-License-Identifier: GPL-2.0
"""Prepared commands: every field of every call at its edges and beyond, and what the log tells."""
import errno
import mmap
import struct

import pytest
from kit import cdb, smqsg
from kit.memory import PAGE, Memory, mprotect
from kit.numbered import NUMBERED, numbered
from kit.slots import (BATCH_RANGE, BATCH_RUNS, BLOCK, BUFFER, DIRECT, HELD, MAX_BUFFER,
                       MAX_BUFFERS, MAX_SLOTS, NONE, PREPARE, READONLY, RUN, RUN_BUFFER,
                       URING_BATCH, Buffer, Prepare, RunBatch, SlotFile, command, ioctl, read,
                       write)
from kit.uring import Ring

TUR = cdb.plain(cdb.TEST_UNIT_READY)
DID_ABORT = 0x05


SETUPS = [({"slots": 0}, "slots 0: 1 to 1048576"),
          ({"slots": MAX_SLOTS + 1}, "slots 1048577: 1 to 1048576"),
          ({"slots": 0xffffffff}, "slots 4294967295: 1 to"),
          ({"slots": 1, "sense_size": 4}, "sense_size 4: a multiple of 8 up to 96"),
          ({"slots": 1, "sense_size": 104}, "sense_size 104: a multiple of 8 up to 96"),
          ({"slots": 1, "flags": 1}, "setup: reserved fields and flags must be 0"),
          ({"slots": 1, "held_share": 101}, "setup held_share 101: 0 to 100 percent"),
          ({"slots": 1, "held_share": 0xffffffff}, "setup held_share 4294967295: 0 to 100"),
          ({"slots": 1, "reserved0": 1}, "setup: reserved fields and flags"),
          ({"slots": 1, "reserved": (0, 0, 1)}, "setup: reserved fields and flags")]


@pytest.mark.smoke
def test_setup(path, klog):
    with SlotFile(path) as file:
        info = file.info()
        for name in ("max_waiting", "max_transfer", "max_segments", "depth"):
            assert getattr(info, name) == smqsg.attr(path, name) > 0
        assert not any(info.reserved)
        assert file.try_prepare([command(TUR)]) == (errno.EINVAL, 77)
        with pytest.raises(OSError, match="No such device or address"):
            mmap.mmap(file.fd, PAGE, mmap.MAP_SHARED, mmap.PROT_READ)
        for fields, text in SETUPS:
            klog.mark()
            assert file.setup(**fields) == errno.EINVAL, fields
            klog.wait(text)
            assert file.info().slots == 0
        assert file.setup(slots=3, sense_size=8) == 0
        assert file.stride == 24 and file.info().slots == 3
        assert file.info().slot_bytes == 64 + 24
        assert file.setup(slots=4, sense_size=0) == errno.EBUSY
        assert file.info().slots == 3
        assert file.try_prepare([command(TUR)], 3) == (errno.EINVAL, 77)
        assert file.try_prepare([command(TUR)], 2) == (0, 1)


@pytest.mark.parametrize("size", (0, 8, 96))
def test_setup_sizes(path, size):
    for slots in (1, 2, 255, 4097):
        with SlotFile(path, slots, size) as file:
            assert file.stride == 16 + size
            assert len(file.status_map) == -(-slots * file.stride // PAGE) * PAGE
            file.prepare([command(TUR)], slots - 1)
            assert file.one(slots - 1).result == 0


def limits(file):
    """(fields of a slot, errno, what the log tells), where only that is wrong."""
    info = file.info()
    most, step = info.max_transfer, info.alignment
    cases = [({"cdb_len": n}, errno.EINVAL, f"cdb_len {n}: 6 to 32") for n in (1, 5, 33, 255)]
    cases += [({"direction": n}, errno.EINVAL, f"direction {n}, length 512") for n in (0, 3, 255)]
    cases += [
        ({"length": 0}, errno.EINVAL, "direction 1, length 0"),
        ({"length": most + step}, errno.EMSGSIZE, f"length {most + step}: at most {most} bytes"),
        ({"length": 0xffffffff}, errno.EMSGSIZE, f"length 4294967295: at most {most}"),
        ({"offset": 16 * PAGE}, errno.ERANGE, "at offset 65536 of buffer 0: beyond its end"),
        ({"offset": 16 * PAGE + 1}, errno.ERANGE, "offset 65537: buffer 0 has 65536 bytes"),
        ({"offset": 16 * PAGE - BLOCK + step}, errno.ERANGE, "beyond its end"),
        ({"offset": 1 << 32}, errno.ERANGE, "offset 4294967296: buffer 0 has"),
        ({"offset": (1 << 64) - BLOCK}, errno.ERANGE, "buffer 0 has 65536"),
        ({"buffer": 1}, errno.ENOENT, "buffer 1: there is none"),
        ({"buffer": 65535}, errno.ENOENT, "buffer 65535: there is none"),
        ({"buffer": 2}, errno.EINVAL, "buffer 2: is read-only, direction is in"),
        ({"flags": DIRECT}, errno.EINVAL, "flags 0x2: SMQ_SG_SLOT_HELD, that with _DIRECT, or 0"),
        ({"flags": HELD | 4}, errno.EINVAL, "flags 0x5: SMQ_SG_SLOT_HELD"),
        ({"flags": 1 << 31}, errno.EINVAL, "flags 0x80000000: SMQ_SG_SLOT_HELD"),
        ({"reserved": 1 << 63}, errno.EINVAL, "reserved must be 0"),
        ({"cdb_len": 0, "flags": 4}, errno.EINVAL, "flags 0x4: SMQ_SG_SLOT_HELD"),
        ({"cdb_len": 0, "reserved": 1}, errno.EINVAL, "reserved must be 0"),
        ({"direction": NONE, "length": 0, "buffer": 3}, errno.EINVAL,
         "buffer 3: 0 without data")]
    if step > 1:
        cases += [({"length": BLOCK - 1}, errno.EINVAL, f"length 511: a multiple of {step}"),
                  ({"length": 1}, errno.EINVAL, f"length 1: a multiple of {step}"),
                  ({"offset": 1}, errno.EINVAL, "not aligned as the device needs it"),
                  ({"offset": step - 1}, errno.EINVAL, "not aligned as the device needs it")]
    return cases


@pytest.mark.smoke
def test_slot_fields(file, memory, klog):
    """The one at fault is told, those before it are filled, those behind it untouched."""
    assert file.lend(2, memory, flags=READONLY) == 0
    for at, (wrong, error, text) in enumerate(limits(file)):
        file.prepare([read(100 + slot, offset=slot * BLOCK) for slot in range(4)])
        bad = read(300)
        for name, value in wrong.items():
            setattr(bad, name, value)
        klog.mark()
        new = [read(200 + at), read(201, offset=BLOCK), bad, read(203, offset=3 * BLOCK)]
        assert file.try_prepare(new) == (error, 2), wrong
        klog.wait(f"slot 2.*{text}")
        memory[:4 * BLOCK] = bytes(4 * BLOCK)
        assert file.run(range(4)) == (0, 0)
        assert memory[:4 * BLOCK] == (numbered(200 + at) + numbered(201) + numbered(102) +
                                      numbered(103)), wrong
    # None of those refused holds the buffers.
    file.prepare([command(b"")] * 4)
    assert file.take_back(0) == 0 and file.take_back(2) == 0


def test_slot_edges(file, klog):
    """What is just inside the limits works."""
    info = file.info()
    area = Memory(info.max_transfer + PAGE)
    assert file.lend(9, area) == 0
    blocks = info.max_transfer // BLOCK
    file.prepare([read(0, blocks, buffer=9), read(7, buffer=9, offset=area.size - BLOCK),
                  command(bytes(6)), command(cdb.blocks(cdb.READ_16, 1, 0).ljust(32, b"\0")),
                  command(TUR, timeout_ms=1), command(TUR, timeout_ms=0xffffffff)], 58)
    area[:] = b"\xa5" * area.size
    assert file.one(58).result == 0 and file.status(58).resid == 0
    known = min(blocks, NUMBERED)
    assert area[:known * BLOCK] == numbered(0, known)
    assert area[info.max_transfer:] == b"\xa5" * PAGE
    assert file.one(59).result == 0 and area[-BLOCK:] == numbered(7)
    assert file.one(60).result == 0
    # The mid-layer's answer where the host takes no more than 16 bytes.
    assert file.one(61).result == DID_ABORT << 8
    assert file.one(63).result == 0
    assert not klog.matching("smq_sg: slot")


PREPARES = [({"count": 0}, "first 0, count 0: the file has 64 slots"),
            ({"count": 65}, "first 0, count 65: the file has 64"),
            ({"count": 1, "first": 64}, "first 64, count 1"),
            ({"count": 2, "first": 0xffffffff}, "first 4294967295, count 2"),
            ({"count": 0xffffffff, "first": 1}, "first 1, count 4294967295"),
            ({"count": 1, "flags": 1}, "prepare: reserved fields and flags must be 0"),
            ({"count": 1, "reserved": (1, 0)}, "prepare: reserved fields and flags"),
            ({"count": 1, "reserved": (0, 1)}, "prepare: reserved fields and flags")]


def test_prepare_fields(file, klog):
    area = Memory(PAGE)
    for fields, text in PREPARES:
        klog.mark()
        arg = Prepare(slots=area.address, done=77, **fields)
        assert (ioctl(file.fd, PREPARE, arg), arg.done) == (errno.EINVAL, 77), fields
        klog.wait(text)
    arg = Prepare(slots=8, count=1, done=77)
    assert (ioctl(file.fd, PREPARE, arg), arg.done) == (errno.EFAULT, 0)
    # The array ends in memory that is none: what was before it is filled.
    file.prepare([command(TUR)])
    assert file.one(0).result == 0


BUFFERS = [({"index": MAX_BUFFERS, "length": PAGE}, errno.EINVAL, "index 65535: at most 65534"),
           ({"length": MAX_BUFFER + 1}, errno.EINVAL, "length 1073741825: at most 1073741824"),
           ({"length": 1 << 63}, errno.EINVAL, "at most 1073741824"),
           ({"length": 0, "address": PAGE}, errno.EINVAL, "length 0: at most"),
           ({"length": 0, "flags": READONLY}, errno.EINVAL, "length 0: at most"),
           ({"length": PAGE, "flags": 2}, errno.EINVAL, "unknown flags must be 0"),
           ({"length": PAGE, "reserved": (0, 1)}, errno.EINVAL, "buffer: reserved fields"),
           ({"length": PAGE, "address": (1 << 64) - 1}, errno.EFAULT, ""),
           ({"length": PAGE, "address": 8}, errno.EFAULT, ""),
           ({"length": 0, "index": 5}, errno.ENOENT, "")]


@pytest.mark.smoke
def test_buffer_fields(file, memory, klog):
    for fields, error, text in BUFFERS:
        klog.mark()
        arg = Buffer(**{"address": memory.address if fields.get("length") else 0, "index": 3,
                        **fields})
        assert ioctl(file.fd, BUFFER, arg) == error, fields
        if text:
            klog.wait(text)
        assert file.take_back(3) == errno.ENOENT, fields
    assert file.lend(0, memory) == errno.EEXIST
    file.prepare([read(5)])
    klog.mark()
    assert file.take_back(0) == errno.EBUSY
    klog.wait("buffer index 0: 1 slots still use it")
    file.prepare([command(b"")])
    assert file.take_back(0) == 0 and file.take_back(0) == errno.ENOENT
    for index in (0, MAX_BUFFERS - 1):
        assert file.lend(index, memory, 3, 1) == 0 and file.take_back(index) == 0


def test_read_only_memory(file):
    """Memory that cannot be written to can be lent for data-out alone."""
    frozen = Memory(PAGE)
    frozen[:BLOCK] = b"\x5a" * BLOCK
    # PROT_READ
    assert mprotect(frozen, 1) == 0
    assert file.lend(0, frozen) == errno.EFAULT
    assert file.lend(0, frozen, flags=READONLY) == 0
    into = Memory(PAGE)
    assert file.lend(1, into) == 0
    assert file.try_prepare([write(NUMBERED + 1), read(NUMBERED + 1)]) == (errno.EINVAL, 1)
    file.prepare([read(NUMBERED + 1, buffer=1)], 1)
    assert file.one(0).result == 0 and file.one(1).result == 0 and into[:BLOCK] == b"\x5a" * BLOCK
    assert file.one(1, flags=RUN_BUFFER, buffer=0).result == -errno.EINVAL


BATCHES = [((0, 0, 0), errno.EINVAL, "batch count 0: 1 to 1048576"),
           ((0, MAX_SLOTS + 1, 0), errno.EINVAL, "batch count 1048577: 1 to"),
           ((0, 1, 4), errno.EINVAL, "batch flags 0x4: SMQ_SG_BATCH_RANGE, _RUNS or 0"),
           ((0, 1, BATCH_RANGE | BATCH_RUNS), errno.EINVAL, "batch flags 0x3"),
           ((64, 1, BATCH_RANGE), errno.EINVAL, "list 64, count 1: the file has 64 slots"),
           ((0, 65, BATCH_RANGE), errno.EINVAL, "list 0, count 65: the file has 64"),
           (((1 << 64) - 1, 2, BATCH_RANGE), errno.EINVAL, "count 2: the file has 64"),
           ((1 << 32, 1, BATCH_RANGE), errno.EINVAL, "list 4294967296, count 1")]


def test_batch_fields(file, klog):
    file.prepare([command(TUR)] * 64)
    with Ring() as ring:
        for fields, error, text in BATCHES:
            raw = struct.pack("<QII", *fields)
            klog.mark()
            assert ioctl(file.fd, RUN, RunBatch.from_buffer_copy(raw + bytes(16))) == error, fields
            klog.wait(text)
            ring.push(file.fd, URING_BATCH, raw, 1)
            ring.submit()
            assert ring.wait(1) == [(1, -error)], fields
        for at in range(3):
            arg = RunBatch(count=1, flags=BATCH_RANGE)
            arg.reserved[at] = 1
            assert ioctl(file.fd, RUN, arg) == errno.EINVAL
        # A list that is not there: all fail, nothing runs.
        for flags in (0, BATCH_RUNS):
            arg = RunBatch(list=8, count=40, flags=flags)
            assert ioctl(file.fd, RUN, arg) == 0 and arg.failed == 40
            ring.push(file.fd, URING_BATCH, struct.pack("<QII", 8, 5, flags), 2)
            ring.submit()
            assert ring.wait(1) == [(2, 5)]
    assert all(file.status(slot).runs == 0 for slot in range(64))
