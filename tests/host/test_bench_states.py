# SPDX-License-Identifier: GPL-2.0
"""tools/bench/states, with given counts: it says which path costs more after which state. The
measurement itself is a slow test."""

import re

import pytest
from smqbench import states
from smqbench.profile import Profile
from smqbench.symbols import Function

BASE = {Function("submit", "smq_sg"): 900.0, Function("__slab_free", ""): 50.0,
        Function("blk_mq_submit", ""): 1000.0}


def count(changes=(), calls=2.0):
    """A count of BASE with these changes of functions."""
    profile = Profile()
    profile.insns.update(BASE | {name: BASE.get(name, 0) + value for name, value in changes})
    profile.calls[Function("kmem_cache_alloc", "")] = calls
    return states.Count.of(profile)


def taken(after, state="pause"):
    """Counts of all paths; after @state the first path has another one."""
    keys = [workload.key for workload in states.WORKLOADS]
    return {**{(states.FRESH, key): [count(), count()] for key in keys},
            **{(state, key): [count()] for key in keys}, (state, keys[0]): [after]}


@pytest.mark.parametrize("after, message", [
    (count([(Function("submit", "smq_sg"), 9.0)]), None),
    (count([(Function("submit", "smq_sg"), 11.0)]),
     "1911 instructions, 1900 on the fresh device: submit \\[smq_sg\\] \\+11"),
    (count([(Function("submit", "smq_sg"), -11.0)]), "1889 instructions, 1900 on"),
    (count([(Function("retry", "smq_sg"), 30.0)]), "retry \\[smq_sg\\] \\+30"),
    (count([(Function("__slab_free", ""), 60.0)]), None),
    (count(calls=2.05), None),
    (count(calls=3.0), "3.00 allocations, 2.00 on the fresh device"),
    (count(calls=1.0), "1.00 allocations"),
])
@pytest.mark.parametrize("state", ["pause", "tags"])
def test_a_count_that_differs_is_a_failure(after, message, state):
    """Instructions outside the allocator and calls of the allocator are compared."""
    said = list(states.differences(taken(after, state)))
    if message is None:
        assert not said
    else:
        one, = said
        assert one.startswith(f"after {states.STATES[state]}: smq_sg prepared: ")
        assert re.search(message, one)


def test_a_fresh_device_that_is_not_steady_is_a_failure():
    """A second measurement of the fresh device must agree with the first."""
    found = taken(count())
    found[states.FRESH, states.WORKLOADS[1].key] = [
        count(), count([(Function("submit", "smq_sg"), 20.0)])]
    one, = states.differences(found)
    assert "after the fresh device: smq_sg prepared, a batch per SQE: 1920 instructions" in one


def test_a_path_that_was_not_counted_is_a_failure():
    found = taken(count())
    del found["pause", states.WORKLOADS[-1].key]
    assert [one.rpartition(": ")[2] for one in states.differences(found)] == ["not counted"]
