# SPDX-License-Identifier: GPL-2.0
"""Figures of one metric as a table: devices by workloads."""

from collections.abc import Sequence

from .figures import METRICS, PATHS, Figure, size
from .rows import ROWS
from .tables import table


def number(value: float) -> str:
    """A number with as many digits as are useful."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.3f}"


def text_of(figure: Figure | None, plain: bool = False) -> str:
    """A value, and half its spread unless that rounds to 0."""
    if not figure:
        return ""
    half = number(figure.spread / 2)
    return number(figure.value) + ("" if plain or float(half) == 0 else f" ±{half}")


def rows_of(figures: Sequence[Figure]) -> list[str]:
    """The rows, in the order of the report."""
    found = {figure.row for figure in figures}
    return [row for row in ROWS if row in found]


def short_names(figures: Sequence[Figure]) -> dict[str, str]:
    """A short name for each workload, from only the words in which workloads differ."""
    words = {figure.workload: (
        PATHS[figure.path], figure.op + (f" {size(figure.bs)}" if figure.bs else ""),
        f"QD{figure.qd}",
        f"batch {figure.batch}" if figure.batch > 1 else "one by one" if figure.qd > 1 else "",
        f"{figure.luns} LUN" + "s" * (figure.luns > 1),
        f"{figure.jobs} job" + "s" * (figure.jobs > 1)) for figure in figures}
    differ = [len(set(column)) > 1 for column in zip(*words.values())]
    return {name: " ".join(word for word, one in zip(parts, differ) if one and word) or name
            for name, parts in words.items()}


def columns_of(figures: Sequence[Figure]) -> list[str]:
    """The workloads, in the order of the figures."""
    return list(dict.fromkeys(figure.workload for figure in figures))


def cells(figures: Sequence[Figure]) -> list[list[str]]:
    """The head and the rows; the first column names the device."""
    by_place = {(figure.row, figure.workload): figure for figure in figures}
    columns = columns_of(figures)
    short = short_names(figures)
    return [["device", *(short[column] for column in columns)]] + [
        [ROWS[row].label, *(text_of(by_place.get((row, column))) for column in columns)]
        for row in rows_of(figures)]


def text(figures: Sequence[Figure]) -> list[str]:
    """The table for a terminal: a line for each workload, a column for each device, because there
    are more workloads than devices."""
    if not figures:
        return []
    head, *rest = [list(column) for column in zip(*cells(figures))]
    head[0] = METRICS[figures[0].metric][0]
    return table(head, rest)
