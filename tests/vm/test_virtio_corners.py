# SPDX-License-Identifier: GPL-2.0
# vm: --qemu '-device virtio-scsi-pci,id=lim,max_sectors=64,cmd_per_lun=3,num_queues=2,addr=0x10'
# vm: --qemu '-drive file={disk:lim:16},if=none,id=limd,format=raw'
# vm: --qemu '-device scsi-hd,bus=lim.0,drive=limd,logical_block_size=4096,physical_block_size=4096'
# vm: --qemu '-device virtio-scsi-pci,id=packed,packed=on,num_queues=2,addr=0x11'
# vm: --qemu '-drive file={disk:pa:16},if=none,id=pa,format=raw,discard=unmap'
# vm: --qemu '-drive file={disk:pb:16},if=none,id=pb,format=raw'
# vm: --qemu '-device scsi-hd,bus=packed.0,drive=pa,scsi-id=255,lun=300,max_io_size=131072'
# vm: --qemu '-device scsi-hd,bus=packed.0,drive=pb,scsi-id=255,lun=16383,max_unmap_size=65536'
# vm: --qemu '-device virtio-scsi-pci,id=small,virtqueue_size=16,num_queues=1,addr=0x12'
# vm: --qemu '-drive file={disk:small:16},if=none,id=smalld,format=raw'
# vm: --qemu '-device scsi-hd,bus=small.0,drive=smalld'
# vm: --qemu '-device virtio-scsi-pci,id=old,disable-modern=y,indirect_desc=n,event_idx=n,addr=0x13'
# vm: --qemu '-drive file={disk:old:16},if=none,id=oldd,format=raw'
# vm: --qemu '-device scsi-hd,bus=old.0,drive=oldd,write-cache=off'
# vm: --qemu '-drive file={disk:cd:8},if=none,id=cd,format=raw,media=cdrom,readonly=on'
# vm: --qemu '-device scsi-cd,bus=old.0,drive=cd,scsi-id=3'
# vm: --qemu '-device virtio-scsi-pci,id=intx,vectors=0,virtqueue_size=1024,num_queues=2,addr=0x14'
# vm: --qemu '-drive file={disk:intx:16},if=none,id=intxd,format=raw'
# vm: --qemu '-device scsi-hd,bus=intx.0,drive=intxd,lun=5'
# vm: --qemu '-device virtio-scsi-pci,id=slow,num_queues=1,addr=0x15'
# vm: --qemu '-drive file={disk:slow:16},if=none,id=slowd,format=raw,throttling.iops-total=4'
# vm: --qemu '-device scsi-hd,bus=slow.0,drive=slowd'
# not on uml: needs QEMU's devices
# not on sanitize: devices of QEMU
"""smq_virtio on QEMU devices with unusual options, beside virtio_scsi: limits, LUN numbers, packed
and legacy rings, no MSI-X, a CD-ROM, and a disk that is slower than the timeout."""
import os

import pytest
from kit import cdb, sgio
from kit import virtio as virtio_kit
from kit.fiojob import fio
from kit.host import load, run, settle, unload
from kit.sgio import SgDev
from kit.virtio import device_at, host_of, move_device, take, write

# By name: the PCI slot, the LUNs' channel, target and number as the mid-layer shows them, and the
# depth that smq_virtio gives each LUN.
DEVICES = {
    "limits": ("0000:00:10.0", ["0:0:0"], 3),
    "packed": ("0000:00:11.0", ["0:255:16684", "0:255:32767"], 85),
    "small": ("0000:00:12.0", ["0:0:0"], 5),
    "old": ("0000:00:13.0", ["0:0:0", "0:3:0"], 85),
    "intx": ("0000:00:14.0", ["0:0:5"], 128),
    "slow": ("0000:00:15.0", ["0:0:0"], 85),
}
LIMITS = ("max_hw_sectors_kb", "logical_block_size", "physical_block_size", "minimum_io_size",
          "optimal_io_size", "discard_max_bytes", "rotational", "write_cache")
VERIFIED = {"ioengine": "io_uring", "rw": "randwrite", "bsrange": "4k-256k", "iodepth": 16,
            "size": "2m", "offset": "4m", "verify": "crc32c", "verify_fatal": 1}


def device(name):
    """Returns a virtio-scsi device of this VM."""
    return device_at(DEVICES[name][0], "vm/virtio_corners")


