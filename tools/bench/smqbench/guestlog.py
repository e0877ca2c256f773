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
    figures: dict = field(default_factory=dict)     # all the plugin said


@dataclass
class GuestLog:
    """Everything a guest wrote down."""

    kernel: str = ""
    cpu: str = ""
    cmdline: str = ""
    parameters: dict[str, list[str]] = field(default_factory=dict)
    queues: dict[str, dict[str, str]] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)


def _plugin_runs(path: Path) -> list[dict]:
    runs = []
    for line in path.read_text(encoding="ascii").splitlines():
        runs.append({key: int(value) for key, value in
                     (word.split("=", 1) for word in line.split())})
    return runs


def _remember(log: GuestLog, row: str, text: str) -> None:
    said = log.parameters.setdefault(row, [])
    if text not in said:
        said.append(text)


def read(folder: Path) -> GuestLog:
    """Reads and joins FOLDER/log and FOLDER/out."""
    log, row, repeat, ended = GuestLog(), "", 0, False
    try:
        figures = _plugin_runs(folder / "out")
        for line in (folder / "log").read_text(encoding="utf-8").splitlines():
            kind, _, rest = line.partition(" ")
            if kind in ("kernel", "cpu", "cmdline"):
                setattr(log, kind, rest)
            elif kind == "param":
                _remember(log, *rest.split(" ", 1))
            elif kind == "queue":
                name, disk, settings = rest.split(" ", 2)
                log.queues.setdefault(name, {})[disk] = settings
            elif kind == "row":
                row, number = rest.split()
                repeat = int(number)
            elif kind == "run":
                workload, _, text = rest.partition(" ")
                loop = json.loads(text)
                log.runs.append(Run(len(log.runs) + 1, row, workload, repeat, loop["count"],
                                    loop["ns"], loop))
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
