# SPDX-License-Identifier: GPL-2.0
# on: uml
# not on sanitize: it tests programs, which are the same there
"""sg_io compare: runs every path to a device in turn, and reports paths that cannot run."""

import json
import os
import re
import signal
import subprocess
import time

import pytest
import vmdisk
from vmdisk import SG_IO, compare, sg_io

TUR = "000000000000 none 0\n"
READ = "28000000000000000800 in 4096\n"
BEYOND = "2800000fffff00000800 in 4096\n"
KERNEL = tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups()))


def by_bsg_uring(disk, rows):
    """The row of io_uring on the bsg node, which only some kernels support."""
    row, = [r for r in rows if (r["path"], r["node"]) == ("bsg-uring", disk.bsg)]
    return row


@pytest.mark.smoke
@pytest.mark.parametrize("node", ["sd", "sg", "bsg", "smq", "hctl"])
def test_compare_runs_every_path(smq_disk, reads, node):
    before = smq_disk.done()
    rows = compare("--rounds", 3, "--depth", 4, "--batch", 2, getattr(smq_disk, node), reads)
    assert [(r["path"], r["node"]) for r in rows] == [
        ("sg", smq_disk.sg), ("bsg", smq_disk.bsg), ("bsg-uring", smq_disk.bsg),
        ("bsg-uring", smq_disk.smq), ("smq", smq_disk.smq), ("block", smq_disk.sd)]
    ran = [r for r in rows if r["why"] is None]
    if KERNEL < (7, 1):
        assert "bsg takes commands from io_uring since Linux 7.1" in \
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


def test_compare_reports_a_path_that_cannot_run(smq_disk):
    rows = compare("--via", "block,smq,sg", "--rounds", 2, smq_disk.sd, "-", stdin=READ + TUR)
    assert [r["path"] for r in rows] == ["block", "smq", "sg"]
    assert rows[0]["why"] == ("standard input:2: TEST UNIT READY (opcode 00h): block takes only "
                              "READ and WRITE; --via sg takes all")
    assert (rows[0]["commands"], rows[0]["ns_per_command"], rows[0]["ratio"]) == (0, None, None)
    # sg_io compares the others with the first path that ran.
    assert rows[1]["ratio"] == 1 and rows[2]["ratio"] is not None
    assert [r["commands"] for r in rows] == [0, 4, 4]


def test_compare_rereads_a_file_on_standard_input(smq_disk, tmp_path):
    """Each turn reads the file from its beginning."""
    path = tmp_path / "reads"
    path.write_text(READ * 3, encoding="ascii")
    with path.open(encoding="ascii") as file:
        done = subprocess.run([SG_IO, "compare", "--json", "--rounds", "2", "--via", "sg,smq",
                               smq_disk.smq, "/dev/stdin"], stdin=file, text=True, check=False,
                              capture_output=True, timeout=vmdisk.TIMEOUT)
    assert (done.returncode, done.stderr) == (0, "")
    assert [row["commands"] for row in json.loads(done.stdout)] == [6, 6]


def test_compare_counts_commands_that_are_not_good(smq_disk):
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


def test_compare_keeps_time_and_rate(smq_disk, reads):
    rows = compare("--rounds", 2, "--via", "smq,sg", "--time", 0.3, "--rate", 200, smq_disk.smq,
                   reads)
    for row in rows:
        assert 1 <= row["commands"] <= 2 * 61
        assert row["ns_per_command"] >= 4_000_000


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_compare(smq_disk, reads, number):
    before = smq_disk.done()
    with subprocess.Popen([SG_IO, "compare", "--json", "--via", "smq,sg", "--time", "60",
                           smq_disk.smq, reads], stdout=subprocess.PIPE) as user:
        vmdisk.wait_for(lambda: smq_disk.done() > before + 100)
        user.send_signal(number)
        out, _ = user.communicate(timeout=30)
        assert user.returncode == 128 + number
    # The current turn ended as usual, with the results that it had so far.
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
