# SPDX-License-Identifier: GPL-2.0
"""Measures the share of CPU time that is in use, by any process of the machine."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

STAT = Path("/proc/stat")
# The CPUs count as idle if, in a window of SECONDS, the share of their time that was in use is
# below BUSY.
SECONDS = 20
BUSY = 0.8


@dataclass(frozen=True)
class CpuTime:
    """Seconds of CPU time, summed over all CPUs, since the machine was started."""

    busy: float
    all: float

    def busy_since(self, before: "CpuTime") -> float:
        """The share of CPU time that was in use since @before; 1 if no time has passed."""
        if self.all <= before.all:
            return 1.0
        return (self.busy - before.busy) / (self.all - before.all)


def cpu_seconds() -> CpuTime:
    """The CPU time that the kernel has counted."""
    ticks = [int(word) for word in STAT.read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
    hertz = os.sysconf("SC_CLK_TCK")
    idle = ticks[3] + ticks[4]      # idle, and idle while a task waited for a disk
    return CpuTime((sum(ticks) - idle) / hertz, sum(ticks) / hertz)


class Lull:
    """Finds periods in which the CPUs are idle, by windows of SECONDS."""

    def __init__(self) -> None:
        self._began, self._before = 0.0, CpuTime(0, 0)
        self.begin()

    def begin(self) -> None:
        """Begins a new window."""
        self._began, self._before = time.monotonic(), cpu_seconds()

    def lasts(self) -> bool:
        """Whether the current window is over and the CPUs were idle in it. If the window is
        over, begins a new one."""
        if time.monotonic() - self._began < SECONDS:
            return False
        found = cpu_seconds().busy_since(self._before) < BUSY
        self.begin()
        return found
