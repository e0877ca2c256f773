# SPDX-License-Identifier: GPL-2.0
# on: uml 7.2
# not on sanitize: it tests programs, which are the same there
"""sg_io verify reads the blocks that the commands of a file wrote, and compares each block."""

import os
import random
import signal
import subprocess
from pathlib import Path

import pytest
from kit.host import run
from kit.ramdir import ram_host
from recorder import verify
from vmdisk import SG_IO, generate, run_json, set_param, sg_io, wait_for

VIAS = ["sg", "bsg", "bsg-uring", "smq", "block"]


@pytest.fixture(name="disk", scope="module")
def disk_(three):
    """The first disk of the fixture, because scsi_debug cannot be loaded twice."""
    return three[0]


def write(lba, blocks, pattern):
    return f"2a00{lba:08x}00{blocks:04x}00 out {512 * blocks} pattern={pattern}\n"


def test_memory_limits_the_list_of_reads(disk):
    """verify sends a READ for each separate block. --memory limits the list of these READs, too."""
    lines = "".join(write(2 * i, 1, "ff") for i in range(17000))
    done = sg_io("verify", "--memory", 1, disk.sg, "-", stdin=lines)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ("sg_io: standard input: more than 16384 READs of the blocks that it "
                           "wrote need more than 1 MiB (--memory)\n")


@pytest.mark.smoke
@pytest.mark.parametrize("via", VIAS)
def test_differences_are_reported(smq_disk, tmp_path, via):
    """verify finds three wrong blocks in 6 MiB, and the lines that wrote them, by each path."""
    first = random.randrange(512)
    path = generate(tmp_path / "w", "--op", "write10", "--blocks", 16, "--count", 768,
                    "--pattern", "random:3", "--range", f"{first}:{first + 16 * 768 - 1}")
    run_json("--via", "smq", "--depth", 16, smq_disk.smq, path)
    got = verify("--via", via, smq_disk.smq, path)
    assert (got["path"], got["blocks"], got["differ"], got["unread"]) == (via, 12288, 0, 0)
    assert got["differences"] == []
    # The wrong blocks are the last one of a line, the first one of the next line, and a single one.
    run_json(smq_disk.sg, "-", stdin=write(first + 31, 2, "zero") + write(first + 5000, 1, "ff"))
    got = verify("--via", via, "--depth", 3, smq_disk.smq, path, expect=1)
    assert (got["differ"], got["unread"]) == (3, 0)
    assert [(d["lba"], d["blocks"], d["line"]) for d in got["differences"]] == [
        (first + 31, 1, 2), (first + 32, 1, 3), (first + 5000, 1, 313)]
    assert got["differences"][0]["found"] == 0
    assert got["differences"][2]["found"] == 255


