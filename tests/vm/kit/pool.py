# SPDX-License-Identifier: GPL-2.0
"""Idle requests of smq_sg: a file's pools of commands keep the requests of commands that have
ended, for the next commands of the same CPU."""
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from . import smqsg
from .host import Lun, wait_for
from .slots import URING_RUN, SlotFile, run_of
from .slowdisk import opened
from .uring import Ring

# Ways to run slots: each by an SQE of its own, all by one SQE, all by one ioctl.
WAYS = ("alone", "batch", "ioctl")
# A batch of at most this many commands has its own commands, and uses all of them at a time.
SHORT = 32


def idle_requests(path: str) -> int:
    """The number of requests that the commands in a node's pools keep."""
    return smqsg.attr(path, "pool")


def wait_own_queue(path: str) -> None:
    """Waits until a node has the queue whose requests are kept. If the first try to create it took
    too long, it is created later."""
    wait_for("an own queue", lambda: smqsg.attr(path, "own_queue_exists"))


def most_idle(tags: int) -> int:
    """How many of the @tags of a hardware queue all nodes of a host may keep."""
    return tags - -(-tags // 8)


def without_elevator(*luns: Lun) -> None:
    """Sets the elevator "none" for these LUNs' disks."""
    for lun in luns:
        (lun.queue / "scheduler").write_text("none", encoding="ascii")


@contextmanager
def on_cpus(cpus: set[int]) -> Iterator[None]:
    """During the block this process, and the processes that it starts, run on these CPUs only. Each
    CPU has its own pools: tests that count idle requests run on one CPU."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def pool_share(path: str, percent: int) -> Iterator[None]:
    """Sets a node's pool_share during the block. Restores it unless the node has been removed."""
    knob = smqsg.CLASS / path.rpartition("/")[2] / "pool_share"
    before = knob.read_text(encoding="ascii")
    knob.write_text(str(percent), encoding="ascii")
    try:
        yield
    finally:
        if knob.exists():
            knob.write_text(before, encoding="ascii")


def fill_pool(file: SlotFile, slots: int) -> None:
    """Runs slots 0 to @slots - 1 twice as a batch, the second time with idle requests. Run it on
    one CPU."""
    assert slots <= SHORT
    wait_own_queue(file.path)
    for _ in range(2):
        assert file.run(range(slots)) == (0, 0)
        # Commands that ran before, alone or on another CPU, may have left more.
        assert idle_requests(file.path) >= slots


@contextmanager
def filled(path: str, slots: int) -> Iterator[SlotFile]:
    """Yields a file that keeps a request for each of its slots."""
    with opened(path, slots) as file:
        fill_pool(file, slots)
        yield file


def run_slots(file: SlotFile, ring: Ring, way: str, runs: Sequence[bytes | int]) -> None:
    """Runs slots in one of WAYS, and checks that all end with GOOD. @runs are slot numbers or
    results of run_of()."""
    elements = [run_of(run) if isinstance(run, int) else run for run in runs]
    if way == "ioctl":
        assert file.run(elements) == (0, 0)
    elif way == "batch":
        file.push_batch(ring, elements, 7)
        ring.submit()
        assert ring.wait(1) == [(7, 0)]
    else:
        for number, element in enumerate(elements):
            ring.push(file.fd, URING_RUN, element, number)
        ring.submit()
        assert sorted(ring.wait(len(elements))) == [(n, 0) for n in range(len(elements))]
