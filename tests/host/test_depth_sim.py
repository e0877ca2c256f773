# SPDX-License-Identifier: GPL-2.0
"""The layer learns how many commands a device needs at once: drivers/core/depth_choice.h on
simulated devices, see simulation.c. A simulation with a planted mistake must fail."""

import functools
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]
OUT = TOP / "build/tests/host"
HEADER = "drivers/core/depth_choice.h"
CHECKED = ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
FAST = ("-O2",)
SEEDS = (1, 2, 3)
NR = 1000


@functools.cache
def build(name, flags, old="", new=""):
    """Builds the simulation. @old and @new plant a mistake into the header."""
    OUT.mkdir(parents=True, exist_ok=True)
    header = (TOP / HEADER).read_text(encoding="ascii").expandtabs(4)
    assert not old or header.count(old) == 1, old
    (OUT / f"{name}.h").write_text(header.replace(old, new) if old else header, encoding="ascii")
    source = (HERE / "simulation.c").read_text(encoding="ascii").expandtabs(4)
    source = source.replace(f"../../{HEADER}", f"{name}.h")
    (OUT / f"{name}.c").write_text(source, encoding="ascii")
    subprocess.run(["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", *flags, "-o", OUT / name,
                    OUT / f"{name}.c", "-lm"], check=True, timeout=60)
    return OUT / name


def run(program, *words):
    """Runs the simulation; returns what it prints."""
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, timeout=120,
                          check=False)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return json.loads(done.stdout)


def one(program=None, **words):
    """Simulates one device."""
    return run(program or build("depth_sim_fast", FAST), "one",
               *(f"{name}={value}" for name, value in words.items()))


@functools.cache
def many(program, nr=NR):
    """Simulates @nr random devices for each seed; returns the results."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda seed: run(program, "many", seed, nr), SEEDS))


def check_many(results, nr=NR):
    """Two seconds (or 200 commands) after its first command a device has its depth: within 25 %
    and two commands of bandwidth times latency, or what its variation needs. It has 97 % of the
    throughput that it has without a limit. Some of the devices miss that, by little. Devices with
    commands of all sizes on a slow link miss it more often, because their depth is a number of
    commands, not of bytes."""
    for result in results:
        mixed = [bad for bad in result["bad"] if bad["sectors"][0] != bad["sectors"][1]]
        same = [bad for bad in result["bad"] if bad not in mixed]
        assert result["starved"] == 0
        assert len(same) <= 1 + 0.02 * (nr - result["mixed"]), same
        assert len(mixed) <= 1 + 0.22 * result["mixed"]
        assert min([bad["ratio"] for bad in same], default=1) > 0.94
        assert min([bad["ratio"] for bad in mixed], default=1) > 0.85
        # With the time in which nothing is known yet.
        assert result["all"] > 0.988


def test_a_thousand_devices():
    check_many(many(build("depth_sim_fast", FAST)))


def test_some_devices_with_sanitizers():
    assert run(build("depth_sim", CHECKED), "many", 4, 40)["starved"] == 0


# A device with 64 lanes and a latency of 10 ms; one of 10 MB/s that has a queue.
LANES = {"lanes": 64, "lane_ns": 10_000_000}
QUEUE = {"byte_ns": 100, "least": 1024, "most": 1024}
ALL = {"seconds": 10, "judged": 0.001}


def check_lanes(program=None):
    """The depth grows to the largest one; 97 % of the throughput includes the start."""
    got = one(program, **LANES, **ALL, depth=64)
    assert got["high"] == 64 and got["ratio"] > 0.97


def check_swing(program=None):
    """The speed halves and doubles every 5 s."""
    for device in (LANES, {"byte_ns": 2, "lane_ns": 5_000_000, "least": 128, "most": 128}):
        got = one(program, **device, swing_s=5, seconds=40)
        assert got["ratio"] > 0.97 and got["low"] > 0.5 * got["need"]


def check_queue(program=None):
    """The queue of the device stays short, whatever the sizes of the commands."""
    for more in ({}, {"swing_s": 5, "seconds": 30}, {"least": 8, "most": 2048, "seconds": 20},
                 {"queued": 64, "pause": 1, "seconds": 60}):
        got = one(program, **QUEUE | more)
        assert got["high"] <= 3 and got["ratio"] > 0.99, got


def check_few(program=None):
    """A program that has 32 commands in flight loses nothing, whatever the device."""
    for device in (LANES, {"lanes": 64, "lane_ns": 100_000}, {"lanes": 8, "lane_ns": 1_000_000},
                   {"lanes": 1, "lane_ns": 100_000, "jitter": 0.3}):
        assert one(program, **device, **ALL, queued=32)["ratio"] > 0.97
        assert one(program, **device, queued=32)["ratio"] > 0.99


def check_bursts(program=None):
    """Commands that come in bursts get their depth, although no burst lasts for a whole try."""
    for pause in (0.000001, 0.02):
        got = one(program, **LANES, **ALL, queued=64, pause=pause)
        assert got["ratio"] > 0.97 and got["high"] == 64


def check_other_loads(program=None):
    """A device with lanes loses nothing, whoever uses it: few or as many submitters as lanes; more
    of them, with pauses, so that there is spare room; many, half a second after few."""
    for lanes in (1, 2, 4, 8, 16, 32, 64, 128):
        for load in ({"queued": 12}, {"queued": lanes}, {"queued": 2 * lanes, "think": 0.02},
                     {"queued": 64, "pause": 0.02}, {"queued": lanes, "think": 0.02},
                     {"queued": 12, "think": 0.01, "more_s": 10, "more": 200, "judged": 10.5},
                     {"queued": 2, "think": 0.01, "more_s": 10, "more": 200, "judged": 10.5}):
            got = one(program, **{"lanes": lanes, "lane_ns": 20_000_000, "seconds": 15} | load)
            assert got["ratio"] > 0.96, (load, got)


def check_slow_lanes(program=None):
    """Neither does a device whose commands take long, but not because they wait."""
    for lanes in (4, 16, 64, 128):
        for load in ({"queued": 256}, {"queued": 12}, {"queued": lanes},
                     {"queued": lanes, "think": 0.2}):
            got = one(program, **{"lanes": lanes, "lane_ns": 200_000_000, "seconds": 90,
                                  "judged": 30} | load)
            assert got["ratio"] > 0.95, (load, got)


# The largest commands that a disk has by default, and the files that are saved beside them.
LARGE = {"least": 2560, "most": 2560}
SAVES = {"byte_ns": 100, "chain": 3, "seconds": 60, "judged": 10} | LARGE


def check_saves(program=None):
    """Three writes, one after the other, wait for one large command each, however many of these
    wait, whether they come one by one or in groups, and if the device is fast at first."""
    for load in ({}, {"group": 9}, {"group": 12}, {"queued": 5, "group": 5}, {"think": 0.5},
                 {"queued": 256}, {"wide": 3}, {"wide": 3, "least": 8},
                 {"queued": 5, "group": 5, "wide": 2},
                 {"byte_ns": 0.1, "change_s": 2, "then_byte_ns": 100}):
        got = one(program, **SAVES | {"queued": 12} | load)
        assert got["save"] < 450 and got["depth"] < 1.5 and got["ratio"] > 0.98, (load, got)


def check_change(program=None):
    """Eight seconds after the speed has changed by ten times, the depth has followed."""
    change = {"change_s": 5, "judged": 13, "seconds": 40, "queued": 25} | LARGE
    parallel = {"lane_ns": 10_000_000}
    slow = {"then_byte_ns": 100, "chain": 1}
    for device in (parallel | slow, parallel | slow | {"group": 20}, {"byte_ns": 10} | slow):
        got = one(program, **change | device)
        assert got["save"] < 140 and got["high"] <= 2 and got["ratio"] > 0.98, (device, got)
    for device in ({"byte_ns": 100, "then_byte_ns": 10},
                   {"byte_ns": 100, "then_lane_ns": 10_000_000, "queued": 64},
                   {"lanes": 64, "lane_ns": 100_000_000, "then_lane_ns": 10_000_000,
                    "queued": 256},
                   {"lanes": 64, "lane_ns": 10_000_000, "then_lane_ns": 100_000_000,
                    "queued": 256}):
        got = one(program, **change | device)
        assert got["ratio"] > 0.97, (device, got)


CHECKS = (check_lanes, check_swing, check_queue, check_few, check_bursts, check_other_loads,
          check_slow_lanes, check_saves, check_change)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_device(check):
    check()


def check_some(program):
    check_many(many(program, 100), 100)


# For each check a mistake that it finds: text to replace, its replacement, and the check.
PLANTED = {
    "doubling never ends": ("""
    l->doubling = false;
    smq_learn_changed(l);
