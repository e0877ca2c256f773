# SPDX-License-Identifier: GPL-2.0
"""The figures of one boot, per I/O: instructions and locks of the whole kernel. They include
interrupts, so that they cover the same work on both paths, wherever commands complete."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from smqbench import acquisitions, groups, timing
from smqbench.errors import BenchError
from smqbench.figures import METRICS, Figure
from smqbench.guestlog import GuestLog, Run
from smqbench.plan import parse
from smqbench.symbols import USER

from .plan import EXACT, LEGACY, MQ, Plan

CLOCK_TOLERANCE = 0.01      # the most by which the plugin's count and the guest's clock may differ
# The kernel needs at least this many instructions to take a command through SCSI and back.
LEAST_KERNEL = 1000
# Each I/O takes at least one lock on either path: that of the AIO context, or those of sg.
LEAST_LOCKS = 0.2


@dataclass
class Count:
    """What was counted for one workload on one row. Lists have a value for each repeat."""

    total: list[float] = field(default_factory=list)
    kernel: list[float] = field(default_factory=list)
    locks: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    slips: float = 0.0
    # Of the last repeat, by metric and kind.
    parts: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)


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


def _check(what: str, count: Count) -> None:
    kernel, total = count.kernel[-1], count.total[-1]
    if kernel < LEAST_KERNEL or total <= kernel:
        raise BenchError(f"{what}: {kernel:.0f} of {total:.0f} instructions per I/O in the kernel, "
                         f"fewer than {LEAST_KERNEL}: these were not SCSI commands")
    if count.locks[-1] < LEAST_LOCKS:
        raise BenchError(f"{what}: {count.locks[-1]:.2f} locks per I/O, at least {LEAST_LOCKS} are "
                         "taken: is the kernel built with CONFIG_SMP=y?")


def of_boot(log: GuestLog, plan: Plan, folder: Path) -> Counts:
    """Returns what the plugin counted in one boot."""
    result: Counts = {}
    if plan.kind == EXACT:
        for run in log.runs:
            _check_clock(run)
    for (row, key), repeats in acquisitions.cells(log, folder).items():
        count = result.setdefault((row, key), Count())
        for locks in repeats:
            locks = locks.with_interrupts()
            count.total.append(sum(locks.insns.values()))
            count.kernel.append(count.total[-1] - locks.insns.get(USER, 0))
            count.slips = max(count.slips, locks.slips)
            count.locks.append(locks.total())
            count.waits.append(locks.waits())
            count.parts = {
                "insn": {"group": {name: round(value, 2) for name, value
                                   in groups.split(locks.insns).items()}},
                "locks": {"lock": locks.by_lock(), "site": locks.by_site()},
                "waits": {"lock": locks.by_lock(contended=True)}}
            _check(f"{row} {key}", count)
    return result


def _figure(log: GuestLog, row: str, key: str, metric: str, values: Sequence[float],
            same: dict[str, Any], **more: Any) -> Figure:
    workload = parse(key)
    # All LUNs have the same settings, so the set has one element.
    settings = "; ".join(sorted(set(log.queues[row].values())))
    return Figure(
        instrument="legacy-kernel", row=row, path=workload.path, op=workload.op, bs=workload.bs,
        qd=workload.qd, batch=workload.batch, luns=workload.luns, jobs=workload.jobs,
        metric=metric, unit=METRICS[metric][0], value=round(statistics.median(values), 4),
        spread=round(timing.spread(values), 4), repeats=len(values), kernel=log.kernel,
        values=[round(value, 4) for value in values],
        parameters={"device": "; ".join(log.parameters[row]), "queue": settings,
                    "cmdline": log.cmdline}, **same, **more)


def figures(counts: Counts, log: GuestLog, same: dict[str, Any]) -> Iterable[Figure]:
    """Yields the figures of a boot under the plugin. @same has the command, the note and the CPUs,
    which all figures share."""
    for (row, key), count in counts.items():
        for metric, values in (("insn", count.total), ("insn_kernel", count.kernel),
                               ("locks", count.locks), ("waits", count.waits)):
            yield _figure(log, row, key, metric, values, same, parts=count.parts.get(metric, {}))


def time_figures(log: GuestLog, same: dict[str, Any]) -> Iterable[Figure]:
    """Yields the figures of a boot without the plugin: the I/O per second, and their ratio between
    the legacy path and scsi-mq in each round."""
    found: dict[tuple[str, str], dict[int, float]] = {}
    for run in log.runs:
        if run.ns <= 0:
            raise BenchError(f"{run.row} {run.workload}: {run.count} I/Os took {run.ns} ns")
        found.setdefault((run.row, run.workload), {})[run.repeat] = 1e9 * run.ios / run.ns
    iops = {key: [values[number] for number in sorted(values)] for key, values in found.items()}
    for (row, key), values in iops.items():
        yield _figure(log, row, key, "iops", values, same)
        other = iops.get((row.replace(LEGACY, MQ), key))
        if row.startswith(LEGACY) and other:
            yield _figure(log, row, key, "against_mq", timing.ratios(values, other), same)
