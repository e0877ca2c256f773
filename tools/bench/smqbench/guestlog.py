# SPDX-License-Identifier: GPL-2.0
"""The guest's log and a plugin's, which tell of the same runs in the same order."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from .errors import BenchError


@dataclass
class Run:
    """One measured run."""

    number: int             # as the plugin counts them
    row: str
    workload: str
    repeat: int
    count: int              # I/Os
    ns: int                 # by the guest's clock
    loop: dict              # all the program said
    setting: dict = field(default_factory=dict)     # of the row's modules and queues
    figures: dict = field(default_factory=dict)     # all the plugin said

    @property
    def jobs(self) -> int:
        """That issued COUNT each."""
        return self.loop.get("jobs") or max(len(self.loop["devices"]), 1)

    @property
    def ios(self) -> int:
        """Of all jobs."""
        return self.count * self.jobs


@dataclass
class GuestLog:
    """Everything a guest wrote down."""

    kernel: str = ""
    cpu: str = ""
    cmdline: str = ""
    parameters: dict[str, list[str]] = field(default_factory=dict)
    queues: dict[str, dict[str, str]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)    # row: why
    runs: list[Run] = field(default_factory=list)
    # By row and workload, doorbells per I/O of each repeat.
    doorbells: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    # The same of what the row's policy counts, by its names.
    counted: dict[tuple[str, str], list[dict[str, float]]] = field(default_factory=dict)


def _plugin_runs(path: Path) -> list[dict]:
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
    """What the policy had counted before and after."""
    key, ios = _of_program(log, workload)
    before, after = ({name: int(value) for name, value in (
        word.split("=") for word in part.split())} for part in text.split("/"))
    log.counted.setdefault(key, []).append(
        {name: (after[name] - before.get(name, 0)) / ios for name in after})


def _remember(log: GuestLog, row: str, text: str) -> None:
    said = log.parameters.setdefault(row, [])
    if text not in said:
        said.append(text)


def read(folder: Path) -> GuestLog:
    """Reads and joins FOLDER/log and FOLDER/out."""
    log, row, repeat, ended = GuestLog(), "", 0, False
    setting: dict = {}      # of the row whose line comes next
    try:
        figures = _plugin_runs(folder / "out")
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
            elif kind == "skip":
                name, why = rest.split(" ", 1)
                log.skipped[name] = why
            elif kind == "end":
                ended = True
            else:
                raise ValueError(f"unknown line: {line}")
    except (OSError, ValueError, KeyError) as error:
        raise BenchError(f"what the guest wrote cannot be read: {error}") from error
    if not ended:
        raise BenchError("the guest did not come to the end of its measurements")
    if len(figures) != len(log.runs):
        raise BenchError(f"the guest measured {len(log.runs)} times, the plugin {len(figures)}")
    for run, figure in zip(log.runs, figures):
        if figure["run"] != run.number:
            raise BenchError(f"the plugin's run {figure['run']} stands where {run.number} should")
        run.figures = figure
    return log
