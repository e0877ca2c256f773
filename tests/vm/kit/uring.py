# SPDX-License-Identifier: GPL-2.0
"""io_uring without liburing: SQEs of any kind, and rings with any flags."""
import ctypes
import errno
import mmap
import os
import struct
import time

SETUP_SQPOLL, SETUP_SQE128, SETUP_CQE32 = 1 << 1, 1 << 10, 1 << 11
SETUP_SINGLE_ISSUER, SETUP_DEFER_TASKRUN = 1 << 12, 1 << 13
SETUP_IOPOLL = 1 << 0
# From Linux 6.18 and 6.19 on: entries of both sizes on one ring.
SETUP_CQE_MIXED, SETUP_SQE_MIXED = 1 << 18, 1 << 19
SQE_FIXED_FILE, SQE_ASYNC, SQE_CQE_SKIP_SUCCESS = 1 << 0, 1 << 4, 1 << 6
OP_NOP, OP_READV, OP_URING_CMD, OP_URING_CMD128 = 0, 1, 46, 64
CQE_SKIP, CQE_32 = 1 << 5, 1 << 15

_SETUP, _ENTER, _REGISTER = 425, 426, 427
_REGISTER_FILES = 2
_GETEVENTS, _SQ_WAKEUP = 1, 2
_CQ_RING, _SQES = 0x8000000, 0x10000000
_LIBC = ctypes.CDLL(None, use_errno=True)


class _SqOffsets(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in (
        "head", "tail", "mask", "entries", "flags", "dropped", "array", "resv")]
    _fields_ += [("resv2", ctypes.c_uint64)]


class _CqOffsets(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in (
        "head", "tail", "mask", "entries", "overflow", "cqes", "flags", "resv")]
    _fields_ += [("resv2", ctypes.c_uint64)]


class _Params(ctypes.Structure):
    """struct io_uring_params."""
    _fields_ = [(name, ctypes.c_uint32) for name in (
        "sq_entries", "cq_entries", "flags", "sq_thread_cpu", "sq_thread_idle", "features",
        "wq_fd", "resv0", "resv1", "resv2")]
    _fields_ += [("sq", _SqOffsets), ("cq", _CqOffsets)]


def _call(number: int, *args) -> int:
    """A system call; OSError if it fails."""
    got = _LIBC.syscall(ctypes.c_long(number), *args)
    if got < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return got


