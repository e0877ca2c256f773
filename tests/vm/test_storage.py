# SPDX-License-Identifier: GPL-2.0
# vm: --qemu '-device virtio-scsi-pci,id=hba,num_queues=2,addr=0x10'
# vm: --qemu '-blockdev driver=file,filename={disk:a:32},node-name=a'
# vm: --qemu '-device scsi-hd,bus=hba.0,drive=a,id=disk,serial=store'
# vm: --qemu '-device virtio-scsi-pci,id=far,num_queues=2,addr=0x11'
# vm: --qemu '-blockdev driver=iscsi,node-name=b,{tgt:b:32},initiator-name=iqn.2026-01.test:b'
# vm: --qemu '-device scsi-block,bus=far.0,drive=b,id=block'
# vm: --qemu '-chardev socket,id=hmp,path={tmp}/hmp,server=on,wait=off -mon chardev=hmp'
# vm: --qemu '-chardev socket,id=hmp1,path={tmp}/hmp'
# vm: --qemu '-device virtserialport,chardev=hmp1,name=monitor'
# not on uml: needs QEMU's devices
# not on sanitize: devices of QEMU
"""The same storage tests on: smq_virtio with QEMU's scsi-hd, and with tgt behind scsi-block; LIO
through smq_lio, tcm_loop, iSCSI and FC; and the disks of tcm_loop and iSCSI, claimed by smq_conv.

If a target lacks a feature, the fields of its Storage say so.
"""
import errno
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest
from kit import conv, iscsi, smqsg
from kit.extfs import files_survive
from kit.fiojob import fio, load_on, total_ios
from kit.host import KernelLog, Lun, find_hosts, load, run, under_way, unload, wait_for
from kit.lio import LOOPBACK, SMQ, Wwn, lio_fabric, loop_fabric, ramdisk
from kit.memory import PAGE, Memory
from kit.monitor import Monitor
from kit.paths import by_batch, by_ioctl, by_ring, compare_paths, read_by_block, write_by_sg
from kit.sgio import (SG_SCSI_RESET_DEVICE, SG_SCSI_RESET_HOST, SG_SCSI_RESET_NO_ESCALATE,
                      SG_SCSI_RESET_TARGET, SgDev)
from kit.slots import BLOCK, SlotFile, read
from kit.softfc import need, soft_fc
from kit.virtio import device_at, module, take

MIB = 32
BLOCKS = MIB << 11
# First block and number of blocks of the data that must still be there when the LUN is added again.
# This data lies behind the blocks that the partition scan reads.
KEPT, KEPT_BLOCKS = 4096, 512
QUERIES = ("sg_inq", "sg_vpd", "sg_vpd --page=sv", "sg_vpd --page=sn", "sg_vpd --page=di",
           "sg_vpd --page=bl", "sg_readcap", "sg_readcap --16", "sg_luns", "sg_turs --number=3",
           "sg_modes --page=8", "sg_requests")
KEYS = "sg_persist --in --read-keys"
OF_LIO = ("sg_rtpg --decode", KEYS)
VERIFIED = {"ioengine": "io_uring", "rw": "randwrite", "bsrange": "512-64k", "iodepth": 32,
            "size": "2m", "offset_increment": "4m", "verify": "crc32c", "verify_fatal": 1}
LAID_OUT = VERIFIED | {"rw": "write", "bsrange": None, "bs": 4096, "size": "4m"}
LOAD = {"ioengine": "libaio", "bs": 4096, "iodepth": 16, "numjobs": 2, "offset": "8m",
        "size": "8m", "time_based": True, "runtime": 600}
RESETS = (SG_SCSI_RESET_DEVICE, SG_SCSI_RESET_TARGET, SG_SCSI_RESET_HOST)

pytestmark = pytest.mark.limit(120)


@dataclass(frozen=True)
class Storage:
    """A LUN of MIB MiB: how to find it, remove it and add it again."""
    lun: Callable[[], Lun]
    pull: Callable[[], None]
    back: Callable[[], object]
    vendor: str = "LIO-ORG"
    serial: str = "store"
    queries: tuple[str, ...] = QUERIES + OF_LIO
    # The reset levels that both the driver and the target support.
    resets: tuple[int, ...] = RESETS
    # A test may have WRITEs in flight at a reset or removal. False if later READs would then get
    # wrong data.
    writes: bool = True
    # The driver of the LUN's host is part of this project.
    ours: bool = False
    # A reset may fail with EIO, if all commands in flight ended before the reset.
    may_do_nothing: bool = False


