# SPDX-License-Identifier: GPL-2.0
"""Prepared commands on several LUNs through one io_uring, in batches that are submitted again and
again.

A lane is a batch of slots of one LUN; to fire a lane is to submit its batch. Each LUN has lanes
that read blocks with known data, and one lane that writes other blocks. The tests check that each
fired lane ends once, that each of its slots has run once, and that reads return the known data.
Results of slots are counted by LUN.
"""
import time
from collections import Counter
from contextlib import ExitStack

from . import smqsg
from .host import Lun
from .memory import Memory
from .paths import SECONDS, read_by_sg
from .sgio import (DID_ERROR, DID_NO_CONNECT, DID_RESET, DID_TIME_OUT, DID_TRANSPORT_DISRUPTED,
                   SgDev)
from .slots import BLOCK, SlotFile, Status, read, write
from .uring import Ring

LANE, READING = 16, 4
BLOCKS = 8
SIZE = BLOCKS * BLOCK
LANE_SIZE = LANE * SIZE
KNOWN_SIZE = READING * LANE_SIZE
SLOTS = (READING + 1) * LANE
# The first block of the known data; behind the known data are the blocks that are written.
FIRST = 64
HOSTS = {DID_NO_CONNECT: "DID_NO_CONNECT", DID_TIME_OUT: "DID_TIME_OUT", DID_ERROR: "DID_ERROR",
         DID_RESET: "DID_RESET", DID_TRANSPORT_DISRUPTED: "DID_TRANSPORT_DISRUPTED"}
# Seconds before a failed batch is fired again: while a port is down every batch fails.
PAUSE = 0.1


def jain(counts: list[int]) -> float:
    """Jain's fairness index: 1 if all counts are the same, 1/n if only one of n is not 0."""
    return sum(counts) ** 2 / (len(counts) * sum(count * count for count in counts))


def outcome(status: Status) -> str:
    """The name of a slot's result."""
    if status.result <= 0:
        return f"errno {-status.result}" if status.result else "GOOD"
    host, scsi = status.result >> 8 & 0xff, status.result & 0xff
    if scsi == 2:
        return "CHECK {:x}/{:02x}/{:02x}".format(*status.triple)
    return HOSTS.get(host, f"host {host:#x}") if host else f"status {scsi:#x}"


class _OfLun:
    """A LUN's file, its memory, and the data that its reads must return."""

    def __init__(self, lun: Lun, known: bytes, timeout_ms: int):
        self.lun, self.known = lun, known
        self.file = SlotFile(smqsg.node(lun), SLOTS)
        self.memory = Memory(SLOTS * SIZE)
        assert self.file.lend(0, self.memory) == 0
        self.file.prepare([
            (read if slot < READING * LANE else write)(
                FIRST + slot * BLOCKS, BLOCKS, offset=slot * SIZE, timeout_ms=timeout_ms)
            for slot in range(SLOTS)])
        # How often each lane was fired, and how often each slot has run.
        self.fired = [0] * (READING + 1)
        self.runs = [0] * SLOTS
        # Each lane's slots, and its part of the memory.
        self.slots = [range(at * LANE, (at + 1) * LANE) for at in range(READING + 1)]
        self.area = [slice(at * LANE_SIZE, (at + 1) * LANE_SIZE) for at in range(READING + 1)]


