# SPDX-License-Identifier: GPL-2.0
"""Finds the rounds of a comparison on two CPUs in which no other work disturbed the machine.

Before the first round, between rounds and after the last one, the guest looks at the machine: it
does the same piece of work on each CPU alone and on both at once. If a look was disturbed, the
round before it and the round after it are dropped completely, so that measurements that are
compared still come from the same round. """

import statistics
from collections.abc import Sequence

from smqbench import timing

# The largest slowdown that is accepted when both CPUs do the same work at once. A busy machine, or
# one whose two CPUs are threads of one core, has a larger slowdown.
MAX_SLOWDOWN = 1.15
# At least this many rounds must remain, or all if fewer were requested; and at least half of the
# rounds.
LEAST = 3


def slowdown(alone: Sequence[Sequence[float]], together: Sequence[Sequence[float]]) -> float:
    """The slowdown of one look, from times by CPU and chunk. For each CPU: the mean of its chunks
    when all CPUs work, which includes all interruptions, divided by p10 of its chunks when it works
    alone. The slowest CPU counts."""
    ratios = [statistics.mean(both) / timing.percentile(one, 10)
              for one, both in zip(alone, together) if both]
    return max(ratios, default=0.0)


def disturbed(looks: Sequence[float]) -> list[int]:
    """The rounds, counted from 0, that have a disturbed look before or after them: the disturbance
    may have reached into the round."""
    return [number for number, pair in enumerate(zip(looks, looks[1:]))
            if max(pair) > MAX_SLOWDOWN]


def enough(left: int, rounds: int) -> bool:
    """Whether this many remaining rounds are enough."""
    return left >= needed(rounds)


def needed(rounds: int) -> int:
    """How many rounds must remain."""
    return max((rounds + 1) // 2, min(LEAST, rounds))
