# SPDX-License-Identifier: GPL-2.0
# vm: --qemu '-device pvscsi,id=hba -drive file={disk:a:64},if=none,id=a,format=raw'
# vm: --qemu '-device scsi-hd,bus=hba.0,scsi-id=0,drive=a,id=disk'
# vm: --qemu '-blockdev driver=null-co,node-name=slow,size=1048576,latency-ns=2500000000'
# vm: --qemu '-blockdev driver=null-co,node-name=spare,size=67108864,read-zeroes=on'
# vm: --qemu '-chardev socket,id=hmp,path={tmp}/hmp,server=on,wait=off -mon chardev=hmp'
# vm: --qemu '-chardev socket,id=hmp1,path={tmp}/hmp'
# vm: --qemu '-device virtserialport,chardev=hmp1,name=monitor'
# not on uml: needs QEMU's devices
# not on sanitize: devices of QEMU
"""Every stage of the conversion of smq_pvscsi, on QEMU's device.

The drivers of the stages differ only in how a command gets to the ring, so the same tests run for
all stages.
"""
from concurrent.futures import ThreadPoolExecutor

import pytest
from kit import debugfs
from kit.deleted import reset_a_deleted_lun
from kit.fiojob import fio, load_on, total_ios
from kit.monitor import plugged
from kit.quiesce import quiescer, set_state
from kit.host import (ModuleError, find_hosts, load, run, settle, under_way, unload,
                      wait_for)
from kit.pvscsi import (COMMIT, DRIVER, HWQ, LCK, NAMES, OLD, PARAMS, QUEUES, STAGES, bind, bound,
                        function, unbind, write)
from kit.sgio import DID_NO_CONNECT, DID_TIME_OUT, SG_SCSI_RESET_DEVICE, SG_SCSI_RESET_HOST, SgDev

SG_SCSI_RESET_BUS = 2
ADD = "device_add scsi-hd,bus=hba.0,scsi-id=5,id=more,drive=spare"
VERIFIED = {"ioengine": "io_uring", "rw": "randwrite", "bsrange": "512-64k", "iodepth": 32,
            "size": "4m", "offset_increment": "8m", "verify": "crc32c", "verify_fatal": 1}
LOAD = {"ioengine": "libaio", "rw": "randrw", "bs": 4096, "iodepth": 32, "numjobs": 2,
        "time_based": True, "runtime": 600}
READ_10 = bytes.fromhex("28000000000000000800")


def all_done(host, stage):
    """If the stage uses the layer, checks that the layer has counted every command once."""
    if stage != OLD:
        settle(host)
        wait_for("queued and done to agree", lambda: (
            lambda stats: stats["queued"] == stats["done"])(host.stats()))


stages = pytest.mark.parametrize("stage", STAGES, ids=NAMES)
# Error handling and removal are the same from PREALLOC on.
recovering = pytest.mark.parametrize("stage", [OLD, LCK, HWQ, QUEUES],
                                     ids=[NAMES[stage] for stage in (OLD, LCK, HWQ, QUEUES)])
# HWQ needs no test of removal: its slots are those of LCK, and the layer handles errors for both.
removed = pytest.mark.parametrize("stage", [OLD, LCK, QUEUES],
                                  ids=[NAMES[stage] for stage in (OLD, LCK, QUEUES)])


@pytest.mark.smoke
@stages
def test_verified_io_and_passthrough(stage):
    with bound(stage) as host:
        disk = host.luns()[0]
        assert total_ios(fio(disk.sd, numjobs=2, **VERIFIED)) > 400
        # 128 entries in a scatterlist, each a single page.
        fio(disk.sd, rw="read", bs="512k", size="8m", ioengine="psync")
        with SgDev(disk.sg) as sg:
            assert sg.cmd(bytes.fromhex("120000006000"), din=96).data[8:12] == b"QEMU"
            # QEMU's device does not count the bytes of a short transfer: it reports no error, and
            # the residual is the whole buffer.
            short = sg.cmd(bytes.fromhex("120000002400"), din=200)
            assert (short.status, short.host, short.resid) == (0, 0, 200)
            past = sg.cmd(bytes.fromhex("2800ffffff0000000800"), din=4096)
            assert past.triple == (5, 0x21, 0) and past.status == 2
            field = sg.cmd(bytes.fromhex("1201ee002400"), din=36)
            assert field.triple == (5, 0x24, 0)
        for tool in ("sg_inq", "sg_vpd", "sg_readcap", "sg_luns", "sg_turs"):
            run(tool, disk.sg)
        assert len(list((disk.queue.parent / "mq").iterdir())) == (2 if stage == QUEUES else 1)
        all_done(host, stage)


@pytest.mark.parametrize("stage", [LCK, COMMIT], ids=[NAMES[LCK], NAMES[COMMIT]])
def test_bucket_policy_on_a_host_with_one_queue(stage):
    """An LLD without commit has no doorbell that another CPU could ring."""
    with bound(stage) as host:
        disk = host.luns()[0]
        write(host.sysfs / "smq_bucket/share", 0)
        write(host.sysfs / "smq/policy", "bucket")
        with load_on(disk.sd, to_end=True, numjobs=2, **VERIFIED), SgDev(disk.sg) as sg:
            under_way(disk, 50)
            for level in (SG_SCSI_RESET_DEVICE, SG_SCSI_RESET_HOST):
                sg.reset(level)
        all_done(host, stage)
        print(debugfs.policy(host))
        rung = debugfs.policy(host)["rung"]
        assert rung > 20 if stage == COMMIT else rung == 0


