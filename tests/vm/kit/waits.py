# SPDX-License-Identifier: GPL-2.0
"""The program tools/bench/loop/waits, which sends prepared commands and measures how long each
takes."""
import json
import os
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path

from .host import wait_for

PROGRAM = Path(__file__).parents[3] / "build/tools/bench/waits"


def node(lun) -> Path:
    """Waits until a LUN's node of smq_sg can be opened; returns its directory in sysfs."""
    link = lun.sysfs / "smq_generic"
    wait_for(f"the node of {lun.address}", lambda: link.exists() and
             os.path.exists(f"/dev/{link.resolve().name}"))
    return link.resolve()


def number(where: Path, name: str) -> int:
    """The number in an attribute of sysfs."""
    return int((where / name).read_text(encoding="ascii"))


class Waits:
    """The program waits, running beside the test."""

    def __init__(self, device: str, **options):
        argv = [str(PROGRAM), *(f"--{name}" if value is True else f"--{name}={value}"
                                for name, value in options.items() if value is not False), device]
        # pylint: disable=consider-using-with
        self.job = subprocess.Popen(argv, stdin=subprocess.DEVNULL, text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._report = None

    def kill(self) -> None:
        """Kills the process, and waits until it has ended."""
        self.job.kill()
        self.job.communicate(timeout=30)

    def result(self, limit: float = 60) -> dict:
        """Waits until the program has ended; returns its JSON report."""
        if self._report is None:
            out, err = self.job.communicate(timeout=limit)
            assert self.job.returncode == 0, f"{self.job.args}: {self.job.returncode}\n{out}{err}"
            self._report = json.loads(out)
            assert not self._report["pending"], f"no completion: {out}"
        return self._report


@contextmanager
def waits_on(device: str, **options):
    """Runs the program during the block, and kills it when the block ends."""
    job = Waits(device, **options)
    try:
        yield job
    finally:
        if job.job.poll() is None:
            job.job.send_signal(signal.SIGKILL)
        job.job.communicate(timeout=30)


def waits(device: str, **options) -> dict:
    """Runs the program to its end; returns its JSON report."""
    with waits_on(device, **options) as job:
        return job.result()
