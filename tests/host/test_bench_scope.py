# SPDX-License-Identifier: GPL-2.0
"""The shadow call stack of the bench's plugins."""

import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
PLUGIN = HERE.parents[1] / "tools" / "bench" / "plugin"


def test_scope_charges_the_right_account(tmp_path):
    """Every way into and out of our modules is charged to the right account."""
    program = tmp_path / "scope"
    subprocess.run(["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1",
                    "-fsanitize=address,undefined", "-o", program,
                    HERE / "test_bench_scope.c", PLUGIN / "scope.c"], check=True, timeout=60)
    done = subprocess.run([program], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
