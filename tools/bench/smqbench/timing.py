# SPDX-License-Identifier: GPL-2.0
"""Statistics of times. Rows that are compared are measured in turn, and each value has its
spread."""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

Item = TypeVar("Item")
CERTAIN = 0.95


@dataclass(frozen=True)
class Summary:
    """Several repeats of many chunks each. Times of a chunk have a floor and a long tail:
    p10 is near the floor, the median is the usual time."""

    median: float       # of the repeats' medians
    p10: float          # of all chunks
    spread: float       # between the repeats' medians
    repeats: int


def turns(rows: Sequence[Item], repeats: int) -> Iterator[tuple[int, Item]]:
    """(repeat, row), in alternating order: a drift of the machine affects all rows alike."""
    for repeat in range(1, repeats + 1):
        for row in rows if repeat % 2 else reversed(rows):
            yield repeat, row


def percentile(values: Sequence[float], percent: float) -> float:
    """A percentile, interpolated between the two nearest values."""
    if not values:
        raise ValueError("percentile of nothing")
    ordered = sorted(values)
    at = (len(ordered) - 1) * percent / 100
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def spread(values: Sequence[float]) -> float:
    """The difference between the largest and the smallest value."""
    return max(values) - min(values)


def summary(repeats: Sequence[Sequence[float]]) -> Summary:
    """Sums up the chunks of each repeat."""
    medians = [statistics.median(chunks) for chunks in repeats]
    everything = [value for chunks in repeats for value in chunks]
    return Summary(statistics.median(medians), percentile(everything, 10), spread(medians),
                   len(medians))


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """The two values between which the true median lies with a probability of at least 95 %,
    whatever the distribution; None if there are too few values."""
    ordered = sorted(values)
    # Each value is below the true median with a probability of 1/2, like the toss of a coin.
    chance, out = 0.0, 0        # how many values can be left out at each end
    for heads in range(len(ordered)):
        chance += math.comb(len(ordered), heads) / 2 ** len(ordered)
        if 2 * chance > 1 - CERTAIN:
            break
        out = heads + 1
    return (ordered[out - 1], ordered[-out]) if out else None


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Our value divided by theirs, for each repeat; the two rows were measured in turn."""
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} repeats against {len(theirs)}")
    return [one / other for one, other in zip(ours, theirs)]
