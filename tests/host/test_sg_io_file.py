# SPDX-License-Identifier: GPL-2.0
"""sg_io's command file: how good files are parsed, and the messages for bad ones."""

import os
import random
import struct
import subprocess

import pytest
from sg_io_build import COMMAND_FILE, binary, part, run

READ10 = "28000000000000000100"
WRITE10 = "2a000000001000000200"


def dump(path, *args):
    return run(part("sg_io_dump", *COMMAND_FILE), path, *args)


def commands(path, *args):
    done = dump(path, *args)
    assert done.returncode == 0, done.stderr
    names = "line cdb dir bytes timeout at cpu data changes misaligned target".split()
    return [dict(zip(names, line.split())) for line in done.stdout.splitlines()[1:]]


def write(tmp_path, text):
    path = tmp_path / "cmds"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def data_of(tmp_path, line):
    return bytes.fromhex(commands(write(tmp_path, line))[0]["data"])


def test_all_fields_are_parsed(tmp_path):
    path = write(tmp_path, f"# a comment\n\n\t{READ10}\tin 512 timeout=5 at=17 cpu=3 # end\r\n"
                           f"{WRITE10.upper()} out 0x400 pattern=ff\n000000000000 none 0")
    a, b, c = commands(path)
    assert (a["line"], a["cdb"], a["dir"], a["bytes"]) == ("3", READ10, "in", "512")
    assert (a["timeout"], a["at"], a["cpu"], a["data"]) == ("5", "17", "3", "-")
    assert (b["line"], b["cdb"], b["bytes"], b["data"]) == ("4", WRITE10, "1024", "ff" * 1024)
    assert (c["line"], c["timeout"], c["at"], c["cpu"]) == ("5", "30000", "17", "-1")


def test_cdb_may_have_a_space_after_each_byte(tmp_path):
    """The kernel and sg3_utils print CDBs so."""
    path = write(tmp_path, "28 00 00 00 00 00 00 00 01 00 in 512\n 2A 00 00 00 00 10\t00 00  02 00 "
                           "out 1k # end\n00 00 00 00 00 00 none 0")
    assert [(c["cdb"], c["dir"], c["bytes"]) for c in commands(path)] == [
        (READ10, "in", "512"), (WRITE10, "out", "1024"), ("00" * 6, "none", "0")]


def test_line_without_at_takes_the_time_of_the_previous_line_of_its_cpu(tmp_path):
    """The first line of a CPU takes the time of the previous line of the file, whatever CPU that
    line names."""
    lines = [("at=5 cpu=0", 5), ("at=90 cpu=1023", 90), ("cpu=0", 5), ("cpu=1023", 90),
             ("", 90), ("at=40", 40), ("cpu=1023", 90), ("", 40), ("cpu=7", 40)]
    path = write(tmp_path, "".join(f"{READ10} in 512 {words}\n" for words, _ in lines))
    assert [int(cmd["at"]) for cmd in commands(path)] == [at for _, at in lines]


@pytest.mark.parametrize("cdb", [
    "1200000060" "00", READ10, "a8000000000000000001" "0000",
    "88" + "00" * 12 + "01" + "0000", "c0" + "00" * 5, "e7" + "00" * 11, "ff" + "00" * 15,
    "7f" + "00" * 6 + "18" + "0009" + "00" * 18 + "00000001", "7f" + "00" * 6 + "08" + "00" * 8,
])
def test_cdbs_of_all_lengths_are_accepted(tmp_path, cdb):
    size = 96 if cdb.startswith("12") else 512
    assert commands(write(tmp_path, f"{cdb} in {size}\n"))[0]["cdb"] == cdb


def test_lba_pattern_writes_its_lba_into_each_block(tmp_path):
    data = data_of(tmp_path, f"{WRITE10} out 1024 pattern=lba")
    assert data == (16).to_bytes(8, "big") * 64 + (17).to_bytes(8, "big") * 64


