# SPDX-License-Identifier: GPL-2.0
# on: uml
# not on sanitize: it tests programs, which are the same there
"""sg_io replay sends a recorded load again: order, times, and files that it refuses."""

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
import vmdisk
from kit.host import run
from recorder import by_cpu, recording, replay
from vmdisk import SG_IO, set_param, sg_io

READ = "28000000000000000800 in 4096"
WRITE = "2a000000000000000800 out 4096 pattern=lba"


@pytest.fixture(name="disk", scope="module")
def disk_(three):
    """The first disk of the fixture three, because scsi_debug cannot be loaded twice."""
    return three[0]


def test_no_command_is_sent_early(disk):
    """No command is sent before it is due. The last one is due after 0.4 s, at speed 2 after
    0.2 s."""
    lines = "".join(f"{READ} at={1000 + 20_000 * i} cpu={i % 2}\n" for i in range(21))
    for speed, least in ((1, 0.4), (2, 0.2), (0.5, 0.8)):
        got = replay("--speed", speed, disk.sg, "-", stdin=lines)
        assert got["status"] == {"GOOD": 21}
        assert (got["speed"], got["lanes"]) == (speed, 2)
        assert least <= got["seconds"] < least + 20
        error = got["issue_error_ns"]
        assert 0 < error["p50"] <= error["p99"] <= error["p999"] <= error["max"]
    got = replay("--mode", "max", disk.sg, "-", stdin=lines)
    assert (got["commands"], got["mode"], got["speed"], got["issue_error_ns"]) == (
        21, "max", None, None)


def test_replay_lists_its_device_and_the_slowest_commands(disk):
    """A process for each CPU sends the commands; the lists have those of all."""
    lines = "".join(f"{READ} at={1000 * i} cpu={i % 2}\n" for i in range(40))
    got = replay("--slowest", 100, disk.sg, "-", stdin=lines)
    assert [(one["device"], one["commands"], one["not_good"]) for one in got["devices"]] == [
        (disk.sg, 40, 0)]
    assert sorted(one["line"] for one in got["slowest"]) == list(range(1, 41))
    assert all(one["good"] and one["device"] == disk.sg for one in got["slowest"])
    # No command is issued before its time. The report has microseconds.
    assert all(round(one["issued"] * 1e6) >= 1000 * (one["line"] - 1) for one in got["slowest"])
    assert len(replay("--slowest", 3, disk.sg, "-", stdin=lines)["slowest"]) == 3


def test_gaps_are_kept(disk, tmp_path):
    at = [0, 0, 50_000, 51_000, 250_000]
    lines = "".join(f"2800{8 * i:08x}00000800 in 4096 at={us} cpu=0\n" for i, us in enumerate(at))
    with recording(disk.sg, tmp_path / "r") as got:
        replay(disk.sg, "-", stdin=lines)
    assert [int(line[0][4:12], 16) for line in got.lines] == [0, 8, 16, 24, 32]
    seen = [int(line[-2].removeprefix("at=")) for line in got.lines]
    # A command may be late, but not early. The recording counts time from the first command: if
    # that one is late, later commands seem early.
    late = seen[-1] - at[-1]
    assert late > -100_000 and seen[2] > 0


def test_a_line_without_a_time_follows_the_previous_line(disk, tmp_path):
    lines = f"{READ} at=0\n000000000000 none 0\n{READ} at=100000\n35000000000000000000 none 0\n"
    with recording(disk.sg, tmp_path / "r") as got:
        assert replay(disk.sg, "-", stdin=lines)["seconds"] >= 0.1
    assert [line[0][:2] for line in got.lines] == ["28", "00", "28", "35"]


@pytest.mark.parametrize("via", ["sg", "bsg-uring", "smq", "block"])
@pytest.mark.parametrize("options", [["--depth", 4], ["--mode", "max"]],
                         ids=lambda o: " ".join(map(str, o)))
