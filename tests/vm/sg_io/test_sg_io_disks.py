# SPDX-License-Identifier: GPL-2.0
# on: uml
# not on sanitize: it tests programs, which are the same there
"""sg_io with special disks: several disks, polled ones, large sectors, bad media, removal."""

import glob
import json
import os
import pathlib
import re
import subprocess
import threading

import pytest
import vmdisk
from kit.host import loaded, settle, unload
from vmdisk import run_json, set_param, sg_io

READ = "28000000000000000800 in 4096\n"


def modprobe(*args):
    subprocess.run(["modprobe", *args], check=True, timeout=vmdisk.TIMEOUT)


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


@pytest.mark.parametrize("via,options", [("sg", []), ("block", ["--depth", 5]),
                                         ("smq", ["--depth", 4, "--batch", 2]),
                                         ("smq", ["--jobs", 2])])
def test_each_device_has_its_figures(fast_path, reads, via, options):
    with vmdisk.disks(hosts=3) as found:
        nodes = [disk.node[via] for disk in found]
        # The second disk is stopped: its READs end with NOT READY.
        assert sg_io("run", found[1].sg, "-", stdin="1b0000000000 none 0\n").returncode == 0
        got = run_json("--via", via, *options, "--count", 30, *nodes, reads, expect=1)
        assert [(d["device"], d["commands"], d["not_good"]) for d in got["devices"]] == [
            (nodes[0], 30, 0), (nodes[1], 30, 30), (nodes[2], 30, 0)]
        for figures in got["devices"]:
            assert 0 < figures["seconds"] <= got["seconds"] and figures["iops"] > 0
            assert figures["lat_ns"]["p50"] > 0
        assert [(e["device"], e["count"]) for e in got["errors"]] == [(nodes[1], 30)]
        assert got["interrupted"] is False
        done = sg_io("run", "--via", via, *options, *nodes, reads)
        assert f"; first at line 1 on {nodes[1]}\n" in done.stdout
        rows = {line.split()[0]: line.split() for line in done.stdout.splitlines()[-3:]}
        assert [(rows[node][1], rows[node][-1]) for node in nodes] == [
            ("100", "0"), ("100", "100"), ("100", "0")]
        one = run_json("--via", via, *options, nodes[0], reads)
        assert [d["device"] for d in one["devices"]] == [nodes[0]]


@pytest.mark.parametrize("via,options", [("sg", ["--depth", 4]), ("smq", ["--jobs", 3])])
def test_slowest_commands_have_line_and_device(fast_path, reads, via, options):
    """With room for all commands the list has each once. A shorter list has the first of them."""
    with vmdisk.disks(hosts=2) as found:
        nodes = [disk.node[via] for disk in found]
        assert sg_io("run", found[1].sg, "-", stdin="1b0000000000 none 0\n").returncode == 0
        got = run_json("--via", via, *options, "--slowest", 1000, *nodes, reads, expect=1)
        slow = got["slowest"]
        assert sorted((one["device"], one["line"]) for one in slow) == sorted(
            (node, line) for node in nodes for line in range(1, 101))
        assert [one["ns"] for one in slow] == sorted((one["ns"] for one in slow), reverse=True)
        assert all(one["good"] == (one["device"] == nodes[0]) for one in slow)
        assert {one["command"] for one in slow} == {"READ(10)"}
        assert all(0 <= one["issued"] <= got["seconds"] for one in slow)
        assert all(one["issued"] + one["ns"] / 1e9 <= got["seconds"] + 1e-6 for one in slow)
        done = sg_io("run", "--via", via, *options, "--slowest", 2, *nodes, reads)
        longest = re.search(r"longest ([\d.]+) us", done.stdout)[1]
        rows = done.stdout.splitlines()[-3:]
        assert rows[0] == "slowest commands:" and rows[1].startswith(f"  {longest} us: line ")
        assert re.fullmatch(r"  [\d.]+ us: line \d+ on /\S+, READ\(10\), issued after [\d.]+ s"
                            r"(, not good)?", rows[2])
        assert "slowest" not in run_json("--via", via, nodes[0], reads)


# READ, WRITE and VERIFY with and without RDPROTECT and the like, of 10, 16 and 32 bytes: 8 blocks,
# with 8 bytes of protection information each or without.
PROTECTED = """
28000000000000000800 in 4096
28200000000000000800 in 4096
28200000000000000800 in 4160
88200000000000000000000000080000 in 4160
7f00000000000018000920000000000000000000000000000000ffff00000008 in 4096
7f00000000000018000920000000000000000000000000000000000000000008 in 4096
2a200000000000000800 out 4160
7f00000000000018000b00000000000000000000000000000000ffff00000008 out 4096
7f00000000000018000b20000000000000000000000000000000000000000008 out 4096
7f00000000000018000900000000000000000000000000000000000000000008 in 4096
2f200000000000000800 none 0
""".strip().splitlines()


@pytest.mark.limit(120)
@pytest.mark.not_uml("it has no protection information")
@pytest.mark.parametrize("dif", (1, 2, 3))
def test_protection_has_the_same_result_on_each_path(fast_path, dif):
    """A disk with protection of type 1, 2 or 3: each command ends on smqsg as on sg and bsg."""
    with vmdisk.disks(dif=dif, dix=1, ptype=0) as found:
        disk = found[0]
        results = {}
        for via in ("sg", "bsg", "smq", "smq-held"):
            node = disk.smq if "smq" in via else disk.node[via]
            # Each command by itself, so that an error does not change the next one's result.
            answers = [json.loads(sg_io("run", "--json", "--via", via, "--unchecked", node, "-",
                                        stdin=line + "\n").stdout) for line in PROTECTED]
            results[via] = [[(error["status"], error["host"], error["sense"], error["errno"])
                             for error in answer["errors"]] for answer in answers]
        assert results["smq"] == results["sg"] == results["bsg"] == results["smq-held"]
        # Not all fail: plain READs work on each type but 2, and some command on each type fails.
        assert [] in results["sg"] and any(results["sg"])


