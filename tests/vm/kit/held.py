# SPDX-License-Identifier: GPL-2.0
"""Held slots of smq_sg: requests that are kept from one run to the next."""
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from . import smqsg
from .host import Lun, load, unload
from .slots import HELD, URING_RUN, SlotFile, run_of
from .slowdisk import opened
from .uring import Ring

# Ways to run slots.
WAYS = ("alone", "batch", "ioctl")


def held_requests(path: str) -> int:
    """Requests that a node's files keep for slots that do not run at this moment."""
    return smqsg.attr(path, "held")


def without_elevator(*luns: Lun) -> None:
    """Sets the elevator "none" for their disks: with an elevator no request is held."""
    for lun in luns:
        (lun.queue / "scheduler").write_text("none", encoding="ascii")


@contextmanager
def node_share(path: str, percent: int) -> Iterator[None]:
    """Sets a node's held_share for a while; a node that was removed is left alone."""
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
    """A file whose slots keep their requests, as many as the node lets it; see hold_first()."""
    with opened(path, slots, HELD, held_share=100) as file:
        yield file


def hold_first(file: SlotFile, slots: int) -> None:
    """Runs slots 0 to @slots - 1 twice, so that the second run uses held requests."""
    for _ in range(2):
        assert file.run(range(slots)) == (0, 0)
        assert held_requests(file.path) == slots


def go(file: SlotFile, ring: Ring, way: str, runs: Sequence[bytes | int]) -> None:
    """Runs slots, given by number or by run_of(), and checks that all end with GOOD."""
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
    """Loads the test module smq_quiesce during the block; it ends all states when it is
    unloaded."""
    load("smq_quiesce")
    try:
        yield
    finally:
        unload("smq_quiesce")


def set_state(state: str, address: str) -> None:
    """Puts a device into a state of that module; an empty address ends the state."""
    with open(f"/sys/module/smq_quiesce/parameters/{state}", "w", encoding="ascii") as knob:
        knob.write(address + "\n")
