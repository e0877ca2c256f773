# SPDX-License-Identifier: GPL-2.0
# on: core 7.2
# not on uml: its scsi_debug crashes as a medium changer behind pscsi, and it has no tcm_user
# not on sanitize: as on uml
"""smq_lio: LIO's backstores as local disks."""
import errno
import os
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit import cdb, iscsi, sgio
from kit.child import ended, spawn
from kit.deleted import reset_a_deleted_lun
from kit.fiojob import fio, load_on, total_ios
from kit.host import ModuleError, find_hosts, load, loaded, run, settle, under_way, wait_for
from kit.lio import (LOOPBACK, NEXUS, SMQ, TARGET, WWN, Wwn, clear_attentions, fileio, iblock,
                     lio_fabric, loop_fabric, pscsi, ramdisk, read_attr, user, write_attr)
from kit.ramdir import ram_host
from kit.sanitizing import SANITIZING
from kit.sgio import SgDev
from kit.kernel import VERSION
from kit.trace import executed_work, queued_work, traced

VERIFIED = {"ioengine": "io_uring", "rw": "randwrite", "bsrange": "512-64k", "iodepth": 32,
            "size": "2m", "verify": "crc32c", "verify_fatal": 1}
RESETS = VERIFIED | {"bsrange": "4k-4k", "size": "8m"}
LOAD = {"ioengine": "libaio", "rw": "randrw", "bs": 4096, "iodepth": 16, "numjobs": 2,
        "time_based": True, "runtime": 600, "size": "8m"}
BLOCKS = 32 << 11
WHERE = Path("/run")


@contextmanager
def rd_disk(io_errors=False, **attrib):
    """A target with one of LIO's RAM disks at LUN 0. Yields its TPG and the disk."""
    with ramdisk("rd", **attrib) as store, lio_fabric(io_errors):
        wwn = Wwn()
        tpg = wwn.tpg()
        yield tpg, tpg.disk(0, store)
        wwn.remove()


@contextmanager
def iblock_disk(io_errors=False, lower=None, **attrib):
    """A target whose LUN 0 has a disk of smq_ram as its backstore. Yields the configfs directory of
    smq_ram's host, the target's TPG, and the target's disk."""
    with ram_host(**lower or {}) as (ram_dir, ram), \
            iblock("ib", ram.luns()[0].sd, **attrib) as store, lio_fabric(io_errors):
        wwn = Wwn()
        tpg = wwn.tpg()
        yield ram_dir, tpg, tpg.disk(0, store)
        wwn.remove()


def refused(errors, action):
    """Asserts that @action fails with one of these errnos."""
    with pytest.raises(OSError) as caught:
        action()
    assert caught.value.errno in errors, caught.value


@pytest.mark.smoke
@pytest.mark.limit(120)
def test_three_kinds_of_backstores_hold_their_data():
    file = WHERE / "lio.img"
    try:
        with ram_host() as (_, ram), ramdisk("rd") as rd, fileio("file", file) as fio_store, \
                iblock("ib", ram.luns()[0].sd) as ib, lio_fabric():
            wwn = Wwn()
            tpg = wwn.tpg()
            host = tpg.host
            assert host.attr("nr_hw_queues") == str(os.cpu_count())
            disks = [tpg.disk(number, store).sd for number, store in enumerate((rd, fio_store, ib))]
            with traced(buffer_kb=32768) as trace:
                report = fio(":".join(disks), **VERIFIED | {"size": "6m"})
                settle(host)
            assert trace.check_once() >= total_ios(report)
            wwn.remove()
    finally:
        file.unlink(missing_ok=True)


