# SPDX-License-Identifier: GPL-2.0
"""Code that the instruments share: command line, boot, fields of a figure."""

import argparse
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from . import bars, matrix, rows, vm
from .bars import Verdict
from .errors import BenchError
from .figures import METRICS, Figure, FigureSet
from .groups import OWN_MODULES
from .guestlog import GuestLog, Run
from .plan import Plan, Workload
from .rows import ROWS
from .timing import spread
from .tomls import table

MAX_REPEAT = 50
# Two vCPUs in step need two CPUs to themselves. Other processes may use at most MAX_BUSY of these,
# measured for LOOK seconds. (A load average would include the instrument that ran before.)
MAX_BUSY = 0.4
LOOK = 3.0
EPILOG = "exit status: 0 all was measured; 2 the measurement failed, or a bar was missed"
More = Callable[[argparse.ArgumentParser], None]    # adds options


def parse(name: str, more: More | None = None, arguments: Sequence[str] | None = None
          ) -> argparse.Namespace:
    """Parses the command line of an instrument."""
    spec = table("instruments")[name]
    named = [*spec["rows"], *spec.get("named", [])]
    parser = argparse.ArgumentParser(
        prog=f"tools/bench/{name}", description=spec.get("about"), epilog=EPILOG,
        allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--json", type=Path, metavar="FILE", help="writes the figures to this file")
    add("--rows", "--only", metavar="ROW,...", help="measures only these: " + " ".join(named))
    add("--repeat", type=int, default=spec["repeat"], metavar="N",
        help="measures every row N times (default: %(default)s)")
    if spec.get("kernel", True):
        add("--kernel", default="6.1", metavar="6.1|6.12|7.2|PATH", help="default: %(default)s")
    add("--keep", type=Path, metavar="DIR", help="keeps the output of guest and plugin")
    if spec.get("two_cpus"):
        add("--force", action="store_true",
            help="measures two CPUs even on a busy machine, and marks these figures")
    add("--bars", action="store_true", default=spec.get("judge", False),
        help="exit status 2 if a bar is missed")
    for option, text in spec.get("options", {}).items():
        add(f"--{option}", action="store_true", help=text)
    if more:
        more(parser)
    options = parser.parse_args(arguments)
    if not 1 <= options.repeat <= MAX_REPEAT:
        parser.error(f"--repeat {options.repeat}: from 1 to {MAX_REPEAT}")
    if options.json and not options.json.resolve().parent.is_dir():
        parser.error(f"--json {options.json}: no such folder")
    if options.keep and options.keep.exists() and any(options.keep.iterdir()):
        parser.error(f"--keep {options.keep}: is not empty")
    try:
        options.rows = rows.chosen(options.rows, named) if options.rows else list(spec["rows"])
    except BenchError as error:
        parser.error(str(error))
    return options


def command(name: str, options: argparse.Namespace, row: str) -> str:
    """The command that measures a row's figures again."""
    words = [{"virtio": "tools/bench/insn --virtio", "conv": "tools/bench/convert --conv"}.get(
        name, f"tools/bench/{name}"), "--rows", row, "--repeat", str(options.repeat)]
    if getattr(options, "kernel", "6.1") != "6.1":
        words += ["--kernel", options.kernel]
    return " ".join(words + (["--force"] if getattr(options, "force", False) else []))


def run(name: str, options: argparse.Namespace,
        measure: Callable[[argparse.Namespace, Path], FigureSet],
        show: Callable[[FigureSet], list[str]],
        judge: Callable[[FigureSet], list[Verdict]]) -> int:
    """Measures, writes the figures and prints them, and judges the bars. Returns the status."""
    # Exit through the code that ends the VM.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        with tempfile.TemporaryDirectory(prefix="smq-bench.") as folder:
            taken = measure(options, (options.keep or Path(folder)).resolve())
        for what, why in (taken.skipped | taken.failed).items():
            print(f"{what}: {why}", file=sys.stderr)
        if options.json:
            taken.write(options.json)
    except (BenchError, OSError) as error:
        print(f"tools/bench/{name}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    verdicts = judge(taken)
    seen = [one for one in verdicts if options.bars or one.value is not None]
    print("\n".join([*show(taken), *(["", *matrix.table(*bars.cells(seen))] if seen else [])]))
    missed = [one for one in verdicts if not one.ok] if options.bars else []
    for one in missed:
        print(f"tools/bench/{name}: {one.what}: {one.word}: {one.text}, bar {one.limit}",
              file=sys.stderr)
    return 2 if missed or options.bars and taken.failed else 0


def boot(plan: Plan, options: argparse.Namespace, folder: Path, *, plugin: str, name: str,
         vm_options: Sequence[str], plugin_arguments: Sequence[str] = (),
         timeout: int, own: frozenset[str] = OWN_MODULES) -> GuestLog:
    """Boots a VM that measures a plan."""
    folder.mkdir(parents=True, exist_ok=True)
    plan.write(folder / "plan", options.repeat)
    return vm.run(vm.Boot(
        plugin=plugin, kernel=options.kernel, script=vm.BENCH / "guest" / "plan",
        arguments=[str(folder / "plan")], vm_options=vm_options,
        plugin_arguments=plugin_arguments, expected_runs=plan.runs(options.repeat),
        timeout=timeout, own=own, name=name), folder)


def _busy_ticks() -> tuple[int, int]:
    """Ticks of all CPUs since boot, from /proc/stat: those that were not idle, and all."""
    words = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()
    ticks = [int(word) for word in words[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def busy_cpus(seconds: float = LOOK) -> float:
    """The number of CPUs that other processes use now, measured for @seconds."""
    busy, every = _busy_ticks()
    time.sleep(seconds)
    busy_then, every_then = _busy_ticks()
    return (os.cpu_count() or 1) * (busy_then - busy) / max(every_then - every, 1)


class Busy(BenchError):
    """The machine is busy: figures of two CPUs are not taken."""


def refuse_busy(force: bool) -> str:
    """Refuses a busy machine: figures of two CPUs need two idle CPUs. Returns a note for the
    figures, empty if the machine is idle."""
    cpus, busy = os.cpu_count() or 1, busy_cpus()
    if cpus < 2:
        trouble = "this machine has one CPU, two vCPUs need two"
    elif busy > cpus - 2 + MAX_BUSY:
        trouble = f"this machine is busy: other processes use {busy:.1f} of its {cpus} CPUs"
    else:
        return ""
    if not force:
        raise Busy(f"{trouble}; two-CPU figures are not taken (wait, or --force)")
    return f"forced: {trouble}"


def fields(workload: Workload, values: Sequence[float], metric: str) -> dict[str, Any]:
    """The fields of a figure that follow from the workload and the values."""
    return {
        "path": workload.path, "op": workload.op, "bs": workload.bs, "qd": workload.qd,
        "batch": workload.batch, "luns": workload.luns, "jobs": workload.jobs,
        "metric": metric, "unit": METRICS[metric][0], "value": round(statistics.median(values), 5),
        "spread": round(spread(values), 5), "repeats": len(values),
        "values": [round(value, 5) for value in values],
    }


def setting(log: GuestLog, run: Run, plan: Plan) -> dict[str, Any]:
    """The parameters of a figure."""
    return {**run.setting, "cmdline": log.cmdline, "cpu": log.cpu, "elevator": "none",
            "counts": list(plan.counts), "warmup": plan.warmup, "size_mb": plan.size_mb}


# The policy that must be effective when a program of these rows ends.
HOLDING = {"smq_ram_doorbell_batch": "batch", "batch_bell_batch": "batch",
           "attach_scsi_debug_prio": "direct"}


def without_policy(log: GuestLog, name: str) -> dict[str, str]:
    """Rows in which another policy was effective when a program ended, although the layer has not
    found the chosen one to be slower: that was measured."""
    return {f"{name} {run.row}": f"{run.workload}: {run.setting.get('effective')} was effective, "
            f"not {HOLDING[run.row]}" for run in log.runs
            if run.row in HOLDING
            and run.setting.get("effective") not in (HOLDING[run.row], "slower")}


def first_runs(log: GuestLog) -> dict[tuple[str, str], Run]:
    """The first run of each row and workload."""
    result: dict[tuple[str, str], Run] = {}
    for run in log.runs:
        result.setdefault((run.row, run.workload), run)
    return result


def note(row: str, *more: str) -> str:
    """A figure's note for the reader."""
    return "; ".join(text for text in (ROWS[row].note, *more) if text)


def figure(**content: Any) -> Figure:
    """Makes a figure; copies the row's "model" to it."""
    return Figure(model=ROWS[content["row"]].model, **content)
