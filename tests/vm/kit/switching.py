# SPDX-License-Identifier: GPL-2.0
"""Random changes of a host's dispatch policy under load, and the checks to make after them."""
import os
import random
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field

from . import debugfs
from .fiojob import Load, load_on
from .host import Host, settle, wait_for

POLICIES = ("direct", "batch", "bucket", "prio", "steer")
# The policies of a host with one hardware queue, once smq_legacy is loaded.
LEGACY = POLICIES + ("legacy-model",)
VERIFIED = {"ioengine": "io_uring", "rw": "randwrite", "bs": 4096, "iodepth": 64, "size": "1m",
            "verify": "crc32c", "verify_fatal": 1, "loops": 100000, "fsync": 64}
# Settings with which each policy has something to do: otherwise the host runs as "direct".
KNOBS = {"smq_bucket/share": 0, "smq_steer/threshold": 2, "smq_batch/requests": 4,
         "smq_prio/bytes_per_sec": 0}
# The most milliseconds between two changes. Some changes come before the previous one has had any
# effect.
PAUSE_MS = 40


def seed() -> int:
    """Returns a seed and prints it: SMQ_SEED of the environment, otherwise a random number."""
    number = int(os.environ.get("SMQ_SEED") or random.randrange(2**32))
    print(f"SMQ_SEED={number}")
    return number


@dataclass
class Switcher:
    """Changes the policy of one host at random, and counts the changes."""
    host: Host
    rng: random.Random
    policies: tuple[str, ...] = POLICIES
    chosen: dict[str, int] = field(default_factory=dict)
    effective: dict[str, int] = field(default_factory=dict)
    longest: float = 0

    def run(self, count: int, between=lambda rng: None) -> None:
        """Makes @count changes, each to another policy; calls @between before each."""
        for name, value in KNOBS.items():
            self._set(name, value)
        for _ in range(count):
            between(self.rng)
            if self.rng.random() < 0.2:
                # A rate that limits nothing, or no rate: "prio" has something to do only with a
                # rate.
                self._set("smq_prio/bytes_per_sec", self.rng.choice((0, 2**32 - 1)))
            policy = self.rng.choice([one for one in self.policies if one != self.host.policy()])
            start = time.monotonic()
            self._set("smq/policy", policy)
            self.longest = max(self.longest, time.monotonic() - start)
            self.chosen[policy] = self.chosen.get(policy, 0) + 1
            time.sleep(self.rng.uniform(0, PAUSE_MS) / 1000)
            now = debugfs.state(self.host)["effective"]
            self.effective[now] = self.effective.get(now, 0) + 1

    def _set(self, name: str, value) -> None:
        (self.host.sysfs / name).write_text(str(value), encoding="ascii")

    def __str__(self) -> str:
        return (f"host{self.host.number}: chosen {self.chosen}, effective {self.effective}, "
                f"longest change {self.longest:.2f} s")


def verified_loads(loads: ExitStack, hosts: list[Host], **options) -> list[Load]:
    """Starts a load on each disk of some hosts. A load runs until it is stopped, and verifies the
    data that it reads. The loads are bound to CPUs in turn."""
    return [loads.enter_context(load_on(lun.sd, **VERIFIED | options, cpus_allowed=cpu))
            for host in hosts
            for cpu, lun in ((number % os.cpu_count(), lun)
                             for number, lun in enumerate(host.luns()))]


def switch_all(switchers: list[Switcher], count: int, betweens=None) -> None:
    """Changes the policy of each host @count times, on all hosts at the same time."""
    betweens = betweens or [lambda rng: None] * len(switchers)
    with ThreadPoolExecutor(len(switchers)) as pool:
        runs = [pool.submit(switcher.run, count, between)
                for switcher, between in zip(switchers, betweens, strict=True)]
        for switcher, run in zip(switchers, runs, strict=True):
            run.result()
            print(switcher)


def never_offline(host: Host) -> None:
    """Keeps sd from taking disks offline when their commands time out again and again, as they do
    in these tests."""
    for lun in host.luns():
        for limit in lun.sysfs.glob("scsi_disk/*/max_medium_access_timeouts"):
            limit.write_text("100000", encoding="ascii")


def check_counters(host: Host) -> dict[str, int]:
    """Checks a host whose load has ended: no command is held or lost, and each is counted once.
    Returns the counters."""
    stats = settle(host, 30)
    wait_for("queued and done to agree",
             lambda: host.stats()["queued"] == host.stats()["done"])
    assert stats["held"] == 0 == stats["host_resets"], stats
    for row in host.hwqs():
        assert row["queued"] == row["done"] and row["inflight"] == 0, row
        assert row["refused"] == row["foreign"] == 0, row
    for row in debugfs.luns(host):
        assert row["inflight"] == row["waiting"] == 0, row
    # Return to the state before the first change.
    (host.sysfs / "smq/policy").write_text("direct", encoding="ascii")
    assert debugfs.state(host)["raised"] == 0
    return stats