def test_each_path_keeps_the_order(smq_disk, tmp_path, via, options):
    lines = "".join(f"2800{8 * i:08x}00000800 in 4096 at={100 * (i // 5)} cpu={i // 7 % 2}\n"
                    for i in range(300))
    with recording(smq_disk.sd, tmp_path / "r") as got:
        result = replay("--via", via, *options, smq_disk.smq, "-", stdin=lines)
    assert (result["path"], result["status"]) == (via, {"GOOD": 300})
    if result["overtaken"]:
        # Commands overtake others only if the device has no room, and sg_io reports this.
        assert options == ["--mode", "max"]
        return
    want = by_cpu(line.split() for line in lines.splitlines())
    assert {cpu: sorted(cdbs) for cpu, cdbs in by_cpu(got.lines).items()} == \
        {cpu: sorted(cdbs) for cpu, cdbs in want.items()}
    if "--mode" not in options:
        assert by_cpu(got.lines) == want


@pytest.mark.parametrize("via", ["sg", "smq"])
def test_commands_beyond_the_depth_are_late(smq_disk, via):
    """Commands take 50 ms, and only two may be in flight: the others are late. sg_io reports
    this."""
    set_param("ndelay", 50_000_000)
    try:
        got = replay("--via", via, "--depth", 2, smq_disk.smq, "-",
                     stdin=f"{READ} at=0 cpu=0\n" * 8)
    finally:
        set_param("delay", 0)
    assert got["status"] == {"GOOD": 8}
    assert got["waited_for_depth"] == 6
    assert got["issue_error_ns"]["max"] >= 150_000_000


@pytest.mark.parametrize("via,more", [("smq", ["--pace", "user"]), ("bsg-uring", [])])
def test_commands_beyond_the_limit_of_the_path_are_sent_again(smq_disk, via, more):
    """The path refuses commands beyond its limit. sg_io sends them again when others have ended,
    and each command runs once."""
    lines = "".join(f"2800{i:08x}00000100 in 512 at=0 cpu={i % 2}\n" for i in range(6000))
    refused = smq_disk.sysfs / "smq_sg" / smq_disk.smq.rpartition("/")[2] / "refused"
    before = int(refused.read_text())
    set_param("ndelay", 20_000_000)
    try:
        got = replay("--via", via, *more, "--depth", 1200, "--mode", "max", smq_disk.smq, "-",
                     stdin=lines)
    finally:
        set_param("delay", 0)
    assert int(refused.read_text()) > before
    assert got["status"] == {"GOOD": 6000}


def test_text_result(disk):
    done = sg_io("replay", disk.sg, "-", stdin=f"{READ} at=0 cpu=1\n000000000000 none 0\n")
    assert done.returncode == 0
    assert done.stdout.startswith(f"{disk.sg} via sg: 2 commands in ")
    assert "\n  TEST UNIT READY 1, READ(10) 1\n" in done.stdout
    assert "\nissue error: p50 " in done.stdout and "; speed 1, 2 CPUs\n" in done.stdout
    bad = sg_io("replay", disk.sg, "-", stdin="2800ffffffff00000800 in 4096 at=0 cpu=0\n")
    assert bad.returncode == 1 and "; speed 1, 1 CPU\n" in bad.stdout
    assert "Logical block address out of range" in bad.stdout


def test_a_failed_command_holds_no_other(disk):
    """Commands that conflict with a failed one are issued when it has failed."""
    lines = "2a00ffffffff00000100 out 512 at=0 cpu=0\n2800ffffffff00000100 in 512 at=0 cpu=1\n"
    got = replay("--mode", "max", disk.sg, "-", stdin=lines * 3, expect=1)
    assert got["commands"] == 6 and got["status"]["GOOD"] == 0


REFUSED = [
    (f"{READ} at=5 cpu=0\n{READ} at=4 cpu=0\n", "2: at=4 is before at=5 of line 1"),
    (f"{READ} at=5 cpu=999\n", "1: cpu=999 is not a CPU this process may run on; --fold-cpus puts"),
    (f"{READ} cpu=0\n", "no command has at="),
    (f"{READ} at=x\n", "1: at='x' is no number"),
    ("zz\n", "1: CDB: 'z' is no hex digit"),
    ("", "holds no command"),
]


