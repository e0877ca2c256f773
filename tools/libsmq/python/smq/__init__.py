# SPDX-License-Identifier: GPL-2.0
"""Prepared SCSI commands through /dev/smqsgN, by libsmq.

A Device is an open node with slots. The program lends memory to it once (lend), puts commands into
its slots once (prepare), and runs them as often as it wants: through a Ring, which serves any
number of devices, or by execute(), which waits. command() sends a command without a slot.

Lengths and offsets are in bytes, LBAs and counts of blocks in logical blocks, timeouts of commands
in milliseconds, waits in seconds. A call that fails raises Error, an OSError whose text says what
the errno means for this call. man libsmq describes each call.
"""
import enum
import errno
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import cffi

from ._declarations import CDEF

__all__ = ["Batch", "Command", "Device", "Direction", "Error", "Event", "Info", "Outcome", "Ring",
           "READ_10", "READ_16", "VERIFY_10", "VERIFY_16", "WRITE_10", "WRITE_16", "blocks",
           "library_version", "listed", "span"]
__version__ = "0.1.0"

_ffi: Any = cffi.FFI()
_ffi.cdef(CDEF)
_lib: Any = _ffi.dlopen("libsmq.so.1")

READ_10, WRITE_10, VERIFY_10 = 0x28, 0x2a, 0x2f
READ_16, WRITE_16, VERIFY_16 = 0x88, 0x8a, 0x8f

# For each command that may be in flight, by its number: the caller's tag, the memory of the
# command, and the buffers that were lent to its device. What is not reaped stays here for ever: the
# device may write to that memory at any time, so Python must not use it for other objects.
_in_flight: dict[int, tuple[int, Any, dict[int, Any]]] = {}
_numbers = itertools.count()

_CALLS = ("open", "setup", "lend", "prepare", "ring", "queue", "run", "command", "cancel")


class Error(OSError):
    """A call of libsmq failed. @field: the name of the wrong field of a command, or None; @index:
    which of the commands of prepare() has it."""

    def __init__(self, call: str, error: int, field: str | None = None, index: int = 0) -> None:
        text = _ffi.string(_lib.smq_strerror(_CALLS.index(call), error)).decode()
        super().__init__(abs(error), f"{text}: command {index}, {field}" if field else text)
        self.field = field
        self.index = index


def _checked(call: str, result: int) -> int:
    if result < 0:
        raise Error(call, result)
    return result


def library_version() -> str:
    """The version of libsmq in use."""
    return str(_ffi.string(_lib.smq_library_version()).decode())


class Direction(enum.IntEnum):
    """Where the data of a command goes."""
    NONE = 0
    IN = 1
    OUT = 2


@dataclass
class Command:
    """A command for a slot. Its data is @length bytes at @offset in the lent memory @buffer."""
    cdb: bytes
    direction: Direction = Direction.NONE
    length: int = 0
    offset: int = 0
    buffer: int = 0
    timeout_ms: int = 0


def blocks(opcode: int, lba: int, count: int, block_size: int, offset: int = 0,
           buffer: int = 0) -> Command:
    """A READ, WRITE or VERIFY of @count blocks. VERIFY gets no data."""
    cdb = _ffi.new("uint8_t[16]")
    length = _checked("prepare", _lib.smq_cdb_blocks(cdb, opcode, lba, count))
    way = {0x08: Direction.IN, 0x0a: Direction.OUT}.get(opcode & 0x1f, Direction.NONE)
    moved = count * block_size if way else 0
    return Command(bytes(cdb[0:length]), way, moved, offset if moved else 0,
                   buffer if moved else 0)


class Info(NamedTuple):
    """The limits of a device and its present queue depth: struct smq_sg_info."""
    features: int
    slots: int
    depth: int
    max_transfer: int
    max_segments: int
    alignment: int
    slot_bytes: int
    max_waiting: int
    max_held: int


@dataclass
class Outcome:
    """How a command ended. str() says it in words. @error: an errno if it was not sent."""
    good: bool
    text: str
    error: int
    status: int
    host: int
    key: int
    asc: int
    ascq: int
    resid: int
    sense: bytes

    def __str__(self) -> str:
        return self.text

    @classmethod
    def _of(cls, found: Any) -> Self:
        text = _ffi.new("char[512]")
        _lib.smq_outcome_text(found, text, 512)
        sense = _ffi.buffer(found.sense, found.sense_len)[:] if found.sense_len else b""
        return cls(bool(_lib.smq_good(found)), _ffi.string(text).decode(), found.error,
                   found.status, found.host, found.key, found.asc, found.ascq, found.resid, sense)


@dataclass
class Batch:
    """Which slots to run. Made by span() or listed()."""
    batch: Any
    memory: Any = None


def span(first: int, count: int) -> Batch:
    """@count slots, from @first on."""
    return Batch(_ffi.new("struct smq_sg_batch *", (first, count, _lib.SMQ_SG_BATCH_RANGE))[0])


