# SPDX-License-Identifier: GPL-2.0
"""Tests, their results, and the time that each test file took in earlier runs."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
REASON_LINES = 8


@dataclass
class Case:
    """One test and its outcome. ended: whether the test itself came to its end. unstable: whether
    it has passed only at its second try; the message is of the first."""

    name: str
    outcome: str
    seconds: float = 0.0
    message: str = ""
    ended: bool = False
    unstable: bool = False


@dataclass
class Result:
    """The tests of one step. stall: the report of a guest that stood still, which is no defect of
    what was tested."""

    step: str
    cases: list[Case] = field(default_factory=list)
    seconds: float = 0.0
    stall: str = ""

    def of(self, outcome: str) -> list[Case]:
        """The tests with an outcome."""
        return [case for case in self.cases if case.outcome == outcome]


def last_line(results: list[Result]) -> str:
    """The last line of the output, which other programs parse."""
    count = Counter(case.outcome for result in results for case in result.cases)
    return f"{count[PASSED]} passed, {count[FAILED]} failed, {count[SKIPPED]} skipped"


def reasons(case: Case) -> str:
    """The most useful lines of a failed test's message: pytest's own explanation, or the end."""
    lines = [line for line in case.message.splitlines() if line.strip()]
    own = [line for line in lines if line.startswith("E ")] or lines[-REASON_LINES:]
    return "\n".join(f"    {line[:200]}" for line in own[:REASON_LINES])


def write_junit(results: list[Result], path: Path) -> None:
    """Writes all results as JUnit XML, with one suite for each step."""
    root = ElementTree.Element("testsuites")
    for result in results:
        suite = ElementTree.SubElement(root, "testsuite", name=result.step,
                                       time=f"{result.seconds:.1f}")
        for case in result.cases:
            node = ElementTree.SubElement(suite, "testcase", classname=result.step,
                                          name=case.name, time=f"{case.seconds:.2f}")
            # Maven Surefire has the element flakyFailure, so other programs know it.
            kind = {FAILED: "failure", SKIPPED: "skipped"}.get(case.outcome, "flakyFailure")
            if case.unstable or case.outcome != PASSED:
                ElementTree.SubElement(node, kind).text = "".join(
                    c for c in case.message if c.isprintable() or c in "\n\t")
    ElementTree.indent(root)
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def failures(junit: Path) -> dict[str, str]:
    """The tests that failed in a run, with their messages."""
    suites = ElementTree.parse(junit).getroot() if junit.exists() else ()
    return {f"{case.get('name')} ({suite.get('name')})": found.text or ""
            for suite in suites for case in suite.findall("testcase")
            if (found := case.find("failure")) is not None}


def refreshed(times: dict[str, float], junit: Path) -> dict[str, float]:
    """The seconds of each test file or step, "NAME on KERNEL", with those of a run in which all its
    tests passed. Those of a build are taken only if they grew: it may have had nothing to do."""
    found: dict[str, float] = defaultdict(float)
    for suite in ElementTree.parse(junit).getroot():
        name, _, on = suite.get("name", "").partition(" on ")
        for case in suite.findall("testcase"):
            # A step without a guest has its own time, which includes the start of pytest.
            key = f"{case.get('name', '').partition('::')[0]} on {on}" if on else name
            seconds = found[key] + float(case.get("time", 0)) if on else float(suite.get("time", 0))
            found[key] = float("nan") if case.find("failure") is not None else seconds
    new = {key: round(seconds, 1) for key, seconds in found.items()
           if " part " not in key and seconds >= times.get(key, 0) * key.startswith("build/")}
    return dict(sorted((times | new).items()))
