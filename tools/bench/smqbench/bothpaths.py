# SPDX-License-Identifier: GPL-2.0
"""Compares the legacy path with scsi-mq, in one table for each way of completion. The lines come
from a kernel that the user gave, from 4.19.304 as others measured it, and from the model on the
test VM's kernel."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from . import matrix, timing
from .acquisitions import HOST_LOCK, QUEUE_LOCK, REAL_QUEUE_LOCK
from .figures import PATHS, Figure, FigureSet, size
from .groups import PROGRAM

INLINE, INTERRUPT = "", "_timer"
MODES = {INLINE: "completion inside queuecommand (delay=0)",
         INTERRUPT: "completion by a hard interrupt (ndelay=20000)"}
SCOPE = ("Counted on both sides: instructions of the whole kernel, without those of the program, "
         "and locks that out-of-line lock functions take (of the model, without those in "
         "interrupts). Both sides have the same program, queue depth and LUNs, and one hardware "
         "queue.")
HEADS = ["command", "LUNs", "jobs", "legacy insn/IO", "mq", "ratio", "legacy locks/IO", "mq",
         "queue_lock + host_lock", "legacy contended/IO", "mq", "legacy IO/s", "mq",
         "legacy ÷ mq, median [95 %]"]
ELSEWHERE = "Linux 4.19.304, measured elsewhere with the same method"

Workload = tuple[str, str, int, int, int]   # path, op, bytes, queue depth, batch


@dataclass(frozen=True)
class Side:
    """The figures of one path. A field is None if it was not measured."""

    insn: float | None = None
    locks: float | None = None
    queue_lock: float | None = None
    host_lock: float | None = None      # also None if the path does not take host_lock
    contended: float | None = None
    iops: float | None = None


@dataclass(frozen=True)
class Pair:
    """A line of the table."""

    workload: Workload
    luns: int
    jobs: int
    legacy: Side
    mq: Side
    # Lockdep's instructions are not among those that were counted.
    plain: bool = True
    # For each round, I/O per second on the legacy path divided by those on scsi-mq.
    against_mq: tuple[float, ...] = ()


def _recorded(insn: tuple[float, float] | None, queue_lock: float | None, *, path: str = "libaio",
              bs: int = 4096, qd: int = 32, luns: int = 1, jobs: int = 1,
              contended: float | None = None) -> Pair:
    legacy, mq = insn or (None, None)
    return Pair((path, "read", bs, qd, min(qd, 16)), luns, jobs,
                Side(legacy, queue_lock=queue_lock, contended=contended),
                Side(mq, contended=None if contended is None else 0.0))


# The recorded I/O per second vary by a factor of two, so they are left out.
RECORDED = {
    INLINE: [
        _recorded((7256, 5994), 4.06), _recorded((7262, 6003), None, bs=512),
        _recorded((9651, 6112), 5.0, qd=1),
        _recorded((9158, 5123), 6.0, path="sd_sg_io", bs=512, qd=1),
        _recorded(None, 4.07, jobs=2, contended=1.63),
        _recorded(None, 4.06, jobs=2, luns=2, contended=0.0),
        _recorded(None, 6.0, path="sd_sg_io", bs=512, qd=1, jobs=2, contended=2.24)],
    INTERRUPT: [
        _recorded((8392, 6868), None), _recorded((11752, 10685), None, qd=1),
        _recorded((9900, 9183), None, path="sd_sg_io", bs=512, qd=1)],
}


def _case_of(figure: Figure) -> tuple[Workload, int, int]:
    return ((figure.path, figure.op, figure.bs, figure.qd, figure.batch), figure.luns,
            figure.jobs)


def _value(figure: Figure | None) -> float | None:
    return None if figure is None else figure.value


def _lock(figure: Figure | None, *names: str) -> float | None:
    """Returns the acquisitions of the named locks, None if the figure has none of these names."""
    found = figure.parts.get("lock", {}) if figure else {}
    values = [found[name] for name in names if name in found]
    return sum(values) if values else None


def _kernel(figure: Figure | None) -> float | None:
    """Returns the instructions without those of the program."""
    return None if figure is None else figure.value - figure.parts["group"].get(PROGRAM, 0)


def _cases(figures: Sequence[Figure]) -> Iterator[tuple[Workload, int, int]]:
    yield from dict.fromkeys(map(_case_of, figures))


def given(taken: FigureSet, mode: str) -> list[Pair]:
    """Returns the lines that tools/bench/legacy-kernel measured."""
    rows = [row + mode for row in ("kernel_legacy", "kernel_mq")]
    figures = [one for one in taken.find(instrument="legacy-kernel") if one.row in rows]
    result = []
    for case in sorted(_cases(figures), key=lambda one: (one[1], one[2])):
        sides = []
        for row in rows:
            by_metric = {one.metric: one for one in figures
                         if one.row == row and _case_of(one) == case}
            locks = by_metric.get("locks")
            # /proc/lock_stat calls queue_lock &(&q->__queue_lock)->rlock.
            names = [one for one in (locks.parts["lock"] if locks else {})
                     if REAL_QUEUE_LOCK in one]
            sides.append((Side(_value(by_metric.get("insn_kernel")), _value(locks),
                               _lock(locks, *names),
                               contended=_value(by_metric.get("waits")),
                               iops=_value(by_metric.get("iops"))), by_metric))
        (legacy, of_legacy), (mq, _) = sides
        rounds, insn = of_legacy.get("against_mq"), of_legacy.get("insn_kernel")
        result.append(Pair(*case, legacy, mq,
                           not insn or insn.parameters.get("locks") != "lock_stat",
                           tuple(rounds.values) if rounds else ()))
    return result


def modelled(taken: FigureSet, mode: str, era: str) -> list[Pair]:
    """Returns the lines that compare the model with smq_ram with one queue, on the VM's kernel."""
    rows = [f"legacy_{era}{mode}", f"smq_ram_1q{mode}"]
    figures = [one for one in taken.figures if one.row in rows
               and one.instrument in ("insn", "locks")]
    result = []
    for case in sorted(_cases(figures), key=lambda one: (one[1], one[2])):
        sides = []
        for row in rows:
            def one(instrument: str, metric: str, of: str = row,
                    at: tuple[Workload, int, int] = case) -> Figure | None:
                return next((figure for figure in figures if _case_of(figure) == at and
                             (figure.instrument, figure.row, figure.metric)
                             == (instrument, of, metric)), None)
            insn = _kernel(one("insn", "insn")) if case[2] == 1 else \
                _value(one("locks", "insn_kernel"))
            locks = one("locks", "locks")
            sides.append(Side(insn, _value(locks), _lock(locks, QUEUE_LOCK),
                              _lock(locks, HOST_LOCK),
                              _value(one("locks", "waits")) if case[2] > 1 else None))
        model, mq = sides
        if any(value is not None for value in (model.insn, model.locks)):
            result.append(Pair(*case, model, mq))
    return result