def listed(slots: Iterable[int]) -> Batch:
    """The slots with these numbers."""
    numbers = _ffi.new("uint32_t[]", list(slots))
    return Batch(_ffi.new("struct smq_sg_batch *",
                          (int(_ffi.cast("uintptr_t", numbers)), len(numbers), 0))[0], numbers)


class Device:
    """An open node. Close it, or use it in a with statement."""

    def __init__(self, node: str) -> None:
        handle = _ffi.new("struct smq_device **")
        _checked("open", _lib.smq_open(node.encode(), handle))
        self._handle: Any = handle[0]
        # Never changed, only replaced: commands in flight keep the buffers of their time.
        self._lent: dict[int, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _dev(self) -> Any:
        if not self._handle:
            raise ValueError("the device is closed")
        return self._handle

    def close(self) -> None:
        """Closes the node. Its slots and buffers go."""
        if self._handle:
            _lib.smq_close(self._handle)
            self._handle = _ffi.NULL
            self._lent = {}

    def fileno(self) -> int:
        """The file descriptor, which the device still owns."""
        return int(_lib.smq_fd(self._dev))

    def info(self) -> Info:
        """The limits and the present queue depth."""
        info = _ffi.new("struct smq_sg_info *")
        _checked("open", _lib.smq_info(self._dev, info))
        return Info(*(int(getattr(info, name)) for name in Info._fields))

    def setup(self, slots: int, sense_size: int = 96) -> None:
        """Makes the slots, once. Sense data beyond @sense_size bytes is cut off."""
        _checked("setup", _lib.smq_setup(self._dev, slots, sense_size))

    def lend(self, memory: Any, index: int = 0, readonly: bool = False) -> None:
        """Lends an object with memory of its own (mmap, bytearray) as buffer @index. The object
        cannot be resized or closed before take_back() or close()."""
        kept = _ffi.from_buffer(memory, require_writable=not readonly)
        _checked("lend", _lib.smq_lend(self._dev, index, kept, len(kept),
                                       _lib.SMQ_SG_BUFFER_READONLY if readonly else 0))
        self._lent = {**self._lent, index: kept}

    def take_back(self, index: int = 0) -> None:
        """Takes a buffer back. Fails with EBUSY while slots use it."""
        _checked("lend", _lib.smq_take_back(self._dev, index))
        self._lent = {number: kept for number, kept in self._lent.items() if number != index}

    def prepare(self, commands: Sequence[Command], first: int = 0) -> None:
        """Puts commands into slots, from @first on."""
        slots = _ffi.new("struct smq_sg_slot[]", len(commands))
        for slot, command in zip(slots, commands, strict=True):
            if len(command.cdb) > len(slot.cdb):
                raise ValueError(f"cdb: {len(command.cdb)} bytes, at most {len(slot.cdb)}")
            slot.cdb[0:len(command.cdb)] = command.cdb
            slot.cdb_len = len(command.cdb)
            slot.direction, slot.buffer = command.direction, command.buffer
            slot.length, slot.offset = command.length, command.offset
            slot.timeout_ms = command.timeout_ms
        done, field = _ffi.new("uint32_t *"), _ffi.new("uint32_t *")
        error = _lib.smq_prepare(self._dev, first, slots, len(commands), done, field)
        if error:
            name = _lib.smq_field_name(field[0])
            raise Error("prepare", error, _ffi.string(name).decode() if name else None, done[0])

    def execute(self, batch: Batch) -> int:
        """Runs a batch and waits until it has ended. Returns how many did not end GOOD."""
        dev, failed, number = self._dev, _ffi.new("uint32_t *"), next(_numbers)
        # If a signal ends the call, commands may go on. Right after it the handler of the signal
        # may raise an exception.
        _in_flight[number] = (0, batch.memory, self._lent)
        result = _lib.smq_execute(dev, batch.batch, failed)
        if result != -errno.EINTR:
            del _in_flight[number]
        _checked("run", result)
        return int(failed[0])

    def outcome(self, slot: int) -> Outcome:
        """How the slot's last run ended."""
        found = _ffi.new("struct smq_outcome *")
        _lib.smq_slot_outcome(self._dev, slot, found)
        return Outcome._of(found)

    def cancel(self, slot: int) -> None:
        """Cancels a run that has not been sent."""
        _checked("cancel", _lib.smq_cancel(self._dev, slot))

    def cancel_all(self) -> int:
        """Cancels all that has not been sent. Returns how many waited, a batch as one."""
        return _checked("cancel", _lib.smq_cancel_all(self._dev))


@dataclass
class Event:
    """A completion. @result: of a run, 0 for GOOD; of a batch, how many did not end GOOD; below 0
    an errno. @outcome: of a command without a slot, else None."""
    tag: int
    result: int
    outcome: Outcome | None = None


class Ring:
    """An io_uring for any number of devices, used by one thread at a time. Free it before the
    devices. @commands: it takes commands without a slot, too. @poll: see SMQ_RING_POLL."""

    def __init__(self, entries: int, commands: bool = False, poll: bool = False) -> None:
        handle = _ffi.new("struct smq_ring **")
        flags = (_lib.SMQ_RING_COMMANDS if commands else 0) | (_lib.SMQ_RING_POLL if poll else 0)
        _checked("ring", _lib.smq_ring_new(entries, flags, handle))
        self._handle: Any = handle[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.free()

    @property
    def _ring(self) -> Any:
        if not self._handle:
            raise ValueError("the ring is freed")
        return self._handle

    def free(self) -> None:
        """Frees the ring. Reap the commands in flight first: their memory is not freed otherwise,
        and neither is what was lent to their devices."""
        if self._handle:
            _lib.smq_ring_free(self._handle)
            self._handle = _ffi.NULL

    def add(self, device: Device) -> None:
        """Registers a device, so that each run costs less."""
        _checked("ring", _lib.smq_ring_add(self._ring, device._dev))

    def remove(self, device: Device) -> None:
        """Removes a device from the ring."""
        _checked("ring", _lib.smq_ring_remove(self._ring, device._dev))

    def _queue(self, call: Any, device: Device, what: Any, tag: int, memory: Any = None) -> None:
        ring, dev, number = self._ring, device._dev, next(_numbers)
        # Before the call: right after it the handler of a signal may raise an exception.
        _in_flight[number] = (tag, memory, device._lent)
        result = call(ring, dev, what, number)
        if result < 0:
            del _in_flight[number]
            raise Error("queue", result)

    def queue_run(self, device: Device, slot: int, tag: int = 0, lba: int | None = None,
                  buffer: int | None = None) -> None:
        """Queues a run of a slot, with another LBA or buffer than the slot's if they are given.
        OSError EAGAIN: the ring is full, submit() makes room."""
        if lba is None and buffer is None:
            # A number that no slot has raises OverflowError here, before the run is in flight.
            self._queue(_lib.smq_queue_run, device, int(_ffi.new("uint32_t *", slot)[0]), tag)
            return
        flags = ((_lib.SMQ_SG_RUN_LBA if lba is not None else 0) |
                 (_lib.SMQ_SG_RUN_BUFFER if buffer is not None else 0))
        run = _ffi.new("struct smq_sg_run *", (slot, buffer or 0, flags, lba or 0))
        self._queue(_lib.smq_queue_run_with, device, run, tag)

    def queue_batch(self, device: Device, batch: Batch, tag: int = 0) -> None:
        """Queues a batch, which has one completion."""
        self._queue(_lib.smq_queue_batch, device, batch.batch, tag, batch.memory)

    def queue_command(self, device: Device, cdb: bytes, *, data_in: Any = None,
                      data_out: Any = None, timeout_ms: int = 0, tag: int = 0) -> None:
        """Queues a command without a slot, with data in objects that have memory of their own."""
        parts = [_ffi.from_buffer(cdb), _ffi.new("uint8_t[96]"),
                 _ffi.from_buffer(data_out) if data_out is not None else _ffi.NULL,
                 _ffi.from_buffer(data_in, require_writable=True)
                 if data_in is not None else _ffi.NULL]
        at = [int(_ffi.cast("uintptr_t", part)) for part in parts]
        out_len, in_len = (len(part) if part else 0 for part in parts[2:])
        command = _ffi.new("struct smq_sg_uring_cmd *", {
            "request": at[0], "request_len": len(cdb), "response": at[1], "max_response_len": 96,
            "dout_xferp": at[2], "dout_xfer_len": out_len, "din_xferp": at[3],
            "din_xfer_len": in_len, "timeout_ms": timeout_ms})
        self._queue(_lib.smq_queue_command, device, command, tag, (command, parts))

    def submit(self) -> int:
        """Sends what is queued. Returns how many entries were sent."""
        return _checked("run", _lib.smq_submit(self._ring))

    def reap(self, most: int = 1, least: int = 1, timeout: float | None = None) -> list[Event]:
        """Sends what is queued and fetches up to @most completions; waits for @least of them, for
        at most @timeout seconds."""
        events = _ffi.new("struct smq_event[]", most)
        wait = -1 if timeout is None else int(timeout * 10**9)
        count = _checked("run", _lib.smq_reap(self._ring, events, most, least, wait))
        return [self._ended(events + index) for index in range(count)]

    def _ended(self, event: Any) -> Event:
        tag, memory, _ = _in_flight.pop(event.tag)
        if not isinstance(memory, tuple):
            return Event(tag, event.result)
        found = _ffi.new("struct smq_outcome *")
        _lib.smq_command_outcome(event, memory[0], found)
        return Event(tag, event.result, Outcome._of(found))
