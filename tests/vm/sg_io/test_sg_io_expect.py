# SPDX-License-Identifier: GPL-2.0
# on: uml 7.2
# not on sanitize: it tests programs, which are the same there
"""Command files that are conformance tests: sg_io run compares how commands end with what their
lines expect."""

import subprocess

import pytest
from kit.host import loaded
from vmdisk import BLOCKS, run_json, sg_io

VIAS = ["sg", "bsg", "bsg-uring", "smq"]
# What a disk has to do with good and bad commands. Each line is right for scsi_debug and smq_ram.
CONFORMANCE = f"""
000000000000                     none 0    repeat=5 until=good wait=1000
120000002400                     in   36   resid=0
120000000000                     none 0
1201ff002400                     in   36   sense=5/24/00
25000000000000000000             in   8    data=capacity@0
2a000000001000000200             out  1024 pattern=lba
28000000001000000200             in   1024 pattern=lba
28000000001100000100             in   512  pattern=lba
41000000002000000400             out  512  pattern=ff
88000000000000000020000000040000 in   2048 pattern=ff
2f020000002000000100             out  512  pattern=ff
2f020000002000000100             out  512  pattern=zero sense=e/1d/00
2800{BLOCKS:08x}00000100         in   512  sense=5/21/00
2800{BLOCKS - 1:08x}00000200     in   1024 expect=check
2a00{BLOCKS - 1:08x}00000200     out  1024 sense=5/21/00
a80000000000000000010000         in   512  expect=good
c00000000000                     none 0    sense=5/20/00
"""


@pytest.fixture(name="file")
def file_(tmp_path):
    (tmp_path / "capacity").write_bytes((BLOCKS - 1).to_bytes(4, "big") +
                                        (512).to_bytes(4, "big"))
    path = tmp_path / "conformance.cdb"
    path.write_text(CONFORMANCE, encoding="ascii")
    return path


@pytest.mark.smoke
@pytest.mark.parametrize("via", VIAS)
def test_disk_conforms(smq_disk, file, via):
    got = run_json("--via", via, smq_disk.smq, file)
    assert (got["commands"], got["errors"]) == (17, [])
    assert got["status"] == {"GOOD": 17}


def test_smq_ram_conforms(file):
    with loaded("smq_ram", size_mb=16) as hosts:
        assert run_json(hosts[0].luns()[0].sg, file)["errors"] == []


@pytest.mark.parametrize("via", VIAS)
def test_mismatches_are_errors_with_their_lines(smq_disk, via):
    """Each line says what was expected and what came; a line counts for itself."""
    lines = ("000000000000 none 0 repeat=5 until=good\n2a000000001000000100 out 512 pattern=lba\n"
             "28000000001000000100 in 512 pattern=ff\n28000000001000000100 in 512 sense=5/21/00\n"
             f"2800{BLOCKS:08x}00000100 in 512 expect=good\n"
             f"2800{BLOCKS:08x}00000100 in 512 sense=5/24/00\n"
             "28000000001000000100 in 512 resid=512\n")
    done = sg_io("run", "--via", via, smq_disk.smq, "-", stdin=lines)
    out_of_range = ("CHECK CONDITION: Illegal Request (5h): Logical block address out of range "
                    "(21h/00h)")
    assert done.returncode == 1
    assert done.stdout.splitlines()[2:] == [
        "status: 2 good, 5 not good",
        "  1 x expected GOOD, got data whose byte 0 is 00h, not FFh; first at line 3",
        "  1 x expected CHECK CONDITION, sense 5/21/00, got GOOD; first at line 4",
        f"  1 x expected GOOD, got {out_of_range}; first at line 5",
        f"  1 x expected CHECK CONDITION, sense 5/24/00, got {out_of_range}; first at line 6",
        "  1 x expected GOOD, residual 512, got residual 0; first at line 7"]
    errors = run_json("--via", via, smq_disk.smq, "-", stdin=lines, expect=1)["errors"]
    assert [(e["line"], e["name"], e["expected"]) for e in errors] == [
        (3, "MISMATCH", "GOOD"), (4, "MISMATCH", "CHECK CONDITION, sense 5/21/00"),
        (5, "MISMATCH", "GOOD"), (6, "MISMATCH", "CHECK CONDITION, sense 5/24/00"),
        (7, "MISMATCH", "GOOD, residual 512")]


@pytest.mark.parametrize("via", VIAS)
def test_command_is_sent_until_it_is_good(smq_disk, via):
    """A reset gives the disk a unit attention, which the first of two TEST UNIT READYs gets."""
    def reset():
        subprocess.run(["sg_reset", "--device", smq_disk.sg], check=True, timeout=60)

    reset()
    got = run_json("--via", via, smq_disk.smq, "-", stdin="000000000000 none 0 expect=any\n" * 3)
    assert got["commands"] == 3
    reset()
    line = "000000000000 none 0 repeat={} until=good\n"
    assert run_json("--via", via, smq_disk.smq, "-", stdin=line.format(3))["commands"] == 1
    reset()
    got = run_json("--via", via, smq_disk.smq, "-", stdin=line.format(1), expect=1)
    assert got["errors"][0]["expected"] == "GOOD within 1 tries"


def test_wait_delays_the_command(smq_disk):
    lines = "000000000000 none 0\n000000000000 none 0 wait=300000\n"
    assert run_json(smq_disk.sg, "-", stdin=lines)["seconds"] >= 0.3


def test_files_that_cannot_be_run_are_refused(smq_disk):
    wait = "000000000000 none 0 wait=1\n"
    for args, lines, why in [
            (("run", "--depth", 2), wait, "repeat= and wait= need --depth 1 and --jobs 1, so that "
             "the command before has ended; --depth is 2, --jobs 1"),
            (("replay", "--mode", "max"), wait, "repeat= and wait= are for sg_io run"),
            (("run", "--via", "block"), "28000000000000000100 in 512 expect=check\n",
             "1: expects CHECK CONDITION: block I/O has no SCSI status; --via sg has")]:
        done = sg_io(*args, smq_disk.sg, "-", stdin=lines)
        assert (done.returncode, done.stdout) == (2, "") and why in done.stderr
