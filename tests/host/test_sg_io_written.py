# SPDX-License-Identifier: GPL-2.0
"""sg_io verify expects in each block the data of the last command in the file that writes this
block."""

import random

import pytest
from sg_io_build import COMMAND_FILE, part, run

PARTS = ("verify/written.c", *COMMAND_FILE)
BLOCK = 16
DISK = 64


def dump(tmp_path, lines, expect=0):
    path = tmp_path / "cmds"
    path.write_text("\n".join(lines) + "\n", encoding="ascii")
    done = run(part("sg_io_written", *PARTS), path, str(BLOCK), str(DISK))
    assert done.returncode == expect, done.stderr
    return done


def expected(tmp_path, lines):
    """Returns {LBA: (line, data)}; data is None if it is not known. Checks that extents are in
    order and do not overlap."""
    head, *rows = dump(tmp_path, lines).stdout.splitlines()
    blocks, end = {}, 0
    for row in rows:
        lba, count, line, data = row.split()
        assert int(lba) >= end
        end = int(lba) + int(count)
        for i in range(min(int(count), DISK)):
            text = data[2 * BLOCK * i:2 * BLOCK * (i + 1)]
            blocks[int(lba) + i] = int(line), None if data == "-" else bytes.fromhex(text)
    known = sum(data is not None for _, data in blocks.values())
    assert int(head.split()[0]) == known
    return blocks


