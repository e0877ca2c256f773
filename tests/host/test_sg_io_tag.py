# SPDX-License-Identifier: GPL-2.0
"""pattern=tag: the data of a block says which write it is from, so a block that differs can be told
to be stale, misplaced, torn or corrupt."""

import pytest
from sg_io_build import part, run

SIZE = 512
WANT = (100, 7, 2, 30)      # LBA, seed, pass, line


def crc32c(data):
    """The bitwise CRC-32C: another way than that of sg_io, which uses a table."""
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def block(lba, seed, number, line, size=SIZE):
    units = b""
    for place in range(-(-size // 32)):
        unit = (lba.to_bytes(8, "big") + seed.to_bytes(8, "big") + number.to_bytes(4, "big") +
                line.to_bytes(4, "big") + place.to_bytes(4, "big"))
        units += unit + crc32c(unit).to_bytes(4, "big")
    return units[:size]


def tags(*args, stdin=b""):
    done = run(part("sg_io_tag", "cmdfile/tag.c"), *map(str, args), stdin=stdin)
    assert done.returncode == 0
    return done.stdout.strip()


def judge(data, want=WANT):
    return tags("judge", *want, stdin=data)


def test_crc_is_crc_32c():
    """The check value of CRC-32C in the catalogues of CRCs."""
    assert crc32c(b"123456789") == 0xe3069283


@pytest.mark.parametrize("size", [32, 512, 520, 4096])
def test_block_has_tags(size):
    tag = (1 << 63, (1 << 64) - 2, 3, 4)
    assert bytes.fromhex(tags("fill", *tag, size)) == block(*tag, size=size)


@pytest.mark.parametrize("found,verdict", [
    ((100, 7, 2, 29), "stale"), ((100, 7, 1, 31), "stale"), ((100, 7, 2, 31), "other"),
    ((100, 7, 3, 1), "other"), ((100, 8, 2, 29), "other"), ((101, 7, 2, 30), "misplaced"),
    ((0, 9, 9, 9), "misplaced"),
])
@pytest.mark.parametrize("size", [512, 520])
def test_intact_block_of_another_write(found, verdict, size):
    assert judge(block(*found, size=size)) == verdict + " " + "/".join(map(str, found))


def test_block_of_zeroes_is_empty():
    assert judge(bytes(SIZE)) == "empty -"


@pytest.mark.parametrize("at", [32, 256, 480])
def test_torn_block(at):
    """The new data up to a byte, then old data or none; and the reverse."""
    new, old = block(*WANT), block(100, 7, 2, 5)
    assert judge(new[:at] + old[at:]) == f"torn 100/7/2/30 {at} 100/7/2/5"
    assert judge(old[:at] + new[at:]) == f"torn 100/7/2/5 {at} 100/7/2/30"
    assert judge(new[:at] + bytes(SIZE - at)) == f"torn 100/7/2/30 {at} -"
    assert judge(bytes(at) + new[at:]) == f"torn - {at} 100/7/2/30"


def test_end_that_is_cut_off_can_be_torn():
    """A block of 520 bytes ends with 8 bytes that have no CRC."""
    assert judge(block(*WANT, size=520)[:512] + bytes(8)) == "torn 100/7/2/30 512 -"
    assert judge(block(*WANT, size=520)[:512] + b"\1" * 8) == "corrupt 512"


@pytest.mark.parametrize("at", range(0, SIZE, 29))
@pytest.mark.parametrize("bit", [1, 0x80])
def test_each_damaged_bit_is_found(at, bit):
    data = bytearray(block(*WANT))
    data[at] ^= bit
    assert judge(bytes(data)) == f"corrupt {at // 32 * 32}"


def test_shifted_data_is_corrupt():
    """Each unit is intact, but not in its place."""
    data = block(*WANT)
    assert judge(data[32:] + data[:32]) == "corrupt 0"
    assert judge(data[:64] + data[96:128] + data[96:]) == "corrupt 64"
