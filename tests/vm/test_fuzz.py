# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize
"""A short run of the load of tools/fuzz: it runs and finds no fault."""
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
SECONDS = 10
# In seconds. This includes loading the modules, the end of the last processes, and unloading.
LIMIT = 150


@pytest.mark.limit(LIMIT)
def test_one_round_of_the_fuzzer_finds_nothing():
    """One round with one seed succeeds, prints the seed first, and counts each kind of command."""
    done = subprocess.run([sys.executable, "-B", str(TOP / "tests/fuzz"), "--seed=1",
                           f"--seconds={SECONDS}"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("seed 1\n"), done.stdout
    for name in ("SQE run", "SQE batch", "RUN", "SQE ad hoc", "SG_IO v3", "own read"):
        assert f"\n{name} " in done.stdout, f"no {name!r} in\n{done.stdout}"
