# SPDX-License-Identifier: GPL-2.0
# on: uml 7.2
# not on sanitize: it tests programs, which are the same there
"""sg_io copy and compare-luns between two disks, through any two nodes."""

import json
import os
import random
import signal
import subprocess

import pytest
from kit.host import loaded
from vmdisk import SG_IO, disks, set_param, sg_io, wait_for

MIB = 4
BLOCKS = MIB * 2048
MEDIUM_ERROR = 2        # of scsi_debug's opts: READs of LBA 1234h fail
BAD_LBA = 0x1234


@pytest.fixture(name="pair", scope="module")
def pair_(fast_path):
    """Two disks with random data, each with a store of its own."""
    with disks(hosts=2, per_host_store=1, dev_size_mb=MIB) as found:
        for disk in found:
            fill(disk)
        yield found


def fill(disk, lba=0, blocks=BLOCKS):
    with open(disk.sd, "r+b", buffering=0) as f:
        os.pwrite(f.fileno(), random.randbytes(512 * blocks), 512 * lba)
        os.fsync(f.fileno())


def node(disk, kind):
    return disk.node[kind]


def call(*args, expect=0):
    """Runs sg_io with --json; returns its result."""
    done = sg_io(*args, "--json")
    assert done.returncode == expect, (done.returncode, done.stderr, done.stdout)
    return json.loads(done.stdout)


PAIRS = [("smq", "smq"), ("smq", "sg"), ("sg", "block"), ("block", "smq"), ("bsg", "smq"),
         ("block", "bsg")]


@pytest.mark.smoke
@pytest.mark.parametrize("first,second", PAIRS)
def test_copy_and_compare(pair, first, second):
    """The whole disk, and its difference from the other one before and after three writes."""
    a, b = pair
    fill(b)
    nodes = node(a, first), node(b, second)
    assert call("compare-luns", *nodes, expect=1)["differ"] == BLOCKS
    got = call("copy", *nodes)
    assert (got["done"], got["blocks"], got["errors"]) == (BLOCKS, BLOCKS, [])
    assert [d["path"] for d in got["devices"]] == [first, second]
    assert a.read(0, BLOCKS) == b.read(0, BLOCKS)
    assert call("compare-luns", *nodes)["differ"] == 0
    for lba, blocks in ((255, 2), (BLOCKS - 1, 1)):
        fill(b, lba, blocks)
    got = call("compare-luns", *nodes, expect=1)
    assert (got["done"], got["differ"]) == (BLOCKS, 3)
    assert got["differences"] == [{"lba": 255, "blocks": 2}, {"lba": BLOCKS - 1, "blocks": 1}]


@pytest.mark.parametrize("args", [
    ("--chunk", "4k"), ("--chunk", 1536, "--depth", 3, "--batch", 2, "--jobs", 3),
    ("--chunk", "1M", "--depth", 1), ("--depth", 7, "--jobs", 1)])
@pytest.mark.parametrize("first,second", [("smq", "smq"), ("sg", "smq")])
def test_part_of_a_disk(pair, first, second, args):
    """--blocks blocks from --skip go to --seek, and the blocks around keep their data."""
    a, b = pair
    fill(b)
    before = b.read(0, BLOCKS)
    skip, seek, blocks = (random.randrange(1, 4000) for _ in range(3))
    part = "--skip", skip, "--seek", seek, "--blocks", blocks
    got = call("copy", *part, *args, node(a, first), node(b, second))
    assert (got["done"], got["errors"]) == (blocks, [])
    want = before[:512 * seek] + a.read(skip, blocks) + before[512 * (seek + blocks):]
    assert b.read(0, BLOCKS) == want
    assert call("compare-luns", *part, *args, node(a, first), node(b, second))["differ"] == 0
    fill(b, seek + blocks - 1, 1)
    done = sg_io("compare-luns", *part, node(a, first), node(b, second))
    last = f"  LBA {skip + blocks - 1}"
    if skip != seek:
        last += f" (on {node(b, second)} from LBA {seek + blocks - 1} on)"
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, last + " differs")


def test_unit_attentions_are_sent_again(pair):
    """A reset gives each disk a unit attention, which no layer but sg_io takes back."""
    a, b = pair
    for disk in pair:
        subprocess.run(["sg_reset", "--device", disk.sg], check=True, timeout=60)
    assert call("copy", "--blocks", 64, "--chunk", 512, a.smq, b.smq)["errors"] == []


