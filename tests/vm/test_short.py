# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize
"""Short transfers of any length: they move the right bytes, and their residual is exact."""
import random

import pytest
from kit import cdb
from kit.fiojob import load_on, total_ios
from kit.host import settle, under_way, wait_for
from kit.ramdir import RamDir, ram_dirs
from kit.sgio import FILL, SgDev
from kit.trace import traced

MIB = 1 << 20
ENOUGH = pytest.mark.not_sanitized("two of the sector sizes are enough there")
# Lengths in blocks. Each is tested with one kind of command; 1, 2 and 3 with all kinds.
BLOCKS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 31, 33, 63, 64, 100, 127, 128, 129, 200, 255, 256)
COMMANDS = tuple(zip(cdb.READS, cdb.WRITES, strict=True))
CASES = [(COMMANDS[at % 4], blocks) for at, blocks in enumerate(BLOCKS)]
CASES += [(command, blocks) for command in COMMANDS for blocks in (1, 2, 3)]
# fio uses the first 8 MiB, half of them for each job. The test's own commands use later blocks.
VERIFIED = {"ioengine": "io_uring", "rw": "randwrite", "bs": "4k", "iodepth": 4, "size": "4m",
            "verify": "crc32c", "verify_fatal": 1, "verify_backlog": 16, "time_based": True,
            "runtime": 600, "numjobs": 2, "offset_increment": "4m", "thinktime": 2000}


def check_short(host_dir, dev, commands, lba, old, new, size):
    """Writes @new over @old by a short WRITE, and reads the blocks by a short READ. Then reads and
    checks all of the blocks by a whole READ."""
    read, write = commands
    count = len(new) // size
    moved = count // 2 * size
    what = f"{write:#04x} and {read:#04x}, {count} blocks of {size}"
    assert dev.cmd(cdb.blocks(cdb.WRITE_16, lba, count), dout=old).good
    host_dir.set("fault/count", 2)
    got = dev.cmd(cdb.blocks(write, lba, count), dout=new)
    assert got.good and got.resid == len(new) - moved, f"{what}: {got}"
    got = dev.cmd(cdb.blocks(read, lba, count), din=len(new))
    assert got.good and got.resid == len(new) - moved and got.data == new[:moved], f"{what}: {got}"
    if "/sd" in dev.path:
        assert got.raw[moved:] == bytes([FILL]) * (len(new) - moved), what
    assert host_dir.get("fault/count") == "0"
    got = dev.cmd(cdb.blocks(read, lba, count), din=len(new))
    assert got.good and got.resid == 0 and got.data == new[:moved] + old[moved:], f"{what}: {got}"


@pytest.mark.limit(90)
@pytest.mark.parametrize("size", [512, pytest.param(1024, marks=ENOUGH),
                                  pytest.param(2048, marks=ENOUGH), 4096])
def test_residuals_are_exact_and_block_io_recovers(size):
    rand = random.Random(size)
    old, new = rand.randbytes(MIB), rand.randbytes(MIB)
    with ram_dirs(), traced(buffer_kb=65536) as trace:
        host_dir = RamDir("short")
        host_dir.add_lun(0, size_mb=64, sector_size=size)
        host = host_dir.power_on(1)
        lun = host.luns()[0]
        (lun.queue / "nomerges").write_text("2", encoding="ascii")
        with load_on(lun.sd, **VERIFIED) as load, SgDev(lun.sg) as sg, SgDev(lun.sd) as disk:
            under_way(lun)
            host_dir.arm("short", first_lba=16 * MIB // size)
            host_dir.set("fault/count", 0)
            for at, (commands, blocks) in enumerate(CASES):
                check_short(host_dir, (sg, disk)[at % 2], commands, (16 + at % 4) * MIB // size,
                            old[:blocks * size], new[:blocks * size], size)
            host_dir.arm("short", count=20, every=5, first_lba=0, last_lba=8 * MIB // size - 1)
            wait_for("20 short commands", lambda: host_dir.get("fault/count") == "0")
            under_way(lun)
        settle(host)
        assert int(host_dir.get("fault/injected")) == 2 * len(CASES) + 20
        assert all(row["queued"] for row in host.hwqs())
        host_dir.remove()
    assert trace.check_once() >= total_ios(load.result()) + 4 * len(CASES)
