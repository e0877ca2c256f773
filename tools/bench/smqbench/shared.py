# SPDX-License-Identifier: GPL-2.0
"""Compares the policy bucket with direct: two CPUs in step on one hardware queue, one CPU alone,
and the loads (jobs x QD) that others reported. These are counts; tools/bench/native measures times.
"""

import dataclasses
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from . import acquisitions, counts, figures, groups, transfers, vm
from . import instrument as common
from .acquisitions import LOCKING
from .errors import BenchError
from .figures import FigureSet
from .guestlog import GuestLog
from .plan import Plan, Workload, parse

COMMAND = "tools/bench/policies --only bucket"
PAIR_ROWS = [f"shared_{word}" for word in ("direct", "again", "bucket", "deadline")]
ALONE_ROWS = [f"shared_{word}" for word in ("direct", "again", "bucket_default", "bucket")]
HOME_ROWS = ["shared_home_direct", "shared_home_bucket"]
SHAPE_ROWS = [f"{name}_{word}" for name in ("shared", "shared_nomerges")
              for word in ("direct", "bucket")]
NATIVE_ROWS = [f"{name}_{word}" for name in ("shared", "shared_bell")
               for word in ("direct", "again", "bucket")]
PAIR = [Workload("io_uring", "read", 512, 32, batch, 1, 2) for batch in (1, 16)]
ALONE = [Workload("io_uring", "read", 512, qd, batch) for qd, batch in ((1, 1), (32, 1), (32, 16))]
# The loads (jobs x QD) that others reported, here on two CPUs.
SHAPES = [Workload("io_uring", "read", 512, qd, min(qd, 16), 1, jobs)
          for jobs, qd in ((1, 128), (32, 4), (72, 128))]
PAIR_COUNT, ALONE_COUNTS, SHAPE_COUNT = 2000, (1500, 4500), 1500
WARMUP, SIZE_MB = 500, 4
TIMEOUT = 1500
TWO = ["--cpus", "2", "--append", "tsc=reliable"]


def _figures(log: GuestLog, plan: Plan, row: str, key: str, cpus: int,
             mark: str) -> Callable[..., figures.Figure]:
    """Returns a function that makes a figure of a row's workload from a metric and its values."""
    runs = common.first_runs(log)
    same = {"instrument": "policies", "row": row, "kernel": log.kernel, "cpus": cpus,
            "command": COMMAND, "note": common.note(row, mark),
            "parameters": common.setting(log, runs[row, key], plan)}

    def make(metric: str, values: list[float], **parts: dict[str, float]) -> figures.Figure:
        return common.figure(**same, **common.fields(parse(key), values, metric), parts=parts)
    return make


def _waits(options: Namespace, folder: Path, rows: list[str], workloads: list[Workload],
           count: int, mark: str, repeat: int) -> FigureSet:
    """Counts waits for locks, and instructions, on two CPUs."""
    plan = Plan([(row, workloads) for row in rows], (count,), WARMUP, SIZE_MB)
    log = common.boot(plan, Namespace(**{**vars(options), "repeat": repeat}), folder,
                      plugin="locks", name="bucket, locks", vm_options=TWO,
                      plugin_arguments=LOCKING, timeout=TIMEOUT)
    found = acquisitions.cells(log, folder)
    acquisitions.check(found)
    taken = FigureSet(skipped=common.skipped(log, "policies"))
    for (row, key), repeats in found.items():
        make = _figures(log, plan, row, key, 2, mark)
        last = repeats[-1]
        taken.add(make("waits", [one.waits() for one in repeats], lock=last.by_lock(True)))
        taken.add(make("locks", [one.total() for one in repeats], lock=last.by_lock()))
        taken.add(make("insn", [sum(one.insns.values()) for one in repeats]))
        if (row, key) in log.doorbells:
            taken.add(make("doorbells", log.doorbells[row, key]))
        counted = [one for one in log.counted.get((row, key), []) if "shared" in one]
        if counted:
            taken.add(make("shared", [one["shared"] for one in counted]))
    return taken


def _lines(options: Namespace, folder: Path, mark: str) -> FigureSet:
    """Counts the cache lines that move between the CPUs."""
    plan = Plan([(row, PAIR) for row in PAIR_ROWS + HOME_ROWS], (PAIR_COUNT,), WARMUP, SIZE_MB)
    log = common.boot(plan, options, folder, plugin="lines", name="bucket, lines", vm_options=TWO,
                      plugin_arguments=vm.HANDED_OVER, timeout=TIMEOUT)
    taken = FigureSet(skipped=common.skipped(log, "policies"))
    for (row, key), sharing in transfers.sharings(log, folder, strict=not options.force).items():
        make = _figures(log, plan, row, key, 2, mark)
        taken.add(make("transfers", sharing.totals, function={
            f"{kind} {name}": round(value, 4)
            for (name, kind), value in sharing.top.most_common(40)}))
        taken.add(make("own_transfers", sharing.own))
    return taken


def _alone(options: Namespace, folder: Path) -> FigureSet:
    """Measures the instructions of one submitter exactly."""
    plan = Plan([(row, ALONE) for row in ALONE_ROWS], ALONE_COUNTS, WARMUP, SIZE_MB)
    log = common.boot(plan, options, folder, plugin="count", name="bucket, one submitter",
                      vm_options=["--icount"], timeout=TIMEOUT)
    taken = FigureSet(skipped=common.skipped(log, "policies"))
    for (row, key), cell in counts.cells(log, folder).items():
        make = _figures(log, plan, row, key, 1, "")
        taken.add(make("insn", cell.values, group={
            name: round(value, 2) for name, value in groups.split(cell.per_io.insns).items()}))
    return taken


def _native(options: Namespace, folder: Path) -> FigureSet:
    """Measures times with tools/bench/native, which refuses a busy machine. With --force it marks
    the figures instead."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "native.json"
    words = ["tools/bench/native", "--rows", ",".join(NATIVE_ROWS), "--load", "in-kernel",
             "--repeat", str(3 if options.quick else 8), "--json", str(path)]
    words += ["--force"] if options.force else []
    done = subprocess.run(words, cwd=vm.ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return FigureSet(skipped={"policies bucket, native speed": why})
    print(done.stderr.strip()[-300:], file=sys.stderr)
    taken = figures.read(path)
    taken.figures = [dataclasses.replace(one, instrument="policies") for one in taken.figures]
    return taken


def measure(options: Namespace, folder: Path) -> FigureSet:
    """Measures in up to four boots and, unless --no-native is given, at native speed."""
    mark, why = "", ""
    try:
        mark = common.refuse_busy(options.force)
    except BenchError as error:
        why = str(error)
    taken = _alone(options, folder / "alone")
    if why:
        taken.skipped["policies bucket, two CPUs"] = why
    else:
        taken.merge(_waits(options, folder / "locks", PAIR_ROWS, PAIR, PAIR_COUNT, mark,
                           options.repeat))
        taken.merge(_lines(options, folder / "lines", mark))
        if not options.quick:
            taken.merge(_waits(options, folder / "shapes", SHAPE_ROWS, SHAPES, SHAPE_COUNT, mark,
                               1))
    if options.native:
        taken.merge(_native(options, folder / "native"))
    return taken
