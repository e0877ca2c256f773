# SPDX-License-Identifier: GPL-2.0
# on: uml 7.2
# not on sanitize: it tests programs, which are the same there
"""sg_io through smq_sg: prepared slots, ad hoc commands, and several devices."""

import contextlib
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
from vmdisk import SG_IO, compare, generate, run_json, set_param, sg_io

VIAS = ["smq", "bsg-uring"]
TUR = "000000000000 none 0\n"
READ = "28000000000000000800 in 4096\n"
BEYOND = "2800000fffff00000800 in 4096\n"
KERNEL = tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups()))


# Options with different numbers of commands in flight. All paths distribute commands to jobs and
# batches in the same way, so MORE is tested with one path only.
EACH = [[], ["--depth", 8, "--jobs", 2], ["--depth", 16, "--batch", 5]]
MORE = [["--depth", 4], ["--depth", 60], ["--depth", 16, "--batch", 8],
        ["--depth", 4, "--batch", 64], ["--depth", 30, "--batch", 16, "--jobs", 2]]


@pytest.mark.smoke
@pytest.mark.parametrize("via,options", [
    *((via, options) for via in VIAS for options in EACH), *(("smq", options) for options in MORE),
], ids=lambda o: o if isinstance(o, str) else " ".join(map(str, o)))
def test_each_command_runs_once(smq_disk, reads, via, options):
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


WRITE_OPTIONS = [[], ["--depth", 8], ["--depth", 16, "--batch", 8]]


# Tests each path with each pattern, and with each of these options.
@pytest.mark.parametrize("pattern,via,options", [
    (pattern, via, WRITE_OPTIONS[(at + place) % 3])
    for at, via in enumerate(VIAS) for place, pattern in enumerate(["lba", "random:9", "count"])
], ids=lambda o: o if isinstance(o, str) else " ".join(map(str, o)))
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
    # The device compares its data with the same data sent by commands of another size.
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
def test_data_comes_from_a_file(smq_disk, tmp_path, via):
    # The data needs more than one region of memory, and each region is a buffer of its own.
    image = random.randbytes(6 << 20)
    (tmp_path / "image").write_bytes(image)
    path = tmp_path / "w"
    path.write_text("".join(
        f"2a00{0x800 + 128 * i:08x}00008000 out 65536 data=image@{65536 * i}\n"
        for i in range(96)))
    run_json("--via", via, "--depth", 8, "--batch", 4, smq_disk.smq, path)
    assert smq_disk.read(0x800, 96 * 128) == image


class Busy(threading.Thread):
    """Finds the largest number of commands that the device had in two consecutive samples.

    The kernel sums the number word by word: a single sample may count both a command that ends and
    the next one that begins. """

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


@contextlib.contextmanager
def most_in_flight(disk, most):
    """Checks that during the block the device never has more than @most commands, and at least once
    has @most. Commands take 30 ms each."""
    set_param("ndelay", 30_000_000)
    watch = Busy(disk)
    watch.start()
    try:
        yield
    finally:
        watch.stop = True
        watch.join()
        set_param("delay", 0)
    assert watch.most == most


@pytest.mark.parametrize("options", [["--depth", 40], ["--depth", 40, "--batch", 16]],
                         ids=["single", "batch"])
@pytest.mark.parametrize("lines", [1, 3, 7])
def test_short_file_reaches_the_full_depth(smq_disk, options, lines):
    """A slot cannot be in flight twice, so each command of a short file needs several slots."""
    with most_in_flight(smq_disk, 40):
        got = run_json("--via", "smq", *options, "--count", 1003, smq_disk.smq, "-",
                       stdin=READ * lines)
    assert got["status"] == {"GOOD": 1003}


def test_slot_is_due_while_its_command_is_in_flight(smq_disk):
    """Commands take different times: a slow one is still in flight when its slot is due again."""
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


@pytest.mark.parametrize("via,depth,batch,jobs", [
    ("smq", 1, 1, 1), ("smq", 40, 1, 1), ("smq", 40, 20, 1), ("smq", 12, 4, 3),
    ("bsg-uring", 40, 20, 1), ("bsg-uring", 12, 4, 3)])
def test_depth_is_reached_and_kept(smq_disk, reads, via, depth, batch, jobs):
    with most_in_flight(smq_disk, depth * jobs):
        run_json("--via", via, "--depth", depth, "--jobs", jobs, "--batch", batch,
                 "--count", 12 * depth * jobs, smq_disk.smq, reads)


@pytest.mark.parametrize("via,options", [
    ("smq", ["--depth", 3000]), ("smq", ["--depth", 4000, "--jobs", 2]),
    ("bsg-uring", ["--depth", 3000, "--batch", 100])])
