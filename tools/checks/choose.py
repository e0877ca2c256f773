# SPDX-License-Identifier: GPL-2.0
"""Chooses the steps of a run: what a change needs within 15 minutes, or one of the slices that have
all the rest."""

import fnmatch
import hashlib
import itertools
import math
import os
import subprocess
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from .steps import FULL, KERNELS, SANITIZE, UML, Step, Table, quickest

MINUTES = 15            # of a run
SLICE_MINUTES = 20      # of a slice
CPUS = os.cpu_count() or 1
# So many steps run at a time, because tests wait a lot, and so many end in the time of one.
JOBS = 2 * CPUS
SPEED = 1.4 * CPUS
# Of these a run has no more than this many seconds: the core on 7.2, and tests under sanitizers.
NEWEST_SECONDS = 150.0
SANITIZED_SECONDS = 200.0
NEWEST = "7.2"
# Each run builds for these kernels, slices for all.
BUILT = ("6.1", "6.12", NEWEST)
# A run has a part of the tests of what changed that take longer than this, the first that leaves
# time for all. Slices have all parts of what takes longer than that.
PART_SECONDS = (120, 90, 60, 40)
SLICE_PART_SECONDS = 400


@dataclass
class Subject:
    """A row of tests/subjects.toml."""

    name: str
    paths: list[str]
    tests: list[str]
    quiet: bool = False

    def touched(self, changed: list[str]) -> bool:
        """Whether one of the changed files belongs to it."""
        return any(fnmatch.fnmatchcase(path, word) for path in changed for word in self.paths)

    def has(self, step: Step) -> bool:
        """Whether a step is one of its tests. The sanitizers run tests of area vm."""
        name = f"vm/{step.name}" if step.area == "sanitize" else step.path
        return any(fnmatch.fnmatchcase(name, word) for word in self.tests)


def subjects(top: Path) -> list[Subject]:
    """All subjects."""
    with (top / "tests/subjects.toml").open("rb") as file:
        return [Subject(name, **row) for name, row in tomllib.load(file).items()]


def _git(top: Path, *words: str) -> list[str]:
    done = subprocess.run(["git", "-C", str(top), "-c", "core.quotePath=off", *words],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"git {words[0]}: {done.stderr.strip()}")
    return [line for line in done.stdout.splitlines() if line]


def changed_files(top: Path, since: str) -> tuple[list[str], str]:
    """The files that changed since a commit, by default within 24 hours, committed or not, and the
    name of the last commit. Without a repository: none. Raises ValueError if @since is unknown."""
    if not (top / ".git").exists():
        return [], ""
    found = _git(top, "ls-files", "--others", "--exclude-standard")
    found += _git(top, "diff", "--name-only", since or "HEAD", "--")
    if not since:
        found += _git(top, "log", "--since=24.hours", "--format=", "--name-only")
    return sorted(set(found)), _git(top, "rev-parse", "HEAD")[0]


def wall(steps: list[Step], table: Table) -> float:
    """The seconds that steps take with the builds that they need, which use all CPUs."""
    kernels = {step.kernel if step.builds else step.needs for step in steps} - {""}
    # Steps that share a guest start it once; a guest has about four of them.
    rest = sum(step.seconds + step.boot / 4 for step in steps if not step.builds)
    return sum(table.build_of(kernel).seconds for kernel in kernels) + rest / SPEED


