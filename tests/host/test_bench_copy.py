# SPDX-License-Identifier: GPL-2.0
"""tools/bench/copy: its ratio, and its verdict."""

import pytest
from program import program


@pytest.fixture(name="copy", scope="module")
def copy_():
    return program("copy")


def test_the_median_of_the_ratios_of_all_rounds_is_judged(copy):
    """Each round's ratio is that of its fastest programs."""
    rounds = [{"sg_dd": 10, "sgp_dd, 2 threads": other,
               "sg_io, --jobs=1": 20, "sg_io, --jobs=2": mine}
              for other, mine in ((20, 30), (5, 15), (5, 70))]
    assert [copy.ratio(rates) for rates in rounds] == [1.5, 2, 7]
    assert copy.table(rounds, 2).endswith("2.00 (1.50 to 7.00), at least 2: PASS")
    assert copy.table(rounds, 2.1).endswith("MISSED")


def test_commands_move_the_size(copy):
    """bpt counts blocks: all programs send commands of the same size."""
    for words in copy.others(4096, "sg0", "sg1").values():
        assert {"if=/dev/sg0", "of=/dev/sg1", "bs=512", "bpt=8"} <= set(words)
