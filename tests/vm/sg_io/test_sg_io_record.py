# SPDX-License-Identifier: GPL-2.0
# on: uml
# not on sanitize: it tests programs, which are the same there
"""sg_io record: records all commands that other programs send to a disk, and does not disturb other
users of tracing."""

import os
import pathlib
import signal
import subprocess
import tempfile
import time

import pytest
import vmdisk
from kit.fiojob import fio
from kit.host import run
from recorder import Recording, recording
from vmdisk import SG_IO, generate, run_json, set_param, sg_io

TRACING = pathlib.Path("/sys/kernel/tracing")
READ = "28000000000000000800 in 4096\n"


@pytest.fixture(name="disk", scope="module")
def disk_(three):
    """The first disk of the fixture three, because scsi_debug cannot be loaded twice."""
    return three[0]


def instances():
    return {path.name for path in (TRACING / "instances").iterdir()}


def test_each_command_is_recorded_with_cpu_and_time(disk, tmp_path):
    commands = [f"2800{8 * i:08x}00000800 in 4096 cpu={i % 2}\n" for i in range(50)]
    commands += ["000000000000 none 0 cpu=1\n", "35000000000000000000 none 0 cpu=0\n",
                 "2a000000000000000800 out 4096 pattern=ff cpu=0\n"]
    with recording(disk.sd, tmp_path / "r") as got:
        # Without --force sg_io reads the disk first, to look for a file system.
        run_json("--force", "--rate", 200, disk.sg, "-", stdin="".join(commands))
    assert got.status == 0
    want = [line.replace("pattern=ff", "pattern=lba").split() for line in commands]
    assert [[*line[:3], line[-1]] for line in got.lines] == [[*w[:3], w[-1]] for w in want]
    at = [int(line[-2].removeprefix("at=")) for line in got.lines]
    # sg_io run sends a command every 5 ms: the last of the 53 is due after 260 ms.
    assert at[0] == 0 and at == sorted(at) and at[-1] > 200_000
    assert got.summary["opcodes"] == {"READ(10)": 50, "TEST UNIT READY": 1,
                                      "SYNCHRONIZE CACHE(10)": 1, "WRITE(10)": 1}
    assert (got.summary["commands"], got.summary["lost"], got.summary["cpus"]) == (53, 0, 2)
    assert (got.summary["most_in_flight"], got.summary["not_good"]) == (1, 0)
    assert got.summary["lat_ns"]["p50"] > 0


def test_only_the_chosen_device_is_recorded(three, tmp_path):
    with recording(three[1].sg, tmp_path / "r") as got:
        run_json("--count", 20, three[0].sg, "-", stdin=READ)
        run_json("--count", 7, three[1].sg, "-", stdin=READ)
    assert len(got.lines) == 7


def test_unsupported_commands_are_left_out_and_reported(disk, tmp_path):
    lines = "c00000000000 in 64\n55000000000000001000 out 16\n" + READ
    with recording(disk.sg, tmp_path / "r") as got:
        run_json("--force", disk.sg, "-", stdin=lines, expect=1)
    assert got.status == 1
    assert [line[0] for line in got.lines] == ["28000000000000000800"]
    assert got.summary["left_out_opcodes"] == {"opcode C0h": 1, "MODE SELECT(10)": 1}
    assert got.summary["not_good"] == 2
    assert "# c00000000000 ? at=" in got.text and "# left out: " in got.text