class Gate:
    """The choice for a change. steps: those that run, left_out: tests of what changed for which no
    time is left."""

    def __init__(self, table: Table, changed: list[str], seed: str):
        self._table, self._seed = table, seed
        self._changed = set(changed)
        self._subjects = subjects(table.top)
        self.touched = [one for one in self._subjects if one.touched(changed)]
        self.steps = self.fixed()
        rest = sorted(quickest([step for step in table.steps if step not in self.steps and
                                step.area in ("host", "vm")]), key=self._number)
        due = [step for step in rest if self._due(step)]
        rest = [step for step in rest if step not in due]
        for seconds in PART_SECONDS:
            parts = [self._part(step, seconds) for step in due]
            if wall(self.steps + parts, self._table) <= 60 * MINUTES:
                break
        # The changed tests come first, and short ones likely before long ones.
        due = sorted(parts, key=lambda step: (
            not self._changed.intersection(step.targets), step.seconds * self._number(step)))
        self._add(due)
        self.left_out = [step for step in due if step not in self.steps]
        self._add(self._by_subject(rest))

    def fixed(self) -> list[Step]:
        """What each run has: builds, lint, tests on the host, the core, a part of the core on the
        newest kernel, and tests under the sanitizers. Those of what changed come first."""
        quiet = [one for one in self._subjects if one.quiet]
        steps = [step for step in self._table.steps if
                 step.builds and step.kernel in BUILT or step.area == "lint" or
                 step.area == "host" and not any(one.has(step) for one in quiet) or
                 step.area == "vm" and step.kernel == FULL and step.mark]
        core = {step.targets for step in steps if step.area == "vm"}
        for kernel, seconds in ((NEWEST, NEWEST_SECONDS), (SANITIZE, SANITIZED_SECONDS)):
            there = [self._part(step, seconds) for step in self._table.steps if
                     step.kernel == kernel and step.targets and step.area in ("vm", "sanitize")]
            for step in sorted(there, key=lambda step: (
                    not self._due(step), step.targets not in core, self._number(step))):
                if step.seconds <= seconds:
                    seconds -= step.seconds
                    steps.append(step)
        return steps

    def _due(self, step: Step) -> bool:
        """Whether the change needs a step."""
        return bool(self._changed.intersection(step.targets)) or any(
            one.has(step) for one in self.touched)

    def _number(self, step: Step) -> float:
        """A number from 0 to 1 that depends on the commit."""
        return int.from_bytes(hashlib.sha256(f"{self._seed} {step}".encode()).digest()[:4]) / 2**32

    def _part(self, step: Step, seconds: float) -> Step:
        """The step, or a part of it that takes @seconds at most: another one for each commit."""
        parts = _parts(step, seconds)
        return parts[int(self._number(step) * len(parts))]

    def _by_subject(self, steps: list[Step]) -> list[Step]:
        """A step of each subject, then the next one of each."""
        turns: dict[str, Iterator[int]] = defaultdict(itertools.count)
        return sorted(steps, key=lambda step: next(turns[next(
            (one.name for one in self._subjects if one.has(step)), "")]))

    def _add(self, steps: list[Step]) -> None:
        """Adds steps for which there is time."""
        for step in steps:
            if wall([*self.steps, step], self._table) <= 60 * MINUTES:
                self.steps.append(step)


def _parts(step: Step, seconds: float) -> list[Step]:
    """The step, or its parts if it runs in a guest and takes longer than @seconds."""
    count = math.ceil(step.seconds / seconds) if step.kernel else 1
    return [step] if count == 1 else [
        replace(step, part=f"{number}/{count}", seconds=step.seconds / count)
        for number in range(count)]


def slices(table: Table) -> list[list[Step]]:
    """All steps but those of each run, in parts of about 20 minutes, each a mixture of all."""
    fixed = Gate(table, [], "").fixed()
    rest = [part for step in table.steps if step.kernel in KERNELS and step not in fixed or
            not step.builds and (step not in fixed or step.kernel in (NEWEST, SANITIZE))
            for part in _parts(step, SLICE_PART_SECONDS)]
    builds = sum(step.seconds for step in table.steps if step.builds)
    count = math.ceil((wall(rest, table) - builds) / (60 * SLICE_MINUTES - builds))
    parts: list[list[Step]] = [[] for _ in range(count)]
    for step in sorted(rest, key=lambda step: (-step.seconds, str(step))):
        min(parts, key=lambda part: wall(part, table)).append(step)
    return parts


def everything(table: Table) -> list[Step]:
    """What --all runs: builds, lint, and all tests on the host, on 6.1 and on User Mode Linux, and
    the smoke tests on the other kernels."""
    return [step for step in table.steps if step.area in ("build", "lint", "host", "vm") and
            not (step.builds and step.kernel in (UML, SANITIZE)) and
            not (step.mark and step.kernel == FULL)]
