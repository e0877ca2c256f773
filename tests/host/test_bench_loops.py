# SPDX-License-Identifier: GPL-2.0
"""The programs whose I/O the bench measures issue as many I/Os as asked."""

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
