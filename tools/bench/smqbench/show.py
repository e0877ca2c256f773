# SPDX-License-Identifier: GPL-2.0
"""The tables of an instrument's figures, for a terminal and for the report."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from . import groups, matrix, measure
from .figures import METRICS, Figure, FigureSet
from .plan import IN_KERNEL
from .rows import POLICY_ROWS, ROWS
from .tomls import table

MOST = 12           # functions and places listed for a row
ALWAYS = 0.01       # per I/O: rarer ones are not listed


@dataclass(frozen=True)
class Table:
    """A table: the head and the rows."""

    title: str
    cells: list[list[str]]
    figures: Sequence[Figure]


def _by_metric(taken: FigureSet) -> Iterator[Table]:
    """A table of workloads by devices for each metric."""
    kinds = dict.fromkeys((one.metric, one.cpus, one.path == IN_KERNEL) for one in taken.figures)
    for metric, cpus, kernel in kinds:
        found = [one for one in taken.find(metric=metric, cpus=cpus)
                 if (one.path == IN_KERNEL) == kernel]
        words = [METRICS[metric][1], f"{cpus} CPUs" if cpus > 1 else "",
                 "load in the kernel" if kernel else ""]
        title = ", ".join(filter(None, words))
        yield Table(title[0].upper() + title[1:], matrix.cells(found), found)


def _by_row(taken: FigureSet) -> Table:
    """One table, with a line for each row and a column for each metric."""
    columns = list(dict.fromkeys(one.metric for one in taken.figures))
    by_place = {(one.row, one.metric): one for one in taken.figures}
    rows = [[ROWS[row].label, *(matrix.text_of(by_place.get((row, metric))) for metric in columns)]
            for row in matrix.rows_of(taken.figures)]
    return Table("Per I/O", [["", *(metric.replace("_", " ") for metric in columns)], *rows],
                 taken.figures)


def _by_group(taken: FigureSet, name: str) -> Iterator[Table]:
    """Instructions by group of functions, a table for each workload."""
    every = measure.figures_of(taken, name)
    for metric, workload in dict.fromkeys((one.metric, one.workload) for one in every):
        found = [one for one in every if (one.metric, one.workload) == (metric, workload)]
        rows = [[group, *(f"{one.parts['group'].get(group, 0):.0f}" for one in found)]
                for group in groups.ORDER
                if any(one.parts["group"].get(group, 0) >= 0.5 for one in found)]
        yield Table(f"{METRICS[metric][1].capitalize()}, by group of functions, {workload}",
                    [["", *(one.label for one in found)], *rows], found)


def _places(taken: FigureSet, name: str) -> Iterator[Table]:
    """The places in the code, or the locks, that have most of a metric."""
    for metric, part in table("instruments").get(name, {}).get("places", {}).items():
        found = taken.find(metric=metric)
        rows = [[one.label, one.workload + (f", {one.cpus} CPUs" if one.cpus > 1 else ""), where,
                 matrix.number(value)] for one in found
                for where, value in list(one.parts.get(part, {}).items())[:MOST]
                if value >= ALWAYS]
        if rows:
            yield Table(f"{METRICS[metric][1].capitalize()}, by {part}",
                        [["device", "workload", part, METRICS[metric][0]], *rows], found)


def _by_device(taken: FigureSet) -> Iterator[Table]:
    """The policies on each device: rows by metrics and workloads."""
    for name, words in POLICY_ROWS.items():
        labels = {f"{name}_{word}": label for word, label in words.items()}
        found = [one for one in taken.figures if one.row in labels]
        if not found:
            continue
        short = matrix.short_names(found)
        columns = list(dict.fromkeys((one.metric, one.cpus, one.workload) for one in found))
        by_place = {(one.row, one.metric, one.cpus, one.workload): one for one in found}
        one_load = len({workload for _, _, workload in columns}) == 1
        lines = []
        for metric, cpus, workload in columns:
            what, unit = METRICS[metric][1].partition(",")[0], METRICS[metric][0]
            what += f", {metric[4:]}" if metric.startswith("lat_") else ""
            lines.append([f"{what}, {unit}" + ("" if one_load else f": {short[workload]}"),
                          *(matrix.text_of(by_place.get((row, metric, cpus, workload)))
                            for row in matrix.rows_of(found))])
        first = ROWS[found[0].row]
        yield Table(first.label.rpartition(", ")[0],
                    [["", *(labels[row] for row in matrix.rows_of(found))], *lines], found)


def tables(taken: FigureSet, name: str) -> Iterator[Table]:
    """All tables of an instrument."""
    if name == "policies":
        yield from _by_device(taken)
        return
    if table("instruments").get(name, {}).get("by_row") and taken.figures:
        yield _by_row(taken)
    else:
        yield from _by_metric(taken)
    yield from _by_group(taken, name)
    yield from _places(taken, name)


def text(taken: FigureSet, name: str) -> list[str]:
    """The tables for a terminal."""
    lines = []
    for one in tables(taken, name):
        head, *rows = one.cells
        lines += [one.title, *matrix.table(head, rows), ""]
    return lines
