# SPDX-License-Identifier: GPL-2.0
"""Instructions per command on each path after each state of a device, compared with those on the
fresh device."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .counts import Cells
from .figures import PATHS
from .groups import MEMORY, group
from .plan import Workload
from .profile import Profile
from .symbols import Function
from .matrix import table

FRESH = "fresh"
# In the order in which the guest brings the device into them.
STATES = {
    FRESH: "the fresh device",
    "pause": "3 s without a command",
    "unit_attention": "a unit attention on each path",
    "device_reset": "a device reset for each path",
    "host_reset": "a host reset for each path",
    "elevator": "mq-deadline and back to none",
    "queue_depth": "queue_depth 4 and back",
    "nr_requests": "nr_requests 8 and back",
    "frozen": "all processes frozen (pm_test=freezer)",
    "tags": "reads of the disk used all tags",
    "other_lun": "another LUN came, was read and went",
    "claim": "smq_conv claimed the disk and released it",
}
SHORT = {"smq": "prepared", "smq_batch": "batch of 16", "smq_adhoc": "ad hoc",
         "smq_sg_io": "SG_IO", "smq_write_read": "write, read"}
WORKLOADS = [Workload(path, "read", 512, *((32, 16) if path in ("smq", "smq_batch", "smq_adhoc")
                                           else (1, 1))) for path in SHORT]
COUNTS = 1500, 4500     # commands of the two runs that are subtracted
# Commands before the two runs, on the fresh device and after each state: the first command of each
# tag and of each CPU is dearer.
WARMUP = 500
SIZE_MB = 4
FRESH_REPEATS = 2
# By how many instructions and calls of the allocator a count may differ from that on the fresh
# device.
BAR, ALLOCATIONS_BAR = 10, 0.1
ALLOCATORS = re.compile(r"_*kmem_cache_alloc.*|_*kmalloc.*|mempool_alloc.*")
SHOWN = 6               # functions that a message about a difference names


def lines(states: Sequence[str]) -> Iterator[str]:
    """The plan for guest/states."""
    yield f"size {SIZE_MB}"
    yield "row scsi_debug"
    for workload in WORKLOADS:
        name, nodes, _, *words = workload.program(COUNTS, WARMUP, False)
        yield (f"path {workload.key} {len(COUNTS)} {name} {nodes} " + " ".join(words) +
               " --timeout 86400 --again")
    for state in states:
        for repeat in range(1, _repeats(state) + 1):
            yield f"state {state} {repeat}"


def runs(states: Iterable[str]) -> int:
    """The number of runs of all paths."""
    return len(COUNTS) * len(WORKLOADS) * sum(map(_repeats, states))


def _repeats(state: str) -> int:
    return FRESH_REPEATS if state == FRESH else 1


@dataclass(frozen=True)
class Count:
    """What one command costs on a path."""

    insns: float            # outside the allocator
    allocations: float      # calls of the allocator
    by_function: Mapping[Function, float]

    @classmethod
    def of(cls, profile: Profile) -> "Count":
        """How many instructions the allocator takes depends on where the free objects happen to be.
        So its calls are counted instead."""
        insns = {function: value for function, value in profile.insns.items()
                 if group(function) != MEMORY}
        return cls(sum(insns.values()), sum(
            value for function, value in profile.calls.items()
            if ALLOCATORS.fullmatch(function.name)), insns)

    def against(self, fresh: "Count") -> str:
        """Why this is not the cost on the fresh device; empty if it is."""
        if abs(self.insns - fresh.insns) > BAR:
            return (f"{self.insns:.0f} instructions, {fresh.insns:.0f} on the fresh device: " +
                    self._functions(fresh))
        if abs(self.allocations - fresh.allocations) > ALLOCATIONS_BAR:
            return (f"{self.allocations:.2f} allocations, {fresh.allocations:.2f} on the fresh "
                    "device")
        return ""

    def _functions(self, fresh: "Count") -> str:
        mine, theirs = self.by_function, fresh.by_function
        by = sorted(((mine.get(name, 0) - theirs.get(name, 0), str(name))
                     for name in mine.keys() | theirs.keys()), key=lambda item: -abs(item[0]))
        return ", ".join(f"{name} {value:+.0f}" for value, name in by[:SHOWN])


Counts = dict[tuple[str, str], list[Count]]     # by state and workload


def counts_of(cells: Cells) -> Counts:
    """The counts of each repeat."""
    return {key: [Count.of(profile) for profile in cell.profiles] for key, cell in cells.items()}


def text(taken: Counts, skipped: Mapping[str, str]) -> list[str]:
    """A table of states by paths: instructions on the fresh device, then differences from it."""
    rows = []
    for state in STATES:
        if any(name == state for name, _ in taken):
            rows.append([STATES[state], *(_text(taken, state, workload.key)
                                          for workload in WORKLOADS)])
        elif state in skipped:
            rows.append([STATES[state], "skipped", *[""] * (len(WORKLOADS) - 1)])
    return table(["after", *(SHORT[workload.path] for workload in WORKLOADS)], rows)


def _text(taken: Counts, state: str, key: str) -> str:
    values = [count.insns for count in taken.get((state, key), [])]
    if not values or state == FRESH:
        return f"{values[0]:.0f}" if values else ""
    return f"{values[0] - taken[FRESH, key][0].insns:+.1f}"


def differences(taken: Counts) -> Iterator[str]:
    """A message for each count that is not that on the fresh device, and for each path that was not
    counted."""
    for state in dict.fromkeys(state for state, _ in taken):
        for workload in WORKLOADS:
            fresh, found = (taken.get((name, workload.key), [])
                            for name in (FRESH, state))
            why = [found[-1].against(fresh[0])] if found and fresh else ["not counted"]
            yield from (f"after {STATES[state]}: {PATHS[workload.path]}: {one}"
                        for one in why if one)
