# SPDX-License-Identifier: GPL-2.0
"""Locks taken per I/O, from the locks plugin: by lock, by the function that takes it, and how
many were not free.

A lock has no name in the running kernel, but it has an address: functions that take a lock at the
same address take the same lock. If there are as many locks of one kind as LUNs, each belongs to a
LUN.
"""

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from .errors import BenchError
from .groups import group
from .guestlog import GuestLog, Run
from .symbols import Function, Symbols, symbols_of
from .tally import Key, Tally

# Arguments of the plugin: functions that take a lock, and those that run if the lock is not free.
LOCKING = [
    "lock=_raw_spin_lock*", "lock=_raw_spin_trylock*", "lock=_raw_read_lock*",
    "lock=_raw_read_trylock*", "lock=_raw_write_lock*", "lock=_raw_write_trylock*",
    "lock=mutex_lock*", "lock=mutex_trylock*", "lock=down_read*", "lock=down_write*",
    "slow=*queued_spin_lock_slowpath", "slow=queued_read_lock_slowpath",
    "slow=queued_write_lock_slowpath", "slow=__mutex_lock*", "slow=rwsem_down_*_slowpath",
]
# Functions whose instructions take a lock, wait for it or release it.
LOCK_CODE = re.compile(r"_raw_(spin|read|write)_.*|.*queued_(spin|read|write)_.*|_*mutex_.*|"
                       r"rwsem_.*|osq_.*|(up|down)_(read|write).*")
WAITING = re.compile(r".*queued_\w+_slowpath|__mutex_lock.*|rwsem_down_.*|osq_lock|"
                     r"mutex_spin_.*|rwsem_spin_.*")
# Names of locks: a lock gets the first name here whose pattern matches a function that takes it.
QUEUE_LOCK, HOST_LOCK = "legacy queue_lock (model)", "legacy host_lock (model)"
REAL_QUEUE_LOCK = "queue_lock"
KNOWN = [
    # In kernels up to 4.20 these functions take queue_lock and no other lock.
    (REAL_QUEUE_LOCK, re.compile(r"blk_queue_bio|blk_flush_plug_list|queue_unplugged|"
                                 r"(__)?blk_run_queue|blk_old_get_request|blk_put_request")),
    (QUEUE_LOCK, re.compile(r"legacy_(run_queue|request_fn|end_request|insert_bio|flush_plug)")),
    (HOST_LOCK, re.compile(r"legacy_(host_ready|starved|qcmd_wrapper)\w*")),
    ("legacy list_lock (model)", re.compile(r"legacy_get_command")),
    ("legacy free_list_lock (model)", re.compile(r"legacy_put_command")),
    ("io_uring's locks", re.compile(r"(__)?io_.*|tctx_.*")),
]
RARE = 0.02  # a lock is not named after a function that makes a smaller share of its acquisitions
SMALL = 0.002  # acquisitions per I/O: what is rarer is left out
# Acquisitions per I/O. With fewer the plugin has missed locks: io_uring alone takes five for each
# batch of 16.
LEAST_PER_IO = 0.2


# The taking function, its caller, the lock's address, and whether it is in an interrupt.
_Taking = tuple[Function, Function, int, bool]


@dataclass
class Locks:
    """The locks of one run, or of several, per I/O."""

    taken: Tally[_Taking] = field(default_factory=Tally)
    contended: Tally[_Taking] = field(default_factory=Tally)
    insns: Tally[Function] = field(default_factory=Tally)
    slips: float = 0.0      # how often the two vCPUs ran apart

    def combine(self, other: "Locks", sign: int) -> "Locks":
        """Returns the sum of both if @sign is 1, the difference if it is -1."""
        result = Locks()
        for name in ("taken", "contended", "insns"):
            mine, theirs = getattr(self, name), getattr(other, name)
            setattr(result, name, Tally({key: mine[key] + sign * theirs[key]
                                         for key in mine.keys() | theirs.keys()}))
        result.slips = self.slips + sign * other.slips
        return result

    def divided(self, by: int) -> "Locks":
        """The counts divided by a number of I/Os."""
        return Locks(_divided(self.taken, by), _divided(self.contended, by),
                     _divided(self.insns, by), self.slips / by)

    def with_interrupts(self) -> "Locks":
        """Returns a copy that counts locks taken in interrupts like the others: a command that
        completes in an interrupt takes its locks there."""
        result = Locks(insns=self.insns, slips=self.slips)
        for mine, all_of_it in ((self.taken, result.taken), (self.contended, result.contended)):
            for (entry, caller, address, _), value in mine.items():
                all_of_it[entry, caller, address, False] += value
        return result

    def total(self) -> float:
        """Acquisitions without those in interrupts, because timers tick in real time."""
        return sum(value for (_, _, _, irq), value in self.taken.items() if not irq)

    def waits(self) -> float:
        """Acquisitions that found the lock taken, without those in interrupts."""
        return sum(value for (_, _, _, irq), value in self.contended.items() if not irq)

    def contended_share(self, name: str | None = None) -> float:
        """The share of acquisitions that found the lock taken, in per cent, of one lock or all."""
        names = self.names()
        taken = sum(value for key, value in self.taken.items()
                    if not key[3] and name in (None, names[key[2]]))
        found = sum(value for key, value in self.contended.items()
                    if not key[3] and name in (None, names[key[2]]))
        return 100 * found / taken if taken else 0.0

    def insn_share(self, pattern: re.Pattern[str]) -> float:
        """The share of instructions, in per cent, in functions whose name matches."""
        total = sum(self.insns.values())
        found = sum(value for function, value in self.insns.items()
                    if not function.module and pattern.fullmatch(function.name))
        return 100 * found / total if total else 0.0

    def names(self) -> dict[int, str]:
        """The name of the lock at each address."""
        callers: dict[int, Tally[str]] = {}
        for (_, caller, address, _), value in self.taken.items():
            callers.setdefault(address, Tally())[caller.name] += value
        return {address: _name(found) for address, found in callers.items()}

    def by_lock(self, contended: bool = False) -> dict[str, float]:
        """Acquisitions by lock, the most frequent first."""
        names = self.names()
        result: Tally[str] = Tally()
        for key, value in (self.contended if contended else self.taken).items():
            if not key[3]:
                result[names[key[2]]] += value
        return {name: round(value, 4) for name, value in result.most_common() if value >= SMALL}

    def by_site(self) -> dict[str, float]:
        """Acquisitions by the function that takes the lock and the lock function that it calls."""
        result: Tally[str] = Tally()
        for (entry, caller, _, irq), value in self.taken.items():
            if not irq:
                result[f"{caller}: {entry.name.removeprefix('_raw_')}"] += value
        return {name: round(value, 4) for name, value in result.most_common() if value >= SMALL}

    def by_group(self) -> dict[str, float]:
        """Acquisitions by the group of the function that takes the lock."""
        result: Tally[str] = Tally()
        for (_, caller, _, irq), value in self.taken.items():
            if not irq:
                result[group(caller)] += value
        return {name: round(value, 4) for name, value in result.most_common() if value >= SMALL}

    def instances(self) -> dict[str, int]:
        """How many locks of each name there are, without those that are hardly ever taken."""
        names = self.names()
        found: Tally[int] = Tally()
        for (_, _, address, irq), value in self.taken.items():
            if not irq:
                found[address] += value
        return dict(Counter(names[address] for address, value in found.items() if value >= SMALL))


