# SPDX-License-Identifier: GPL-2.0
# vm: --qemu '-device virtio-scsi-pci,id=hba,num_queues=2,addr=0x10'
# vm: --qemu '-blockdev driver=iscsi,node-name=one,{tgt:a:64},initiator-name=iqn.2026-01.test:one'
# vm: --qemu '-blockdev driver=iscsi,node-name=two,{tgt:a:64},initiator-name=iqn.2026-01.test:two'
# vm: --qemu '-blockdev driver=iscsi,node-name=disk,{tgt:b:64},initiator-name=iqn.2026-01.test:one'
# vm: --qemu '-blockdev driver=iscsi,node-name=more,{tgt:c:64},initiator-name=iqn.2026-01.test:one'
# vm: --qemu '-device scsi-block,bus=hba.0,scsi-id=0,drive=one'
# vm: --qemu '-device scsi-generic,bus=hba.0,scsi-id=1,drive=two'
# vm: --qemu '-device scsi-hd,bus=hba.0,scsi-id=2,drive=disk'
# vm: --qemu '-chardev socket,id=hmp,path={tmp}/hmp,server=on,wait=off -mon chardev=hmp'
# vm: --qemu '-chardev socket,id=hmp1,path={tmp}/hmp'
# vm: --qemu '-device virtserialport,chardev=hmp1,name=monitor'
# not on uml: needs QEMU's devices
# not on sanitize: devices of QEMU
"""smq_virtio with the target tgt, which QEMU's scsi-block, scsi-generic and scsi-hd use by iSCSI.

scsi-block and scsi-generic are two initiators of the same LUN, and pass commands on to tgt.
scsi-hd answers commands by itself, and keeps only its data in tgt.
"""
import os
from contextlib import contextmanager
from dataclasses import replace

import pytest
from kit import cdb, sgio, smqsg, slots
from kit import virtio as virtio_kit
from kit.fiojob import fio, load_on
from kit.host import load, run, settle, under_way, unload, wait_for
from kit.lio import clear_attentions
from kit.memory import Memory
from kit.sgio import SgDev
from kit.virtio import bound_to, device_at, host_of

BLOCKS = 64 << 11
PATHS = BLOCK, GENERIC, HD = range(3)
VERIFIED = {"ioengine": "io_uring", "rw": "randwrite", "bsrange": "2k-64k", "iodepth": 32,
            "size": "1m", "offset_increment": "8m", "verify": "crc32c", "verify_fatal": 1}
LOAD = {"ioengine": "libaio", "rw": "randrw", "bs": 4096, "iodepth": 32, "numjobs": 2,
        "time_based": True, "runtime": 600}
ADD = "device_add scsi-block,bus=hba.0,scsi-id=5,id=plugged,drive=more"
WRITE, READ = cdb.blocks(cdb.WRITE_10, 0, 1), cdb.blocks(cdb.READ_10, 0, 1)
TUR = cdb.plain(cdb.TEST_UNIT_READY)
PERSISTENT_RESERVE_IN, READ_KEYS, REPORT_CAPABILITIES, FULL_STATUS = 0x5e, 0, 2, 3
MODE_SELECT_6, PF, CONTROL_PAGE, SWP = 0x15, 0x10, 0x0a, 0x08


def prin(action):
    """Returns the CDB of a PERSISTENT RESERVE IN."""
    return bytes([PERSISTENT_RESERVE_IN, action, 0, 0, 0, 0, 0, 1, 0, 0])


# Commands that change no data: the CDB, the number of bytes to read, and the bytes to write.
QUESTIONS = {
    "inquiry": (cdb.inquiry(36), 36),
    "inquiry, more than there is": (cdb.inquiry(255), 255),
    **{f"vpd {page:02x}": (cdb.inquiry(252, page, 1), 252)
       for page in (0x00, 0x80, 0x83, 0xb0, 0xb1, 0xb2, 0xee)},
    "capacity": (cdb.read_capacity_10(), 8),
    "long capacity": (cdb.read_capacity_16(64), 64),
    "all mode pages": (cdb.mode_sense(True, 0x3f), 252),
    "all mode pages by 10": (cdb.mode_sense(False, 0x3f), 252),
    "luns": (cdb.report_luns(), 512),
    "opcodes": (cdb.report_opcodes(), 2048),
    "sense": (cdb.request_sense(), 252),
    "no such opcode": (bytes([0xc0, *bytes(9)]), 0),
    "keys": (prin(READ_KEYS), 256),
    "reservation capabilities": (prin(REPORT_CAPABILITIES), 256),
    "full status": (prin(FULL_STATUS), 256),
    **{f"read {opcode:02x}": (cdb.blocks(opcode, 100, 3), 1536) for opcode in cdb.READS},
    **{f"read {opcode:02x} past the end": (cdb.blocks(opcode, BLOCKS - 1, 2), 1024)
       for opcode in cdb.READS[1:]},
    "more buffer than blocks": (cdb.blocks(cdb.READ_10, 100, 1), 1536),
    "write past the end": (cdb.blocks(cdb.WRITE_16, BLOCKS - 1, 2), 0, bytes(1024)),
    "compare": (cdb.blocks(cdb.VERIFY_10, BLOCKS - 8, 1, byte1=2), 0, bytes([0xff]) * 512),
}