def test_configfs_checks_names_limits_and_order(klog):
    # I/O may fail, because disks are removed while the kernel still searches them for partitions.
    with ramdisk("rd") as store, lio_fabric(io_errors=True):
        for name in ("iqn.2026-01.org.t:x", "naa.123", "naa.500140500000000g", WWN + "0"):
            refused({errno.EINVAL}, (SMQ / name).mkdir)
            klog.wait(f"{name} is not 'naa.' and 16 hexadecimal digits")
        wwn = Wwn()
        for name in ("tpgt_32", "tpgt_x", "tpgt_", "port_1"):
            refused({errno.EINVAL}, (wwn.path / name).mkdir)
            klog.wait(f"{name} is none of tpgt_0..tpgt_31")
        tpg = wwn.tpg(31, nexus=None)
        refused({errno.ENODEV}, lambda: read_attr(tpg.path / "nexus"))
        refused({errno.ENODEV}, lambda: write_attr(tpg.path / "nexus", "NULL"))
        for name in ("naa.12", "fc.5001405000000001", ""):
            refused({errno.EINVAL}, lambda text=name: write_attr(tpg.path / "nexus", text + "\n"))
            klog.wait(f"nexus={name} is neither")

        # The LUN is linked first, and then the nexus is made.
        address = tpg.link(7, store)
        assert not tpg.host.luns()
        write_attr(tpg.path / "nexus", NEXUS + "\n")
        assert [lun.address for lun in tpg.host.wait_luns(1)] == [address]
        assert address == f"{tpg.host.number}:0:31:7"
        assert read_attr(tpg.path / "nexus") == NEXUS
        refused({errno.EEXIST}, lambda: write_attr(tpg.path / "nexus", NEXUS))
        klog.wait(f"nexus is already {NEXUS}")
        refused({errno.EBUSY}, lambda: write_attr(tpg.path / "nexus", "NULL"))
        klog.wait("nexus is in use by its LUNs")

        # A second port of the same host, and LUNs with the highest numbers.
        other = wwn.tpg(0)
        other.link(16383, store)
        assert {lun.address for lun in tpg.host.wait_luns(2)} == {
            address, f"{tpg.host.number}:0:0:16383"}
        other.link(16384, store)
        klog.wait(r"lun_16384 is outside lun_0\.\.lun_16383")
        assert len(tpg.host.luns()) == 2
        other.remove()
        tpg.unlink(7)
        assert not tpg.host.luns()
        write_attr(tpg.path / "nexus", "NULL")
        refused({errno.ENODEV}, lambda: read_attr(tpg.path / "nexus"))
        wwn.remove()


@pytest.mark.parametrize("params, message", [
    ({"depth": 0}, "depth=0 is outside 1..4096"), ({"depth": 4097}, "depth=4097 is outside")],
    ids=["least", "most"])
def test_bad_parameters_are_refused(klog, params, message):
    with pytest.raises(ModuleError):
        load("smq_lio", **params)
    klog.wait(message)


@pytest.mark.smoke
@pytest.mark.limit(120)
def test_luns_come_and_go_under_verified_load():
    with ramdisk("more") as store, rd_disk() as (tpg, disk):
        with load_on(disk.sd, to_end=True, **VERIFIED | {"size": "8m"}):
            under_way(disk)
            for _ in range(3):
                with SgDev(tpg.disk(5, store).sg) as dev:
                    data = os.urandom(4096)
                    assert dev.cmd(cdb.blocks(cdb.WRITE_10, 8, 8), dout=data).good
                    assert dev.cmd(cdb.blocks(cdb.READ_10, 8, 8), din=4096).data == data
                tpg.unlink(5)
                assert [lun.address for lun in tpg.host.luns()] == [disk.address]


