# SPDX-License-Identifier: GPL-2.0
"""The modules and tools on arm64: cross-built, and smoke tests under qemu-system-aarch64. One test
file for each kernel calls check(): needs root, and access to Debian's archive."""
import os
import re
import shutil
import subprocess

import pytest
from chroot import TOP

# The files of tests/vm whose smoke tests run there: they show that the kernel boots, loads the
# modules, moves data that fio verifies, and has the policies, smq_conv and the fast path.
FILES = ("conv", "data", "io", "kit", "policy", "sg_async", "sg_own", "sg_pool", "sg_rings",
         "sg_slots", "stats", "unload")
# In seconds, on a busy machine.
BUILD_LIMIT, VM_LIMIT = 1200, 2400
# The fio that tools/check has built runs on this machine only.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "SMQ_FIO"}


def run(*words, limit=BUILD_LIMIT):
    """Runs a program of the tree, and prints its output."""
    done = subprocess.run([TOP / words[0], *words[1:]], cwd=TOP, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
                          check=False, timeout=limit, env=ENVIRONMENT)
    print(f"$ {' '.join(words)}: {done.returncode}\n{done.stdout}")
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


def build(kernel):
    """Builds the modules for a kernel of tools/kernels, without a warning."""
    if os.geteuid():
        pytest.skip("not root")
    run("tools/kernels", "prepare", kernel)
    run("tools/build-modules", "--strict", "--kernel", kernel, "SMQ_TESTS=1")


def check(kernel, folder):
    """Builds everything and runs the smoke tests, of which at most one in twenty may be skipped."""
    if not shutil.which("qemu-system-aarch64"):
        pytest.skip("no qemu-system-aarch64: tools/deps install arm64")
    # The compiler for the tools is in this one's folder.
    run("tools/kernels", "prepare", "6.1-arm64")
    build(kernel)
    run("tools/userland", "prepare")
    run("tools/userland", "tools")
    tests = [f"tests/vm/test_{name}.py" for name in FILES]
    text = run("tools/vm", "--arch", "arm64", "--kernel", kernel, "--timeout", f"{VM_LIMIT - 60}",
               "--log", f"{folder}/console", "--", "python3", "-B", "-m", "pytest", "-p",
               "no:cacheprovider", "--color=no", "--tb=short", "-q", "-m", "smoke", *tests,
               limit=VM_LIMIT)
    passed, skipped = (sum(map(int, re.findall(rf"(\d+) {word}", text.splitlines()[-1])))
                       for word in ("passed", "skipped"))
    assert passed > 100 and skipped * 20 <= passed, text[-1000:]
