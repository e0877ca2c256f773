# SPDX-License-Identifier: GPL-2.0
# vm: --qemu '-device pcie-root-port,id=socket,chassis=1,slot=1,addr=0x10'
# vm: --qemu '-device virtio-scsi-pci,bus=socket,id=hba4,num_queues=4'
# vm: --qemu '-device virtio-scsi-pci,id=hba2,num_queues=2,addr=0x11'
# vm: --qemu '-device virtio-scsi-pci,id=hba1,num_queues=1,cmd_per_lun=16,addr=0x12'
# vm: --qemu '-drive file={disk:a:64},if=none,id=a,format=raw'
# vm: --qemu '-drive file={disk:b:64},if=none,id=b,format=raw'
# vm: --qemu '-drive file={disk:c:64},if=none,id=c,format=raw'
# vm: --qemu '-device scsi-hd,bus=hba4.0,drive=a -device scsi-hd,bus=hba2.0,drive=b'
# vm: --qemu '-device scsi-hd,bus=hba1.0,drive=c'
# vm: --qemu '-blockdev driver=null-co,node-name=slow,size=1048576,latency-ns=2500000000'
# vm: --qemu '-blockdev driver=null-co,node-name=spare,size=67108864,read-zeroes=on'
# vm: --qemu '-chardev socket,id=hmp,path={tmp}/hmp,server=on,wait=off -mon chardev=hmp'
# vm: --qemu '-chardev socket,id=hmp1,path={tmp}/hmp'
# vm: --qemu '-device virtserialport,chardev=hmp1,name=monitor'
# on: core 7.2
# not on uml: needs QEMU's devices
# not on sanitize: devices of QEMU
"""smq_virtio on three of QEMU's virtio-scsi devices, with 4, 2 and 1 queues for commands."""
import errno
import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit import virtio as virtio_kit
from kit.deleted import reset_a_deleted_lun
from kit.fiojob import fio, load_on, total_ios
from kit.host import (KernelLog, find_hosts, is_loaded, load, run, settle, under_way, unload,
                      wait_for)
from kit.monitor import plugged
from kit.scattered import scattered
from kit.sgio import (DID_TIME_OUT, SG_SCSI_RESET_DEVICE, SG_SCSI_RESET_HOST,
                      SG_SCSI_RESET_TARGET, SgDev)
from kit.virtio import (CONSOLE, DRIVER, SCSI, bound_to, device_at, host_of, move_device, virtio,
                        write)

SLOTS = {4: "0000:00:10.0", 2: "0000:00:11.0", 1: "0000:00:12.0"}
RING = 256
CPUS = os.cpu_count()
VERIFIED = {"ioengine": "io_uring", "rw": "randwrite", "bsrange": "2k-64k", "iodepth": 32,
            "size": "2m", "offset_increment": "8m", "verify": "crc32c", "verify_fatal": 1}
LOAD = {"ioengine": "libaio", "rw": "randrw", "bs": 4096, "iodepth": 32, "numjobs": 2,
        "time_based": True, "runtime": 600}
READ_10 = bytes.fromhex("28000000000000000800")


def device(queues):
    """Returns the virtio-scsi device with that many queues for commands."""
    return device_at(SLOTS[queues], "vm/virtio")


def take(queues):
    """Makes smq_virtio take a device; returns its host."""
    return virtio_kit.take(device(queues))


@pytest.fixture(scope="module", autouse=True)
def in_tree_driver():
    """Binds the devices to virtio_scsi. Each test leaves them so."""
    load("virtio_scsi")
    for queues in SLOTS:
        host_of(device(queues))
    yield
    unload("virtio_scsi")


def module(io_errors=False, **params):
    """Loads smq_virtio during the block; at the end virtio_scsi has all devices again."""
    return virtio_kit.module(lambda: list(map(device, SLOTS)), io_errors=io_errors, **params)


@contextmanager
def taken(queues=4, io_errors=False, **params):
    """Loads smq_virtio and makes it take a device. Yields the device's host."""
    with module(io_errors, **params):
        host = take(queues)
        (host.luns()[0].queue / "nomerges").write_text("2", encoding="ascii")
        yield host


def all_done(host):
    """Checks that every command was counted once as queued and once as done."""
    settle(host)
    wait_for("queued and done to agree", lambda: (
        lambda stats: stats["queued"] == stats["done"])(host.stats()))


