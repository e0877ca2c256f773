# SPDX-License-Identifier: GPL-2.0
"""Compares the paths to a device, at native speed from user space."""

from collections.abc import Callable, Iterator
from functools import partial

from . import matrix
from .figures import PATHS, Figure, FigureSet
from .plan import IN_KERNEL
from .rows import ROWS

PLOT = "native_paths.svg"
CALL = "an empty call for each batch"
WORDS = [
    "READ 512, QD32; if there are two processes, each has its own LUN and CPU. Every path makes "
    "one system call for 16 commands. Under User Mode Linux such a call costs microseconds, many "
    f"times what it costs on hardware, and the same on all paths. The row *{CALL}* shows this cost "
    "per command; *without calls* is the ratio after the cost is subtracted from both times. On "
    "hardware a call costs little, so that ratios are near *without calls*. If commands wait for "
    "the device, the device may limit all paths alike."]


def is_one(figure: Figure) -> bool:
    """Whether a figure is one of those that are compared here."""
    return figure.instrument == "native" and figure.path != IN_KERNEL


def name(figure: Figure) -> str:
    """The name of a figure's path, or of a measurement that is common to all paths."""
    return CALL if figure.op == "call" else PATHS[figure.path]


def times(taken: FigureSet, jobs: int | None = None) -> list[Figure]:
    """The times of all paths."""
    return [one for one in taken.find(metric="time")
            if is_one(one) and (jobs is None or one.jobs == jobs)]


def by_quantity(taken: FigureSet) -> Iterator[tuple[str, list[list[str]]]]:
    """Tables (title, head and rows) of paths by devices and processes, one for each quantity."""
    every = times(taken)
    places = sorted({(one.row, one.jobs) for one in every},
                    key=lambda place: (matrix.rows_of(every).index(place[0]), place[1]))
    head = ["path", *(f"{ROWS[row].label}, {jobs} process" + "es" * (jobs > 1)
                      for row, jobs in places)]
    quantities: dict[str, Callable[[Figure], str]] = {
        "p10 of all chunks, ns per command of a process": _p10,
        "Median, ns per command of a process": matrix.text_of,
        "Divided by registered block reads": partial(_ratio, taken, "against_block"),
        "Divided by registered block reads, without calls":
            partial(_ratio, taken, "against_block_bare")}
    for title, said in quantities.items():
        rows = []
        for this in dict.fromkeys(map(name, every)):
            found = {(one.row, one.jobs): one for one in every if name(one) == this}
            cells = [said(found[place]) if place in found else "" for place in places]
            if any(cells):
                rows.append([this, *cells])
        if rows:
            yield title, [head, *rows]


def _p10(figure: Figure) -> str:
    return matrix.number(figure.p10 or 0)


def _ratio(taken: FigureSet, metric: str, figure: Figure) -> str:
    return matrix.text_of(taken.one(
        instrument="native", row=figure.row, path=figure.path, op=figure.op, jobs=figure.jobs,
        luns=figure.luns, qd=figure.qd, batch=figure.batch, bs=figure.bs, cpus=figure.cpus,
        kernel=figure.kernel, metric=metric))