def disk_of(driver: str) -> Lun:
    """Returns the disk of a driver that has one host with one disk."""
    host = wait_for(f"a host of {driver}", lambda: next(iter(find_hosts(driver)), None))
    return host.wait_luns(1)[0]


@contextmanager
def virtio_disk(slot: str, disk: str, **known) -> Iterator[Storage]:
    """Yields the disk of the virtio-scsi device in a PCI slot. @disk is the disk's QEMU option."""
    def hba():
        return device_at(slot, "vm/storage")

    def pull():
        monitor.run(f"device_del {disk.partition('id=')[2].partition(',')[0]}")

    def back():
        monitor.run(f"device_add {disk}", again="Permission conflict|Duplicate|in use")

    load("virtio_scsi")
    with Monitor() as monitor, module(lambda: [hba()], io_errors=True):
        host = take(hba())
        yield Storage(lambda: host.wait_luns(1)[0], pull, back, **known)
    unload("virtio_scsi")


def virtio():
    """QEMU's scsi-hd."""
    return virtio_disk("00:10.0", "scsi-hd,bus=hba.0,drive=a,id=disk,serial=store",
                       vendor="QEMU", queries=QUERIES, ours=True)


def virtio_tgt():
    """tgt's disk, behind QEMU's scsi-block."""
    return virtio_disk("00:11.0", "scsi-block,bus=far.0,drive=b,id=block",
                       vendor="IET", serial="beaf", queries=(*QUERIES, KEYS), ours=True)


@contextmanager
def smq_lio() -> Iterator[Storage]:
    """LIO's RAM disk, through smq_lio."""
    with ramdisk("store", MIB) as store, lio_fabric(io_errors=True):
        tpg = Wwn(fabric=SMQ).tpg()
        tpg.link(0, store)
        yield Storage(lambda: disk_of("smq_lio"), lambda: tpg.unlink(0),
                      lambda: tpg.link(0, store), ours=True)


@contextmanager
def tcm_loop() -> Iterator[Storage]:
    """LIO's RAM disk, through tcm_loop. The tests leave out tcm_loop's target reset: it flushes
    work items that were never initialized, and Linux 6.1 warns of that."""
    with ramdisk("store", MIB) as store, loop_fabric(io_errors=True):
        tpg = Wwn(fabric=LOOPBACK).tpg()
        tpg.link(0, store)
        yield Storage(lambda: disk_of("tcm_loopback"), lambda: tpg.unlink(0),
                      lambda: tpg.link(0, store), resets=(SG_SCSI_RESET_DEVICE,))


@contextmanager
def iscsi_tcp() -> Iterator[Storage]:
    """LIO's iSCSI target and open-iscsi."""
    with ramdisk("store", MIB) as store, iscsi.target(store), iscsi.initiator():
        iscsi.login()
        # LIO lets an initiator reset a target only if the initiator's ACL allows that. iSCSI has no
        # reset of a host.
        yield Storage(lambda: disk_of("iscsi_tcp"), iscsi.logout, iscsi.login,
                      resets=(SG_SCSI_RESET_DEVICE,))


@contextmanager
def fc() -> Iterator[Storage]:
    """LIO behind Fibre Channel. tcm_fc waits for ever for the data of an aborted WRITE. If
    a reset ends a READ, tcm_fc may still send data for that READ, which may get into the memory of
    the next READ. These are faults of libfc and LIO, not of the code that is tested here
    (docs/fibre-channel.md)."""
    need()
    with soft_fc(MIB) as link:
        def pull():
            link.set_loss_timeouts(dev_loss=2, fast_io_fail=1)
            link.down()

        def back():
            link.up()
            link.set_loss_timeouts()

        link.set_loss_timeouts()
        yield Storage(link.lun, pull, back, serial="smqfc", resets=(SG_SCSI_RESET_DEVICE,),
                      writes=False)


@contextmanager
def claimed(make) -> Iterator[Storage]:
    """Yields the disk of @make, claimed by smq_conv. smq_conv supports all resets."""
    with conv.module(io_errors=True), make() as found:
        def back():
            found.back()
            conv.claim(found.lun())

        conv.claim(found.lun())
        yield replace(found, lun=lambda: disk_of("smq_conv"), back=back, resets=RESETS, ours=True,
                      may_do_nothing=True)


def conv_tcm_loop():
    """LIO's RAM disk through tcm_loop, claimed by smq_conv."""
    return claimed(tcm_loop)


def conv_iscsi_tcp():
    """LIO's iSCSI disk, claimed by smq_conv."""
    return claimed(iscsi_tcp)


