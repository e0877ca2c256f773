# SPDX-License-Identifier: GPL-2.0
# on: uml 7.2
# not on sanitize: it tests programs, which are the same there
"""Every path sends every command once, with the right data and the requested depth."""

import json
import os
import random

import pytest
import vmdisk
from vmdisk import generate, most_in_flight, run_json, sg_io

PATHS = [("sg", "sg"), ("sg", "sd"), ("bsg", "bsg"), ("bsg", "sg"), ("block", "sd"),
         ("block", "sg"), ("smq", "smq"), ("bsg-uring", "smq")]
VIAS = ["sg", "bsg", "block", "smq", "bsg-uring"]
OPTIONS = [[], ["--depth", 4], ["--depth", 17], ["--depth", 8, "--jobs", 2],
           ["--depth", 16, "--batch", 5], ["--jobs", 3]]
# All paths distribute commands to jobs and batches in the same way.
MORE = [["--depth", 60], ["--depth", 4, "--batch", 64],
        ["--depth", 30, "--batch", 16, "--jobs", 2]]
pytestmark = pytest.mark.usefixtures("fast_path")


@pytest.mark.smoke
@pytest.mark.parametrize("via,node,options", [
    *((*path, options) for path in PATHS for options in OPTIONS),
    *(("smq", "smq", options) for options in MORE),
], ids=lambda o: o if isinstance(o, str) else " ".join(map(str, o)))
def test_each_command_runs_once(disk, reads, via, node, options):
    before = disk.done()
    got = run_json("--via", via, *options, "--count", 777, getattr(disk, node), reads)
    assert list(got) == ["path", "device", "commands", "seconds", "iops", "lat_ns", "status",
                         "errors", "devices", "interrupted"]
    assert (got["path"], got["device"]) == (via, getattr(disk, node))
    assert (got["commands"], got["status"], got["errors"]) == (777, {"GOOD": 777}, [])
    assert disk.done() - before == 777
    lat = got["lat_ns"]
    assert list(lat) == ["p50", "p99", "p999"]
    assert 0 < lat["p50"] <= lat["p99"] <= lat["p999"]
    assert got["iops"] == pytest.approx(777 / got["seconds"], rel=0.01)


@pytest.mark.parametrize("node,path", [("sg", "sg"), ("bsg", "bsg"), ("sd", "block"),
                                       ("smq", "smq")])
def test_path_of_the_node_is_the_default(disk, reads, node, path):
    got = run_json(getattr(disk, node), reads)
    assert (got["path"], got["commands"]) == (path, 100)


def test_address_and_link_name_the_device(disk, reads, tmp_path):
    os.symlink(disk.bsg, tmp_path / "link")
    assert run_json(disk.hctl, reads)["path"] == "sg"
    assert run_json(tmp_path / "link", reads)["path"] == "bsg"


@pytest.mark.parametrize("via", VIAS)
@pytest.mark.parametrize("depth", [1, 8])
@pytest.mark.parametrize("pattern", ["lba", "random:9", "count"])
def test_writes_arrive(disk, tmp_path, via, depth, pattern):
    first = random.randrange(1000)
    path = generate(tmp_path / "w", "--op", "write10", "--blocks", 8, "--count", 64,
                    "--pattern", pattern, "--range", f"{first}:{first + 511}")
    options = ["--depth", depth, *["--batch", 4][:2 * (depth > 1)]]
    run_json("--via", via, *options, disk.node[via], path)
    data = disk.read(first, 512)
    if pattern == "lba":
        assert data == b"".join((first + i).to_bytes(8, "big") * 64 for i in range(512))
    elif pattern == "count":
        assert data == bytes(range(256)) * 1024
    # VERIFY commands of another size send the same data, and the device compares it with its own.
    check = tmp_path / "v"
    check.write_text("".join(
        f"2f02{first + 32 * i:08x}00002000 out 16384 pattern={pattern}\n" for i in range(16)))
    via = "sg" if via == "block" else via
    assert run_json("--via", via, *options, disk.node[via], check)["status"] == {"GOOD": 16}


def test_a_wrong_byte_is_a_miscompare(disk):
    for via in VIAS:
        write, check = (f"{raw}0000040000000100 out 512 pattern=" for raw in ("2a00", "2f02"))
        run_json("--via", via, disk.node[via], "-", stdin=f"{write}ff\n")
        if via != "block":
            got = run_json("--via", via, disk.node[via], "-", stdin=f"{check}byte:254\n", expect=1)
            assert got["errors"][0]["sense"] == {"key": 0xe, "asc": 0x1d, "ascq": 0}


@pytest.mark.parametrize("via", VIAS)
def test_data_comes_from_a_file(disk, tmp_path, via):
    # The data needs more than one region of memory, and each region is a buffer of its own.
    image = random.randbytes((6 << 20) + 512)
    (tmp_path / "image").write_bytes(image)
    path = tmp_path / "w"
    path.write_text("".join(
        f"2a00{0x800 + 128 * i:08x}00008000 out 65536 data=image@{512 + 65536 * i}\n"
        for i in range(96)))
    run_json("--via", via, "--depth", 8, "--batch", 4, disk.node[via], path)
    assert disk.read(0x800, 96 * 128) == image[512:]


