# SPDX-License-Identifier: GPL-2.0
"""The modules are built for every headers package that suites of Debian serve. One test file for
each system, and one for clang, calls check(): needs root, mmdebstrap, and access to Debian's
archive."""
import os
import shutil
import subprocess

import pytest
from chroot import TOP

# Two minutes for the system, and one for each kernel; a busy machine needs several times as long.
LIMIT = 3600


def check(capsys, *words):
    """Builds with these arguments, and prints which kernels were built. A kernel of a newer series
    than this project knows may fail: the test is skipped then, and says so."""
    if os.geteuid():
        pytest.skip("not root")
    if not shutil.which("mmdebstrap"):
        pytest.skip("no mmdebstrap: tools/deps install dkms")
    done = subprocess.run([TOP / "tools/build-suites", *words], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, timeout=LIMIT)
    with capsys.disabled():
        print(f"\n{done.stdout}")
    assert done.returncode == 0, done.stdout
    newer = [line for line in done.stdout.splitlines() if "newer than known," in line]
    if newer:
        pytest.skip("\n".join(newer))
