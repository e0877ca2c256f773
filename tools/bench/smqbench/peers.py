# SPDX-License-Identifier: GPL-2.0
"""Pairs of rows to compare with each other: tables/peers.toml."""

from typing import Any

from . import matrix
from .figures import FigureSet
from .tomls import table

_TABLE: dict[str, Any] = table("peers")
NO_COST: list[str] = _TABLE["no_cost"]
MORE_IS_BETTER: list[str] = _TABLE["more_is_better"]


def worse(taken: FigureSet) -> list[list[str]]:
    """Rows for a table: our figures that are worse than their peer's."""
    rows = []
    for ours, peer, what in _TABLE["peers"]:
        for mine in taken.find(row=ours):
            theirs = [one for one in taken.find(row=peer)
                      if one.key == (mine.key[0], peer, *mine.key[2:])]
            if not theirs or mine.metric in NO_COST:
                continue
            more = mine.value - theirs[0].value
            more = -more if mine.metric in MORE_IS_BETTER else more
            chance = max(_TABLE["worse"] * abs(theirs[0].value),
                         _TABLE["least"].get(mine.unit, 0))
            if more > chance + (mine.spread + theirs[0].spread) / 2:
                rows.append([mine.label, theirs[0].label, mine.workload, mine.unit,
                             matrix.text_of(mine), matrix.text_of(theirs[0]), what])
    return rows
