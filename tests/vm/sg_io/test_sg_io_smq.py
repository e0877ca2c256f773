# SPDX-License-Identifier: GPL-2.0
"""sg_io by prepared slots and by whole commands of smq_sg, several devices, compare."""

import json
import os
import pathlib
import random
import re
import signal
import subprocess
import threading
import time

import pytest
import vmdisk
from kit.host import unload
from vmdisk import SG_IO, generate, run_json, set_param, sg_io

VIAS = ["smq", "bsg-uring"]
TUR = "000000000000 none 0\n"
READ = "28000000000000000800 in 4096\n"
BEYOND = "2800000fffff00000800 in 4096\n"
KERNEL = tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups()))


@pytest.mark.smoke
@pytest.mark.parametrize("via", VIAS)
@pytest.mark.parametrize("options", [
    [], ["--depth", 4], ["--depth", 60], ["--depth", 8, "--jobs", 2],
    ["--depth", 16, "--batch", 8], ["--depth", 16, "--batch", 5], ["--depth", 4, "--batch", 64],
    ["--depth", 30, "--batch", 16, "--jobs", 2],
], ids=lambda o: " ".join(map(str, o)))
def test_each_command_once(smq_disk, reads, via, options):
    before = smq_disk.done()
    got = run_json("--via", via, *options, "--count", 777, smq_disk.smq, reads)
    assert (got["path"], got["device"]) == (via, smq_disk.smq)
    assert (got["commands"], got["status"], got["errors"]) == (777, {"GOOD": 777}, [])
    assert smq_disk.done() - before == 777
    lat = got["lat_ns"]
    assert 0 < lat["p50"] <= lat["p99"] <= lat["p999"]


def test_any_node_names_the_device(smq_disk, reads, tmp_path):
    os.symlink(smq_disk.smq, tmp_path / "link")
    assert run_json(smq_disk.smq, reads)["path"] == "smq"
    assert run_json(tmp_path / "link", reads)["path"] == "smq"
    for node in (smq_disk.sd, smq_disk.sg, smq_disk.bsg, smq_disk.hctl, smq_disk.smq):
        before = smq_disk.done()
        assert run_json("--via", "smq", node, reads)["status"] == {"GOOD": 100}
        assert smq_disk.done() - before == 100
    assert run_json("--via", "sg", smq_disk.smq, reads)["path"] == "sg"
    assert run_json("--via", "block", smq_disk.smq, reads)["path"] == "block"


@pytest.mark.parametrize("via", VIAS)
@pytest.mark.parametrize("options", [[], ["--depth", 8], ["--depth", 16, "--batch", 8]],
                         ids=lambda o: " ".join(map(str, o)))
@pytest.mark.parametrize("pattern", ["lba", "random:9", "count"])
def test_writes_arrive(smq_disk, tmp_path, via, options, pattern):
    first = random.randrange(1000)
    path = generate(tmp_path / "w", "--op", "write10", "--blocks", 8, "--count", 64,
                    "--pattern", pattern, "--range", f"{first}:{first + 511}")
    run_json("--via", via, *options, smq_disk.smq, path)
    data = smq_disk.read(first, 512)
    if pattern == "lba":
        assert data == b"".join((first + i).to_bytes(8, "big") * 64 for i in range(512))
    elif pattern == "count":
        assert data == bytes(range(256)) * 1024
    # The device compares what it holds with what another command size makes of it.
    check = tmp_path / "v"
    check.write_text("".join(
        f"2f02{first + 32 * i:08x}00002000 out 16384 pattern={pattern}\n" for i in range(16)))
    assert run_json("--via", via, *options, smq_disk.smq, check)["status"] == {"GOOD": 16}


@pytest.mark.parametrize("via", VIAS)
def test_a_wrong_byte_is_a_miscompare(smq_disk, via):
    run_json("--via", via, smq_disk.smq, "-",
             stdin="2a000000040000000100 out 512 pattern=ff\n")
    got = run_json("--via", via, smq_disk.smq, "-",
                   stdin="2f020000040000000100 out 512 pattern=byte:254\n", expect=1)
    assert got["errors"][0]["sense"] == {"key": 0xe, "asc": 0x1d, "ascq": 0}


