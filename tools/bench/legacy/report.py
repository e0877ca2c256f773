# SPDX-License-Identifier: GPL-2.0
"""The counts as figures for the bench's report, and as a table for the eye."""

import statistics
from collections.abc import Iterable

from smqbench import tables, timing
from smqbench.figures import Figure
from smqbench.guestlog import GuestLog

from .counts import Count, Counts

# name: (path, op, bytes, queue depth, batch)
WORKLOADS = {
    "aio-4k-qd32": ("libaio", "read", 4096, 32, 16),
    "aio-512-qd32": ("libaio", "read", 512, 32, 16),
    "aio-4k-qd1": ("libaio", "read", 4096, 1, 1),
    "aio-512-qd1": ("libaio", "read", 512, 1, 1),
    "sg-tur": ("sg_io", "tur", 0, 1, 1),
    "sg-read": ("sg_io", "read", 512, 1, 1),
}
LEGACY, MQ = "kernel_legacy", "kernel_mq"
TIMER = "_timer"
ROWS = (LEGACY, LEGACY + TIMER, MQ, MQ + TIMER)
COMPLETIONS = {"": "delay=0, completes inside queuecommand",
               TIMER: "ndelay=20000, completes from a timer's interrupt"}


def figures(counts: Counts, log: GuestLog, command: str, note: str) -> Iterable[Figure]:
    """Two for each workload on each row: with the program and without."""
    for (row, workload), count in counts.items():
        path, op, size, depth, batch = WORKLOADS[workload]
        settings = "; ".join(f"{disk}: {text}" for disk, text in log.queues[row].items())
        for metric, values in (("insn", count.total), ("insn_kernel", count.kernel)):
            yield Figure(
                instrument="legacy-kernel", row=row, path=path, op=op, bs=size, qd=depth,
                batch=batch, luns=1, jobs=1, metric=metric, unit="insn/IO",
                value=round(statistics.median(values), 2),
                spread=round(timing.spread(values), 2), repeats=len(values), kernel=log.kernel,
                command=command, values=[round(value, 2) for value in values], note=note,
                parameters={"device": "; ".join(log.parameters[row]), "queue": settings,
                            "cmdline": log.cmdline})


def _cell(values: list[float]) -> str:
    return f"{statistics.median(values):.0f} +-{timing.spread(values) / 2:.0f}"


def _pair(legacy: Count | None, mq: Count | None) -> list[str]:
    if not legacy or not mq:
        return ["", "", ""]
    one, other = (statistics.median(count.kernel) for count in (legacy, mq))
    total = statistics.median(legacy.total) / statistics.median(mq.total)
    return [f"{one - other:+.0f}", f"{one / other:.2f}", f"{total:.2f}"]


def table(counts: Counts) -> list[str]:
    """Both paths side by side, for each way of completion."""
    lines = []
    for suffix, label in COMPLETIONS.items():
        body = []
        for workload in WORKLOADS:
            legacy, mq = (counts.get((row + suffix, workload)) for row in (LEGACY, MQ))
            if legacy or mq:
                body.append([workload, *(_cell(count.kernel) if count else ""
                                         for count in (legacy, mq)), *_pair(legacy, mq)])
        if body:
            lines += ["", f"scsi_debug {label}:", "",
                      *tables.table(["kernel insn/IO", "legacy", "scsi-mq", "difference",
                                     "ratio", "with program"], body)]
    return lines
