# SPDX-License-Identifier: GPL-2.0
"""How the bench makes one figure of several measurements."""

import pytest
from smqbench import timing


@pytest.mark.parametrize("repeats, left_out", [(6, 0), (8, 0), (9, 1), (12, 2), (24, 6), (50, 17)])
def test_median_interval_matches_sign_test_tables(repeats, left_out):
    """The interval of a median is the one that tables for the sign test have. Fewer than six
    repeats have no interval."""
    assert timing.interval(list(range(repeats, 0, -1))) == (1 + left_out, repeats - left_out)
    assert timing.interval([1.0] * 5) is None and timing.interval([]) is None


@pytest.mark.parametrize("values, percent, expected", [
    ([5], 10, 5), ([1, 2, 3], 50, 2), ([3, 1, 2, 4], 50, 2.5), (range(11), 10, 1),
    (range(11), 100, 10), ([2, 1], 0, 1),
])
def test_percentile_is_right_for_few_values(values, percent, expected):
    """Percentiles are right even for few values."""
    assert timing.percentile(list(values), percent) == expected


def test_ratios_are_taken_for_each_repeat():
    """A ratio is taken for each repeat, so a drift that both sides share does not change it."""
    assert timing.ratios([10, 20, 40], [20, 40, 100]) == [0.5, 0.5, 0.4]
    with pytest.raises(ValueError, match="2 repeats against 1"):
        timing.ratios([1, 2], [1])
