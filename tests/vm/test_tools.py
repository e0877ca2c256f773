# SPDX-License-Identifier: GPL-2.0
# on: uml 7.2
# not on sanitize: it tests programs, which are the same there
"""The disk as user programs see it: sg3_utils, discard, a file system, the largest commands."""
import os
import re

import pytest
from kit import cdb
from kit.extfs import files_survive
from kit.host import SgDev, fio, loaded, run
from kit.trace import traced


@pytest.fixture(scope="module")
def lun():
    """One LUN of 64 MiB."""
    with loaded("smq_ram", size_mb=64) as hosts:
        yield hosts[0].luns()[0]


# sg3_utils: a program, its arguments, and a regular expression that its output must match.
QUERIES = [
    ("sg_inq", [], r"Vendor identification: SMQ[\s\S]*Product identification: RAM DISK"),
    ("sg_inq", ["--vpd"], r"(?i)supported VPD pages"),
    ("sg_inq", ["--descriptors"], r"SPC-5[\s\S]*SBC-4"),
    ("sg_vpd", ["--page=0x00"], r"(?i)unit serial number[\s\S]*device identification"),
    ("sg_vpd", ["--page=0x80"], r"Unit serial number: SMQRAM\w{8}\n"),
    ("sg_vpd", ["--page=0x83"], r"0x3534d51\d{9}\n[\s\S]*vendor id: SMQ"),
    ("sg_vpd", ["--page=0xb0"], r"WSNZ\): 1[\s\S]*block descriptor count: 256"),
    ("sg_vpd", ["--page=0xb1"], r"Non-rotating medium"),
    ("sg_vpd", ["--page=0xb2"], r"LBPU\): 1[\s\S]*LBPWS\): 1[\s\S]*LBPWS10\): 1"),
    ("sg_vpd", ["--all"], r"Block limits[\s\S]*provisioning"),
    ("sg_readcap", [], r"Number of logical blocks=131072"),
    ("sg_readcap", ["--long"], r"lbpme=1, lbprz=1[\s\S]*Number of logical blocks=131072"),
    ("sg_luns", [], r"Lun list length = 8"),
    ("sg_modes", ["--all"], r"(?i)caching[\s\S]*control"),
    ("sg_modes", ["--six", "--page=8"], r"(?i)caching"),
    ("sg_opcodes", [], r"(?i)inquiry[\s\S]*write same\(16\)"),
    ("sg_opcodes", ["--opcode=0x28"], r"(?i)read\(10\)"),
    ("sg_opcodes", ["--opcode=0x9e,0x10", "--rctd"], r"(?i)read capacity"),
    ("sg_turs", ["--num=10"], r"10 Test Unit Ready commands with 0 errors"),
    ("sg_requests", [], r"Sense key: No Sense"),
    ("sg_verify", ["--lba=0", "--count=1000"], r"^$"),
    ("sg_verify", ["--16", "--lba=131071", "--count=1"], r"^$"),
    ("sg_sync", [], r"^$"),
    ("sg_sync", ["--16", "--lba=100", "--count=10"], r"^$"),
    ("sg_unmap", ["--lba=0", "--num=64", "--force"], r"^$"),
    ("sg_write_same", ["--10", "--lba=0", "--num=64"], r"^$"),
    ("sg_write_same", ["--16", "--lba=0", "--num=64", "--ndob"], r"^$"),
    ("sg_write_same", ["--16", "--lba=0", "--num=64", "--unmap"], r"^$"),
    ("sg_start", ["--stop"], r"^$"),
    ("sg_start", ["--start"], r"^$"),
]


@pytest.mark.smoke
@pytest.mark.parametrize("program,words,want", QUERIES,
                         ids=[" ".join([row[0], *row[1]]) for row in QUERIES])
def test_sg3_utils_print_the_disks_properties(lun, program, words, want):
    """Each program exits with status 0 and prints this disk's properties."""
    done = run(program, *words, lun.sg)
    # sg_requests prints to standard error.
    said = done.stdout + done.stderr
    assert re.search(want, said), f"{want!r} is not in\n{said}"


