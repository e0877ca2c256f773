# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 6.12 7.2
"""Reads return what was written: random commands, compared with a model in memory."""
import random

import pytest
from kit import cdb
from kit.host import SgDev, loaded
from kit.outcome import MISCOMPARE, outcome

MIB = 4
PAGE = 4096
COMMANDS = 400
CHUNK = 128 << 10


class Model:
    """A disk, and a copy in memory of the data that it should have."""

    def __init__(self, dev: SgDev, size: int, seed: int):
        self.dev, self.size = dev, size
        self.blocks = (MIB << 20) // size
        self.medium = bytearray(MIB << 20)
        self.random = random.Random(seed)
        self.log: list[str] = []

    def send(self, command: bytes, **buffer):
        """Sends a command, and logs it for the message of a failure."""
        self.log.append(command.hex(" "))
        return self.dev.cmd(command, at=self.random.choice((0, 512, 1024, 3584)), **buffer)

    def history(self) -> str:
        """The last commands."""
        return "last commands:\n  " + "\n  ".join(self.log[-8:])

    def span(self, most: int) -> tuple[int, int]:
        """A random LBA and count, often at the edge of a page, of a leaf (2 MiB) or of the disk."""
        count = self.random.randint(1, most)
        edge = self.random.choice([0, 2 << 20, MIB << 20, self.random.randrange(MIB << 20)])
        lba = edge // self.size + self.random.randint(-count - 8, 8)
        return min(max(lba, 0), self.blocks - count), count

    def data(self, count: int) -> bytes:
        """Random blocks, sometimes zeroes."""
        if self.random.random() < 0.1:
            return bytes(count * self.size)
        return self.random.randbytes(count * self.size)

    def piece(self, lba: int, count: int) -> slice:
        """Where blocks are in the model."""
        return slice(lba * self.size, (lba + count) * self.size)

    def write(self) -> None:
        """A WRITE with a CDB of any length."""
        lba, count = self.span(4 * PAGE // self.size + 3)
        data = self.data(count)
        command = cdb.blocks(self.random.choice(cdb.WRITES), lba, count)
        assert self.send(command, dout=data).good, self.history()
        self.medium[self.piece(lba, count)] = data

    def read(self) -> None:
        """A READ with a CDB of any length."""
        lba, count = self.span(8 * PAGE // self.size + 3)
        command = cdb.blocks(self.random.choice(cdb.READS), lba, count)
        got = self.send(command, din=count * self.size)
        assert got.good and got.resid == 0, f"{got}\n{self.history()}"
        assert got.data == self.medium[self.piece(lba, count)], self.history()

    def short_write(self) -> None:
        """A WRITE with less data than its blocks need: only the data sent is written."""
        lba, count = self.span(PAGE // self.size + 3)
        less = self.random.randint(1, count)
        data = self.data(less)
        assert self.send(cdb.blocks(cdb.WRITE_10, lba, count), dout=data).good, self.history()
        self.medium[self.piece(lba, less)] = data

    def write_same(self) -> None:
        """WRITE SAME with and without UNMAP and NDOB."""
        lba, count = self.span(6 * PAGE // self.size)
        opcode = self.random.choice((cdb.WRITE_SAME_10, cdb.WRITE_SAME_16))
        ndob = opcode == cdb.WRITE_SAME_16 and self.random.random() < 0.3
        unmap = self.random.random() < 0.4
        data = bytes(self.size) if ndob else self.data(1)
        command = cdb.blocks(opcode, lba, count, byte1=(8 if unmap else 0) | int(ndob))
        got = self.send(command, dout=b"" if ndob else data)
        assert got.good, f"{got}\n{self.history()}"
        # With UNMAP, smq_ram writes the blocks if @data is not what unmapped blocks return.
        self.medium[self.piece(lba, count)] = data * count

    def unmap(self) -> None:
        """UNMAP of some ranges, which may overlap."""
        ranges = [self.span(10 * PAGE // self.size) for _ in range(self.random.randint(1, 4))]
        listed = cdb.unmap_list(*ranges)
        assert self.send(cdb.unmap(len(listed)), dout=listed).good, self.history()
        for lba, count in ranges:
            self.medium[self.piece(lba, count)] = bytes(count * self.size)

    def verify(self) -> None:
        """VERIFY with the right data, or with one bit changed."""
        lba, count = self.span(3 * PAGE // self.size + 3)
        data = bytearray(self.medium[self.piece(lba, count)])
        same = self.random.random() < 0.5
        if not same:
            data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)
        command = cdb.blocks(self.random.choice(cdb.VERIFIES), lba, count, byte1=0x02)
        got = self.send(command, dout=bytes(data))
        assert (got.good if same else outcome(got) == MISCOMPARE), f"{got}\n{self.history()}"

    def verify_one(self) -> None:
        """VERIFY that sends one block of data, and compares each block of the disk with it."""
        lba, count = self.span(2 * PAGE // self.size + 1)
        whole = self.medium[self.piece(lba, count)]
        first = bytes(whole[:self.size])
        command = cdb.blocks(self.random.choice(cdb.VERIFIES), lba, count, byte1=0x06)
        got = self.send(command, dout=first)
        same = whole == first * count
        assert (got.good if same else outcome(got) == MISCOMPARE), f"{got}\n{self.history()}"

    def compare_all(self) -> None:
        """Compares the whole disk with the model."""
        count = CHUNK // self.size
        for lba in range(0, self.blocks, count):
            got = self.dev.cmd(cdb.blocks(cdb.READ_16, lba, count), din=CHUNK)
            assert got.good and got.resid == 0, got
            want = self.medium[self.piece(lba, count)]
            if got.data != want:
                at = next(i for i in range(CHUNK) if got.data[i] != want[i])
                pytest.fail(f"block {lba + at // self.size}, byte {at % self.size}: read "
                            f"{got.data[at]:#04x}, written {want[at]:#04x}\n{self.history()}")


# The seed depends on the parameters alone: a second run sends the same commands.
@pytest.mark.parametrize("node,size", [("sd", 512), ("sd", 1024), ("sd", 2048), ("sd", 4096),
                                       ("sg", 512)])
def test_random_commands(node, size):
    """Sends random commands that change, read and compare data, then compares the whole disk."""
    with loaded("smq_ram", size_mb=MIB, sector_size=size) as hosts, \
            SgDev(getattr(hosts[0].luns()[0], node)) as dev:
        model = Model(dev, size, seed=size + len(node))
        steps = [model.write] * 6 + [model.read] * 4 + [
            model.short_write, model.write_same, model.write_same, model.unmap, model.verify,
            model.verify, model.verify_one]
        for _ in range(COMMANDS):
            model.random.choice(steps)()
        model.compare_all()


def test_unwritten_blocks_are_zero():
    """A new disk reads as zeroes, and VERIFY with zeroes succeeds."""
    with loaded("smq_ram", size_mb=MIB) as hosts, SgDev(hosts[0].luns()[0].sd) as dev:
        model = Model(dev, 512, 0)
        model.compare_all()
        assert dev.cmd(cdb.blocks(cdb.VERIFY_10, 0, model.blocks, byte1=0x06),
                       dout=bytes(512)).good


@pytest.mark.smoke
def test_pages_are_filled_freed_and_filled_again():
    """Writes fill all pages, UNMAP unmaps parts of pages and whole pages, and further writes fill
    them again."""
    with loaded("smq_ram", size_mb=MIB) as hosts, SgDev(hosts[0].luns()[0].sd) as dev:
        model = Model(dev, 512, 1)
        for turn in range(3):
            for lba in range(0, model.blocks, 256):
                data = bytes([turn * 16 + 1 + lba // 256 % 8]) * (256 * 512)
                assert dev.cmd(cdb.blocks(cdb.WRITE_10, lba, 256), dout=data).good
                model.medium[model.piece(lba, 256)] = data
            for _ in range(40):
                model.unmap()
        model.compare_all()