@pytest.mark.parametrize("text,why", REFUSED)
def test_bad_files_are_refused(disk, text, why):
    before = disk.done()
    done = sg_io("replay", disk.sg, "-", stdin=text)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr and done.stderr.count("\n") == 1
    assert disk.done() == before


def test_commands_of_missing_cpus_are_folded(disk, tmp_path):
    """A recording of a larger machine: CPU N is N modulo the number here, in the order of time."""
    lines = "".join(f"2800{8 * n:08x}00000800 in 4096 at={500 * n} cpu={n * 37 % 64}\n"
                    for n in range(40))
    for options in [], ["--mode", "max"]:
        with recording(disk.sg, tmp_path / "r") as got:
            assert replay("--fold-cpus", *options, disk.sg, "-", stdin=lines)["status"] == {
                "GOOD": 40}
        assert by_cpu(got.lines) == by_cpu([
            f"2800{8 * n:08x}00000800 in 4096 at=0 cpu={n * 37 % 64 % os.cpu_count()}".split()
            for n in range(40)])
    assert sg_io("run", "--fold-cpus", disk.sg, "-", stdin=lines).returncode == 0


def test_times_of_different_cpus_may_overlap(disk):
    """Times must not go back on one CPU, but those of different CPUs may overlap, as when one file
    is appended to another. With --mode max times do not matter."""
    lines = f"{READ} at=9 cpu=0\n{READ} at=0 cpu=1\n{READ} at=5 cpu=1\n"
    assert replay(disk.sg, "-", stdin=lines)["status"] == {"GOOD": 3}
    back = f"{READ} at=5 cpu=0\n{READ} at=4 cpu=0\n"
    assert replay("--mode", "max", disk.sg, "-", stdin=back)["status"] == {"GOOD": 2}


@pytest.mark.not_uml("it has no ext4")
def test_a_mounted_disk_is_not_written(disk, tmp_path):
    there = tmp_path / "mnt"
    there.mkdir()
    run("modprobe", "ext4")
    run("mkfs.ext4", "-q", "-F", disk.sd)
    run("mount", "-t", "ext4", "-o", "ro", disk.sd, there)
    write = f"2a00{vmdisk.BLOCKS - 8:08x}00000800 out 4096 pattern=ff at=0\n"
    try:
        done = sg_io("replay", disk.sd, "-", stdin=write)
        assert (done.returncode, done.stdout) == (3, "")
        assert "is mounted on" in done.stderr and "refused without --force" in done.stderr
        assert replay(disk.sd, "-", stdin=f"{READ} at=0\n")["status"] == {"GOOD": 1}
        assert replay("--force", disk.sd, "-", stdin=write)["status"] == {"GOOD": 1}
    finally:
        run("umount", there)
        disk.wipe()


