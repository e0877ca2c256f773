# SPDX-License-Identifier: GPL-2.0
"""Makes bench-report/report.md from figures only."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from . import bars, claims, matrix, peers, show
from .figures import INSTRUMENTS, Figure, FigureSet
from .rows import ROWS

NUMBER = re.compile(r"([<>]?=? ?[-+~]?\d[^ ]*( [±%x].*)?)?$")
SCOPE = (
    "Instructions and locks on one CPU are exact: they are counted under QEMU's icount, so nothing "
    "else on the machine changes them. Two-CPU figures come from two vCPUs that are kept in step "
    "by instructions. None of these figures are times: cache misses cost nothing there. The "
    "section *Native speed* has the times that were measured. The section *What the rows are* says "
    "what each row measures.")
MODEL = (
    "Rows marked **(model)** do not run the legacy path, which no current kernel has. Instead a "
    "dispatch policy executes its sequence of locks, allocations and bookkeeping, and then issues "
    "the command on the modern path.")


@dataclass(frozen=True)
class Plot:
    """A picture in the report, in the section of an instrument."""

    name: str       # of the file
    title: str
    instrument: str


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """A table in Markdown: the first row is the head; columns of numbers are flush right."""
    head, *rest = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    right = [all(NUMBER.match(cell) for cell in column) for column in zip(*rest)][1:]
    return ["| " + " | ".join(head) + " |",
            "| --- |" + "".join(" ---: |" if one else " --- |" for one in right),
            *("| " + " | ".join(row) + " |" for row in rest), ""]


def command_lines(figures: Iterable[Figure]) -> list[str]:
    """The lines under a table: notes on a busy machine, and the commands that take its figures."""
    rows: dict[str, list[str]] = {}
    marks = {part for figure in figures for part in figure.note.split("; ")
             if part.startswith(("forced:", "dropped:"))}
    for figure in figures:
        before, mark, after = figure.command.partition(f"--rows {figure.row}")
        key = f"{before}--rows ROWS{after}" if mark else figure.command
        rows.setdefault(key, [])
        if mark and figure.row not in rows[key]:
            rows[key].append(figure.row)
    return [*(f"**{mark}**" for mark in sorted(marks)),
            *(f"Taken by `{key.replace('ROWS', ','.join(sorted(names, key=list(ROWS).index)))}`"
              for key, names in rows.items()), ""]


def heading(taken: FigureSet) -> list[str]:
    """The heading, with what was measured."""
    by_kernel: dict[str, set[str]] = {}
    for figure in taken.figures:
        by_kernel.setdefault(figure.kernel, set()).add(figure.instrument)
    lines = ["# What a SCSI command costs", "",
             f"{len(taken.figures)} figures, all of them in `results.json` with their commands, "
             "parameters and spread; ± half the spread of the repeats.", ""]
    lines += [f"- kernel {kernel}: {', '.join(sorted(names))}"
              for kernel, names in by_kernel.items()]
    lines += ["", SCOPE, ""]
    if any(ROWS[row].model for row in matrix.rows_of(taken.figures)):
        lines += [MODEL, ""]
    for title, said in (("Failed", taken.failed), ("Skipped", taken.skipped)):
        if said:
            lines += [f"**{title}**", "", *(f"- {what}: {why}" for what, why in said.items()), ""]
    return lines


def verdict_lines(taken: FigureSet) -> list[str]:
    """The bars, the claims, and where ours costs more than its peer."""
    found = [one for section in bars.SECTIONS for one in bars.judged(section, taken, list(ROWS))
             if one.value is not None]
    head, rows = bars.cells(found)
    lines = ["## Bars", "", *table([head, *rows])] if found else []
    lines += ["## What was claimed", "", "The answers are computed from the figures. Answers on "
              "the legacy path come from the model, unless they name a given kernel, that of "
              "LEGACY_KERNEL.", "",
              *table([["claim", "then", "here", "", "why"], *claims.answers(taken)])]
    more = peers.worse(taken)
    if more:
        lines += ["## Where ours costs more", "", "By more than 1 % and the spread of both.", "",
                  *table([["ours", "against", "workload", "unit", "ours", "theirs", "because"],
                          *more])]
    return lines


def settings(taken: FigureSet) -> list[str]:
    """What each row's device is, and how it was set."""
    said: dict[str, dict[str, None]] = {}
    for figure in taken.figures:
        for name, value in figure.parameters.items():
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            said.setdefault(figure.row, {})[f"{name}: {text}"] = None
    rows = matrix.rows_of(taken.figures)
    lines = ["## What the rows are", "", *table([["device", ""], *(
        [ROWS[row].label, ROWS[row].note] for row in rows)]), "## How the devices were set", ""]
    for row in rows:
        lines += [f"**{ROWS[row].label}**", "", *(f"- `{text}`" for text in said.get(row, {})), ""]
    return lines


def markdown(taken: FigureSet, plots: Sequence[Plot] = ()) -> str:
    """The whole report."""
    lines = [*heading(taken), *verdict_lines(taken)]
    for name, title in INSTRUMENTS.items():
        mine = FigureSet(taken.find(instrument=name))
        lines += [f"## {title}", ""] if mine.figures else []
        for plot in plots:
            lines += [f"![{plot.title}]({plot.name})", ""] if plot.instrument == name else []
        for one in show.tables(mine, name):
            lines += [f"### {one.title}", "", *table(one.cells), *command_lines(one.figures)]
    return "\n".join([*lines, *settings(taken)]).rstrip() + "\n"
