# SPDX-License-Identifier: GPL-2.0
"""Runs in the guest: compares how prio and direct handle sync writes during many async writes."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from smqbench import timing
from wallclock.devices import wait_for, write

from .notes import Notes, program
from .ram import Host, host

MB = 10 ** 6
DEPTH = 4
SERVICE_NS = 1000000
TEN, HUNDRED = 10 * MB, 100 * MB
# The rounds of a case, by name. "again" repeats "direct": their difference is chance. The rounds
# run in turn, so that other work of the machine affects all three.
ROUNDS = ("direct", "again", "prio")
RATIOS = (1, 2, 4, 8, 16)
# Sizes of writes. LARGE needs merges, because the kernel may make a bio for each page.
BLOCK, LARGE = 4096, 65536
# How long the async writes run before the sync writes begin, if prio has no rate. By then prio is
# effective: a look sees the full device after 5.2 s at most.
LOOK_MS = 5500
# The size of a write that needs about a second at 1 MB/s, and how long it has waited, in ms, when
# the sync writes begin.
TRAP_BYTES, TRAP_MS = 999424, 900
# Percent of memory: if more is dirty, the kernel throttles writers, before a policy sees their
# writes.
DIRTY = 90
PERCENTILES = {"lat_p50": 50, "lat_p99": 99, "lat_p999": 99.9}
Said = TypeVar("Said")
Seen = TypeVar("Seen")


def sample_during(run: Callable[[], Said], after: float,
                  sample: Callable[[], Seen]) -> tuple[Said, Seen]:
    """Runs a program, and calls sample() @after seconds later, while the program still runs.
    Returns the results of both."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        time.sleep(after)
        seen = sample()
        return running.result(), seen


class Case:
    """A workload, which runs with each policy in turn, and the host that it uses."""

    def __init__(self, notes: Notes, device: Host, nodes: list[str], name: str):
        self.notes, self.device, self.nodes, self.name = notes, device, nodes, name

    def run(self, word: str, *options: object, sample: Callable[[], Any] | None = None,
            after: float = 0.8, **knobs: int) -> tuple[dict[str, Any], Any]:
        """Runs one round. @knobs are settings of prio."""
        policy = "direct" if word in ("direct", "again") else "prio"
        self.device.choose(policy, **(knobs if policy == "prio" else {}))
        if policy == "prio" and knobs["bytes_per_sec"]:
            wait_for("an effective policy", lambda: self.device.effective() == "prio")
        found = sample_during(lambda: program("dirty", *options, *self.nodes), after,
                              sample or self.device.advertised)
        self.device.settle()
        self.device.choose("direct")
        return found

    def value(self, word: str, metric: str, value: float, said: dict[str, Any],
              **workload: Any) -> None:
        """Adds a figure. Its parameters say whether the program read back what it wrote."""
        workload = {"path": "fsync", "op": "write", "bs": BLOCK, "qd": 1, "batch": 1, "luns": 1,
                    "jobs": 1} | workload
        self.notes.value(f"{self.name}_{word}", metric, value, **workload,
                         parameters={"verified": said["verified"],
                                     "advertised": said.get("advertised", 0)})

    def latencies(self, word: str, said: dict[str, Any], **workload: Any) -> None:
        """Adds the latencies of the sync writes."""
        for metric, percent in PERCENTILES.items():
            self.value(word, metric, timing.percentile(said["sync_ms"], percent), said, **workload)


def full(notes: Notes, repeats: int, quick: bool) -> None:
    """Measures sync writes during async writes, and the effect of the ratio, on a device with a
    depth of four whose commands take 1 ms."""
    with host("full", 64, hw_queues=1) as device:
        device.model(service_ns=SERVICE_NS)
        write(device.device / "queue_depth", DEPTH)
        nodes = device.partitions(40, 8)
        case = Case(notes, device, nodes, "prio_full")
        for _, word in timing.turns(ROUNDS, repeats):
            said, said["advertised"] = case.run(
                word, "--writers", 64, "--burst", 2, "--syncs", 100000, "--every", 5000,
                "--after", LOOK_MS, "--seconds", 2 if quick else 5, ratio=4, bytes_per_sec=0)
            case.latencies(word, said, jobs=65)
            case.value(word, "iops", 1000 * (said["async_ops"] + len(said["sync_ms"])) /
                       said["window_ms"], said, jobs=65)
        ratios(Case(notes, device, nodes, "prio_ratio"), 1 if quick else repeats, quick)


def ratios(case: Case, repeats: int, quick: bool) -> None:
    """Measures sync and async writers. Each kind has more commands than the device takes."""
    for _, word in timing.turns(("direct", *map(str, RATIOS)), repeats):
        said, said["advertised"] = case.run(
            word, "--writers", 64, "--syncers", 64, "--direct", "--syncs", 100000, "--after",
            LOOK_MS, "--seconds", 2 if quick else 4,
            ratio=int(word) if word.isdigit() else 4, bytes_per_sec=0)
        seconds = said["window_ms"] / 1000
        case.latencies(word, said, path="direct", jobs=128)
        case.value(word, "iops", len(said["sync_ms"]) / seconds, said, path="direct", jobs=128)
        case.value(word, "iops", said["async_ops"] / seconds, said, path="page_cache", jobs=128)


