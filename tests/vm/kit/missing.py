# SPDX-License-Identifier: GPL-2.0
"""Memory whose pages do not come: whoever accesses one sleeps until the memory is closed."""
import ctypes
import errno
import fcntl
import os
import select
import struct

import pytest

from .memory import Memory

_USERFAULTFD = 323
_API, _REGISTER = 0xc018aa3f, 0xc020aa00
_VERSION, _MISSING = 0xaa, 1
_MESSAGE = 32
_LIBC = ctypes.CDLL(None, use_errno=True)


class Missing(Memory):
    """Memory that userfaultfd handles, without a handler."""

    def __init__(self, size: int):
        super().__init__(size)
        self._fd = _LIBC.syscall(ctypes.c_long(_USERFAULTFD),
                                 ctypes.c_long(os.O_CLOEXEC | os.O_NONBLOCK))
        if self._fd < 0:
            assert ctypes.get_errno() == errno.ENOSYS
            pytest.skip("a kernel without userfaultfd")
        fcntl.ioctl(self._fd, _API, struct.pack("<QQQ", _VERSION, 0, 0))
        fcntl.ioctl(self._fd, _REGISTER,
                    struct.pack("<QQQQ", self.address, size, _MISSING, 0))

    def __enter__(self):
        return self

    def __exit__(self, *exc) -> None:
        self.come()

    def wait_asleep(self, count: int) -> None:
        """Waits until @count threads sleep for a page."""
        for _ in range(count):
            assert select.select([self._fd], [], [], 30)[0], "no thread sleeps for a page"
            os.read(self._fd, _MESSAGE)

    def come(self) -> None:
        """Lets all pages come, as zeroes."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