@pytest.mark.parametrize("first,second", [("smq", "smq"), ("sg", "sg")])
def test_blocks_that_cannot_be_read(pair, first, second):
    """The ten bad blocks are named and not written; those around them in their chunks are copied.
    --max-errors ends the copy."""
    a, b = pair
    nodes = node(a, first), node(b, second)
    copied = a.read(0, BAD_LBA), a.read(BAD_LBA + 10, BLOCKS - BAD_LBA - 10)
    fill(b)
    before = b.read(BAD_LBA, 10)
    set_param("opts", MEDIUM_ERROR)
    try:
        got = call("copy", "--max-errors", 11, *nodes, expect=1)
        few = call("copy", "--chunk", "4k", "--max-errors", 2, "--jobs", 1, *nodes, expect=1)
        done = sg_io("copy", "--skip", BAD_LBA, "--seek", BAD_LBA, "--blocks", 1, *nodes)
    finally:
        set_param("opts", 0)
    assert got["done"] == BLOCKS - 10
    assert sorted((e["lba"], e["blocks"]) for e in got["errors"]) == [
        (BAD_LBA + i, 1) for i in range(10)]
    assert few["done"] < BLOCKS - 10 and len(few["errors"]) == 2
    assert b.read(BAD_LBA, 10) == before
    assert (b.read(0, BAD_LBA), b.read(BAD_LBA + 10, BLOCKS - BAD_LBA - 10)) == copied
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith(
        f"  {nodes[0]}: READ(10) of LBA {BAD_LBA}: CHECK CONDITION: Medium Error")


def test_target_with_data_is_refused(pair):
    a, b = pair
    subprocess.run(["mkswap", b.sd], check=True, timeout=60, stdout=subprocess.DEVNULL)
    try:
        before = b.read(0, 16)
        done = sg_io("copy", a.sg, b.smq)
        assert (done.returncode, done.stdout) == (3, "")
        assert "has the signature of swap" in done.stderr and "--force" in done.stderr
        assert b.read(0, 16) == before
        # The disk that is only read may have data, and VERIFY changes nothing.
        call("compare-luns", a.smq, b.smq, expect=1)
        call("compare-luns", b.smq, a.smq, expect=1)
        assert b.read(0, 16) == before
        call("copy", "--force", "--blocks", 64, a.sg, b.smq)
        assert b.read(0, 64) == a.read(0, 64)
    finally:
        b.wipe()


def test_bad_ranges_are_refused(pair):
    a, b = pair
    for args, why in [
            ((a.sg, a.smq), f"{a.sg} and {a.smq} are the same device"),
            (("--skip", BLOCKS, a.sg, b.sg),
             f"--skip: LBA {BLOCKS} is over the last one of {a.sg}, {BLOCKS - 1}"),
            (("--seek", BLOCKS, a.sg, b.sg),
             f"--seek: LBA {BLOCKS} is over the last one of {b.sg}, {BLOCKS - 1}"),
            (("--seek", 4, "--blocks", BLOCKS - 3, a.sg, b.sg),
             f"--blocks: {BLOCKS - 3}, but {b.sg} has {BLOCKS - 4} from LBA 4 on"),
            (("--seek", 4, a.sg, b.sg), f"{a.sg} has {BLOCKS} blocks from LBA 0 on, {b.sg} has "
             f"{BLOCKS - 4} from LBA 4 on: --blocks says how many"),
            (("--chunk", 700, a.sg, b.sg), "--chunk: 700 is no multiple of the blocks' 512 bytes"),
            (("--chunk", "256M", a.sg, b.sg), "--chunk: 268435456 bytes are over the limit of "),
            (("--chunk", "1M", "--memory", 8, "--jobs", 2, a.sg, b.sg),
             "--jobs, --depth and --chunk make 129 MiB of data, --memory is 8")]:
        done = sg_io("copy", *args)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"sg_io: {why}" in done.stderr
    with loaded("smq_ram", size_mb=16, sector_size=4096) as hosts:
        ram = hosts[0].luns()[0].sg
        done = sg_io("copy", a.sg, ram)
        assert (done.returncode, done.stderr) == (
            2, f"sg_io: {a.sg} has blocks of 512 bytes, {ram} of 4096\n")


def test_signal_ends_a_copy(pair):
    a, b = pair
    before = a.done()
    set_param("ndelay", 20_000_000)
    try:
        with subprocess.Popen([SG_IO, "copy", "--json", "--chunk", "512", "--depth", "1", a.smq,
                               b.smq], stdout=subprocess.PIPE, text=True) as user:
            # More than sg_io sends to the first disk before it copies.
            wait_for(lambda: a.done() > before + 20)
            user.send_signal(signal.SIGINT)
            out = user.communicate(timeout=60)[0]
    finally:
        set_param("delay", 0)
    assert user.returncode == 128 + signal.SIGINT
    got = json.loads(out)
    assert got["interrupted"] and got["done"] < BLOCKS and got["errors"] == []
