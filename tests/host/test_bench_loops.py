# SPDX-License-Identifier: GPL-2.0
"""The programs whose I/O the bench measures: they refuse bad input, with a line that names it, and
issue as many I/Os as asked."""

import json
import subprocess
from pathlib import Path

import pytest
from make import make

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "build" / "tools" / "bench"


@pytest.fixture(name="run", scope="module")
def fixture_run():
    """Builds the programs; yields a function that runs one."""
    make(ROOT / "tools/bench")

    def run(program, *arguments):
        return subprocess.run([BUILT / program, *arguments], capture_output=True, text=True,
                              timeout=20, check=False)
    return run


@pytest.mark.parametrize("program, arguments, message", [
    ("uring", ["--bs", "511", "/dev/null"], "--bs: '511' is not a number from 512 to 1048576"),
    ("uring", ["--depth", "2000", "/dev/null"], "--depth: '2000' is not a number from 1 to 1024"),
    ("uring", ["--count", "1,,2", "/dev/null"], "--count: '' is not a number"),
    ("uring", ["--count", "1,2,3,4,5,6,7,8,9", "/dev/null"], "--count: more than 8 numbers"),
    ("uring", ["--warmup", "-1", "/dev/null"], "--warmup: '-1' is not a number"),
    ("uring", [], "DEVICE: give 1 to 16"),
    ("uring", ["/dev/null"] * 17, "DEVICE: give 1 to 16"),
    ("uring", ["--jobs", "129", "/dev/null"],
     "--jobs: '129' is not a number from 1 to 128"),
    ("sgio", ["--bs", "700", "/dev/null"], "--bs: 700 is no multiple of 512"),
    ("uring", ["--frobnicate"], "usage: uring"),
    ("waits", ["--frobnicate"], "usage: waits"),
    ("waits", ["--path", "v4", "/dev/null"], "--path: 'v4' is none of run, batch, ioctl, read"),
    ("waits", ["/dev/null", "/dev/null"], "DEVICE: give one"),
    ("passthrough", ["--path", "read", "/dev/null"],
     "--path: 'read' is none of run, run-lba, batch, adhoc, v4"),
    ("passthrough", ["--bs", "700", "/dev/null"], "--bs: 700 is no multiple of 512"),
    ("passthrough", ["--path", "batch", "--batch", "5", "/dev/null"],
     "--batch: 5 does not divide --depth 32"),
    ("passthrough", [], "DEVICE: give 1 to 16"),
    ("passthrough", ["--tur", "--path", "run-lba", "/dev/null"], "--tur: has no LBA"),
    ("inkernel", ["--bs", "8192", "/dev/null"], "--bs: '8192' is not a number from 512 to 4096"),
    ("inkernel", [], "DEVICE: give 1 to 16"),
    ("uring", ["--chunk", "0", "/dev/null"], "--chunk: '0' is not a number from 1 to 1000000000"),
    ("uring", ["--chunk", "5", "--count", "6000", "/dev/null"],
     "--chunk: 5: --count 6000 has more than 1024 such chunks"),
    ("passthrough", ["--chunk", "1", "--count", "9,1025", "/dev/null"],
     "--chunk: 1: --count 1025 has more than 1024 such chunks"),
    ("sgio", [], "DEVICE: give 1 to 16"),
    ("sgio", ["--again", "--jobs", "2", "/dev/null"], "--again: for one job, not 2"),
    ("sgio", ["--cpu", "1", "/dev/null"], "--cpu: only with --again"),
    ("passthrough", ["--cpu", "1024", "/dev/null"], "--cpu: '1024' is not a number from 0 to 1023"),
    ("static/aio", ["--bs", "511", "/dev/null"], "--bs: '511' is not a number from 512 to"),
    ("static/aio", ["--depth", "0", "/dev/null"], "--depth: '0' is not a number from 1 to 1024"),
    ("static/aio", [], "DEVICE: give 1 to 16 devices"),
    ("static/aio", ["--jobs", "0", "/dev/null"], "--jobs: '0' is not a number from 1 to 128"),
    ("sgio", ["--timeout", "0", "/dev/null"], "--timeout: '0' is not a number from 1 to 86400"),
])
def test_bad_arguments_are_named(run, program, arguments, message):
    """The program names the argument and exits with status 2."""
    done = run(program, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert not done.stdout


@pytest.mark.parametrize("program, device, message", [
    ("uring", "/nonexistent", "/nonexistent: No such file or directory"),
    ("uring", "/dev/null", "/dev/null: Invalid argument"),
    ("sgio", "/dev/null", "/dev/null: Inappropriate ioctl for device"),
    ("static/sgio", "/dev/null", "/dev/null: Inappropriate ioctl for device"),
    ("passthrough", "/dev/null", "/dev/null: Inappropriate ioctl for device"),
    ("inkernel", "/dev/null", "/sys/kernel/debug/smq_load/run: No such file or directory"),
    ("static/aio", "/dev/null", "/dev/null: Invalid argument"),
])
def test_bad_device_is_named(run, program, device, message):
    """The program names the device, prints no figure and exits with status 1."""
    done = run(program, device)
    assert done.returncode == 1
    assert message in done.stderr
    assert not done.stdout


def test_failing_job_ends_all_jobs(run):
    """If a job fails, the other jobs end: they do not wait for it."""
    done = run("uring", "/nonexistent", "/dev/null")
    assert done.returncode == 1


def test_aio_completes_every_io(run, tmp_path):
    """Every I/O completes, even if the last batch is not full."""
    (tmp_path / "file").write_bytes(bytes(8192))
    for depth, batch in ((1, 1), (32, 16), (3, 16), (16, 5)):
        done = run("static/aio", "--depth", str(depth), "--batch", str(batch), "--count", "7,101",
                   str(tmp_path / "file"))
        assert done.returncode == 0, done.stderr
        assert [json.loads(line)["count"] for line in done.stdout.splitlines()] == [7, 101]


def test_each_aio_job_issues_all_its_ios(run, tmp_path):
    """With ten disks or one, and two jobs or one, each job issues all of its I/Os."""
    disks = [tmp_path / str(n) for n in range(10)]
    for disk in disks:
        disk.write_bytes(bytes(8192))
    for jobs, names in ((1, disks), (2, disks), (2, disks[:1])):
        done = run("static/aio", "--now", "--jobs", str(jobs), "--count", "9,33",
                   *map(str, names))
        assert done.returncode == 0, done.stderr
        first = json.loads(done.stdout.splitlines()[0])
        assert (first["jobs"], len(first["devices"]), first["warmup"]) == (jobs, len(names), 1000)


@pytest.mark.parametrize("more", [[], ["--write-read"]])
def test_orders_are_obeyed(more):
    """With --again a program sends commands that may fail until its input ends, and does runs when
    it is told to."""
    make(ROOT / "tools/bench")

    def obey(orders):
        return subprocess.run([BUILT / "sgio", "--again", *more, "/dev/null"], input=orders,
                              capture_output=True, text=True, timeout=20, check=False)
    done = obey("use 3\nuse 12\n")
    assert done.returncode == 0 and not done.stderr
    # Reads and writes of /dev/null succeed, and leave the header as it was: without a status.
    failed = [0, 0] if more else [3, 12]
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"used": count, "failed": one} for count, one in zip((3, 12), failed)]
    done = obey("use 1\nmeasure\n")
    assert done.returncode == (0 if more else 1)
    assert [json.loads(line)["count"] for line in done.stdout.splitlines()[1:]] == (
        [2000, 6000] if more else [])
    assert more or "/dev/null: Inappropriate ioctl for device" in done.stderr
    done = obey("use many\n")
    assert done.returncode == 1 and "Invalid argument" in done.stderr
