# SPDX-License-Identifier: GPL-2.0
"""The choices of the policy "steer": its rules in every state, and throughput on a simulated
device."""

import itertools

import pytest
from simulation import simulated


def simulate(**settings):
    """Simulates 50,000 commands; returns the results."""
    return simulated("steer_sim", *(f"{name}={value}" for name, value in settings.items()))


def test_rules_hold_in_every_state():
    """steer_walk checks the rules in each state."""
    simulated("steer_walk")


@pytest.mark.parametrize("threshold", [1, 4, 16, 24])
@pytest.mark.parametrize("hwq_ns", [10000, 100000, 2000000])
def test_one_task_gets_all_hardware_queues(threshold, hwq_ns):
    """Each of four hardware queues serves one command at a time. steer is at least 2.5 times as
    fast as direct."""
    direct = simulate(steer=0, hwq_ns=hwq_ns, qd=64)
    steered = simulate(threshold=threshold, hwq_ns=hwq_ns, qd=64)
    # It is not four times as fast: with a threshold of 1 a queue has no second command, so it is
    # idle for a moment after each command.
    assert direct["ns"] > 2.5 * steered["ns"]
    assert steered["backed_off"] == 0 and steered["steered"] > 50000 / 2


@pytest.mark.parametrize("device", [
    {"service_ns": 100000}, {"service_ns": 100000, "jitter": 30000},
    {"service_ns": 1000000, "jitter": 900000}, {"link_ns": 5000},
    {"link_ns": 5000, "service_ns": 100000, "jitter": 50000}],
    ids=["at once", "at once, 30 %", "at once, 90 %", "link", "link and noise"])
@pytest.mark.parametrize("qd", [20, 32, 128, 1000])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_steering_stops_where_it_does_not_help(device, qd, seed):
    """The hardware queues do not limit the device. Less than 1 % of the commands are steered, and
    the run takes at most 2 % longer."""
    direct = simulate(steer=0, qd=qd, seed=seed, **device)
    steered = simulate(qd=qd, seed=seed, **device)
    assert 0 < steered["steered"] < 50000 / 100
    assert steered["ns"] < 1.02 * direct["ns"]


@pytest.mark.parametrize("qd, threshold",
                         list(itertools.product([4, 17, 18, 20, 32, 100], [4, 16])))
@pytest.mark.parametrize("device", [
    {"hwq_ns": 20000}, {"hwq_ns": 5000, "service_ns": 200000, "jitter": 100000},
    {"service_ns": 200000, "jitter": 199000}, {"link_ns": 3000}],
    ids=["hwq", "hwq and noise", "noise", "link"])
def test_balanced_load_is_not_steered(qd, threshold, device):
    """Four tasks use four hardware queues. Less than 1 % of the commands are steered."""
    direct = simulate(steer=0, tasks=4, qd=qd, **device)
    steered = simulate(tasks=4, qd=qd, threshold=threshold, **device)
    assert steered["steered"] < 50000 / 100
    assert steered["ns"] < 1.02 * direct["ns"]


def test_steering_begins_and_stops_when_the_device_changes():
    """The device first serves each hardware queue separately, later all of them over one link:
    steer stops within 400 commands. If the device changes in the other direction, steer begins."""
    stops = simulate(hwq_ns=50000, hwq_ns_later=0, link_ns_later=50000, qd=64)
    assert stops["backed_off"] >= 1
    assert 25000 <= stops["stopped_at"] < 25000 + 400
    begins = simulate(link_ns=50000, link_ns_later=0, hwq_ns_later=50000, qd=64)
    assert begins["steered"] > 25000 / 2


def test_two_busy_tasks_share_the_idle_queues():
    """Two of four hardware queues have a task each. steer is not quite twice as fast as
    direct, because the tasks interfere a little."""
    direct = simulate(steer=0, tasks=2, hwq_ns=100000, qd=64)
    steered = simulate(tasks=2, hwq_ns=100000, qd=64)
    assert direct["ns"] > 1.7 * steered["ns"]


def test_steer_stops_using_full_queues():
    """Hardware queues with room for two commands are full while steer still counts them as idle.
    steer is nevertheless 2.5 times as fast as direct."""
    direct = simulate(steer=0, hwq_ns=100000, qd=64)
    steered = simulate(hwq_ns=100000, qd=64, hwq_depth=2)
    assert steered["fell_back"] > 1000 and direct["ns"] > 2.5 * steered["ns"]


def test_closed_queues_are_never_chosen():
    """One of four hardware queues is closed. The simulation fails if steer chooses it."""
    direct = simulate(steer=0, hwq_ns=100000, qd=64)
    steered = simulate(closed=2, hwq_ns=100000, qd=64)
    assert steered["on_closed"] == 0 and direct["ns"] > 1.8 * steered["ns"]