def test_commands_refused_with_eagain_are_sent_later(smq_disk, reads, via, options):
    """If the node refuses a command with EAGAIN, sg_io sends it again later. Each command reaches
    the device once."""
    folder = pathlib.Path("/sys/class/smq_sg", os.path.basename(smq_disk.smq))
    refused, before = int((folder / "refused").read_text()), smq_disk.done()
    # Long enough that few commands end while sg_io sends the first ones.
    set_param("ndelay", 20_000_000)
    try:
        got = run_json("--via", via, *options, "--count", 6000, smq_disk.smq, reads)
    finally:
        set_param("delay", 0)
    assert got["status"] == {"GOOD": 6000}
    assert smq_disk.done() - before == 6000
    assert int((folder / "refused").read_text()) > refused


# Data lengths that are no multiple of the device's DMA alignment.
ODD = ["12000000ff00 in 255\n", "120000000100 in 1\n"]
# Commands with one error each, between good ones.
BAD = [BEYOND, "c00000000000 none 0\n", "120100006000 in 96\n", "1a003f00fc00 in 252\n",
       "28000000000000000000 none 0\n", "9e100000000000000000000000200000 in 32\n",
       "120000006000 in 96\n", "120000002400 in 36\n", "a00000000000000010000000 in 4096\n",
       "1201ee006000 in 96\n", "1a003e00fc00 in 252\n", "12000000ff00 in 4\n",
       "2f020000000000000100 out 512 pattern=byte:77\n", "28000000000000000100 in 4096\n"]


@pytest.mark.parametrize("via,options,dsense", [
    ("smq", [], 0), ("smq", ["--depth", 8], 1), ("smq", ["--depth", 8, "--batch", 4], 0),
    ("bsg-uring", [], 1), ("bsg-uring", ["--depth", 8, "--batch", 4], 0)])
def test_results_equal_those_of_sg(smq_disk, tmp_path, via, options, dsense):
    path = tmp_path / "bad"
    lines = BAD + (ODD if via == "bsg-uring" else [])
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
    for result, node in ((got, smq_disk.smq), (want, smq_disk.sg)):
        assert {error.pop("device") for error in result["errors"]} == {node}
    assert sorted(got["errors"], key=str) == sorted(want["errors"], key=str)


@pytest.mark.parametrize("line", ODD)
def test_unaligned_length_is_refused(smq_disk, line):
    before = smq_disk.done()
    done = sg_io("run", "--via", "smq", smq_disk.smq, "-", stdin=READ + line)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (f"sg_io: standard input:2: BYTES {line.split()[2]} is no multiple of 4, "
                           f"which prepared commands of {smq_disk.smq} need; --via bsg-uring takes "
                           "it\n")
    assert smq_disk.done() == before


def test_a_refusal_names_the_field(smq_disk):
    """The kernel's filter refuses a vendor's opcode to a user without privileges."""
    os.chmod(smq_disk.smq, 0o666)
    done = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", SG_IO, "run", "--via",
                           "smq", smq_disk.smq, "-"], input=READ + "c00000000000 none 0\n",
                          capture_output=True, text=True, timeout=vmdisk.TIMEOUT, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(
        f"sg_io: standard input:2: {smq_disk.smq}: cdb: the kernel's filter refuses the CDB")


@pytest.mark.parametrize("via,options", [
    ("smq", []), ("smq", ["--depth", 8, "--batch", 4]), ("bsg-uring", ["--depth", 8])])
@pytest.mark.parametrize("opts,name,sense", [
    (vmdisk.RECOVERED, "CHECK CONDITION", (1, 0x5d, 0)),
    (vmdisk.TRANSPORT, "CHECK CONDITION", (0xb, 0x4b, 3)),
    (vmdisk.SHORT, "UNDERRUN", None),
], ids=["recovered", "transport", "short"])
def test_injected_errors_are_counted(smq_disk, reads, via, options, opts, name, sense):
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


SEVERAL_OPTIONS = [["--depth", 16, "--batch", 8], ["--depth", 3, "--batch", 2, "--jobs", 2]]


@pytest.mark.parametrize("via,options", [
    ("smq", []), ("smq", ["--depth", 4]),
    *((via, options) for via in VIAS + ["sg", "block"] for options in SEVERAL_OPTIONS),
], ids=lambda o: o if isinstance(o, str) else " ".join(map(str, o)))
def test_several_devices_run_the_same_file(three, reads, via, options):
    before = [disk.done() for disk in three]
    got = run_json("--via", via, *options, "--count", 333, *(disk.smq for disk in three), reads)
    assert got["device"] == ",".join(disk.smq for disk in three)
    assert got["status"] == {"GOOD": 999}
    assert [disk.done() - b for disk, b in zip(three, before)] == [333] * 3


