# SPDX-License-Identifier: GPL-2.0
"""Block I/O whose expected data is known after each write, whatever happens to the disk.

Each thread has cells of its own on the disk and writes and reads them by O_DIRECT. Each write has
a pattern of its own in each sector, so a read reveals a lost write, old data and another cell's
data. After a write that failed, each sector may have the old data or the new: until the whole cell
is written again, a sector may hold the data of any candidate.
"""
import errno
import mmap
import os
import random
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from .host import Lun, wait_for
from .paths import SECONDS

SECTOR = 512
CELL = 16384
SECTORS = CELL // SECTOR
THREADS, CELLS = 8, 12
# Where the cells begin, in bytes. Prepared commands use the blocks before the cells (kit.lanes).
BASE = 1 << 20


def _pattern(cell: int, generation: int) -> bytes:
    return b"".join(struct.pack("<QQQQ", cell, generation, sector, ~generation & 0xffff) * 16
                    for sector in range(SECTORS))


class Stamped:
    """The cells of a disk, and threads that use them."""

    def __init__(self):
        # For each cell the candidates: the data that it may have, the latest write last.
        self._candidates = [[_pattern(cell, 0)] for cell in range(THREADS * CELLS)]
        # All threads use this counter: next() is atomic.
        self._generations = count(1)
        self._stop = threading.Event()
        # Results of the last run: I/Os that succeeded, errors, and failed checks.
        self.done = [0] * THREADS
        self.errors: list[OSError] = []
        self._wrong: list[BaseException] = []

    @property
    def total(self) -> int:
        """How many I/Os of the last run succeeded."""
        return sum(self.done)

    def fill(self, lun: Lun) -> None:
        """Writes all cells."""
        with _opened(lun) as (fd, area):
            for cell, candidates in enumerate(self._candidates):
                area[:] = candidates[-1]
                assert os.pwritev(fd, [area], BASE + cell * CELL) == CELL

    def check(self, lun: Lun) -> None:
        """Asserts that each sector has the data of one of its cell's candidates. From then on the
        data found is the cell's only candidate."""
        with _opened(lun) as (fd, area):
            for cell, candidates in enumerate(self._candidates):
                assert os.preadv(fd, [area], BASE + cell * CELL) == CELL
                found = area[:]
                self._compare(cell, found)
                candidates[:] = [found]

    def _compare(self, cell: int, found: bytes) -> None:
        for at in range(0, CELL, SECTOR):
            part = slice(at, at + SECTOR)
            assert any(found[part] == one[part] for one in self._candidates[cell]), (
                f"cell {cell}, sector {at // SECTOR}: has {found[part][:32].hex()}, "
                f"not one of {[one[part][:32].hex() for one in self._candidates[cell]]}")

    @contextmanager
    def running(self, lun: Lun, writes: bool = True, compare: bool = True) -> Iterator[None]:
        """Threads do I/O during the block. Each I/O must end at most SECONDS after the end of the
        block. A thread ends at its first error."""
        self._stop.clear()
        self.done, self.errors = [0] * THREADS, []
        self._wrong.clear()
        with _opened(lun) as (fd, _):
            threads = [threading.Thread(target=self._work, args=(number, fd, writes, compare))
                       for number in range(THREADS)]
            for thread in threads:
                thread.start()
            try:
                yield
            finally:
                self._stop.set()
                end = time.monotonic() + SECONDS
                for thread in threads:
                    thread.join(max(end - time.monotonic(), 0.1))
                alive = sum(thread.is_alive() for thread in threads)
                assert not alive, f"{alive} I/Os have not ended after {SECONDS} s"
        if self._wrong:
            raise self._wrong[0]

    def wait(self, more: int = 100) -> None:
        """Waits until @more further I/Os have succeeded."""
        before = self.total

        def enough():
            assert not self._wrong, self._wrong[0]
            return self.total >= before + more
        wait_for(f"{more} I/Os", enough, SECONDS)

    def _work(self, number: int, fd: int, writes: bool, compare: bool) -> None:
        rand = random.Random(number)
        try:
            with mmap.mmap(-1, CELL) as area:
                while not self._stop.is_set():
                    cell = number * CELLS + rand.randrange(CELLS)
                    if writes and rand.random() < 0.6:
                        self._write(fd, area, cell, rand)
                    else:
                        _expect_full(os.preadv(fd, [area], BASE + cell * CELL), CELL)
                        if compare:
                            self._compare(cell, area[:])
                    self.done[number] += 1
        except OSError as error:
            self.errors.append(error)
        except BaseException as error:      # pylint: disable=broad-except
            self._wrong.append(error)

    def _write(self, fd: int, area: mmap.mmap, cell: int, rand: random.Random) -> None:
        candidates = self._candidates[cell]
        # A cell with several candidates is written as a whole.
        sectors = rand.choice((1, 8, SECTORS)) if len(candidates) == 1 else SECTORS
        first = rand.randrange(SECTORS - sectors + 1)
        new = bytearray(candidates[-1])
        part = slice(first * SECTOR, (first + sectors) * SECTOR)
        new[part] = _pattern(cell, next(self._generations))[part]
        area[:] = bytes(new)
        candidates.append(bytes(new))
        with memoryview(area) as view, view[part] as some:
            _expect_full(os.pwritev(fd, [some], BASE + cell * CELL + part.start), len(some))
        candidates[:] = [bytes(new)]


def _expect_full(done: int, wanted: int) -> None:
    """Raises an error for a short I/O, which occurs because a removed disk has capacity 0."""
    if done != wanted:
        raise OSError(errno.ENODATA, f"{done} bytes, not {wanted}")


@contextmanager
def _opened(lun: Lun) -> Iterator[tuple[int, mmap.mmap]]:
    fd = os.open(lun.sd, os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
    try:
        with mmap.mmap(-1, CELL) as area:
            yield fd, area
    finally:
        os.close(fd)
