# SPDX-License-Identifier: GPL-2.0
"""The tables of the report, and the limits (bars) for the policy batch: ratios to direct that batch
has to keep."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from smqbench import plan as plans, tables, timing
from smqbench.figures import PATHS, size
from smqbench.rows import ROWS

from . import rounds
from .results import Cell, Results

# Limits for batch, as a multiple of direct.
MIN_GAIN = 1.5      # IOPS per CPU at QD32, where a doorbell costs 5 us
MIN_KEPT = 0.97     # IOPS per CPU at QD32, where a doorbell costs nothing
MAX_QD1 = 1.03      # time of a command at QD1
ONE_BY_ONE = plans.Workload("in_kernel", "read", 512, 32, 1).key
BATCHES = plans.Workload("in_kernel", "read", 512, 32, 16).key
QD1 = plans.Workload("in_kernel", "read", 512, 1, 1).key


def _label(workload: plans.Workload) -> str:
    what = workload.op + (f" {size(workload.bs)}" if workload.bs else "")
    words = [what, f"QD{workload.qd}", f"batch {workload.batch}" if workload.batch > 1 else "",
             f"{workload.luns} LUNs" if workload.luns > 1 else "",
             f"{workload.jobs} CPUs" if workload.jobs > 1 else ""]
    return " ".join(word for word in words if word)


def group_label(key: str) -> str:
    """The name of a group of workloads that are compared: in the kernel, one workload on all
    devices; from user space, all paths with the same number of processes."""
    workload = plans.parse(key)
    if workload.path == plans.IN_KERNEL:
        return _label(workload)
    return f"from user space, {workload.jobs} process" + ("es" if workload.jobs > 1 else "")


def _cells(cell: Cell) -> list[str]:
    times = timing.summary(cell.repeats)
    return [f"{times.p10:.0f}", f"{times.median:.0f} +-{times.spread / 2:.0f}"]


def times(results: Results) -> list[str]:
    """A table for each workload: ns per command of each row, as p10 and median."""
    lines = []
    for key in dict.fromkeys(key for _, key in results.cells):
        workload = plans.parse(key)
        if workload.path != plans.IN_KERNEL:
            continue
        rows = [row for row in ROWS if (row, key) in results.cells]
        lines += ["", *tables.table(
            [_label(workload), "p10", "median", "a CPU's IOPS"],
            ([ROWS[row].label, *_cells(results.cells[row, key]),
              f"{1e9 / timing.summary(results.cells[row, key].repeats).median:.0f}"]
             for row in rows))]
    return lines


def by_path(results: Results) -> list[str]:
    """A table of the paths from user space, for each device and number of processes."""
    cells = [(row, key, plans.parse(key)) for row, key in results.cells]
    cells = [cell for cell in cells if cell[2].path != plans.IN_KERNEL]
    lines = []
    for row in [row for row in ROWS if row in {cell[0] for cell in cells}]:
        for jobs in sorted({workload.jobs for of, _, workload in cells if of == row}):
            body = [_path_line(results, row, key) for of, key, workload in cells
                    if (of, workload.jobs) == (row, jobs)]
            lines += ["", *tables.table(
                [f"{ROWS[row].label}, {jobs} process" + ("es, a LUN each" if jobs > 1 else ""),
                 "p10", "median", "ratio to block", "without calls"], body)]
    return lines


def _path_line(results: Results, row: str, key: str) -> list[str]:
    workload = plans.parse(key)
    name = "an empty call for each batch" if workload.op == "call" else PATHS[workload.path]
    ratios = results.against_block(row, key)
    return [name, *_cells(results.cells[row, key]),
            *(f"{statistics.median(ratios[metric]):.3f} +-{timing.spread(ratios[metric]) / 2:.3f}"
              if metric in ratios else "" for metric in ("against_block", "against_block_bare"))]


@dataclass(frozen=True)
class Bar:
    """A limit: a ratio to direct that the policy has to keep."""

    what: str
    row: str
    workload: str
    limit: float
    more: bool  # a larger ratio is better
    binding: bool = True

    @property
    def rows(self) -> tuple[str, str]:
        """The names of the two rows that are compared: with direct, and with batch."""
        return self.row, f"{self.row}_batch"

    def judged(self, results: Results) -> list[str] | None:
        """The row of the table for this bar; None if it was not measured."""
        pair = [cell.low() for row in self.rows
                if (cell := results.cells.get((row, self.workload)))]
        if len(pair) < 2:
            return None
        direct, batch = pair
        ratios = timing.ratios(*((direct, batch) if self.more else (batch, direct)))
        value = statistics.median(ratios)
        good = value >= self.limit if self.more else value <= self.limit
        off = results.delay_warning() if "doorbell" in self.row else ""
        word = "(not judged)" if off or not self.binding else PASS if good else FAIL
        between = timing.interval(ratios)
        return [self.what, f"{'>=' if self.more else '<='} {self.limit:g}", f"{value:.3f}",
                "{:.3f} to {:.3f}".format(*between) if between else "too few repeats",
                f"{min(ratios):.3f} to {max(ratios):.3f}", word]


PASS, FAIL = "PASS", "FAIL"
BARS = [
    Bar("doorbell 5 us, 100 us device, QD32 one by one: IOPS per CPU", "smq_ram_100us_doorbell",
        ONE_BY_ONE, MIN_GAIN, True),
    Bar("doorbell free, 100 us device, QD32 one by one: IOPS per CPU", "smq_ram_100us",
        ONE_BY_ONE, MIN_KEPT, True),
    # Not binding: with this device and doorbell one CPU has only a few commands in flight.
    Bar("doorbell 5 us, 20 us device, QD32 one by one: IOPS per CPU", "smq_ram_20us_doorbell",
        ONE_BY_ONE, MIN_GAIN, True, binding=False),
    Bar("doorbell free, 20 us device, QD32 one by one: IOPS per CPU", "smq_ram_20us",
        ONE_BY_ONE, MIN_KEPT, True),
    Bar("doorbell 5 us, 20 us device, QD1: time", "smq_ram_20us_doorbell", QD1, MAX_QD1, False),
    Bar("doorbell free, 20 us device, QD1: time", "smq_ram_20us", QD1, MAX_QD1, False),
    Bar("doorbell free, 100 us device, QD1: time", "smq_ram_100us", QD1, MAX_QD1, False),
    Bar("doorbell free, 20 us device, QD32 in batches of 16: IOPS per CPU", "smq_ram_20us",
        BATCHES, MIN_KEPT, True),
    Bar("doorbell free, no device time, QD32 one by one: IOPS per CPU", "smq_ram", ONE_BY_ONE,
        MIN_KEPT, True),
    Bar("doorbell free, no device time, QD32 in batches of 16: IOPS per CPU", "smq_ram", BATCHES,
        MIN_KEPT, True),
    Bar("doorbell free, no device time, QD1: time", "smq_ram", QD1, MAX_QD1, False),
]


def bars(results: Results) -> list[str]:
    """The table of bars. The two rows of a bar are measured in turn; the ratio of a repeat is p10
    of one row divided by p10 of the other. Shows the median ratio with its 95 % confidence
    interval, and the range."""
    body = [line for line in (bar.judged(results) for bar in BARS) if line]
    return ["", *tables.table(["batch against direct", "must be", "is", "95 %", "repeats", ""],
                              body)] if body else []


def missed(results: Results, rows: Sequence[str]) -> list[str]:
    """Messages for the bars whose rows are both in @rows: missed, not judged or not measured."""
    found = []
    for bar in BARS:
        if not bar.binding or not set(bar.rows) <= set(rows):
            continue
        line = bar.judged(results)
        if not line:
            found.append(f"{bar.what}: not measured")
        elif line[-1] != PASS:
            found.append(f"{bar.what}: {line[-1]}: is {line[2]}, must be {line[1]}")
    return found


def machine(results: Results) -> list[str]:
    """Lines on how fast and how undisturbed the machine was."""
    asked, took = results.delays[0]
    setting, settled = results.delays[-1]
    lines = [f"kernel {results.kernel}; ndelay({asked}) takes {took:.0f} ns here",
             f"wanted: a doorbell of {results.delay_wanted} ns; set: doorbell_ns={setting}; "
             f"measured: {settled:.0f} ns"]
    looks = results.all_looks
    if looks:
        above = sum(look > rounds.MAX_SLOWDOWN for look in looks)
        lines.append(f"work on all CPUs at once took at worst {results.slowdown:.2f} times as long "
                     f"as on one CPU alone (median {statistics.median(looks):.2f}); more than "
                     f"{rounds.MAX_SLOWDOWN} times in {above} of {len(looks)} measurements")
    marked = {cell.group: (key, cell.mark) for (_, key), cell in results.cells.items() if cell.mark}
    lines += [f"{group_label(key)}: {mark}" for key, mark in marked.values()]
    return lines
