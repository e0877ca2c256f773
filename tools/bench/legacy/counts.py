# SPDX-License-Identifier: GPL-2.0
"""What one boot counted, as instructions per I/O: the difference of two runs, so that what a run
costs but once falls out."""

from dataclasses import dataclass, field
from pathlib import Path

from smqbench.errors import BenchError
from smqbench.guestlog import GuestLog, Run

KERNEL_HALF = 1 << 63
CLOCK_TOLERANCE = 0.01      # between the plugin's count and the guest's clock
# Less than this no command can take from a program through SCSI and back.
LEAST_KERNEL = 1000


@dataclass
class Count:
    """One workload on one row; a value for each repeat."""

    total: list[float] = field(default_factory=list)
    kernel: list[float] = field(default_factory=list)


Counts = dict[tuple[str, str], Count]       # by row and workload


def _kernel_insns(path: Path) -> tuple[int, int]:
    """(in the kernel, in all) of a run, by the addresses of its blocks."""
    kernel = total = 0
    try:
        for line in path.read_text(encoding="ascii").splitlines():
            kind, *words = line.split()
            if kind != "block":
                continue
            insns = int(words[1]) * int(words[2])
            total += insns
            if int(words[0], 16) >= KERNEL_HALF:
                kernel += insns
    except (OSError, ValueError, IndexError) as error:
        raise BenchError(f"{path.name}: {error}") from None
    return kernel, total


def _check(run: Run, total: int) -> None:
    what = f"{run.row} {run.workload}"
    counted = run.figures["insns"]
    if total != counted:
        raise BenchError(f"{what}: {counted} instructions by the plugin, {total} by its blocks")
    # The clock counts instructions too, and goes on where the CPU waits for a timer.
    waited = run.ns - counted
    if waited < -CLOCK_TOLERANCE * counted or \
            (waited > CLOCK_TOLERANCE * counted and not run.row.endswith("_timer")):
        raise BenchError(f"{what}: {counted} instructions by the plugin, {run.ns} by the guest's "
                         "clock")


def of_boot(log: GuestLog, folder: Path) -> Counts:
    """The pairs of runs of a boot."""
    result: Counts = {}
    if len(log.runs) % 2:
        raise BenchError("the guest's last run has no second")
    for small, large in zip(log.runs[::2], log.runs[1::2]):
        if (small.row, small.workload, small.repeat) != (large.row, large.workload, large.repeat) \
                or large.count <= small.count:
            raise BenchError(f"{small.row} {small.workload}: its second run is missing")
        pair = []
        for run in (small, large):
            kernel, total = _kernel_insns(folder / f"hist.{run.number}")
            _check(run, total)
            pair.append((kernel, total))
        ios = large.count - small.count
        kernel, total = ((pair[1][i] - pair[0][i]) / ios for i in (0, 1))
        if kernel < LEAST_KERNEL or total <= kernel:
            raise BenchError(f"{small.row} {small.workload}: {kernel:.0f} instructions in the "
                             f"kernel of {total:.0f} per I/O: these were no SCSI commands")
        count = result.setdefault((small.row, small.workload), Count())
        count.kernel.append(kernel)
        count.total.append(total)
    return result
