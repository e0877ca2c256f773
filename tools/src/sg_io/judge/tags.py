# SPDX-License-Identifier: GPL-2.0
"""What blocks have whose data should be that of pattern=tag: issue/cmdfile/tag.h describes it."""

from typing import NamedTuple

import numpy as np

from judge.columns import Numbers

UNIT = 32
SAYS, PLACE, CRC = slice(0, 24), slice(24, 28), slice(28, 32)   # bytes of a unit; SAYS: its tag
TAG = np.dtype([("lba", ">u8"), ("seed", ">u8"), ("pass", ">u4"), ("line", ">u4")])
NAMES = (None, "stale", "empty", "misplaced", "other", "torn", "corrupt")
PLAIN, STALE, EMPTY, MISPLACED, OTHER, TORN, CORRUPT = range(len(NAMES))


def make_table() -> Numbers:
    """CRC-32C."""
    table = np.arange(256, dtype="u4")
    for _ in range(8):
        table = table >> np.uint32(1) ^ np.where(table & np.uint32(1), np.uint32(0x82f63b78),
                                                 np.uint32(0))
    return table


TABLE = make_table()


def crc(units: Numbers) -> Numbers:
    """Of the bytes before the CRC."""
    total = np.full(units.shape[:-1], 0xffffffff, "u4")
    for i in range(CRC.start):
        total = total >> np.uint32(8) ^ TABLE[(total ^ units[..., i]) & np.uint32(0xff)]
    return ~total


def number(units: Numbers, part: slice) -> Numbers:
    """A field of 4 bytes."""
    value: Numbers = np.ascontiguousarray(units[..., part]).view(">u4")[..., 0]
    return value


def intact(units: Numbers) -> Numbers:
    """Which units have a tag."""
    right: Numbers = number(units, PLACE) == np.arange(units.shape[1], dtype="u4")
    right &= number(units, CRC) == crc(units)
    return right


class Findings(NamedTuple):
    """Of blocks, one each."""
    verdict: Numbers
    tag: Numbers        # of the first unit; 0: zeroes
    next: Numbers       # TORN: of the unit at @at
    at: Numbers         # TORN: the end of the first part, in bytes


def find(found: Numbers, expected: Numbers) -> tuple[Findings, Numbers]:
    """What blocks have, and the tags that they should have."""
    nr, size = found.shape
    whole = size // UNIT
    first = expected[:, :UNIT].reshape(nr, 1, -1)
    tagged = intact(first)[:, 0] if whole else np.zeros(nr, bool)
    if not tagged.any():
        none = np.zeros(nr, TAG)
        return Findings(np.zeros(nr, "u1"), none, none, np.zeros(nr, "i8")), none
    units = found[:, :whole * UNIT].reshape(nr, whole, UNIT)
    good = intact(units) | ~units.any(-1)
    says = units[..., SAYS]
    tail = found[:, whole * UNIT:]
    if tail.shape[1]:
        # The end that is cut off has no CRC: it is as the unit before says, or zero.
        last = units[:, -1].copy()
        last[:, PLACE] = np.frombuffer(whole.to_bytes(4, "big"), "u1")
        same, zero = (last[:, :tail.shape[1]] == tail).all(-1), ~tail.any(-1)
        good = np.column_stack((good, same | zero))
        says = np.concatenate((says, np.where(same[:, None], says[:, -1], 0)[:, None]), 1)
    other = (says != says[:, :1]).any(-1)
    at = other.argmax(1)
    tag, after, want = (np.ascontiguousarray(some).view(TAG)[..., 0] for some in (
        says[:, 0], says[np.arange(nr), at], first[:, 0, SAYS]))
    earlier = (tag["pass"] < want["pass"]) | (
        (tag["pass"] == want["pass"]) & (tag["line"] < want["line"]))
    verdict = np.select(
        [~tagged, ~good.all(1), other.any(1), tag["line"] == 0,
         tag["lba"] != want["lba"], (tag["seed"] == want["seed"]) & earlier],
        [PLAIN, CORRUPT, TORN, EMPTY, MISPLACED, STALE], OTHER)
    return Findings(verdict, tag, after, at * UNIT), want