@pytest.mark.parametrize("via", ["sg", "smq"])
def test_signal_ends_replay_with_the_result_so_far(smq_disk, via):
    lines = "".join(f"{READ} at={10_000 * i} cpu=0\n" for i in range(10_000))
    before = smq_disk.done()
    with subprocess.Popen([SG_IO, "replay", "--json", "--via", via, smq_disk.smq, "-"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as user:
        user.stdin.write(lines.encode())
        user.stdin.close()
        vmdisk.wait_for(lambda: smq_disk.done() > before + 20)
        user.send_signal(signal.SIGINT)
        got = json.loads(user.stdout.read())
        assert user.wait(30) == 130
    assert 20 < got["commands"] < 10_000
    assert got["opcodes"] == {"READ(10)": got["commands"]}


def test_a_lack_of_cpus_is_reported(disk):
    """If every CPU has commands with cpu=, commands without cpu= share CPUs with them: sg_io
    warns, except with --mode max."""
    pinned = "".join(f"{READ} at=0 cpu={cpu}\n" for cpu in sorted(os.sched_getaffinity(0)))
    for text, mode, lines in ((pinned, "time", 0), (f"{pinned}{READ} at=0\n", "time", 1),
                              (f"{pinned}{READ} at=0\n", "max", 0)):
        done = sg_io("replay", "--mode", mode, disk.sg, "-", stdin=text)
        assert (done.returncode, done.stderr.count("\n")) == (0, lines)
        assert ("warning: lines without cpu= share" in done.stderr) is bool(lines)


@pytest.mark.parametrize("us", [0, 1_000_000])
def test_times_are_kept_with_and_without_awake(disk, us):
    lines = "".join(f"{READ} at={20_000 * i} cpu={i % 2}\n" for i in range(11))
    got = replay("--awake", us, disk.sg, "-", stdin=lines)
    assert got["status"] == {"GOOD": 11} and got["seconds"] >= 0.2


@contextlib.contextmanager
def long_replay(disk):
    """Starts a replay on two CPUs that takes minutes. Yields it, and the pids of its two processes,
    one for each CPU."""
    lines = "".join(f"{READ} at={10_000 * i} cpu={i % 2}\n" for i in range(10_000))
    before = disk.done()
    with subprocess.Popen([SG_IO, "replay", disk.sg, "-"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as user:
        user.stdin.write(lines.encode())
        user.stdin.close()
        user.stdin = None
        vmdisk.wait_for(lambda: disk.done() > before + 20)
        pids = Path(f"/proc/{user.pid}/task/{user.pid}/children").read_text().split()
        try:
            assert len(pids) == 2
            yield user, [int(pid) for pid in pids]
        finally:
            user.kill()


@pytest.mark.not_uml("its /proc does not list the children of a process")
def test_killed_process_ends_the_replay(disk):
    """If one CPU's process is killed, the replay and the other process end, with the results so
    far."""
    with long_replay(disk) as (user, pids):
        os.kill(pids[0], signal.SIGKILL)
        out, err = user.communicate(timeout=30)
        assert user.returncode == 3
        assert b"its process was ended by signal 9: the run ends early" in err
        assert b" good, 0 not good" in out
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.not_uml("its /proc does not list the children of a process")
def test_no_process_outlives_the_replay(disk):
    with long_replay(disk) as (user, pids):
        user.kill()
        user.wait(30)
        vmdisk.wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


def test_depth_is_refused_without_an_sg_node(disk):
    """sd's SG_IO sends one command at a time, so --depth is refused."""
    run("modprobe", "-r", "sg")
    try:
        done = sg_io("replay", disk.sd, "-", stdin=f"{READ} at=0\n")
        assert done.returncode == 3
        assert ("has one command at a time in flight without an sg node: use --depth 1"
                in done.stderr)
        got = replay("--depth", 1, disk.sd, "-", stdin=f"{READ} at=0\n")
        assert got["status"] == {"GOOD": 1}
    finally:
        run("modprobe", "sg")
        vmdisk.wait_for(lambda: list(disk.sysfs.glob("scsi_generic/*")))


def test_sanitized_replay_and_verify_find_nothing(smq_disk, tmp_path):
    san = vmdisk.ROOT / "build/tools/sg_io-san/sg_io"
    if not san.exists():
        pytest.skip("not built: make -C tools/src/sg_io SANITIZE=1")
    path = tmp_path / "f"
    path.write_text("".join(f"{line} at={50 * i} cpu={i % 2}\n"
                            for i, line in enumerate([READ, WRITE] * 100)), encoding="ascii")
    for args in (["replay", smq_disk.smq], ["replay", "--via", "sg", smq_disk.smq],
                 ["replay", "--mode", "max", "--depth", "3", smq_disk.sd],
                 ["verify", smq_disk.smq], ["verify", "--jobs", "2", smq_disk.sd]):
        done = subprocess.run([san, *args, path], capture_output=True, text=True, check=False,
                              timeout=vmdisk.TIMEOUT)
        assert (done.returncode, done.stderr) == (0, "")