@pytest.mark.smoke
def test_prebuilt_cdbs_move_their_data_and_leave_exact_residuals():
    with rd_disk() as (_, disk), SgDev(disk.sd) as dev:
        data = os.urandom(8 * 512)
        # LIO's workers execute commands that may sleep. READ and WRITE of a RAM disk do not sleep.
        with queued_work("target_queued_submit_work") as queued:
            for write, read in zip(cdb.WRITES, cdb.READS, strict=True):
                data = data[512:] + data[:512]
                got = dev.cmd(cdb.blocks(write, 4096, 8), dout=data)
                assert got.good and not got.resid, got
                got = dev.cmd(cdb.blocks(read, 4096, 8), din=4096)
                assert got.good and not got.resid and got.data == data, got
        # A kernel that checks for sleeping in atomic context would report LIO's might_sleep(), so
        # on such a kernel workers execute all commands.
        assert bool(queued) == SANITIZING
        with queued_work("target_queued_submit_work") as queued:
            assert dev.cmd(cdb.inquiry(36), din=36).good
        assert len(queued) == 1
        # These scatterlists have one page per entry, and may begin inside a page.
        big = os.urandom(300 * 512)
        for at in (0, 512, 3584):
            assert dev.cmd(cdb.blocks(cdb.WRITE_16, 64, 300), dout=big, at=at).good
            assert dev.cmd(cdb.blocks(cdb.READ_16, 64, 300), din=len(big), at=at).data == big

        got = dev.cmd(cdb.blocks(cdb.READ_10, 64, 1), din=1536)
        assert got.good and got.resid == 1024 and got.data == big[:512], got
        got = dev.cmd(cdb.read_capacity_16(), din=64)
        assert got.good and got.resid == 32, got
        assert int.from_bytes(got.data[:8], "big") == BLOCKS - 1
        got = dev.cmd(cdb.inquiry(255), din=255)
        assert got.good and len(got.data) == got.data[4] + 5, got
        assert got.data[8:16] == b"LIO-ORG "
        # LIO maps the data of other commands as one piece, even if it spans pages.
        whole = dev.cmd(cdb.report_luns(alloc=65536), din=65536, at=512)
        assert whole.good and int.from_bytes(whole.data[:4], "big") == 8, whole


def test_commands_that_copy_memory_end_without_a_worker():
    """Such a command ends in queue_cmd, unless the WWN's attribute names the CPU on which LIO shall
    complete it (before Linux 7.0)."""
    with rd_disk() as (tpg, disk), SgDev(disk.sg) as dev:
        def completed():
            with executed_work("target_complete_ok_work") as lines:
                for _ in range(20):
                    assert dev.cmd(cdb.blocks(cdb.WRITE_10, 8, 8), dout=bytes(4096)).good
                    assert dev.cmd(cdb.blocks(cdb.READ_10, 8, 8), din=4096).good
            return len(lines)
        direct = VERSION >= (7, 0)
        assert completed() == (40 if SANITIZING and not direct else 0)
        affinity = tpg.path.parent / "param/cmd_completion_affinity"
        write_attr(affinity, os.cpu_count() - 1)
        assert completed() == (0 if direct else 40)
        write_attr(affinity, -1)


ELSEWHERE = VERIFIED | {"bsrange": "4k-4k", "numjobs": 4, "offset_increment": "2m"}


@pytest.mark.limit(60)
def test_commands_that_lio_delays_under_verified_load():
    """Another fabric sends the backstore ORDERED commands: LIO delays ours, and a work item
    executes them while queue_cmd has not returned."""
    with ramdisk("rd") as store, iscsi.target(store), lio_fabric():
        wwn = Wwn()
        disk = wwn.tpg().disk(0, store)
        with iscsi.ordered():
            fio(disk.sd, limit=40, **ELSEWHERE)
        wwn.remove()


@pytest.mark.limit(60)
def test_commands_that_another_nexus_aborts_under_verified_load():
    with ramdisk("rd") as store, lio_fabric(io_errors=True), loop_fabric(io_errors=True):
        ours, theirs = Wwn(), Wwn(fabric=LOOPBACK)
        disk = ours.tpg().disk(0, store)
        other = theirs.tpg().disk(0, store)
        with load_on(disk.sd, to_end=True, **ELSEWHERE), SgDev(other.sg) as dev:
            for _ in range(20):
                dev.reset(sgio.SG_SCSI_RESET_DEVICE)
        ours.remove()
        theirs.remove()


