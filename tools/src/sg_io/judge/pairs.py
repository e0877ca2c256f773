# SPDX-License-Identifier: GPL-2.0
"""The commands that are in both of two recordings."""

import numpy as np

from judge.columns import Commands, Numbers

SLAB = 1 << 20      # keys that are paired at a time, to keep memory small


class Pairs:
    """Commands by their time in the original. Times are in ns."""

    def __init__(self, room: int) -> None:
        self.due = np.empty(room, "i8")     # in the original, from its start, divided by the speed
        self.issued = np.empty(room, "i8")  # in the replay
        self.took = np.empty(room, "u4")    # in the original, as in Commands
        self.retook = np.empty(room, "u4")  # in the replay
        self.dev = np.empty(room, "u1")     # as in the replay
        self.nr = self.missing = self.extra = 0
        self.same_cpu = self.other_cpu = 0

    def keep(self, order: Numbers | slice) -> None:
        """Keeps these pairs, in this order."""
        for name in ("due", "issued", "took", "retook", "dev"):
            setattr(self, name, getattr(self, name)[order])


def find_devices(one: Commands, other: Commands) -> Numbers:
    """For each device of the original its index in the replay, or -1: they have the same names, or
    there is one of each."""
    found = [other.devs.index(name) if name in other.devs else -1 for name in one.devs]
    if len(one.devs) <= 1 and len(other.devs) <= 1 or not one.devs:
        found = [0]
    return np.array(found)


def sort_by_key(c: Commands) -> None:
    """Puts equal commands together, and those in the order of their times, and of their lines."""
    c.key ^= (c.dev.astype("u8") + np.uint64(1)) * np.uint64(0x9e3779b97f4a7c15)
    if (c.at[1:] < c.at[:-1]).any():
        c.take(np.argsort(c.at, kind="stable"))
    c.take(np.argsort(c.key, kind="stable"))


def pair_slab(p: Pairs, one: Commands, other: Commands, begin: int, end: int) -> None:
    """Pairs the commands of the original from @begin to @end: all that have their keys."""
    key = one.key[begin:end]
    first = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
    count = np.diff(first, append=end - begin)
    there = np.searchsorted(other.key, key[first], "left")
    recount = np.searchsorted(other.key, key[first], "right") - there
    both = np.minimum(count, recount)
    nth = np.arange(both.sum()) - np.repeat(np.cumsum(both) - both, both)
    a = np.repeat(first, both) + nth + begin
    # What only the replay has came first: it looks for a file system.
    b = np.repeat(there + np.maximum(recount - count, 0), both) + nth
    to = slice(p.nr, p.nr + len(a))
    p.nr += len(a)
    for column, values in ((p.due, one.at[a]), (p.issued, other.at[b]), (p.took, one.took[a]),
                           (p.retook, other.took[b]), (p.dev, other.dev[b])):
        column[to] = values
    known = (one.cpu[a] >= 0) & (other.cpu[b] >= 0)
    same = int((known & (one.cpu[a] == other.cpu[b])).sum())
    p.same_cpu += same
    p.other_cpu += int(known.sum()) - same


def match(one: Commands, other: Commands, speed: float, by_time: bool) -> Pairs:
    """Pairs the nth of several equal commands of a device with the nth. If the replay has more of
    them, the first ones are left over. Uses up both.

    The clocks of the two recordings have nothing in common: by time, the command that was the least
    late was punctual; otherwise both begin with their first one.
    """
    p = Pairs(min(one.nr, other.nr))
    p.missing, p.extra = one.nr, other.nr
    start = int(one.at.min())
    devs = find_devices(one, other)
    if (devs < 0).any():
        one.take(np.flatnonzero(devs[one.dev] >= 0))
    one.dev = devs[one.dev].astype("u1")
    for commands in (one, other):
        sort_by_key(commands)
    begin = 0
    while begin < one.nr:
        last = one.key[min(begin + SLAB, one.nr) - 1]
        end = int(np.searchsorted(one.key, last, "right"))
        pair_slab(p, one, other, begin, end)
        begin = end
    for commands in (one, other):
        commands.take(np.empty(0, "i8"))
    p.missing -= p.nr
    p.extra -= p.nr
    p.keep(slice(p.nr))
    p.due -= start
    p.due *= 1000
    if speed != 1:
        p.due = (p.due / speed).astype("i8")
    p.issued *= 1000
    if p.nr:
        p.issued -= (p.issued - p.due).min() if by_time else p.issued.min() - p.due.min()
        p.keep(np.lexsort((p.issued, p.due)))
    return p