def name(workload: Workload) -> str:
    """Returns the name of a workload, with its depth."""
    path, op, bs, qd, batch = workload
    return " ".join([PATHS[path], op + (f" {size(bs)}" if bs else ""), f"QD{qd}",
                     *([f"batch {batch}"] if batch > 1 else [])])


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.2f}"


def _ratio(one: float | None, other: float | None) -> str:
    return f"{one / other:.2f}" if one is not None and other else ""


def times(values: Sequence[float]) -> str:
    """Returns the median of the rounds, and between what the true median is; the range of the
    rounds would grow with their number."""
    if not values:
        return ""
    between = timing.interval(values)
    return f"{statistics.median(values):.2f} " + (
        f"[{between[0]:.2f}-{between[1]:.2f}]" if between else f"[{len(values)} rounds: too few]")


def _compared(pair: Pair) -> bool:
    """Whether the instructions of the two paths may be divided. Those of two CPUs include idle
    loops, which vary from run to run, and those of a kernel with lockdep are mostly lockdep's."""
    return pair.jobs == 1 and pair.plain


def cells(pairs: Sequence[Pair]) -> list[list[str]]:
    """Returns the lines of a table under HEADS."""
    return [[name(one.workload), str(one.luns), str(one.jobs), _number(one.legacy.insn),
             _number(one.mq.insn),
             _ratio(one.legacy.insn, one.mq.insn) if _compared(one) else "",
             _number(one.legacy.locks), _number(one.mq.locks),
             " + ".join(filter(None, map(_number, (one.legacy.queue_lock,
                                                   one.legacy.host_lock)))),
             _number(one.legacy.contended), _number(one.mq.contended),
             _number(one.legacy.iops), _number(one.mq.iops), times(one.against_mq)]
            for one in pairs]


def sources(taken: FigureSet, mode: str) -> list[tuple[str, list[Pair]]]:
    """Returns all lines of one way of completion, by the kernel or model they come from."""
    kernels = {one.kernel for one in taken.find(instrument="legacy-kernel")}
    found = [(f"Linux {', '.join(sorted(kernels))}, the kernel that was given",
              given(taken, mode)), (ELSEWHERE, RECORDED[mode])]
    for era, label in (("419", "4.19"), ("2013", "2013")):
        found.append((f"the model of {label}, on today's kernel", modelled(taken, mode, era)))
    return [(label, pairs) for label, pairs in found if pairs]


def conclusion(pairs: Sequence[Pair], label: str) -> str:
    """Returns a sentence with the smallest and the largest ratio of the lines that have one."""
    ratios = [(one.legacy.insn / one.mq.insn, one) for one in pairs
              if _compared(one) and one.legacy.insn is not None and one.mq.insn]
    if not ratios:
        return ""
    (low, first), (high, last) = (choose(ratios, key=lambda item: item[0])
                                  for choose in (min, max))

    def where(one: Pair) -> str:
        return (f"{name(one.workload)}, {one.luns} LUN" + "s" * (one.luns > 1) +
                ", 1 CPU")
    to = f" to {matrix.number(high)} times ({where(last)})" if last is not first else ""
    return (f"{label[0].upper()}{label[1:]}: the legacy path takes {matrix.number(low)} times "
            f"scsi-mq's instructions ({where(first)}){to}.")


def table_lines(taken: FigureSet, table: Callable[[Sequence[Sequence[str]]], list[str]]
                ) -> list[str]:
    """Returns the report's tables, one for each way of completion."""
    lines: list[str] = []
    for mode, label in MODES.items():
        found = sources(taken, mode)
        body = [[source, *line] for source, pairs in found for line in cells(pairs)]
        lines += [f"### Legacy beside scsi-mq: {label}", "", SCOPE, "",
                  *table([["measured on", *HEADS], *body]), "",
                  " ".join(filter(None, (conclusion(pairs, source) for source, pairs in found))),
                  "", "The model (the policy legacy-model on smq_ram) adds the old path's locks "
                  "and allocations to today's path, with I/O by io_uring: compare it with smq_ram, "
                  "not with 4.19. It understates contention about ten times. The locks of "
                  "interrupts are not counted for the model. On two "
                  "CPUs the instructions include idle loops and vary by 10 % and more from run to "
                  "run, so no ratio is given.",
                  "", "Taken by `make bench LEGACY_KERNEL=bzImage`; the lines of 4.19.304 are not "
                  "measured, but copied from their record.", ""]
    return lines