@pytest.mark.smoke
def test_invalid_commands_get_sense_data():
    with rd_disk() as (_, disk), SgDev(disk.sg) as dev:
        assert dev.cmd(bytes([0xc0, *bytes(9)])).triple == (sgio.ILLEGAL_REQUEST, 0x20, 0)
        for opcode in (*cdb.READS[1:], *cdb.WRITES[1:]):
            out = opcode in cdb.WRITES
            got = dev.cmd(cdb.blocks(opcode, BLOCKS - 1, 2), din=0 if out else 1024,
                          dout=bytes(1024) if out else b"")
            assert got.triple == (sgio.ILLEGAL_REQUEST, 0x21, 0), got
            assert out or got.resid == 1024, got
        # More blocks than fit into the buffer.
        assert dev.cmd(cdb.blocks(cdb.READ_10, 0, 2), din=512).decoded.key == sgio.ILLEGAL_REQUEST
        # A CDB whose additional length is larger than the CDB.
        long = bytes([0x7f, *bytes(6), 0x20, *bytes(24)])
        assert dev.cmd(long).triple == (sgio.ILLEGAL_REQUEST, 0x24, 0)
        assert dev.cmd(cdb.plain(cdb.TEST_UNIT_READY)).good


def test_write_same_and_unmap():
    with iblock_disk(emulate_tpu=1, emulate_tpws=1) as (_, _, disk), SgDev(disk.sg) as dev:
        block = os.urandom(512)
        assert dev.cmd(cdb.blocks(cdb.WRITE_SAME_16, 100, 30), dout=block).good
        assert dev.cmd(cdb.blocks(cdb.READ_16, 100, 30), din=30 * 512).data == block * 30
        # WRITE SAME(32): 32 bytes of CDB.
        block = os.urandom(512)
        same = bytearray(32)
        same[0], same[7], same[9] = 0x7f, 0x18, 0x0d
        same[12:20] = (200).to_bytes(8, "big")
        same[28:32] = (9).to_bytes(4, "big")
        got = dev.cmd(bytes(same), dout=block)
        assert got.good, got
        assert dev.cmd(cdb.blocks(cdb.READ_16, 199, 11), din=11 * 512).data == (
            bytes(512) + block * 9 + bytes(512))
        listed = cdb.unmap_list((200, 4))
        assert dev.cmd(cdb.unmap(len(listed)), dout=listed).good
        assert dev.cmd(cdb.blocks(cdb.READ_16, 200, 9), din=9 * 512).data == (
            bytes(4 * 512) + block * 5)


# CDBs whose length differs from that of their buffer: underflow, overflow, no data.
MISMATCHED = [
    ("28000000000000080000", 0, 0), ("2a000000000000080000", 0, 0),
    ("2a000000000000000800", 0, 512), ("2a000000000000000100", 0, 4096),
    ("28000000000000000100", 4096, 0), ("28000000000000000800", 512, 0),
    ("88000000000000000000000008000000", 512, 0), ("12000000ff00", 36, 0),
    ("120000002400", 4096, 0), ("a00000000000000000080000", 4096, 0),
    ("25000000000000000000", 4, 0), ("9e100000000000000000000000200000", 4096, 0),
    ("42000000000000001800", 0, 8), ("42000000000000001800", 0, 4096),
    ("93000000000000000000000000080000", 0, 4096), ("93000000000000000000000000080000", 0, 512),
    ("89000000000000000000000000010000", 0, 512), ("5f000000000000001800", 0, 4)]


def test_cdbs_that_disagree_with_their_buffer_end_as_with_tcm_loop():
    with ramdisk("one") as one, ramdisk("two") as two, lio_fabric(io_errors=True), \
            loop_fabric(io_errors=True):
        ours, theirs = Wwn(), Wwn(fabric=LOOPBACK)
        with SgDev(ours.tpg().disk(0, one).sg) as dev, \
                SgDev(theirs.tpg().disk(0, two).sg) as oracle:
            for text, din, out in MISMATCHED:
                for node in (dev, oracle):
                    clear_attentions(node)
                got, want = (node.cmd(bytes.fromhex(text), din, bytes(out))
                             for node in (dev, oracle))
                # tcm_loop's residual is wrong: it may be longer than the buffer.
                assert (got.status, got.host, got.sense) == (want.status, want.host, want.sense), (
                    f"{text}: {got}; tcm_loop: {want}")
                assert 0 <= got.resid <= din + out
        ours.remove()
        theirs.remove()


