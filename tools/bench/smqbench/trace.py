# SPDX-License-Identifier: GPL-2.0
"""Splits the path of one command into parts, three times: as the trace of 2013 shows it, as others
measured 4.19's legacy path, and as our path is measured. The first has times, the others have
instructions, so that only shares can be compared."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .figures import Figure, FigureSet
from .groups import BLOCK, COPY, ENTRY, FAST, LLD, LOCKS, MEMORY, OTHER, SCHED, SCSI, TARGET, TIME

SUBMISSION, MIDDLE, DRIVER, REST = ("submission, direct I/O set-up",
                                    "mid-layer without the driver", "the driver", "the rest")
PARTS = {SUBMISSION: (BLOCK, FAST, MEMORY, COPY), MIDDLE: (SCSI, LOCKS, TIME), DRIVER: (LLD,),
         REST: (SCHED, ENTRY, TARGET, OTHER)}

# One read by io_submit on qla2xxx in us: aio_run_iocb 22.1; scsi_request_fn 13.8, which includes
# sd_prep_fn 5.2 and scsi_dispatch_cmd 3.7, which includes the driver's queuecommand 3.2; all: 42.3.
REPORTED = {SUBMISSION: 22.1, MIDDLE: 13.8 - 3.2, DRIVER: 3.2, REST: 42.3 - 22.1 - 13.8}
# Kernel instructions of a 4k read, QD1, on 4.19.304: with scsi_debug, and with null_blk on the same
# legacy path. null_blk needs neither mid-layer nor SCSI driver, but adds some instructions.
ALL_419, WITHOUT_SCSI_419 = 9651, 7835


@dataclass(frozen=True)
class Column:
    """The path on one system. A part that was not measured separately is missing."""

    title: str
    unit: str
    parts: dict[str, float]
    both: float | None = None   # mid-layer and driver together, if not measured separately

    def total(self) -> float:
        """Returns the sum of all parts."""
        return sum(self.parts.values()) + (self.both or 0)

    def cell(self, part: str) -> str:
        """Returns a part with its share, as text."""
        if part in self.parts:
            value = self.parts[part]
            return f"{value:.{int(self.unit == 'us')}f} ({100 * value / self.total():.1f} %)"
        if self.both is None:
            return ""
        together = f"{self.both:.0f} ({100 * self.both / self.total():.1f} %)"
        return {MIDDLE: f"{together} with the driver", DRIVER: "included above"}.get(part, "")


def _by_group(title: str, figure: Figure) -> Column:
    groups = figure.parts["group"]
    return Column(title, "insn", {part: sum(groups.get(name, 0) for name in names)
                                  for part, names in PARTS.items()})


def columns(taken: FigureSet) -> list[Column]:
    """Returns the reported column, the column of 4.19, and columns for a given kernel and for our
    path if these were measured."""
    result = [Column("2013: qla2xxx, as reported, us", "us", REPORTED),
              Column("4.19.304 legacy, scsi_debug, measured elsewhere, insn", "insn",
                     {SUBMISSION: WITHOUT_SCSI_419}, ALL_419 - WITHOUT_SCSI_419)]
    same = {"metric": "insn", "op": "read", "qd": 1, "luns": 1, "jobs": 1}
    for figure in taken.find(instrument="legacy-kernel", row="kernel_legacy", bs=4096,
                             path="libaio", **same):
        if figure.parts.get("group"):
            result.append(_by_group(f"{figure.kernel} legacy, scsi_debug, insn", figure))
    for row, label in (("scsi_debug", "scsi_debug"), ("smq_ram", "smq_ram")):
        for figure in taken.find(instrument="insn", row=row, bs=4096, path="io_uring", **same):
            result.append(_by_group(f"{figure.kernel} scsi-mq, {label}, insn", figure))
    return result


def lines(taken: FigureSet, table: Callable[[Sequence[Sequence[str]]], list[str]]) -> list[str]:
    """Returns the table and its conclusion."""
    found = columns(taken)
    rows = [["one read, QD1", *(one.title for one in found)]]
    rows += [[part, *(one.cell(part) for one in found)] for part in PARTS]
    rows.append(["all", *(f"{one.total():.{int(one.unit == 'us')}f}" for one in found)])
    ours = found[2:]
    shares = "; ".join(f"{100 * one.parts[DRIVER] / one.total():.1f} % in "
                       f"{one.title.removesuffix(', insn')}" for one in ours)
    return ["### The trace of 2013, three times", "",
            "Kernel only. The trace of 2013 has times on hardware, which include cache misses; the "
            "others count instructions of a 4k read. At delay=0, 2500 to 3300 of 4.19's "
            "instructions wake ksoftirqd, and count in the first part. The mid-layer's part "
            "includes locks and clocks.", "", *table(rows), "",
            "The driver has 7.6 % of the path of 2013" + (f"; {shares}" if shares else "") +
            ". For 4.19 it was not measured separately: mid-layer and driver together are "
            f"{100 * (ALL_419 - WITHOUT_SCSI_419) / ALL_419:.0f} % (scsi_debug's instructions "
            "minus null_blk's). Where it is known, the driver is the smallest part.", ""]
