# SPDX-License-Identifier: GPL-2.0
"""--map of sg_io replay and verify: which device gets a command, and at which blocks."""

import pytest
from sg_io_build import COMMAND_FILE, binary, part, run


def cdb(opcode, lba, blocks=8, flags=0):
    return f"{opcode}{flags:02x}{lba:08x}00{blocks:04x}00"


def mapped(text, *args):
    """Runs sg_io_dump; returns target, CDB, BYTES, time and the first 8 bytes of data of each
    command."""
    done = run(part("sg_io_dump", *COMMAND_FILE), *args, "/dev/stdin", stdin=text.encode())
    lines = [line.split() for line in done.stdout.splitlines()[1:]]
    return done, [[line[10], line[1], line[3], line[5], line[7][:16]] for line in lines]


def test_each_device_goes_to_its_target():
    done, lines = mapped(f"{cdb('28', 1)} in 4096 dev=a at=5\n{cdb('28', 2)} in 4096 dev=b at=6\n"
                         f"000000000000 none 0 dev=c at=7\n",
                         "--map", "a=x", "--map", "b=y", "--map", "c=x")
    assert lines == [["x", cdb("28", 1), "4096", "5", "-"], ["y", cdb("28", 2), "4096", "6", "-"],
                     ["x", "000000000000", "0", "7", "-"]], done.stderr


def test_blocks_move_and_the_data_with_them():
    """The pattern lba writes the new LBA. Bits beside LBA and length stay: here FUA."""
    text = f"{cdb('2a', 100, 8, 8)} out 4096 pattern=lba dev=a\n"
    for options, lba, blocks in (("", 100, 8), (",offset=1000", 1100, 8), (",offset=-100", 0, 8),
                                 (",scale=0.5", 50, 4), (",scale=2,offset=1k", 1224, 16),
                                 (",scale=0.01", 1, 1), (",offset=7,scale=1.5", 157, 12)):
        done, lines = mapped(text, "--map", f"a=x{options}")
        assert lines == [["x", cdb("2a", lba, blocks, 8), str(512 * blocks), "0",
                          f"{lba:016x}"]], done.stderr


def test_six_byte_commands_keep_their_other_bits():
    assert mapped("08e000050000 in 131072 dev=a\n", "--map", "a=x,offset=3")[1] == [
        ["x", "08e000080000", "131072", "0", "-"]]


def test_neighbours_stay_neighbours():
    """What was written without gaps and overlaps is so after scaling, too."""
    text = "".join(f"{cdb('28', lba, 3)} in 1536 dev=a\n" for lba in range(0, 300, 3))
    _, lines = mapped(text, "--map", "a=x,scale=0.7")
    at = 0
    for line in lines:
        assert int(line[1][4:12], 16) == at
        at += int(line[1][14:18], 16)
    assert at == 210


def test_window_of_time():
    text = "".join(f"{cdb('28', n)} in 4096 at={10 * n}\n" for n in range(5))
    _, lines = mapped(text, "--from", "10", "--to", "30")
    assert [line[3] for line in lines] == ["10", "20"]
    done, _ = mapped(text, "--from", "90")
    assert done.returncode == 2 and "holds no command from --from to --to" in done.stderr
    # A line without at= has the time of the one before, even if that is left out.
    _, lines = mapped(f"{cdb('28', 1)} in 4096 at=5\n{cdb('28', 2)} in 4096\n", "--from", "6",
                      "--to", "7")
    assert not lines


def test_commands_outside_the_window_need_not_fit():
    text = f"{cdb('28', 99)} in 4096 at=1 dev=a\n{cdb('28', 1)} in 4096 at=9 dev=a\n"
    args = ["--map", "a=x", "--size", "x=50:512"]
    assert "stdin:1: LBA 99, 8 blocks: x has 50 blocks" in mapped(text, *args)[0].stderr
    assert len(mapped(text, *args, "--from", "5")[1]) == 1


