# SPDX-License-Identifier: GPL-2.0
"""sg_io verify expects in each block the data of the last command in the file that writes this
block."""

import sys

import numpy as np
from properties import given, st
from sg_io_build import COMMAND_FILE, SRC, part, program_run, run

sys.path.append(str(SRC))
# pylint: disable-next=wrong-import-position
from judge import tags, verify  # noqa: E402

PARTS = ("judge/written.c", *COMMAND_FILE)
BLOCK = 16
DISK = 64


def dump(tmp_path, lines, expect=0):
    """The extents of a file, how many commands may have written unknown data, and the data that
    each extent writes."""
    path = tmp_path / "cmds"
    path.write_text("\n".join(lines) + "\n", encoding="ascii")
    done = program_run(part("sg_io_written_main", *PARTS), path, str(BLOCK), str(DISK),
                       tmp_path / "extents")
    assert done.returncode == expect, done.stderr
    if expect:
        return done.stderr.decode()
    head, _, data = done.stdout.partition(b"\n")
    extents = np.fromfile(tmp_path / "extents", verify.EXTENT)
    assert len(extents) == int(head.split()[0])
    return extents, int(head.split()[1]), data


def expected(tmp_path, lines):
    """Returns {LBA: (line, data)}; data is None if it is not known. Checks that READs have each
    known block once."""
    extents, _, data = dump(tmp_path, lines)
    known = extents["flags"] & verify.KNOWN > 0
    sizes = np.where(known, extents["end"] - extents["lba"], 0)
    begin = np.cumsum(sizes) - sizes
    blocks = {}
    edges, last = verify.last_writers(extents["lba"], extents["end"])
    for lba, end, row in zip(edges.tolist(), [*edges[1:].tolist(), 0], last.tolist()):
        for at in range(lba, min(end, DISK) if row >= 0 else 0):
            place = (int(begin[row]) + at - int(extents["lba"][row])) * BLOCK
            blocks[at] = (int(extents["line"][row]),
                          data[place:place + BLOCK] if known[row] else None)
    parts, rows = verify.find_parts(extents)
    covered = {at: int(extents["line"][row]) for part, row in zip(parts, rows)
               for at in range(part["lba"], part["end"])}
    assert covered == {at: line for at, (line, found) in blocks.items() if found is not None}
    for most in (1, 3, DISK) if covered else ():
        reads = verify.make_reads(parts, most)
        assert [at for read in reads for at in range(read["lba"], read["lba"] + read["blocks"])] \
            == sorted(covered)
        for read in reads:
            begins = parts[read["part"]]
            assert begins["lba"] <= read["lba"] < begins["end"] and read["blocks"] <= most
    return blocks