def test_block_accepts_all_forms_of_read_and_write(disk, tmp_path):
    path = tmp_path / "all"
    lines = []
    for size in (6, 10, 12, 16, 32):
        for op in ("write", "read"):
            lines += generate(tmp_path / "one", "--op", f"{op}{size}", "--range",
                              f"{100 * size}:{100 * size + 9}", "--blocks", 5,
                              "--count", 2).read_text().splitlines()
    # A WRITE with FUA.
    lines.append("2a080000130000000100 out 512 pattern=lba")
    path.write_text("\n".join(lines))
    assert run_json("--via", "block", disk.sd, path)["status"] == {"GOOD": 21}
    for first, count in [(100 * size, 10) for size in (6, 10, 12, 16, 32)] + [(0x1300, 1)]:
        assert disk.read(first, count) == b"".join(
            (first + i).to_bytes(8, "big") * 64 for i in range(count))


@pytest.mark.parametrize("via,node,depth,batch,jobs", [
    ("sg", "sg", 1, 1, 1), ("sg", "sg", 16, 1, 1), ("sg", "sg", 40, 1, 1), ("sg", "sg", 20, 1, 2),
    ("sg", "sd", 5, 1, 1), ("bsg", "bsg", 12, 1, 1), ("block", "sd", 40, 1, 1),
    ("block", "sd", 10, 1, 3), ("smq", "smq", 1, 1, 1), ("smq", "smq", 40, 1, 1),
    ("smq", "smq", 40, 20, 1), ("smq", "smq", 12, 4, 3), ("bsg-uring", "smq", 40, 20, 1),
    ("bsg-uring", "smq", 12, 4, 3)])
def test_depth_is_reached_and_kept(disk, reads, via, node, depth, batch, jobs):
    with most_in_flight(disk, depth * jobs):
        run_json("--via", via, "--depth", depth, "--jobs", jobs, "--batch", batch, "--count",
                 4 * depth * jobs, getattr(disk, node), reads)


def test_poll_needs_poll_queues(disk, reads):
    done = sg_io("run", "--poll", disk.sd, reads)
    assert done.returncode == 3
    assert "the host has no poll queues" in done.stderr
    done = sg_io("run", "--poll", disk.sg, reads)
    assert done.returncode == 2
    assert "only --via smq, block and, on a smqsg node, bsg-uring can poll" in done.stderr


def test_same_device_twice_is_refused(disk, reads):
    for other in (disk.bsg, disk.hctl):
        done = sg_io("run", disk.sg, other, reads)
        assert done.returncode == 2
        assert "are the same device" in done.stderr


TRACE = "/sys/kernel/tracing"


@pytest.mark.parametrize("via,depth", [("sg", 1), ("sg", 4), ("bsg", 1), ("block", 4)])
def test_commands_are_sent_on_their_cpu(disk, tmp_path, via, depth):
    path = tmp_path / "pinned"
    path.write_text("".join(f"28000000{i:04x}00000100 in 512 cpu={i * 7 % 3 % 2}\n"
                            for i in range(60)))

    def trace(name, value):
        with open(f"{TRACE}/{name}", "w", encoding="ascii") as f:
            f.write(value)
    trace("trace", "")
    trace("events/scsi/scsi_dispatch_cmd_start/enable", "1")
    try:
        run_json("--via", via, "--depth", depth, disk.sd, path)
    finally:
        trace("events/scsi/scsi_dispatch_cmd_start/enable", "0")
    seen = {}
    with open(f"{TRACE}/trace", encoding="ascii") as f:
        for line in f:
            if "READ_10" in line:
                cpu = int(line.split("[")[1].split("]")[0])
                seen[int(line.split("lba=")[1].split()[0])] = cpu
    assert seen == {i: i * 7 % 3 % 2 for i in range(60)}


def test_missing_cpu_is_refused(disk):
    done = sg_io("run", disk.sg, "-", stdin="000000000000 none 0\n000000000000 none 0 cpu=900\n")
    assert done.returncode == 2
    assert "standard input:2: cpu=900 is not a CPU this process may run on" in done.stderr


def test_info_reports_the_disk(disk):
    got = json.loads(sg_io("info", "--json", disk.bsg).stdout)
    assert got["device"] == disk.bsg
    assert got["hctl"] == disk.hctl
    assert (got["vendor"], got["model"]) == ("Linux", "scsi_debug")
    assert got["rev"] == disk.attribute("rev").strip()
    assert (got["blocks"], got["block_size"]) == (vmdisk.BLOCKS, 512)
    assert got["capacity_bytes"] == vmdisk.BLOCKS * 512
    assert got["queue_depth"] == int(disk.attribute("queue_depth"))
    assert got["nodes"] == {"block": disk.sd, "sg": disk.sg, "bsg": disk.bsg, "smq": disk.smq}
    host = f"/sys/class/scsi_host/host{disk.hctl.split(':')[0]}"
    for name in ("can_queue", "nr_hw_queues", "sg_tablesize", "cmd_per_lun"):
        with open(f"{host}/{name}", encoding="ascii") as f:
            assert got["host"][name] == int(f.read())
    assert got["host"]["proc_name"] == "scsi_debug"
    queue = f"/sys/block/{os.path.basename(disk.sd)}/queue"
    with open(f"{queue}/max_sectors_kb", encoding="ascii") as f:
        assert got["max_sectors"] == 2 * int(f.read())
    text = sg_io("info", disk.sd).stdout
    assert f"{vmdisk.BLOCKS}\n" in text and disk.sg in text and "scsi_debug" in text
