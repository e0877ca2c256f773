# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 6.12 7.2
"""Hosts and LUNs of different numbers, sizes and kinds."""
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from kit import cdb, sgio
from kit.host import SgDev, is_loaded, loaded, run
from kit.outcome import POWER_ON, invalid_field, outcome

TUR = cdb.plain(cdb.TEST_UNIT_READY)


@pytest.mark.parametrize("luns", [1, 3])
def test_report_luns(luns):
    """REPORT LUNS returns the list, for each SELECT REPORT and allocation length."""
    with loaded("smq_ram", luns=luns, size_mb=16) as hosts, \
            SgDev(hosts[0].luns()[0].sd) as dev:
        want = (8 * luns).to_bytes(4, "big") + bytes(4)
        want += b"".join(bytes([0, n, *bytes(6)]) for n in range(luns))
        for alloc in (16, 17, 23, 24, 31, 32, 512):
            got = dev.cmd(cdb.report_luns(0, alloc), din=512)
            assert got.good and got.data == want[:alloc], f"allocation length {alloc}: {got}"
        assert dev.cmd(cdb.report_luns(2), din=512).data == want
        # There are no well-known logical units.
        assert dev.cmd(cdb.report_luns(1), din=512).data == bytes(8)


@pytest.mark.not_uml("the mid-layer of 7.2 behaves differently")
def test_power_on_without_disk_driver():
    """The first unit attention reports power on. sd would clear it, so sd_mod is not loaded."""
    run("modprobe", "-r", "sd_mod")
    assert not is_loaded("sd_mod")
    try:
        with loaded("smq_ram", disks=False) as hosts, SgDev(hosts[0].luns()[0].sg) as dev:
            assert dev.cmd(cdb.inquiry(96), din=96).good
            assert outcome(dev.cmd(TUR)) == POWER_ON
            assert dev.cmd(TUR).good
    finally:
        run("modprobe", "sd_mod")


def test_write_same_limit():
    """WRITE SAME takes as many blocks as VPD page B0h allows; one block more is refused."""
    with loaded("smq_ram", size_mb=512) as hosts, SgDev(hosts[0].luns()[0].sd) as dev:
        page = dev.cmd(cdb.inquiry(252, 0xb0, 1), din=252).data
        most = int.from_bytes(page[36:44], "big")
        assert 0 < most < 512 << 11
        assert dev.cmd(cdb.blocks(cdb.WRITE_SAME_16, 0, most, byte1=0x01)).good
        got = dev.cmd(cdb.blocks(cdb.WRITE_SAME_16, 0, most + 1, byte1=0x01))
        assert outcome(got) == invalid_field(10)


def test_reads_go_on_during_a_long_write_same():
    """A WRITE SAME takes a worker for a long time; READs of its LUN and of another do not wait."""
    with loaded("smq_ram", luns=2, size_mb=64) as hosts:
        lun, other = hosts[0].luns()
        same, read = cdb.blocks(cdb.WRITE_SAME_16, 0, 64 << 11), cdb.blocks(cdb.READ_10, 0, 8)
        with SgDev(lun.sg) as writer, SgDev(lun.sg) as near, SgDev(other.sg) as far, \
                ThreadPoolExecutor(1) as pool:
            written = pool.submit(writer.cmd, same, dout=os.urandom(512))
            reads = 0
            while not written.done():
                assert near.cmd(read, din=4096).good and far.cmd(read, din=4096).good
                reads += 1
            assert written.result().good and reads > 20


@pytest.mark.smoke
def test_many_hosts():
    """Three hosts have two LUNs each. Every LUN keeps its own data and has its own name."""
    with loaded("smq_ram", hosts=3, luns=2, size_mb=16) as hosts:
        names = set()
        for at, lun in enumerate(lun for host in hosts for lun in host.luns()):
            with SgDev(lun.sg) as dev:
                assert dev.cmd(cdb.blocks(cdb.WRITE_10, 7, 1), dout=bytes([at + 1]) * 512).good
                names.add((dev.cmd(cdb.inquiry(252, 0x80, 1), din=252).data,
                           dev.cmd(cdb.inquiry(252, 0x83, 1), din=252).data))
        assert len(names) == 6
        for at, lun in enumerate(lun for host in hosts for lun in host.luns()):
            with SgDev(lun.sg) as dev:
                got = dev.cmd(cdb.blocks(cdb.READ_10, 7, 1), din=512)
                assert got.data == bytes([at + 1]) * 512, lun


@pytest.mark.not_sanitized("too slow to probe 64 disks within the time limit")
def test_many_luns():
    """64 LUNs are found and listed, and the last one works."""
    with loaded("smq_ram", luns=64, size_mb=16) as hosts:
        luns = hosts[0].luns()
        assert [lun.number for lun in luns] == list(range(64))
        with SgDev(luns[63].sd) as dev:
            got = dev.cmd(cdb.report_luns(alloc=1024), din=1024)
            assert got.good and len(got.data) == 8 + 64 * 8
            assert got.data[8 + 63 * 8:] == bytes([0, 63, *bytes(6)])
            assert dev.cmd(cdb.blocks(cdb.WRITE_10, 0, 1), dout=bytes(512)).good


