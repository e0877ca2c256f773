# SPDX-License-Identifier: GPL-2.0
"""Measures how long the kernel's busy delays take on this machine."""
import sys
from pathlib import Path

from .host import load, unload

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools" / "bench"))

from wallclock import load as inkernel  # noqa: E402

SHORT_US, COUNT = 20, 5000


def udelay_ns(micros: int) -> float:
    """The time of an undisturbed udelay(micros), in ns. Measures many short delays, because on a
    busy machine every long one is disturbed. A kernel whose udelay() counts loop iterations, by a
    rate measured at boot, may take only half of the requested time."""
    load("smq_load")
    try:
        job, = inkernel.run("delay", count=COUNT, warmup=100, delay_ns=SHORT_US * 1000)
    finally:
        unload("smq_load")
    return min(job.per_command()) * micros / SHORT_US
