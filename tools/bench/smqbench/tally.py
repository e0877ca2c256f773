# SPDX-License-Identifier: GPL-2.0
"""Amounts by key, as collections.Counter has them, but also fractions: what one I/O takes."""

from operator import itemgetter
from typing import TypeVar

Key = TypeVar("Key")


class Tally(dict[Key, float]):
    """Amounts by key; a missing key has 0."""

    def __missing__(self, _key: Key) -> float:
        return 0

    def most_common(self, count: int | None = None) -> list[tuple[Key, float]]:
        """Keys and amounts, the largest first: all, or the first @count."""
        return sorted(self.items(), key=itemgetter(1), reverse=True)[:count]