def test_messages_go_to_standard_error(disk):
    with subprocess.Popen([SG_IO, "record", "--count", "5", disk.sd], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as user:
        assert user.stderr.readline() == f"recording {disk.sd} ({disk.hctl})\n"
        run_json("--count", 9, disk.sg, "-", stdin=READ.replace("\n", " cpu=0\n"))
        out, err = user.communicate(timeout=30)
    assert user.returncode == 0
    assert len(out.splitlines()) == 7 and out.startswith(f"# sg_io record {disk.sd} (")
    assert out.splitlines()[1].startswith("# an empty timer was ")
    assert err.startswith(f"{disk.sd}: 5 commands in ") and "  READ(10) 5\n" in err
    assert " s from 1 CPU, at most " in err
    assert "events lost: 0\n" in err


def test_count_ends_the_recording(disk, tmp_path):
    """With --count the recording ends with the last command, and does not wait for another one."""
    got = Recording(disk.sd, tmp_path / "r", "--count", 3)
    run_json("--count", 3, disk.sg, "-", stdin=READ)
    got.end(None)
    assert (got.status, len(got.lines), got.summary["lat_ns"]["p50"] > 0) == (0, 3, True)


def test_time_ends_the_recording(disk, tmp_path):
    start = time.monotonic()
    got = Recording(disk.sd, tmp_path / "r", "--time", 0.5).end(None)
    assert got.status == 0 and time.monotonic() - start >= 0.5
    assert (got.summary["commands"], got.lines) == (0, [])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_recording_with_a_complete_file(disk, reads, tmp_path, number):
    got = Recording(disk.sd, tmp_path / "r")
    with subprocess.Popen([SG_IO, "run", "--time", "60", "--depth", "8", disk.sg, reads],
                          stdout=subprocess.DEVNULL) as load:
        before = disk.done()
        vmdisk.wait_for(lambda: disk.done() > before + 500)
        got.process.send_signal(number)
        # On a slow machine the load would leave sg_io record no CPU time to write its file.
        load.send_signal(signal.SIGINT)
        load.wait(30)
    got.end(None)
    assert got.status == 0
    assert got.text.endswith("\n") and len(got.lines) == got.summary["commands"] > 400
    assert not {name for name in instances() if name.startswith("sg_io.")}
    # sg_io run accepts the file unchanged and completely.
    assert run_json(disk.sg, got.path)["commands"] == got.summary["commands"]


def test_a_signal_ends_the_writing_of_a_recording(disk, tmp_path):
    """sg_io blocks while it writes, because nothing reads the pipe and the output does not fit into
    the pipe. A second signal ends sg_io."""
    path = generate(tmp_path / "g", "--op", "read10", "--count", 5000)
    before = instances()
    with subprocess.Popen([SG_IO, "record", disk.sd], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as user:
        assert user.stderr.readline().startswith("recording ")
        run_json(disk.sg, path)
        user.send_signal(signal.SIGINT)
        # The recording has ended, and sg_io is writing.
        vmdisk.wait_for(lambda: instances() == before)
        with pytest.raises(subprocess.TimeoutExpired):
            user.wait(2)
        user.send_signal(signal.SIGINT)
        assert user.wait(30) == -signal.SIGINT


def test_an_older_recording_stays_until_the_new_one_is_complete(disk, tmp_path):
    path = tmp_path / "r"
    path.write_text("old\n" * 1000, encoding="ascii")
    with recording(disk.sd, path) as got:
        run_json("--count", 2, disk.sg, "-", stdin=READ)
        assert path.read_text(encoding="ascii") == "old\n" * 1000
    assert len(got.lines) == 2 and "old" not in got.text


def test_without_tracing_no_file_is_touched(disk):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        folder.chmod(0o777)
        old = folder / "old"
        old.write_text("old\n", encoding="ascii")
        old.chmod(0o666)
        for path in (old, folder / "new"):
            done = subprocess.run(
                ["setpriv", "--reuid", "65534", "--clear-groups", SG_IO, "record", "-o", path,
                 disk.sd], capture_output=True, text=True, timeout=30, check=False)
            assert (done.returncode, done.stdout) == (3, "")
            assert done.stderr.startswith("sg_io: tracing needs root: ")
        assert [path.name for path in folder.iterdir()] == ["old"]
        assert old.read_text(encoding="ascii") == "old\n"


def test_unreadable_counts_of_losses_are_an_error(disk, tmp_path):
    got = Recording(disk.sd, tmp_path / "r")
    stats = TRACING / f"instances/sg_io.{got.process.pid}/per_cpu/cpu0/stats"
    run("mount", "--bind", "/dev/null", stats)
    run_json("--count", 3, disk.sg, "-", stdin=READ)
    got.end()
    assert (got.status, got.summary["lost"], got.summary["commands"]) == (1, None, 3)
    assert "more events may have been lost" in got.messages
    assert "\n# 0 or more events lost: commands may be missing\n" in got.text


def test_lost_events_are_counted_and_reported(disk, tmp_path):
    got = Recording(disk.sd, tmp_path / "r", "--buffer", 4)
    # A stopped sg_io does not read the buffers: events that do not fit are lost.
    got.process.send_signal(signal.SIGSTOP)
    path = generate(tmp_path / "g", "--op", "read10", "--count", 5000)
    run_json(disk.sg, path)
    got.process.send_signal(signal.SIGCONT)
    got.end()
    lost = got.summary["lost"]
    assert got.status == 1
    # Each command has a start and an end event; a buffer of a few pages holds some of them.
    assert 0 < len(got.lines) < 5000 and lost <= 10000
    assert lost >= 10000 - 2 * len(got.lines) - 64
    assert f"{lost} events were lost, commands are missing: --buffer 4 was too small" in \
        got.messages
    assert f"\n# {lost} events lost: commands are missing\n" in got.text


def test_other_users_of_tracing_see_no_difference(disk, tmp_path):
    """Another user's events, buffer and clock stay unchanged, and that user's recorded events stay
    readable."""
    names = ("tracing_on", "trace_clock", "buffer_size_kb", "current_tracer",
             "events/scsi/enable", "events/scsi/scsi_dispatch_cmd_start/filter")
    enable = TRACING / "events/scsi/scsi_dispatch_cmd_start/enable"
    (TRACING / "trace").write_text("")
    enable.write_text("1")
    try:
        before = {name: (TRACING / name).read_text() for name in names}
        there = instances()
        with recording(disk.sd, tmp_path / "r", "--buffer", 64) as got:
            assert len(instances() - there) == 1
            run_json("--count", 10, disk.sg, "-", stdin=READ)
        run_json("--count", 5, disk.sg, "-", stdin=READ)
        assert {name: (TRACING / name).read_text() for name in names} == before
        assert instances() == there
        assert len(got.lines) == 10
        seen = (TRACING / "trace").read_text()
        assert seen.count("scsi_dispatch_cmd_start:") == 15
    finally:
        enable.write_text("0")
        (TRACING / "trace").write_text("")


def test_recordings_run_at_the_same_time(three, tmp_path):
    with recording(three[0].sd, tmp_path / "a") as a, recording(three[1].sd, tmp_path / "b") as b, \
            recording(three[0].sd, tmp_path / "c") as c:
        run_json("--count", 11, three[0].sg, three[1].sg, "-", stdin=READ)
    assert [len(got.lines) for got in (a, b, c)] == [11, 11, 11]


def test_tracing_of_a_killed_recording_is_removed(disk, tmp_path):
    got = Recording(disk.sd, tmp_path / "r")
    mine = f"sg_io.{got.process.pid}"
    got.process.kill()
    got.process.communicate(timeout=30)
    assert mine in instances()
    Recording(disk.sd, tmp_path / "r", "--time", 0.1).end(None)
    assert not {name for name in instances() if name.startswith("sg_io.")}


def test_record_needs_root(disk, tmp_path):
    """Without root's rights sg_io prints one message and fails."""
    done = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", SG_IO, "record",
                           disk.sd], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("sg_io: tracing needs root: ") and done.stderr.count("\n") == 1


def test_full_output_is_an_error(disk, tmp_path):
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([SG_IO, "record", "--time", "0.2", disk.sd], stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=30, check=False)
    assert done.returncode == 3
    assert "standard output: No space left on device" in done.stderr


def test_output_file_is_opened_before_the_recording_begins(disk, tmp_path):
    path = tmp_path / "absent/f"
    done = subprocess.run([SG_IO, "record", "--output", path, disk.sd], capture_output=True,
                          text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"sg_io: {path}: No such file or directory\n"


def test_merged_requests_are_recorded(disk, tmp_path):
    """The recording has the requests of the block layer, not the I/Os of the program."""
    (disk.queue / "nomerges").write_text("0")
    try:
        with recording(disk.sd, tmp_path / "r") as got:
            fio(disk.sd, rw="write", bs="4k", size="8m", ioengine="libaio", iodepth=16,
                iodepth_batch_submit=16)
    finally:
        (disk.queue / "nomerges").write_text("2")
    written = [int(line[2]) for line in got.lines if line[1] == "out"]
    assert sum(written) == 8 << 20
    assert len(written) < (8 << 20) / 4096


def test_record_built_with_sanitizers_has_no_findings(disk, reads, tmp_path):
    san = vmdisk.ROOT / "build/tools/sg_io-san/sg_io"
    if not san.exists():
        pytest.skip("not built: make -C tools/src/sg_io SANITIZE=1")
    with subprocess.Popen([san, "record", "--count", "50", "-o", tmp_path / "r", disk.sd],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, "ASAN_OPTIONS": "exitcode=99"}) as user:
        user.stderr.readline()
        sg_io("run", disk.sg, reads)
        out, err = user.communicate(timeout=60)
    assert (user.returncode, err) == (0, "")
    assert out.startswith(f"{disk.sd}: 50 commands")
    set_param("delay", 0)
