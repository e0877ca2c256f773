# SPDX-License-Identifier: GPL-2.0
"""How much of the CPUs is in use, whoever uses it."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

STAT = Path("/proc/stat")
# A lull: for so long less than this share was in use.
SECONDS = 20
BUSY = 0.8


@dataclass(frozen=True)
class CpuTime:
    """Seconds of all CPUs since the machine was started."""

    busy: float
    all: float

    def busy_since(self, before: "CpuTime") -> float:
        """The share in use since then; of no time at all none was idle."""
        if self.all <= before.all:
            return 1.0
        return (self.busy - before.busy) / (self.all - before.all)


def cpu_seconds() -> CpuTime:
    """As the kernel has counted it."""
    ticks = [int(word) for word in STAT.read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
    hertz = os.sysconf("SC_CLK_TCK")
    idle = ticks[3] + ticks[4]      # the second of them while a disk was waited for
    return CpuTime((sum(ticks) - idle) / hertz, sum(ticks) / hertz)


class Lull:
    """Looks whether CPUs are idle, window by window."""

    def __init__(self) -> None:
        self._began, self._before = 0.0, CpuTime(0, 0)
        self.begin()

    def begin(self) -> None:
        """A new window."""
        self._began, self._before = time.monotonic(), cpu_seconds()

    def lasts(self) -> bool:
        """Whether a window is over and was one; a busy one is followed by the next."""
        if time.monotonic() - self._began < SECONDS:
            return False
        found = cpu_seconds().busy_since(self._before) < BUSY
        self.begin()
        return found