@pytest.mark.parametrize("via", VIAS)
def test_data_from_a_file(smq_disk, tmp_path, via):
    # More than one region of images: each is a buffer of its own.
    image = random.randbytes(6 << 20)
    (tmp_path / "image").write_bytes(image)
    path = tmp_path / "w"
    path.write_text("".join(
        f"2a00{0x800 + 128 * i:08x}00008000 out 65536 data=image@{65536 * i}\n"
        for i in range(96)))
    run_json("--via", via, "--depth", 8, "--batch", 4, smq_disk.smq, path)
    assert smq_disk.read(0x800, 96 * 128) == image


@pytest.mark.parametrize("options", [["--depth", 40], ["--depth", 40, "--batch", 16]],
                         ids=["single", "batch"])
@pytest.mark.parametrize("lines", [1, 3, 7])
def test_a_short_file_is_as_deep_as_a_long_one(smq_disk, options, lines):
    """A slot cannot be in flight twice: each command has to have several."""
    got = run_json("--via", "smq", *options, "--count", 1003, smq_disk.smq, "-",
                   stdin=READ * lines)
    assert got["status"] == {"GOOD": 1003}


def test_a_slow_command_that_is_met_again(smq_disk):
    """Durations differ: some are passed by so many that their slot comes up while in flight."""
    random_delay = "/sys/bus/pseudo/drivers/scsi_debug/random"
    set_param("ndelay", 3_000_000)
    with open(random_delay, "w", encoding="ascii") as f:
        f.write("1")
    try:
        for options in ([], ["--batch", 2]):
            got = run_json("--via", "smq", "--depth", 3, *options, "--count", 3000, smq_disk.smq,
                           "-", stdin=TUR)
            assert got["status"] == {"GOOD": 3000}
    finally:
        with open(random_delay, "w", encoding="ascii") as f:
            f.write("0")
        set_param("delay", 0)


class Busy(threading.Thread):
    """The most commands the device had at two looks in a row.

    The kernel adds the number up word by word: one look alone can see a command's end and the
    next one's begin as two.
    """

    def __init__(self, disk):
        super().__init__(daemon=True)
        self.disk, self.most, self.stop = disk, 0, False

    def run(self):
        before = 0
        while not self.stop:
            now = int(self.disk.attribute("device_busy"))
            self.most = max(self.most, min(before, now))
            before = now
            time.sleep(0.002)


@pytest.mark.parametrize("via", VIAS)
@pytest.mark.parametrize("depth,batch,jobs", [(1, 1, 1), (40, 1, 1), (40, 20, 1), (12, 4, 3)])
def test_depth_is_reached_and_kept(smq_disk, reads, via, depth, batch, jobs):
    set_param("ndelay", 30_000_000)
    watch = Busy(smq_disk)
    watch.start()
    try:
        run_json("--via", via, "--depth", depth, "--jobs", jobs, "--batch", batch,
                 "--count", 12 * depth * jobs, smq_disk.smq, reads)
    finally:
        watch.stop = True
        watch.join()
        set_param("delay", 0)
    assert watch.most == depth * jobs


@pytest.mark.parametrize("via,options", [
    ("smq", ["--depth", 3000]), ("smq", ["--depth", 4000, "--jobs", 2]),
    ("bsg-uring", ["--depth", 3000, "--batch", 100])])
def test_deeper_than_what_may_wait(smq_disk, reads, via, options):
    """What the node refuses for the moment is sent later, and no command twice."""
    folder = pathlib.Path("/sys/class/smq_sg", os.path.basename(smq_disk.smq))
    refused, before = int((folder / "refused").read_text()), smq_disk.done()
    # Long enough that few end while the first ones are being sent.
    set_param("ndelay", 20_000_000)
    try:
        got = run_json("--via", via, *options, "--count", 6000, smq_disk.smq, reads)
    finally:
        set_param("delay", 0)
    assert got["status"] == {"GOOD": 6000}
    assert smq_disk.done() - before == 6000
    assert int((folder / "refused").read_text()) > refused


# Lengths that are no multiple of what the device's DMA takes.
ODD = ["12000000ff00 in 255\n", "120000000100 in 1\n"]
# Bad in one way each, between good ones.
BAD = [BEYOND, "c00000000000 none 0\n", "120100006000 in 96\n", "1a003f00fc00 in 252\n",
       "28000000000000000000 none 0\n", "9e100000000000000000000000200000 in 32\n",
       "120000006000 in 96\n", "120000002400 in 36\n", "a00000000000000010000000 in 4096\n",
       "1201ee006000 in 96\n", "1a003e00fc00 in 252\n", "12000000ff00 in 4\n",
       "2f020000000000000100 out 512 pattern=byte:77\n", "28000000000000000100 in 4096\n"]


