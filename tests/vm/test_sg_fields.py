# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 7.2
"""Prepared commands: each field of each call, at its limits and beyond. A refused call names the
field at fault."""
import errno
import mmap
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest
from kit import cdb, smqsg
from kit.memory import PAGE, Memory, mprotect
from kit.numbered import NUMBERED_BLOCKS, numbered_blocks
from kit.slots import (BATCH_RANGE, BATCH_RUNS, BLOCK, BUFFER, HELD, MAX_BUFFER, MAX_BUFFERS,
                       MAX_SLOTS, NONE, PREPARE, READONLY, RUN, RUN_BUFFER, RUN_LBA, URING_BATCH,
                       URING_RUN, Buffer, Field, Prepare, RunBatch, Slot, SlotFile, Status,
                       command, ioctl, read, write)
from kit.uring import SETUP_SQE128, Ring

TUR = cdb.plain(cdb.TEST_UNIT_READY)
DID_ABORT = 0x05
CONTROL = Path("/proc/dynamic_debug/control")


SETUPS = [({"slots": 0}, Field.SLOTS), ({"slots": MAX_SLOTS + 1}, Field.SLOTS),
          ({"slots": 0xffffffff}, Field.SLOTS),
          ({"slots": 1, "sense_size": 4}, Field.SENSE_SIZE),
          ({"slots": 1, "sense_size": 104}, Field.SENSE_SIZE),
          ({"slots": 1, "flags": 1}, Field.FLAGS),
          ({"slots": 1, "held_share": 101}, Field.HELD_SHARE),
          ({"slots": 1, "held_share": 0xffffffff}, Field.HELD_SHARE),
          ({"slots": 1, "reserved": (0, 0, 1)}, Field.RESERVED)]


@pytest.mark.smoke
def test_bad_setup_fields_are_refused(path, klog):
    with SlotFile(path) as file:
        info = file.info()
        for name in ("max_waiting", "max_transfer", "max_segments", "depth"):
            assert getattr(info, name) == smqsg.attr(path, name) > 0
        assert not any(info.reserved)
        assert file.try_prepare([command(TUR)]) == (errno.EINVAL, 0)
        assert file.field == Field.COUNT
        with pytest.raises(OSError, match="No such device or address"):
            mmap.mmap(file.fd, PAGE, mmap.MAP_SHARED, mmap.PROT_READ)
        for fields, field in SETUPS:
            assert (file.setup(**fields), file.field) == (errno.EINVAL, field), fields
            assert file.info().slots == 0
        assert file.setup(slots=3, sense_size=8) == 0
        assert file.stride == 24 and file.info().slots == 3
        assert file.info().slot_bytes == 64 + 24
        assert (file.setup(slots=4, sense_size=0), file.field) == (errno.EBUSY, Field.NONE)
        assert file.info().slots == 3
        assert file.try_prepare([command(TUR)], 3) == (errno.EINVAL, 0)
        assert file.field == Field.FIRST
        assert file.try_prepare([command(TUR)], 2) == (0, 1)
    # smq_sg must not log a caller's mistake.
    assert not klog.matching("smq_sg: ")


@pytest.mark.skipif(not CONTROL.exists(), reason="a kernel without dynamic debug")
def test_debug_messages_name_the_limit(path, klog):
    """If debug messages are switched on, they name the limit that a field exceeds."""
    CONTROL.write_text("module smq_sg +p", encoding="ascii")
    try:
        with SlotFile(path) as file:
            assert file.setup(slots=1, sense_size=104) == errno.EINVAL
        klog.wait("smq_sg: setup sense_size 104: a multiple of 8 up to 96")
    finally:
        CONTROL.write_text("module smq_sg -p", encoding="ascii")


