# SPDX-License-Identifier: GPL-2.0
"""Reads and writes of the same blocks by all paths: slots of smq_sg, SG_IO, and the disk."""
import mmap
import os
import random

from . import cdb, smqsg
from .host import Lun
from .memory import Memory
from .sgio import SgDev
from .slots import BLOCK, SlotFile, read, write
from .uring import Ring

# The most bytes that this file moves by one command of SG_IO.
PIECE = 64 * BLOCK
# Seconds that a slow machine may need for all commands that a test sends at once.
SECONDS = 60


def write_by_sg(plain: SgDev, lba: int, what: bytes) -> None:
    """Writes by SG_IO."""
    for at in range(0, len(what), PIECE):
        part = what[at:at + PIECE]
        assert plain.cmd(cdb.blocks(cdb.WRITE_10, lba + at // BLOCK, len(part) // BLOCK),
                         dout=part).good


def read_by_sg(plain: SgDev, lba: int, count: int) -> bytes:
    """Reads blocks by SG_IO."""
    found = b""
    while count:
        some = min(count, PIECE // BLOCK)
        got = plain.cmd(cdb.blocks(cdb.READ_10, lba, some), din=some * BLOCK)
        assert got.good, got
        found, lba, count = found + got.data, lba + some, count - some
    return found


def read_by_block(lun: Lun, lba: int, count: int) -> bytes:
    """Reads blocks through the disk's block node, by O_DIRECT."""
    fd = os.open(lun.sd, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    try:
        with mmap.mmap(-1, count * BLOCK) as area:
            assert os.preadv(fd, [area], lba * BLOCK) == count * BLOCK
            return area[:]
    finally:
        os.close(fd)


def by_ring(file: SlotFile, ring: Ring, slots: range) -> None:
    """Runs each slot by an SQE of its own."""
    for slot in slots:
        file.push(ring, slot)
    ring.submit()
    assert sorted(ring.wait(len(slots), SECONDS)) == [(slot, 0) for slot in slots]


def by_batch(file: SlotFile, ring: Ring, slots: range) -> None:
    """Runs all slots by one SQE."""
    file.push_batch(ring, slots, 7)
    ring.submit()
    assert ring.wait(1, SECONDS) == [(7, 0)]


def by_ioctl(file: SlotFile, _ring: Ring, slots: range) -> None:
    """Runs all slots by one ioctl, as a list."""
    assert file.run(list(slots)) == (0, 0)


def compare_paths(lun: Lun, start: int, blocks: int, count: int, ways, rand: random.Random) -> None:
    """Checks that slots and SG_IO each read what the other has written, that the block node reads
    what slots have written, and that the blocks before and after do not change.

    Sends @count commands of @blocks blocks each, from LBA @start on, in each of @ways."""
    size = blocks * BLOCK
    total = count * size
    with SlotFile(smqsg.node(lun), 2 * count) as file, Ring(1 << count.bit_length()) as ring, \
            SgDev(lun.sg) as plain:
        area = Memory(2 * total)
        assert file.lend(0, area) == 0
        file.prepare([write(start + at * blocks, blocks, offset=at * size)
                      for at in range(count)])
        file.prepare([read(start + at * blocks, blocks, offset=total + at * size)
                      for at in range(count)], count)
        writes, reads = range(count), range(count, 2 * count)
        write_by_sg(plain, start - 1, rand.randbytes(BLOCK))
        write_by_sg(plain, start + count * blocks, rand.randbytes(BLOCK))
        edges = [read_by_sg(plain, start - 1, 1), read_by_sg(plain, start + count * blocks, 1)]
        for way in ways:
            for writer in ("slots", "sg"):
                new = rand.randbytes(total)
                if writer == "slots":
                    area[:total] = new
                    way(file, ring, writes)
                    assert read_by_sg(plain, start, count * blocks) == new, way
                    assert read_by_block(lun, start, count * blocks) == new, way
                else:
                    write_by_sg(plain, start, new)
                area[total:] = bytes(total)
                way(file, ring, reads)
                assert area[total:] == new, (way, writer)
        assert edges == [read_by_sg(plain, start - 1, 1),
                         read_by_sg(plain, start + count * blocks, 1)]
    smqsg.idle(smqsg.node(lun))