@pytest.mark.parametrize("dsense", [0, 1])
@pytest.mark.parametrize("via,options", [
    ("smq", []), ("smq", ["--depth", 8]), ("smq", ["--depth", 8, "--batch", 4]),
    ("bsg-uring", []), ("bsg-uring", ["--depth", 8, "--batch", 4])])
def test_results_are_those_of_sg(smq_disk, tmp_path, via, options, dsense):
    path = tmp_path / "bad"
    lines = BAD + (ODD if via != "smq" else [])
    path.write_text("".join(READ + line for line in lines))
    set_param("dsense", dsense)
    try:
        want = json.loads(sg_io("run", "--json", "--unchecked", smq_disk.sg, path).stdout)
        got = json.loads(sg_io("run", "--json", "--unchecked", "--via", via, *options,
                               smq_disk.smq, path).stdout)
    finally:
        set_param("dsense", 0)
    assert want["commands"] == 2 * len(lines) and len(want["errors"]) >= 3
    assert got["status"] == want["status"]
    assert sorted(got["errors"], key=str) == sorted(want["errors"], key=str)


@pytest.mark.parametrize("line", ODD)
def test_a_length_that_cannot_be_prepared(smq_disk, line):
    before = smq_disk.done()
    done = sg_io("run", "--via", "smq", smq_disk.smq, "-", stdin=READ + line)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (f"sg_io: standard input:2: BYTES {line.split()[2]} is no multiple of 4, "
                           f"as prepared commands of {smq_disk.smq} are\n")
    assert smq_disk.done() == before


@pytest.mark.parametrize("via,options", [
    ("smq", []), ("smq", ["--depth", 8, "--batch", 4]), ("bsg-uring", ["--depth", 8])])
@pytest.mark.parametrize("opts,name,sense", [
    (vmdisk.RECOVERED, "CHECK CONDITION", (1, 0x5d, 0)),
    (vmdisk.TRANSPORT, "CHECK CONDITION", (0xb, 0x4b, 3)),
    (vmdisk.SHORT, "UNDERRUN", None),
], ids=["recovered", "transport", "short"])
def test_injected(smq_disk, reads, via, options, opts, name, sense):
    set_param("ndelay", 1000)
    set_param("opts", opts)
    set_param("every_nth", 10)
    try:
        got = run_json("--via", via, *options, "--count", 200, smq_disk.smq, reads, expect=1)
    finally:
        set_param("every_nth", 0)
        set_param("opts", 0)
        set_param("delay", 0)
    assert set(got["status"]) == {"GOOD", name}
    assert got["status"]["GOOD"] + got["status"][name] == 200
    assert 10 <= got["status"][name] <= 40
    assert got["errors"][0]["sense"] == (sense and dict(zip(("key", "asc", "ascq"), sense)))


@pytest.mark.parametrize("via", VIAS + ["sg", "block"])
@pytest.mark.parametrize("options", [[], ["--depth", 4], ["--depth", 16, "--batch", 8],
                                     ["--depth", 3, "--batch", 2, "--jobs", 2]],
                         ids=lambda o: " ".join(map(str, o)))
def test_several_devices(three, reads, via, options):
    before = [disk.done() for disk in three]
    got = run_json("--via", via, *options, "--count", 333, *(disk.smq for disk in three), reads)
    assert got["device"] == ",".join(disk.smq for disk in three)
    assert got["status"] == {"GOOD": 999}
    assert [disk.done() - b for disk, b in zip(three, before)] == [333] * 3


def test_several_devices_have_a_batch_each(three):
    """A batch of 16 for all together would be entries of 5 and 6 commands."""
    tracing = pathlib.Path("/sys/kernel/tracing")
    # Kernels name it io_uring_submit_sqe or io_uring_submit_req.
    event, = tracing.glob("events/io_uring/io_uring_submit_[rs]*q*/enable")
    (tracing / "trace").write_text("")
    event.write_text("1")
    try:
        run_json("--via", "smq", "--depth", 16, "--batch", 16, "--count", 320,
                 *(disk.smq for disk in three), "-", stdin=TUR * 16)
    finally:
        event.write_text("0")
    entries = [line for line in (tracing / "trace").read_text().splitlines()
               if f" {event.parent.name}: " in line]
    assert len(entries) == 3 * 320 // 16


def test_node_kinds_do_not_mix(three, reads):
    done = sg_io("run", three[0].smq, three[1].sg, reads)
    assert done.returncode == 2
    assert "would go another path than" in done.stderr
    done = sg_io("run", three[0].smq, three[0].sd, reads)
    assert done.returncode == 2
    assert "are the same device" in done.stderr


