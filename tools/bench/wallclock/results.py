# SPDX-License-Identifier: GPL-2.0
"""Reads and checks the guest's output, and converts it to figures."""

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from smqbench import instrument, plan as plans, timing
from smqbench.errors import BenchError
from smqbench.figures import Figure
from smqbench.rows import ROWS

from . import rounds

# If a doorbell's cost is off by more than this, the figures are not valid.
DELAY_TOLERANCE = 0.15


@dataclass
class Cell:
    """The result of a workload on a row: nanoseconds per command, by repeat and chunk, of all CPUs
    together."""

    repeats: list[list[float]] = field(default_factory=list)
    group: int = 0  # cells of the same group are compared with each other
    mark: str = ""  # a remark for the report

    def low(self) -> list[float]:
        """p10 of each repeat, which other work on the machine affects least."""
        return [timing.percentile(chunks, 10) for chunks in self.repeats]


@dataclass
class Results:
    """All results of one guest."""

    kernel: str = ""
    cmdline: str = ""
    settings: dict[str, dict[str, str]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    cells: dict[tuple[str, str], Cell] = field(default_factory=dict)
    looks: dict[int, list[float]] = field(default_factory=dict)  # slowdowns, by group
    delay_wanted: int = 0       # ns that a doorbell should take
    delay: float = 0.0  # ns that a doorbell takes with the last setting tried
    delays: list[tuple[int, float]] = field(default_factory=list)  # (setting, ns), all tries
    ended: bool = False

    def against_block(self, row: str, key: str) -> dict[str, list[float]]:
        """Ratios of a load from user space to block reads with registered buffers: p10 of each
        repeat, divided by p10 of the reads in the same round. The second metric leaves out the time
        of the system calls; it does not exist if commands wait for the device."""
        workload = plans.parse(key)
        if workload.path == plans.IN_KERNEL or workload.op == "call":
            return {}
        ours = self.cells[row, key].low()
        theirs = self._lows(row, replace(workload, path="io_uring_fixed"))
        calls = self._lows(row, replace(workload, path="io_uring", op="call", bs=0))
        found = {}
        if theirs:
            found["against_block"] = timing.ratios(ours, theirs)
        if theirs and calls and not ROWS[row].waits:
            found["against_block_bare"] = timing.ratios(
                *([value - call for value, call in zip(values, calls)]
                  for values in (ours, theirs)))
        return found

    @property
    def all_looks(self) -> list[float]:
        """The results of all looks at the machine, in order of time."""
        return [look for looks in self.looks.values() for look in looks]

    def of_group(self, group: int) -> dict[tuple[str, str], Cell]:
        """The cells that are compared with each other."""
        return {key: cell for key, cell in self.cells.items() if cell.group == group}

    def drop(self, group: int, numbers: Sequence[int]) -> None:
        """Removes rounds, counted from 0, from all cells of a group."""
        for cell in self.of_group(group).values():
            cell.repeats = [chunks for number, chunks in enumerate(cell.repeats)
                            if number not in numbers]

    def _lows(self, row: str, workload: plans.Workload) -> list[float]:
        """p10 of each repeat; empty if this workload was not measured on the row."""
        cell = self.cells.get((row, workload.key))
        return cell.low() if cell else []

    def delay_warning(self) -> str:
        """A message if the doorbell's cost is not the wanted one, else ""."""
        if self.delay_wanted and \
                abs(self.delay / self.delay_wanted - 1) > DELAY_TOLERANCE:
            return (f"no setting was found with which a doorbell takes {self.delay_wanted} ns; "
                    f"with the last one tried it takes {self.delay:.0f}")
        return ""


def _take(results: Results, line: dict[str, Any]) -> None:
    kind = line.pop("kind")
    if kind == "kernel":
        results.kernel, results.cmdline = line["release"], line["cmdline"]
    elif kind == "row":
        results.settings[line["row"]] = line["setting"]
    elif kind == "skip":
        results.skipped[line["row"]] = line["why"]
    elif kind == "delay":
        results.delay_wanted, results.delay = line["wanted"], line["took"]
        results.delays.append((line["setting"], line["took"]))
    elif kind == "spin":
        results.looks.setdefault(line["group"], []).append(
            rounds.slowdown(line["alone"], line["together"]))
    elif kind == "run":
        chunks = [value for job in line["chunks"] for value in job]
        if not chunks or min(chunks) <= 0:
            raise BenchError(f"{line['row']} {line['workload']}: no command was measured")
        cell = results.cells.setdefault((line["row"], line["workload"]),
                                        Cell(group=line["group"]))
        cell.repeats.append(chunks)
        if len(cell.repeats) != line["repeat"]:
            raise BenchError(f"{line['row']} {line['workload']}: found repeat {line['repeat']}, "
                             f"expected {len(cell.repeats)}")
    elif kind == "error":
        raise BenchError(f"the guest: {line['why']}")
    elif kind == "end":
        results.ended = True
    else:
        raise ValueError(f"unknown kind {kind}")


def read(path: Path, repeats: int) -> Results:
    """Reads and checks a guest's output."""
    results = Results()
    try:
        for text in path.read_text(encoding="ascii").splitlines():
            _take(results, json.loads(text))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BenchError(f"the guest's output cannot be read: {error}") from None
    if not results.ended:
        raise BenchError("the guest did not finish its measurements")
    for (row, workload), cell in results.cells.items():
        if len(cell.repeats) != repeats:
            raise BenchError(f"{row} {workload}: {len(cell.repeats)} repeats, {repeats} wanted")
        looks = len(results.looks.get(cell.group, []))
        if plans.parse(workload).jobs > 1 and looks != repeats + 1:
            raise BenchError(f"{row} {workload}: {looks} looks at the machine, {repeats + 1} "
                             "wanted")
    return results


def figures(results: Results, command: str, cpus: int, marks: dict[int, str]) -> Iterable[Figure]:
    """The figures: for each workload the time of a command; from user space also the ratio to block
    reads; in the kernel, if several commands wait for the device, also the commands that a CPU
    could do in a second; with the policy batch also the ratio to direct. @marks: remarks on
    figures, by number of jobs."""
    for (row, key), cell in results.cells.items():
        workload = plans.parse(key)
        times = timing.summary(cell.repeats)
        off = results.delay_warning() if "doorbell" in row else ""
        same = {
            "instrument": "native", "row": row, "kernel": results.kernel, "command": command,
            "cpus": cpus,
            "note": instrument.note(row, marks.get(workload.jobs, ""), cell.mark, off),
            "parameters": {**results.settings[row], "cmdline": results.cmdline,
                           "wait": _wait(row, workload)}}
        medians = [statistics.median(chunks) for chunks in cell.repeats]
        yield instrument.figure(**same, **instrument.fields(workload, medians, "time"),
                                p10=round(times.p10, 2), median=round(times.median, 2))
        if workload.path != plans.IN_KERNEL:
            for metric, ratios in results.against_block(row, key).items():
                yield instrument.figure(**same, **instrument.fields(workload, ratios, metric))
        elif ROWS[row].waits and workload.qd > 1:
            yield instrument.figure(**same, **instrument.fields(
                workload, [1e9 / value for value in medians], "iops_cpu"))
        direct = results.cells.get((row.removesuffix("_batch"), key))
        if row.endswith("_batch") and direct:
            yield instrument.figure(**same, **instrument.fields(
                workload, timing.ratios(direct.low(), cell.low()), "against_direct"))


def _wait(row: str, workload: plans.Workload) -> str:
    """How the load waits for its commands."""
    if workload.path != plans.IN_KERNEL:
        return "io_uring_enter"
    return "spin" if ROWS[row].waits else "sleep"