def test_batch_above_the_depth_is_reported(fast_path, reads):
    with vmdisk.disks() as found:
        done = sg_io("run", "--depth", 8, "--batch", 16, found[0].smq, reads)
        assert (done.returncode, done.stderr) == (
            0, "sg_io: --batch 16: only 8 commands are in flight (--depth), so groups have 8\n")
        assert sg_io("run", "--depth", 16, "--batch", 16, found[0].smq, reads).stderr == ""


def test_gen_asks_the_device():
    with vmdisk.disks(sector_size=4096, ptype=0) as found:
        disk = found[0]
        blocks = vmdisk.BLOCKS // 8

        def gen(*args):
            return sg_io("gen", "--op", "read10", "--device", *args)
        done = gen(disk.hctl, "--count", "1k", "--random", 1)
        assert done.returncode == 0
        lbas = [int(line[4:12], 16) for line in done.stdout.splitlines()]
        assert len(lbas) == 1024 and blocks * 0.9 < max(lbas) < blocks and min(lbas) < blocks * 0.1
        assert run_json(disk.sg, "-", stdin=done.stdout)["status"] == {"GOOD": 1024}
        # A sequence begins again at the end of the device.
        done = gen(disk.sd, "--count", blocks + 1)
        assert done.stdout.splitlines()[blocks - 1:] == [
            f"2800{blocks - 1:08x}00000100 in 4096", "28000000000000000100 in 4096"]
        for args, why in [(["--range", f"0:{blocks}"], f"LBA {blocks} is over the last one"),
                          (["--block-size", "512"], "has blocks of 4096 bytes")]:
            done = gen(disk.sd, *args)
            assert (done.returncode, done.stdout) == (2, "") and why in done.stderr
        done = gen(os.path.basename(disk.sd))
        assert (done.returncode, done.stderr) == (
            3, f"sg_io: {os.path.basename(disk.sd)}: there is no such file; the device is "
            f"{disk.sd}\n")


def test_cdbs_of_a_tape_are_not_read_as_those_of_a_disk(fast_path):
    """34h is READ POSITION with 20 bytes, and for a disk PRE-FETCH(10) without data."""
    line = "34000000000000000000 in 20\n"
    with vmdisk.disks() as found:
        done = sg_io("run", found[0].sg, "-", stdin=line)
        assert done.returncode == 2
        assert "PRE-FETCH(10) with this CDB moves data 'none', not 'in'; --unchecked accepts " \
            "that" in done.stderr
    modprobe("scsi_debug", "ptype=1")
    try:
        pattern = "/sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/target*/*:*:*:*/scsi_generic/*"
        node = "/dev/" + os.path.basename(vmdisk.wait_for(lambda: glob.glob(pattern))[0])
        vmdisk.wait_for(lambda: os.path.exists(node))
        # Whatever scsi_debug answers, the command was sent.
        for command in ("run", "compare"):
            done = sg_io(command, "--via", "sg", node, "-", stdin=line)
            assert done.returncode < 2, done.stderr
        done = sg_io("run", node, "-", stdin="120000006000 in 36\n")
        assert "BYTES is 36 but the INQUIRY CDB says 96" in done.stderr
    finally:
        unload("scsi_debug")


def test_info_reports_large_sectors():
    with vmdisk.disks(sector_size=4096, physblk_exp=1, ptype=0) as found:
        got = json.loads(sg_io("info", "--json", found[0].sd).stdout)
        assert (got["block_size"], got["physical_block_size"]) == (4096, 8192)
        small = "28000000000000000800 in 4096 at=0\n2a000000000000000800 out 4096 at=1\n"
        before = found[0].done()
        for command in "run", "replay":
            done = sg_io(command, found[0].sg, "-", stdin=small)
            assert (done.returncode, done.stdout) == (2, "")
            assert done.stderr == (f"sg_io: standard input:1: BYTES means blocks of 512 bytes, "
                                   f"{found[0].sg} has 4096; --unchecked accepts that\n")
        assert found[0].done() == before
        assert sg_io("run", "--unchecked", found[0].sg, "-", stdin=small).returncode < 2
        done = sg_io("run", "--via", "block", found[0].sg, "-",
                     stdin="28000000000000000800 in 4096\n")
        assert done.returncode == 2
        assert "1: BYTES is 4096, but 8 blocks of" in done.stderr
        assert run_json(found[0].sd, "-", stdin="28000000000000000800 in 32768\n")["commands"] == 1


def test_vendor_and_product_of_any_bytes():
    with vmdisk.disks(inq_vendor=b"Ca\xe9".decode(errors="surrogateescape"),
                      inq_product=b"A<B&\xff\x1b[31m".decode(errors="surrogateescape")) as found:
        got = json.loads(sg_io("info", "--json", found[0].sg).stdout)
        assert got["vendor"] == "Ca?" and got["model"] in ("A<B&?\x1b[31m", "A<B&??[31m")
        assert "\x1b" not in sg_io("info", found[0].sg).stdout


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
@pytest.mark.parametrize("via,depth", [("sg", 1), ("sg", 20), ("bsg", 4), ("block", 8),
                                       ("smq", 16)])
def test_run_ends_when_its_device_is_removed(fast_path, reads, via, depth):
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
