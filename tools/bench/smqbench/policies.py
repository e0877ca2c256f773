# SPDX-License-Identifier: GPL-2.0
"""Compares dispatch policies with direct, part by part. In the VM devices have modelled times,
which are right even on a busy machine."""

import dataclasses
import json
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from . import figures, instrument, measure, vm
from .errors import BenchError
from .figures import FigureSet
from .plan import Workload
from .tomls import table

TIMEOUT = 1700
GUEST = vm.BENCH / "dispatch/guest.py"
LONGER = {"files": 5400}  # each of its rounds takes half a minute of the guest's time
CPUS = {"steer": 4}
MEMORY = 2048  # MiB: with this much the kernel does not throttle prio's writers


def _command(part: str, options: Namespace) -> str:
    """The command that measures a part's figures again."""
    return f"tools/bench/policies --only {part}" + (" --quick" if options.quick else "")


def _read(path: Path, command: str) -> FigureSet:
    taken, machine, ended = FigureSet(), {}, False
    for text in path.read_text(encoding="ascii").splitlines():
        line: dict[str, Any] = json.loads(text)
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
            taken.add(instrument.figure(
                instrument="policies", row=row, kernel=machine["release"], cpus=machine["cpus"],
                command=command, note=instrument.note(row),
                parameters={**parameters, "cmdline": machine["cmdline"]},
                **instrument.fields(Workload(**line), values, metric)))
        elif kind == "end":
            ended = True
        elif kind != "seen":
            raise ValueError(f"unknown kind {kind}")
    if not ended:
        raise BenchError("the guest did not finish its measurements")
    return taken


def read(path: Path, command: str) -> FigureSet:
    """Reads a guest's figures."""
    try:
        return _read(path, command)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BenchError(f"the guest's output cannot be read: {error!r}") from error


def guest(part: str, options: Namespace, folder: Path) -> FigureSet:
    """Measures a part in one boot: under icount, so that other work of the machine has no effect,
    unless the part needs several CPUs."""
    folder.mkdir(parents=True, exist_ok=True)
    out, cpus = folder / "results", CPUS.get(part)
    words = [str(vm.VM), "--kernel", options.kernel,
             *(["--cpus", str(cpus)] if cpus else ["--icount"]),
             "--mem", str(MEMORY), "--share", str(folder), "--timeout",
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


def _native(options: Namespace, folder: Path) -> FigureSet:
    """Measures times of bucket with tools/bench/native, which refuses a busy machine. With --force
    it marks the figures instead."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "native.json"
    words = ["tools/bench/native", "--rows", ",".join(table("instruments")["native"]["named"]),
             "--load", "in-kernel", "--repeat", str(3 if options.quick else 8), "--json", str(path),
             *(["--force"] if options.force else [])]
    done = subprocess.run(words, cwd=vm.ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return FigureSet(skipped={"policies bucket, native speed": why})
    print(done.stderr.strip()[-300:], file=sys.stderr)
    taken = figures.read(path)
    taken.figures = [dataclasses.replace(one, instrument="policies") for one in taken.figures]
    return taken


def _boots(part: str, options: Namespace, folder: Path, mark: str = "", *only: str) -> FigureSet:
    return measure.measure(part, options, folder, instrument_name="policies", mark=mark,
                           command=_command(part, options), only=only)


def bucket(options: Namespace, folder: Path) -> FigureSet:
    """Measures one CPU alone, two CPUs in step and, unless --no-native is given, at native
    speed."""
    taken = _boots("bucket", options, folder, "", "alone")
    try:
        mark = instrument.refuse_busy(options.force)
        taken.merge(_boots("bucket", options, folder, mark, "locks", "lines", "shapes"))
    except instrument.Busy as error:
        taken.skipped["policies bucket, two CPUs"] = str(error)
    if not options.no_native:
        taken.merge(_native(options, folder / "native"))
    return taken


def measured(options: Namespace, folder: Path) -> FigureSet:
    """Measures part by part. If a part fails, the figures of the others stay."""
    taken = FigureSet()
    for part in options.rows:
        print(f"policies: {part}", file=sys.stderr, flush=True)
        try:
            taken.merge(bucket(options, folder / part) if part == "bucket" else
                        _boots(part, options, folder / part) if part == "batch" else
                        guest(part, options, folder / part))
        except BenchError as error:
            taken.failed[f"policies {part}"] = str(error)
    if not taken.figures:
        raise BenchError("; ".join([*taken.failed.values(), *taken.skipped.values()]))
    return taken
