# SPDX-License-Identifier: GPL-2.0
"""Prints how the last run spent its time."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from . import plan

TESTS = 50


@dataclass
class Row:
    """A row of a table. cpu: None if the CPU time is known only for the whole step."""

    name: str
    seconds: float
    cpu: float | None
    tests: int


def _kernel(step: str) -> str:
    """The kernel on which a step runs, or "host"."""
    name, _, kernel = step.partition(" on ")
    area = name.partition("/")[0]
    if area == "sanitize" and name not in ("sanitize/build", "sanitize/defects"):
        return plan.SANITIZE
    return kernel or "host"


def _sums(rows: Iterable[Row]) -> list[Row]:
    """Adds up rows of the same name. The longest come first."""
    found: dict[str, Row] = {}
    for row in rows:
        known = found.setdefault(row.name, Row(row.name, 0, None if row.cpu is None else 0, 0))
        known.seconds += row.seconds
        known.tests += row.tests
        if row.cpu is not None and known.cpu is not None:
            known.cpu += row.cpu
    return sorted(found.values(), key=lambda row: -row.seconds)


def _table(title: str, rows: list[Row]) -> list[str]:
    lines = [f"{'seconds':>8} {'CPU':>6} {'tests':>6}  {title}"]
    for row in rows:
        cpu = "" if row.cpu is None else f"{row.cpu:.0f}"
        lines.append(f"{row.seconds:8.1f} {cpu:>6} {row.tests:6}  {row.name}")
    return [*lines, ""]


def tables(junit: Path) -> list[str]:
    """The tables as lines. Raises OSError or ElementTree.ParseError if there is no such file."""
    steps, files, tests = [], [], []
    for suite in ElementTree.parse(junit).getroot():
        name = suite.get("name", "")
        cases = suite.findall("testcase")
        cpu = suite.find("properties/property[@name='cpu']")
        steps.append(Row(name, float(suite.get("time", 0)),
                         0 if cpu is None else float(cpu.get("value", 0)), len(cases)))
        for case in cases:
            path, colons, _ = case.get("name", "").partition("::")
            if colons:
                seconds, on = float(case.get("time", 0)), _kernel(name)
                files.append(Row(f"{path} on {on}", seconds, None, 1))
                tests.append(Row(f"{case.get('name')} on {on}", seconds, None, 1))
    areas = [Row(row.name.partition("/")[0], row.seconds, row.cpu, row.tests) for row in steps]
    kernels = [Row(_kernel(row.name), row.seconds, row.cpu, row.tests) for row in steps]
    total = [Row("all", row.seconds, row.cpu, row.tests) for row in steps]
    longest = sorted(tests, key=lambda row: -row.seconds)[:TESTS]
    return [*_table("area", _sums(areas) + _sums(total)), *_table("kernel", _sums(kernels)),
            *_table("step", _sums(steps)), *_table("file: the sum of its tests", _sums(files)),
            *_table(f"test, the {TESTS} longest", longest)][:-1]


def show(junit: Path) -> int:
    """Prints the tables. Returns the exit status."""
    try:
        print("\n".join(tables(junit)))
    except (OSError, ElementTree.ParseError) as error:
        print(f"tools/check: there are no times of an earlier run: {error}", file=sys.stderr)
        return 1
    return 0