@recovering
def test_resets_under_verified_load(stage):
    with bound(stage) as host:
        disk = host.luns()[0]
        levels = [SG_SCSI_RESET_DEVICE, SG_SCSI_RESET_HOST]
        if stage == OLD:
            levels.append(SG_SCSI_RESET_BUS)
        with load_on(disk.sd, to_end=True, **VERIFIED | {"size": "8m", "loops": 2}), \
                SgDev(disk.sg) as sg:
            under_way(disk, 100)
            for repeat in range(20):
                sg.reset(levels[repeat % len(levels)])
        fio(disk.sd, **VERIFIED)
        all_done(host, stage)
        if stage != OLD:
            assert host.stats()["host_resets"] == host.stats()["lun_resets"] == 10


@pytest.mark.parametrize("stage", [LCK, QUEUES], ids=["legacy_entry", "queues"])
def test_reset_of_a_deleted_lun(stage):
    with bound(stage) as host:
        reset_a_deleted_lun(host)
        all_done(host, stage)


@pytest.mark.smoke
@removed
def test_device_unbound_under_load_and_bound_again(stage):
    with bound(stage, io_errors=True) as host:
        with load_on(host.luns()[0].sd, ok=False, **LOAD) as job:
            under_way(host.luns()[0], 100)
            refused = run("rmmod", "smq_pvscsi", ok=False)
            assert refused.returncode and "in use" in refused.stderr
            unbind()
            assert not host.sysfs.exists()
            assert any(entry["error"] for entry in job.result()["jobs"])
        fio(bind(stage).luns()[0].sd, **VERIFIED)


@removed
def test_command_that_the_device_ends_late_is_aborted(monitor, stage):
    """A command takes 2.5 s, even if the driver aborts it earlier."""
    with bound(stage, io_errors=True) as host:
        disk = host.luns()[0]
        with plugged(monitor, host, "hba", "slow") as slow, SgDev(slow.sg) as sg, \
                load_on(disk.sd, to_end=True, **VERIFIED), ThreadPoolExecutor(4) as pool:
            results = list(pool.map(lambda _: sg.cmd(READ_10, din=4096, timeout_ms=300),
                                    range(4)))
            assert {result.host for result in results} == {DID_TIME_OUT}
            again = sg.cmd(READ_10, din=4096, timeout_ms=20000)
            assert again.good
        all_done(host, stage)
        if stage != OLD:
            assert host.stats()["aborts"] >= 4 and host.stats()["host_resets"] == 0


@pytest.mark.parametrize("stage", [OLD, QUEUES], ids=[NAMES[OLD], NAMES[QUEUES]])
def test_disk_unplugged_under_load(monitor, stage):
    with bound(stage, io_errors=True) as host:
        stays = host.luns()[0]
        for _ in range(2):
            with load_on(stays.sd, to_end=True, **VERIFIED):
                with plugged(monitor, host, "hba", "spare") as lun:
                    at = lun.address
                    sd = wait_for("the disk's sd node", lambda at=at: next(
                        (one.sd for one in host.luns() if one.address == at and one.sd), ""))
                    job = load_on(sd, ok=False, **LOAD)
                    with job as pulled:
                        under_way(lun, 100)
                        monitor.run("device_del more")
                        assert any(entry["error"] for entry in pulled.result()["jobs"])
                    wait_for("the disk to be removed", lambda: len(host.luns()) == 1)
                    monitor.run(ADD, again="Permission conflict|Duplicate")
                    wait_for("the disk to come back", lambda: len(host.luns()) == 2)
        all_done(host, stage)


@removed
def test_a_device_that_was_shut_down_stays_stopped(stage):
    """Error handling after the shutdown does not start the device again: a started device would
    write to the memory of the next kernel. Commands fail at once."""
    with bound(stage, io_errors=True) as host:
        disk = host.luns()[0]
        with quiescer(), SgDev(disk.sg) as sg:
            assert sg.cmd(READ_10, din=4096).good
            set_state("shutdown", disk.address)
            sg.reset(SG_SCSI_RESET_DEVICE)
            assert sg.cmd(READ_10, din=4096).host == DID_NO_CONNECT
            sg.reset(SG_SCSI_RESET_HOST)
            assert sg.cmd(READ_10, din=4096).host == DID_NO_CONNECT


@pytest.mark.smoke
def test_smq_pvscsi_takes_only_the_devices_it_was_given():
    write(function() / "driver_override", "\n")
    load("smq_pvscsi")
    write("/sys/bus/pci/drivers_probe", function().name)
    assert not find_hosts("smq_pvscsi") and not (function() / "driver").exists()
    unload("smq_pvscsi")


def test_take_all_takes_devices_without_a_driver():
    write(function() / "driver_override", "\n")
    load("smq_pvscsi", take_all=1)
    assert (function() / "driver").resolve() == DRIVER.resolve()
    wait_for("the host", lambda: find_hosts("smq_pvscsi"))[0].wait_luns(1)
    unload("smq_pvscsi")
    assert not find_hosts("smq_pvscsi")


def test_a_stage_that_does_not_exist_is_refused(klog):
    with pytest.raises(ModuleError):
        load("smq_pvscsi", stage=6)
    assert any("stage=6 is outside 0..5" in line for line in klog.lines())
    load("smq_pvscsi")
    write(PARAMS / "stage", 77)
    write(function() / "driver_override", "smq_pvscsi")
    write("/sys/bus/pci/drivers_probe", function().name)
    assert any("stage=77 is outside 0..5" in line for line in klog.lines())
    assert not find_hosts("smq_pvscsi")
    unbind()
    unload("smq_pvscsi")
