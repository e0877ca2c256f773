# SPDX-License-Identifier: GPL-2.0
# on: uml 7.2
# not on sanitize: it tests programs, which are the same there
"""sg_io through smq_sg: prepared slots, ad hoc commands, and several devices."""

import json
import os
import pathlib
import re
import signal
import subprocess

import pytest
import vmdisk
from kit.host import unload
from vmdisk import SG_IO, compare, generate, most_in_flight, run_json, set_param, sg_io

VIAS = ["smq", "bsg-uring"]
TUR = "000000000000 none 0\n"
READ = "28000000000000000800 in 4096\n"
BEYOND = "2800000fffff00000800 in 4096\n"
KERNEL = tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups()))


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


def test_smq_is_refused_without_the_module(three, reads):
    """Without smq_sg the path is refused. This test comes late, because it unloads the module."""
    disk = three[0]
    unload("smq_sg")
    try:
        done = sg_io("run", "--via", "smq", disk.sg, reads)
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr == (f"sg_io: {disk.sg}: has no smq node, which --via smq needs "
                               "(modprobe smq_sg)\n")
        got = json.loads(sg_io("info", "--json", disk.sg).stdout)
        assert got["nodes"]["smq"] is None and got["smq"] is None
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
                 *(["run", "--depth", "9", *(disk.node[via] for disk in three[:2]), reads]
                   for via in ("sg", "bsg", "block")),
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
