# SPDX-License-Identifier: GPL-2.0
"""Times: what is compared is measured in turns, and said with its spread."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True)
class Summary:
    """Several repeats of many chunks each. Times of a chunk have a floor and a long tail:
    p10 is near the floor, median what was usual."""

    median: float       # of the repeats' medians
    p10: float          # of all chunks
    spread: float       # between the repeats' medians
    repeats: int


def turns(rows: Sequence[Item], repeats: int) -> Iterator[tuple[int, Item]]:
    """(repeat, row), forth and back, so that a drift of the machine meets all rows alike."""
    for repeat in range(1, repeats + 1):
        for row in rows if repeat % 2 else reversed(rows):
            yield repeat, row


def percentile(values: Sequence[float], percent: float) -> float:
    """Between the two nearest values."""
    if not values:
        raise ValueError("percentile of nothing")
    ordered = sorted(values)
    at = (len(ordered) - 1) * percent / 100
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def spread(values: Sequence[float]) -> float:
    """From the least to the most."""
    return max(values) - min(values)


def summary(repeats: Sequence[Sequence[float]]) -> Summary:
    """Of the chunks of each repeat."""
    medians = [statistics.median(chunks) for chunks in repeats]
    everything = [value for chunks in repeats for value in chunks]
    return Summary(statistics.median(medians), percentile(everything, 10), spread(medians),
                   len(medians))


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """(median, spread) of the ratios of repeats that were measured side by side."""
    if len(ours) != len(theirs):
        raise ValueError(f"{len(ours)} repeats against {len(theirs)}")
    ratios = [one / other for one, other in zip(ours, theirs)]
    return statistics.median(ratios), spread(ratios)
