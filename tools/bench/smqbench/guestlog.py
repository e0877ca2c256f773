# SPDX-License-Identifier: GPL-2.0
"""Reads the guest's log and the plugin's log. Both have the same runs in the same order."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import BenchError


@dataclass
class Run:
    """One measured run."""

    number: int             # the plugin's number of the run
    row: str
    workload: str
    repeat: int
    count: int              # I/Os
    ns: int                 # by the guest's clock
    loop: dict[str, Any]              # the program's output
    # How the row's modules and queues are set up.
    setting: dict[str, Any] = field(default_factory=dict)
    figures: dict[str, int] = field(default_factory=dict)   # the plugin's output

    @property
    def jobs(self) -> int:
        """The number of jobs, each of which issued COUNT I/Os."""
        return self.loop.get("jobs") or max(len(self.loop["devices"]), 1)

    @property
    def ios(self) -> int:
        """The I/Os of all jobs."""
        return self.count * self.jobs


@dataclass
class GuestLog:
    """All records of a guest."""

    kernel: str = ""
    cpu: str = ""
    cmdline: str = ""
    parameters: dict[str, list[str]] = field(default_factory=dict)
    queues: dict[str, dict[str, str]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)    # row: why
    runs: list[Run] = field(default_factory=list)
    # By row and workload: a list with the doorbells per I/O in each repeat.
    doorbells: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    # By row and workload: a list with the policy's counters per I/O in each repeat, by name.
    counted: dict[tuple[str, str], list[dict[str, float]]] = field(default_factory=dict)


def _plugin_runs(path: Path) -> list[dict[str, int]]:
    runs = []
    for line in path.read_text(encoding="ascii").splitlines():
        runs.append({key: int(value) for key, value in
                     (word.split("=", 1) for word in line.split())})
    return runs


def _of_program(log: GuestLog, workload: str) -> tuple[tuple[str, str], int]:
    """Row and workload of the program that ran last, and its I/Os: its warm-up and all its runs."""
    if not log.runs or log.runs[-1].workload != workload:
        raise ValueError(f"counts of {workload}, which was not run")
    last, ios = log.runs[-1], 0
    for run in reversed(log.runs):
        if (run.row, run.workload, run.repeat) != (last.row, workload, last.repeat):
            break
        ios += run.ios
    return (last.row, workload), ios + last.loop["warmup"] * last.jobs


def _add_doorbells(log: GuestLog, workload: str, rung: int) -> None:
    key, ios = _of_program(log, workload)
    log.doorbells.setdefault(key, []).append(rung / ios)


def _add_counted(log: GuestLog, workload: str, text: str) -> None:
    """Adds the difference of the policy's counters before and after a program."""
    key, ios = _of_program(log, workload)
    before, after = ({name: int(value) for name, value in (
        word.split("=") for word in part.split())} for part in text.split("/"))
    log.counted.setdefault(key, []).append(
        {name: (after[name] - before.get(name, 0)) / ios for name in after})


def _add_effective(log: GuestLog, workload: str, policy: str) -> None:
    """Records the policy that was effective when the last program ended."""
    row, _ = _of_program(log, workload)[0]
    for run in log.runs:
        if (run.row, run.workload, run.repeat) == (row, workload, log.runs[-1].repeat):
            run.setting = {**run.setting, "effective": policy}


def _remember(log: GuestLog, row: str, text: str) -> None:
    said = log.parameters.setdefault(row, [])
    if text not in said:
        said.append(text)


def read(folder: Path, plugin: bool = True) -> GuestLog:
    """Reads FOLDER/log and, with @plugin, FOLDER/out, and joins their runs."""
    log, row, repeat, ended = GuestLog(), "", 0, False
    # The set-up of the modules and queues of the row that follows in the log.
    setting: dict[str, Any] = {}
    try:
        figures = _plugin_runs(folder / "out") if plugin else []
        for line in (folder / "log").read_text(encoding="utf-8").splitlines():
            kind, _, rest = line.partition(" ")
            if kind in ("kernel", "cpu", "cmdline"):
                setattr(log, kind, rest)
            elif kind == "param":
                name, text = rest.split(" ", 1)
                _remember(log, name, text)
                if "queue" in setting:
                    setting = {}
                setting.setdefault("modules", []).append(text)
            elif kind == "queue":
                name, disk, settings = rest.split(" ", 2)
                log.queues.setdefault(name, {})[disk] = settings
                setting.setdefault("queue", settings)
            elif kind == "row":
                row, number = rest.split()
                repeat = int(number)
            elif kind == "run":
                workload, _, text = rest.partition(" ")
                loop = json.loads(text)
                log.runs.append(Run(len(log.runs) + 1, row, workload, repeat, loop["count"],
                                    loop["ns"], loop, setting))
            elif kind == "doorbells":
                workload, rung = rest.split()
                _add_doorbells(log, workload, int(rung))
            elif kind == "counted":
                workload, text = rest.split(" ", 1)
                _add_counted(log, workload, text)
            elif kind == "effective":
                _add_effective(log, *rest.split())
            elif kind == "skip":
                name, why = rest.split(" ", 1)
                log.skipped[name] = why
            elif kind == "end":
                ended = True
            else:
                raise ValueError(f"unknown line: {line}")
    except (OSError, ValueError, KeyError) as error:
        raise BenchError(f"the guest's output cannot be read: {error}") from error
    if not ended:
        raise BenchError("the guest did not finish its measurements")
    if plugin and len(figures) != len(log.runs):
        raise BenchError(f"the guest measured {len(log.runs)} times, the plugin {len(figures)}")
    for run, figure in zip(log.runs, figures):
        if figure["run"] != run.number:
            raise BenchError(f"found the plugin's run {figure['run']}, expected {run.number}")
        run.figures = figure
    return log
