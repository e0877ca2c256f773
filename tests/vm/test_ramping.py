# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize
"""The mid-layer lowers queue_depth while the device answers with TASK SET FULL, and raises it again
afterwards."""
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from kit.fiojob import load_on
from kit.host import settle, under_way, wait_for
from kit.ramdir import ram_hosts
from kit.trace import traced

# The first time, the mid-layer lowers the depth by one after eleven TASK SET FULL that are at least
# 64 ms apart. Later a single TASK SET FULL is enough.
HOSTS, STORMS, DEPTH, STEPS = 5, 4, 8, 1
VERIFIED = {"ioengine": "io_uring", "rw": "randwrite", "bs": 4096, "iodepth": 16, "size": "4m",
            "verify": "crc32c", "verify_fatal": 1, "verify_backlog": 16, "time_based": True,
            "runtime": 600}


def attribute(lun, name):
    """A number in the LUN's sysfs."""
    return int((lun.sysfs / name).read_text(encoding="ascii"))


def storm(host_dir, host):
    """Repeats this STORMS times: the device refuses every other command until the depth has fallen,
    and then no command until the depth has risen again."""
    lun = host.luns()[0]
    for _ in range(STORMS):
        host_dir.arm("task_set_full", every=2, count=-1)
        wait_for("a smaller depth", lambda: attribute(lun, "queue_depth") <= DEPTH - STEPS)
        host_dir.set("fault/kind", "none")
        wait_for("the whole depth", lambda: attribute(lun, "queue_depth") == DEPTH)


@pytest.mark.limit(120)
def test_depth_falls_in_a_storm_and_rises_again():
    with ram_hosts(HOSTS, depth=DEPTH) as hosts:
        for host_dir, host in hosts:
            host_dir.set("model/service_ns", 40000000)
            (host.luns()[0].sysfs / "queue_ramp_up_period").write_text("50", encoding="ascii")
        with traced(buffer_kb=65536) as trace:
            with ExitStack() as stack, ThreadPoolExecutor(HOSTS) as pool:
                loads = [stack.enter_context(load_on(host.luns()[0].sd, **VERIFIED))
                         for _, host in hosts]
                for _, host in hosts:
                    under_way(host.luns()[0], 20, 60)
                list(pool.map(lambda pair: storm(*pair), hosts))
                # A load reads 16 blocks after it has written 16.
                for _, host in hosts:
                    under_way(host.luns()[0], 64, 60)
            for _, host in hosts:
                assert settle(host)["timeouts"] == 0
        commands = trace.check_once()
        jobs = [load.result()["jobs"][0] for load in loads]
        assert all(job["read"]["total_ios"] > 16 for job in jobs), "nothing was verified"
        # The trace counts each attempt that the device refused as a command.
        refused = sum(int(host_dir.get("fault/injected")) for host_dir, _ in hosts)
        assert refused >= HOSTS * (11 + STORMS - 1)
        assert commands >= refused + sum(job["write"]["total_ios"] + job["read"]["total_ios"]
                                         for job in jobs)
        for _, host in hosts:
            assert all(row["queued"] for row in host.hwqs())