def test_extended_copy_reaches_the_fabric_s_own_luns_only():
    with ramdisk("a1") as one, ramdisk("b2") as two, ramdisk("c3") as far, lio_fabric(), \
            loop_fabric():
        ours, theirs = Wwn(), Wwn(fabric=LOOPBACK)
        tpg = ours.tpg()
        source, target = tpg.disk(0, one), tpg.disk(1, two)
        other = theirs.tpg().disk(0, far)
        data = os.urandom(64 * 512)

        def copy(where):
            return run("sg_xcopy", f"if={source.sg}", f"of={where.sg}", "bs=512", "count=64",
                       "bpt=64", ok=False).returncode
        with SgDev(source.sg) as dev:
            clear_attentions(dev)
            assert dev.cmd(cdb.blocks(cdb.WRITE_10, 0, 64), dout=data).good
        assert copy(target) == 0 and copy(other) != 0
        for lun, want in ((target, data), (other, bytes(len(data)))):
            with SgDev(lun.sg) as dev:
                clear_attentions(dev)
                assert dev.cmd(cdb.blocks(cdb.READ_10, 0, 64), din=len(data)).data == want
        ours.remove()
        theirs.remove()


def test_backstore_that_nobody_serves_gets_no_device(klog):
    with user("nobody", cmd_time_out=2) as store, lio_fabric(io_errors=True):
        wwn = Wwn()
        tpg = wwn.tpg()
        tpg.link(0, store)
        klog.wait("tpgt_1/lun_0: no device was added")
        assert not tpg.host.luns()
        refused((errno.EBUSY,), store.rmdir)        # it is linked
        tpg.unlink(0)
        wwn.remove()


@pytest.mark.limit(120)
def test_backstore_that_hangs_is_let_go_by_a_reset_of_its_ring(klog):
    """A backstore in user space that nobody serves, and whose commands never time out: the link
    waits for the first INQUIRY. When the administrator resets its ring, the link ends, and all can
    be removed."""
    with user("hangs", cmd_time_out=0) as store, lio_fabric(io_errors=True):
        wwn = Wwn()
        tpg = wwn.tpg()

        def link():
            tpg.link(0, store)
        pid = spawn(link)
        wait_for("a link that waits", lambda: (tpg.path / "lun/lun_0/backstore").exists() or
                 "D" in Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2])
        # The command waits for ever: neither the link ends, nor is there a device.
        time.sleep(2)
        assert os.waitpid(pid, os.WNOHANG) == (0, 0)
        assert not tpg.host.luns()
        write_attr(store / "action/block_dev", 1)
        write_attr(store / "action/reset_ring", 2)
        assert ended(pid, 90) == 0
        klog.wait("tpgt_1/lun_0: no device was added")
        tpg.unlink(0)
        wwn.remove()


# Commands of tapes and changers, with the length of their data-in.
OF_TYPES = [
    ("000000000000", 0), ("120000002400", 36), ("03000000fc00", 252), ("050000000000", 6),
    ("010000000000", 0), ("34000000000000000000", 20), ("110000000100", 0), ("1a003f00fc00", 252),
    ("070000000000", 0), ("b8000000ffff000000fc0000", 252), ("a50000000000000000000000", 0),
    ("c0000000000000000000", 0)]


