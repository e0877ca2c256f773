# SPDX-License-Identifier: GPL-2.0
"""What the kernel's busy delays take on this machine."""
import sys
from pathlib import Path

from .host import load, unload

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools" / "bench"))

from wallclock import load as inkernel  # noqa: E402

SHORT_US, COUNT = 20, 5000


def udelay_ns(micros: int) -> float:
    """Of udelay(micros), undisturbed: many short ones, for a long one is disturbed each time on a
    busy machine. Where a kernel counts turns of a loop, which it timed while it booted, it can be
    half of what is asked for."""
    load("smq_load")
    try:
        job, = inkernel.run("delay", count=COUNT, warmup=100, delay_ns=SHORT_US * 1000)
    finally:
        unload("smq_load")
    return min(job.per_command()) * micros / SHORT_US
