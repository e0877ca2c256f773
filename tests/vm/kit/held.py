# SPDX-License-Identifier: GPL-2.0
"""Held slots of smq_sg: slots that keep their request from one run to the next."""
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from . import smqsg
from .host import Lun, load, unload
from .slots import HELD, URING_RUN, SlotFile, run_of
from .slowdisk import opened
from .uring import Ring

# Ways to run slots: each by an SQE of its own, all by one SQE, all by one ioctl.
WAYS = ("alone", "batch", "ioctl")


def held_requests(path: str) -> int:
    """The number of requests that a node's files keep for slots that are not running now."""
    return smqsg.attr(path, "held")


def without_elevator(*luns: Lun) -> None:
    """Sets the elevator "none" for these LUNs' disks: with an elevator no request is held."""
    for lun in luns:
        (lun.queue / "scheduler").write_text("none", encoding="ascii")


@contextmanager
def node_share(path: str, percent: int) -> Iterator[None]:
    """Sets a node's held_share during the block. Restores it unless the node has been removed."""
    knob = smqsg.CLASS / path.rpartition("/")[2] / "held_share"
    before = knob.read_text(encoding="ascii")
    knob.write_text(str(percent), encoding="ascii")
    try:
        yield
    finally:
        if knob.exists():
            knob.write_text(before, encoding="ascii")


@contextmanager
def holding(path: str, slots: int) -> Iterator[SlotFile]:
    """Yields a file of held slots, which may keep as many requests as the node allows. Call
    hold_first() to make slots keep requests."""
    with opened(path, slots, HELD, held_share=100) as file:
        yield file


def hold_first(file: SlotFile, slots: int) -> None:
    """Runs slots 0 to @slots - 1 twice, so that the second run uses held requests."""
    for _ in range(2):
        assert file.run(range(slots)) == (0, 0)
        assert held_requests(file.path) == slots


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


@contextmanager
def quiescer() -> Iterator[None]:
    """Loads the test module smq_quiesce during the block. When the module is unloaded, it ends all
    states that set_state() has begun."""
    load("smq_quiesce")
    try:
        yield
    finally:
        unload("smq_quiesce")


def set_state(state: str, address: str) -> None:
    """Makes smq_quiesce put a device into a state; an empty address ends the state."""
    with open(f"/sys/module/smq_quiesce/parameters/{state}", "w", encoding="ascii") as knob:
        knob.write(address + "\n")
