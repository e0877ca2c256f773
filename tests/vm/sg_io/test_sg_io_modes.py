# SPDX-License-Identifier: GPL-2.0
# on: uml
# not on sanitize: it tests programs, which are the same there
"""The modes of sg_io replay, its report of itself, and when it ends: on every path."""

import contextlib
import csv
import json
import os
import pty
import re
import signal
import subprocess

import pytest
import vmdisk
from recorder import recording, replay, verify
from vmdisk import run_json, set_param, sg_io

READ = "28000000000000000800 in 4096"
MODES = ["time", "max", "load", "depend"]


@pytest.fixture(name="disk", scope="module")
def disk_(three):
    return three[0]


@pytest.fixture
def slow():
    """Commands take 5 ms."""
    set_param("ndelay", 5_000_000)
    yield
    set_param("delay", 0)


def load(count=80):
    """WRITEs of the same few blocks by two CPUs, and READs, with up to 4 in flight."""
    lines = []
    for n in range(count):
        lba = 8 * (n * 7 % 11)
        op = "28" if n % 4 == 3 else "2a"
        data = "in 4096" if n % 4 == 3 else f"out 4096 pattern=tag:1:{n}"
        lines.append(f"{op}00{lba:08x}00000800 {data} at={1000 * n} cpu={n // 3 % 2} took=3500\n")
    return "".join(lines)


@pytest.mark.parametrize("via,more", [("sg", []), ("bsg", ["--depth", 1]), ("bsg-uring", []),
                                      ("smq", []), ("smq", ["--pace", "user"]), ("block", [])])
@pytest.mark.parametrize("mode", MODES)
def test_each_mode_leaves_the_right_data(disk, tmp_path, slow, via, more, mode):
    node = disk.bsg if via == "bsg" else disk.smq
    path = tmp_path / "load"
    path.write_text(load(), encoding="ascii")
    got = replay("--mode", mode, "--via", via, *more, "--record", tmp_path / "again", node, path,
                 expect={0, 1})
    assert (got["path"], got["mode"], got["status"]) == (via, mode, {"GOOD": 80})
    if mode == "max" and via != "bsg":
        assert got["waited_for_earlier"] > 0
    found = got["fidelity"]
    assert (found["mode"], found["commands"], found["missing"]) == (mode, 80, 0)
    if mode == "depend":
        assert (found["verdict"], found["violated"]) == ("faithful", 0)
    if mode == "max":
        assert found["verdict"] == "faithful"
    if mode == "load":
        assert found["original_in_flight"]["max"] == 4 and found["in_flight"]["max"] <= 6
    done = verify(disk.sd, path)
    assert (done["blocks"], done["differ"]) == (88, 0)


def record_run(disk, tmp_path, depth, count):
    """A recording of sg_io run with READs."""
    lines = "".join(f"2800{8 * n:08x}00000800 in 4096\n" for n in range(count))
    with recording(disk.sd, tmp_path / "original") as got:
        run_json("--via", "sg", "--depth", depth, disk.sg, "-", stdin=lines)
    assert len(got.lines) == count
    return got.path


def check_load(got):
    """The mean in flight is that of the original within 2 %, if the machine was fast enough."""
    ours, theirs = got["in_flight"], got["original_in_flight"]
    assert ours["max"] <= theirs["max"] + theirs["max"] // 4 + 1
    near = abs(ours["busy_mean"] / theirs["busy_mean"] - 1) <= 0.02
    assert near or got["timer_p99_ns"] > 50_000, got["why"]
    assert got["verdict"] == ("faithful" if near else None)


PACES = [("sg", []), ("smq", []), ("smq", ["--pace", "user"])]


@pytest.mark.parametrize("via,more", PACES)
def test_load_is_that_of_the_original(disk, tmp_path, slow, via, more):
    """As many commands are in flight on a device that is twice as fast."""
    path = record_run(disk, tmp_path, 6, 300)
    set_param("ndelay", 2_500_000)
    got = replay("--mode", "load", "--via", via, *more, "--record", tmp_path / "again", disk.smq,
                 path, expect={0, 1})["fidelity"]
    assert got["original_in_flight"]["max"] == 6
    check_load(got)


def test_dependencies_hold_on_a_slower_device(disk, tmp_path, slow):
    """One command at a time in the recording: without --mode depend they would overlap."""
    path = record_run(disk, tmp_path, 1, 40)
    set_param("ndelay", 20_000_000)
    again = tmp_path / "again"
    got = replay("--mode", "depend", "--record", again, disk.sg, path)
    assert (got["fidelity"]["verdict"], got["fidelity"]["in_flight"]["max"]) == ("faithful", 1)
    assert got["waited_for_earlier"] == 39
    with recording(disk.sd, again):
        replay("--mode", "max", disk.sg, path)
    done = sg_io("fidelity", "--json", "--mode", "depend", path, again)
    found = json.loads(done.stdout)
    assert (done.returncode, found["verdict"], found["violated"]) == (1, "violated", 39)
    # Within a window that is shorter than the pauses between commands nothing depends.
    done = sg_io("fidelity", "--mode", "depend", "--window", "0.000001", path, again)
    assert "dependencies: 0 violated" in done.stdout


def test_text_of_a_replay_ends_with_the_verdict(disk, tmp_path):
    path = tmp_path / "load"
    path.write_text(load(), encoding="ascii")
    done = sg_io("replay", "--mode", "depend", "--record", tmp_path / "again", disk.sg, path)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == \
        "faithful: 0 of 80 commands were issued before one that they depend on had ended"


