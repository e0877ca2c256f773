# SPDX-License-Identifier: GPL-2.0
"""udevd, which does not run in the VM otherwise."""
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

from .host import wait_for

UDEVD = "/lib/systemd/systemd-udevd"
RUN = Path("/run/udev")


@contextmanager
def program(*argv):
    """Runs a daemon in the foreground during the block."""
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()
            process.wait(20)


@contextmanager
def udevd():
    """Runs udevd. Removes udev's files at the end: while they exist libdevmapper waits for udev."""
    RUN.mkdir(exist_ok=True)
    try:
        with program(UDEVD):
            wait_for("udevd", (RUN / "control").exists)
            yield
    finally:
        shutil.rmtree(RUN)
