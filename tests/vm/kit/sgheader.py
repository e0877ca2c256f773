# SPDX-License-Identifier: GPL-2.0
"""Headers of sg's interfaces 3 and 4 with any value in each field, and all results of a call.

kit.sgio is for commands; this file is for tests of the header itself. """
import ctypes
import errno
import fcntl
import mmap
import os
from dataclasses import dataclass, field

from .sgio import DXFER_FROM_DEV, DXFER_NONE, DXFER_TO_DEV, SG_IO, SgIoHdr

BAD = 0x10          # an address that is not mapped
FILL = 0xa5
FLAG_DIRECT_IO, FLAG_MMAP_IO, FLAG_Q_AT_TAIL, FLAG_Q_AT_HEAD = 1, 4, 0x10, 0x20
INFO_CHECK, INFO_DIRECT = 1, 2

_PAGE = mmap.PAGESIZE
_LIBC = ctypes.CDLL(None, use_errno=True)


class SgIoV4(ctypes.Structure):
    """struct sg_io_v4 of <linux/bsg.h>."""
    _fields_ = [
        ("guard", ctypes.c_int32), ("protocol", ctypes.c_uint32),
        ("subprotocol", ctypes.c_uint32), ("request_len", ctypes.c_uint32),
        ("request", ctypes.c_uint64), ("request_tag", ctypes.c_uint64),
        ("request_attr", ctypes.c_uint32), ("request_priority", ctypes.c_uint32),
        ("request_extra", ctypes.c_uint32), ("max_response_len", ctypes.c_uint32),
        ("response", ctypes.c_uint64),
        ("dout_iovec_count", ctypes.c_uint32), ("dout_xfer_len", ctypes.c_uint32),
        ("din_iovec_count", ctypes.c_uint32), ("din_xfer_len", ctypes.c_uint32),
        ("dout_xferp", ctypes.c_uint64), ("din_xferp", ctypes.c_uint64),
        ("timeout", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("usr_ptr", ctypes.c_uint64),
        ("spare_in", ctypes.c_uint32),
        ("driver_status", ctypes.c_uint32), ("transport_status", ctypes.c_uint32),
        ("device_status", ctypes.c_uint32), ("retry_delay", ctypes.c_uint32),
        ("info", ctypes.c_uint32), ("duration", ctypes.c_uint32),
        ("response_len", ctypes.c_uint32), ("din_resid", ctypes.c_int32),
        ("dout_resid", ctypes.c_int32), ("generated_tag", ctypes.c_uint64),
        ("spare_out", ctypes.c_uint32), ("padding", ctypes.c_uint32),
    ]


class Arena:
    """Memory at known addresses, followed by a page that is not mapped."""

    def __init__(self, size: int, private: bool = False):
        """@private: a forked child has its own copy of the memory at the same addresses."""
        self.size = -(-size // _PAGE) * _PAGE
        # pylint: disable=consider-using-with
        self._map = mmap.mmap(-1, self.size + _PAGE,
                              mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS if private else mmap.MAP_SHARED)
        self._view = ctypes.c_char.from_buffer(self._map)
        self.address = ctypes.addressof(self._view)
        self.end = self.address + self.size
        if _LIBC.mprotect(ctypes.c_void_p(self.end), ctypes.c_size_t(_PAGE), 0):
            raise OSError(ctypes.get_errno(), "mprotect")

    def put(self, address: int, data: bytes) -> int:
        """Writes @data at @address, and returns @address."""
        ctypes.memmove(address, data, len(data))
        return address

    def get(self, address: int, size: int) -> bytes:
        """@size bytes at @address."""
        return ctypes.string_at(address, size)


@dataclass(frozen=True)
class Answer:
    """All results of a call: its errno, or else the header's fields by name, sense, and data.

    @data is the part of the buffer that the device may have written. It is empty after an error,
    because then the paths may leave different data in the buffer. """
    error: int = 0
    fields: dict = field(default_factory=dict)
    sense: bytes = b""
    data: bytes = b""

    def __str__(self) -> str:
        if self.error:
            return errno.errorcode.get(self.error, str(self.error))
        text = " ".join(f"{name}={value:#x}" for name, value in self.fields.items())
        return f"{text} sense={self.sense.hex(' ') or '-'} data={self.data.hex()[:64]}"


def fields_of(struct: ctypes.Structure, but: tuple[str, ...] = ()) -> dict:
    """A structure's fields by name."""
    return {name: getattr(struct, name) or 0 for name, _ in struct._fields_ if name not in but}


@dataclass
class V3:
    """A header of interface 3, without addresses: build() chooses these.

    @pieces are the lengths of an iovec's elements. @at is where in a page the data begins. Fields
    named in @null get the address 0; fields named in @bad get an address that is not mapped. """
    cdb: bytes
    din: int = 0
    dout: bytes = b""
    direction: int | None = None
    length: int | None = None
    cmd_len: int | None = None
    mx_sb_len: int = 96
    pieces: tuple[int, ...] = ()
    iovec_count: int | None = None
    at: int = 0
    timeout: int = 60000
    flags: int = 0
    pack_id: int = 0
    usr_ptr: int = 0
    interface: int = ord("S")
    null: tuple[str, ...] = ()
    bad: tuple[str, ...] = ()

    def build(self, arena: Arena) -> SgIoHdr:
        """The header, with its memory filled."""
        data = arena.address + _PAGE + self.at
        arena.put(data, bytes([FILL]) * (arena.end - data))
        arena.put(data, self.dout)
        spots = {"dxferp": data, "cmdp": arena.address, "sbp": arena.address + 1024}
        arena.put(spots["cmdp"], self.cdb)
        arena.put(spots["sbp"], bytes([FILL]) * 256)
        if self.pieces:
            table, at = b"", data
            for piece in self.pieces:
                table += at.to_bytes(8, "little") + piece.to_bytes(8, "little")
                at += piece
            spots["dxferp"] = arena.put(arena.address + 2048, table)
        spots |= {name: 0 for name in self.null} | {name: BAD for name in self.bad}
        size = self.din or len(self.dout)
        way = DXFER_FROM_DEV if self.din else DXFER_TO_DEV if self.dout else DXFER_NONE
        return SgIoHdr(
            interface_id=self.interface, cmd_len=len(self.cdb) if self.cmd_len is None
            else self.cmd_len, dxfer_direction=way if self.direction is None else self.direction,
            mx_sb_len=self.mx_sb_len, dxfer_len=size if self.length is None else self.length,
            iovec_count=len(self.pieces) if self.iovec_count is None else self.iovec_count,
            timeout=self.timeout, flags=self.flags, pack_id=self.pack_id, usr_ptr=self.usr_ptr,
            status=0xee, masked_status=0xee, msg_status=0xee, sb_len_wr=0xee, host_status=0xeee,
            driver_status=0xeee, resid=-1, duration=77, info=0xff, **spots)

    def answer(self, arena: Arena, hdr: SgIoHdr) -> Answer:
        """The results in a header after the call."""
        moved = 0
        if not hdr.status and not hdr.host_status and self.din:
            total = sum(self.pieces[:hdr.iovec_count]) if hdr.iovec_count else hdr.dxfer_len
            moved = max(min(total, hdr.dxfer_len) - max(hdr.resid, 0), 0)
        if "dxferp" in self.null:
            moved = 0
        sense = arena.get(arena.address + 1024, hdr.sb_len_wr)
        return Answer(0, fields_of(hdr, ("duration",)), sense,
                      arena.get(arena.address + _PAGE + self.at, moved))


@dataclass
class V4:
    """A header of interface 4, in the same form as V3."""
    cdb: bytes
    din: int = 0
    dout: bytes = b""
    length: int | None = None
    request_len: int | None = None
    max_response_len: int = 96
    pieces: tuple[int, ...] = ()
    at: int = 0
    timeout: int = 60000
    flags: int = 0
    guard: int = ord("Q")
    protocol: int = 0
    subprotocol: int = 0
    both: bool = False
    null: tuple[str, ...] = ()
    bad: tuple[str, ...] = ()

    def build(self, arena: Arena) -> SgIoV4:
        """The header, with its memory filled."""
        data = arena.address + _PAGE + self.at
        arena.put(data, bytes([FILL]) * (arena.end - data))
        arena.put(data, self.dout)
        spots = {"data": data, "request": arena.address, "response": arena.address + 1024}
        arena.put(spots["request"], self.cdb.ljust(64, b"\0"))
        arena.put(spots["response"], bytes([FILL]) * 256)
        if self.pieces:
            table, at = b"", data
            for piece in self.pieces:
                table += at.to_bytes(8, "little") + piece.to_bytes(8, "little")
                at += piece
            spots["data"] = arena.put(arena.address + 2048, table)
        spots |= {name: 0 for name in self.null} | {name: BAD for name in self.bad}
        hdr = SgIoV4(
            guard=self.guard, protocol=self.protocol, subprotocol=self.subprotocol,
            request_len=len(self.cdb) if self.request_len is None else self.request_len,
            request=spots["request"], response=spots["response"],
            max_response_len=self.max_response_len, timeout=self.timeout, flags=self.flags,
            usr_ptr=0x1234567890abcdef)
        size = self.din or len(self.dout)
        size = size if self.length is None else self.length
        if self.din or self.both:
            hdr.din_xfer_len, hdr.din_xferp = size, spots["data"]
            hdr.din_iovec_count = len(self.pieces)
        if self.dout or self.both:
            hdr.dout_xfer_len, hdr.dout_xferp = size, spots["data"]
            hdr.dout_iovec_count = len(self.pieces)
        return hdr

    def answer(self, arena: Arena, hdr: SgIoV4) -> Answer:
        """The results in a header after the call."""
        moved = 0
        if not hdr.device_status and not hdr.transport_status:
            moved = max(hdr.din_xfer_len - max(hdr.din_resid, 0), 0)
        sense = arena.get(arena.address + 1024, hdr.response_len)
        return Answer(0, fields_of(hdr, ("duration",)), sense,
                      arena.get(arena.address + _PAGE + self.at, moved))


def sg_io(fd: int, want: V3 | V4, arena: Arena) -> Answer:
    """SG_IO on an open node."""
    hdr = want.build(arena)
    try:
        fcntl.ioctl(fd, SG_IO, hdr)
    except OSError as error:
        return Answer(error.errno)
    return want.answer(arena, hdr)


def write(fd: int, want: V3, arena: Arena, short: int = 0) -> int:
    """Calls write() with a header that is cut by @short bytes. Returns its errno, or 0."""
    raw = bytes(want.build(arena))
    try:
        count = os.write(fd, raw[:len(raw) - short])
    except OSError as error:
        return error.errno
    assert count == len(raw) - short
    return 0


def read(fd: int, want: V3, arena: Arena, pack_id: int = -1, size: int = 0) -> Answer:
    """Calls read() with a header in which @pack_id is set."""
    hdr = SgIoHdr(interface_id=ord("S"), dxfer_direction=DXFER_NONE, pack_id=pack_id)
    size = size or ctypes.sizeof(hdr)
    try:
        count = os.readv(fd, [memoryview(hdr).cast("B")[:size]])
    except OSError as error:
        return Answer(error.errno)
    assert count == size
    return want.answer(arena, hdr)
