# SPDX-License-Identifier: GPL-2.0
"""Cache-line transfers per I/O between two CPUs, from the lines plugin."""

from dataclasses import dataclass, field
from pathlib import Path

from .errors import BenchError
from .guestlog import GuestLog, Run
from .symbols import Symbols, symbols_of
from .tally import Tally

# The most slips per I/O. A vCPU slips if it runs ahead because the host does not run the other one.
MAX_SLIPS = 0.5
SMALL = 0.005  # transfers per I/O: functions with less are left out


@dataclass
class Sharing:
    """One workload on one row, per I/O."""

    repeats: int = 0
    totals: list[float] = field(default_factory=list)   # one a repeat, without interrupts
    own: list[float] = field(default_factory=list)      # one a repeat
    own_accesses: float = 0.0   # by our modules to memory, whether a line moved or not
    slips: float = 0.0
    # (function, kind) -> transfers
    top: Tally[tuple[str, str]] = field(default_factory=Tally)
    own_top: Tally[tuple[str, str]] = field(default_factory=Tally)  # charged to our modules


def by_function(found: Tally[tuple[str, str]]) -> dict[str, float]:
    """Transfers by function, as text for a figure, the largest first."""
    return {f"{kind} {name}": round(value, 4) for (name, kind), value in found.most_common()
            if value >= SMALL}


def _add(sharing: Sharing, run: Run, path: Path, symbols: Symbols) -> None:
    figures, ios = run.figures, run.ios
    if figures["beyond"] or figures["overflow"]:
        raise BenchError(f"{run.row} {run.workload}: the lines plugin ran out of room "
                         f"(beyond={figures['beyond']} overflow={figures['overflow']})")
    sharing.repeats += 1
    sharing.totals.append((figures["reads"] + figures["writes"]) / ios)
    sharing.own.append((figures["own"] + figures["lost"]) / ios)
    sharing.own_accesses += figures["own_accesses"] / ios
    sharing.slips += figures["slips"] / ios
    for line in path.read_text(encoding="ascii").splitlines():
        _, _, _, pc, kind, count = line.split()
        key = str(symbols.function(int(pc, 16))), "write" if "w" in kind else "read"
        if "o" in kind or "l" in kind:
            sharing.own_top[key] += int(count) / ios
        if "i" not in kind:
            sharing.top[key] += int(count) / ios


def sharings(log: GuestLog, folder: Path,
             strict: bool = True) -> dict[tuple[str, str], Sharing]:
    """Means of the repeats, by row and workload. BenchError if @strict and the machine was busy."""
    result: dict[tuple[str, str], Sharing] = {}
    for run in log.runs:
        _add(result.setdefault((run.row, run.workload), Sharing()), run,
             folder / f"hist.{run.number}", symbols_of(folder, run))
    for (row, workload), sharing in result.items():
        for name in ("own_accesses", "slips"):
            setattr(sharing, name, getattr(sharing, name) / sharing.repeats)
        for counter in (sharing.top, sharing.own_top):
            for key in counter:
                counter[key] /= sharing.repeats
        if strict and sharing.slips > MAX_SLIPS:
            raise BenchError(f"{row} {workload}: the two vCPUs ran apart {sharing.slips:.2f} "
                             "times per I/O; is the machine busy?")
    return result
