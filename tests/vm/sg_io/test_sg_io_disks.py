# SPDX-License-Identifier: GPL-2.0
"""sg_io with special disks: several disks, polled ones, large sectors, bad media, removal."""

import json
import pathlib
import threading

import pytest
import vmdisk
from kit.host import loaded, settle
from vmdisk import run_json, set_param, sg_io

READ = "28000000000000000800 in 4096\n"


def test_block_polls_the_poll_queue(reads):
    """Polled commands use the poll queue, and are completed by polling: smq_ram counts both."""
    with loaded("smq_ram", hw_queues=2, poll_queues=1) as hosts:
        lun = hosts[0].luns()[0]
        (lun.queue / "nomerges").write_text("2", encoding="ascii")
        settle(hosts[0])
        got = run_json("--via", "block", "--poll", "--depth", 8, "--batch", 4, "--count", 1000,
                       lun.sd, reads)
        assert got["status"] == {"GOOD": 1000}
        assert settle(hosts[0])["polled"] > 0
        assert [row["done"] for row in hosts[0].hwqs() if row["type"] == "poll"] == [1000]


@pytest.mark.parametrize("via,batch", [("smq", 1), ("smq", 4), ("bsg-uring", 4)])
def test_prepared_and_ad_hoc_commands_are_polled(fast_path, reads, via, batch):
    """Polled commands work beyond the queue depth, and on a device that completes commands only
    when it is polled."""
    with vmdisk.disks(submit_queues=2, poll_queues=1) as found:
        set_param("ndelay", 200000)
        got = run_json("--via", via, "--poll", "--depth", 150, "--batch", batch, "--count", 1000,
                       found[0].smq, reads)
        assert got["status"] == {"GOOD": 1000} and not got["errors"]
        set_param("delay", 0)


@pytest.mark.parametrize("via", ["block", "smq"])
def test_runs_need_not_fit_into_one_ring(fast_path, reads, via):
    with vmdisk.disks(hosts=9) as found:
        nodes = [disk.sd if via == "block" else disk.smq for disk in found]
        got = run_json("--via", via, "--depth", 4096, "--count", 4096, *nodes, reads)
        assert got["status"] == {"GOOD": 9 * 4096} and not got["errors"]


def test_poll_is_refused_without_poll_queues(fast_path, reads):
    with vmdisk.disks() as found:
        done = sg_io("run", "--via", "smq", "--poll", found[0].smq, reads)
        assert done.returncode == 3 and "the host has no poll queues" in done.stderr


@pytest.mark.parametrize("via,options", [("sg", []), ("bsg", []), ("block", []),
                                         ("sg", ["--depth", 20]), ("block", ["--depth", 5])])
def test_several_devices_run_the_same_file(reads, via, options):
    with vmdisk.disks(hosts=3) as found:
        before = [d.done() for d in found]
        got = run_json(*options, "--count", 150, *(d.node[via] for d in found), reads)
        assert got["device"] == ",".join(d.node[via] for d in found)
        assert got["status"] == {"GOOD": 450}
        assert [d.done() - b for d, b in zip(found, before)] == [150] * 3


def test_info_reports_large_sectors():
    with vmdisk.disks(sector_size=4096, physblk_exp=1, ptype=0) as found:
        got = json.loads(sg_io("info", "--json", found[0].sd).stdout)
        assert (got["block_size"], got["physical_block_size"]) == (4096, 8192)
        done = sg_io("run", found[0].sg, "-", stdin="28000000000000000800 in 4096\n")
        assert "1: warning: BYTES means blocks of 512 bytes" in done.stderr
        assert "has 4096" in done.stderr
        done = sg_io("run", "--via", "block", found[0].sg, "-",
                     stdin="28000000000000000800 in 4096\n")
        assert done.returncode == 2
        assert "1: BYTES is 4096, but 8 blocks of" in done.stderr
        assert run_json(found[0].sd, "-", stdin="28000000000000000800 in 32768\n")["commands"] == 1


def test_medium_error_is_reported():
    bad = "28000000123400000100 in 512\n"
    with vmdisk.disks(opts=2, medium_error_start=0x1234, medium_error_count=1) as found:
        got = run_json(found[0].sd, "-", stdin=READ + bad, expect=1)
        assert got["status"] == {"GOOD": 1, "ENODATA": 1}
        assert (got["errors"][0]["line"], got["errors"][0]["errno"]) == (2, "ENODATA")
        got = run_json(found[0].sg, "-", stdin=READ + bad, expect=1)
        assert got["errors"][0]["sense"] == {"key": 3, "asc": 0x11, "ascq": 0}


def test_write_protection_is_reported():
    write = "2a000000000000000800 out 4096\n"
    with vmdisk.disks(wp=1) as found:
        got = run_json(found[0].sg, "-", stdin=write, expect=1)
        assert got["errors"][0]["sense"]["key"] == 7
        done = sg_io("run", found[0].sd, "-", stdin=write)
        assert done.returncode == 3 or "EPERM" in done.stdout


def test_disk_without_sd_has_no_block_node(tmp_path):
    """Without sd there is no block node, so sg_io opens none exclusively before it writes."""
    with vmdisk.disks() as found:
        disk = found[0]
        driver = pathlib.Path("/sys/bus/scsi/drivers/sd")
        (driver / "unbind").write_text(disk.hctl)
        write = "2a000000000000000800 out 4096\n"
        assert run_json(disk.sg, "-", stdin=write)["status"] == {"GOOD": 1}
        done = sg_io("run", "--via", "block", disk.sg, "-", stdin=READ)
        assert done.returncode == 3
        assert "has no block node, which --via block needs" in done.stderr
        assert json.loads(sg_io("info", "--json", disk.bsg).stdout)["nodes"]["block"] is None


@pytest.mark.limit(150)
@pytest.mark.parametrize("via,depth", [("sg", 1), ("sg", 20), ("bsg", 4), ("block", 8)])
def test_run_ends_when_its_device_is_removed(reads, via, depth):
    with vmdisk.disks() as found:
        disk = found[0]
        set_param("ndelay", 2_000_000)
        before = disk.done()
        done = []
        user = threading.Thread(target=lambda: done.append(sg_io(
            "run", "--json", "--via", via, "--depth", depth, "--time", 40, disk.node[via], reads)))
        user.start()
        vmdisk.wait_for(lambda: disk.done() > before + 20)
        (disk.sysfs / "delete").write_text("1")
        user.join(60)
        assert done, "sg_io did not notice that its device is gone"
        got = json.loads(done[0].stdout)
        assert got["status"]["GOOD"] > 0
        assert done[0].returncode == 3
        assert "the device is gone" in done[0].stderr
