# SPDX-License-Identifier: GPL-2.0
"""SCSI commands through ioctl SG_IO, sg version 3, on a /dev/sgN or /dev/sdX node."""
import ctypes
import fcntl
import mmap
import os
from dataclasses import dataclass

SG_IO = 0x2285
SG_SCSI_RESET = 0x2284
SG_SCSI_RESET_DEVICE, SG_SCSI_RESET_TARGET, SG_SCSI_RESET_HOST = 1, 4, 3
SG_SCSI_RESET_NO_ESCALATE = 0x100

DXFER_NONE, DXFER_TO_DEV, DXFER_FROM_DEV = -1, -2, -3

GOOD, CHECK_CONDITION, CONDITION_MET, BUSY = 0x00, 0x02, 0x04, 0x08
RESERVATION_CONFLICT, TASK_SET_FULL, TASK_ABORTED = 0x18, 0x28, 0x40

DID_OK, DID_NO_CONNECT, DID_TIME_OUT, DID_ERROR, DID_RESET = 0x00, 0x01, 0x03, 0x07, 0x08
DID_TRANSPORT_DISRUPTED = 0x0e

(NO_SENSE, RECOVERED_ERROR, NOT_READY, MEDIUM_ERROR, HARDWARE_ERROR, ILLEGAL_REQUEST,
 UNIT_ATTENTION, DATA_PROTECT) = range(8)
ABORTED_COMMAND, MISCOMPARE = 0x0b, 0x0e

SENSE_BYTES = 96
# Buffers are filled with this byte first, to see which part the device has written.
FILL = 0xa5


class SgIoHdr(ctypes.Structure):
    """struct sg_io_hdr of <scsi/sg.h>."""
    _fields_ = [
        ("interface_id", ctypes.c_int),
        ("dxfer_direction", ctypes.c_int),
        ("cmd_len", ctypes.c_ubyte),
        ("mx_sb_len", ctypes.c_ubyte),
        ("iovec_count", ctypes.c_ushort),
        ("dxfer_len", ctypes.c_uint),
        ("dxferp", ctypes.c_void_p),
        ("cmdp", ctypes.c_void_p),
        ("sbp", ctypes.c_void_p),
        ("timeout", ctypes.c_uint),
        ("flags", ctypes.c_uint),
        ("pack_id", ctypes.c_int),
        ("usr_ptr", ctypes.c_void_p),
        ("status", ctypes.c_ubyte),
        ("masked_status", ctypes.c_ubyte),
        ("msg_status", ctypes.c_ubyte),
        ("sb_len_wr", ctypes.c_ubyte),
        ("host_status", ctypes.c_ushort),
        ("driver_status", ctypes.c_ushort),
        ("resid", ctypes.c_int),
        ("duration", ctypes.c_uint),
        ("info", ctypes.c_uint),
    ]


@dataclass(frozen=True)
class Sense:
    """Decoded sense data. @sks: the sense-key specific bytes, such as a field pointer; b"" if they
    are not valid."""
    descriptor: bool = False
    key: int = NO_SENSE
    asc: int = 0
    ascq: int = 0
    sks: bytes = b""

    @property
    def triple(self) -> tuple[int, int, int]:
        """Key, ASC and ASCQ."""
        return self.key, self.asc, self.ascq


def decode_sense(sense: bytes) -> Sense | None:
    """Decodes fixed (70h, 71h) and descriptor (72h, 73h) format; None for no sense data."""
    code = sense[0] & 0x7f if sense else 0
    if code in (0x70, 0x71):
        whole = sense.ljust(18, b"\0")
        sks = whole[15:18] if whole[15] & 0x80 else b""
        return Sense(False, whole[2] & 0x0f, whole[12], whole[13], sks)
    if code in (0x72, 0x73):
        whole = sense.ljust(8, b"\0")
        sks, at = b"", 8
        while at + 2 <= len(whole):
            if whole[at] == 0x02 and len(whole) >= at + 8 and whole[at + 4] & 0x80:
                sks = whole[at + 4:at + 7]
            at += 2 + whole[at + 1]
        return Sense(True, whole[1] & 0x0f, whole[2], whole[3], sks)
    return None