def test_sg3_utils_report_errors(lun):
    """The exit status of a program shows why the device returned CHECK CONDITION
    (sg3_utils(8))."""
    assert run("sg_verify", "--lba=131072", "--count=1", lun.sg, ok=False).returncode == 22
    assert run("sg_vpd", "--force", "--page=0xc5", lun.sg, ok=False).returncode == 5
    run("sg_start", "--stop", lun.sg)
    try:
        assert run("sg_turs", lun.sg, ok=False).returncode == 2
    finally:
        run("sg_start", "--start", lun.sg)
    run("sg_reset", "--no-escalate", "--device", lun.sg)
    assert run("sg_turs", lun.sg, ok=False).returncode == 6
    run("sg_turs", lun.sg)


def test_block_limits_match_the_disks_limits(lun):
    """The block layer has the limits and flags that the disk reports."""
    def value(name):
        return int((lun.queue / name).read_text().split()[0])
    assert value("rotational") == 0 and value("add_random") == 0
    assert value("logical_block_size") == 512
    assert value("max_hw_sectors_kb") == 8192
    assert value("discard_max_bytes") > 0 and value("discard_granularity") <= 4096
    assert value("write_zeroes_max_bytes") > 0
    assert (lun.queue / "write_cache").read_text().strip() == "write through"


def test_one_command_moves_8_mib(lun):
    """One command can move 8 MiB. The kernel refuses a command with 512 bytes more."""
    most = 8 << 20
    data = os.urandom(1 << 20) * 8
    with SgDev(lun.sd) as dev:
        assert dev.cmd(cdb.blocks(cdb.WRITE_16, 1, most // 512), dout=data).good
        got = dev.cmd(cdb.blocks(cdb.READ_16, 1, most // 512), din=most)
        assert got.good and got.data == data
        with pytest.raises(OSError):
            dev.cmd(cdb.blocks(cdb.READ_16, 0, most // 512 + 1), din=most + 512)


def test_block_io_uses_commands_of_8_mib(lun):
    """Block I/O also sends commands of 8 MiB if max_sectors_kb allows it."""
    limit = lun.queue / "max_sectors_kb"
    before = limit.read_text(encoding="ascii")
    limit.write_text("8192", encoding="ascii")
    try:
        with traced() as trace:
            fio(lun.sd, rw="write", bs="8m", size="32m", ioengine="psync", verify="crc32c",
                mem="mmap")
        assert str(8 << 20) in {fields["bytes"] for name, fields in trace.events
                                if name == "smq_done"}
    finally:
        limit.write_text(before, encoding="ascii")


def test_discarded_blocks_read_as_zeroes(lun):
    """Blocks that blkdiscard has discarded read as zeroes. The blocks around them are unchanged."""
    with open(lun.sd, "r+b", buffering=0) as disk:
        disk.write(b"\xee" * (1 << 20))
        os.fsync(disk.fileno())
    for words in ([], ["--zeroout"]):
        run("blkdiscard", *words, "--offset", 512, "--length", 1 << 19, lun.sd)
        run("blockdev", "--flushbufs", lun.sd)
        with open(lun.sd, "rb") as disk:
            assert disk.read(512) == b"\xee" * 512
            assert disk.read(1 << 19) == bytes(1 << 19)
            assert disk.read((1 << 19) - 512) == b"\xee" * ((1 << 19) - 512)
    run("blkdiscard", lun.sd)
    run("blockdev", "--flushbufs", lun.sd)
    with open(lun.sd, "rb") as disk:
        assert disk.read(8 << 20) == bytes(8 << 20)


@pytest.mark.not_uml("it has no ext4")
def test_ext4_with_discard_keeps_its_files(lun, tmp_path):
    """On ext4 with discard, files are the same after a remount, and fsck finds no error."""
    there = tmp_path / "mnt"
    there.mkdir()
    files_survive(lun, there, "discard", at_end=("fstrim",))
