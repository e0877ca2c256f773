# SPDX-License-Identifier: GPL-2.0
"""tools/bench/late: its evaluation, and its verdicts."""

import pytest
from program import program

TEXT = """timer 3700 3900 3910 0
sleep {sleep} 9000 9100 0
sleep-nothing 3600 4400 4500 0
spin 300 {spin} 9000 40
spin-nothing 240 250 260 40
"""


@pytest.fixture(name="late", scope="module")
def late_():
    return program("late")


@pytest.mark.parametrize("sleep,spin,good", [(0, 0, True), (1, 0, False), (0, 1, False)])
def test_a_missed_bar_is_named(late, capsys, sleep, spin, good):
    """A value at the bar passes, one more does not. Other kernels than 6.1 are not judged."""
    found = late.figures(TEXT.format(sleep=4000 - late.SEND + sleep, spin=1500 - late.SEND + spin))
    assert late.show(found, True) is good
    said = capsys.readouterr().out
    assert said.count("PASS") == (2 if good else 1) and ("FAIL" not in said) is good
    assert late.show(found, False) and "bar" not in capsys.readouterr().out
