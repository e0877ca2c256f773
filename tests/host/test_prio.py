# SPDX-License-Identifier: GPL-2.0
"""The choices of the policy "prio": shares, bounds and bytes per second, on a simulated device."""

import pytest
from simulation import simulated

MS, SECOND = 10 ** 6, 10 ** 9
MB = 10 ** 6


def simulate(*commands, depth=4, service=MS, ratio=4, max_ms=500, rate=0, late=0,
             end=SECOND):
    """Simulates the commands; returns the results by class."""
    return simulated("prio_sim", depth, service, ratio, max_ms, rate, late, end, *commands)


@pytest.mark.parametrize("ratio", [1, 2, 4, 16, 64])
def test_sync_writes_get_ratio_times_the_async_ones(ratio):
    """The ratio holds while commands of both classes wait. No async write waits longer than the
    share of its class makes it wait."""
    got = simulate("sync,4096,0,64,again", "async,4096,0,64,again", ratio=ratio, end=4 * SECOND,
                   max_ms=60000)
    # Not counted: the last 64 commands of each class, which complete after the end.
    assert abs((got["sync"]["done"] - 64) / (got["async"]["done"] - 64) / ratio - 1) < 0.05
    assert got["async"]["worst"] <= (64 * (ratio + 1) / 4 + 2) * MS


@pytest.mark.parametrize("writes", ["sync", "async"])
def test_reads_have_more_weight_than_one_class_of_writes(writes):
    """Weights: reads 1, sync writes 4/5, async writes 1/5."""
    got = simulate("read,4096,0,64,again", f"{writes},4096,0,64,again", max_ms=60000,
                   end=2 * SECOND)
    weight = {"sync": 4 / 5, "async": 1 / 5}[writes]
    assert abs((got[writes]["done"] - 64) / (got["read"]["done"] - 64) / weight - 1) < 0.05


def test_reads_get_half_beside_both_classes_of_writes():
    got = simulate(*(f"{name},4096,0,64,again" for name in ("read", "sync", "async")),
                   max_ms=60000, end=2 * SECOND)
    writes = got["sync"]["done"] + got["async"]["done"] - 128
    assert abs((got["read"]["done"] - 64) / writes - 1) < 0.05


@pytest.mark.parametrize("ratio", [1, 4, 16])
def test_class_that_begins_later_gets_its_share(ratio):
    """Sync writes that begin after two seconds get their share from then on. They get nothing
    extra for the two seconds before."""
    got = simulate("async,4096,0,64,again", f"sync,4096,{2 * SECOND},64,again", ratio=ratio,
                   end=4 * SECOND, max_ms=60000)
    later = got["async"]["done"] - 4 * 2000
    assert abs((got["sync"]["done"] - 64) / max(later - 64, 1) / ratio - 1) < 0.1


def test_sync_write_is_issued_before_waiting_async_ones():
    """A sync write is issued as soon as one of the device's four commands ends."""
    got = simulate("async,4096,0,64,again", *(f"sync,4096,{at * 50 * MS + 500},1"
                                              for at in range(1, 18)))
    assert got["sync"]["worst"] <= 2 * MS + 1 and got["sync"]["done"] == 17
    assert got["async"]["worst"] <= (64 / 4 + 6) * MS


def test_real_time_is_issued_first_and_idle_last():
    got = simulate("sync,4096,1,40", "idle,4096,1,8", "async,4096,1,8", "rt,4096,1,16", depth=1)
    assert got["rt"]["last"] <= 17 * MS < got["sync"]["last"] < got["idle"]["last"]
    assert got["idle"]["last"] == 72 * MS + 1 and got["async"]["last"] < 65 * MS


@pytest.mark.parametrize("name", ["read", "sync", "async", "idle"])
def test_no_class_starves(name):
    """While real-time commands keep the device busy, a command of another class is issued every
    async_max_ms."""
    got = simulate("rt,4096,0,16,again", f"{name},4096,{SECOND},10", max_ms=50, end=4 * SECOND)
    assert got[name]["done"] == 10
    assert got[name]["last"] <= SECOND + 10 * 52 * MS
    # This class is served no more often than every async_max_ms.
    assert got[name]["last"] >= SECOND + 10 * 50 * MS


@pytest.mark.parametrize("late", [0, 100_000, 5 * MS])
@pytest.mark.parametrize("size", [512, 4096, 65536, 1 << 20])
@pytest.mark.parametrize("rate", [MB, 10 * MB, 100 * MB, 2000 * MB])
def test_rate_in_bytes_per_second_is_met(rate, size, late):
    """The throughput is at least 98 % of the rate and not above it, however late timers are."""
    seconds = 2 if size < 1 << 20 else 20
    if rate // size * seconds > 20000:
        pytest.skip("too many for a simulation")
    got = simulate(f"async,{size},1,64,again", rate=rate, late=late, service=1000, depth=32,
                   end=seconds * SECOND)["async"]
    # Tolerance: credit at the start, and commands that are issued after the measured time.
    expected = rate * got["last"] / SECOND
    assert 0.98 * expected - size <= got["bytes"] <= 1.001 * expected + rate / 100 + 2 * size


def test_large_command_keeps_its_credit():
    """A large command has as many bytes as the rate allows in 1 s. Four small commands, queued
    after 900 ms, do not use up the credit that it has waited for: all five end within 1.1 s."""
    got = simulate(f"async,{MB},1,1", *(f"sync,4096,{900 * MS},1" for _ in range(4)), rate=MB)
    assert max(got["async"]["last"], got["sync"]["last"]) < 1.1 * SECOND
    # prio had already chosen the large command.
    assert got["async"]["last"] < got["sync"]["last"]


def test_sync_writes_are_fast_while_many_async_writes_wait():
    """Three sync writes, one after the other, beside 1,200 async ones of 64 KiB, at 10 MB/s."""
    got = simulate("async,65536,1,1200", *(f"sync,4096,{(300 + 100 * i) * MS},1"
                                           for i in range(3)), rate=10 * MB, depth=32)
    assert got["sync"]["worst"] < 20 * MS and got["async"]["last"] > 7.5 * SECOND


def test_preference_for_sync_writes_costs_no_throughput():
    """With both classes the device completes as many commands as with async writes alone."""
    both = simulate("async,4096,0,64,again", "sync,4096,0,1,again", end=2 * SECOND)
    alone = simulate("async,4096,0,65,again", end=2 * SECOND)
    total = sum(one["done"] for one in both.values())
    assert abs(total / alone["async"]["done"] - 1) < 0.01
