# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize
"""Random changes among all policies under verified load, with faults: no command is lost, no depth
is exceeded, and each command is counted once. test_switch_devices.py has the same test on QEMU's
devices.

With SMQ_SEED=NUMBER a run makes the same random choices as the run that printed this number.
"""
import os
import random
from contextlib import ExitStack

import pytest
from kit.fiojob import load_on, total_ios
from kit.hold import get_param, set_param, with_params
from kit.host import load, unload
from kit.ramdir import ram_dirs, start_host
from kit.sanitizing import SANITIZING, repeats
from kit.switching import (LEGACY, POLICIES, Switcher, check_counters, never_offline, seed,
                           switch_all, verified_loads)

pytestmark = pytest.mark.skipif(os.cpu_count() < 2, reason="needs two CPUs")

CHANGES = repeats(200)
FAULTS = (("task_set_full", {"every": 61, "count": -1}), ("status", {"every": 61, "count": 20}),
          ("sense", {"every": 89, "count": 20, "sense": "0x062900"}),
          ("lost", {"every": 1, "count": 1}), ("dropped", {"every": 1, "count": 1}),
          ("none", {}))


@pytest.fixture(name="legacy")
def legacy_fixture():
    """Loads smq_legacy, for hosts with one hardware queue."""
    load("smq_legacy")
    yield
    unload("smq_legacy")


def faults_of(host_dir, host):
    """Returns a function that sometimes arms another fault on a host, changes the room in the
    host's hardware queues, an elevator, or a setting."""
    def change(rng):
        if rng.random() < 0.1:
            scheduler = rng.choice(host.luns()).queue / "scheduler"
            scheduler.write_text(rng.choice(("none", "mq-deadline")), encoding="ascii")
            budget = host.sysfs / "smq_bucket/budget"
            budget.write_text(rng.choice(("1", "64")), encoding="ascii")
        if rng.random() < 0.15:
            kind, settings = rng.choice(FAULTS)
            host_dir.arm(kind, **settings)
            host_dir.set("model/hwq_depth", rng.choice((0, 4, 24)))
    return change


@pytest.mark.limit(240)
@pytest.mark.usefixtures("legacy")
def test_random_changes_under_verified_load():
    """Changes the policies of two hosts of smq_ram at the same time. One host has a single hardware
    queue, so it can also have the policy legacy-model."""
    rng = random.Random(seed())
    with ram_dirs(), ExitStack() as loads:
        hosts = [start_host(f"test{queues}", 2, 2, {"hw_queues": queues, "depth": 32})
                 for queues in (1, 2)]
        for host_dir, host in hosts:
            never_offline(host)
            # The device is sometimes full, and its doorbells are expensive.
            host_dir.set("model/service_ns", 300000)
            host_dir.set("model/doorbell_ns", 20000)
        jobs = verified_loads(loads, [host for _, host in hosts])
        switchers = [Switcher(host, random.Random(rng.random()), policies)
                     for (_, host), policies in zip(hosts, (LEGACY, POLICIES), strict=True)]
        switch_all(switchers, CHANGES // 2, [faults_of(*host) for host in hosts])
        assert all(job.running for job in jobs)
        for host_dir, _ in hosts:
            host_dir.arm("none")
            host_dir.set("model/hwq_depth", 0)
        loads.close()
        for _, host in hosts:
            check_counters(host)
        assert all(total_ios(job.result()) > 100 for job in jobs)


@with_params(depth=8, luns=2, delay_us=500)
@pytest.mark.limit(240)
def test_no_depth_is_exceeded(hold):
    """No LUN of smq_hold gets more commands than its depth. smq_hold counts its commands
    exactly."""
    rng = random.Random(seed())
    set_param("max_inflight", 0)
    luns = hold.luns()
    switcher = Switcher(hold, rng)

    def change(rng):
        if rng.random() < 0.2:
            set_param("refuse", rng.randrange(20))
        set_param("ring", rng.choice((3, 8, 2**32 - 1)))

    with load_on(":".join(lun.sd for lun in luns), ioengine="libaio", rw="randread", bs=4096,
                 iodepth=48, numjobs=2, time_based=True, runtime=600) as job:
        switch_all([switcher], CHANGES // 2, [change])
        set_param("ring", 2**32 - 1)
        set_param("refuse", 0)
        assert job.running
    stats = check_counters(hold)
    assert total_ios(job.result()) > 100 and stats["timeouts"] == 0
    assert 8 < get_param("max_inflight") <= 8 * len(luns)
    assert set(switcher.chosen) == set(POLICIES) or SANITIZING
