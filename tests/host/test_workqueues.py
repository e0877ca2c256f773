# SPDX-License-Identifier: GPL-2.0
"""Work items that may sleep for long, for tags or for commands, do not delay those of others. Many
of them, on the LUNs of one stuck host, would take all that a workqueue runs at a time."""
import re
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
# Uses of the kernel's workqueues, except kblockd, whose functions the block layer defines.
KERNELS = re.compile(r"\b(?:schedule_\w*work\w*\(|queue_\w*work\w*\([^&;]*\bsystem_\w+)[^&;]*"
                     r"&([\w>.-]+)")
# Workqueues that run 256 work items at a time, on 7.2 1024.
DEFAULT = re.compile(r'\balloc_workqueue\("([^"]+)",[^;,]*,\s*0[,)]')
# Work items in the kernel's workqueues, with the reason why they cannot take all workers.
SHORT = {
    ("drivers/conv/kept.c", "cl->kept_scan"): "does not sleep: it gives requests back",
    ("drivers/conv/queue.c", "cu->cl->follow"): "does not sleep: it sets a queue_depth",
    ("drivers/pvscsi/device.c", "pv->msg_work"): "one work item for each host",
    ("drivers/virtio/event.c", "vs->event_work"): "one work item for each host",
}
# Workqueues with the default limit, with the reason why it is enough.
ENOUGH = {
    ("drivers/conv/attach.c", "smq_attach"): "each attached host has one, which does not sleep",
    ("drivers/core/host.c", "smq_%d"): "each host has one",
    ("drivers/core/hold.c", "smq_hold_%d"): "each host has one",
    ("drivers/sg/module.c", "smq_sg"): "its work items do not sleep for tags",
}


def found(pattern):
    """What a pattern finds in the modules: (file, name)."""
    return {(str(path.relative_to(TOP)), name) for path in (TOP / "drivers").rglob("*.[ch]")
            for name in pattern.findall(path.read_text(encoding="utf-8"))}


def test_only_short_work_runs_in_the_kernels_workqueues():
    assert found(KERNELS) == set(SHORT)


def test_workqueues_with_the_default_limit_run_enough():
    assert found(DEFAULT) == set(ENOUGH)
