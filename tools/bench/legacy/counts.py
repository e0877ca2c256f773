# SPDX-License-Identifier: GPL-2.0
"""What was counted in one boot, per I/O: instructions and locks of the whole kernel. It includes
interrupts, so that they cover the same work on both paths, wherever commands complete."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from smqbench import acquisitions, groups
from smqbench.acquisitions import Locks
from smqbench.errors import BenchError
from smqbench.guestlog import GuestLog, Run
from smqbench.symbols import USER

from .plan import EXACT, Plan

CLOCK_TOLERANCE = 0.01      # the most by which the plugin's count and the guest's clock may differ
# The kernel needs at least this many instructions to take a command through SCSI and back.
LEAST_KERNEL = 1000
# Each I/O takes at least one lock on either path: that of the AIO context, or those of sg.
LEAST_LOCKS = 0.2
# Classes of /proc/lock_stat that are no locks, but tell lockdep about RCU, readers of sequence
# counters, reclaim, and works and timers that run.
ANNOTATION = re.compile(r"rcu_|fs_reclaim|.*seq.*-R|jiffies_lock.*-R|\(")


@dataclass
class Count:
    """What was counted for one workload on one row. Lists have a value for each repeat."""

    total: list[float] = field(default_factory=list)
    kernel: list[float] = field(default_factory=list)
    groups: dict[str, float] = field(default_factory=dict)      # of the last repeat, with symbols
    locks: list[float] = field(default_factory=list)            # empty if they were not counted
    waits: list[float] = field(default_factory=list)
    by_lock: dict[str, float] = field(default_factory=dict)
    waits_by_lock: dict[str, float] = field(default_factory=dict)
    by_site: dict[str, float] = field(default_factory=dict)
    slips: float = 0.0


Counts = dict[tuple[str, str], Count]       # by row and workload


def _check_clock(run: Run) -> None:
    """Compares the plugin's count with the guest's clock. Under icount the clock counts
    instructions, but it also runs while the CPU is idle."""
    counted = run.figures["insns"]
    waited = run.ns - counted
    if waited < -CLOCK_TOLERANCE * counted or \
            (waited > CLOCK_TOLERANCE * counted and not run.row.endswith("_timer")):
        raise BenchError(f"{run.row} {run.workload}: {counted} instructions by the plugin, "
                         f"{run.ns} by the guest's clock")


def _add_lock_stat(count: Count, seen: dict[str, tuple[float, float]]) -> None:
    classes = {name: one for name, one in seen.items() if not ANNOTATION.match(name)}
    count.locks.append(sum(taken for taken, _ in classes.values()))
    count.waits.append(sum(contended for _, contended in classes.values()))
    for name, (taken, contended) in sorted(classes.items(), key=lambda item: -item[1][0]):
        if taken >= acquisitions.SMALL:
            count.by_lock[name] = round(taken, 4)
        if contended >= acquisitions.SMALL:
            count.waits_by_lock[name] = round(contended, 4)


def _add_locks(count: Count, locks: Locks) -> None:
    count.locks.append(locks.total())
    count.waits.append(locks.waits())
    count.by_lock, count.by_site = locks.by_lock(), locks.by_site()
    count.waits_by_lock = locks.by_lock(contended=True)


def _check(what: str, count: Count, means: str) -> None:
    kernel, total = count.kernel[-1], count.total[-1]
    if kernel < LEAST_KERNEL or total <= kernel:
        raise BenchError(f"{what}: {kernel:.0f} of {total:.0f} instructions per I/O in the kernel, "
                         f"fewer than {LEAST_KERNEL}: these were not SCSI commands")
    if count.locks and count.locks[-1] < LEAST_LOCKS:
        raise BenchError(f"{what}: {count.locks[-1]:.2f} locks per I/O by {means}, at least "
                         f"{LEAST_LOCKS} are taken: is the kernel built with CONFIG_SMP=y?")


def of_boot(log: GuestLog, plan: Plan, folder: Path) -> Counts:
    """Returns what the plugin counted in one boot."""
    result: Counts = {}
    if plan.kind == EXACT:
        for run in log.runs:
            _check_clock(run)
    for (row, key), repeats in acquisitions.cells(log, folder).items():
        count = result.setdefault((row, key), Count())
        for number, locks in enumerate(repeats, 1):
            locks = locks.with_interrupts()
            program = locks.insns.get(USER, 0)
            count.total.append(sum(locks.insns.values()))
            count.kernel.append(count.total[-1] - program)
            count.slips = max(count.slips, locks.slips)
            if log.means == "symbols":
                _add_locks(count, locks)
                count.groups = {name: round(value, 2) for name, value
                                in groups.split(locks.insns).items()}
            elif log.means == "lock_stat":
                _add_lock_stat(count, log.lock_stat.get((row, key, number), {}))
            _check(f"{row} {key}", count, log.means)
    return result


def of_times(log: GuestLog) -> dict[tuple[str, str], list[float]]:
    """Returns the I/O per second by row and workload, in the order of the rounds."""
    found: dict[tuple[str, str], dict[int, float]] = {}
    for run in log.runs:
        if run.ns <= 0:
            raise BenchError(f"{run.row} {run.workload}: {run.count} I/Os took {run.ns} ns")
        found.setdefault((run.row, run.workload), {})[run.repeat] = 1e9 * run.ios / run.ns
    return {key: [values[number] for number in sorted(values)] for key, values in found.items()}
