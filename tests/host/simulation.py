# SPDX-License-Identifier: GPL-2.0
"""Builds and runs the simulations of the policies."""
import functools
import json
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUT = HERE.parents[1] / "build/tests/host"


@functools.cache
def program(name):
    """Builds tests/host/NAME.c, with sanitizers; returns the program's path."""
    OUT.mkdir(parents=True, exist_ok=True)
    subprocess.run(["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1",
                    "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
                    "-o", OUT / name, HERE / f"{name}.c"], check=True, timeout=60)
    return OUT / name


def simulated(name, *words):
    """Runs a simulation, which must succeed; returns what it prints: JSON, or nothing."""
    done = subprocess.run([program(name), *map(str, words)], capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return json.loads(done.stdout or "null")
