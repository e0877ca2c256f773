# SPDX-License-Identifier: GPL-2.0
"""Runs fio with a time limit and checks its result: either the test waits for fio, or it goes on
while fio runs."""
import json
import os
import signal
import subprocess
from contextlib import contextmanager

from .sanitizing import TIME_FACTOR

# tools/check sets SMQ_FIO to a build of the same source that starts faster.
FIO = os.environ.get("SMQ_FIO", "fio")
# fio's exit status when a signal ended it early.
INTERRUPTED = 128


def fio_argv(filename: str, program: str = FIO, **options) -> list[str]:
    """The command line of fio with one job, or numjobs copies of it.

    Underscores in option names are kept; True gives a flag without a value. """
    # With allow_file_create fio would create a file in place of a node that was removed.
    settings = {"name": "job", "filename": filename, "direct": 1, "group_reporting": True,
                "allow_file_create": 0, "output_format": "json"} | options
    argv = [program]
    for key, value in settings.items():
        name = "output-format" if key == "output_format" else key
        if value is True:
            argv.append(f"--{name}")
        elif value is not False and value is not None:
            argv.append(f"--{name}={value}")
    return argv


def fio_report(argv: list[str], status: int, out: str, err: str, ok: bool,
               stopped: bool = False) -> dict:
    """Returns fio's JSON. Raises an AssertionError if @ok and fio reported an error. @stopped: a
    signal was sent to end fio early."""
    start = out.find("{")
    assert start >= 0, f"{' '.join(argv)}: no JSON\n{out}{err}"
    report, _ = json.JSONDecoder().raw_decode(out[start:])
    if ok:
        errors = [job["error"] for job in report["jobs"]]
        good = status == 0 or stopped and status == INTERRUPTED
        assert good and not any(errors), (
            f"{' '.join(argv)}: status {status}, errors {errors}\n{out[:start]}{err}")
    return report


def fio(filename: str, limit: float = 120, ok: bool = True, **options) -> dict:
    """Runs fio and returns its JSON; fails when it takes longer than @limit seconds or,
    with @ok, reports an error."""
    argv = fio_argv(filename, **options)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=limit * TIME_FACTOR,
                          check=False, stdin=subprocess.DEVNULL)
    return fio_report(argv, done.returncode, done.stdout, done.stderr, ok)


class Load:
    """fio that runs beside the test."""

    def __init__(self, filename: str, ok: bool, limit: float, options: dict):
        # If the jobs are threads, one signal to the process ends all jobs.
        self._argv = fio_argv(filename, **{"thread": True} | options)
        self._ok, self._limit, self._report = ok, limit * TIME_FACTOR, None
        # pylint: disable=consider-using-with
        self._job = subprocess.Popen(self._argv, stdin=subprocess.DEVNULL, text=True,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    @property
    def running(self) -> bool:
        """Whether fio is still running."""
        return self._job.poll() is None

    def signal(self, number: int) -> None:
        """Sends fio a signal."""
        self._job.send_signal(number)

    def kill(self) -> None:
        """Kills fio, which then has no result."""
        self._job.kill()
        self._job.communicate(timeout=self._limit)
        self._report = {"jobs": []}

    def result(self, stop: bool = False) -> dict:
        """Waits until fio has ended, and returns its JSON. @stop: interrupts fio first."""
        if self._report is None:
            if stop and self.running:
                self._job.send_signal(signal.SIGINT)
            out, err = self._job.communicate(timeout=self._limit)
            self._report = fio_report(self._argv, self._job.returncode, out, err, self._ok, stop)
        return self._report


@contextmanager
def load_on(filename: str, ok: bool = True, limit: float = 60, to_end: bool = False, **options):
    """Runs fio during the block. At the end of the block stops fio or, with @to_end, waits for
    it."""
    load = Load(filename, ok, limit, options)
    try:
        yield load
        load.result(stop=not to_end)
    except BaseException:
        load.kill()
        raise


def total_ios(report: dict) -> int:
    """How many reads, writes and trims fio has counted, including those of a verify phase."""
    return sum(job[kind]["total_ios"] for job in report["jobs"]
               for kind in ("read", "write", "trim"))
