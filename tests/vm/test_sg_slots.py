# SPDX-License-Identifier: GPL-2.0
"""Prepared commands: every field at its edges, data through shared buffers, batches, status."""
import ctypes
import errno
import mmap
import os
import random
import struct
from pathlib import Path

import pytest
from kit import cdb, sgio, smqsg
from kit.host import loaded
from kit.slots import (BATCH_RANGE, BATCH_RUNS, BUFFER, IN, MAX_BUFFER, MAX_BUFFERS, MAX_SLOTS,
                       NONE, OUT, PREPARE, READONLY, RESULT_SENSE, RESULT_SHORT, RUN, RUN_BUFFER,
                       RUN_LBA, URING_BATCH, Buffer, Memory, Prepare, RunBatch, SlotFile,
                       command, ioctl, run_of)
from kit.uring import Ring

BLOCK, PAGE, MIB = 512, 4096, 1 << 20
MAP_FIXED, MAP_HUGETLB = 0x10, 0x40000
LIBC = ctypes.CDLL(None)
TUR = cdb.plain(cdb.TEST_UNIT_READY)
DID_ABORT = 0x05
NUMBERED = 4096     # blocks that begin with their LBA; WRITE tests go behind


def numbered(lba, count=1):
    """What blocks of the disk hold at first."""
    return b"".join(struct.pack("<Q", lba + at) * (BLOCK // 8) for at in range(count))


def read(lba, count=1, opcode=cdb.READ_10, **fields):
    """A slot that reads."""
    return command(cdb.blocks(opcode, lba, count), IN, count * BLOCK, **fields)


def write(lba, count=1, opcode=cdb.WRITE_10, **fields):
    """A slot that writes."""
    return command(cdb.blocks(opcode, lba, count), OUT, count * BLOCK, **fields)


@pytest.fixture(scope="module")
def path():
    """The node of a disk of smq_ram, whose first blocks are numbered."""
    with smqsg.module(), loaded("smq_ram", io_errors=True) as hosts:
        lun = hosts[0].luns()[0]
        with sgio.SgDev(lun.sg) as dev:
            for lba in range(0, NUMBERED, 1024):
                assert dev.cmd(cdb.blocks(cdb.WRITE_10, lba, 1024),
                               dout=numbered(lba, 1024)).good
        yield smqsg.node(lun)


@pytest.fixture
def file(path):
    """An open file with 64 slots."""
    with SlotFile(path, 64) as opened:
        yield opened
    smqsg.idle(path)


@pytest.fixture
def memory(file):
    """64 KiB, lent as buffer 0."""
    area = Memory(16 * PAGE)
    assert file.lend(0, area) == 0
    return area


# Every field, at its edges and beyond.

SETUPS = [({"slots": 0}, "slots 0: 1 to 1048576"),
          ({"slots": MAX_SLOTS + 1}, "slots 1048577: 1 to 1048576"),
          ({"slots": 0xffffffff}, "slots 4294967295: 1 to"),
          ({"slots": 1, "sense_size": 4}, "sense_size 4: a multiple of 8 up to 96"),
          ({"slots": 1, "sense_size": 104}, "sense_size 104: a multiple of 8 up to 96"),
          ({"slots": 1, "flags": 1}, "setup: reserved fields and flags must be 0"),
          ({"slots": 1, "reserved": (0, 0, 0, 1)}, "setup: reserved fields and flags")]


@pytest.mark.smoke
def test_setup(path, klog):
    with SlotFile(path) as file:
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
        ({"flags": 1}, errno.EINVAL, "reserved and flags must be 0"),
        ({"flags": 1 << 31}, errno.EINVAL, "reserved and flags must be 0"),
        ({"reserved": 1 << 63}, errno.EINVAL, "reserved and flags must be 0"),
        ({"cdb_len": 0, "flags": 1}, errno.EINVAL, "reserved and flags must be 0"),
        ({"cdb_len": 0, "reserved": 1}, errno.EINVAL, "reserved and flags must be 0"),
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


def mprotect(area, protection):
    """mprotect(2) of all of it."""
    return LIBC.mprotect(ctypes.c_void_p(area.address), ctypes.c_size_t(area.size), protection)


# Data.

def hugepages(size):
    """Contiguous memory."""
    pool = Path("/proc/sys/vm/nr_hugepages")
    if not pool.exists():
        pytest.skip("a kernel without huge pages")
    pool.write_text("4", encoding="ascii")
    return Memory(size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_HUGETLB)


@pytest.mark.smoke
@pytest.mark.parametrize("kind", ("pages", "huge"))
def test_data(path, kind):
    """Random lengths at random offsets, what is around them untouched."""
    rand = random.Random(kind)
    area = hugepages(2 * MIB) if kind == "huge" else Memory(2 * MIB)
    with SlotFile(path, 32) as file:
        step, most = file.info().alignment, file.info().max_transfer
        # Not from the beginning of a page, where the device can take that.
        at = 3 * step % PAGE
        assert file.lend(1, area, at, area.size - PAGE) == 0
        # Out of the first half, into the second, a page between them.
        half = (area.size - PAGE) // 2 - PAGE
        for turn in range(25):
            count = rand.choice((1, 2, 7, 8, 9, 64, rand.randint(1, 255), most // BLOCK))
            count = min(count, half // BLOCK)
            lba = NUMBERED + rand.randrange(10000)
            out = rand.randrange(0, (half - count * BLOCK) // step + 1) * step
            into = half + PAGE + out
            data = rand.randbytes(count * BLOCK)
            area[at + out:at + out + len(data)] = data
            around = max(at + into - 64, 0), at + into + len(data) + 64
            area[around[0]:around[1]] = b"\xa5" * (around[1] - around[0])
            error, done = file.try_prepare([
                write(lba, count, cdb.WRITE_16, buffer=1, offset=out),
                read(lba, count, cdb.READ_16, buffer=1, offset=into)])
            assert (error, done) == (0, 2), (turn, count, out, into)
            assert file.one(0).result == 0 and file.one(1).result == 0
            assert area[at + into:at + into + len(data)] == data, (turn, count, out, into)
            assert area[around[0]:at + into] == b"\xa5" * (at + into - around[0])
            assert area[at + into + len(data):around[1]] == b"\xa5" * 64
    area.close()


class OnePage:
    """Memory whose pages are all the same one: each is a piece of its own."""

    def __init__(self, pages):
        fd = os.memfd_create("page")
        os.ftruncate(fd, PAGE)
        self.size = pages * PAGE
        self._room = Memory(self.size)
        self.address = self._room.address
        LIBC.mmap.restype = ctypes.c_void_p
        for at in range(0, self.size, PAGE):
            want = ctypes.c_void_p(self.address + at)
            got = LIBC.mmap(want, ctypes.c_size_t(PAGE), mmap.PROT_READ | mmap.PROT_WRITE,
                            mmap.MAP_SHARED | MAP_FIXED, fd, ctypes.c_long(0))
            assert got == want.value
        os.close(fd)


def test_segments(file, klog):
    """As many pieces of memory as the device takes, and one more."""
    info = file.info()
    pieces = min(info.max_segments, info.max_transfer // PAGE)
    area = OnePage(pieces + 1)
    assert file.lend(0, area) == 0
    blocks = pieces * PAGE // BLOCK
    file.prepare([read(0, blocks)])
    assert file.one(0).result == 0
    # A part of a page at both ends.
    assert pieces == info.max_segments, "the device's max_transfer is too small for this test"
    assert file.try_prepare([read(0, blocks, offset=BLOCK)], 1) == (errno.EMSGSIZE, 0)
    klog.wait("slot 1 length .* at offset 512 of buffer 0: more pieces of memory than max_seg")
    assert file.one(0).result == 0 and file.one(1).result == -errno.ENODATA


@pytest.mark.smoke
def test_lba(file, memory):
    """READ, WRITE, VERIFY of 6 to 16 bytes with another LBA than prepared."""
    memory[:BLOCK] = numbered(9)
    for opcode in cdb.READS:
        file.prepare([read(3, opcode=opcode, offset=PAGE)])
        for lba in (0, 1, 0x123, NUMBERED - 1):
            assert file.one(0, flags=RUN_LBA, lba=lba).result == 0
            assert memory[PAGE:PAGE + BLOCK] == numbered(lba), (opcode, lba)
        assert file.one(0).result == 0 and memory[PAGE:PAGE + BLOCK] == numbered(3)
    for at, opcode in enumerate(cdb.WRITES):
        lba = NUMBERED + 20 + at
        file.prepare([write(NUMBERED + 10, opcode=opcode), read(0, offset=PAGE)])
        assert file.one(0, flags=RUN_LBA, lba=lba).result == 0
        assert file.one(1, flags=RUN_LBA, lba=lba).result == 0
        assert memory[PAGE:PAGE + BLOCK] == numbered(9), opcode
    for opcode in cdb.VERIFIES:
        file.prepare([command(cdb.blocks(opcode, 1 << 30, 1))])
        assert file.one(0).triple == (sgio.ILLEGAL_REQUEST, 0x21, 0)
        assert file.one(0, flags=RUN_LBA, lba=77).result == 0
    for opcodes, bits in (((cdb.READ_6, cdb.WRITE_6), 21),
                          ((cdb.READ_10, cdb.WRITE_10, cdb.READ_12, cdb.WRITE_12), 32)):
        for opcode in opcodes:
            file.prepare([(read if opcode in cdb.READS else write)(0, opcode=opcode)])
            for lba, error in (((1 << bits) - 1, 0), (1 << bits, errno.ERANGE),
                               ((1 << 64) - 1, errno.ERANGE)):
                status = file.one(0, flags=RUN_LBA, lba=lba)
                assert status.result == -error or not error and status.asc == 0x21, (opcode, lba)
    file.prepare([command(cdb.blocks(cdb.VERIFY_16, 0, 1)), command(TUR),
                  command(cdb.inquiry(96), IN, 96), command(b"")])
    assert file.one(0, flags=RUN_LBA, lba=(1 << 64) - 1).asc == 0x21
    for slot, error in ((1, errno.EOPNOTSUPP), (2, errno.EOPNOTSUPP), (3, errno.ENODATA)):
        assert file.one(slot, flags=RUN_LBA, lba=1).result == -error


def test_other_buffer(file, memory):
    """SMQ_SG_RUN_BUFFER: the same offset and length in another one."""
    other, small = Memory(4 * PAGE), Memory(PAGE)
    assert file.lend(1, other) == 0 and file.lend(2, small) == 0
    file.prepare([read(40, 2, offset=PAGE), command(TUR), read(7)])
    memory[:] = bytes(memory.size)
    for _ in range(3):
        other[:] = bytes(other.size)
        assert file.one(0, flags=RUN_BUFFER, buffer=1).result == 0
        assert other[PAGE:PAGE + 2 * BLOCK] == numbered(40, 2)
    assert memory[:] == bytes(memory.size)
    assert file.one(0, flags=RUN_BUFFER | RUN_LBA, buffer=1, lba=50).result == 0
    assert other[PAGE:PAGE + 2 * BLOCK] == numbered(50, 2)
    for slot, buffer, error in ((0, 2, errno.ERANGE), (0, 3, errno.ENOENT), (1, 1, errno.EINVAL)):
        assert file.one(slot, flags=RUN_BUFFER, buffer=buffer).result == -error
    assert file.one(2, flags=4).result == -errno.EINVAL
    with Ring() as ring:
        file.push(ring, 0, flags=RUN_BUFFER, buffer=1)
        file.push(ring, 2, flags=RUN_BUFFER | RUN_LBA, buffer=2, lba=99)
        ring.submit()
        assert sorted(ring.wait(2)) == [(0, 0), (2, 0)]
        for slot, more, error in ((0, {"flags": 8}, errno.EINVAL), (64, {}, errno.EINVAL),
                                  (0xffffffff, {}, errno.EINVAL), (9, {}, errno.ENODATA),
                                  (0, {"flags": RUN_BUFFER, "buffer": 9}, errno.ENOENT),
                                  (2, {"flags": RUN_LBA, "lba": 1 << 32}, errno.ERANGE)):
            file.push(ring, slot, **more)
            ring.submit()
            assert ring.wait(1) == [(slot, -error)], (slot, more)
    assert small[:BLOCK] == numbered(99)
    # Nobody holds it any longer.
    assert file.take_back(1) == 0 and file.take_back(2) == 0


# Status.

@pytest.mark.parametrize("size", (0, 8, 96))
def test_sense(path, size):
    with SlotFile(path, 4, size) as file:
        area = Memory(PAGE)
        assert file.lend(0, area) == 0
        file.prepare([read(0x7fffffff), read(0)])
        for runs in (1, 2, 3):
            status = file.one(0)
            assert status.result == RESULT_SENSE | sgio.CHECK_CONDITION | (
                RESULT_SHORT if status.resid else 0)
            assert status.triple == (sgio.ILLEGAL_REQUEST, 0x21, 0) and status.runs == runs
            whole = sgio.decode_sense(status.sense.ljust(18, b"\0")) if size > 14 else None
            assert len(status.sense) == min(size, 18)
            assert not whole or whole.triple == (sgio.ILLEGAL_REQUEST, 0x21, 0)
        # Its neighbour's begins where this one's ends.
        assert file.one(1) == file.status(1) and file.status(1).runs == 1
        assert file.status(1).triple == (0, 0, 0) and file.status(1).sense == b""
        file.prepare([read(0)])
        assert file.one(0).triple == (0, 0, 0) and file.status(0).sense == b""
        assert file.status(0).runs == 4


def test_map_is_read_only(file):
    size = len(file.status_map)
    for protection, flags in ((mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED),
                              (mmap.PROT_WRITE, mmap.MAP_SHARED),
                              (mmap.PROT_READ, mmap.MAP_PRIVATE),
                              (mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE)):
        with pytest.raises(PermissionError):
            mmap.mmap(file.fd, size, flags, protection)
    for length, offset in ((size + PAGE, 0), (size, PAGE), (PAGE, 1 << 40)):
        with pytest.raises(OSError, match="Invalid argument"):
            mmap.mmap(file.fd, length, mmap.MAP_SHARED, mmap.PROT_READ, offset=offset)
    maps = Path("/proc/self/maps").read_text(encoding="ascii").splitlines()
    line = next(line for line in maps if file.path in line)

    class Mapped:
        """The mapping of the array."""
        address, size = int(line.split("-")[0], 16), PAGE
    assert mprotect(Mapped, 3) == -1
    # A mapping keeps the array when the file is closed.
    file.prepare([command(TUR)])
    assert file.one(0).runs == 1
    kept = mmap.mmap(file.fd, size, mmap.MAP_SHARED, mmap.PROT_READ)
    file.close()
    assert struct.unpack_from("<iII", kept) == (0, 0, 1)
    kept.close()


# Batches.

@pytest.mark.smoke
@pytest.mark.limit(120)
@pytest.mark.parametrize("count", (1, 2, 16, 17, 32, 33, 64, 1000))
def test_batches(path, count):
    """By range, list and runs, with io_uring and without: each runs once, data where it belongs."""
    with SlotFile(path, 1000, 0) as file, Ring() as ring:
        area = Memory(1000 * BLOCK)
        assert file.lend(0, area) == 0
        file.prepare([read(slot, offset=slot * BLOCK) for slot in range(1000)])
        order = random.Random(count).sample(range(1000), count)
        kinds = (range(1000 - count, 1000), order, [run_of(slot) for slot in order],
                 [run_of(slot, flags=RUN_LBA, lba=slot + 1000) for slot in order])
        for kind, what in enumerate(kinds):
            slots = what if kind == 0 else order
            shift = 1000 if kind == 3 else 0
            for uring in (False, True):
                before = [file.status(slot).runs for slot in slots]
                area[:] = bytes(area.size)
                if uring:
                    file.push_batch(ring, what, 5)
                    ring.submit()
                    assert ring.wait(1) == [(5, 0)]
                else:
                    assert file.run(what) == (0, 0)
                assert [file.status(slot).runs for slot in slots] == [n + 1 for n in before]
                assert area[:] == b"".join(
                    numbered(slot + shift) if slot in set(slots) else bytes(BLOCK)
                    for slot in range(1000)), (kind, uring)


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


def test_bad_elements(file, memory):
    """Each bad element fails by itself, and is counted; the others run."""
    file.prepare([read(slot, offset=slot * BLOCK) for slot in range(64)])
    file.prepare([command(b"")], 7)
    file.prepare([read(0x7fffffff)], 9)
    file.prepare([command(TUR)], 11)
    bad = [run_of(64), run_of(0xffffffff), run_of(1, flags=8),
           run_of(2, flags=RUN_LBA, lba=1 << 40), run_of(3, flags=RUN_BUFFER, buffer=9),
           run_of(7), run_of(11, flags=RUN_LBA),
           run_of(9)]
    errors = {1: errno.EINVAL, 2: errno.ERANGE, 3: errno.ENOENT, 7: errno.ENODATA,
              11: errno.EOPNOTSUPP}
    good = [slot for slot in range(64) if slot not in errors and slot != 9]
    rand = random.Random(1)
    with Ring() as ring:
        for turn in range(10):
            runs = bad + [run_of(slot) for slot in rand.sample(good, rand.choice((5, 24, 57)))]
            rand.shuffle(runs)
            before = {slot: file.status(slot).runs for slot in range(64)}
            if turn % 2:
                assert file.run(runs) == (0, len(bad))
            else:
                file.push_batch(ring, runs)
                ring.submit()
                assert ring.wait(1) == [(0, len(bad))]
            ran = {struct.unpack_from("<I", run)[0] for run in runs}
            for slot in range(64):
                status = file.status(slot)
                assert status.runs == before[slot] + (slot in ran and slot not in errors), slot
                if slot in errors:
                    assert status.result == -errors[slot] and status.triple == (0, 0, 0)
            assert file.status(9).triple == (sgio.ILLEGAL_REQUEST, 0x21, 0)
    file.prepare([command(b"")] * 64)
    assert file.run(range(64)) == (0, 64)
    assert {file.status(slot).result for slot in range(64)} == {-errno.ENODATA}


@pytest.mark.limit(180)
def test_a_million_slots(path):
    """On one file, with shared buffers, in a bounded part of memory."""
    some = 8192
    before = available()
    with SlotFile(path, MAX_SLOTS, 0) as file:
        area = Memory(some * BLOCK // 2)
        assert file.lend(0, area) == 0
        part = [read(at % NUMBERED, offset=at % (some // 2) * BLOCK) for at in range(some)]
        for first in range(0, MAX_SLOTS, some):
            file.prepare(part, first)
        used = before - available()
        info = file.info()
        print(f"{MAX_SLOTS} slots: {info.slot_bytes} bytes each as told, "
              f"{used / MAX_SLOTS:.1f} by /proc/meminfo")
        assert info.slots == MAX_SLOTS and info.slot_bytes == 80
        # 80, a bit, the 2 MiB of the test's own, page tables.
        assert used / MAX_SLOTS < 80 * 1.2
        rand = random.Random(0)
        slots = [0, MAX_SLOTS - 1] + rand.sample(range(1, MAX_SLOTS - 1), 1000)
        assert file.run(slots) == (0, 0)
        assert all(file.status(slot).runs == 1 for slot in slots)
        last = range(MAX_SLOTS - some, MAX_SLOTS)
        area[:] = bytes(area.size)
        assert file.run(last) == (0, 0)
        assert area[:] == numbered(0, some // 2)
        assert file.try_prepare(part[:2], MAX_SLOTS - 1)[0] == errno.EINVAL


def available():
    """Bytes of memory that are free or can be had."""
    Path("/proc/sys/vm/drop_caches").write_text("3", encoding="ascii")
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no MemAvailable")
