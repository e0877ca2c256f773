# SPDX-License-Identifier: GPL-2.0
"""Bounds on figures, and whether they hold."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import ge

from .counts import Cells
from .errors import BenchError
from .transfers import Sharing

# The bounds on instructions are for one kernel: later kernels have another scsi_debug, and on the
# plain CPU model another memcpy, which takes three times as many instructions.
BOUND_KERNEL = "6.1"
BELOW_SCSI_DEBUG = 60       # fewer instructions per I/O; the smallest possible LLD has 131 fewer
DATA_512 = 140
DATA_4K = 590
ALLOCATIONS = 0             # per I/O, by our modules
TRANSFERS = 0.05            # cache-line transfers per I/O by our modules must be below this

# Fewer allocations per I/O than this count as none: a single one among tens of thousands of I/Os
# does not belong to the steady state.
STRAY = 0.001

NULL_ROW, DATA_ROW, PEER_ROW = "smq_ram_null", "smq_ram", "scsi_debug"


# SG_IO allocates a buffer for every read, on every kernel and with every LLD.
SG_READ_ALLOCATIONS = 0.9


@dataclass(frozen=True)
class Verdict:
    """One bound and the figure that must keep it."""

    what: str
    bound: str
    measured: float | None      # None: the rows it needs were not run
    ok: bool
    applies: bool = True

    @property
    def word(self) -> str:
        """The verdict in a word."""
        if not self.applies:
            return f"({BOUND_KERNEL} only)"
        return "not measured" if self.measured is None else "PASS" if self.ok else "FAIL"


def _verdict(what: str, bound: str, measured: float | None, ok: Callable[[float], bool],
             applies: bool = True) -> Verdict:
    return Verdict(what, bound, measured, not applies or measured is not None and ok(measured),
                   applies)


def _difference(cells: Cells, workload: str, row: str, other: str) -> float | None:
    if (row, workload) not in cells or (other, workload) not in cells:
        return None
    return cells[row, workload].insns - cells[other, workload].insns


def _allocations(cells: Cells, row: str) -> float | None:
    found = [cell for (name, _), cell in cells.items() if name == row]
    if not found:
        return None
    return sum(sum(value for _, _, ours, value in cell.allocations() if ours) for cell in found)


def _is_ours(row: str) -> bool:
    return row.startswith("smq_")


def check_counts(cells: Cells) -> None:
    """Raises BenchError if the count missed our functions or sg's allocations."""
    for (row, workload), cell in cells.items():
        if _is_ours(row) and not (cell.own > 0 and cell.own_with_callees >= cell.own):
            raise BenchError(f"{row} {workload}: the count has none of our functions")
        if workload == "sg-read" and SG_READ_ALLOCATIONS > sum(
                value for _, _, _, value in cell.allocations()):
            raise BenchError(f"{row} {workload}: the count of allocations missed those of sg")


def check_transfers(sharings: dict[tuple[str, str], Sharing]) -> None:
    """Raises BenchError if the count missed our accesses to memory."""
    for (row, workload), sharing in sharings.items():
        if (_is_ours(row) or workload.startswith("smq")) and sharing.own_accesses < 1:
            raise BenchError(f"{row} {workload}: none of our accesses to memory was seen")


def of_counts(cells: Cells, kernel: str) -> list[Verdict]:
    """The bounds on instructions and allocations."""
    verdicts = []
    applies = kernel.startswith(f"{BOUND_KERNEL}.")
    for workload in ("plain-512", "registered-512"):
        verdicts.append(_verdict(
            f"smq_ram null=1 against scsi_debug, {workload}, insn/IO", f"<= -{BELOW_SCSI_DEBUG}",
            _difference(cells, workload, NULL_ROW, PEER_ROW),
            lambda x: x <= -BELOW_SCSI_DEBUG, applies))
    for size, limit in (("512", DATA_512), ("4k", DATA_4K)):
        for kind in ("plain", "registered"):
            workload = f"{kind}-{size}"
            verdicts.append(_verdict(
                f"smq_ram with data against null=1, {workload}, insn/IO", f"<= {limit}",
                _difference(cells, workload, DATA_ROW, NULL_ROW),
                partial(ge, limit), applies))
    for row, label in ((NULL_ROW, "smq_ram null=1"), (DATA_ROW, "smq_ram with data")):
        verdicts.append(_verdict(
            f"{label}, allocations by our modules per I/O, all workloads", f"= {ALLOCATIONS}",
            _allocations(cells, row), lambda x: x < STRAY))
    return verdicts


def of_transfers(sharings: dict[tuple[str, str], Sharing]) -> list[Verdict]:
    """The bounds on cache-line transfers."""
    verdicts = []
    for row, label in (("smq_ram_null_luns", "smq_ram null=1"), ("smq_ram_luns", "smq_ram")):
        for workload in ("plain-512", "registered-512"):
            sharing = sharings.get((row, workload))
            verdicts.append(_verdict(
                f"{label}, a LUN per CPU, {workload}, cache-line transfers by our modules per I/O",
                f"< {TRANSFERS}", max(sharing.own) if sharing else None,
                lambda x: x < TRANSFERS))
    return verdicts