@pytest.mark.smoke
def test_a_tebibyte_is_sparse():
    """A disk of 1 TiB loads at once, and keeps data written beyond 2^32 bytes and at its end."""
    with loaded("smq_ram", size_mb=1 << 20) as hosts, SgDev(hosts[0].luns()[0].sd) as dev:
        blocks = 1 << 31
        got = dev.cmd(cdb.read_capacity_16(), din=32)
        assert int.from_bytes(got.data[:8], "big") == blocks - 1
        places = [0, (1 << 23) - 1, 1 << 23, (1 << 31) - 8, blocks - 1]
        for lba in places:
            data = lba.to_bytes(8, "big") * 64
            assert dev.cmd(cdb.blocks(cdb.WRITE_16, lba, 1), dout=data).good
        for lba in places:
            got = dev.cmd(cdb.blocks(cdb.READ_16, lba, 1), din=512)
            assert got.data == lba.to_bytes(8, "big") * 64, lba
        assert dev.cmd(cdb.blocks(cdb.READ_16, 12345678, 8), din=4096).data == bytes(4096)
        assert not dev.cmd(cdb.blocks(cdb.WRITE_16, blocks, 1), dout=bytes(512)).good


def test_capacity_beyond_32_bits():
    """On a disk of 16 TiB, with blocks of 512 bytes, READ CAPACITY(10) and the short block
    descriptor report 2^32-1."""
    with loaded("smq_ram", size_mb=1 << 24) as hosts, SgDev(hosts[0].luns()[0].sd) as dev:
        blocks = 1 << 35
        assert dev.cmd(cdb.read_capacity_10(), din=8).data == b"\xff" * 4 + b"\0\0\2\0"
        assert dev.cmd(cdb.read_capacity_16(), din=32).data[:8] == (blocks - 1).to_bytes(8, "big")
        assert dev.cmd(cdb.mode_sense(True, 0x08), din=252).data[4:8] == b"\xff" * 4
        data = dev.cmd(cdb.mode_sense(False, 0x08, byte1=0x10), din=252).data
        assert data[8:16] == blocks.to_bytes(8, "big")
        # The highest LBA of 10- and 12-byte CDBs is an ordinary block of this disk.
        for opcode in (cdb.WRITE_10, cdb.WRITE_12):
            want = bytes([opcode]) * 512
            assert dev.cmd(cdb.blocks(opcode, (1 << 32) - 1, 1), dout=want).good
            got = dev.cmd(cdb.blocks(cdb.READ_16, (1 << 32) - 1, 1), din=512)
            assert got.data == want
        data = b"\x77" * 512
        assert dev.cmd(cdb.blocks(cdb.WRITE_16, blocks - 1, 1), dout=data).good
        assert dev.cmd(cdb.blocks(cdb.READ_16, blocks - 1, 1), din=512).data == data
        assert not dev.cmd(cdb.blocks(cdb.READ_16, blocks, 1), din=512).good


@pytest.mark.parametrize("size", [512, 1024, 2048, 4096])
def test_sector_size(size):
    """sysfs, READ CAPACITY and MODE SENSE report the same sector size."""
    with loaded("smq_ram", size_mb=16, sector_size=size) as hosts:
        lun = hosts[0].luns()[0]
        assert int((lun.queue / "logical_block_size").read_text()) == size
        with SgDev(lun.sg) as dev:
            got = dev.cmd(cdb.read_capacity_16(), din=32).data
            assert int.from_bytes(got[8:12], "big") == size
            assert int.from_bytes(got[:8], "big") == (16 << 20) // size - 1
            assert dev.cmd(cdb.read_capacity_10(), din=8).data[4:] == size.to_bytes(4, "big")
            data = dev.cmd(cdb.mode_sense(True, 0x08), din=252).data
            assert data[8:12] == size.to_bytes(4, "big")


@pytest.mark.smoke
def test_null_moves_nothing():
    """With null=1 a READ does not change the buffer, and still checks the range."""
    with loaded("smq_ram", null=True, size_mb=16) as hosts, SgDev(hosts[0].luns()[0].sd) as dev:
        for opcode in cdb.READS:
            got = dev.cmd(cdb.blocks(opcode, 8, 8), din=4096)
            assert got.good and got.raw == bytes([sgio.FILL]) * 4096
        assert dev.cmd(cdb.blocks(cdb.WRITE_10, 8, 8), dout=bytes(4096)).good
        assert dev.cmd(cdb.blocks(cdb.READ_16, 1 << 40, 1), din=512).triple == (5, 0x21, 0)
