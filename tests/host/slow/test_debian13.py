# SPDX-License-Identifier: GPL-2.0
"""Debian 13 as the host: in a clean system tools/deps finds all packages, the linters find nothing,
the counting plugins run with its QEMU, and its own kernel boots and passes tests in the VM.

Needs root, mmdebstrap, access to Debian's archive and 6 GB below /tmp."""
import subprocess

import pytest
from chroot import TOP, Root

GROUPS = "build run bench lint kernels"
STEPS = {
    "packages": f"tools/deps install {GROUPS} >/tmp/deps.log 2>&1 || {{ tail -n 40 /tmp/deps.log; "
                f'exit 1; }}; [ -z "$(tools/deps missing {GROUPS})" ]',
    "build": "make -s tools && tools/kernels prepare 6.1 && "
             "tools/build-modules --strict --kernel 6.12 SMQ_TESTS=1 && "
             "tools/build-modules --strict --kernel 6.1 SMQ_TESTS=1",
    "lint": "tools/lint",
    "plugins": "python3 -B -m pytest -p no:cacheprovider -q tests/host/test_bench_plugins.py",
    "vm": "tools/vm --kernel 6.12 --timeout 900 -- python3 -B -m pytest -p no:cacheprovider -q "
          "-m smoke tests/vm/test_io.py tests/vm/test_data.py",
}


@pytest.fixture(name="root", scope="module")
def _root(tmp_path_factory):
    """A clean Debian 13, with the tree in /root/smq."""
    root = Root(tmp_path_factory.mktemp("debian13") / "root", "trixie", "ca-certificates")
    try:
        tree = root.path / "root/smq"
        tree.mkdir()
        files = subprocess.run(["git", "ls-files", "-z"], cwd=TOP, capture_output=True, check=True,
                               timeout=60).stdout
        packed = subprocess.run(["tar", "--null", "-T-", "-c"], cwd=TOP, input=files,
                                capture_output=True, check=True, timeout=60).stdout
        subprocess.run(["tar", "-x"], cwd=tree, input=packed, check=True, timeout=60)
        yield root
    finally:
        root.remove()


def test_debian_13_builds_lints_counts_and_boots(root):
    """In one test, because each step needs the one before."""
    for name, script in STEPS.items():
        print(f"== {name}")
        root.run(f"export HOME=/root; cd /root/smq; {script}")
