# SPDX-License-Identifier: GPL-2.0
"""Memory of this process at known addresses, for buffers."""
import ctypes
import mmap
import os
from pathlib import Path

import pytest

PAGE, HUGE_PAGE = 4096, 2 << 20
_PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_MAP_FIXED, _MAP_NORESERVE, _MAP_HUGETLB = 0x10, 0x4000, 0x40000
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p


class Memory:
    """Mapped memory, by default anonymous and private."""

    def __init__(self, size: int, flags: int = _PRIVATE):
        self.area = mmap.mmap(-1, size, flags=flags)
        first = ctypes.c_char.from_buffer(self.area)
        self.address, self.size = ctypes.addressof(first), size
        del first

    def __getitem__(self, part):
        return self.area[part]

    def __setitem__(self, part, data) -> None:
        self.area[part] = data

    def close(self) -> None:
        """Unmaps it."""
        self.area.close()


def mprotect(area, protection: int) -> int:
    """Calls mprotect(2) for the whole area."""
    return _LIBC.mprotect(ctypes.c_void_p(area.address), ctypes.c_size_t(area.size), protection)


def _want_huge_pages() -> None:
    pool = Path("/proc/sys/vm/nr_hugepages")
    if not pool.exists():
        pytest.skip("a kernel without huge pages")
    pool.write_text("4", encoding="ascii")


def huge_memory(size: int) -> Memory:
    """Memory of huge pages."""
    _want_huge_pages()
    return Memory(size, _PRIVATE | _MAP_HUGETLB)


class OnePage:
    """Memory that maps one page, small or huge, many times. Neighbouring mappings are not
    contiguous in physical memory, so each is a separate piece."""

    def __init__(self, size: int, page: int = PAGE):
        if page == PAGE and mmap.PAGESIZE > PAGE:
            pytest.skip(f"a kernel with pages of {mmap.PAGESIZE} bytes")
        if page != PAGE:
            _want_huge_pages()
        fd = os.memfd_create("page", os.MFD_HUGETLB if page != PAGE else 0)
        os.ftruncate(fd, page)
        self.size = size
        self._room = Memory(size + page, _PRIVATE | _MAP_NORESERVE)
        self.address = -(-self._room.address // page) * page
        for at in range(0, size, page):
            want = ctypes.c_void_p(self.address + at)
            got = _LIBC.mmap(want, ctypes.c_size_t(page), mmap.PROT_READ | mmap.PROT_WRITE,
                             mmap.MAP_SHARED | _MAP_FIXED, fd, ctypes.c_long(0))
            assert got == want.value
        os.close(fd)
