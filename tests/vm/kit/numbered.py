# SPDX-License-Identifier: GPL-2.0
"""A disk whose first blocks contain their own LBA, and its node."""
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from . import cdb, sgio, smqsg
from .host import loaded
from .slots import BLOCK

NUMBERED_BLOCKS = 4096     # tests write only beyond these


def numbered_blocks(lba: int, count: int = 1) -> bytes:
    """The data of @count blocks from @lba on."""
    return b"".join(struct.pack("<Q", lba + at) * (BLOCK // 8) for at in range(count))


@contextmanager
def numbered_disk(driver: str = "smq_ram", **params) -> Iterator[str]:
    """Yields the node of a driver's disk. I/O errors in the kernel log do not fail the test."""
    with smqsg.module(), loaded(driver, io_errors=True, **params) as hosts:
        lun = hosts[0].luns()[0]
        with sgio.SgDev(lun.sg) as dev:
            for lba in range(0, NUMBERED_BLOCKS, 1024):
                assert dev.cmd(cdb.blocks(cdb.WRITE_10, lba, 1024),
                               dout=numbered_blocks(lba, 1024)).good
        yield smqsg.node(lun)