REFUSED = [
    (f"{cdb('28', 93)} in 4096 dev=a", ["--map", "a=x", "--size", "x=100:512"],
     "1: LBA 93, 8 blocks: x has 100 blocks"),
    (f"{cdb('28', 9)} in 4096 dev=a", ["--map", "a=x,offset=-10"],
     "1: LBA 9: there is no such block after offset= and scale="),
    (f"{cdb('28', 9)} in 4096 dev=a", ["--map", "a=x,offset=0xffffffff"],
     "1: LBA 4294967304, 8 blocks: beyond what READ(10) can have"),
    (f"{cdb('28', 9)} in 4096 dev=a", ["--map", "a=x,offset=0xffffffffffffffff"],
     "1: LBA 9: there is no such block"),
    (f"{cdb('28', 9, 65535)} in 33553920 dev=a", ["--map", "a=x,scale=2"],
     "1: LBA 18, 131070 blocks: beyond what READ(10) can have"),
    ("88000000000000000000000600000000 in 201326592 dev=a".replace("0600", "0006", 1),
     ["--map", "a=x,scale=2"], "1: 402653184 bytes are over the limit"),
    (f"{cdb('28', 9)} in 4096 dev=a", ["--map", "a=x", "--size", "x=100:4096"],
     "1: BYTES means blocks of 512 bytes, x has 4096"),
    (f"{cdb('28', 9)} in 4096 dev=a\n{cdb('28', 9)} in 4096 dev=b", ["--map", "a=x"],
     "2: dev=b: no --map says where its commands go: add --map b=b, or another device"),
    (f"{cdb('28', 9)} in 4096", ["--map", "a=x", "--map", "b=y"],
     "1: no dev=: no --map says where its commands go"),
]


@pytest.mark.parametrize("text,args,why", REFUSED)
def test_what_does_not_fit_is_refused_with_its_line(text, args, why):
    done, lines = mapped(text + "\n", *args)
    assert (done.returncode, lines) == (2, [])
    assert f"/dev/stdin:{why}" in done.stderr


def test_a_file_of_one_device_need_not_name_it():
    assert mapped(f"{cdb('28', 9)} in 4096\n", "--map", "any=x,offset=1")[1] == [
        ["x", cdb("28", 10), "4096", "0", "-"]]


BAD = [
    ("x", "'x' is not OLD=NEW"), ("=x", "'=x' is not OLD=NEW"), ("x=", "'x=' is not OLD=NEW"),
    ("x=,offset=1", "is not OLD=NEW"), ("a=b,c", "'c' is not offset=BLOCKS or scale=X"),
    ("a=b,offset=x", "'x' is no number of blocks"), ("a=b,offset=--1", "is no number of blocks"),
    ("a=b,scale=0", "'0' is no factor from 0.000001 to 1000"),
    ("a=b,scale=1001", "'1001' is no factor"), ("a=b,scale=1e3", "'1e3' is no factor"),
    ("a" * 64 + "=b", "is not OLD=NEW"),
]


@pytest.mark.parametrize("arg,why", BAD, ids=lambda v: v[:20])
@pytest.mark.parametrize("command", ["replay", "verify"])
def test_bad_mappings_are_usage_errors(command, arg, why):
    done = run(binary(True), command, "--map", arg, "f")
    assert done.returncode == 2 and "--map" in done.stderr and why in done.stderr


@pytest.mark.parametrize("command", ["replay", "verify"])
def test_mapping_and_devices(command):
    for args in ["--map", "a=b", "d", "f"], ["d", "e", "f"]:
        done = run(binary(True), command, *args)
        assert (done.returncode, "No such file or directory" in done.stderr) == (3, True)
    done = run(binary(True), command, "--map", "a=b", "--map", "a=c", "f")
    assert (done.returncode, "a is mapped twice" in done.stderr) == (2, True)
    done = run(binary(True), command, "--map", "a=/dev/null", "/dev/null")
    assert (done.returncode, "not a node of a SCSI device" in done.stderr) == (3, True)


def test_window_must_have_a_length():
    done = run(binary(True), "replay", "--from", "2", "--to", "1", "d", "f")
    assert (done.returncode, "--from is not before --to" in done.stderr) == (2, True)
