# SPDX-License-Identifier: GPL-2.0
"""Runs in the guest: compares prio, without any setting, with direct and with the elevators and the
kernel's writeback throttling, on devices that take 128 commands and are never full."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from smqbench import timing
from wallclock import devices
from wallclock.devices import wait_for, write

from .notes import Notes, program
from .place import CONV, PIECE, foreign
from .prio import BLOCK, PERCENTILES, TEN, megabytes_a_second, sample_during, unthrottled
from .ram import Host, host

# How each round sets up the queue; what is not named is as ram.host() has set it.
ROUNDS: dict[str, dict[str, object]] = {
    "direct": {}, "again": {}, "prio": {}, "prio_wbt": {"wbt_lat_usec": 75000},
    "wbt": {"wbt_lat_usec": 75000},
    "deadline": {"scheduler": "mq-deadline"}, "kyber": {"scheduler": "kyber"},
    "bfq": {"scheduler": "bfq"}}
WORDS = tuple(word for word in ROUNDS if word != "prio_wbt")
DEPTH = 128
# A write of the page cache: as large as a request may be.
LARGE = PIECE << 10
WRITERS, BURST = 16, 4
# The device with lanes: so many commands at once, each of which takes so long, in ns.
LANES, LANE_NS = 64, 10000000
READS = {"path": "io_uring", "op": "read", "bs": BLOCK, "qd": LANES, "batch": 1, "luns": 1,
         "jobs": 1}
# How many reads a round begins with, in which the depth is learned.
LEARN = 20000


def set_up(device: Host, word: str) -> None:
    """Prepares a round."""
    device.set_queue(**{"scheduler": "none", "wbt_lat_usec": 0} | ROUNDS[word])
    device.choose(word.partition("_")[0] if word.startswith("prio") else "direct")


def sync_beside_async(notes: Notes, device: Host, name: str, words: Sequence[str], repeats: int,
                      quick: bool) -> None:
    """Measures sync writes during async ones."""
    device.set_queue(nomerges=0, max_sectors_kb=LARGE >> 10)
    nodes = device.partitions(200, 8)
    for _, word in timing.turns(words, 1 if quick else repeats):
        set_up(device, word)
        said, used = sample_during(lambda: program(
            "dirty", "--writers", WRITERS, "--bs", LARGE, "--burst", BURST, "--after", 2000,
            "--syncs", 100000, "--every", 100000, "--seconds", 4 if quick else 10, *nodes), 2.5,
            lambda: megabytes_a_second(device, 2 if quick else 6))
        device.settle()
        workload = {"path": "fsync", "op": "write", "bs": BLOCK, "qd": 1, "batch": 1, "luns": 1,
                    "jobs": WRITERS + 1}
        seen = {"verified": said["verified"]}
        for metric, percent in PERCENTILES.items():
            notes.value(f"{name}_{word}", metric, timing.percentile(said["sync_ms"], percent),
                        **workload, parameters=seen)
        notes.value(f"{name}_{word}", "mb_s", used, **workload, parameters=seen)


def link(notes: Notes, repeats: int, quick: bool) -> None:
    """Measures a device of 10 MB/s."""
    with host("link", 224, hw_queues=1, depth=DEPTH) as device:
        device.model(bytes_per_sec=TEN)
        sync_beside_async(notes, device, "depth_link", WORDS, repeats, quick)


@contextmanager
def claimed(lower: Host) -> Iterator[Host]:
    """Yields the upper host of a disk that smq_conv has claimed."""
    address = os.path.basename(os.path.realpath(lower.device))
    write(CONV / "claim", address)
    try:
        sysfs = wait_for("the upper host", lambda: devices.hosts("smq_conv")).pop()
        upper = Host(lower.folder, sysfs, devices.scsi_disks(sysfs, 1)[0])
        wait_for(upper.disk, lambda: (upper.queue.parent / "bdi").exists())
        yield upper
        upper.choose("direct")
    finally:
        wait_for("release", lambda: _release(address))


def _release(address: str) -> bool:
    """Releases a disk, unless a program that examines it still has it open."""
    try:
        (CONV / "release").write_text(address, encoding="ascii")
    except OSError:
        return False
    return True


def conv(notes: Notes, repeats: int, quick: bool) -> None:
    """Measures the same device, claimed."""
    devices.modprobe("smq_conv")
    with host("conv", 224, hw_queues=1, depth=DEPTH) as device:
        device.model(bytes_per_sec=TEN)
        with claimed(device) as upper:
            sync_beside_async(notes, upper, "depth_conv", ("direct", "again", "prio", "wbt"),
                              repeats, quick)


def place(notes: Notes, repeats: int, quick: bool) -> None:
    """Measures a disk of another driver, over the same device."""
    with host("place", 224, hw_queues=1, depth=DEPTH) as device:
        device.model(bytes_per_sec=TEN)
        with foreign(device) as disk:
            sync_beside_async(notes, disk, "depth_place", WORDS, repeats, quick)


def lanes(notes: Notes, repeats: int, quick: bool) -> None:
    """Measures reads on a device that needs many commands."""
    with host("lanes", 32, hw_queues=1, depth=DEPTH) as device:
        device.model(service_ns=LANE_NS)
        for _, word in timing.turns(("direct", "again", "prio"), 1 if quick else repeats):
            set_up(device, word)
            said = program("uring", "--bs", BLOCK, "--depth", LANES, "--batch", 1, "--warmup",
                           LEARN, "--count", LEARN, device.disk)
            notes.value(f"depth_lanes_{word}", "iops", 1e9 * said["count"] / said["ns"], **READS,
                        parameters={"learned": int(device.lines("lun")[0]["learned"])})


def measure(notes: Notes, repeats: int, quick: bool) -> None:
    """Measures all cases."""
    unthrottled()
    for case in (link, conv, place, lanes):
        case(notes, repeats, quick)
