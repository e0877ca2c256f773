# SPDX-License-Identifier: GPL-2.0
"""Makes a document for programs: every figure, and how it was measured."""

from argparse import Namespace
from dataclasses import asdict
from typing import Any

from . import groups
from .bounds import Verdict
from .counts import Cells
from .guestlog import GuestLog
from .symbols import Function
from .tally import Tally
from .transfers import Sharing


def _by_name(amounts: Tally[Function]) -> dict[str, float]:
    names: Tally[str] = Tally()
    for key, value in amounts.items():
        names[str(key)] += value
    return {name: round(value, 3) for name, value in names.most_common() if value}


def _boot(log: GuestLog) -> dict[str, Any]:
    return {"kernel": log.kernel, "cpu": log.cpu, "cmdline": log.cmdline,
            "parameters": log.parameters, "queues": log.queues}


class Document:
    """A document to which figures are added."""

    def __init__(self, command: str, options: Namespace):
        self.content: dict[str, Any] = {"command": command, "kernel": options.kernel,
                                        "repeat": options.repeat, "rows": options.rows}

    def add_counts(self, log: GuestLog, cells: Cells) -> None:
        """Adds instructions per I/O."""
        self.content["instructions"] = {
            **_boot(log),
            "figures": [{
                "row": row, "workload": workload, "insns": round(cell.insns, 2),
                "repeats": [round(value, 2) for value in cell.values],
                "groups": {name: round(value, 2) for name, value in
                           groups.split(cell.per_io.insns).items()},
                "own": round(cell.own, 2), "own_with_callees": round(cell.own_with_callees, 2),
                "functions": _by_name(cell.per_io.insns), "calls": _by_name(cell.per_io.calls),
                "allocations": [{"function": name, "caller": caller, "ours": ours,
                                 "per_io": round(value, 5)}
                                for name, caller, ours, value in cell.allocations()],
            } for (row, workload), cell in cells.items()],
            "runs": [asdict(run) for run in log.runs]}

    def add_transfers(self, log: GuestLog, sharings: dict[tuple[str, str], Sharing]) -> None:
        """Adds cache-line transfers per I/O."""
        self.content["transfers"] = {
            **_boot(log),
            "figures": [{
                "row": row, "workload": workload, "own": [round(x, 5) for x in sharing.own],
                "own_accesses": round(sharing.own_accesses, 3),
                "total": round(sharing.total, 5), "interrupts": round(sharing.interrupts, 5),
                "slips": round(sharing.slips, 5),
                "own_functions": {f"{kind} {name}": round(value, 5) for (name, kind), value
                                  in sharing.own_top.most_common()},
                "functions": {f"{kind} {name}": round(value, 5) for (name, kind), value
                              in sharing.top.most_common(40)},
            } for (row, workload), sharing in sharings.items()],
            "runs": [asdict(run) for run in log.runs]}

    def add_verdicts(self, verdicts: list[Verdict]) -> None:
        """Adds the verdicts on bounds."""
        self.content["bounds"] = [{**asdict(verdict), "verdict": verdict.word}
                                  for verdict in verdicts]
