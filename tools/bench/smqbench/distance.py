# SPDX-License-Identifier: GPL-2.0
"""Compares smq_sg with its peers: the cost of each of its paths, the cost of the peer's path, and
how much of our cost smq_sg itself causes."""

from collections.abc import Iterator

from .figures import PATHS, Figure, FigureSet
from .matrix import number, short_names
from .tables import table

# Our paths, and for each the peers that a program could use instead. The first peer that was
# measured is compared.
PEERS = {
    "smq_sg_io": ("sg_io",),
    "smq_adhoc": ("bsg_uring", "bsg"),
    "smq_adhoc_fixed": ("bsg_uring_fixed", "io_uring_fixed", "bsg"),
    "smq": ("bsg_uring_fixed", "io_uring_fixed", "bsg"),
    "smq_batch": ("bsg_uring_fixed", "io_uring_fixed", "bsg"),
    "smq_lba": ("bsg_uring_fixed", "io_uring_fixed", "bsg"),
}
OURS = "smq_sg"     # the group of functions
HEAD = ["smq_sg", "peer", "peer's cost", "ours", "below", "floor", "above floor"]


def peer(taken: FigureSet, figure: Figure) -> Figure | None:
    """The path that a program would use in place of ours, on the same device."""
    for path in PEERS[figure.path]:
        found = taken.find(row=figure.row, path=path, op=figure.op, bs=figure.bs, luns=figure.luns,
                           metric="insn")
        if found:
            return found[0]
    return None


def floor(figure: Figure) -> float:
    """The cost of one of our paths in the kernel and the program, without smq_sg."""
    return figure.value - figure.parts["group"].get(OURS, 0)


def rows(taken: FigureSet) -> Iterator[list[str]]:
    """The rows of the table: our paths that have a peer."""
    every = taken.find(metric="insn")
    names = short_names(every)
    for figure in every:
        other = peer(taken, figure) if figure.path in PEERS else None
        if not other:
            continue
        yield [f"{figure.row}: {names[figure.workload]}", PATHS[other.path], number(other.value),
               number(figure.value), f"{(1 - figure.value / other.value) * 100:.0f} %",
               number(floor(figure)), number(figure.value - floor(figure))]


def text(taken: FigureSet) -> list[str]:
    """The table for a terminal; empty if no peer was measured."""
    found = list(rows(taken))
    return ["", *table(HEAD, found)] if found else []