def test_a_replay_that_cannot_be_recorded_does_not_begin(disk, tmp_path):
    before = disk.done()
    done = sg_io("replay", "--record", tmp_path / "none/x", disk.sg, "-",
                 stdin=f"{READ} at=0\n")
    assert (done.returncode, done.stdout) == (3, "") and "No such file" in done.stderr
    assert disk.done() == before


@pytest.mark.parametrize("via", ["sg", "smq"])
@pytest.mark.parametrize("mode", ["time", "max", "load"])
def test_loop_log_and_intervals(disk, tmp_path, via, mode):
    """Each pass begins when all commands have ended, and the log has the commands of all."""
    lines = "".join(f"{READ} at={2000 * n} cpu={n % 2} took=100\n" for n in range(20))
    done = sg_io("replay", "--json", "--via", via, "--mode", mode, "--loop", 3, "--interval", 0.01,
                 "--log", tmp_path / "log", disk.smq, "-", stdin=lines)
    assert done.returncode == 0, done.stderr
    *parts, last = split(done.stdout)
    assert last["commands"] == 60 and last["opcodes"] == {"READ(10)": 60}
    assert sum(part["commands"] for part in parts) == 60
    with open(tmp_path / "log", newline="", encoding="ascii") as text:
        rows = list(csv.DictReader(text))
    for line in range(1, 21):
        assert sum(int(row["line"]) == line for row in rows) == 3
    ended = sorted(float(row["issued_us"]) for row in rows)
    assert ended[0] >= 0 and (mode != "time" or ended[-1] > 3 * 38_000)


def split(text):
    """The JSON objects of a text."""
    decoder, found, text = json.JSONDecoder(), [], text.strip()
    while text:
        one, end = decoder.raw_decode(text)
        found.append(one)
        text = text[end:].lstrip()
    return found


@pytest.mark.parametrize("via", ["sg", "smq"])
def test_loop_without_end(disk, via):
    with subprocess.Popen([vmdisk.SG_IO, "replay", "--json", "--loop", "0", "--mode", "max",
                           "--via", via, disk.smq, "-"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as user:
        before = disk.done()
        user.stdin.write(f"{READ} cpu=0\n{READ} cpu=1\n".encode())
        user.stdin.close()
        vmdisk.wait_for(lambda: disk.done() > before + 20)
        user.send_signal(signal.SIGINT)
        got = json.loads(user.stdout.read())
        assert user.wait(30) == 130
    assert got["commands"] == got["opcodes"]["READ(10)"] > 18


@pytest.mark.limit(90)
@pytest.mark.parametrize("via,more", PACES)
def test_a_terminal_shows_the_progress(disk, tmp_path, via, more):
    """Also while the kernel issues the commands, before a chunk of them has ended."""
    path = tmp_path / "load"
    path.write_text("".join(f"{READ} at={20_000 * n} cpu=0\n" for n in range(3000)),
                    encoding="ascii")
    ours, theirs = pty.openpty()
    with subprocess.Popen([vmdisk.SG_IO, "replay", "--via", via, *more, disk.smq, path],
                          stdout=subprocess.DEVNULL, stderr=theirs) as user:
        os.close(theirs)
        shown, found = b"", []
        while not any(0 < done < 3000 for done in found):
            shown += os.read(ours, 4096)
            found = [int(done) for done in re.findall(rb"(\d+)/3000 commands", shown)]
        user.send_signal(signal.SIGINT)
        # Its last words need a reader.
        with contextlib.suppress(OSError):
            while os.read(ours, 4096):
                pass
        assert user.wait(30) == 130
    os.close(ours)


@pytest.mark.parametrize("via", ["sg", "smq"])
def test_the_warm_up_is_not_counted(disk, via):
    """The first commands fail, but in the warm-up; they do not end the replay either."""
    lines = "".join(f"28{'00ffffffff' if n < 5 else '0000000000'}00000800 in 4096 at={20_000 * n}\n"
                    for n in range(20))
    got = replay("--warm-up", 0.15, "--stop-when", "errors=1", "--via", via, disk.smq, "-",
                 stdin=lines)
    assert got["status"] == {"GOOD": got["commands"]}
    assert (got["stopped"], got["commands"] < 16) == (None, True)


@pytest.mark.parametrize("via", ["sg", "smq"])
@pytest.mark.parametrize("why,more", [("errors=3", []), ("late=2", []),
                                      ("inflight=4", ["--mode", "max"])])
def test_overload_ends_a_replay(disk, slow, via, why, more):
    command = "2800ffffffff00000800 in 4096" if why == "errors=3" else READ
    gap = 100 if why == "late=2" else 10_000
    lines = "".join(f"{command} at={gap * n} cpu=0\n" for n in range(200))
    depth = ["--depth", 1] if why == "late=2" else []
    args = ["--via", via, "--stop-when", why, *more, *depth, disk.smq, "-"]
    got = replay(*args, stdin=lines, expect=1)
    assert got["stopped"] == why.partition("=")[0]
    # The kernel has more commands already, and sends them until it is told to stop.
    assert got["commands"] < (10 if via == "sg" else 100)
    done = sg_io("replay", *args, stdin=lines)
    assert done.stdout.splitlines()[-1] == f"stopped early: --stop-when {got['stopped']}"
