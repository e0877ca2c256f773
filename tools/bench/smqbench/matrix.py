# SPDX-License-Identifier: GPL-2.0
"""Tables of figures: devices by workloads."""

from collections.abc import Iterable, Sequence

from . import timing
from .figures import METRICS, PATHS, Figure, size
from .rows import ROWS


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Columns for a terminal; the first is flush left, the others flush right."""
    cells = [heads, *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(heads))]
    lines = ["  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                       for i, (cell, width) in enumerate(zip(row, widths))).rstrip()
             for row in cells]
    return [lines[0], "-" * len(lines[0]), *lines[1:]]


def number(value: float) -> str:
    """A number with as many digits as are useful."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.3f}"


def has_interval(figure: Figure) -> bool:
    """Whether a figure is a ratio of turns, whose repeats differ as the machine does: it is shown
    with the interval in which its true median lies."""
    return figure.metric in ("against_mq", "against_direct")


def text_of(figure: Figure | None) -> str:
    """A value, and half its spread unless that rounds to 0, or its interval."""
    if not figure:
        return ""
    if has_interval(figure):
        between = timing.interval(figure.values)
        return f"{figure.value:.3f} " + ("[{:.3f}-{:.3f}]".format(*between) if between else
                                         f"[{figure.repeats} rounds: too few]")
    half = number(figure.spread / 2)
    low = "" if figure.p10 is None else f", p10 {number(figure.p10)}"
    return number(figure.value) + ("" if float(half) == 0 else f" ±{half}") + low


def rows_of(figures: Iterable[Figure]) -> list[str]:
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


def columns_of(figures: Iterable[Figure]) -> list[str]:
    """The workloads, in the order of the figures."""
    return list(dict.fromkeys(figure.workload for figure in figures))


def cells(figures: Sequence[Figure]) -> list[list[str]]:
    """Figures of one metric: the head and a line for each workload, with a column for each device,
    because there are more workloads than devices."""
    by_place = {(figure.row, figure.workload): figure for figure in figures}
    short = short_names(figures)
    rows = rows_of(figures)
    return [[METRICS[figures[0].metric][0], *(ROWS[row].label for row in rows)]] + [
        [short[column], *(text_of(by_place.get((row, column))) for row in rows)]
        for column in columns_of(figures)]


def text(figures: Sequence[Figure]) -> list[str]:
    """The table for a terminal; empty without figures."""
    if not figures:
        return []
    head, *rest = cells(figures)
    return table(head, rest)
