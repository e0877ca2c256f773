# SPDX-License-Identifier: GPL-2.0
"""Work items that may sleep for long do not run in the kernel's own workqueues: many of them, on the
LUNs of one stuck host, would take all workers, and delay the work items of others."""
import re
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
# The kernel's workqueues, except kblockd, whose functions the block layer defines.
KERNELS = re.compile(r"\b(?:schedule_\w*work\w*\(|queue_\w*work\w*\([^&;]*\bsystem_\w+)[^&;]*"
                     r"&([\w>.-]+)")
# Work items that run there, with the reason why they cannot take all workers.
SHORT = {
    ("drivers/conv/queue.c", "cu->cl->follow"): "does not sleep: it sets a queue_depth",
    ("drivers/pvscsi/device.c", "pv->msg_work"): "one work item for each host",
    ("drivers/virtio/event.c", "vs->event_work"): "one work item for each host",
}


def test_only_short_work_runs_in_the_kernels_workqueues():
    found = {(str(path.relative_to(TOP)), item)
             for path in (TOP / "drivers").rglob("*.[ch]")
             for item in KERNELS.findall(path.read_text(encoding="utf-8"))}
    assert found == set(SHORT)