def lba_data(lba):
    return lba.to_bytes(8, "big") * (BLOCK // 8)


def write10(lba, count, pattern):
    return f"2a00{lba:08x}00{count:04x}00 out {count * BLOCK} pattern={pattern}"


def test_commands_without_a_known_block_give_no_expected_data(tmp_path):
    extents, unclear, _ = dump(tmp_path, ["2f020000000000000100 out 16 pattern=ff",
                                          "1b0000000000 none 0", "55000000000000001000 out 16",
                                          "c00000000000 out 4",
                                          "83000000000000000000000000100000 out 16"])
    # sg_io does not know what two of these commands write: a vendor's command may write anything,
    # and the blocks of EXTENDED COPY are in its parameters.
    assert (len(extents), unclear) == (0, 2)


def test_largest_lba_can_be_written(tmp_path):
    top = (1 << 64) - 4
    line = f"8a00{top:016x}000000030000 out 48 pattern=ff"
    extents, _, _ = dump(tmp_path, [line, "040000000000 none 0", line])
    parts, rows = verify.find_parts(extents)
    assert [(p["lba"], p["end"]) for p in parts] == [(top, top + 3)]
    assert extents["line"][rows] == [3]
    assert [tuple(read) for read in verify.make_reads(parts, 2)] == [(top, 2, 0), (top + 2, 1, 0)]


def test_blocks_of_another_size_are_refused(tmp_path):
    assert dump(tmp_path, [write10(0, 1, "ff"), "2a000000000000000100 out 32"], expect=3).endswith(
        "cmds:2: BYTES means blocks of 32 bytes, the device's blocks have 16\n")


def unmap(tmp_path, number, ranges):
    """UNMAP of (LBA, count); its list is in a file."""
    listed = b"".join(lba.to_bytes(8, "big") + count.to_bytes(4, "big") + bytes(4)
                      for lba, count in ranges)
    (tmp_path / f"list{number}").write_bytes(
        (6 + len(listed)).to_bytes(2, "big") + len(listed).to_bytes(2, "big") + bytes(4) + listed)
    size = 8 + len(listed)
    return f"42000000000000{size:04x}00 out {size} data=list{number}@0"


def write(tmp_path, number, kind, lba, count):
    """A line that changes blocks from @lba on, and the data that each then has; None: unknown."""
    cdb = f"{lba:016x}{count:08x}"
    short = f"{lba:08x}00{count:04x}00"
    each = bytes([number % 256]) * BLOCK
    twice = bytes(at % 256 for at in range(2 * count * BLOCK))
    blocks = range(lba, lba + count)
    # WRITE SAME of 0 blocks means all blocks up to the end of the disk.
    same = range(lba, DISK)
    return {
        "write": (write10(lba, count, f"byte:{number % 256}"), {i: each for i in blocks}),
        "lba": (write10(lba, count, "lba"), {i: lba_data(i) for i in blocks}),
        # Bytes 10 and 11 are the atomic boundary, 12 and 13 the length.
        "atomic": (f"9c00{lba:016x}{2:04x}{count:04x}0000 out {count * BLOCK} pattern=lba",
                   {i: lba_data(i) for i in blocks}),
        "or": (f"8b00{cdb}0000 out {count * BLOCK} pattern=ff", dict.fromkeys(blocks)),
        "same": (f"4100{short} out {BLOCK} pattern=lba", {i: lba_data(lba) for i in blocks}),
        "same-rest": (f"4100{lba:08x}00000000 out {BLOCK} pattern=ff",
                      {i: b"\xff" * BLOCK for i in same}),
        "same-unmap": (f"4108{short} out {BLOCK} pattern=zero", dict.fromkeys(blocks)),
        "same-zeroes": (f"9301{cdb}0000 none 0", {i: bytes(BLOCK) for i in blocks}),
        # The data has what is compared, then what is written.
        "compare": (f"8900{lba:016x}000000{count:02x}0000 out {len(twice)} pattern=count",
                    {i: twice[(count + i - lba) * BLOCK:][:BLOCK] for i in blocks}),
        "unmap": (unmap(tmp_path, number, [(lba, count), (0, 1)]), dict.fromkeys([*blocks, 0])),
        "format": ("040000000000 none 0", dict.fromkeys(range(DISK))),
        "read": (f"2800{short} in {count * BLOCK}", {}),
    }[kind]


KINDS = ["write", "lba"] * 4 + ["atomic", "or", "same", "same-rest", "same-unmap", "same-zeroes",
                                "compare", "unmap", "format", "read"]


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, DISK - 1), st.integers(1, 12)),
                min_size=1, max_size=60))
def test_expected_data_is_that_of_a_disk_in_memory(tmp_path_factory, cmds):
    folder, lines, disk = tmp_path_factory.mktemp("written"), [], {}
    for number, (kind, lba, count) in enumerate(cmds, 1):
        line, data = write(folder, number, kind, lba, min(count, DISK - lba))
        lines.append(line)
        disk |= {at: (number, found) for at, found in data.items()}
    # FORMAT UNIT also writes what is behind the blocks that are tested here.
    assert {at: found for at, found in expected(folder, lines).items() if at < DISK} == disk


@given(st.sampled_from([32, 512, 520]), st.integers(0, 2), st.integers(0, 2), st.integers(0, 15),
       st.booleans())
def test_blocks_whose_parts_are_from_two_writes(tmp_path_factory, size, first, second, cut, wrong):
    """A block has the tag of line 3. It has that of @first, from unit @cut on that of @second; 0
    is zeroes; or a byte is wrong."""
    cdb = f"2a{7:010x}00000100 out {size} pattern=tag:9\n"
    path = tmp_path_factory.mktemp("tags") / "cmds"
    path.write_text(cdb * 3, encoding="ascii")
    data = [bytes(size), *(bytes.fromhex(line.split()[7]) for line in run(
        part("sg_io_dump", *COMMAND_FILE), path).stdout.splitlines()[1:])]
    block = bytearray(data[first][:32 * cut] + data[second][32 * cut:])
    if wrong:
        block[size // 2] ^= 1
    found, want = tags.find(*(np.frombuffer(some, "u1").reshape(1, size)
                              for some in (block, data[3])))
    assert want[0].tolist() == (7, 9, 0, 3)
    first = first if cut else second
    if wrong:
        name = "corrupt"
    elif first != second and 32 * cut < size:
        name = "torn"
        assert (found.tag[0]["line"], found.next[0]["line"], found.at[0]) == (
            first, second, 32 * cut)
    else:
        name = "stale" if first else "empty"
        assert found.tag[0]["line"] == first
    assert tags.NAMES[found.verdict[0]] == name
