# SPDX-License-Identifier: GPL-2.0
"""The example of libsmq in Python."""

import os
import re
import subprocess

import pytest
import vmdisk

EXAMPLE = vmdisk.ROOT / "tools/libsmq/examples/latency.py"
LIBRARIES = vmdisk.ROOT / "build/tools/libsmq"


def example(*args):
    """Runs latency.py by Debian's own Python."""
    return subprocess.run(["/usr/bin/python3", "-B", EXAMPLE, *map(str, args)],
                          env={**os.environ, "LD_LIBRARY_PATH": str(LIBRARIES)},
                          capture_output=True, text=True, check=False, timeout=vmdisk.TIMEOUT)


@pytest.mark.smoke
def test_python_example_works(smq_disk):
    before = smq_disk.done()
    done = example(smq_disk.smq, 100)
    assert (done.returncode, done.stderr) == (0, "")
    one, batch = done.stdout.splitlines()
    assert re.fullmatch(r"one by one: 100 x GOOD; median [\d.]+ us, longest [\d.]+ us", one)
    found = re.fullmatch(r"as a batch: 100 x GOOD; ([\d.]+) us, ([\d.]+) us each", batch)
    assert float(found[2]) == pytest.approx(float(found[1]) / 100, abs=0.06)
    assert smq_disk.done() - before == 200


def test_example_counts_outcomes_that_are_not_good(smq_disk):
    """The example prints each outcome that is not good, with a count."""
    vmdisk.set_param("every_nth", 4)
    vmdisk.set_param("opts", vmdisk.RECOVERED)
    try:
        done = example(smq_disk.smq, 8)
    finally:
        vmdisk.set_param("opts", 0)
        vmdisk.set_param("every_nth", 0)
    assert done.returncode == 1 and not done.stderr
    for line in done.stdout.splitlines():
        assert re.search(r"6 x GOOD", line) and "2 x CHECK CONDITION: Recovered Error" in line


def test_example_says_when_the_library_is_missing():
    done = subprocess.run(["/usr/bin/python3", "-B", EXAMPLE, "/dev/null"], capture_output=True,
                          text=True, check=False, timeout=vmdisk.TIMEOUT,
                          env={k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"})
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "libsmq.so.1 is not installed" in done.stderr


def test_example_reports_a_wrong_device(smq_disk):
    for args, why in ((["/dev/null"], "/dev/null: not a /dev/smqsgN\n"),
                      (["/dev/absent"], "/dev/absent: No such file or directory\n")):
        done = example(*args)
        assert (done.returncode, done.stdout, done.stderr) == (1, "", why)
    assert example(smq_disk.smq, 0).returncode == 2
