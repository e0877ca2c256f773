# SPDX-License-Identifier: GPL-2.0
"""tools/bench/run runs some instruments at the same time, and ends all of them on SIGTERM."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("bench_steps.py")

pytestmark = pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two CPUs")


def test_two_cpu_instruments_run_alone(tmp_path):
    """Two one-CPU instruments run at a time. After them the two-CPU instruments run, each alone."""
    done = subprocess.run(["/usr/bin/python3", PROGRAM, tmp_path, "2"], capture_output=True,
                          text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    one1, one2, one3, pair1, pair2 = (
        tuple(map(float, (tmp_path / name).read_text().split()))
        for name in ("one1", "one2", "one3", "pair1", "pair2"))
    began, ended = 0, 1
    assert max(one1[began], one2[began]) < min(one1[ended], one2[ended]) <= one3[began]
    assert max(one1[ended], one2[ended], one3[ended]) <= pair1[began]
    assert pair1[ended] <= pair2[began]


def test_sigterm_ends_running_instruments(tmp_path):
    """SIGTERM ends both running instruments, and no other one begins after that."""
    with subprocess.Popen(["/usr/bin/python3", PROGRAM, tmp_path, "60"],
                          stderr=subprocess.PIPE) as bench:
        end = time.monotonic() + 30
        while len(list(tmp_path.glob("*.began"))) < 2:
            assert time.monotonic() < end, "the first two instruments did not begin"
            time.sleep(0.05)
        bench.send_signal(signal.SIGTERM)
        bench.communicate(timeout=30)
        assert bench.returncode == 128 + signal.SIGTERM
    assert {path.name for path in tmp_path.glob("*.began")} == {"one1.began", "one2.began"}
    left = subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, text=True,
                          check=False)
    assert not left.stdout, left.stdout
