# SPDX-License-Identifier: GPL-2.0
"""Debian 13 as the host: in a clean system tools/deps finds all packages, the linters find nothing,
the tests on the host pass, the counting plugins run with its QEMU, its own kernel boots and passes
tests in the VM, and the demo ends well.

Needs root, mmdebstrap, access to Debian's archive and 6 GB below /tmp."""
import subprocess

import pytest
from chroot import TOP, Root

GROUPS = "build run bench lint kernels top examples"
# The tests on the host without those that boot other VMs or need what is not here (fio's source,
# git's history), and without the models in plain C that take long: they are the same on each host.
LEFT_OUT = ("bench_legacy", "bench_native", "bench_run", "bench_virtio",
            "conv_shutdown", "fio_build", "smqtop_cost", "uml", "versions", "vm",
            "bucket", "depth", "depth_sim", "full_queue", "hold", "sg_explore", "steer_explore")
PYTEST = "python3 -B -m pytest -p no:cacheprovider -q"
STEPS = {
    "packages": f"tools/deps install {GROUPS} >/tmp/deps.log 2>&1 || {{ tail -n 40 /tmp/deps.log; "
                f'exit 1; }}; [ -z "$(tools/deps missing {GROUPS})" ]',
    "build": "make -s tools && tools/kernels prepare 6.1 && "
             "tools/build-modules --strict --kernel 6.12 SMQ_TESTS=1 && "
             "tools/build-modules --strict --kernel 6.1 SMQ_TESTS=1",
    "lint": "tools/lint",
    "host": f"{PYTEST} tests/host --ignore=tests/host/slow " +
            " ".join(f"--ignore=tests/host/test_{name}.py" for name in LEFT_OUT),
    "vm": f"tools/vm --kernel 6.12 --timeout 900 -- {PYTEST} -m smoke tests/vm/test_io.py "
          "tests/vm/test_data.py",
    "demo": "tools/demo",
}


@pytest.fixture(name="root", scope="module")
def _root(tmp_path_factory):
    """A clean Debian 13, with the tree in /root/smq."""
    root = Root(tmp_path_factory.mktemp("debian13") / "root", "trixie", "ca-certificates,mount")
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


def test_debian_13_builds_lints_tests_counts_and_boots(root):
    """In one test, because each step needs the one before."""
    for name, script in STEPS.items():
        print(f"== {name}")
        root.run(f"export HOME=/root; mount -t sysfs sysfs /sys; cd /root/smq; {script}")