@dataclass(frozen=True)
class Result:
    """The result of a command.

    @data is the data-in buffer without the residual. @raw is the whole buffer, which was filled
    with FILL before: /dev/sdX maps the caller's memory, so there @raw shows what the device wrote;
    /dev/sgN copies its own zeroed buffer over it. """
    status: int
    host: int
    driver: int
    sense: bytes
    resid: int
    data: bytes
    raw: bytes

    @property
    def decoded(self) -> Sense | None:
        """The decoded sense data, or None if there is none."""
        return decode_sense(self.sense)

    @property
    def good(self) -> bool:
        """Whether the status is GOOD, without a host error or sense data."""
        return self.status == GOOD and self.host == DID_OK and not self.sense

    @property
    def triple(self) -> tuple[int, int, int] | None:
        """Key, ASC and ASCQ, or None if there is no sense data."""
        sense = self.decoded
        return sense.triple if sense else None

    def __str__(self) -> str:
        return (f"status={self.status:#04x} host={self.host:#x} driver={self.driver:#x} "
                f"resid={self.resid} data={len(self.data)} B sense={self.sense.hex(' ') or '-'}")


class SgDev:
    """An open node. Sends commands and returns each result, whether good or bad."""

    def __init__(self, path: str, access: int = os.O_RDWR):
        self.path = path
        self.fd = os.open(path, access | os.O_NONBLOCK | os.O_CLOEXEC)

    def close(self) -> None:
        """Closes the node."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self):
        return self

    def __exit__(self, *exc) -> None:
        self.close()

    def cmd(self, cdb: bytes, din: int = 0, dout: bytes = b"", timeout_ms: int = 20000,
            flags: int = 0, at: int = 0) -> Result:
        """Issues @cdb with @din bytes of data-in buffer, or the data-out buffer @dout.

        The buffer begins @at bytes into a page. /dev/sdX maps buffers at multiples of 512 directly,
        so @at determines where scatterlist entries end.

        CHECK CONDITION and any other status is returned as a Result; only a command that the kernel
        does not queue raises OSError. """
        if din and dout:
            raise ValueError("a command has one data buffer: din or dout")
        size = din or len(dout)
        # Nothing else is in the buffer's pages, so /dev/sdX maps them and does not copy the data.
        with mmap.mmap(-1, max(at + size, 1)) as area:
            area[at:at + size] = dout or bytes([FILL]) * din
            buffer = (ctypes.c_ubyte * size).from_buffer(area, at)
            command = (ctypes.c_ubyte * len(cdb)).from_buffer_copy(bytes(cdb))
            sense = (ctypes.c_ubyte * SENSE_BYTES)()
            hdr = SgIoHdr(
                interface_id=ord("S"), cmd_len=len(cdb), mx_sb_len=SENSE_BYTES,
                dxfer_direction=DXFER_FROM_DEV if din else DXFER_TO_DEV if dout else DXFER_NONE,
                dxfer_len=size, dxferp=ctypes.addressof(buffer) if size else None,
                cmdp=ctypes.addressof(command), sbp=ctypes.addressof(sense),
                timeout=timeout_ms, flags=flags)
            try:
                fcntl.ioctl(self.fd, SG_IO, hdr)
                raw = bytes(buffer) if din else b""
            finally:
                del buffer
        return Result(hdr.status, hdr.host_status, hdr.driver_status,
                      bytes(sense[:hdr.sb_len_wr]), hdr.resid,
                      raw[:max(din - hdr.resid, 0)], raw)

    def reset(self, level: int) -> None:
        """SG_SCSI_RESET without escalation to the next level."""
        fcntl.ioctl(self.fd, SG_SCSI_RESET, ctypes.c_int(level | SG_SCSI_RESET_NO_ESCALATE))


# The same class for a block node, where SG_IO is the same ioctl.
Disk = SgDev