""", """
    smq_learn_changed(l);
""", check_queue),
    "the depth does not grow": ("""
    l->depth = need < l->try ? need : l->try;
""", "", check_lanes),
    "a smaller depth is never tried": ("""
        to = smq_learn_within(bounds, smq_learn_smaller(l));
""", "", check_some),
    "a try counts only if commands wait": ("""
    if (inflight < l->limit && inflight < l->depth && l->spare != SMQ_LEARN_EMPTY)
""", """
    if (inflight < l->limit && l->spare != SMQ_LEARN_EMPTY)
""", check_few),
    "windows that are cut short do not count": ("""
        l->depth = smq_learn_larger(l);
""", "", check_bursts),
    "the depth grows although commands wait in the device": ("""
    if (l->alone ? smq_learn_queues(l, had, cmds, ns) : l->slow) {
""", """
    if (0) {
""", check_other_loads),
    "a slow device keeps a depth of two": ("""
    return l->slow && !l->doubling && l->stage != SMQ_LEARN_TRY && !l->searched &&
           l->depth <= SMQ_LEARN_LARGE;
""", """
    return 0 * l->depth;
""", check_saves),
    "spare room never begins a search": ("""
        smq_learn_spared(l, bounds, had, cmds, ns);
""", """
        (void)smq_learn_spared;
""", check_change),
    "lanes that take long count as a queue": ("""
    return ns * had > SMQ_LEARN_QUEUES * cmds * l->alone;
""", """
    return ns * had > 0 * SMQ_LEARN_QUEUES * cmds * l->alone;
""", check_slow_lanes),
}


@pytest.mark.parametrize("name", PLANTED)
def test_checks_find_planted_mistakes(name):
    old, new, check = PLANTED[name]
    program = build(f"depth_planted_{list(PLANTED).index(name)}", FAST, old, new)
    with pytest.raises(AssertionError):
        check(program)
