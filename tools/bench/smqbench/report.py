# SPDX-License-Identifier: GPL-2.0
"""Makes bench-report/report.md from figures only."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from . import (bothpaths, claims, groups, matrix, paths, peers, policies, trace,
               virtio)
from .figures import METRICS, PATHS, Figure, FigureSet
from .rows import ROWS

ALWAYS = 0.01  # per I/O: rarer locks and cache-line transfers are not listed
NUMBER = re.compile(r"([<>]?=? ?[-+~]?\d[^ ]*( [±%x].*)?)?$")
MOST = 12           # functions and places listed for a row

LIO_ROWS = ("tcm_loop_", "smq_lio_")
VIRTIO_ROWS = (virtio.THEIRS, virtio.OURS, virtio.POLLED)


@dataclass(frozen=True)
class Plot:
    """A picture in the report."""

    name: str       # of the file
    title: str


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """A table in Markdown: the first row is the head; columns of numbers are flush right."""
    head, *rest = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    right = [all(NUMBER.match(cell) for cell in column) for column in zip(*rest)][1:]
    return ["| " + " | ".join(head) + " |",
            "| --- |" + "".join(" ---: |" if one else " --- |" for one in right),
            *("| " + " | ".join(row) + " |" for row in rest)]


def command_lines(figures: Iterable[Figure]) -> list[str]:
    """The line under every table: the command that takes its figures again."""
    rows: dict[str, list[str]] = {}
    for figure in figures:
        before, mark, after = figure.command.partition(f"--rows {figure.row}")
        key = f"{before}--rows ROWS{after}" if mark else figure.command
        rows.setdefault(key, [])
        if mark and figure.row not in rows[key]:
            rows[key].append(figure.row)
    return ["", *(f"Taken by `{key.replace('ROWS', ','.join(sorted(names, key=list(ROWS).index)))}`"
                  for key, names in rows.items()), ""]


def _section(title: str, figures: Sequence[Figure], *words: str) -> list[str]:
    """The section of one metric, with its table; empty without figures."""
    if not figures:
        return []
    return [f"### {title}", "", *words, *([""] if words else []), *table(matrix.cells(figures)), "",
            peers.conclusion(figures), "",
            f"In {METRICS[figures[0].metric][0]}: {METRICS[figures[0].metric][1]}; ± half the "
            f"spread of {_repeats(figures)}.",
            *(f"**{mark}**" for mark in _marks(figures)), *command_lines(figures)]


def _marks(figures: Sequence[Figure]) -> list[str]:
    """The notes of figures that a busy machine has disturbed."""
    return sorted({part for figure in figures for part in figure.note.split("; ")
                   if part.startswith(("forced:", "dropped:"))})


def _repeats(figures: Sequence[Figure]) -> str:
    found = sorted({figure.repeats for figure in figures})
    text = "-".join(map(str, (found[0], found[-1]) if len(found) > 1 else found))
    return f"{text} repeat" + ("s" if found[-1] > 1 else "")


def _plot(plots: Sequence[Plot], name: str) -> list[str]:
    return [line for plot in plots if plot.name == name
            for line in (f"![{plot.title}]({plot.name})", "")]


def heading(taken: FigureSet) -> list[str]:
    """The heading, with what was measured."""
    kernels = sorted({(figure.kernel, figure.instrument) for figure in taken.figures})
    by_kernel: dict[str, list[str]] = {}
    for kernel, instrument in kernels:
        by_kernel.setdefault(kernel, []).append(instrument)
    lines = ["# What a SCSI command costs", "",
             f"{len(taken.figures)} figures, all of them in `results.json` with their commands, "
             "parameters and spread.", ""]
    lines += [f"- kernel {kernel}: {', '.join(names)}" for kernel, names in by_kernel.items()]
    lines += ["", "Instructions and locks on one CPU are exact: they are counted under QEMU's "
              "icount, so nothing else on the machine changes them. Two-CPU figures come from two "
              "vCPUs that are kept in step by instructions. None of these figures are times: cache "
              "misses cost nothing there. The section *Native speed* has the times that were "
              "measured. The section *What the rows are* says what each row measures.", ""]
    if any(ROWS[row].model for row in matrix.rows_of(taken.figures)):
        lines += ["Rows marked **(model)** do not run the legacy path, which no current kernel "
                  "has. Instead a dispatch policy executes its sequence of locks, allocations and "
                  "bookkeeping, and then issues the command on the modern path.", ""]
    for title, said in (("Failed", taken.failed), ("Skipped", taken.skipped)):
        if said:
            lines += [f"**{title}**", "", *(f"- {what}: {why}" for what, why in said.items()), ""]
    return lines


def claim_lines(taken: FigureSet) -> list[str]:
    """Each claim and its verdict, by subject. Then the legacy path beside scsi-mq for each way of
    completion, and the trace of 2013."""
    answers = claims.answers(taken)
    counts = {word: sum(answer.verdict == word for answer in answers)
              for word in (claims.REPRODUCED, claims.IN_PART, claims.NOT, claims.UNKNOWN)}
    lines = ["## What was claimed", "",
             ", ".join(f"{count} {word}" for word, count in counts.items() if count) + ". The "
             "answers are computed from the figures. Answers on the legacy path come from the "
             "model, unless they name the kernel of LEGACY_KERNEL.", ""]
    for about, title in claims.ABOUT.items():
        lines += [f"### {title}", "",
                  *table([["claim", "then", "here", "", "why"]] +
                         [[answer.claim, answer.then, answer.here, answer.verdict, answer.why]
                          for answer in answers if answer.about == about]), "",
                  "Taken by `make bench`", ""]
    return [*lines, *bothpaths.table_lines(taken, table), *trace.lines(taken, table),
            "Taken by `make bench`", ""]


def insn_lines(taken: FigureSet, plots: Sequence[Plot]) -> list[str]:
    """The sections on instructions, their groups, and batches."""
    every = [figure for figure in taken.find(instrument="insn", metric="insn")
             if figure.row not in VIRTIO_ROWS]
    policy = [figure for figure in every if ROWS[figure.row].waits
              and figure.row.startswith("smq_ram")]
    targets = [figure for figure in every if figure.row.startswith(LIO_ROWS)]
    main = [figure for figure in every if figure not in policy and figure not in targets]
    lines = ["## Instructions per I/O", "", *_plot(plots, "insn.svg")] if every else []
    for title, wanted in (("io_uring block reads, QD32, batch 16", ("io_uring", 32)),
                          ("io_uring block reads, QD1", ("io_uring", 1)),
                          ("SG_IO on /dev/sg, one at a time", ("sg_io", 1)),
                          ("SG_IO on the disk, one at a time", ("sd_sg_io", 1))):
        lines += _section(title, [one for one in main if (one.path, one.qd) == wanted])
    for qd, name in ((1, "split.svg"), (32, "")):
        lines += _split(main, qd) + (_plot(plots, name) if name else [])
    lines += _section("LIO's backstores as local disks", targets,
                      "The same backstore by LIO's own `tcm_loop` and by `smq_lio`, one after the "
                      "other in one boot.")
    lines += _split(targets, 32, ", LIO's backstores")
    bells = [figure for figure in taken.find(instrument="insn", metric="doorbells")
             if figure.row not in VIRTIO_ROWS]
    lines += _section("Dispatch policies: instructions", policy,
                      "The policy `batch` beside `direct`, on smq_ram's hardware model: each "
                      "command takes 0.5 ms, a doorbell nothing or 5 us of CPU time.")
    lines += _section("Dispatch policies: doorbells", bells)
    return lines + (_plot(plots, "doorbells.svg") if bells else [])


def virtio_lines(taken: FigureSet, plots: Sequence[Plot]) -> list[str]:
    """The section on both drivers of virtio-scsi."""
    every = [figure for figure in taken.find(instrument="insn") if figure.row in VIRTIO_ROWS]
    if not every:
        return []
    lines = ["## QEMU's virtio-scsi", "",
             "`virtio_scsi` and `smq_virtio` in turn on one device, in one boot. The device is a "
             "thread of QEMU: how many commands it ends at a time depends on the host, and so do "
             "doorbells, interrupts and their cost. The modules of ring and bus "
             "are charged to the driver that uses them.", "", *_plot(plots, "virtio.svg")]
    for metric in ("insn_lld", "doorbells", "interrupts", "allocations", "insn"):
        what = METRICS[metric][1]
        lines += _section(what[0].upper() + what[1:],
                          [figure for figure in every if figure.metric == metric])
    lines += _split([figure for figure in every if figure.metric == "insn_lld"], 32,
                    ", the LLD alone")
    return [*lines, "### What must hold", "",
            *table([["", "must be", "is", ""],
                    *([one.what, one.bound, "" if one.measured is None else f"{one.measured:.4g}",
                       one.word] for one in virtio.verdicts(taken))]), *command_lines(every)]


def _split(figures: Sequence[Figure], qd: int, of: str = "") -> list[str]:
    found = [one for one in figures
             if (one.path, one.bs, one.qd, one.luns) == ("io_uring", 512, qd, 1)]
    if not found:
        return []
    rows = [["instructions by group", *(one.label for one in found)]]
    for name in groups.ORDER:
        if any(one.parts["group"].get(name, 0) >= 0.5 for one in found):
            rows.append([name, *(str(round(one.parts["group"].get(name, 0))) for one in found)])
    rows.append(["sum", *(f"{one.value:.0f}" for one in found)])
    return [f"### By group of functions, {found[0].workload}{of}", "", *table(rows), "",
            " ".join(_largest(one, "group") for one in found[:3]), "",
            *command_lines(found)]


def _largest(figure: Figure, part: str) -> str:
    """Says which part of a figure is the largest."""
    name, value = max(figure.parts[part].items(), key=lambda item: item[1])
    share = f", {100 * value / figure.value:.0f} % of all" if part == "group" else ""
    return f"{figure.label}: the largest part is `{name}`, {matrix.number(value)}{share}."


def _places(figures: Sequence[Figure], part: str, what: str) -> list[str]:
    rows = [["device", "workload", what, "per I/O"]]
    for figure in figures:
        for name, value in list(figure.parts.get(part, {}).items())[:MOST]:
            if value >= ALWAYS:
                rows.append([figure.label, figure.workload, f"`{name}`", matrix.number(value)])
    if len(rows) == 1:
        return []
    most = max(figures, key=lambda one: max(one.parts.get(part, {}).values(), default=0))
    return [*table(rows), "", _largest(most, part), *command_lines(figures)]


def locks_lines(taken: FigureSet, plots: Sequence[Plot]) -> list[str]:
    """The section on locks, on one and on two CPUs."""
    every = taken.find(instrument="locks")
    if not every:
        return []
    alone = [one for one in every if one.metric == "locks" and one.cpus == 1]
    lines = ["## Locks", "", *_plot(plots, "locks.svg"), *_section("Taken per I/O, one CPU", alone)]
    lines += ["### By function", "", *_places([one for one in alone if one.bs == 512], "site",
                                              "function: lock")]
    for title, metric in (("Taken per I/O, two CPUs", "locks"),
                          ("Found taken, two CPUs", "contended"),
                          ("In locks and waiting for them, two CPUs", "lock_share"),
                          ("Only waiting, two CPUs", "wait_share"),
                          ("Instructions, waiting included, two CPUs", "insn")):
        lines += _section(title, [one for one in every if one.metric == metric and one.cpus == 2])
    found = [one for one in every if one.metric == "contended" and one.value >= 1]
    rows = [["device", "workload", "lock", "found taken"]]
    for figure in found:
        rows += [[figure.label, figure.workload, name, f"{value:.1f} %"]
                 for name, value in figure.parts["lock"].items() if value >= 1][:MOST]
    if found:
        most = max(found, key=lambda one: one.value)
        lines += ["### Which are contended", "", *table(rows), "",
                  f"{most.label} has the most contention: {most.value:.1f} % of its acquisitions "
                  "found the lock taken.",
                  *command_lines(found)]
    return lines


def lines_lines(taken: FigureSet, plots: Sequence[Plot]) -> list[str]:
    """The section on cache lines."""
    every = taken.find(instrument="lines", metric="transfers")
    if not every:
        return []
    lines = ["## Cache lines that move between two CPUs", "", *_plot(plots, "lines.svg"),
             *_section("All", every), *_section(
                 "By our modules", taken.find(instrument="lines", metric="own_transfers"),
                 "Also by the drivers with which ours are compared, virtio_scsi and tcm_loop. "
                 "Includes the functions that our modules or these drivers call: the kernel's "
                 "rings, LIO.")]
    peers = [one for one in taken.find(instrument="lines", metric="own_transfers")
             if one.row.startswith((*VIRTIO_ROWS, *LIO_ROWS))]
    if peers:
        lines += ["### By function, virtio-scsi and LIO", "",
                  *_places(peers, "function", "access")]
    return lines + ["### By function", "",
                    *_places([one for one in every if one.luns == 1], "function", "access")]


def other_lines(taken: FigureSet, instrument: str, title: str) -> list[str]:
    """The section of an instrument that needs only a table for each metric."""
    every = [one for one in taken.find(instrument=instrument) if not paths.is_one(one)]
    lines = [f"## {title}", ""] if every else []
    for metric in METRICS:
        for path in PATHS:
            found = [one for one in every if (one.metric, one.path) == (metric, path)]
            lines += _section(f"{METRICS[metric][1].capitalize()}, {PATHS[path]}", found)
    times = [one for one in every if one.p10 is not None]
    if times:
        rows = [["device", "workload", "p10", "median", "spread"]]
        rows += [[one.label, one.workload, matrix.number(one.p10 or 0),
                  matrix.number(one.median or 0), matrix.number(one.spread)] for one in times]
        lines += ["### p10 and median of all chunks, spread of the repeats, ns/IO", "",
                  *table(rows), "", peers.conclusion(times), *command_lines(times)]
    return lines


def path_lines(taken: FigureSet, plots: Sequence[Plot]) -> list[str]:
    """The section that compares the paths from user space."""
    figures = paths.times(taken)
    if not figures:
        return []
    marks = _marks(figures)
    lines = ["## Native speed, from user space", "", *_plot(plots, paths.PLOT), *paths.WORDS, "",
             *(f"**{mark}**" for mark in marks), *([""] if marks else [])]
    for title, rows in paths.by_quantity(taken):
        lines += [f"### {title}", "", *table(rows), "",
                  "Chunks of 256 commands; a ratio is the path's p10 divided by that of registered "
                  "block reads in the same repeat; ± half the spread "
                  f"of {_repeats(figures)}.", *command_lines(figures)]
    return lines


def worse_lines(taken: FigureSet) -> list[str]:
    """All rows of ours that cost more than their peers."""
    rows = peers.worse(taken)
    if not rows:
        return []
    present = {figure.row for figure in taken.figures}
    return ["## Where ours costs more", "", "By more than 1 % and the spread of both:", "",
            *(f"- {ROWS[ours].label} against {ROWS[peer].label}: {what}"
              for ours, peer, what in peers.PEERS if {ours, peer} <= present), "",
            *table([["ours", "against", "workload", "unit", "ours", "theirs"], *rows]), "",
            "Taken by `make bench`", ""]


def device_lines(taken: FigureSet) -> list[str]:
    """What each row's device is."""
    return ["## What the rows are", "", "| device | |", "| --- | --- |",
            *(f"| {ROWS[row].label} | {ROWS[row].note} |"
              for row in matrix.rows_of(taken.figures)), ""]