def test_zero_byte_and_count_patterns_fill_the_data(tmp_path):
    line = f"{WRITE10} out 1024 pattern="
    assert data_of(tmp_path, f"{WRITE10} out 1024") == bytes(1024)
    assert data_of(tmp_path, line + "zero") == bytes(1024)
    assert data_of(tmp_path, line + "byte:0x5a") == b"\x5a" * 1024
    assert data_of(tmp_path, line + "count") == bytes(range(256)) * 4


def test_random_pattern_depends_on_block_and_seed(tmp_path):
    both = data_of(tmp_path, f"{WRITE10} out 1024 pattern=random:7")
    second = data_of(tmp_path, "2a000000001100000100 out 512 pattern=random:7")
    assert both[512:] == second
    assert both[:512] != second
    assert len(set(both)) > 200
    assert both != data_of(tmp_path, f"{WRITE10} out 1024 pattern=random:8")
    assert data_of(tmp_path, f"{WRITE10} out 1024 pattern=random") == \
        data_of(tmp_path, f"{WRITE10} out 1024 pattern=random:0")


def test_tag_depends_on_block_and_line(tmp_path):
    """Two lines that write the same blocks write different data, and each block has its LBA."""
    lines = f"{WRITE10} out 1024 pattern=tag:7:3\n" * 2
    first, second = (bytes.fromhex(c["data"]) for c in commands(write(tmp_path, lines)))
    assert first[:24] == bytes.fromhex("0000000000000010" "0000000000000007" "00000003" "00000001")
    assert first[512:520] == second[512:520] == (17).to_bytes(8, "big")
    assert second[20:24] == (2).to_bytes(4, "big")


def crc32c(data):
    """The bitwise CRC-32C: another way than that of sg_io, which uses a table."""
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