def _divided(amounts: Tally[Key], by: int) -> Tally[Key]:
    return Tally({key: value / by for key, value in amounts.items()})


def _name(callers: Tally[str]) -> str:
    for name, pattern in KNOWN:
        if any(pattern.fullmatch(caller) for caller in callers):
            return name
    # A lock is not named after a function that rarely takes it.
    least = RARE * sum(callers.values())
    found = sorted((caller for caller in callers if callers[caller] >= least),
                   key=lambda caller: (-round(callers[caller], 2), caller))
    return "of " + ", ".join(found[:2]) + (" ..." if len(found) > 2 else "")


def read(run: Run, folder: Path, symbols: Symbols) -> Locks:
    """Reads one run."""
    if run.figures["overflow"]:
        raise BenchError(f"{run.row} {run.workload}: the locks plugin ran out of room")
    result = Locks(slips=run.figures["slips"])
    path = folder / f"hist.{run.number}"
    try:
        for line in path.read_text(encoding="ascii").splitlines():
            kind, *words = line.split()
            if kind == "block":
                size, runs = int(words[1]), int(words[2])
                result.insns[symbols.function(int(words[0], 16))] += size * runs
            elif kind == "lock":
                _add(result, symbols, words)
            else:
                raise ValueError(f"unknown record {kind}")
    except (OSError, ValueError, IndexError) as error:
        raise BenchError(f"{path.name}: {error}") from error
    return result


def _add(locks: Locks, symbols: Symbols, words: list[str]) -> None:
    entry, caller, address = (int(word, 16) for word in words[:3])
    count, contended, irq = (int(word) for word in words[3:])
    if contended > count or irq > count:
        raise ValueError(f"{contended} of {count} contended, {irq} in interrupts")
    key = symbols.function(entry), symbols.function(caller), address
    locks.taken[(*key, True)] += irq
    locks.taken[(*key, False)] += count - irq
    # The plugin does not report which contended acquisitions were in interrupts. Assume that as few
    # as possible were.
    outside = min(contended, count - irq)
    locks.contended[(*key, False)] += outside
    locks.contended[(*key, True)] += contended - outside


def cells(log: GuestLog, folder: Path) -> dict[tuple[str, str], list[Locks]]:
    """Locks of each repeat, by row and workload. If there are runs of N and 3N I/Os, takes their
    difference."""
    read_runs: dict[tuple[str, str, int], list[tuple[Run, Locks]]] = {}
    for run in log.runs:
        read_runs.setdefault((run.row, run.workload, run.repeat), []).append(
            (run, read(run, folder, symbols_of(folder, run))))
    result: dict[tuple[str, str], list[Locks]] = {}
    for (row, workload, _), found in read_runs.items():
        if len(found) == 1:
            (run, locks), = found
            per_io = locks.divided(run.ios)
        elif len(found) == 2:
            (small, fewer), (large, more) = found
            per_io = more.combine(fewer, -1).divided(large.ios - small.ios)
        else:
            raise BenchError(f"{row} {workload}: {len(found)} runs of one workload")
        result.setdefault((row, workload), []).append(per_io)
    return result


def check(found: dict[tuple[str, str], list[Locks]]) -> None:
    """Raises BenchError if hardly any locks were counted: io_uring and sg take locks in every
    kernel."""
    for (row, workload), repeats in found.items():
        if min(locks.total() for locks in repeats) < LEAST_PER_IO:
            raise BenchError(f"{row} {workload}: hardly any locks were counted")
