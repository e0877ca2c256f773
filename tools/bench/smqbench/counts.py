# SPDX-License-Identifier: GPL-2.0
"""Instructions per I/O: the difference of runs of 3N and N I/Os, in which fixed costs cancel."""

from dataclasses import dataclass, field
from pathlib import Path

from . import profile
from .errors import BenchError
from .guestlog import GuestLog, Run
from .profile import Profile
from .rows import ROWS
from .symbols import symbols_of

CLOCK_TOLERANCE = 0.005     # between the plugin's count and the guest's icount clock


@dataclass
class Cell:
    """One workload on one row."""

    values: list[float] = field(default_factory=list)  # one for each repeat
    profiles: list[Profile] = field(default_factory=list)  # per I/O, one for each repeat
    per_io: Profile = field(default_factory=Profile)        # the mean of profiles


Cells = dict[tuple[str, str], Cell]     # by row and workload


def _check_clock(run: Run) -> None:
    """Compares the count with the guest's icount clock, which is an independent count."""
    counted = run.figures["insns"]
    waited = run.ns - counted
    if run.row in ROWS and ROWS[run.row].waits:     # the clock goes on while the CPU waits
        waited = min(waited, 0)
    if abs(waited) > CLOCK_TOLERANCE * counted:
        raise BenchError(f"{run.row} {run.workload}: {counted} instructions by the plugin, "
                         f"{run.ns} by the guest's clock")


def cells(log: GuestLog, folder: Path, icount: bool = True) -> Cells:
    """Reads a boot under the count plugin. In each pair of runs, subtracts the short run from the
    long one."""
    result: Cells = {}
    for small, large in zip(log.runs[::2], log.runs[1::2]):
        key = small.row, small.workload
        if key != (large.row, large.workload) or small.repeat != large.repeat:
            raise BenchError(f"{small.row} {small.workload}: its second run is missing")
        ios = large.ios - small.ios
        halves = []
        for run in (small, large):
            if icount:
                _check_clock(run)
            halves.append(profile.read(folder / f"hist.{run.number}", symbols_of(folder, run)))
        cell = result.setdefault(key, Cell())
        cell.values.append((large.figures["insns"] - small.figures["insns"]) / ios)
        cell.profiles.append(halves[1].combine(halves[0], -1).divided(ios))
    if len(log.runs) % 2:
        raise BenchError(f"{log.runs[-1].row} {log.runs[-1].workload}: its second run is missing")
    for cell in result.values():
        total = Profile()
        for one in cell.profiles:
            total = total.combine(one, 1)
        cell.per_io = total.divided(len(cell.profiles))
    return result
