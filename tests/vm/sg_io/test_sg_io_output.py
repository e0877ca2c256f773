# SPDX-License-Identifier: GPL-2.0
# on: uml
# not on sanitize: it tests programs, which are the same there
"""What sg_io run tells beside its result: the log of all commands, lines while it lasts, and what
it leaves out."""

import collections
import csv
import json
import os
import re
import subprocess
import time

import pytest
import vmdisk
from vmdisk import run_json, sg_io

BEYOND = "2800000fffff00000800 in 4096\n"
TUR = "000000000000 none 0\n"
READ = "28000000000000000800 in 4096\n"


def log_of(path):
    with open(path, encoding="ascii") as f:
        return list(csv.DictReader(f))


@pytest.mark.parametrize("via", ["sg", "smq"])
def test_log_has_every_command(three, tmp_path, via):
    nodes = [disk.smq if via == "smq" else disk.sg for disk in three]
    got = run_json("--log", tmp_path / "log", "--via", via, "--depth", 4, "--jobs", 2, "--count",
                   300, *nodes, "-", stdin=READ + BEYOND + TUR, expect=1)
    rows = log_of(tmp_path / "log")
    assert collections.Counter((row["device"], row["line"]) for row in rows) == {
        (node, line): 100 for node in nodes for line in "123"}
    assert {tuple(row[k] for k in ("line", "command", "result", "sense")) for row in rows} == {
        ("1", "READ(10)", "GOOD", ""), ("2", "READ(10)", "CHECK CONDITION", "5/21/00"),
        ("3", "TEST UNIT READY", "GOOD", "")}
    # The same commands are in the result.
    assert got["commands"] == 900
    ends = [float(row["issued_us"]) + float(row["took_us"]) for row in rows]
    assert max(ends) == pytest.approx(got["seconds"] * 1e6, rel=0.001)


def test_log_loses_no_command_when_it_is_slow(smq_disk, reads, tmp_path):
    """The reader of the log waits until the worker's memory for it is full."""
    os.mkfifo(tmp_path / "log")
    with subprocess.Popen([vmdisk.SG_IO, "run", "--log", tmp_path / "log", "--depth", "16",
                           "--via", "block", "--batch", "8", "--count", "100k", smq_disk.sd, reads],
                          stdout=subprocess.PIPE, text=True) as run:
        with open(tmp_path / "log", encoding="ascii") as log:
            before = 0
            # No command ends for a second: the run waits for the log.
            while smq_disk.done() - before:
                before = smq_disk.done()
                time.sleep(1)
            assert run.poll() is None
            rows = list(csv.DictReader(log))
        assert "102400 commands" in run.stdout.read()
    assert run.returncode == 0
    assert set(collections.Counter(row["line"] for row in rows).values()) == {1024}


def test_log_that_cannot_be_written(smq_disk, tmp_path):
    before = smq_disk.done()
    done = sg_io("run", "--log", tmp_path / "no/log", smq_disk.sg, "-", stdin=READ)
    assert (done.returncode, smq_disk.done()) == (3, before)
    assert "no/log: No such file or directory" in done.stderr
    done = sg_io("run", "--log", "/dev/full", "--count", 1000, smq_disk.sg, "-", stdin=READ)
    assert done.returncode == 3
    assert "/dev/full: No space left on device" in done.stderr


def test_what_ends_in_the_warm_up_is_not_counted(smq_disk):
    """The first commands fail, but they end before the warm-up does."""
    got = run_json("--warm-up", 2, "--rate", 500, "--count", 1500, smq_disk.sg, "-",
                   stdin=5 * BEYOND + 1495 * READ)
    assert got["status"] == {"GOOD": got["commands"]} and got["errors"] == []
    assert got["commands"] + got["uncounted"] == 1500
    assert got["uncounted"] >= 5 and got["commands"] > 0
    # --time is the time after the warm-up.
    got = run_json("--warm-up", 2, "--time", 1, smq_disk.sg, "-", stdin=READ)
    assert got["uncounted"] > 0 < got["commands"]


def test_lines_while_a_run_lasts(three):
    args = ("--interval", 0.5, "--time", 2, "--depth", 8, "--jobs", 2, three[0].smq,
            three[1].smq, "-")
    done = sg_io("run", "--json", *args, stdin=READ + BEYOND)
    assert done.returncode == 1, done.stderr
    *lines, text = done.stdout.split("\n", done.stdout.count("\n{"))
    lines, whole = [json.loads(line) for line in lines], json.loads(text)
    assert 1 < len(lines) <= lines[-1]["to"] / 0.5 + 1
    assert [line["from"] for line in lines] == [0, *(line["to"] for line in lines[:-1])]
    assert all(line["lat_ns"]["p50"] > 0 for line in lines if line["commands"])
    assert sum(line["commands"] for line in lines) == whole["commands"]
    assert sum(line["not_good"] for line in lines) == whole["status"]["CHECK CONDITION"]
    for nth, device in enumerate(whole["devices"]):
        parts = [line["devices"][nth] for line in lines]
        assert {part["device"] for part in parts} == {device["device"]}
        assert sum(part["commands"] for part in parts) == device["commands"]
    assert whole["interrupted"] is False
    done = sg_io("run", *args, stdin=READ)
    assert re.match(r"0\.000 to \d\.\d{3} s: \d+ commands, .*, 0 not good\n  /dev/smqsg\d: ",
                    done.stdout)