class Lanes:
    """All lanes of all LUNs. @ends counts the results of slots, by LUN and by the result's name.
    With @timeout_ms=0 a slot has the default timeout, 60 s."""

    def __init__(self, luns: list[Lun], known: list[bytes], timeout_ms: int = 0):
        self._stack = ExitStack()
        self._ring = self._stack.enter_context(Ring(64))
        self._luns = [_OfLun(*pair, timeout_ms) for pair in zip(luns, known, strict=True)]
        for one in self._luns:
            self._stack.callback(one.file.close)
        self.ends: Counter = Counter()
        # Lanes in flight; and lanes that are fired again later: when, LUN, lane.
        self._in_flight: set[tuple[int, int]] = set()
        self._delayed: list[tuple[float, int, int]] = []

    def __enter__(self):
        return self

    def __exit__(self, *exc) -> None:
        self._stack.close()

    def _fire(self, lun: int, lane: int) -> None:
        one = self._luns[lun]
        assert (lun, lane) not in self._in_flight
        self._in_flight.add((lun, lane))
        one.fired[lane] += 1
        if lane == READING:
            for slot in one.slots[lane]:
                one.memory[slot * SIZE:slot * SIZE + 8] = one.fired[lane].to_bytes(8, "little")
        else:
            one.memory[one.area[lane]] = bytes(LANE_SIZE)
        one.file.push_batch(self._ring, one.slots[lane], lun * (READING + 1) + lane)

    def _ended(self, lun: int, lane: int, result: int) -> bool:
        """Checks a lane whose batch has ended. Returns whether all of its slots ended with GOOD."""
        one = self._luns[lun]
        assert (lun, lane) in self._in_flight, f"lane {lane} of LUN {lun} has ended twice"
        self._in_flight.remove((lun, lane))
        found = [one.file.status(slot) for slot in one.slots[lane]]
        assert result == sum(status.result != 0 for status in found), (result, found)
        for slot, status in zip(one.slots[lane], found, strict=True):
            # A command that was not sent does not count as a run.
            assert status.runs == one.runs[slot] + (status.result >= 0), (lun, slot, status)
            one.runs[slot] = status.runs
        self.ends.update((lun, outcome(status)) for status in found)
        if lane < READING:
            known = one.known[one.area[lane]]
            if not result:
                assert one.memory[one.area[lane]] == known, f"lane {lane} of LUN {lun}"
                return True
            for slot, status in zip(one.slots[lane], found, strict=True):
                part = slice(slot * SIZE, (slot + 1) * SIZE)
                assert status.result or one.memory[part] == one.known[part], (lun, slot)
        return not result

    def go(self, seconds: float, writing: bool = False) -> list[int]:
        """Fires all lanes again and again for @seconds. Returns the number of GOOD commands of each
        LUN in that time. Lanes in flight go on until stop()."""
        before, end = Counter(self.ends), time.monotonic() + seconds
        for lun in range(len(self._luns)):
            for lane in range(READING + writing):
                if (lun, lane) not in self._in_flight and not any(
                        entry[1:] == (lun, lane) for entry in self._delayed):
                    self._fire(lun, lane)
        self._ring.submit()
        while time.monotonic() < end:
            self._turn(writing)
        return [self.ends[lun, "GOOD"] - before[lun, "GOOD"] for lun in range(len(self._luns))]

    def _turn(self, writing: bool) -> None:
        now = time.monotonic()
        for user_data, result in self._ring.reap():
            lun, lane = divmod(user_data, READING + 1)
            if not self._ended(lun, lane, result):
                self._delayed.append((now + PAUSE, lun, lane))
            elif lane < READING or writing:
                self._fire(lun, lane)
        for entry in [entry for entry in self._delayed if entry[0] <= now]:
            self._delayed.remove(entry)
            self._fire(*entry[1:])
        self._ring.submit()
        time.sleep(0.001)

    def reap(self) -> None:
        """Reaps completions without firing lanes again."""
        for user_data, result in self._ring.reap():
            self._ended(*divmod(user_data, READING + 1), result)

    def stop(self) -> Counter:
        """Waits for lanes in flight, without firing any. Returns how often each result has occurred
        so far, on all LUNs."""
        self._delayed.clear()
        end = time.monotonic() + SECONDS
        while self._in_flight:
            self.reap()
            assert time.monotonic() < end, f"lost: {sorted(self._in_flight)}"
            time.sleep(0.002)
        assert not self._ring.reap()
        words: Counter = Counter()
        for (_, word), count in self.ends.items():
            words[word] += count
        return words

    def written(self) -> None:
        """Checks that each disk has the data that was written last. Call this when nothing is in
        flight and all writes have ended with GOOD."""
        for one in self._luns:
            if one.fired[READING]:
                with SgDev(one.lun.sg) as plain:
                    assert read_by_sg(plain, FIRST + READING * LANE * BLOCKS, LANE * BLOCKS
                                      ) == one.memory[one.area[READING]], one.lun