def device():
    """Returns the virtio-scsi device, which is the same in all tests."""
    return device_at("0000:00:10.0", "vm/virtio_tgt")


@pytest.fixture(scope="module", autouse=True)
def in_tree_driver():
    """Binds the device to virtio_scsi. At the end of each test it is bound to virtio_scsi again."""
    load("virtio_scsi")
    host_of(device(), len(PATHS))
    yield
    unload("virtio_scsi")


def disks_of(host):
    """Returns the host's disks, in the order of PATHS, and clears their unit attentions."""
    disks = host.wait_luns(len(PATHS))
    assert [disk.address.split(":")[2] for disk in disks] == ["0", "1", "2"]
    for disk in disks:
        with SgDev(disk.sg) as dev:
            clear_attentions(dev)
    return disks


@contextmanager
def taken(io_errors=False):
    """Loads smq_virtio; yields the host and its three disks."""
    with virtio_kit.module(lambda: [device()], len(PATHS), io_errors):
        host = virtio_kit.take(device(), len(PATHS))
        yield host, disks_of(host)


@contextmanager
def two_paths(disks):
    """Opens the sg nodes of the two initiators of one LUN."""
    with SgDev(disks[BLOCK].sg) as one, SgDev(disks[GENERIC].sg) as two:
        yield one, two


def direct_write(path):
    """Writes 4 KiB without the page cache; returns the errno, or 0."""
    fd = os.open(path, os.O_WRONLY | os.O_DIRECT | os.O_CLOEXEC)
    area = Memory(4096)
    try:
        os.pwrite(fd, area.area, 0)
        return 0
    except OSError as error:
        return error.errno
    finally:
        area.close()
        os.close(fd)


@pytest.mark.smoke
def test_smq_virtio_and_virtio_scsi_get_the_same_answers():
    def answers(host):
        found = {}
        for path, disk in enumerate(disks_of(host)):
            with SgDev(disk.sg) as dev:
                for name, (raw, din, *dout) in QUESTIONS.items():
                    got = dev.cmd(raw, din=din, dout=b"".join(dout))
                    # The driver byte is not part of the target's answer: the mid-layer sets it.
                    found[path, name] = replace(got, driver=0)
        return found

    theirs = answers(host_of(device(), len(PATHS)))
    with taken() as (host, _):
        ours = answers(host)
        settle(host)
    assert [key for key, got in ours.items() if got != theirs[key]] == []
    for path in (BLOCK, GENERIC):
        assert ours[path, "no such opcode"].triple == (sgio.ILLEGAL_REQUEST, 0x20, 0)
        assert ours[path, "vpd ee"].triple == (sgio.ILLEGAL_REQUEST, 0x24, 0)
        assert ours[path, "read 28 past the end"].triple == (sgio.ILLEGAL_REQUEST, 0x21, 0)
        assert ours[path, "write past the end"].triple == (sgio.ILLEGAL_REQUEST, 0x21, 0)
        assert ours[path, "reservation capabilities"].good
    assert ours[GENERIC, "compare"].triple == (sgio.MISCOMPARE, 0x1d, 0)


@pytest.mark.smoke
def test_prepared_commands_move_data_in_both_directions():
    """Prepared commands of one initiator write data. Prepared commands of the other initiator read
    the same data."""
    count, each = 64, 8
    size = count * each * slots.BLOCK

    def prepared(file, memory, make, opcode):
        assert file.lend(0, memory) == 0
        file.prepare([make(1000 + at * each, each, opcode, offset=at * each * slots.BLOCK)
                      for at in range(count)])
        return file.run(range(count))

    with taken() as (host, disks), smqsg.module():
        nodes = [smqsg.node(disk) for disk in disks[:HD]]
        for out, back in (nodes, nodes[::-1]):
            for write, read in zip(cdb.WRITES[1:], cdb.READS[1:], strict=True):
                data = os.urandom(size)
                sent, got = Memory(size), Memory(size)
                sent[:] = data
                with slots.SlotFile(out, count) as file:
                    assert prepared(file, sent, slots.write, write) == (0, 0)
                with slots.SlotFile(back, count) as file:
                    assert prepared(file, got, slots.read, read) == (0, 0)
                    assert got[:] == data
        # A bad prepared command gets tgt's answer.
        for node in nodes:
            with slots.SlotFile(node, 2) as file:
                memory = Memory(4096)
                assert file.lend(0, memory) == 0
                file.prepare([slots.read(BLOCKS - 1, 2), slots.command(bytes([0xc0, *bytes(9)]))])
                assert file.run(range(2)) == (0, 2)
                assert file.status(0).triple == (sgio.ILLEGAL_REQUEST, 0x21, 0)
                assert file.status(1).triple == (sgio.ILLEGAL_REQUEST, 0x20, 0)
            smqsg.idle(node)
        settle(host)


