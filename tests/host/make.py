# SPDX-License-Identifier: GPL-2.0
"""Runs make for one test file at a time: test files run at the same time, and a test cannot run a
program while another test links it."""

import fcntl
import subprocess
from pathlib import Path

LOCK = Path(__file__).resolve().parents[2] / "build/tests/host/make.lock"


def make(folder, *args, timeout=120):
    """Waits until no other test runs make; then runs make in @folder."""
    LOCK.parent.mkdir(parents=True, exist_ok=True)
    with LOCK.open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(["make", "-s", "-C", folder, *args], check=True, timeout=timeout)