@pytest.mark.smoke
def test_bsg_itself(smq_disk, reads):
    done = sg_io("run", "--via", "bsg-uring", "--depth", "8", smq_disk.bsg, reads)
    if KERNEL >= (7, 1):
        assert (done.returncode, done.stderr) == (0, "")
        assert "status: 100 good, 0 not good" in done.stdout
        return
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (f"sg_io: {smq_disk.bsg}: bsg takes commands from io_uring from Linux "
                           f"7.1 on only; {smq_disk.smq} takes the same\n")


def test_more_commands_than_slots(smq_disk, tmp_path):
    path = tmp_path / "many"
    path.write_text(TUR * (1 << 20))
    done = sg_io("run", "--via", "smq", smq_disk.smq, path)
    assert done.returncode == 2
    assert "1048576 commands; --via smq has a slot for each" in done.stderr


def test_poll_is_refused(smq_disk, reads):
    done = sg_io("run", "--poll", smq_disk.smq, reads)
    assert done.returncode == 2
    assert "only --via block can poll" in done.stderr


@pytest.mark.parametrize("via", VIAS)
def test_signal_ends_with_the_partial_result(smq_disk, reads, via):
    before = smq_disk.done()
    with subprocess.Popen([SG_IO, "run", "--json", "--via", via, "--depth", "16", "--batch", "4",
                           "--time", "300", smq_disk.smq, reads], stdout=subprocess.PIPE) as user:
        vmdisk.wait_for(lambda: smq_disk.done() > before + 100)
        user.send_signal(signal.SIGINT)
        out, _ = user.communicate(timeout=30)
        assert user.returncode == 128 + signal.SIGINT
    got = json.loads(out)
    assert got["status"] == {"GOOD": got["commands"]}
    assert got["commands"] == smq_disk.done() - before


def test_a_mounted_disk_is_not_written(smq_disk, tmp_path):
    for args in (["modprobe", "ext4"], ["mkfs.ext4", "-q", "-F", smq_disk.sd],
                 ["mount", "-o", "ro", smq_disk.sd, tmp_path]):
        subprocess.run(args, check=True, timeout=60, stdout=subprocess.DEVNULL)
    try:
        for args in (["run", "--via", "smq"], ["run", "--via", "bsg-uring"],
                     ["compare", "--via", "smq"]):
            done = sg_io(*args, smq_disk.smq, "-", stdin="2a000000000000000100 out 512\n")
            assert done.returncode == 3
            assert "is mounted on" in done.stderr + done.stdout
    finally:
        subprocess.run(["umount", tmp_path], check=True, timeout=60)


def test_info_has_the_limits(smq_disk):
    got = json.loads(sg_io("info", "--json", smq_disk.smq).stdout)
    assert got["nodes"]["smq"] == smq_disk.smq
    folder = f"/sys/class/smq_sg/{os.path.basename(smq_disk.smq)}"
    assert list(got["smq"]) == ["depth", "inflight", "share", "waiting", "max_waiting", "refused",
                                "max_transfer", "max_segments"]
    for name, value in got["smq"].items():
        with open(f"{folder}/{name}", encoding="ascii") as f:
            assert value == int(f.read())
    assert got["smq"]["depth"] == int(smq_disk.attribute("queue_depth"))
    assert (got["vendor"], got["model"]) == ("Linux", "scsi_debug")
    assert f"smqsg node             {smq_disk.smq}\n" in sg_io("info", smq_disk.sd).stdout


# compare

def compare(*args, stdin="", expect=0):
    done = sg_io("compare", "--json", *args, stdin=stdin)
    assert done.returncode == expect, (done.returncode, done.stderr, done.stdout)
    assert done.stderr == ""
    return json.loads(done.stdout)


def by_bsg_uring(disk, rows):
    """The row of the bsg node, which only some kernels can fill."""
    row, = [r for r in rows if (r["path"], r["node"]) == ("bsg-uring", disk.bsg)]
    return row


