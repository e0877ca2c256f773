# SPDX-License-Identifier: GPL-2.0
"""The report, as text for a terminal."""

from collections.abc import Iterable, Sequence

from . import groups, profile
from .bounds import Verdict
from .counts import Cell, Cells
from .guestlog import GuestLog
from .transfers import Sharing

LABELS = {
    "null_blk": "null_blk",
    "scsi_debug": "scsi_debug",
    "scsi_debug_data": "scsi_debug data",
    "scsi_debug_timer": "scsi_debug timer",
    "smq_ram_null": "smq_ram null",
    "smq_ram": "smq_ram data",
    "scsi_debug_luns": "scsi_debug",
    "smq_ram_null_luns": "smq_ram null",
    "smq_ram_luns": "smq_ram data",
}
URING = {"plain-512": "plain 512", "registered-512": "registered 512",
         "plain-4k": "plain 4k", "registered-4k": "registered 4k",
         "write-512": "write plain 512"}
SG = {"sg-tur": "TUR", "sg-read": "READ 512"}
WORKLOADS = URING | {key: f"SG_IO {label}" for key, label in SG.items()}
SMALL = 0.05  # insn/IO: cheaper functions are not listed


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Columns; the first is flush left, the others flush right."""
    cells = [heads, *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(heads))]
    lines = ["  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                       for i, (cell, width) in enumerate(zip(row, widths))).rstrip()
             for row in cells]
    return [lines[0], "-" * len(lines[0]), *lines[1:]]


def _rows(cells: Cells, workloads: Iterable[str]) -> list[str]:
    names = {row for row, workload in cells if workload in workloads}
    return [row for row in LABELS if row in names]


def _value(cell: Cell | None) -> str:
    return f"{cell.insns:.0f} +-{cell.spread / 2:.0f}" if cell else ""


def _against(cells: Cells, row: str, other: str, workload: str) -> str:
    if row == other or (row, workload) not in cells or (other, workload) not in cells:
        return ""
    return f"{cells[row, workload].insns - cells[other, workload].insns:+.0f}"


def setting(log: GuestLog) -> list[str]:
    """The machine and kernel of the measurement."""
    lines = [f"kernel {log.kernel}, CPU model {log.cpu}", f"command line: {log.cmdline}", ""]
    for row, parameters in log.parameters.items():
        lines.append(f"{LABELS[row]}: {', '.join(parameters)}")
        for disk, settings in log.queues.get(row, {}).items():
            lines.append(f"    {disk}: {settings}")
    return lines


def instructions(cells: Cells, workloads: dict[str, str]) -> list[str]:
    """Instructions per I/O and the differences, rows by workloads."""
    rows = _rows(cells, workloads)
    heads = ["insn/IO", *workloads.values()]
    lines = table(heads, ([LABELS[row], *(_value(cells.get((row, key))) for key in workloads)]
                          for row in rows))
    for title, ours, other in (("against scsi_debug", None, "scsi_debug"),
                               ("against smq_ram null", "smq_ram", "smq_ram_null")):
        body = [[LABELS[row], *(_against(cells, row, other, key) for key in workloads)]
                for row in rows if row != other and ours in (None, row)]
        if body and other in rows:
            lines += ["", *table([title, *workloads.values()], body)]
    return lines


def split(cells: Cells, workload: str) -> list[str]:
    """Instructions per I/O of each group of functions: a line for each group, a column for each
    row."""
    rows = _rows(cells, [workload])
    splits = {row: groups.split(cells[row, workload].per_io.insns) for row in rows}
    body = [[group, *(f"{splits[row][group]:.0f}" for row in rows)] for group in groups.ORDER]
    body.append(["sum", *(f"{sum(splits[row].values()):.0f}" for row in rows)])
    body.append(["of these in interrupts",
                 *(f"{sum(cells[row, workload].per_io.irq.values()):.0f}" for row in rows)])
    return table([URING[workload], *(LABELS[row] for row in rows)], body)


def own_functions(cells: Cells, row: str, workload: str) -> list[str]:
    """Every function of the row's LLD. For our LLDs also their share of all instructions."""
    cell = cells[row, workload]
    lines = []
    for function, value in profile.functions_of(cell.per_io.insns, groups.LLD_MODULES):
        if value >= SMALL:
            lines.append(f"  {value:8.1f} insn/IO  {cell.per_io.calls[function]:6.3f} calls/IO  "
                         f"{function}")
    if row.startswith("smq_"):
        total = cell.per_io.total()
        lines += [f"  {cell.own:8.1f} insn/IO in our functions: {cell.own / total:.1%} "
                  f"of {total:.0f}",
                  f"  {cell.own_with_callees:8.1f} with what they call: "
                  f"{cell.own_with_callees / total:.1%}"]
    return lines


def allocations(cells: Cells, row: str, workload: str) -> list[str]:
    """The sum of allocations by our modules, then the callers of allocators. Callers outside our
    modules show that the count works."""
    found = cells[row, workload].allocations()
    ours = sum(value for _, _, mine, value in found if mine)
    lines = [f"  {LABELS[row]}, {WORKLOADS[workload]}: "
             f"allocations by our modules per I/O: {ours:.4g}"]
    for name, caller, mine, value in found:
        if mine or value >= 0.01:
            lines.append(f"    {value:8.4f}  {name} from {caller}{'  OURS' if mine else ''}")
    return lines


def transfers(sharings: dict[tuple[str, str], Sharing]) -> list[str]:
    """Cache-line transfers per I/O, and the functions that cause them."""
    body, lines = [], []
    for (row, workload), sharing in sharings.items():
        own = sum(sharing.own) / len(sharing.own)
        body.append([f"{LABELS[row]}, {URING[workload]}",
                     f"{own:.4f}", f"{max(sharing.own):.4f}", f"{sharing.own_accesses:.1f}",
                     f"{sharing.total:.3f}", f"{sharing.interrupts:.3f}", f"{sharing.slips:.4f}"])
        for title, top, least in (("ours", sharing.own_top, 0.0005), ("all", sharing.top, 0.005)):
            for (function, kind), value in top.most_common(6):
                if value >= least:
                    lines.append(f"  {LABELS[row]}, {URING[workload]}, {title}: "
                                 f"{value:.4f} {kind} {function}")
    return table(["cache-line transfers/IO", "ours", "worst", "our accesses", "all",
                  "in interrupts", "slips"], body) + ["", *lines]


def verdicts(found: Iterable[Verdict]) -> list[str]:
    """Each bound and PASS or FAIL."""
    return table(["bound", "must be", "is", ""],
                 ([v.what, v.bound, "" if v.measured is None else f"{v.measured:.4g}", v.word]
                  for v in found))
