# SPDX-License-Identifier: GPL-2.0
"""Reads into memory in which no two pages are neighbours."""
import ctypes
import os
import struct

from .memory import PAGE, Memory
from .uring import Ring


def scattered(path: str, pieces: int, parts: list[int]) -> bytes:
    """Reads @pieces pages at the start of each MiB whose number is in @parts, all in one
    submission. No two of the pages of memory are neighbours, so each is a separate piece of memory.
    Returns the data."""
    area = Memory(2 * pieces * PAGE * len(parts))
    area[:] = bytes([0xff]) * area.size
    starts = range(area.address, area.address + area.size, 2 * PAGE)
    iovecs = ctypes.create_string_buffer(b"".join(struct.pack("<QQ", at, PAGE) for at in starts))
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    try:
        with Ring(len(parts)) as ring:
            for number, part in enumerate(parts):
                ring.push_readv(fd, ctypes.addressof(iovecs) + 16 * number * pieces, pieces,
                                part << 20, number)
            ring.submit()
            assert sorted(ring.wait(len(parts))) == [
                (number, pieces * PAGE) for number in range(len(parts))]
    finally:
        os.close(fd)
    return b"".join(area[at:at + PAGE] for at in range(0, area.size, 2 * PAGE))
