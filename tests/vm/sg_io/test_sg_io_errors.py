# SPDX-License-Identifier: GPL-2.0
# on: uml
# not on sanitize: it tests programs, which are the same there
"""sg_io counts the commands that are not good by kind of result, and decodes the results."""

import json

import pytest
import vmdisk
from vmdisk import run_json, set_param, sg_io

BEYOND = "2800000fffff00000800 in 4096\n"
TUR = "000000000000 none 0\n"
READ = "28000000000000000800 in 4096\n"
pytestmark = pytest.mark.usefixtures("fast_path")


@pytest.mark.parametrize("via,depth", [("sg", 1), ("sg", 4), ("bsg", 1), ("bsg", 3)])
@pytest.mark.parametrize("dsense", [0, 1])
def test_lba_out_of_range_is_decoded(disk, via, depth, dsense):
    set_param("dsense", dsense)
    before = disk.done()
    got = run_json("--via", via, "--depth", depth, "--count", 50, disk.node[via], "-",
                   stdin=f"{TUR}{READ}#\n{BEYOND}{READ}{BEYOND}", expect=1)
    assert disk.done() - before == 50
    assert got["commands"] == 50
    assert got["status"] == {"GOOD": 30, "CHECK CONDITION": 20}
    assert len(got["errors"]) == 1
    error = got["errors"][0]
    assert (error["count"], error["line"], error["status"]) == (20, 4, 2)
    assert (error["host"], error["errno"]) == (0, None)
    assert error["sense"] == {"key": 5, "asc": 0x21, "ascq": 0}
    assert "Illegal Request" in error["text"]
    assert "Logical block address out of range" in error["text"]


def test_text_result(disk):
    done = sg_io("run", disk.sg, "-", stdin=READ + BEYOND)
    assert done.returncode == 1
    assert "status: 1 good, 1 not good" in done.stdout
    assert "1 x CHECK CONDITION: Illegal Request (5h): Logical block address out of range " \
        "(21h/00h); first at line 2" in done.stdout
    assert done.stderr == ""


def test_unknown_opcode(disk):
    got = run_json(disk.bsg, "-", stdin="c00000000000 none 0\n", expect=1)
    assert got["errors"][0]["sense"] == {"key": 5, "asc": 0x20, "ascq": 0}


@pytest.fixture
def inject():
    def start(opts, every_nth):
        # scsi_debug injects some kinds only if commands take time.
        set_param("ndelay", 1000)
        set_param("every_nth", 0)
        set_param("opts", opts)
        set_param("every_nth", every_nth)
    yield start
    set_param("every_nth", 0)
    set_param("opts", 0)
    set_param("delay", 0)


@pytest.mark.parametrize("via,options", [
    ("sg", []), ("sg", ["--depth", 8]), ("bsg", []), ("smq", []),
    ("smq", ["--depth", 8, "--batch", 4]), ("bsg-uring", ["--depth", 8])])
@pytest.mark.parametrize("opts,name,sense", [
    (vmdisk.RECOVERED, "CHECK CONDITION", (1, 0x5d, 0)),
    (vmdisk.TRANSPORT, "CHECK CONDITION", (0xb, 0x4b, 3)),
    (vmdisk.SHORT, "UNDERRUN", None),
], ids=["recovered", "transport", "short"])
def test_injected_errors_are_counted(disk, inject, reads, via, options, opts, name, sense):
    inject(opts, 10)
    got = run_json("--via", via, *options, "--count", 200, disk.node[via], reads, expect=1)
    assert got["commands"] == 200
    assert set(got["status"]) == {"GOOD", name}
    assert got["status"]["GOOD"] + got["status"][name] == 200
    assert 10 <= got["status"][name] <= 40
    error = got["errors"][0]
    assert error["count"] == got["status"][name]
    assert error["sense"] == (sense and dict(zip(("key", "asc", "ascq"), sense)))


@pytest.mark.parametrize("via,depth", [("sg", 1), ("sg", 4), ("bsg", 1)])
def test_command_times_out(disk, inject, via, depth):
    inject(vmdisk.TIMES_OUT, 5)
    try:
        done = sg_io("run", "--json", "--via", via, "--depth", depth, "--count", 8,
                     disk.node[via], "-", stdin=READ.strip() + " timeout=1000\n")
    finally:
        vmdisk.settle(disk)
    got = json.loads(done.stdout)
    assert got["commands"] == 8
    assert sum(got["status"].values()) == 8
    # At least one command took a second, which is its timeout.
    assert got["lat_ns"]["p999"] >= 1_000_000_000
    timed_out = [error for error in got["errors"] if "DID_TIME_OUT" in error["text"]]
    if via == "bsg" and not timed_out:
        # Error handling may retry a bsg command, which then ends GOOD.
        assert (done.returncode, got["status"]) == (0, {"GOOD": 8})
    else:
        assert done.returncode == 1
        assert timed_out