@pytest.mark.parametrize("size", [32, 512, 520, 4096])
def test_block_of_tags(tmp_path, size):
    """LBA, seed, pass, line, place and CRC in each 32 bytes. test_sg_io_verify.py has what verify
    says of a block that is stale, misplaced, torn or corrupt."""
    assert crc32c(b"123456789") == 0xe3069283      # the check value in catalogues of CRCs
    units = b""
    for place in range(-(-size // 32)):
        unit = struct.pack(">QQIII", 1 << 63, (1 << 64) - 1, 3, 1, place)
        units += unit + crc32c(unit).to_bytes(4, "big")
    line = f"8a00{1 << 63:016x}000000010000 out {size} pattern=tag:{(1 << 64) - 1}:3"
    assert data_of(tmp_path, line) == units[:size]


def test_data_file_is_found_beside_the_commands(tmp_path):
    (tmp_path / "img@1").write_bytes(b"xx" + b"abcd" * 256)
    assert data_of(tmp_path, f"{WRITE10} out 1024 data=img@1@2") == b"abcd" * 256


def test_equal_images_share_memory(tmp_path):
    lines = [f"2a00000000{i:02x}00000200 out 1024 pattern=count" for i in range(50)]
    done = dump(write(tmp_path, "\n".join(lines)))
    assert done.stdout.split()[4] == "1024"


def test_images_are_aligned(tmp_path):
    lines = [f"2a00000000{i:02x}0000{i:02x}00 out {512 * i} pattern=lba" for i in range(1, 20)]
    assert {c["misaligned"] for c in commands(write(tmp_path, "\n".join(lines)))} == {"0"}


def test_file_is_read_from_standard_input():
    done = run(part("sg_io_dump", *COMMAND_FILE), "-", stdin=f"{READ10} in 512\n".encode())
    assert done.stdout.splitlines()[1].split()[1] == READ10


@pytest.mark.parametrize("line,changes", [
    (f"{READ10} in 512", "0"), (f"{WRITE10} out 1024", "1"), ("040000000000 none 0", "1"),
    ("1b0000000000 none 0", "1"), ("000000000000 none 0", "0"), ("c00000000000 out 4", "1"),
    ("93010000000000000000000000080000 none 0", "1"), ("2f000000000000000800 none 0", "0"),
    ("2f020000000000000800 out 4096", "0"),
    # WRITE LONG(10) and (16) with WR_UNCOR, REMOVE ELEMENT AND TRUNCATE, and what else sends no
    # data: SANITIZE, RESET WRITE POINTER, STREAM CONTROL, a vendor's opcode, an unknown one.
    ("3f400000000000000000 none 0", "1"), ("9f510000000000000000000000000000 none 0", "1"),
    ("9e180000000000000000000000010000 in 1", "1"), ("48030000000000000000 none 0", "1"),
    ("94040000000000000000000000000000 none 0", "1"), ("9e140000000000000000000000000000 none 0",
                                                       "1"),
    ("c00000000000 none 0", "1"), ("c00000000000 in 4", "1"), ("020000000000 none 0", "1"),
    (f"7f{'00' * 6}181ff0{'00' * 22} none 0", "1"), ("160000000000 none 0", "1"),
    ("9e100000000000000000000000200000 in 32", "0"),
    ("a30c00000000000000640000 in 100", "0"), ("95000000000000000000000000640000 in 100", "0"),
    ("9e110000000000000000000002080000 in 520", "0"), ("35000000000000000000 none 0", "0"),
    (f"7f{'00' * 6}180009{'00' * 21}01 in 512", "0"),
])
def test_commands_that_may_change_the_medium_are_marked(tmp_path, line, changes):
    assert commands(write(tmp_path, line))[0]["changes"] == changes


@pytest.mark.parametrize("line", [
    "28000000000000000300 in 512", f"{READ10} none 0", f"{READ10} out 512", "120000002400 in 12",
])
def test_unchecked_accepts_contradictions(tmp_path, line):
    assert dump(write(tmp_path, line)).returncode == 2
    assert len(commands(write(tmp_path, line), "--unchecked")) == 1


W = f"{WRITE10} out 1024"
R = f"{READ10} in 512"
BAD = [
    # a line, the text that its message must have, and more text of the line (optional)
    ("zz", "CDB: 'z' is no hex digit"),
    ("0x28", "CDB: hex digits without 0x"),
    # A length for each group of opcodes, and one byte more or less.
    *((f"{opcode:02x}{'00' * (size - 1 + more)} none 0",
       f"needs a CDB of {size} bytes, not {size + more}")
      for opcode, size in ((0, 6), (0x28, 10), (0x88, 16), (0xa8, 12)) for more in (-1, 1)),
    ("280", "CDB: 3 hex digits, an even number is needed", " in 512"),
    ("2800 0000 in 512", "direction '0000' is not in, out or none; a CDB has no spaces, or one "
     "after each byte"),
    ("\xff\xfe", "CDB: byte C3h is no hex digit"),
    ("00" * 33 + " none 0", "CDB: 33 bytes, the limit is 32"),
    ("600000000000 none 0", "group 3 is reserved"),
    ("c00000 none 0", "a vendor specific CDB has 6, 10, 12 or 16 bytes, not 3"),
    ("7f0000000000 none 0", "a variable length CDB (7Fh) has 12 to 32 bytes"),
    ("7f" + "00" * 15 + " none 0", "opcode 7Fh needs a CDB of 8 bytes, not 16"),
    (READ10, "direction missing"),
    (f"{READ10} IN 512", "direction 'IN' is not in, out or none"),
    (f"{READ10} in", "BYTES missing"),
    (f"{READ10} in 0", "BYTES is 0 but the direction is in"),
    ("000000000000 none 8", "BYTES is 8 but the direction is none"),
    (f"{READ10} out 512",
     "READ(10) with this CDB moves data 'in', not 'out'; --unchecked accepts that"),
    (f"{WRITE10} in 1024", "WRITE(10) with this CDB moves data 'out', not 'in'"),
    ("28000000000000000000 in 512", "READ(10) with this CDB moves data 'none', not 'in'"),
    ("2f000000000000000100 out 512", "VERIFY(10) with this CDB moves data 'none'"),
    ("2f020000000000000100 none 0", "VERIFY(10) with this CDB moves data 'out'"),
    ("93010000000000000000000000080000 out 512", "WRITE SAME(16) with this CDB moves data 'none'"),
    ("28000000000000000300 in 512", "BYTES 512 is not divisible by the 3 blocks READ(10) moves"),
    ("89" + "00" * 12 + "0100" + "00 out 511", "not divisible by the 2 blocks COMPARE AND WRITE"),
    ("120000006000 in 36", "BYTES is 36 but the INQUIRY CDB says 96"),
    (f"{R} nonsense", "'nonsense' is not of the form KEY=VALUE"),
    (f"{R} delay=5", "unknown key 'delay'"),
    *((f"{R} {word} {word}", f"{word.partition('=')[0]}= given twice") for word in (
        "timeout=5", "at=1", "cpu=0", "expect=good", "sense=5/24/00", "resid=1", "wait=1", "dev=a",
        "took=1")),
    ("000000000000 none 0 pattern=zero", "pattern= needs data, but the direction is none"),
    ("000000000000 none 0 data=f@0", "data= needs data, but the direction is none"),
    (f"{R} data=ten@0", "data=ten: 512 bytes at offset 0 reach past its end at 10"),
    (f"{R} pattern=tag", "pattern=tag: has the line that wrote a block, which a line that reads"),
    (f"{R} expect=bad", "expect='bad' is not good, check or any"),
    *((f"{R} sense={word}", f"sense='{word}' is not KEY/ASC/ASCQ in hex, as 5/24/00")
      for word in ("5/24", "10/24/00", "5/024/00", "5/24/00/", "5/24/0x")),
    (f"{R} sense=5/24/00 expect=good", "sense= needs expect=check"),
    (f"{R} sense=5/24/00 pattern=ff", "data-in cannot be expected with sense="),
    (f"{R} expect=check pattern=ff", "data-in cannot be expected with expect=check"),
    (f"{R} resid=513", "resid=513 is over BYTES, 512"),
    (f"{R} repeat=2", "repeat= needs until=good"),
    (f"{R} repeat=2 until=bad", "until='bad' is not good"),
    (f"{R} until=good", "until=good needs repeat=, how often the command is sent at most"),
    (f"{R} repeat=2 until=good sense=2/04/01", "until=good contradicts sense="),
    (f"{R} repeat=2 until=good expect=check", "until=good contradicts expect=check"),
    *((f"{W} pattern={name}", f"pattern '{name}' is not one of zero, ff,")
      for name in ("", "zeros", "randomly", "tags")),
    ("c00000000000 out 4 pattern=tag", "pattern=tag: no LBA is known in a CDB with opcode C0h"),
    (f"{WRITE10} out 32 pattern=tag", "pattern=tag: blocks of 16 bytes, at least 32 are needed"),
    (f"{W} pattern=zero data=ten@0", "more than one data= or pattern="),
    ("c00000000000 out 4 pattern=lba", "pattern=lba: no LBA is known"),
    (f"{W} data=ten", "data=ten has no @OFFSET"),
    (f"{W} data=@0", "data= has no file name before the @"),
    *((f"{W} data=ten@{at}", f"'{at}' is no offset in bytes")
      for at in ("", "x", "9223372036854775808")),
    (f"{W} data=absent@0", "data=absent: No such file or directory"),
    *((f"{W} data={name}@0", f"data={name}: not a regular file")
      for name in ("/dev/zero", ".", "fifo")),
    (f"{W} data=ten@0", "data=ten: 1024 bytes at offset 0 reach past its end at 10"),
    (f"{W} data=ten@9223372036854775807", "reach past its end at 10"),
    (f"{R} # fine\x00", "line holds a NUL byte"),
    ("\x00", "line holds a NUL byte"),
    ("#" * 4097, "line longer than 4096 characters"),
]


@pytest.mark.parametrize("case", BAD, ids=lambda c: c[0][:40])
@pytest.mark.parametrize("sanitized", [False, True], ids=["plain", "sanitized"])
def test_bad_line_is_refused_with_its_number(tmp_path, case, sanitized):
    (tmp_path / "ten").write_bytes(b"0123456789")
    os.mkfifo(tmp_path / "fifo")
    line = case[0] + (case[2] if len(case) > 2 else "")
    path = write(tmp_path, f"# first\n{R}\n{line}\n{R}\n")
    done = run(binary(sanitized), "run", "/dev/null", path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"sg_io: {path}:3: ")
    assert case[1] in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("text", ["", "\n\n", "# only\n# comments"])
def test_file_without_commands_is_refused(tmp_path, text):
    done = run(binary(), "run", "/dev/null", write(tmp_path, text))
    assert (done.returncode, done.stdout) == (2, "")
    assert "holds no command" in done.stderr


def test_unreadable_files_are_reported(tmp_path):
    assert "No such file" in run(binary(), "run", "/dev/null", tmp_path / "none").stderr
    done = run(binary(), "run", "/dev/null", tmp_path)
    assert done.returncode == 2
    assert "Is a directory" in done.stderr


def test_data_memory_is_bounded(tmp_path):
    lines = [f"2a00{i:08x}00080000 out 1048576 pattern=lba" for i in range(8)]
    done = run(binary(), "run", "--memory", "4", "/dev/null", write(tmp_path, "\n".join(lines)))
    assert done.returncode == 2
    assert ":5: the data-out images of the file need more than 4 MiB" in done.stderr


def test_half_a_million_lines_need_little_memory(tmp_path):
    path = tmp_path / "cmds"
    with open(path, "wb") as out:
        subprocess.run([binary(), "gen", "--op", "read10", "--count", "500000"], stdout=out,
                       check=True, timeout=60)
    done = run("/usr/bin/prlimit", f"--as={128 << 20}", binary(), "run", "/dev/null", path)
    assert (done.returncode, done.stderr) == (
        3, "sg_io: /dev/null: not a node of a SCSI device (sg, bsg, sd or smqsg)\n")


def test_garbage_never_crashes(tmp_path):
    """Mutations of good lines are accepted or refused with a message, and never crash sg_io."""
    rng = random.Random(20130)
    good = f"{R} timeout=5 cpu=1\n{W} pattern=lba at=3\n7f{'00' * 6}18{'00' * 24} none 0\n"
    accepted = 0
    for _ in range(300):
        text = bytearray(good.encode())
        for _ in range(rng.randint(1, 6)):
            at = rng.randrange(len(text))
            text[at:at + rng.randint(0, 3)] = rng.choice([
                bytes([rng.randrange(256)]), b" ", b"\n", b"=", b"@", b"#", b"9" * 30])
        done = dump(write(tmp_path, bytes(text)))
        assert done.returncode in (0, 2)
        assert (done.stderr != "") == (done.returncode == 2)
        accepted += done.returncode == 0
    assert 0 < accepted < 300


def test_recorded_device_and_time(tmp_path):
    """All lines of a file have dev=, or none."""
    path = write(tmp_path, f"{READ10} in 512 dev=sda took=12.345\n{READ10} in 512 dev=sda")
    assert len(commands(path)) == 2
    for lines, why in [
            ((" dev=a", " dev=b"), "cmds:2: dev=b is a second device: 'sg_io replay a b FILE' "),
            ((" dev=a", ""), "cmds:2: has no dev=, but the lines before have it"),
            (("", " dev=a"), "cmds:2: has dev=, but the lines before have none"),
            ((" dev=",), "cmds:1: dev= needs a name of 1 to 63 characters"),
            ((" took=1.x",), "cmds:1: took='1.x' is no time in microseconds"),
            ((" took=1.",), "cmds:1: took='1.' is no time"),
            ((" took=99999999999999999999",), "is no time"),
            ((" took=18446744073709552",), "is no time")]:
        done = dump(write(tmp_path, "".join(f"{READ10} in 512{end}\n" for end in lines)))
        assert done.returncode == 2 and why in done.stderr, done.stderr
