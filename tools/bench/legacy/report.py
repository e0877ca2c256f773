# SPDX-License-Identifier: GPL-2.0
"""Turns the counts into figures for the bench's report, and formats them as tables."""

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from smqbench import bothpaths, tables, timing
from smqbench.figures import METRICS, Figure, FigureSet
from smqbench.guestlog import GuestLog
from smqbench.plan import parse

from .counts import Counts
from .plan import LEGACY, MQ


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
                    "cmdline": log.cmdline, "locks": log.means or "none"}, **same, **more)


def figures(counts: Counts, log: GuestLog, same: dict[str, Any]) -> Iterable[Figure]:
    """Yields the figures of a boot under the plugin: instructions, and locks if they could be
    counted. @same has the command, the note and the CPUs, which all figures share."""
    for (row, key), count in counts.items():
        group = {"group": count.groups} if count.groups else {}
        yield _figure(log, row, key, "insn", count.total, same, parts=group)
        yield _figure(log, row, key, "insn_kernel", count.kernel, same)
        if count.locks:
            site = {"site": count.by_site} if count.by_site else {}
            yield _figure(log, row, key, "locks", count.locks, same,
                          parts={"lock": count.by_lock, **site})
            yield _figure(log, row, key, "waits", count.waits, same,
                          parts={"lock": count.waits_by_lock})


def time_figures(iops: dict[tuple[str, str], list[float]], log: GuestLog, same: dict[str, Any]
                 ) -> Iterable[Figure]:
    """Yields the figures of a boot without the plugin: the I/O per second, and their ratio between
    the legacy path and scsi-mq in each round."""
    for (row, key), values in iops.items():
        yield _figure(log, row, key, "iops", values, same)
        other = iops.get((row.replace(LEGACY, MQ), key))
        if row.startswith(LEGACY) and other:
            yield _figure(log, row, key, "against_mq", timing.ratios(values, other), same)


MEANS = {
    "symbols": "by the plugin, at the lock functions that the kernel's symbols name",
    "lock_stat": "by /proc/lock_stat, over each program from its start to its end; instructions "
                 "of this kernel include those of lockdep, and say nothing about other kernels",
    "none": "not counted: the kernel has no /proc/lock_stat, and no _raw_spin_lock in "
            "/proc/kallsyms",
    "": "not counted",
}


def table(taken: FigureSet, means: str) -> list[str]:
    """Returns the lines of a table for each way of completion, with how far the repeats differ, and
    says how locks were counted."""
    lines: list[str] = []
    for mode, label in bothpaths.MODES.items():
        pairs = bothpaths.given(taken, mode)
        if not pairs:
            continue
        kernels = ", ".join(sorted({one.kernel for one in taken.figures}))
        lines += ["", f"Linux {kernels}, scsi_debug, {label}:", "",
                  *tables.table(bothpaths.HEADS, bothpaths.cells(pairs)), ""]
        said = bothpaths.conclusion(pairs, "In short")
        lines += [said] if said else []
        lines += repeats(taken, mode)
    return [*lines, "", bothpaths.SCOPE, f"Locks: {MEANS[means]}."]


def repeats(taken: FigureSet, mode: str) -> list[str]:
    """Returns a line for each boot that counted, with how far its repeats differ, and one for the
    boot that measured times."""
    lines = []
    for cpus, how in ((1, "under icount"), (2, "in step by instructions")):
        insns, waits = ([one for row in (LEGACY, MQ)
                         for one in taken.find(metric=metric, cpus=cpus, row=row + mode)]
                        for metric in ("insn_kernel", "waits"))
        if not insns:
            continue
        said = f"{cpus} CPU" + "s" * (cpus > 1) + f", {how}: "
        if insns[0].repeats == 1:
            lines.append(said + "one repeat.")
            continue
        said += f"{insns[0].repeats} repeats, within +-{half(insns):.1f} instructions"
        lines.append(said + (f" and +-{half(waits):.2f} contended locks." if waits else "."))
    for one in taken.find(metric="against_mq", row=LEGACY + mode)[:1]:
        lines.append(f"IO/s: on a VM with {one.cpus} CPU" + "s" * (one.cpus > 1) +
                     f", {one.repeats} rounds, medians.")
    return lines


def half(found: Sequence[Figure]) -> float:
    """Returns half of the largest spread of these figures."""
    return max(one.spread / 2 for one in found)