def lba_data(lba):
    return lba.to_bytes(8, "big") * (BLOCK // 8)


def write10(lba, count, pattern):
    return f"2a00{lba:08x}00{count:04x}00 out {count * BLOCK} pattern={pattern}"


def same10(lba, count, pattern, bits=0):
    return f"41{bits:02x}{lba:08x}00{count:04x}00 out {BLOCK} pattern={pattern}"


def test_the_last_write_to_a_block_counts(tmp_path):
    got = expected(tmp_path, [write10(0, 8, "lba"), write10(2, 2, "ff"), write10(3, 3, "byte:7"),
                              "28000000000000000800 in 128"])
    assert [got[i][0] for i in range(8)] == [1, 1, 2, 3, 3, 3, 1, 1]
    assert got[1][1] == lba_data(1) and got[7][1] == lba_data(7)
    assert got[2][1] == b"\xff" * BLOCK and got[4][1] == b"\7" * BLOCK
    assert sorted(got) == list(range(8))


def test_write_atomic_has_its_own_length_field(tmp_path):
    # Bytes 10 and 11 are the atomic boundary, 12 and 13 the length.
    atomic = f"9c00{5:016x}{2:04x}{4:04x}0000 out {4 * BLOCK} pattern=lba"
    got = expected(tmp_path, [write10(4, 6, "ff"), atomic])
    assert {lba: line for lba, (line, _) in got.items()} == {4: 1, 5: 2, 6: 2, 7: 2, 8: 2, 9: 1}
    assert got[8][1] == lba_data(8)


def test_orwrite_leaves_data_that_is_not_known(tmp_path):
    orwrite = f"8b00{2:016x}{3:08x}0000 out {3 * BLOCK} pattern=ff"
    got = expected(tmp_path, [write10(1, 5, "lba"), orwrite, write10(3, 1, "ff")])
    assert {lba: (line, data is None) for lba, (line, data) in got.items()} == {
        1: (1, False), 2: (2, True), 3: (3, False), 4: (2, True), 5: (1, False)}


def test_write_same_repeats_its_block(tmp_path):
    got = expected(tmp_path, [same10(4, 3, "lba"), same10(60, 0, "ff")])
    assert all(got[i][1] == lba_data(4) for i in (4, 5, 6))
    # A number of 0 blocks means all blocks up to the end of the disk.
    assert sorted(got) == [4, 5, 6, 60, 61, 62, 63]
    ndob = "93010000000000000000000000080000 none 0"
    assert {data for _, data in expected(tmp_path, [ndob]).values()} == {bytes(BLOCK)}


def test_compare_and_write_stores_the_second_half(tmp_path):
    (tmp_path / "both").write_bytes(b"old" * 16 + b"new" * 16)
    got = expected(tmp_path, ["89000000000000000005000000030000 out 96 data=both@0"])
    assert b"".join(got[i][1] for i in (5, 6, 7)) == b"new" * 16


def test_blocks_with_unknown_data_are_not_compared(tmp_path):
    descriptors = b"".join(lba.to_bytes(8, "big") + n.to_bytes(4, "big") + bytes(4)
                           for lba, n in ((1, 2), (6, 1)))
    data = (6 + len(descriptors)).to_bytes(2, "big") + len(descriptors).to_bytes(2, "big")
    (tmp_path / "list").write_bytes(data + bytes(4) + descriptors)
    unmap = f"42000000000000{8 + len(descriptors):04x}00 out {8 + len(descriptors)} data=list@0"
    got = expected(tmp_path, [write10(0, 8, "ff"), unmap, write10(2, 1, "zero")])
    assert [got[i][1] is None for i in range(8)] == [0, 1, 0, 0, 0, 0, 1, 0]
    got = expected(tmp_path, [write10(0, 8, "ff"), same10(3, 2, "zero", bits=8)])
    assert [got[i][1] is None for i in range(8)] == [0, 0, 0, 1, 1, 0, 0, 0]
    got = expected(tmp_path, [write10(0, 8, "ff"), "040000000000 none 0", write10(5, 1, "ff")])
    assert [i for i in got if got[i][1] is not None] == [5]


def test_commands_without_a_known_block_give_no_expected_data(tmp_path):
    (head,) = dump(tmp_path, ["2f020000000000000100 out 16 pattern=ff", "1b0000000000 none 0",
                              "5500000000000000 1000 out 16".replace(" 10", "10"),
                              "c00000000000 out 4",
                              "83000000000000000000000000100000 out 16"]).stdout.splitlines()
    # sg_io does not know what two of these commands write: a vendor's command may write anything,
    # and the blocks of EXTENDED COPY are in its parameters.
    assert head == "0 2"


def test_largest_lba_can_be_written(tmp_path):
    top = (1 << 64) - 4
    line = f"8a00{top:016x}000000030000 out 48 pattern=ff"
    rows = dump(tmp_path, [line, "040000000000 none 0", line]).stdout.splitlines()[1:]
    assert rows[-1].split()[:3] == [str(top), "3", "3"]


def test_blocks_of_another_size_are_refused(tmp_path):
    done = dump(tmp_path, [write10(0, 1, "ff"), "2a000000000000000100 out 32"], expect=3)
    assert done.stderr.endswith("cmds:2: BYTES means blocks of 32 bytes, the device's blocks have "
                                "16\n")


@pytest.mark.parametrize("seed", range(20))
def test_expected_data_matches_a_disk_in_memory(tmp_path, seed):
    rng = random.Random(seed)
    lines, disk = [], {}
    for number in range(1, rng.choice([2, 10, 100, 400])):
        lba, count = rng.randrange(DISK), rng.randrange(1, 12)
        count = min(count, DISK - lba)
        kind = rng.randrange(8)
        if kind < 6:
            pattern = rng.choice(["lba", f"byte:{number % 256}"])
            lines.append(write10(lba, count, pattern))
            for i in range(lba, lba + count):
                data = lba_data(i) if pattern == "lba" else bytes([number % 256]) * BLOCK
                disk[i] = number, data
        elif kind == 6:
            lines.append(same10(lba, count, "lba"))
            disk |= {i: (number, lba_data(lba)) for i in range(lba, lba + count)}
        else:
            lines.append(same10(lba, count, "lba", bits=8))
            disk |= {i: (number, None) for i in range(lba, lba + count)}
    assert expected(tmp_path, lines) == disk