def parameter_lines(taken: FigureSet) -> list[str]:
    """The settings of each device."""
    said: dict[str, dict[str, None]] = {}
    for figure in taken.figures:
        for name, value in figure.parameters.items():
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            said.setdefault(figure.row, {})[f"{name}: {text}"] = None
    lines = ["## How the devices were set", ""] if said else []
    for row in [row for row in ROWS if row in said]:
        lines += [f"**{ROWS[row].label}**", "", *(f"- `{text}`" for text in said[row]), ""]
    return lines


def markdown(taken: FigureSet, plots: Sequence[Plot] = ()) -> str:
    """The whole report."""
    return "\n".join([
        *heading(taken), *claim_lines(taken), *worse_lines(taken), *insn_lines(taken, plots),
        *virtio_lines(taken, plots),
        *other_lines(taken, "fastpath", "Passthrough commands"),
        *locks_lines(taken, plots), *lines_lines(taken, plots),
        *(_plot(plots, "native.svg")), *other_lines(taken, "native", "Native speed"),
        *path_lines(taken, plots),
        *policies.markdown(taken, lambda name: _plot(plots, name)),
        *other_lines(taken, "legacy-kernel", "The legacy path, on the kernel of LEGACY_KERNEL"),
        *device_lines(taken), *parameter_lines(taken)]).rstrip() + "\n"