@pytest.mark.smoke
@pytest.mark.parametrize("node", ["sd", "sg", "bsg", "smq", "hctl"])
def test_compare(smq_disk, reads, node):
    before = smq_disk.done()
    rows = compare("--rounds", 3, "--depth", 4, "--batch", 2, getattr(smq_disk, node), reads)
    assert [(r["path"], r["node"]) for r in rows] == [
        ("sg", smq_disk.sg), ("bsg", smq_disk.bsg), ("bsg-uring", smq_disk.bsg),
        ("bsg-uring", smq_disk.smq), ("smq", smq_disk.smq), ("block", smq_disk.sd)]
    ran = [r for r in rows if r["why"] is None]
    if KERNEL < (7, 1):
        assert "bsg takes commands from io_uring from Linux 7.1 on only" in \
            by_bsg_uring(smq_disk, rows)["why"]
    assert len(ran) == (6 if KERNEL >= (7, 1) else 5)
    assert smq_disk.done() - before == 300 * len(ran)
    first = ran[0]["ns_per_command"]
    for row in ran:
        assert (row["rounds"], row["commands"], row["device"]) == (
            3, 300, getattr(smq_disk, node))
        assert (row["status"], row["errors"]) == ({"GOOD": 300}, [])
        assert row["ns_lowest"] <= row["ns_per_command"] <= row["ns_highest"]
        assert row["ratio"] == pytest.approx(row["ns_per_command"] / first, abs=0.01)
        assert 0 < row["lat_ns"]["p50"] <= row["lat_ns"]["p99"] <= row["lat_ns"]["p999"]
        assert row["iops"] == pytest.approx(300 / row["seconds"], rel=0.01)
    assert ran[0]["ratio"] == 1


def test_compare_of_what_block_cannot(smq_disk):
    rows = compare("--via", "block,smq,sg", "--rounds", 2, smq_disk.sd, "-", stdin=READ + TUR)
    assert [r["path"] for r in rows] == ["block", "smq", "sg"]
    assert rows[0]["why"] == ("standard input:2: TEST UNIT READY (opcode 00h): only READ and WRITE "
                              "go by block; --via sg takes all")
    assert (rows[0]["commands"], rows[0]["ns_per_command"], rows[0]["ratio"]) == (0, None, None)
    # The first that ran is what the others are compared with.
    assert rows[1]["ratio"] == 1 and rows[2]["ratio"] is not None
    assert [r["commands"] for r in rows] == [0, 4, 4]


def test_compare_as_a_table(smq_disk, reads):
    done = sg_io("compare", "--rounds", 2, "--count", 50, smq_disk.smq, reads)
    assert (done.returncode, done.stderr) == (0, "")
    head, titles, *rows = done.stdout.splitlines()
    assert head == f"{smq_disk.smq}: 2 rounds, depth 1, batch 1, jobs 1"
    assert titles.split() == ["path", "node", "commands", "ns/command", "lowest..highest", "ratio",
                              "not", "good"]
    assert len(rows) == 6
    ran = [r.split() for r in rows if "does not run" not in r]
    assert ran[0][0] == "sg" and ran[0][5] == "1.00"
    assert all(r[2] == "100" and r[6] == "0" for r in ran)
    assert (KERNEL >= (7, 1)) == (len(ran) == 6)


def test_compare_counts_what_is_not_good(smq_disk):
    rows = compare("--rounds", 2, "--via", "sg,smq,bsg-uring", smq_disk.smq, "-",
                   stdin=READ + BEYOND + READ, expect=1)
    for row in rows:
        if row["why"] is not None:
            continue
        assert row["status"] == {"GOOD": 4, "CHECK CONDITION": 2}
        error, = row["errors"]
        assert (error["count"], error["line"]) == (2, 2)
        assert error["sense"] == {"key": 5, "asc": 0x21, "ascq": 0}
    done = sg_io("compare", "--rounds", 2, "--via", "smq", smq_disk.smq, "-", stdin=BEYOND)
    assert done.returncode == 1 and done.stdout.split()[-1] == "2"


def test_compare_writes(smq_disk, tmp_path):
    path = generate(tmp_path / "w", "--op", "write10", "--blocks", 8, "--count", 16, "--pattern",
                    "random:3")
    rows = compare("--rounds", 1, "--depth", 4, "--count", 64, smq_disk.smq, path)
    assert {r["path"]: r["status"] for r in rows if not r["why"]} == dict.fromkeys(
        ["sg", "bsg", "bsg-uring", "smq", "block"], {"GOOD": 64})
    check = tmp_path / "v"
    check.write_text("2f020000000000008000 out 65536 pattern=random:3\n")
    assert run_json("--via", "smq", smq_disk.smq, check)["status"] == {"GOOD": 1}


