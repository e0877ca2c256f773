# SPDX-License-Identifier: GPL-2.0
"""Timed batches on /dev/smqsgN: SMQ_SG_BATCH_TIMED of <scsi/smq_sg.h>."""
import ctypes
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

from .slots import BATCH_TIMED, RUN, URING_BATCH, Field, RunBatch, SlotFile, fields, ioctl
from .uring import Ring

NUMBER, AFTER, NOTHING = 0x100, 0x200, 0x400
MAX_TIMED, MAX_FILES, MAX_SPIN, WINDOW = 65536, 1024, 1_000_000, 65536
MS = 1_000_000      # ns


class Entry(ctypes.Structure):
    """struct smq_sg_timed_entry."""
    _fields_ = fields("u32 slot, u16 buffer, u16 flags, u64 lba, u64 due, u32 number, u32 after,"
                      "u16 inflight, u16 file, u32 reserved")


class Result(ctypes.Structure):
    """struct smq_sg_timed_result. @result is unsigned here; see code."""
    _fields_ = fields("u64 issued, u64 ended, u32 result, u32 resid, u8 sense_key, u8 asc, u8 ascq,"
                      "u8 reserved0, u32 reserved")

    @property
    def code(self) -> int:
        """The member result, which is signed."""
        return ctypes.c_int32(self.result).value


class Head(ctypes.Structure):
    """struct smq_sg_timed."""
    _fields_ = fields("u64 entries, u64 results, u64 files, u64 start, u64 max_past, u64 spun,"
                      "u32 nr_files, u32 spin, u32 done, u32 index, u32 field, u32 flags,"
                      "u64 reserved[2]")


def entry(slot: int = 0, due: int = 0, number: int = 0, after: int = 0, **more) -> Entry:
    """An entry, with the flags for its number and for what it waits for."""
    flags = more.pop("flags", 0) | (NUMBER if number else 0) | (AFTER if after else 0)
    return Entry(slot=slot, due=due, number=number, after=after, flags=flags, **more)


@dataclass
class Timed:
    """A timed batch, in memory that stays where it is."""

    head: Head
    entries: ctypes.Array
    results: ctypes.Array
    files: ctypes.Array
    error: int = 0
    failed: int = 0

    @classmethod
    def of(cls, what: Sequence[Entry], of_files: Sequence[int] = (), **head) -> "Timed":
        """A batch of these entries, which run slots of the file itself or of files with these
        descriptors. @head: other members of struct smq_sg_timed."""
        array = (Entry * len(what))(*what)
        results = (Result * len(what))()
        table = (ctypes.c_int32 * len(of_files))(*of_files)
        values = {"entries": ctypes.addressof(array), "results": ctypes.addressof(results),
                  "files": ctypes.addressof(table) if of_files else 0, "nr_files": len(of_files)}
        return cls(Head(**(values | head)), array, results, table)

    def arg(self) -> bytes:
        """struct smq_sg_batch."""
        return struct.pack("<QII", ctypes.addressof(self.head), len(self.entries), BATCH_TIMED)

    def run(self, file: SlotFile) -> "Timed":
        """Calls SMQ_SG_RUN."""
        arg = RunBatch.from_buffer_copy(self.arg() + bytes(16))
        self.error = ioctl(file.fd, RUN, arg)
        self.failed = arg.failed
        return self

    def push(self, ring: Ring, file: SlotFile, user_data: int = 0) -> "Timed":
        """Pushes the batch into a ring."""
        ring.push(file.fd, URING_BATCH, self.arg(), user_data)
        return self

    @property
    def fault(self) -> tuple[int, int, Field]:
        """The errno, and index and field at fault."""
        return self.error, self.head.index, Field(self.head.field)

    @property
    def codes(self) -> list[int]:
        """The results of the entries."""
        return [result.code for result in self.results]


def run_timed(file: SlotFile, what: Sequence[Entry], **more) -> Timed:
    """Runs a batch by ioctl. @more: as for Timed.of()."""
    return Timed.of(what, **more).run(file)


def soon(milliseconds: float = 20) -> int:
    """A time to start at, in ns of CLOCK_MONOTONIC."""
    return time.monotonic_ns() + int(milliseconds * MS)
