# SPDX-License-Identifier: GPL-2.0
"""Prepared commands on /dev/smqsgN: the ABI of <scsi/smq_sg.h>. Calls return their errno."""
import ctypes
import enum
import mmap
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from . import cdb
from .memory import Memory
from .uring import Ring

BLOCK = 512
MAX_SLOTS, MAX_BUFFERS, MAX_BUFFER, MAX_CDB, MAX_SENSE = 1048576, 65535, 0x40000000, 32, 96
NONE, IN, OUT = 0, 1, 2
READONLY = 1
RUN_LBA, RUN_BUFFER = 1, 2
HELD = 1
FEATURE_HELD, FEATURE_POLLED, FEATURE_CANCEL, FEATURE_TIMED = 1, 2, 4, 8
CANCEL_SLOT = 1
BATCH_RANGE, BATCH_RUNS, BATCH_TIMED = 1, 2, 4
RESULT_SENSE, RESULT_SHORT = 0x10000, 0x20000

# enum smq_sg_field.
Field = enum.IntEnum("Field", (
    "NONE RESERVED FLAGS SLOTS SENSE_SIZE HELD_SHARE ADDRESS LENGTH INDEX CDB CDB_LEN DIRECTION "
    "BUFFER OFFSET FIRST COUNT LIST SLOT LBA FILES START SPIN DUE NUMBER AFTER FILE"), start=0)


def fields(text: str) -> list:
    """Converts "u32 a, u64 b[2]" to _fields_ of a structure."""
    types = {"u8": ctypes.c_uint8, "u16": ctypes.c_uint16, "u32": ctypes.c_uint32,
             "u64": ctypes.c_uint64}
    found = []
    for word in text.split(","):
        kind, name = word.split()
        name, _, count = name.partition("[")
        found.append((name, types[kind] * int(count[:-1]) if count else types[kind]))
    return found


class Info(ctypes.Structure):
    """struct smq_sg_info."""
    _fields_ = fields("u64 features, u32 slots, u32 depth, u32 max_transfer, u32 max_segments,"
                      "u32 alignment, u32 slot_bytes, u32 max_waiting, u32 max_held,"
                      "u32 reserved[22]")


class Setup(ctypes.Structure):
    """struct smq_sg_setup."""
    _fields_ = fields("u32 slots, u32 sense_size, u32 flags, u32 status_stride,"
                      "u64 status_size, u64 status_offset, u32 held_share,"
                      "u32 field, u64 reserved[3]")


class Buffer(ctypes.Structure):
    """struct smq_sg_buffer."""
    _fields_ = fields("u64 address, u64 length, u32 index, u32 flags, u32 field, u32 reserved0,"
                      "u64 reserved")


class Slot(ctypes.Structure):
    """struct smq_sg_slot."""
    _fields_ = fields("u8 cdb[32], u8 cdb_len, u8 direction, u16 buffer, u32 length,"
                      "u64 offset, u32 timeout_ms, u32 flags, u64 reserved")


class Prepare(ctypes.Structure):
    """struct smq_sg_prepare."""
    _fields_ = fields("u64 slots, u32 first, u32 count, u32 flags, u32 done, u32 field,"
                      "u32 reserved0, u64 reserved")


class RunBatch(ctypes.Structure):
    """struct smq_sg_run_batch."""
    _fields_ = fields("u64 list, u32 count, u32 flags, u32 failed, u32 field, u32 reserved[2]")


class Cancel(ctypes.Structure):
    """struct smq_sg_cancel."""
    _fields_ = fields("u32 slot, u32 flags, u32 cancelled, u32 field, u64 reserved[2]")


def _code(direction: int, number: int, size: int) -> int:
    return direction << 30 | size << 16 | 0xeb << 8 | number


INFO = _code(2, 0, ctypes.sizeof(Info))
SETUP = _code(3, 1, ctypes.sizeof(Setup))
BUFFER = _code(3, 2, ctypes.sizeof(Buffer))
PREPARE = _code(3, 3, ctypes.sizeof(Prepare))
RUN = _code(3, 4, ctypes.sizeof(RunBatch))
CANCEL = _code(3, 5, ctypes.sizeof(Cancel))
URING_RUN, URING_BATCH = _code(1, 0x80, 16), _code(1, 0x81, 16)

_LIBC = ctypes.CDLL(None, use_errno=True)


def ioctl(fd: int, code: int, arg: ctypes.Structure) -> int:
    """Calls ioctl(); returns its errno, or 0."""
    if _LIBC.ioctl(fd, ctypes.c_ulong(code), ctypes.byref(arg)) >= 0:
        return 0
    return ctypes.get_errno()


def command(raw: bytes, direction: int = NONE, length: int = 0, **fields) -> Slot:
    """A slot with this CDB. @fields sets any other field, and may override cdb_len."""
    fields.setdefault("cdb_len", len(raw))
    slot = Slot(direction=direction, length=length, **fields)
    slot.cdb[:len(raw)] = raw
    return slot


def read(lba: int, count: int = 1, opcode: int = cdb.READ_10, **fields) -> Slot:
    """A slot that reads."""
    return command(cdb.blocks(opcode, lba, count), IN, count * BLOCK, **fields)


def write(lba: int, count: int = 1, opcode: int = cdb.WRITE_10, **fields) -> Slot:
    """A slot that writes."""
    return command(cdb.blocks(opcode, lba, count), OUT, count * BLOCK, **fields)


def run_of(slot: int, buffer: int = 0, flags: int = 0, lba: int = 0) -> bytes:
    """struct smq_sg_run. A buffer or LBA whose flag is not set is 0, because smq_sg refuses any
    other value."""
    return struct.pack("<IHHQ", slot, buffer if flags & RUN_BUFFER else 0, flags,
                       lba if flags & RUN_LBA else 0)


