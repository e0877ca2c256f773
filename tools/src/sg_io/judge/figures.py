# SPDX-License-Identifier: GPL-2.0
"""Figures of commands in flight, of order and of distributions, from columns of times in ns."""

from typing import NamedTuple

import numpy as np

from judge.columns import Numbers

POINTS = 200    # of a curve
GROUP = 64      # commands of a group of the load; the last group has up to twice as many
US = 1000
SLAB = 1 << 20  # what is counted at a time, to keep memory small


def spread(values: Numbers) -> dict[str, int] | None:
    """Percentiles: the smallest value that the share of all does not exceed."""
    nr = len(values)
    if not nr:
        return None
    at = {name: max(-(-nr * share // 1000), 1) - 1 for name, share in
          (("p50", 500), ("p99", 990), ("p999", 999), ("max", 1000))}
    parts = np.partition(values, sorted(set(at.values())))
    return {name: int(parts[i]) for name, i in at.items()}


def ks_distance(a: Numbers, b: Numbers) -> float:
    """The greatest difference of the shares of values up to x, over all x. As many of each,
    which are sorted in place."""
    if not len(a):
        return 0.0
    a.sort()
    b.sort()
    most = 0
    for x in (a, b):
        shares = np.searchsorted(a, x, "right")
        shares -= np.searchsorted(b, x, "right")
        most = max(most, int(np.abs(shares, out=shares).max()))
    return most / len(a)


def inversions(times: Numbers, groups: Numbers, nr: int) -> list[int]:
    """For each of @nr groups, how many pairs of its times are in the other order."""
    found = np.zeros(nr, "i8")
    early = np.minimum.accumulate(times[::-1])[::-1]
    # Where all before is at most as great as all after. What is between is counted in slabs.
    cuts = np.append(np.flatnonzero(np.maximum.accumulate(times)[:-1] <= early[1:]) + 1,
                     len(times))
    begin = 0
    while begin < len(times):
        at = int(np.searchsorted(cuts, begin + SLAB))
        end = int(cuts[min(at, len(cuts) - 1)])
        part = times[begin:end]
        # The rest is in order with all others.
        mixed = (np.maximum.accumulate(part) > part) | (early[begin:end] < part)
        if mixed.any():
            found += count_inversions(part[mixed], groups[begin:end][mixed], nr)
        begin = end
    return [int(n) for n in found]


def count_inversions(times: Numbers, groups: Numbers, nr: int) -> Numbers:
    """The same, bit by bit of the places in order, from the highest to the lowest: among places
    that are equal in the higher bits, those with a 1 are counted that come before one with a 0."""
    found = np.zeros(nr, "i8")
    place = np.empty(len(times), "u8")
    place[np.argsort(times, kind="stable")] = np.arange(len(times))
    place |= groups.astype("u8") << np.uint64(32)
    place = place[np.argsort(groups, kind="stable")]
    for bit in reversed(range(len(times).bit_length())):
        one = (place >> np.uint64(bit)) & np.uint64(1) == 1
        part = place >> np.uint64(bit + 1)
        first = np.flatnonzero(np.append(True, part[1:] != part[:-1]))
        before = np.cumsum(one)
        before -= np.repeat(before[first] - one[first], np.diff(first, append=len(place)))
        group = place[~one] >> np.uint64(32)
        found += np.bincount(group.astype("i8"), before[~one], nr).astype("i8")
        place = place[np.argsort(place >> np.uint64(bit), kind="stable")]
    return found


class Flight(NamedTuple):
    """What is in flight over time."""
    starts: Numbers     # sorted
    ends: Numbers       # sorted
    gaps: Numbers       # idle time before each start

    @property
    def first(self) -> int:
        """When the first command began."""
        return int(self.starts[0])

    @property
    def last(self) -> int:
        """When the last command ended."""
        return int(self.ends[-1])

    def area(self, at: Numbers) -> Numbers:
        """Commands in flight times ns, until these times. The sums may overflow, their difference
        does not."""
        total = np.zeros(len(at), "i8")
        for times, sign in ((self.starts, 1), (self.ends, -1)):
            sums: Numbers = np.append(0, np.cumsum(times))
            nr = np.searchsorted(times, at, "right")
            total += sign * (nr * at - sums[nr])
        return total

    def mean(self) -> float:
        """From the first command to the end of the last."""
        return float(self.area(np.array([self.last]))[0]) / max(self.last - self.first, 1)

    def most(self) -> int:
        """A command that ends when another begins was not in flight beside it."""
        before = np.searchsorted(self.ends, self.starts, "right")
        return int((np.arange(1, len(self.starts) + 1) - before).max())

    def groups(self) -> Numbers:
        """The mean while any command was in flight, of each group of commands: what --mode load
        promises, see replay/level.h. The last group ends when a command ends after the last was
        issued."""
        nr = max(len(self.starts) // GROUP, 1)
        cuts = np.append(self.starts[:nr * GROUP:GROUP],
                         self.ends[np.searchsorted(self.ends, self.starts[-1], "right")])
        idle: Numbers = np.append(0, np.cumsum(self.gaps))
        busy = np.diff(cuts) - np.diff(idle[np.searchsorted(self.starts, cuts, "right")])
        # A group that took no time is in flight in the next one.
        after = np.minimum.accumulate(np.where(busy > 0, np.arange(nr), nr)[::-1])[::-1]
        means: Numbers = np.append(np.diff(self.area(cuts)) / np.maximum(busy, 1), 1.0)[after]
        return means

    def curve(self, span: int) -> Numbers:
        """In flight over time, up to @span."""
        edges = np.linspace(0, span, POINTS + 1)
        return np.diff(self.area(edges.astype("i8"))) / (span / POINTS)

    def idle(self) -> dict[str, float]:
        """The time from the first command to the end of the last without any in flight."""
        ns = int(self.gaps.sum())
        return {"seconds": ns / 1e9, "pauses": int((self.gaps > 0).sum()),
                "share": ns / max(self.last - self.first, 1)}


def flight(starts: Numbers, took: Numbers) -> Flight:
    """Of at least one command, each of which takes time."""
    ends = starts + took
    ends.sort()
    starts = np.sort(starts)
    # If i commands have ended when the next one begins, they are the i that began before it.
    gaps = np.zeros(len(starts), "i8")
    np.subtract(starts[1:], ends[:-1], out=gaps[1:])
    np.maximum(gaps, 0, out=gaps)
    return Flight(starts, ends, gaps)


def violations(due: Numbers, took: Numbers, issued: Numbers, retook: Numbers, window: int) -> int:
    """How many commands the replay issued before one had ended that had ended before them in the
    original, not longer before than @window. Recordings have whole microseconds."""
    order = np.argsort(due + took, kind="stable")
    ends = (due + took)[order]
    latest = (issued + retook)[order]
    low, high = np.searchsorted(ends, due - window, "right"), np.searchsorted(ends, due, "right")
    # latest[i] becomes the latest end of width commands from i on.
    width, count = 1, 0
    while width <= len(ends):
        some = np.flatnonzero((high - low >= width) & (high - low < 2 * width))
        most = np.maximum(latest[low[some]], latest[high[some] - width])
        count += int((most > issued[some] + US).sum())
        latest = np.maximum(latest[:-width], latest[width:])
        width *= 2
    return count
