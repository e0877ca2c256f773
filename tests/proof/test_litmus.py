# SPDX-License-Identifier: GPL-2.0
"""The barriers that our code depends on, in the kernel's memory model: the forbidden outcome of
each litmus test cannot occur, and it can occur if any one of the barriers is missing.
tests/host/test_litmus_code.py checks that the code has the lines that the tests quote."""

import subprocess

import litmus
import pytest

HERD = litmus.TOP / "tools/herd"
TESTS = {one.name: one for one in litmus.everything()}


@pytest.fixture(scope="session", autouse=True)
def herd():
    """Downloads herd7 and the model if they are missing."""
    subprocess.run([HERD, "prepare"], check=True, timeout=1200)


def observed(text, tmp_path):
    """How often herd7 observes the outcome of a litmus test: Never, Sometimes or Always."""
    path = tmp_path / "test.litmus"
    path.write_text(text, encoding="ascii")
    done = subprocess.run([HERD, "run", path], capture_output=True, text=True, timeout=120,
                          check=False)
    lines = [line.split() for line in done.stdout.splitlines()
             if line.startswith("Observation ")]
    assert done.returncode == 0 and len(lines) == 1, done.stdout + done.stderr
    return lines[0][2]


@pytest.mark.parametrize("name", TESTS)
def test_forbidden_outcome_never_occurs(name, tmp_path):
    assert observed(TESTS[name].text, tmp_path) == "Never"


@pytest.mark.parametrize("name, weak", [(name, weak) for name, one in TESTS.items()
                                        for weak in one.weak])
def test_each_barrier_is_needed(name, weak, tmp_path):
    assert observed(TESTS[name].weakened(weak), tmp_path) == "Sometimes"