@pytest.mark.smoke
def test_unit_attentions_and_sense_data_are_reported():
    def protect(dev, on):
        page = bytearray(dev.cmd(cdb.mode_sense(True, CONTROL_PAGE), din=252).data)
        del page[page[0] + 1:]
        at = 4 + page[3]
        assert page[at] & 0x3f == CONTROL_PAGE
        # MODE SELECT requires these fields to be 0: mode data length; WP and DPOFUA; PS.
        page[0], page[2], page[at] = 0, 0, CONTROL_PAGE
        page[at + 4] = page[at + 4] & ~SWP | (SWP if on else 0)
        return dev.cmd(bytes([MODE_SELECT_6, PF, 0, 0, len(page), 0]), dout=bytes(page))

    with taken(io_errors=True) as (host, disks), two_paths(disks) as (one, two):
        # Mode pages belong to the LUN, so a change by one initiator causes a unit attention for the
        # other one.
        for first, second in ((one, two), (two, one)):
            assert protect(first, True).good
            try:
                assert first.cmd(TUR).good
                assert second.cmd(TUR).triple == (sgio.UNIT_ATTENTION, 0x2a, 0x01)
                assert second.cmd(TUR).good
                for dev in (first, second):
                    got = dev.cmd(WRITE, dout=bytes(512))
                    assert got.triple == (sgio.DATA_PROTECT, 0x27, 0), got
                    assert dev.cmd(READ, din=512).good
                assert direct_write(disks[BLOCK].sd)
            finally:
                again = protect(first, False)
            assert again.good
            clear_attentions(second)
            assert second.cmd(WRITE, dout=bytes(512)).good
        # QEMU passes VERIFY on, so tgt compares the data.
        block = os.urandom(512)
        verify = cdb.blocks(cdb.VERIFY_10, 0, 1, byte1=2)
        assert one.cmd(WRITE, dout=block).good and two.cmd(verify, dout=block).good
        assert two.cmd(verify, dout=bytes(512)).triple == (sgio.MISCOMPARE, 0x1d, 0)
        # Each initiator that a reset affects gets a unit attention.
        for level, reached in ((sgio.SG_SCSI_RESET_DEVICE, (one,)),
                               (sgio.SG_SCSI_RESET_TARGET, (one,)),
                               (sgio.SG_SCSI_RESET_HOST, (one, two))):
            one.reset(level)
            for dev in (one, two):
                if dev in reached:
                    assert dev.cmd(TUR).triple == (sgio.UNIT_ATTENTION, 0x29, 0)
                assert dev.cmd(TUR).good
        settle(host)


def test_disk_is_unplugged_under_load_and_plugged_in_again(monitor):
    with taken(io_errors=True) as (host, disks):
        count = len(PATHS) + 1

        def plugged():
            monitor.run(ADD, again="Permission conflict|Duplicate|in use")
            return host.wait_luns(count)[-1]

        try:
            new = plugged()
            assert new.address.split(":")[2] == "5"
            run("sg_persist", "--out", "--register", "--param-sark=0xc3", new.sg)
            with load_on(new.sd, ok=False, **LOAD) as pulled, \
                    load_on(disks[GENERIC].sd, to_end=True, **VERIFIED):
                under_way(new, 100)
                monitor.run("device_del plugged")
                assert any(job["error"] for job in pulled.result()["jobs"])
            host.wait_luns(count - 1)
            # tgt has kept the registration of the initiator that was unplugged.
            new = plugged()
            assert "0xc3" in run("sg_persist", "--in", "--read-keys", new.sg).stdout
            fio(new.sd, **VERIFIED)
            run("sg_persist", "--out", "--clear", "--param-rk=0xc3", new.sg)
        finally:
            if len(host.luns()) == count:
                monitor.run("device_del plugged")
                wait_for("the disk to disappear", lambda: len(host.luns()) == count - 1)
        settle(host)
    assert bound_to(device()) == "virtio_scsi"
