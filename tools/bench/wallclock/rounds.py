# SPDX-License-Identifier: GPL-2.0
"""Rounds of what is compared on two CPUs, and which of them had both to themselves.

The guest looks at the machine before the first round, between each two and after the last: it does
the same piece of work on each CPU alone and on both at once. A round that lies beside a look that
was disturbed goes as a whole, for all that was measured in it: what is compared stays in pairs.
"""

import statistics
from collections.abc import Sequence

from smqbench import timing

# How much slower a piece of work may be when both CPUs do it: what is between a machine with
# two CPUs and one that is busy, or has two threads of one core.
MAX_SLOWDOWN = 1.15
# Rounds that have to be left at least, or all where no more were asked for; and half of them.
LEAST = 3


def slowdown(alone: Sequence[Sequence[float]], together: Sequence[Sequence[float]]) -> float:
    """Of one look, times by CPU and chunk: the mean of all chunks, which holds every time a CPU
    was taken away, by the floor."""
    ratios = [statistics.mean(both) / timing.percentile(one, 10)
              for one, both in zip(alone, together) if both]
    return max(ratios, default=0.0)


def disturbed(looks: Sequence[float]) -> list[int]:
    """The rounds, from 0, before or after which a look was: whoever took a CPU away there may
    have done so in the round as well."""
    return [number for number, pair in enumerate(zip(looks, looks[1:]))
            if max(pair) > MAX_SLOWDOWN]


def enough(left: int, rounds: int) -> bool:
    """Whether so many of the rounds say something."""
    return left >= needed(rounds)


def needed(rounds: int) -> int:
    """How many have to be left."""
    return max((rounds + 1) // 2, min(LEAST, rounds))