@pytest.mark.parametrize("size", (0, 8, 96))
def test_all_valid_sense_sizes_work(path, size):
    for slots in (1, 2, 255, 4097):
        with SlotFile(path, slots, size) as file:
            assert file.stride == 16 + size
            assert len(file.status_map) == -(-slots * file.stride // PAGE) * PAGE
            file.prepare([command(TUR)], slots - 1)
            assert file.run_one(slots - 1).result == 0


def limits(file):
    """Returns rows of: the fields of a slot to change, the errno, and the field at fault, which is
    the only wrong one."""
    info = file.info()
    most, step = info.max_transfer, info.alignment
    cases = [({"cdb_len": n}, errno.EINVAL, Field.CDB_LEN) for n in (1, 5, 33, 255)]
    cases += [({"direction": n}, errno.EINVAL, Field.DIRECTION) for n in (0, 3, 255)]
    cases += [
        ({"length": 0}, errno.EINVAL, Field.DIRECTION),
        ({"length": most + step}, errno.EMSGSIZE, Field.LENGTH),
        ({"length": 0xffffffff}, errno.EMSGSIZE, Field.LENGTH),
        ({"offset": 16 * PAGE}, errno.ERANGE, Field.LENGTH),
        ({"offset": 16 * PAGE + 1}, errno.ERANGE, Field.OFFSET),
        ({"offset": 16 * PAGE - BLOCK + step}, errno.ERANGE, Field.LENGTH),
        ({"offset": 1 << 32}, errno.ERANGE, Field.OFFSET),
        ({"offset": (1 << 64) - BLOCK}, errno.ERANGE, Field.OFFSET),
        ({"buffer": 1}, errno.ENOENT, Field.BUFFER),
        ({"buffer": 65535}, errno.ENOENT, Field.BUFFER),
        ({"buffer": 2}, errno.EINVAL, Field.BUFFER),
        ({"flags": 2}, errno.EINVAL, Field.FLAGS),
        ({"flags": HELD | 2}, errno.EINVAL, Field.FLAGS),
        ({"flags": 1 << 31}, errno.EINVAL, Field.FLAGS),
        ({"reserved": 1 << 63}, errno.EINVAL, Field.RESERVED),
        ({"cdb_len": 9}, errno.EINVAL, Field.CDB),
        ({"cdb_len": 0}, errno.EINVAL, Field.CDB_LEN),
        ({"direction": NONE, "length": 0, "buffer": 3}, errno.EINVAL, Field.BUFFER),
        ({"direction": NONE, "length": 0, "offset": BLOCK}, errno.EINVAL, Field.OFFSET)]
    if step > 1:
        cases += [({"length": BLOCK - 1}, errno.EINVAL, Field.LENGTH),
                  ({"length": 1}, errno.EINVAL, Field.LENGTH),
                  ({"offset": 1}, errno.EINVAL, Field.OFFSET),
                  ({"offset": step - 1}, errno.EINVAL, Field.OFFSET)]
    return cases


@pytest.mark.smoke
def test_prepare_names_the_slot_and_field_at_fault(file, memory, klog):
    """The call names the slot at fault. It fills the slots before that one, and leaves the slots
    behind it unchanged."""
    assert file.lend(2, memory, flags=READONLY) == 0
    for at, (wrong, error, field) in enumerate(limits(file)):
        file.prepare([read(100 + slot, offset=slot * BLOCK) for slot in range(4)])
        # Byte 9 is not 0: with a cdb_len of 9 it lies behind the CDB, and the slot is refused.
        bad = read(300, opcode=cdb.READ_10)
        bad.cdb[9] = 0x40
        for name, value in wrong.items():
            setattr(bad, name, value)
        new = [read(200 + at), read(201, offset=BLOCK), bad, read(203, offset=3 * BLOCK)]
        assert file.try_prepare(new) == (error, 2), wrong
        assert file.field == field, wrong
        memory[:4 * BLOCK] = bytes(4 * BLOCK)
        assert file.run(range(4)) == (0, 0)
        assert memory[:4 * BLOCK] == (numbered_blocks(200 + at) + numbered_blocks(201) +
                                      numbered_blocks(102, 2)), wrong
    # The refused calls left no reference to a buffer.
    file.prepare([command(b"")] * 4)
    assert file.take_back(0) == 0 and file.take_back(2) == 0
    assert not klog.matching("smq_sg: ")


def test_only_a_zero_descriptor_empties_a_slot(file):
    """Only a descriptor whose fields are all 0 empties a slot. A descriptor with cdb_len 0 and
    another field set is refused, and the slot is unchanged."""
    file.prepare([command(TUR)])
    for name in ("cdb", "direction", "buffer", "length", "offset", "timeout_ms", "flags",
                 "reserved"):
        empty = Slot()
        if name == "cdb":
            empty.cdb[31] = 1
        else:
            setattr(empty, name, 1)
        assert file.try_prepare([empty]) == (errno.EINVAL, 0), name
        assert file.field == Field.CDB_LEN
    assert file.run_one(0).result == 0
    file.prepare([Slot()])
    assert file.run_one(0).result == -errno.ENODATA


def test_values_just_inside_the_limits_work(file, klog):
    """Values just inside the limits work."""
    info = file.info()
    area = Memory(info.max_transfer + PAGE)
    assert file.lend(9, area) == 0
    blocks = info.max_transfer // BLOCK
    file.prepare([read(0, blocks, buffer=9), read(7, buffer=9, offset=area.size - BLOCK),
                  command(bytes(6)), command(cdb.blocks(cdb.READ_16, 1, 0).ljust(32, b"\0")),
                  command(TUR, timeout_ms=1), command(TUR, timeout_ms=0xffffffff)], 58)
    area[:] = b"\xa5" * area.size
    assert file.run_one(58).result == 0 and file.status(58).resid == 0
    known = min(blocks, NUMBERED_BLOCKS)
    assert area[:known * BLOCK] == numbered_blocks(0, known)
    assert area[info.max_transfer:] == b"\xa5" * PAGE
    assert file.run_one(59).result == 0 and area[-BLOCK:] == numbered_blocks(7)
    assert file.run_one(60).result == 0
    # The mid-layer answers DID_ABORT, because this host takes no CDB of more than 16 bytes.
    assert file.run_one(61).result == DID_ABORT << 8
    assert file.run_one(63).result == 0
    assert not klog.matching("smq_sg: ")


PREPARES = [({"count": 0}, Field.COUNT), ({"count": 65}, Field.COUNT),
            ({"count": 1, "first": 64}, Field.FIRST),
            ({"count": 2, "first": 0xffffffff}, Field.FIRST),
            ({"count": 0xffffffff, "first": 1}, Field.COUNT),
            ({"count": 1, "flags": 1}, Field.FLAGS),
            ({"count": 1, "reserved0": 1}, Field.RESERVED),
            ({"count": 1, "reserved": 1}, Field.RESERVED)]


def test_bad_prepare_fields_are_refused(file):
    area = Memory(PAGE)
    for fields, field in PREPARES:
        arg = Prepare(slots=area.address, done=77, **fields)
        assert (ioctl(file.fd, PREPARE, arg), arg.done) == (errno.EINVAL, 0), fields
        assert arg.field == field, fields
    arg = Prepare(slots=8, count=1, done=77)
    assert (ioctl(file.fd, PREPARE, arg), arg.done) == (errno.EFAULT, 0)
    assert arg.field == Field.SLOTS
    # After the refused calls a valid one works.
    file.prepare([command(TUR)])
    assert file.run_one(0).result == 0


BUFFERS = [({"index": MAX_BUFFERS, "length": PAGE}, errno.EINVAL, Field.INDEX),
           ({"length": MAX_BUFFER + 1}, errno.EINVAL, Field.LENGTH),
           ({"length": 1 << 63}, errno.EINVAL, Field.LENGTH),
           ({"length": 0, "address": PAGE}, errno.EINVAL, Field.LENGTH),
           ({"length": 0, "flags": READONLY}, errno.EINVAL, Field.LENGTH),
           ({"length": PAGE, "flags": 2}, errno.EINVAL, Field.FLAGS),
           ({"length": PAGE, "reserved0": 1}, errno.EINVAL, Field.RESERVED),
           ({"length": PAGE, "reserved": 1}, errno.EINVAL, Field.RESERVED),
           ({"length": PAGE, "address": (1 << 64) - 1}, errno.EFAULT, Field.ADDRESS),
           ({"length": PAGE, "address": 8}, errno.EFAULT, Field.ADDRESS),
           ({"length": 0, "index": 5}, errno.ENOENT, Field.INDEX)]


@pytest.mark.smoke
def test_bad_buffer_fields_are_refused(file, memory):
    for fields, error, field in BUFFERS:
        arg = Buffer(**{"address": memory.address if fields.get("length") else 0, "index": 3,
                        **fields})
        assert (ioctl(file.fd, BUFFER, arg), arg.field) == (error, field), fields
        assert file.take_back(3) == errno.ENOENT, fields
    assert (file.lend(0, memory), file.field) == (errno.EEXIST, Field.INDEX)
    file.prepare([read(5)])
    assert (file.take_back(0), file.field) == (errno.EBUSY, Field.INDEX)
    file.prepare([command(b"")])
    assert file.take_back(0) == 0 and file.take_back(0) == errno.ENOENT
    for index in (0, MAX_BUFFERS - 1):
        assert file.lend(index, memory, 3, 1) == 0 and file.take_back(index) == 0


def test_read_only_memory_is_lent_only_for_data_out(file):
    """Read-only memory can be lent only as a READONLY buffer, which only data-out may use."""
    frozen = Memory(PAGE)
    frozen[:BLOCK] = b"\x5a" * BLOCK
    # PROT_READ
    assert mprotect(frozen, 1) == 0
    assert file.lend(0, frozen) == errno.EFAULT
    assert file.lend(0, frozen, flags=READONLY) == 0
    into = Memory(PAGE)
    assert file.lend(1, into) == 0
    behind = NUMBERED_BLOCKS + 1
    assert file.try_prepare([write(behind), read(behind)]) == (errno.EINVAL, 1)
    file.prepare([read(behind, buffer=1)], 1)
    assert file.run_one(0).result == 0 and file.run_one(1).result == 0
    assert into[:BLOCK] == b"\x5a" * BLOCK
    assert file.run_one(1, flags=RUN_BUFFER, buffer=0).result == -errno.EINVAL


BATCHES = [((0, 0, 0), Field.COUNT), ((0, MAX_SLOTS + 1, 0), Field.COUNT),
           ((0, 1, 8), Field.FLAGS), ((0, 1, BATCH_RANGE | BATCH_RUNS), Field.FLAGS),
           ((64, 1, BATCH_RANGE), Field.LIST), ((0, 65, BATCH_RANGE), Field.COUNT),
           (((1 << 64) - 1, 2, BATCH_RANGE), Field.LIST), ((1 << 32, 1, BATCH_RANGE), Field.LIST)]


def test_bad_batch_fields_are_refused(file):
    # Until a slot is filled, the slots have no owner. The call clears @field, in which the caller
    # left a value.
    arg = RunBatch(count=1, flags=BATCH_RANGE, field=77)
    assert (ioctl(file.fd, RUN, arg), arg.field) == (errno.EPERM, Field.NONE)
    file.prepare([command(TUR)] * 64)
    with Ring() as ring:
        for fields, field in BATCHES:
            raw = struct.pack("<QII", *fields)
            arg = RunBatch.from_buffer_copy(raw + bytes(16))
            assert (ioctl(file.fd, RUN, arg), arg.field) == (errno.EINVAL, field), fields
            ring.push(file.fd, URING_BATCH, raw, 1)
            ring.submit()
            assert ring.wait(1) == [(1, -errno.EINVAL)], fields
        for at in range(2):
            arg = RunBatch(count=1, flags=BATCH_RANGE)
            arg.reserved[at] = 1
            assert (ioctl(file.fd, RUN, arg), arg.field) == (errno.EINVAL, Field.RESERVED)
    assert all(file.status(slot).runs == 0 for slot in range(64))


@pytest.mark.not_uml("its kernel reads memory that mprotect() has made unreadable")
def test_list_that_cannot_be_read_runs_no_slot(file):
    """If a part of the list is no memory, not even the elements before that part run."""
    file.prepare([command(TUR)] * 64)
    memory = Memory(2 * PAGE)
    memory[:] = bytes(2 * PAGE)
    assert mprotect(SimpleNamespace(address=memory.address + PAGE, size=PAGE), 0) == 0
    with Ring() as ring:
        for count, flags, size in ((5, 0, 4), (5, BATCH_RUNS, 16), (40, BATCH_RUNS, 16),
                                   (1000, 0, 4)):
            for address in (8, memory.address + PAGE - (count - 1) * size):
                arg = RunBatch(list=address, count=count, flags=flags)
                assert (ioctl(file.fd, RUN, arg), arg.failed) == (errno.EFAULT, 0)
                ring.push(file.fd, URING_BATCH, struct.pack("<QII", address, count, flags), 2)
                ring.submit()
                assert ring.wait(1) == [(2, -errno.EFAULT)]
    assert all(file.status(slot) == Status(0, 0, 0, 0, 0, 0, b"") for slot in range(64))
    assert file.run([0, 1]) == (0, 0)


# Rows of the buffer, the flags and the LBA of a run. In each row a flag is unknown, or a field is
# set without the flag that uses it.
UNUSED = [(1, 0, 0), (0, 0, 1), (0, 0, 1 << 63), (1, RUN_LBA, 5), (0, RUN_BUFFER, 5), (0, 4, 0)]


@pytest.mark.smoke
def test_unused_run_fields_must_be_0(file, memory):
    """The fields of a run that its flags do not use must be 0, in an SQE and in a batch's list."""
    assert file.lend(1, memory) == 0
    file.prepare([read(slot) for slot in range(4)])
    with Ring() as ring:
        for buffer, flags, lba in UNUSED:
            raw = struct.pack("<IHHQ", 3, buffer, flags, lba)
            ring.push(file.fd, URING_RUN, raw, 7)
            ring.submit()
            assert ring.wait(1) == [(7, -errno.EINVAL)], raw
            assert file.status(3).result == -errno.EINVAL
            # The other elements of the batch run.
            assert file.run([struct.pack("<IHHQ", slot, 0, 0, 0) for slot in range(3)] + [raw]) == (
                0, 1), raw
            assert [file.status(slot).result for slot in range(4)] == [0, 0, 0, -errno.EINVAL]
    assert file.status(3).runs == 0 and file.status(0).runs == len(UNUSED)
    assert file.run_one(3).result == 0


@pytest.mark.smoke
def test_second_half_of_a_long_sqe_must_be_0(file):
    """The second half of a 128-byte SQE must be 0, for a run and for a batch."""
    file.prepare([command(TUR)] * 4)
    run, batch = struct.pack("<IHHQ", 3, 0, 0, 0), file.batch(range(4))
    with Ring(8, SETUP_SQE128) as ring:
        for op, raw in ((URING_RUN, run), (URING_BATCH, batch)):
            for more in (b"", bytes(64), b"\1".rjust(64, b"\0"), b"\1" + bytes(63)):
                ring.push(file.fd, op, raw + more, 7)
                ring.submit()
                assert ring.wait(1) == [(7, -errno.EINVAL if any(more) else 0)], (op, more)
