# SPDX-License-Identifier: GPL-2.0
"""Planted defects: tests/plant/NAME.patch, and the tests that must fail because of it.

A patch begins with a header of "Word: value" lines:

  Area: WORD     the area of the project where the defect is
  Red: TEST      a test in a VM that must fail; a name without [...] means all of its
                 parameters. May be repeated
  Green: TEST    a test that must pass in spite of the defect. May be repeated
  Run: COMMAND   a command to run instead of tests
  Status: N      the exit status that COMMAND must have (default: 1)
  Shows: REGEX   must be found in the messages of the Red tests, or in the output of COMMAND.
                 May be repeated: all must be found

The patch is applied to a copy of the checkout, which is then built and tested.
"""

import os
import re
import shlex
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from . import process, pytests
from .result import FAILED, PASSED, Case

KERNEL = "6.1"
SECONDS = 3600      # limit for a run that does not hang; see process.SILENT_SECONDS
# Not copied: build results, the repository, and caches.
LEFT_OUT = {"build", "bench-report", ".git", "__pycache__", ".pytest_cache"}
MODULE_FOLDERS = ("drivers/", "include/", "tests/lld/", "Kbuild")
WORDS = ("Area", "Red", "Green", "Run", "Status", "Shows")


class PlantError(Exception):
    """The tests did not find the defect, or it could not be planted."""


@dataclass
class Plant:
    """One patch."""

    path: Path
    area: str = ""
    red: list[str] = field(default_factory=list)
    green: list[str] = field(default_factory=list)
    run: str = ""
    status: int = 1
    shows: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the file, without .patch."""
        return self.path.stem


def parse(path: Path) -> Plant:
    """Reads a patch: its header, and the names of the files that it changes."""
    plant = Plant(path)
    header, diff, body = path.read_text(encoding="utf-8").partition("\n--- ")
    plant.changed = re.findall(r"^\+\+\+ b/(\S+)", diff + body, re.MULTILINE)
    for line in header.splitlines():
        word, colon, value = line.partition(": ")
        value = value.strip()
        if not colon or word not in WORDS:
            continue
        if word == "Status":
            plant.status = int(value)
        elif word in ("Area", "Run"):
            setattr(plant, word.lower(), value)
        else:
            getattr(plant, word.lower()).append(value)
    if not plant.changed:
        raise PlantError(f"{path.name}: changes no file")
    if not plant.area or bool(plant.red) == bool(plant.run) or not plant.shows:
        raise PlantError(f"{path.name}: needs 'Area:', 'Shows:' and either 'Red:' or 'Run:'")
    return plant


def copy_sources(top: Path, to: Path) -> None:
    """Copies the sources and the built programs."""
    shutil.copytree(top, to, symlinks=True,
                    ignore=lambda _folder, names: LEFT_OUT.intersection(names))


def copy_modules(top: Path, to: Path) -> None:
    """Copies the built modules, so that only few must be built again."""
    for order in top.glob(f"build/{KERNEL}.*/modules.order"):
        shutil.copytree(order.parent, to / order.parent.relative_to(top), symlinks=True)


def _build(runner: process.Runner, plant: Plant, copy: Path, log: Path) -> None:
    commands = []
    if any(name.startswith(MODULE_FOLDERS) for name in plant.changed):
        commands.append(["tools/build-modules", "--kernel", KERNEL, "SMQ_TESTS=1"])
    folders = {Path(*Path(name).parts[:3]) for name in plant.changed
               if name.startswith("tools/src/")}
    commands += [["make", "-C", str(folder)] for folder in sorted(folders)]
    for command in commands:
        if runner.run(command, log, SECONDS, copy):
            raise PlantError(f"does not build:\n{process.tail(log)}")


def _matches(wanted: str, name: str) -> bool:
    return name == wanted or name.startswith(wanted + "[")


def judge(plant: Plant, cases: list[Case]) -> None:
    """Raises PlantError unless exactly the expected tests failed, with the expected messages."""
    def named(wanted: str) -> list[Case]:
        found = [case for case in cases if _matches(wanted, case.name)]
        if not found:
            raise PlantError(f"there is no test {wanted}")
        return found

    red = [case for wanted in plant.red for case in named(wanted)]
    green = [case for wanted in plant.green for case in named(wanted)]
    for case in red:
        if case.outcome != FAILED:
            raise PlantError(f"{case.name} {case.outcome} in spite of the defect")
    for case in green:
        if case.outcome != PASSED:
            raise PlantError(f"{case.name} {case.outcome}, too:\n{case.message}")
    for case in cases:
        if case.outcome != PASSED and case not in red:
            raise PlantError(f"{case.name} {case.outcome}, too:\n{case.message}")
    said = "\n".join(case.message for case in red)
    _check_shown(plant, said)


def _check_shown(plant: Plant, said: str) -> None:
    for pattern in plant.shows:
        if not re.search(pattern, said):
            raise PlantError(f"no text matches '{pattern}':\n{said[-2000:]}")


def _run_command(runner: process.Runner, plant: Plant, copy: Path, log: Path) -> None:
    output = log.with_name("output")
    status = runner.run(shlex.split(plant.run), output, SECONDS, copy)
    said = output.read_text(encoding="utf-8", errors="replace")
    # Leave out the first line, which is the command itself.
    said = said.partition("\n")[2]
    if status != plant.status:
        raise PlantError(f"'{plant.run}' ended with status {status}, not {plant.status}:\n"
                         f"{said[-2000:]}")
    _check_shown(plant, said)


def check(runner: process.Runner, path: Path, top: Path, folder: Path) -> None:
    """Plants a defect, and raises PlantError unless it is found."""
    plant = parse(path)
    copy, log = folder / "src", folder / "log"
    copy_sources(top, copy)
    copy_modules(top, copy)
    # Unlike patch, git apply allows no fuzz. It must not find a repository in a folder above the
    # copy.
    environment = {"GIT_CEILING_DIRECTORIES": os.fspath(folder)}
    if runner.run(["git", "apply", "-v", str(path)], log, 60, copy, environment=environment):
        raise PlantError(f"does not apply:\n{process.tail(log)}")
    _build(runner, plant, copy, log)
    if plant.run:
        _run_command(runner, plant, copy, log)
    else:
        cases = pytests.in_vm(runner, copy, folder, KERNEL, plant.red + plant.green, SECONDS)
        judge(plant, cases)
    shutil.rmtree(copy)
