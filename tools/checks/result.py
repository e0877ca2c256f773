# SPDX-License-Identifier: GPL-2.0
"""Tests and their results."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass
class Case:
    """One test and its outcome. lost: the run ended before this test began. final: the kernel
    reported a fault, so there is no second try. first: if there was a second try, why the first
    one failed."""

    name: str
    outcome: str
    seconds: float = 0.0
    message: str = ""
    lost: bool = False
    final: bool = False
    first: str | None = None

    @property
    def reasons(self) -> str:
        """Why it failed, or why each try failed."""
        return self.message if self.first is None else (
            f"first: {self.first}\nagain: {self.message}")


@dataclass
class Result:
    """The tests of one step. seconds, cpu: the time and the CPU time that the step took. tail, if a
    test failed: the end of the log, to be printed at once. ends: the lines of the log that say why
    the run ended early."""

    step: str
    cases: list[Case] = field(default_factory=list)
    seconds: float = 0.0
    cpu: float = 0.0
    log: Path | None = None
    tail: str = ""
    ends: list[str] = field(default_factory=list)

    def count(self) -> Counter[str]:
        """The number of tests by outcome."""
        return Counter(case.outcome for case in self.cases)

    @property
    def failed(self) -> list[Case]:
        """The tests that failed."""
        return [case for case in self.cases if case.outcome == FAILED]

    @property
    def unstable(self) -> list[Case]:
        """The tests that failed at first, and passed at the second try."""
        return [case for case in self.cases
                if case.outcome == PASSED and case.first is not None]


def total(results: list[Result]) -> Counter[str]:
    """The number of tests of all steps by outcome."""
    return sum((result.count() for result in results), Counter())


def last_line(counts: Counter[str]) -> str:
    """The last line of the output, which other programs parse."""
    return f"{counts[PASSED]} passed, {counts[FAILED]} failed, {counts[SKIPPED]} skipped"


def exit_status(counts: Counter[str]) -> int:
    """0 if tests passed and none failed. A run in which no test passed is a failure."""
    return 0 if counts[PASSED] and not counts[FAILED] else 1


def _reason(node: ElementTree.Element, kind: str, message: str) -> None:
    text = "".join(c for c in message if c.isprintable() or c in "\n\t")
    ElementTree.SubElement(node, kind, message=text[:200]).text = text


def write_junit(results: list[Result], path: Path) -> None:
    """Writes all results as JUnit XML, with one suite for each step."""
    root = ElementTree.Element("testsuites")
    for result in results:
        counts = result.count()
        suite = ElementTree.SubElement(
            root, "testsuite", name=result.step, tests=str(len(result.cases)),
            failures=str(counts[FAILED]), errors="0", skipped=str(counts[SKIPPED]),
            time=f"{result.seconds:.1f}")
        properties = ElementTree.SubElement(suite, "properties")
        ElementTree.SubElement(properties, "property", name="cpu", value=f"{result.cpu:.1f}")
        for case in result.cases:
            node = ElementTree.SubElement(suite, "testcase", classname=result.step,
                                          name=case.name, time=f"{case.seconds:.2f}")
            if case.outcome != PASSED:
                _reason(node, "failure" if case.outcome == FAILED else "skipped", case.reasons)
            elif case.first is not None:
                # Maven Surefire uses this element, so other programs know it.
                _reason(node, "flakyFailure", case.first)
    ElementTree.indent(root)
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