def rate(notes: Notes, repeats: int, quick: bool) -> None:
    """Measures how long it takes at 10 MB/s to save a file while many writes wait."""
    with host("rate", 224, hw_queues=1, depth=2048) as device:
        device.model(bytes_per_sec=TEN)
        device.set_queue(nomerges=0, max_sectors_kb=LARGE // 1024)
        # The policy advertises 256 more. Further writes wait in blk-mq.
        write(device.device / "queue_depth", 1536)
        case = Case(notes, device, device.partitions(200, 8), "prio_rate")
        for _, word in timing.turns(ROUNDS, 1 if quick else repeats):
            said, (waiting, said["advertised"]) = case.run(
                word, "--writers", 1300, "--bs", LARGE, "--after", 2000, "--syncs",
                1 if quick else 2, ratio=4, bytes_per_sec=TEN, after=1.9,
                sample=lambda: (most_queued(device), device.advertised()))
            case.latencies(word, said, jobs=1301)
            case.value(word, "queued", waiting, said, jobs=1301, path="page_cache", bs=LARGE)


def most_queued(device: Host) -> int:
    """Waits until commands are queued. Returns the largest number of them seen in a second."""
    wait_for("commands", lambda: queued(device))
    most = 0
    for _ in range(10):
        time.sleep(0.1)
        most = max(most, queued(device))
    return most


def queued(device: Host) -> int:
    """Returns how many commands have a tag: held commands and those that the device has."""
    debugfs = Path("/sys/kernel/debug/block", device.queue.parent.name)
    return sum(int(line.partition("=")[2]) for path in debugfs.glob("hctx*/tags")
               for line in path.read_text(encoding="ascii").splitlines()
               if line.startswith("busy="))


def crowd(notes: Notes, repeats: int, quick: bool) -> None:
    """As rate(), but with four times as many async writers as the host advertises commands. Most
    writers wait for a tag, so the policy does not see their commands yet."""
    with host("crowd", 64, hw_queues=1, depth=64) as device:
        device.model(bytes_per_sec=TEN)
        device.set_queue(nomerges=0, max_sectors_kb=LARGE // 1024)
        write(device.device / "queue_depth", 32)
        case = Case(notes, device, device.partitions(52, 8), "prio_crowd")
        # prio advertises the device's depth and the host's extra commands.
        writers = 4 * (32 + 64)
        for _, word in timing.turns(ROUNDS, 1 if quick else repeats):
            said, said["advertised"] = case.run(
                word, "--writers", writers, "--bs", LARGE, "--after", 2000, "--syncs",
                4 if quick else 12, "--seconds", 10, ratio=4, bytes_per_sec=TEN, after=1.9)
            case.latencies(word, said, jobs=writers + 1)


def trap(notes: Notes, repeats: int, _quick: bool) -> None:
    """Measures a large async write at 1 MB/s that has waited for most of a second when sync writes
    begin."""
    with host("trap", 32, hw_queues=1) as device:
        device.set_queue(nomerges=0, max_sectors_kb=1024)
        case = Case(notes, device, device.partitions(16, 8), "prio_trap")
        for _, word in timing.turns(ROUNDS, repeats):
            device.model(bytes_per_sec=0 if word == "prio" else MB)
            said, said["advertised"] = case.run(
                word, "--writers", 1, "--bs", TRAP_BYTES, "--rounds", 1, "--syncers", 4,
                "--syncs", 1, "--after", TRAP_MS, "--first", TRAP_BYTES, ratio=4, bytes_per_sec=MB,
                after=0.5)
            case.value(word, "seconds", said["ms"] / 1000, said, path="page_cache",
                       bs=TRAP_BYTES, jobs=5)


def load(notes: Notes, repeats: int, quick: bool) -> None:
    """Measures how much of a rate of 100 MB/s async and sync writers use together."""
    with host("load", 192, hw_queues=1) as device:
        write(device.device / "queue_depth", 32)
        device.set_queue(nomerges=0, max_sectors_kb=LARGE // 1024)
        case = Case(notes, device, device.partitions(170, 8), "prio_load")
        for _, word in timing.turns(ROUNDS, 1 if quick else repeats):
            device.model(bytes_per_sec=0 if word == "prio" else HUNDRED, service_ns=100000)
            said, used = case.run(
                word, "--writers", 32, "--bs", LARGE, "--burst", 8, "--syncers", 4, "--syncs",
                100000, "--seconds", 3 if quick else 5, ratio=4, bytes_per_sec=HUNDRED, after=2,
                sample=lambda: megabytes_a_second(device, 1.5 if quick else 3))
            case.value(word, "mb_s", used, said, path="page_cache", bs=LARGE, jobs=36)
            case.latencies(word, said, jobs=36)


def megabytes_a_second(device: Host, seconds: float) -> float:
    """Returns the rate of writes, in MB/s."""
    def sectors() -> int:
        return int((device.queue.parent / "stat").read_text(encoding="ascii").split()[6])
    began, before = time.monotonic(), sectors()
    time.sleep(seconds)
    return 512 * (sectors() - before) / (time.monotonic() - began) / MB


def unthrottled() -> None:
    """Lets the page cache have more dirty pages than any case has, and runs the program once, so
    that the guest has read it from the host: under icount the guest's clock leaps while the guest
    waits for the host."""
    for name in ("dirty_ratio", "dirty_background_ratio"):
        with open(f"/proc/sys/vm/{name}", "w", encoding="ascii") as file:
            file.write(str(DIRTY))
    program("dirty", "--writers", 0, "--after", 0, "--syncs", 1, "/dev/zero", "/dev/zero", ok=False)


def measure(notes: Notes, repeats: int, quick: bool) -> None:
    """Measures all cases."""
    unthrottled()
    for case in (full, trap, load, crowd, rate):
        case(notes, repeats, quick)
