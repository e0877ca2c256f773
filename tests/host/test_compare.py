# SPDX-License-Identifier: GPL-2.0
"""The comparison of a policy with "direct", on simulated loads."""

import pytest
from simulation import simulated

ALL = 10000


def slower(rate, gain, noise=1, drift=0, seed=1):
    """Compares many times; returns how often the policy was found to be slower."""
    return simulated("compare_sim", rate, gain, noise, drift, seed)


@pytest.mark.parametrize("rate", [50, 1500, 250000, 2000000])
@pytest.mark.parametrize("drift", [-20, 0, 20])
def test_slower_policy_is_found(rate, drift):
    """It ends 6 % fewer commands, while the load varies and grows or shrinks."""
    assert slower(rate, 94, drift=drift) > 0.99 * ALL


@pytest.mark.parametrize("gain", [100, 130])
@pytest.mark.parametrize("drift", [-50, 0, 50])
def test_policy_that_loses_nothing_is_kept(gain, drift):
    """It ends as many commands or more; the load may grow or shrink by half."""
    assert slower(1500, gain, drift=drift) < 0.01 * ALL


def test_load_that_varies_at_random_seldom_decides():
    """Each window varies by up to 30 %: then few comparisons blame a policy that loses nothing."""
    assert slower(1500, 100, noise=30) < 0.02 * ALL


def test_few_commands_decide_nothing():
    """Fewer than 64 commands in six windows are too few, whatever the policy does."""
    assert slower(7, 10) == 0
