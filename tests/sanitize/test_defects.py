# SPDX-License-Identifier: GPL-2.0
"""A run under the sanitizing kernel fails on each kind of defect that a checker of that kernel
reports.

These tests run on the host and boot a guest for each defect, because some checkers report nothing
after another checker's first report."""

import re
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
LIMIT = 120
REPORT = 99

DEFECTS = {
    "use_after_free": "BUG: KASAN: slab-use-after-free in .*use_after_free",
    "out_of_bounds": "BUG: KASAN: slab-out-of-bounds in .*out_of_bounds",
    "vmalloc_out_of_bounds": "BUG: KASAN: vmalloc-out-of-bounds in ",
    "array_bounds": "UBSAN: array-index-out-of-bounds in .*smq_defect.c",
    "shift": "UBSAN: shift-out-of-bounds in .*smq_defect.c",
    "lock_inversion": "WARNING: possible circular locking dependency detected",
    "irq_unsafe": "WARNING: inconsistent lock state",
    "sleep_in_atomic": "BUG: sleeping function called from invalid context",
    "no_rcu_lock": "WARNING: suspicious RCU usage",
    "timer_freed": "ODEBUG: free active .* hint: irq_unsafe_take",
    "list_added_twice": "list_add double add",
    "leak": "smq_defect.c:[0-9]+ module smq_defect func:leak has [1-9][0-9]* allocated",
}


def sanitize(*command):
    """Runs a command under the sanitizing kernel."""
    return subprocess.run([TOP / "tools/uml", "--flavour", "sanitize", "--timeout", str(LIMIT),
                           "--", *command], capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL, timeout=LIMIT + 60)


@pytest.mark.parametrize("defect", DEFECTS)
def test_defect_is_reported(defect):
    done = sanitize("sh", "-c", f"modprobe smq_defect defect={defect}; rmmod smq_defect")
    assert done.returncode == REPORT, done.stdout + done.stderr
    assert "the kernel reported a fault" in done.stderr
    assert re.search(DEFECTS[defect], done.stderr), done.stderr


def test_run_without_a_defect_passes():
    """smq_defect refuses an unknown name; smq_ram is loaded, used and unloaded. The kernel reports
    no fault."""
    done = sanitize("sh", "-c", "modprobe smq_defect defect=none; modprobe -a sd_mod smq_ram && "
                    "until [ -b /dev/sda ]; do sleep 0.1; done; "
                    "dd if=/dev/zero of=/dev/sda bs=64k count=16 oflag=direct status=none && "
                    "until rmmod smq_ram; do sleep 0.1; done")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "could not insert 'smq_defect': Invalid argument" in done.stderr