@pytest.fixture(scope="module", params=(virtio, virtio_tgt, smq_lio, tcm_loop, iscsi_tcp, fc,
                                        conv_tcm_loop, conv_iscsi_tcp),
                ids=lambda make: make.__name__)
def storage(request):
    """Yields one of the devices. After its tests the kernel log must show no fault."""
    with KernelLog() as log:
        with smqsg.module(), request.param() as found:
            smqsg.clear_attentions(found.lun().sg)
            yield found
        assert not log.faults(), "the kernel log reports a bug:\n" + log.tail(80)


def ready(storage: Storage) -> Lun:
    """Clears the LUN's unit attentions; returns the LUN."""
    lun = storage.lun()
    smqsg.clear_attentions(lun.sg)
    return lun


def test_sg_and_smq_sg_answer_queries_alike(storage):
    """sg's node and smq_sg's node give the same answer to each query. The answers name the target's
    vendor, serial number and size."""
    lun = ready(storage)
    said = {}
    for query in storage.queries:
        answers = [run(*query.split(), node).stdout.replace(node, "NODE")
                   for node in (lun.sg, smqsg.node(lun))]
        assert answers[0] == answers[1], query
        said[query] = answers[0]
    assert f"Vendor identification: {storage.vendor}" in said["sg_inq"]
    assert storage.serial in said["sg_vpd --page=sn"]
    for query in ("sg_readcap", "sg_readcap --16"):
        assert f"Number of logical blocks={BLOCKS}" in said[query], said[query]


@pytest.mark.smoke
def test_prepared_commands_beyond_the_depth_end(storage):
    """Sends eight more prepared commands than the LUN's queue depth allows, but at most 128."""
    lun = ready(storage)
    depth = int((lun.sysfs / "queue_depth").read_text(encoding="ascii"))
    compare_paths(lun, KEPT, 8, min(depth + 8, 128), (by_ring, by_batch, by_ioctl),
                  random.Random(1))


@pytest.mark.smoke
def test_verified_io(storage):
    assert total_ios(fio(ready(storage).sd, numjobs=4, **VERIFIED)) > 60 * 4


def test_files_survive_a_remount(storage, tmp_path):
    if not storage.ours:
        pytest.skip("no driver of this project is below the file system")
    files_survive(ready(storage), tmp_path)


def test_resets_under_load(storage):
    """Resets lose no data: reads return what was written."""
    lun = ready(storage)
    job = VERIFIED | {"bsrange": "4k-4k", "size": "8m", "loops": 2}
    if not storage.writes:
        fio(lun.sd, do_verify=0, **LAID_OUT)
        job = LAID_OUT | {"rw": "randread", "loops": 8, "verify": None, "verify_fatal": None}
    with load_on(lun.sd, to_end=True, **job) as load, SgDev(lun.sg) as sg:
        for level in storage.resets * 2:
            under_way(lun, 30)
            assert load.running
            try:
                sg.reset(level | SG_SCSI_RESET_NO_ESCALATE)
            except OSError as error:
                assert storage.may_do_nothing and error.errno == errno.EIO
    lun = ready(storage)
    if not storage.writes:
        assert total_ios(fio(lun.sd, **LAID_OUT | {"rw": "read"})) == (4 << 20) // 4096
    assert total_ios(fio(lun.sd, **VERIFIED)) > 60


def test_hot_remove_under_load(storage):
    """When the LUN is removed, I/O ends with errors, and slots end with ENODEV. When the LUN comes
    back, its data is there."""
    lun, known = ready(storage), os.urandom(KEPT_BLOCKS * BLOCK)
    with SgDev(lun.sg) as sg:
        write_by_sg(sg, KEPT, known)
    memory = Memory(PAGE)
    with SlotFile(smqsg.node(lun), 1) as file:
        assert file.lend(0, memory) == 0
        file.prepare([read(KEPT)])
        assert file.run([0]) == (0, 0)
        with load_on(lun.sd, ok=False, rw="randrw" if storage.writes else "randread",
                     **LOAD) as load:
            under_way(lun, 100)
            storage.pull()
            assert any(job["error"] for job in load.result()["jobs"])
        wait_for("the LUN to disappear", lambda: not lun.sysfs.exists())
        wait_for("ENODEV", lambda: file.run([0]) == (0, 1) and
                 file.status(0).result == -errno.ENODEV)
    storage.back()
    lun = ready(storage)
    assert read_by_block(lun, KEPT, KEPT_BLOCKS) == known
    assert total_ios(fio(lun.sd, **VERIFIED)) > 60
