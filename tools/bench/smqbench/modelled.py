# SPDX-License-Identifier: GPL-2.0
"""Compares the policies batch, prio and steer with direct, on devices with modelled times, which
are right even in a VM on a busy machine."""

import json
import subprocess
from argparse import Namespace
from pathlib import Path
from typing import Any

from . import counts, vm
from . import instrument as common
from .errors import BenchError
from .figures import FigureSet
from .plan import Plan, Workload, parse

TIMEOUT = 1700
GUEST = vm.BENCH / "dispatch/guest.py"
LONGER = {"files": 5400}  # each of its rounds takes half a minute of the guest's time
CPUS = {"steer": 4}
MEMORY = 2048  # MiB: with this much the kernel does not throttle prio's writers

BATCH_ROWS = [f"{name}_{word}" for name in ("batch_free", "batch_bell")
              for word in ("direct", "again", "batch")]
BATCH = [Workload("io_uring", "read", 512, qd, batch)
         for qd, batch in ((1, 1), (5, 1), (8, 1), (16, 1), (32, 1), (64, 1), (32, 16))]
BATCH_COUNTS, BATCH_WARMUP, SIZE_MB = (1500, 4500), 1500, 4


def _command(part: str, options: Namespace) -> str:
    """The command that measures a part's figures again."""
    return f"tools/bench/policies --only {part}" + (" --quick" if options.quick else "")


def batch(options: Namespace, folder: Path) -> FigureSet:
    """Measures batch under icount: there the clock counts instructions, so that times are exact."""
    workloads = [one for one in BATCH
                 if not options.quick or one.qd in (8, 32, 64) and one.batch == 1]
    plan = Plan([(row, workloads) for row in BATCH_ROWS], BATCH_COUNTS, BATCH_WARMUP, SIZE_MB,
                latencies=True)
    log = common.boot(plan, options, folder, plugin="count", name="batch",
                      vm_options=["--icount"], timeout=TIMEOUT)
    taken = FigureSet(skipped=common.skipped(log, "policies"),
                      failed=common.without_policy(log, "policies"))
    runs = common.first_runs(log)
    longest = [run for run in log.runs if run.count == BATCH_COUNTS[-1]]
    for (row, key), cell in counts.cells(log, folder).items():
        mine = [run for run in longest if (run.row, run.workload) == (row, key)]
        same = {"instrument": "policies", "row": row, "kernel": log.kernel,
                "command": _command("batch", options), "note": common.note(row),
                "parameters": common.setting(log, runs[row, key], plan)}
        values = {"insn": cell.values, "iops": [1e9 * run.ios / run.ns for run in mine],
                  "doorbells": log.doorbells.get((row, key), [])}
        for name in ("p50", "p99", "p999"):
            values[f"lat_{name}"] = [run.loop["lat_ns"][name] / 1e6 for run in mine]
        for metric, found in values.items():
            if found:
                taken.add(common.figure(**same, **common.fields(parse(key), found, metric)))
    return taken


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]
    except (OSError, ValueError) as error:
        raise BenchError(f"the guest's output cannot be read: {error}") from error
    if not all(isinstance(line, dict) for line in lines):
        raise BenchError("the guest's output cannot be read: a line is no object")
    return lines


def _read(path: Path, command: str) -> FigureSet:
    taken, machine, ended = FigureSet(), {}, False
    for line in _lines(path):
        kind = line.pop("kind")
        if kind == "kernel":
            machine = line
        elif kind == "error":
            raise BenchError(f"the guest: {line['why']}")
        elif kind == "figure":
            values, metric, row = line.pop("values"), line.pop("metric"), line.pop("row")
            parameters = line.pop("parameters")
            if parameters.get("verified") is False:
                raise BenchError(f"{row}: the data that was read is not the data that was written")
            taken.add(common.figure(
                instrument="policies", row=row, kernel=machine["release"], cpus=machine["cpus"],
                command=command, note=common.note(row),
                parameters={**parameters, "cmdline": machine["cmdline"]},
                **common.fields(Workload(**line), values, metric)))
        elif kind == "end":
            ended = True
        elif kind != "seen":
            raise BenchError(f"the guest's output cannot be read: unknown kind {kind}")
    if not ended:
        raise BenchError("the guest did not finish its measurements")
    return taken


def read(path: Path, command: str) -> FigureSet:
    """Reads a guest's figures."""
    try:
        return _read(path, command)
    except (KeyError, TypeError) as error:
        raise BenchError(f"the guest's output cannot be read: {error!r}") from error


def _machine(part: str, options: Namespace) -> list[str]:
    """The command that starts the VM for a part: under icount, so that other work of the machine
    has no effect, unless the part needs several CPUs."""
    cpus = CPUS.get(part)
    return [str(vm.VM), "--kernel", options.kernel,
            *(["--cpus", str(cpus)] if cpus else ["--icount"])]


def guest(part: str, options: Namespace, folder: Path) -> FigureSet:
    """Measures a part in one boot."""
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / "results"
    words = [*_machine(part, options), "--mem", str(MEMORY), "--share", str(folder), "--timeout",
             str(LONGER.get(part, TIMEOUT)), "--", "python3", "-B", str(GUEST), part, str(out),
             str(options.repeat), "quick" if options.quick else "all"]
    with (folder / "said").open("w+", encoding="utf-8") as said:
        with subprocess.Popen(words, cwd=vm.ROOT, stdin=subprocess.DEVNULL, stdout=said,
                              stderr=said) as process:
            try:
                process.wait()
            except BaseException:
                process.terminate()
                raise
        said.seek(0)
        text = said.read().strip()
    if process.returncode == 1 and out.exists():
        read(out, "")  # raises the guest's error
    if process.returncode:
        raise BenchError(f"the VM ended with status {process.returncode}:\n{text}")
    return read(out, _command(part, options))


def prio(options: Namespace, folder: Path) -> FigureSet:
    """Measures prio: sync writes during async writes."""
    return guest("prio", options, folder)


def depth(options: Namespace, folder: Path) -> FigureSet:
    """Measures prio without a setting, on devices that are never full."""
    return guest("depth", options, folder)


def files(options: Namespace, folder: Path) -> FigureSet:
    """Measures prio on a file system."""
    return guest("files", options, folder)


def steer(options: Namespace, folder: Path) -> FigureSet:
    """Measures steer: commands that leave a busy hardware queue."""
    return guest("steer", options, folder)