def digest(disk, mib):
    """Returns the digest of a disk's first @mib MiB, read from the disk and not from the page
    cache."""
    fd = os.open(disk.sd, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        return hashlib.sha256(os.read(fd, mib << 20)).hexdigest()
    finally:
        os.close(fd)


def fill(disk, pattern, mib):
    """Writes a pattern to the disk's first @mib MiB, and flushes it. Returns the digest of the
    data."""
    data = pattern * ((mib << 20) // len(pattern))
    fd = os.open(disk.sd, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(fd, data, 0)
        os.fsync(fd)
    finally:
        os.close(fd)
    return hashlib.sha256(data).hexdigest()


def usable(disk):
    """Checks that the disk can be used: writes new data to it, and reads the data back."""
    ours = fill(disk, os.urandom(4096), 2)
    assert digest(disk, 2) == ours


@pytest.mark.smoke
def test_smq_virtio_takes_a_device_and_returns_it_with_its_data():
    path = device(4)
    theirs = fill(host_of(path).luns()[0], b"\x5a", 4)
    with module():
        disk = take(4).luns()[0]
        assert digest(disk, 4) == theirs
        ours = fill(disk, b"\xa5", 2)
        assert digest(disk, 2) == ours
        move_device("release", path)
        assert bound_to(path) == "virtio_scsi"
        disk = host_of(path).luns()[0]
        assert digest(disk, 2) == ours
    assert digest(host_of(path).luns()[0], 2) == ours


@pytest.mark.smoke
def test_refused_takes_log_a_reason(klog):
    def refused(attr, name, number, reason):
        with pytest.raises(OSError) as error:
            write(DRIVER / attr, name)
        assert error.value.errno == number
        assert any(reason in line for line in klog.lines()), klog.tail(5)

    with module():
        path, other = device(4), virtio(CONSOLE)[0]
        host = host_of(path)
        assert not find_hosts("smq_virtio")
        refused("take", "virtio999", errno.ENODEV, "take: 'virtio999' is no virtio device")
        refused("take", other.name, errno.EINVAL,
                f"take: {other.name} is a virtio device of type 3, SCSI is 8")
        refused("release", path.name, errno.ENODEV, f"release: {path.name} is not taken")
        with pytest.raises(OSError):
            write(DRIVER / "bind", path.name)
        disk = host.luns()[0].sd
        with open(disk, "rb"):
            refused("take", path.name, errno.EBUSY,
                    f"take: {os.path.basename(disk)} is open or mounted")
        assert bound_to(path) == "virtio_scsi"
        disk = take(4).luns()[0].sd
        refused("take", path.name, errno.EBUSY, f"take: {path.name} is taken already")
        with open(disk, "rb"):
            refused("release", path.name, errno.EBUSY,
                    f"release: {os.path.basename(disk)} is open or mounted")
        assert bound_to(path) == "smq_virtio"


@pytest.mark.smoke
@pytest.mark.parametrize("queues", SLOTS)
def test_verified_io_and_passthrough(queues):
    with taken(queues) as host:
        disk = host.luns()[0]
        used = min(queues, CPUS)
        assert host.stats()["hw_queues"] == used
        assert int(host.attr("can_queue")) == RING // 3
        assert len(list((disk.queue.parent / "mq").iterdir())) == used
        for jobs in (1, 4):
            assert total_ios(fio(disk.sd, numjobs=jobs, **VERIFIED)) > 60 * jobs
        with SgDev(disk.sg) as sg:
            assert sg.cmd(bytes.fromhex("120000006000"), din=96).data[8:12] == b"QEMU"
            past = sg.cmd(bytes.fromhex("2800ffffff0000000800"), din=4096)
            assert past.triple == (5, 0x21, 0) and past.status == 2
            field = sg.cmd(bytes.fromhex("1201ee002400"), din=36)
            assert field.triple == (5, 0x24, 0)
            short = sg.cmd(bytes.fromhex("120000002400"), din=200)
            assert short.status == 0 and len(short.data) == 36
        for tool in ("sg_inq", "sg_vpd", "sg_readcap", "sg_luns", "sg_turs"):
            run(tool, disk.sg)
        all_done(host)


@pytest.mark.smoke
def test_each_queue_has_its_cpus_and_its_interrupt():
    with taken(4) as host:
        disk = host.luns()[0]
        before = [row["done"] for row in host.hwqs()]
        lists = [(path / "cpu_list").read_text(encoding="ascii").split()
                 for path in sorted((disk.queue.parent / "mq").iterdir())]
        assert [len(cpus) for cpus in lists] == [1] * min(4, CPUS)
        for cpu in range(CPUS):
            run("taskset", "-c", str(cpu), "dd", f"if={disk.sd}", "of=/dev/null", "bs=4096",
                "count=64", "iflag=direct")
        after = [row["done"] for row in host.hwqs()]
        assert all(b - a >= 64 for a, b in zip(before, after, strict=True))
        names = Path("/proc/interrupts").read_text(encoding="ascii")
        assert names.count(f"{device(4).name}-request") == min(4, CPUS)


def test_commands_that_fill_the_ring_complete():
    with taken(1) as host:
        disk = host.luns()[0]
        assert int(host.attr("sg_tablesize")) == RING - 2
        # A command of the largest size fills the ring. Other commands wait until it has ended, and
        # no command is lost.
        filled = fill(disk, b"\x3c", 4)
        for _ in range(4):
            data = scattered(disk.sd, RING - 2, [part % 4 for part in range(8)])
            assert data == bytes([0x3c]) * len(data)
        # Commands for which the ring had no room were held. Returning them as busy would stop the
        # other disks.
        assert host.hwqs()[0]["busy_hwq"] > 0 == host.stats()["busy"]
        assert digest(disk, 4) == filled
        with SgDev(disk.sg) as sg:
            blocks = (RING - 2) * 8
            read = sg.cmd(b"\x28" + bytes(6) + blocks.to_bytes(2, "big") + b"\0",
                          din=blocks * 512)
            assert read.good and len(read.data) == blocks * 512
        write(disk.sysfs / "queue_depth", RING // 3)
        fio(disk.sd, **VERIFIED | {"iodepth": 128, "bsrange": "4k-4k"})
        all_done(host)


def test_disks_are_added_and_removed_under_load(monitor):
    with taken(io_errors=True) as host:
        stays = host.luns()[0]
        with load_on(stays.sd, to_end=True, **VERIFIED | {"size": "8m", "loops": 2}):
            for lun in (0, 3):
                with plugged(monitor, host, "hba4", "spare", lun):
                    assert len(host.luns()) == 2
        with plugged(monitor, host, "hba4", "spare") as lun:
            at = lun.address
            sd = wait_for("the disk's sd node", lambda: next(
                (one.sd for one in host.luns() if one.address == at and one.sd), ""))
            with load_on(sd, ok=False, **LOAD) as pulled:
                under_way(lun, 100)
                monitor.run("device_del more")
                assert any(entry["error"] for entry in pulled.result()["jobs"])
            wait_for("the disk to disappear", lambda: len(host.luns()) == 1)
            monitor.run("device_add scsi-hd,bus=hba4.0,scsi-id=5,id=more,drive=spare",
                        again="Permission conflict|Duplicate")
            wait_for("the disk to reappear", lambda: len(host.luns()) == 2)
        usable(stays)
        all_done(host)


@pytest.mark.smoke
def test_grown_disk_is_usable(monitor):
    with taken(2) as host:
        disk = host.luns()[0]
        blocks = Path("/sys/block", os.path.basename(disk.sd), "size")
        size = int(blocks.read_text(encoding="ascii"))
        monitor.run(f"block_resize b {size // 2048 + 1}M")
        wait_for("the new size", lambda: int(blocks.read_text(encoding="ascii")) == size + 2048)
        fio(disk.sd, **VERIFIED | {"offset": size * 512, "size": "1m", "bsrange": "4k-64k"})


@pytest.mark.smoke
def test_resets_under_verified_load():
    levels = [SG_SCSI_RESET_DEVICE, SG_SCSI_RESET_TARGET, SG_SCSI_RESET_HOST]
    with taken() as host:
        disk = host.luns()[0]
        with load_on(disk.sd, to_end=True, **VERIFIED | {"size": "8m", "loops": 2}), \
                SgDev(disk.sg) as sg:
            under_way(disk, 100)
            for repeat in range(12):
                sg.reset(levels[repeat % len(levels)])
        usable(disk)
        all_done(host)
        stats = host.stats()
        assert stats["host_resets"] == stats["lun_resets"] == stats["target_resets"] == 4


@pytest.mark.smoke
def test_reset_of_a_deleted_lun():
    with taken(1) as host:
        reset_a_deleted_lun(host)
        all_done(host)


def test_commands_that_the_device_delays_are_aborted(monitor):
    """The device completes each command 2.5 s after its start, even if the driver aborts it
    earlier."""
    with taken(io_errors=True) as host:
        disk = host.luns()[0]
        with plugged(monitor, host, "hba4", "slow") as slow, SgDev(slow.sg) as sg, \
                load_on(disk.sd, to_end=True, **VERIFIED), ThreadPoolExecutor(4) as pool:
            results = list(pool.map(lambda _: sg.cmd(READ_10, din=4096, timeout_ms=300),
                                    range(4)))
            assert {result.host for result in results} == {DID_TIME_OUT}
            again = sg.cmd(READ_10, din=4096, timeout_ms=20000)
            assert again.good
        all_done(host)
        assert host.stats()["aborts"] >= 4 and host.stats()["host_resets"] == 0


@pytest.mark.smoke
def test_poll_queues_complete_verified_io():
    with taken(4, poll_queues=2) as host:
        disk = host.luns()[0]
        assert (host.stats()["hw_queues"], host.stats()["poll_queues"]) == (2, 2)
        fio(disk.sd, **VERIFIED, numjobs=4, hipri=True)
        assert host.stats()["polled"] > 200
        # Commands that the error handler sends complete although no task polls for them.
        with SgDev(disk.sg) as sg:
            sg.reset(SG_SCSI_RESET_HOST)
        fio(disk.sd, **VERIFIED, hipri=True)
        all_done(host)


def test_too_many_poll_queues_are_cut(klog):
    with taken(1, poll_queues=3) as host:
        assert host.stats()["poll_queues"] == 0
        assert any("poll_queues=3 cut to 0" in line for line in klog.lines())


@pytest.mark.smoke
def test_device_is_unbound_under_load_and_taken_again():
    with taken(io_errors=True) as host:
        path = device(4)
        with load_on(host.luns()[0].sd, ok=False, **LOAD) as job:
            under_way(host.luns()[0], 100)
            refused = run("rmmod", "smq_virtio", ok=False)
            assert refused.returncode and "in use" in refused.stderr
            write(DRIVER / "unbind", path.name)
            assert not host.sysfs.exists()
            assert any(entry["error"] for entry in job.result()["jobs"])
        usable(take(4).luns()[0])


def test_pci_function_is_removed_under_load_and_found_again():
    with taken(io_errors=True) as host:
        function = device(4).resolve().parent
        with load_on(host.luns()[0].sd, ok=False, **LOAD) as job:
            under_way(host.luns()[0], 100)
            write(function / "remove", 1)
            assert any(entry["error"] for entry in job.result()["jobs"])
        write("/sys/bus/pci/rescan", 1)
        wait_for("the device", lambda: any(SLOTS[4] in str(path.resolve())
                                           for path in virtio(SCSI)))
        host_of(device(4))
        usable(take(4).luns()[0])


def test_device_recovers_from_a_reset_by_the_transport():
    """A reset of the virtio device removes its queues. The commands in flight time out, and the
    mid-layer repeats them."""
    with taken(io_errors=True) as host:
        disk = host.luns()[0]
        write(disk.sysfs / "timeout", 2)
        with load_on(disk.sd, to_end=True, **VERIFIED | {"size": "8m", "loops": 2}):
            under_way(disk, 100)
            write(device(4).resolve().parent / "reset", 1)
        assert host.stats()["host_resets"] >= 1
        usable(disk)
        all_done(host)


def test_take_all_takes_devices_without_a_driver():
    unload("virtio_scsi")
    try:
        with KernelLog() as log:
            load("smq_virtio", take_all=1)
            hosts = wait_for("three hosts", lambda: (
                lambda found: found if len(found) == 3 else None)(find_hosts("smq_virtio")))
            for host in hosts:
                usable(host.wait_luns(1)[0])
            move_device("release", device(2))
            assert not bound_to(device(2))
            assert any("has no driver until virtio_scsi is loaded" in line
                       for line in log.lines())
            load("virtio_scsi")
            assert [bound_to(device(queues)) for queues in (4, 2, 1)] == [
                "smq_virtio", "virtio_scsi", "smq_virtio"]
            host_of(device(2))
            move_device("release", device(4))
            assert bound_to(device(4)) == "virtio_scsi"
            move_device("release", device(1))
            unload("smq_virtio")
            assert not log.faults()
    finally:
        if not is_loaded("virtio_scsi"):
            load("virtio_scsi")
    for queues in SLOTS:
        assert bound_to(device(queues)) == "virtio_scsi"