@dataclass(frozen=True)
class Status:
    """struct smq_sg_status."""
    result: int
    resid: int
    runs: int
    sense_key: int
    asc: int
    ascq: int
    sense: bytes

    @property
    def triple(self) -> tuple[int, int, int]:
        """Key, ASC and ASCQ."""
        return self.sense_key, self.asc, self.ascq


class SlotFile:
    """An open node. Calls that may be refused return their errno. @field is the wrong field that
    the last such call reported, or Field.NONE."""

    def __init__(self, path: str, slots: int = 0, sense_size: int = MAX_SENSE,
                 flags: int = os.O_RDWR, held_share: int = 0):
        self.path, self.stride, self.status_map = path, 0, None
        self.field = Field.NONE
        self.fd = os.open(path, flags | os.O_CLOEXEC)
        self._lists: list = []
        if slots:
            assert self.setup(slots=slots, sense_size=sense_size, held_share=held_share) == 0

    def close(self) -> None:
        """Closes the file, even while commands are in flight."""
        if self.status_map:
            self.status_map.close()
            self.status_map = None
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self):
        return self

    def __exit__(self, *exc) -> None:
        self.close()

    def _call(self, code: int, arg: ctypes.Structure) -> int:
        error = ioctl(self.fd, code, arg)
        # A number that has no name in Field is stored as it is.
        self.field = Field(arg.field) if arg.field in set(Field) else arg.field
        return error

    def info(self) -> Info:
        """SMQ_SG_INFO."""
        info = Info()
        assert ioctl(self.fd, INFO, info) == 0
        return info

    def setup(self, **fields) -> int:
        """SMQ_SG_SETUP; maps the status array."""
        arg = Setup(**fields)
        error = self._call(SETUP, arg)
        if not error:
            self.stride = arg.status_stride
            self.status_map = mmap.mmap(self.fd, arg.status_size, mmap.MAP_SHARED,
                                        mmap.PROT_READ, offset=arg.status_offset)
        return error

    def lend(self, index: int, memory: Memory | None = None, at: int = 0, length: int = 0,
             flags: int = 0) -> int:
        """SMQ_SG_BUFFER: lends @length bytes of the memory from @at on; 0: all the rest."""
        return self._call(BUFFER, Buffer(
            address=memory.address + at, length=length or memory.size - at, index=index,
            flags=flags))

    def take_back(self, index: int) -> int:
        """SMQ_SG_BUFFER with length 0: takes the buffer back."""
        return self._call(BUFFER, Buffer(index=index))

    def try_prepare(self, slots: Sequence[Slot], first: int = 0) -> tuple[int, int]:
        """SMQ_SG_PREPARE: returns its errno, and how many slots were filled."""
        array = (Slot * len(slots))(*slots)
        arg = Prepare(slots=ctypes.addressof(array), first=first, count=len(slots), done=77)
        error = self._call(PREPARE, arg)
        return error, arg.done

    def prepare(self, slots: Sequence[Slot], first: int = 0) -> None:
        """SMQ_SG_PREPARE, which must succeed."""
        assert self.try_prepare(slots, first) == (0, len(slots))

    def batch(self, what: range | Sequence[int] | Sequence[bytes]) -> bytes:
        """struct smq_sg_batch of a range, of slot numbers, or of results of run_of(). The object
        keeps the list in memory until run()."""
        if isinstance(what, range):
            return struct.pack("<QII", what.start, len(what), BATCH_RANGE)
        runs = isinstance(what[0], bytes)
        raw = b"".join(what) if runs else struct.pack(f"<{len(what)}I", *what)
        memory = ctypes.create_string_buffer(raw, len(raw))
        self._lists.append(memory)
        return struct.pack("<QII", ctypes.addressof(memory), len(what),
                           BATCH_RUNS if runs else 0)

    def run(self, what) -> tuple[int, int]:
        """SMQ_SG_RUN: returns its errno, and how many commands failed."""
        arg = RunBatch.from_buffer_copy(self.batch(what) + bytes(16))
        error = self._call(RUN, arg)
        self._lists.clear()
        return error, arg.failed

    def cancel(self, slot: int | None = None) -> tuple[int, int]:
        """SMQ_SG_CANCEL for one slot's run, or for all waiting commands. Returns its errno, and
        how many were cancelled; a batch counts as one."""
        arg = Cancel() if slot is None else Cancel(slot=slot, flags=CANCEL_SLOT)
        return self._call(CANCEL, arg), arg.cancelled

    def run_one(self, slot: int, **more) -> Status:
        """Runs one slot by ioctl; returns its status."""
        error, failed = self.run([run_of(slot, **more)])
        status = self.status(slot)
        assert error == 0 and failed == int(status.result != 0), f"{error} {failed} {status}"
        return status

    def push(self, ring: Ring, slot: int, sqe_flags: int = 0, **more) -> None:
        """Pushes the run of a slot into a ring, with the slot's number as user_data."""
        ring.push(self.fd, URING_RUN, run_of(slot, **more), slot, sqe_flags)

    def push_batch(self, ring: Ring, what, user_data: int = 0, sqe_flags: int = 0) -> None:
        """Pushes a batch into a ring."""
        ring.push(self.fd, URING_BATCH, self.batch(what), user_data, sqe_flags)

    def status(self, slot: int) -> Status:
        """A slot's status, from the mapped array."""
        result, resid, runs, key, asc, ascq, length = struct.unpack_from(
            "<iIIBBBB", self.status_map, slot * self.stride)
        at = slot * self.stride + 16
        return Status(result, resid, runs, key, asc, ascq, self.status_map[at:at + length])