def test_each_device_has_batches_of_its_own(three):
    """Each device has batches of its own. If the devices shared a batch of 16, each entry in the
    ring would have only 5 or 6 commands."""
    tracing = pathlib.Path("/sys/kernel/tracing")
    # The event's name is io_uring_submit_sqe or io_uring_submit_req, depending on the kernel.
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
    assert "would use another path than" in done.stderr
    done = sg_io("run", three[0].smq, three[0].sd, reads)
    assert done.returncode == 2
    assert "are the same device" in done.stderr


@pytest.mark.smoke
def test_bsg_node_needs_linux_7_1(smq_disk, reads):
    done = sg_io("run", "--via", "bsg-uring", "--depth", "8", smq_disk.bsg, reads)
    if KERNEL >= (7, 1):
        assert (done.returncode, done.stderr) == (0, "")
        assert "status: 100 good, 0 not good" in done.stdout
        return
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (f"sg_io: {smq_disk.bsg}: bsg takes commands from io_uring since Linux "
                           f"7.1; {smq_disk.smq} takes them in this kernel\n")


def test_more_commands_than_slots_are_refused(smq_disk, tmp_path):
    path = tmp_path / "many"
    path.write_text(TUR * (1 << 20))
    done = sg_io("run", "--via", "smq", smq_disk.smq, path)
    assert done.returncode == 2
    assert "1048576 commands; --via smq needs a slot for each" in done.stderr


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


@pytest.mark.not_uml("it has no ext4")
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
        smq_disk.wipe()


def test_info_has_the_limits(smq_disk):
    got = json.loads(sg_io("info", "--json", smq_disk.smq).stdout)
    assert got["nodes"]["smq"] == smq_disk.smq
    folder = f"/sys/class/smq_sg/{os.path.basename(smq_disk.smq)}"
    assert list(got["smq"]) == ["depth", "inflight", "share", "waiting", "max_waiting", "refused",
                                "pool_share", "pool", "own_queue_exists", "max_transfer",
                                "max_segments", "checked_kernel"]
    # tests/vm/test_sg_unchecked.py has the other value.
    assert got["smq"].pop("checked_kernel") is True
    # The kernel may give back idle requests meanwhile.
    assert got["smq"].pop("pool") >= 0
    for name, value in got["smq"].items():
        with open(f"{folder}/{name}", encoding="ascii") as f:
            assert value == int(f.read())
    assert got["smq"]["depth"] == int(smq_disk.attribute("queue_depth"))
    assert (got["vendor"], got["model"]) == ("Linux", "scsi_debug")
    assert f"smqsg node             {smq_disk.smq}\n" in sg_io("info", smq_disk.sd).stdout


# Kept requests

def test_requests_are_kept_during_a_run(smq_disk):
    """The requests of the commands in flight are kept for the next ones. When the process has
    ended, none is left: its ring may still close a file then."""
    if smq_disk.smq_attribute("pool_share") == "0":
        pytest.skip("this kernel cannot keep requests")
    with subprocess.Popen([SG_IO, "run", "--via", "smq", "--depth", "4", "--time", "30",
                           smq_disk.smq, "-"], stdin=subprocess.PIPE, text=True) as user:
        user.stdin.write(READ)
        user.stdin.close()
        try:
            vmdisk.wait_for(lambda: int(smq_disk.smq_attribute("pool")) >= 1)
        finally:
            user.send_signal(signal.SIGINT)
        assert user.wait(30) == 128 + signal.SIGINT
    vmdisk.wait_for(lambda: smq_disk.smq_attribute("pool") == "0")


def test_old_name_of_the_path_smq(smq_disk, reads):
    """smq-held still works, as smq, and says so once, with any number of jobs."""
    why = "sg_io: --via smq-held: is another name of smq, which gains as much now\n"
    done = sg_io("run", "--json", "--via", "smq-held", "--depth", 4, "--jobs", 3, "--count", 600,
                 smq_disk.smq, reads)
    got = json.loads(done.stdout)
    assert (got["path"], got["status"], done.stderr) == ("smq", {"GOOD": 600}, why)
    table = sg_io("compare", "--json", "--via", "smq-held", "--rounds", 2, smq_disk.smq, reads)
    row, = json.loads(table.stdout)
    assert (row["path"], row["status"], table.stderr) == ("smq", {"GOOD": 200}, why)


def test_run_ends_when_its_device_is_removed(fast_path, three, reads):
    """If one of the disks is removed, the run on it ends, and the other disks' nodes stay."""
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


def test_smq_is_refused_without_the_module(three, reads):
    """Without smq_sg the path is refused. This test comes late, because it unloads the module."""
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


def test_sanitized_smq_run_finds_nothing(three, reads, tmp_path):
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