@pytest.mark.parametrize("ptype", [1, 8], ids=["tape", "changer"])
def test_passed_on_commands_end_as_with_tcm_loop(ptype):
    """LIO's pscsi backstore gives commands to a tape or a changer as they are."""
    def answers(fabric, where):
        with loaded("scsi_debug", disks=False, io_errors=True, ptype=ptype, delay=0) as (host,), \
                pscsi("passed", host.luns()[0]) as store, fabric(io_errors=True):
            wwn = Wwn(fabric=where)
            tpg = wwn.tpg()
            tpg.link(0, store)
            lun, = tpg.host.wait_luns(1, disks=False)
            with SgDev(lun.sg) as dev:
                clear_attentions(dev)
                got = [dev.cmd(bytes.fromhex(text), din) for text, din in OF_TYPES]
            wwn.remove()
        return [(one.status, one.host, one.sense) for one in got]

    ours, theirs = answers(lio_fabric, SMQ), answers(loop_fabric, LOOPBACK)
    for (text, _), mine, other in zip(OF_TYPES, ours, theirs, strict=True):
        assert mine == other, f"{text}: {mine}; tcm_loop: {other}"
    assert {status for status, _, _ in ours} >= {0, 2}


def test_backstore_is_free_when_its_lun_was_unlinked():
    """A LUN is taken away while its file system is written. Then its backstore and the disk below
    can be removed, although the file system is still mounted."""
    where = WHERE / "unlinked"
    where.mkdir(exist_ok=True)
    with ram_host() as (_, ram), lio_fabric(io_errors=True):
        lower = ram.luns()[0].sd
        wwn = Wwn()
        tpg = wwn.tpg()
        with iblock("free", lower) as store:
            disk = tpg.disk(0, store).sd
            run("mkfs.ext2", "-q", disk)
            run("mount", disk, str(where))
            refused({errno.EBUSY}, store.rmdir)
            refused({errno.EBUSY}, lambda: os.open(lower, os.O_RDONLY | os.O_EXCL))
            with (where / "file").open("wb") as file:
                file.write(bytes(1 << 20))
                tpg.unlink(0)
                with pytest.raises(OSError):
                    file.flush()
                    os.fsync(file.fileno())
        os.close(os.open(lower, os.O_RDONLY | os.O_EXCL))
        run("umount", str(where))
        wwn.remove()


def test_persistent_reservations_between_two_nexuses():
    second = "naa.5001405000000a02"
    with ramdisk("rd") as store, lio_fabric(io_errors=True):
        # LIO writes a file to this directory even if no registration is to survive a loss of power.
        Path(read_attr(TARGET / "dbroot"), "pr").mkdir(parents=True, exist_ok=True)
        wwn = Wwn()
        first = wwn.tpg(1).disk(0, store)
        other = wwn.tpg(2, second).disk(0, store)
        write, read = cdb.blocks(cdb.WRITE_10, 0, 1), cdb.blocks(cdb.READ_10, 0, 1)
        with SgDev(first.sg) as one, SgDev(other.sg) as two:
            run("sg_persist", "--out", "--register", "--param-sark=0x1", first.sg)
            run("sg_persist", "--out", "--register", "--param-sark=0x2", other.sg)
            said = run("sg_persist", "--in", "--read-full-status", first.sg).stdout
            for name in (NEXUS, second):
                assert name[4:] in said.replace(" ", ""), said
            assert WWN[4:] in run("sg_vpd", "--page=di", first.sg).stdout.lower()
            # Write exclusive.
            run("sg_persist", "--out", "--reserve", "--param-rk=0x1", "--prout-type=1", first.sg)
            got = two.cmd(write, dout=bytes(512))
            assert got.status == sgio.RESERVATION_CONFLICT and not got.sense, got
            assert two.cmd(read, din=512).good and one.cmd(write, dout=bytes(512)).good
            run("sg_persist", "--out", "--preempt", "--param-rk=0x2", "--param-sark=0x1",
                "--prout-type=1", other.sg)
            assert two.cmd(write, dout=bytes(512)).good
            clear_attentions(one)
            assert one.cmd(write, dout=bytes(512)).status == sgio.RESERVATION_CONFLICT
            run("sg_persist", "--out", "--clear", "--param-rk=0x2", other.sg)
            clear_attentions(one)
            assert one.cmd(write, dout=bytes(512)).good
        wwn.remove()


def test_protection_information():
    with rd_disk(pi_prot_type=1) as (_, disk):
        block = Path("/sys/block", Path(disk.sd).name)
        assert read_attr(block / "integrity/format") == "T10-DIF-TYPE1-CRC"
        fio(disk.sd, **VERIFIED | {"bsrange": "4k-64k"})