@pytest.mark.not_uml("it does not say where a task sleeps")
def test_a_signal_ends_verify_while_its_pipe_is_full(disk):
    """SIGINT ends verify while it waits for room in the pipe of its output: nothing reads the pipe,
    and 2000 lines are more than the pipe holds."""
    run_json(disk.sg, "-", stdin=write(0, 4000, "zero"))
    lines = "".join(write(2 * i, 1, "ff") for i in range(2000))
    with subprocess.Popen([SG_IO, "verify", "--depth", "16", disk.sg, "-"], text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as user:
        user.stdin.write(lines)
        user.stdin.close()
        wchan = Path(f"/proc/{user.pid}/wchan")
        wait_for(lambda: "pipe" in wchan.read_text(encoding="ascii"))
        user.send_signal(signal.SIGINT)
        assert user.wait(20) == -signal.SIGINT


@pytest.mark.parametrize("via", VIAS)
def test_reads_may_complete_in_any_order(smq_disk, tmp_path, via):
    """READs may complete in any order, because each has memory of its own."""
    random_delay = "/sys/bus/pseudo/drivers/scsi_debug/random"
    path = generate(tmp_path / "w", "--op", "write10", "--blocks", 512, "--count", 32,
                    "--pattern", "lba")
    run_json(smq_disk.sg, path)
    with open(random_delay, "w", encoding="ascii") as f:
        f.write("1")
    set_param("ndelay", 5_000_000)
    try:
        got = verify("--via", via, "--depth", 16, smq_disk.smq, path)
    finally:
        set_param("delay", 0)
        with open(random_delay, "w", encoding="ascii") as f:
            f.write("0")
    assert (got["blocks"], got["differ"], got["unread"]) == (16384, 0, 0)


def test_verify_names_the_first_wrong_byte(disk):
    line = write(64, 4, "byte:0x5a")
    run_json(disk.sg, "-", stdin=line)
    assert sg_io("verify", disk.sg, "-", stdin=line).stdout == (
        f"{disk.sg} via sg: 4 of the 4 blocks that standard input writes have the data it wrote "
        "last, 0 differ, 0 could not be read\n")
    with open(disk.sd, "r+b", buffering=0) as f:
        f.seek(65 * 512 + 17)
        f.write(b"\x01" * 1000)
        os.fsync(f.fileno())
    done = sg_io("verify", disk.sg, "-", stdin=line)
    assert done.returncode == 1
    assert done.stdout.splitlines()[1:] == [
        "  LBA 65 to 66, line 1: byte 17 of the first is 01h, not 5Ah; read again: not healed"]


@pytest.mark.parametrize("seed", range(3))
def test_the_last_line_that_wrote_a_block_counts(disk, seed):
    """Overlapping writes of several kinds, issued one at a time: verify expects in each block the
    data of the last line that wrote it."""
    rng = random.Random(seed)
    lines = ""
    for number in range(300):
        lba, blocks = rng.randrange(500), rng.randrange(1, 20)
        kind = rng.randrange(10)
        if kind < 8:
            lines += write(lba, blocks, rng.choice(["lba", f"byte:{number % 256}", "random:1"]))
        elif kind == 8:
            lines += f"4100{lba:08x}00{blocks:04x}00 out 512 pattern=byte:{number % 256}\n"
        else:
            lines += (f"8a00{lba:016x}{blocks:08x}0000 out {512 * blocks} "
                      f"pattern=random:{number}\n")
    run_json(disk.sg, "-", stdin=lines)
    got = verify(disk.sg, "-", stdin=lines)
    assert got["blocks"] > 400
    # For the first half of the lines verify finds differences, because the second half has
    # overwritten some of their blocks.
    short = "".join(lines.splitlines(True)[:150])
    assert verify(disk.sg, "-", stdin=short, expect=1)["differ"] > 0


@pytest.mark.not_uml("it has no ext4")
@pytest.mark.parametrize("via", ["sg", "block"])
def test_a_mounted_disk_is_only_read(disk, tmp_path, via):
    """verify neither claims nor writes the disk, so it needs no --force."""
    run("modprobe", "ext4")
    run("mkfs.ext4", "-q", "-F", disk.sd)
    run("mount", "-t", "ext4", "-o", "ro", disk.sd, tmp_path)
    try:
        writes = (disk.queue.parent / "stat").read_text().split()[4]
        # These blocks hold the file system's superblock.
        got = verify("--via", via, disk.sd, "-", stdin=write(0, 8, "zero"), expect=1)
        assert (got["blocks"], got["unread"]) == (8, 0) and got["differ"] > 0
        assert (disk.queue.parent / "stat").read_text().split()[4] == writes
    finally:
        run("umount", tmp_path)
        disk.wipe()


def test_verify_without_writes_is_an_error(disk):
    done = sg_io("verify", disk.sg, "-", stdin="28000000000000000800 in 4096\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "sg_io: standard input: writes no block that could be compared\n"
    done = sg_io("verify", disk.sg, "-", stdin="2a000000000000000100 out 4096\n")
    assert done.returncode == 2
    assert "1: BYTES means blocks of 4096 bytes, the device's blocks have 512" in done.stderr
    unclear = "c00000000000 out 4\n" + write(0, 1, "zero")
    assert "what 1 commands wrote, if anything, is not known" in \
        sg_io("verify", disk.sg, "-", stdin=unclear).stderr


def put(disk, lba, data, at=0):
    """Writes to the disk behind the back of sg_io's commands."""
    with open(disk.sd, "r+b", buffering=0) as f:
        block = bytearray(disk.read(lba, -(-(at + len(data)) // 512)))
        block[at:at + len(data)] = data
        os.pwrite(f.fileno(), block, 512 * lba)
        os.fsync(f.fileno())


def test_tags_say_what_a_wrong_block_has(disk):
    """Each verdict, with the line and LBA of what was found instead."""
    lines = (write(100, 16, "tag:5") + write(100, 16, "tag:5:1") + write(100, 16, "tag:5:1") +
             f"4100{200:08x}00{4:04x}00 out 512 pattern=tag\n" * 2)
    run_json(disk.sg, "-", stdin=lines)
    assert verify(disk.sg, "-", stdin=lines)["differ"] == 0
    new = disk.read(100, 16)
    run_json(disk.sg, "-", stdin=lines.split("\n", maxsplit=1)[0] + "\n")
    old = disk.read(100, 16)
    run_json(disk.sg, "-", stdin="".join(lines.splitlines(True)[:2]))
    older = disk.read(100, 16)
    run_json(disk.sg, "-", stdin="".join(f"# {i}\n" for i in range(8)) + write(110, 1, "tag:5:1"))
    later = disk.read(110, 1)
    run_json(disk.sg, "-", stdin=lines.replace("pattern=tag\n", "pattern=ff\n", 1))
    stale_same = f"4100{200:08x}00{4:04x}00 out 512 pattern=tag\n"
    run_json(disk.sg, "-", stdin="#\n" * 3 + stale_same)
    put(disk, 100, new)
    put(disk, 100, old[:1024])                          # two blocks of line 1, whose pass is 0
    put(disk, 103, older[3 * 512:4 * 512])              # line 2
    put(disk, 104, bytes(512))
    put(disk, 105, new[7 * 512:9 * 512])                # what belongs to LBA 107 and 108
    put(disk, 108, old[8 * 512:][:256])                 # half of it is old
    put(disk, 109, b"\xee", at=77)
    put(disk, 110, later)
    put(disk, 111, bytes(64), at=448)
    done = sg_io("verify", disk.sg, "-", stdin=lines)
    assert done.returncode == 1
    again = "; read again: not healed"
    assert done.stdout.splitlines() == [
        f"{disk.sg} via sg: 6 of the 20 blocks that standard input writes have the data it wrote "
        "last, 14 differ, 0 could not be read"] + [line + again for line in [
            "  LBA 100 to 101, line 3: stale, has line 1 of pass 0, seed 5",
            "  LBA 103, line 3: stale, has line 2",
            "  LBA 104, line 3: empty, has zeroes",
            "  LBA 105 to 106, line 3: misplaced, has line 3 for LBA 107",
            "  LBA 108, line 3: torn, has line 1 of pass 0, seed 5, from byte 256 on line 3",
            "  LBA 109, line 3: corrupt, byte 77 is EEh, not 00h",
            "  LBA 110, line 3: other, has line 9",
            "  LBA 111, line 3: torn, has line 3, from byte 448 on zeroes",
            "  LBA 200 to 203, line 5: stale, has line 4"]]
    got = verify(disk.sg, "-", stdin=lines, expect=1)
    found = got["differences"]
    assert [d["verdict"] for d in found] == ["stale", "stale", "empty", "misplaced", "torn",
                                             "corrupt", "other", "torn", "stale"]
    assert found[3]["tags"] == [{"lba": 107, "seed": 5, "pass": 1, "line": 3}]
    assert found[4]["torn_at"] == 256 and len(found[4]["tags"]) == 2
    assert found[7]["tags"][1] is None and found[5]["tags"] == []
    assert {d["healed"] for d in found} == {0}


@pytest.mark.parametrize("pattern,found", [
    ("tag", "corrupt, byte 0 is FFh, not 00h"), ("byte:7", "byte 0 is F8h, not 07h")])
def test_a_block_that_heals_is_said_to_heal(pattern, found):
    """One READ returns a wrong byte; when the block is read again it is right."""
    with ram_host() as (host_dir, host):
        node, lines = host.luns()[0].sg, write(8, 8, pattern)
        run_json(node, "-", stdin=lines)
        host_dir.arm("wrong_byte", count=1)
        done = sg_io("verify", node, "-", stdin=lines)
        assert done.returncode == 1
        assert done.stdout.splitlines()[1:] == [f"  LBA 8, line 1: {found}; read again: healed"]
        assert sg_io("verify", node, "-", stdin=lines).returncode == 0