def test_compare_with_time_and_rate(smq_disk, reads):
    rows = compare("--rounds", 2, "--via", "smq,sg", "--time", 0.3, "--rate", 200, smq_disk.smq,
                   reads)
    for row in rows:
        assert 1 <= row["commands"] <= 2 * 61
        assert row["ns_per_command"] >= 4_000_000


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_compare_ends_with_a_signal(smq_disk, reads, number):
    before = smq_disk.done()
    with subprocess.Popen([SG_IO, "compare", "--json", "--via", "smq,sg", "--time", "60",
                           smq_disk.smq, reads], stdout=subprocess.PIPE) as user:
        vmdisk.wait_for(lambda: smq_disk.done() > before + 100)
        user.send_signal(number)
        out, _ = user.communicate(timeout=30)
        assert user.returncode == 128 + number
    # What was begun has ended in its own way, with what it had by then.
    assert [r["path"] for r in json.loads(out)] == ["smq", "sg"]
    done = smq_disk.done()
    time.sleep(0.5)
    assert smq_disk.done() == done


def test_compare_leaves_no_child_when_it_is_killed(smq_disk, reads):
    before = smq_disk.done()
    with subprocess.Popen([SG_IO, "compare", "--via", "smq", "--time", "60", smq_disk.smq, reads],
                          stdout=subprocess.DEVNULL) as user:
        vmdisk.wait_for(lambda: smq_disk.done() > before + 100)
        user.kill()
        user.wait(30)
    vmdisk.settle(smq_disk)


def test_device_that_goes(fast_path, three, reads):
    """The last of them: its run ends, the others' nodes stay."""
    disk = three[2]
    before, node = disk.done(), disk.smq
    with subprocess.Popen([SG_IO, "run", "--json", "--via", "smq", "--depth", "16", "--batch", "4",
                           "--time", "300", node, reads], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as user:
        vmdisk.wait_for(lambda: disk.done() > before + 100)
        (disk.sysfs / "delete").write_text("1")
        out, said = user.communicate(timeout=60)
        assert user.returncode == 3
    assert f"{node}: No such device: the device is gone, the run ended early" in said.decode()
    got = json.loads(out)
    assert got["commands"] > 100
    assert "ENODEV" in got["status"]
    vmdisk.wait_for(lambda: not os.path.exists(node))
    assert run_json(three[0].smq, reads)["status"] == {"GOOD": 100}


def test_without_the_module(three, reads):
    """The last test: it takes the module away."""
    disk = three[0]
    unload("smq_sg")
    try:
        done = sg_io("run", "--via", "smq", disk.sg, reads)
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr == (f"sg_io: {disk.sg}: has no smq node, which --via smq needs "
                               "(modprobe smq_sg)\n")
        rows = compare("--via", "smq,bsg", "--rounds", 1, disk.sg, reads)
        assert (rows[0]["path"], rows[0]["node"]) == ("smq", None)
        assert rows[0]["why"] == f"{disk.sg} has no smq node (modprobe smq_sg)"
        assert rows[1]["ratio"] == 1
        rows = compare("--via", "smq", "--rounds", 1, disk.sg, reads, expect=3)
        assert rows[0]["rounds"] == 0
    finally:
        subprocess.run(["modprobe", "smq_sg"], check=True, timeout=vmdisk.TIMEOUT)


def test_sanitized_build(three, reads, tmp_path):
    san = vmdisk.ROOT / "build/tools/sg_io-san/sg_io"
    if not san.exists():
        pytest.skip("not built: make -C tools/src/sg_io SANITIZE=1")
    nodes = [disk.smq for disk in three[:2]]
    path = generate(tmp_path / "w", "--op", "write10", "--blocks", 8, "--count", 64)
    for args in (["info", nodes[0]], ["run", *nodes, reads],
                 ["run", "--depth", "20", "--batch", "8", *nodes, reads],
                 ["run", "--depth", "20", "--batch", "8", "--jobs", "2", *nodes, path],
                 ["run", "--via", "bsg-uring", "--depth", "9", *nodes, path],
                 ["compare", "--rounds", "2", "--depth", "3", nodes[0], reads]):
        done = subprocess.run([san, *args], capture_output=True, text=True, check=False,
                              timeout=vmdisk.TIMEOUT)
        assert (done.returncode, done.stderr) == (0, "")
    done = subprocess.run([san, "run", "--via", "smq", "--depth", "4", nodes[0], "-"],
                          input=READ + BEYOND + ODD[0], capture_output=True, text=True,
                          check=False, timeout=vmdisk.TIMEOUT)
    assert done.returncode == 3 and done.stderr.count("\n") == 1