@pytest.mark.smoke
def test_a_slow_command_is_aborted_when_its_backstore_ends_it():
    """LIO cannot stop a backstore: the abort returns when the backstore has ended the command."""
    with iblock_disk() as (ram_dir, tpg, disk):
        (disk.sysfs / "timeout").write_text("1", encoding="ascii")
        ram_dir.arm("timeout", count=1, delay_ms=3000)
        with traced() as trace, SgDev(disk.sg) as dev:
            assert dev.cmd(cdb.plain(cdb.TEST_UNIT_READY)).good
            got = dev.cmd(cdb.blocks(cdb.READ_10, 0, 8), din=4096, timeout_ms=1000)
            assert got.host == sgio.DID_TIME_OUT, got
            assert dev.cmd(cdb.blocks(cdb.READ_10, 0, 8), din=4096).good
            stats = settle(tpg.host)
        trace.check_once()
        assert (stats["timeouts"], stats["aborts"], stats["lun_resets"]) == (1, 1, 0)


@pytest.mark.smoke
@pytest.mark.limit(120)
def test_resets_under_verified_load():
    with iblock_disk(lower={"model/service_ns": 3000000}) as (_, tpg, disk):
        with traced(buffer_kb=32768) as trace:
            with load_on(disk.sd, to_end=True, **RESETS) as load_, \
                    SgDev(disk.sg) as dev:
                for level in (sgio.SG_SCSI_RESET_DEVICE, sgio.SG_SCSI_RESET_TARGET,
                              sgio.SG_SCSI_RESET_HOST) * 2:
                    under_way(disk, 20)
                    dev.reset(level)
            stats = settle(tpg.host)
        assert trace.check_once() >= total_ios(load_.result())
        assert (stats["lun_resets"], stats["target_resets"], stats["host_resets"]) == (2, 2, 2)


def test_reset_of_a_deleted_lun():
    with rd_disk() as (tpg, _):
        reset_a_deleted_lun(tpg.host)


def test_scan_finds_the_luns_of_a_target_without_lun_0():
    numbers = [100, 300, 16383]
    with ramdisk("rd") as store, lio_fabric():
        wwn = Wwn()
        tpg = wwn.tpg()
        host = tpg.host
        for number in numbers:
            write_attr(tpg.disk(number, store).sysfs / "delete", 1)
        assert not host.luns()
        write_attr(host.sysfs / "scan", "- - -")
        luns = host.wait_luns(3)
        assert [lun.number for lun in luns] == numbers
        with SgDev(luns[1].sg) as dev:
            clear_attentions(dev)
            assert dev.cmd(cdb.blocks(cdb.READ_10, 0, 8), din=4096).good
        for number in numbers:
            tpg.unlink(number)
        # The target still has its nexus, but no LUN.
        write_attr(host.sysfs / "scan", "- - -")
        assert not host.luns()
        write_attr(tpg.path / "nexus", "NULL")
        write_attr(host.sysfs / "scan", "- - -")
        assert not host.luns()
        wwn.remove()


@pytest.mark.smoke
def test_wwn_removed_under_load():
    with ramdisk("rd") as store, lio_fabric(io_errors=True):
        wwn = Wwn()
        tpg = wwn.tpg()
        disk = tpg.disk(0, store)
        with load_on(disk.sd, ok=False, **LOAD | {"rw": "randwrite"}) as load_:
            under_way(disk)
            for module in ("smq_lio", "smq"):
                said = run("rmmod", module, ok=False)
                assert said.returncode and "in use" in said.stderr
            wwn.remove()
            assert any(job["error"] for job in load_.result()["jobs"])
        wait_for("the host to go", lambda: not find_hosts("smq_lio"))
        # The fabric's directory is empty, but it still holds a reference to the module.
        said = run("rmmod", "smq_lio", ok=False)
        assert said.returncode and "in use" in said.stderr