def taken(name, **more):
    """Loads smq_virtio during the block; at the end virtio_scsi has the device again."""
    return virtio_kit.module(lambda: [device(name)], luns=len(DEVICES[name][1]), **more)


@pytest.fixture(scope="module", autouse=True)
def in_tree_driver():
    """Binds the devices to virtio_scsi. Each test leaves them so."""
    run("modprobe", "sr_mod")
    load("virtio_scsi")
    for name, (_, luns, _) in DEVICES.items():
        host_of(device(name), len(luns))
    yield
    unload("virtio_scsi")


def shape(host):
    """The addresses of a host's LUNs, and the limits of their queues."""
    return [(lun.address.partition(":")[2],
             [(lun.queue / name).read_text(encoding="ascii") for name in LIMITS])
            for lun in host.luns()]


def content(lun):
    """Returns the first 32 KiB of a disk, read from the disk and not from the page cache."""
    with SgDev(lun.sg) as dev:
        size = int((lun.queue / "logical_block_size").read_text(encoding="ascii"))
        got = dev.cmd(cdb.blocks(cdb.READ_10, 0, 32768 // size), din=32768)
        assert got.good, got
        return got.data


def fill(lun):
    """Writes new data to a disk's first 32 KiB; returns the data."""
    data = os.urandom(32768)
    with SgDev(lun.sg) as dev:
        size = int((lun.queue / "logical_block_size").read_text(encoding="ascii"))
        got = dev.cmd(cdb.blocks(cdb.WRITE_10, 0, 32768 // size), dout=data)
        assert got.good, got
    return data


@pytest.mark.parametrize("name", [name for name in DEVICES if name != "slow"])
def test_device_has_the_limits_and_the_data_that_virtio_scsi_shows(name):
    _, addresses, depth = DEVICES[name]
    path = device(name)
    host = host_of(path, len(addresses))
    want = shape(host)
    assert [address for address, _ in want] == addresses
    theirs = [fill(lun) for lun in host.luns() if lun.sd.startswith("/dev/sd")]
    with taken(name):
        host = take(path, len(addresses))
        assert shape(host) == want
        disks = [lun for lun in host.luns() if lun.sd.startswith("/dev/sd")]
        assert [content(lun) for lun in disks] == theirs
        assert {int((lun.sysfs / "queue_depth").read_text()) for lun in disks} == {depth}
        for lun in disks:
            fio(lun.sd, **VERIFIED)
        ours = [fill(lun) for lun in disks]
        settle(host)
        move_device("release", path)
        host = host_of(path, len(addresses))
        assert [content(lun) for lun in host.luns() if lun.sd.startswith("/dev/sd")] == ours


def test_cd_is_read_ejected_and_loaded():
    read = cdb.blocks(cdb.READ_10, 0, 512)
    with taken("old", io_errors=True):
        cd = take(device("old"), 2).luns()[1]
        assert cd.sd.startswith("/dev/sr")
        with SgDev(cd.sg) as dev:
            for size in ("2k", "64k", "1M", "4M"):
                run("dd", f"if={cd.sd}", "of=/dev/null", f"bs={size}", "count=2", "iflag=direct")
            got = dev.cmd(read, din=1 << 20)
            assert got.good and got.data == bytes(1 << 20), got
            run("sg_start", "--eject", cd.sg)
            assert dev.cmd(read, din=1 << 20).triple[:2] == (sgio.NOT_READY, 0x3a)
            run("sg_start", "--load", cd.sg)
            for _ in range(3):          # unit attentions
                if dev.cmd(cdb.plain(cdb.TEST_UNIT_READY)).good:
                    break
            assert dev.cmd(read, din=1 << 20).good


@pytest.mark.limit(180)
def test_disk_that_is_slower_than_the_timeout_loses_no_command():
    with taken("slow"):
        host = take(device("slow"))
        disk = host.luns()[0]
        write(disk.queue / "nomerges", 2)
        write(disk.sysfs / "timeout", 1)
        # The mid-layer repeats a command until the disk answers in time.
        write(disk.sysfs / f"scsi_disk/{disk.address}/max_retries", -1)
        fio(disk.sd, ioengine="libaio", rw="randwrite", bs=4096, iodepth=16, size="64k",
            verify="crc32c", verify_fatal=1, limit=150)
        stats = settle(host, 60)
        assert stats["timeouts"] and stats["aborts"]
        write(disk.sysfs / "timeout", 30)