class Ring:
    """A ring. Completions are pairs (user_data, res); all waits have a time limit. @more holds the
    extra word of each 32-byte completion, by user_data."""

    def __init__(self, entries: int = 64, flags: int = 0):
        params = _Params(flags=flags, sq_thread_idle=50)
        self.fd = _call(_SETUP, ctypes.c_uint(entries), ctypes.byref(params))
        os.set_inheritable(self.fd, False)
        self._flags, self._array = flags, params.sq.array
        self._cqes, self._cq_entries = params.cq.cqes, params.cq_entries
        self._sqe_size = 128 if flags & SETUP_SQE128 else 64
        self._cqe_size = 32 if flags & SETUP_CQE32 else 16
        self._sq = mmap.mmap(self.fd, params.sq.array + 4 * params.sq_entries)
        self._cq = mmap.mmap(self.fd, params.cq.cqes + self._cqe_size * params.cq_entries,
                             offset=_CQ_RING)
        self.sqes = mmap.mmap(self.fd, self._sqe_size * params.sq_entries, offset=_SQES)
        self.entries = params.sq_entries
        self.more: dict[int, int] = {}
        self._queued = 0
        # The kernel reads and writes these words at the same time, so each must be accessed as
        # a whole. The module struct does not guarantee that.
        self._sq_head, self._sq_tail, self._cq_head, self._cq_tail = (
            ctypes.c_uint32.from_buffer(area, at) for area, at in (
                (self._sq, params.sq.head), (self._sq, params.sq.tail),
                (self._cq, params.cq.head), (self._cq, params.cq.tail)))

    def close(self) -> None:
        """Closes the ring, even if commands are in flight."""
        if self.fd >= 0:
            del self._sq_head, self._sq_tail, self._cq_head, self._cq_tail
            for area in (self._sq, self._cq, self.sqes):
                area.close()
            os.close(self.fd)
            self.fd = -1

    def __enter__(self):
        return self

    def __exit__(self, *exc) -> None:
        self.close()

    def register_file(self, fd: int) -> None:
        """Registers a file as file 0 of the ring, for SQE_FIXED_FILE."""
        _call(_REGISTER, ctypes.c_int(self.fd), ctypes.c_uint(_REGISTER_FILES),
              (ctypes.c_int * 1)(fd), ctypes.c_uint(1))

    def push(self, fd: int, cmd_op: int, payload: bytes, user_data: int = 0,
             flags: int = 0) -> None:
        """Puts a uring_cmd into the submission queue. On a ring with entries of both sizes, a large
        payload gets a large entry, which takes two consecutive places."""
        opcode, places = OP_URING_CMD, 1
        if self._flags & SETUP_SQE_MIXED and len(payload) > 16:
            opcode, places = OP_URING_CMD128, 2
            if self._sq_tail.value % self.entries == self.entries - 1:
                self._put(struct.pack("<BB", OP_NOP, SQE_CQE_SKIP_SUCCESS), 1)
        self._put(struct.pack("<BBHiIIQIIQHHi", opcode, flags, 0, fd, cmd_op, 0, 0, 0, 0,
                              user_data, 0, 0, 0) + bytes(payload), places)

    def push_readv(self, fd: int, iovecs: int, count: int, offset: int, user_data: int) -> None:
        """Puts a READV at @offset into the submission queue. @iovecs: address of @count iovecs."""
        self._put(struct.pack("<BBHiQQIIQ", OP_READV, 0, 0, fd, offset, iovecs, count, 0,
                              user_data), 1)

    def _put(self, sqe: bytes, places: int) -> None:
        tail = self._sq_tail.value
        assert (tail - self._sq_head.value) & 0xffffffff <= self.entries - places, "queue is full"
        slot, size = tail % self.entries, places * self._sqe_size
        assert len(sqe) <= size
        self.sqes[slot * self._sqe_size:slot * self._sqe_size + size] = sqe.ljust(size, b"\0")
        for at in range(slot, slot + places):
            struct.pack_into("<I", self._sq, self._array + 4 * at, at)
        self._sq_tail.value = (tail + places) & 0xffffffff
        self._queued += places

    def submit(self) -> int:
        """Submits all pushed SQEs; returns how many."""
        count, self._queued = self._queued, 0
        flags = _SQ_WAKEUP if self._flags & SETUP_SQPOLL else 0
        return _call(_ENTER, ctypes.c_int(self.fd), ctypes.c_uint(count), ctypes.c_uint(0),
                     ctypes.c_uint(flags), None, ctypes.c_size_t(0))

    def reap(self, least: int = 0) -> list[tuple[int, int]]:
        """Makes the kernel post pending completions, and returns them. A polled ring is polled
        until it has @least of them, or another task needs the CPU."""
        try:
            _call(_ENTER, ctypes.c_int(self.fd), ctypes.c_uint(0), ctypes.c_uint(least),
                  ctypes.c_uint(_GETEVENTS), None, ctypes.c_size_t(0))
        except OSError as error:
            assert error.errno in (errno.EINTR, errno.EAGAIN, errno.EBUSY), error
        head, found = self._cq_head.value, []
        while head != self._cq_tail.value:
            at = self._cqes + head % self._cq_entries * self._cqe_size
            user_data, res, flags = struct.unpack_from("<QiI", self._cq, at)
            head = (head + 1) & 0xffffffff
            if self._flags & SETUP_CQE32:
                self.more[user_data], = struct.unpack_from("<Q", self._cq, at + 16)
            if self._flags & SETUP_CQE_MIXED:
                # Skip an entry that only fills the end of the queue.
                if flags & CQE_SKIP:
                    continue
                if flags & CQE_32:
                    self.more[user_data], = struct.unpack_from("<Q", self._cq, at + 16)
                    head = (head + 1) & 0xffffffff
            found.append((user_data, res))
        self._cq_head.value = head
        return found

    def wait(self, count: int, seconds: float = 20, spin: bool = False) -> list[tuple[int, int]]:
        """Waits for @count completions and returns them; fails if they do not come in time, or if
        there are more. With @spin a polled ring is polled all the time."""
        end, found = time.monotonic() + seconds, []
        while len(found) < count:
            found += self.reap(count - len(found) if spin else 0)
            assert time.monotonic() < end, f"{len(found)} of {count} completions"
            if not spin:
                time.sleep(0.001)
        assert len(found) == count, f"{len(found)} completions, not {count}"
        return found
