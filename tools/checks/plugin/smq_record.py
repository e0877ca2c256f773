# SPDX-License-Identifier: GPL-2.0
"""A pytest plugin: writes each outcome to the file SMQ_RECORD at once, as a line of JSON.

pytest's own JUnit XML is no substitute: pytest writes it at the end, so it is lost if the kernel
crashes.
"""

import json
import os
from collections import defaultdict
from typing import Any

import pytest

_done: defaultdict[str, dict[str, Any]] = defaultdict(
    lambda: {"outcome": "passed", "seconds": 0, "message": ""})


def _write(**record: object) -> None:
    """Writes a line. It must reach the host now, because the next test may crash the guest."""
    with open(os.environ["SMQ_RECORD"], "a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    if report.skipped and isinstance(report.longrepr, tuple):
        return report.longrepr[2]
    return str(report.longrepr)[-4000:]


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Records a file that cannot be collected as a failed test, and one that skips all its tests as
    a skipped one."""
    if report.outcome != "passed":
        _write(done=report.nodeid or "collection", outcome=report.outcome, seconds=0,
               message=_reason(report))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds an option for a part of the tests."""
    parser.addoption("--part", metavar="K/N", help="only every Nth test, from number K on")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the other parts. Neighbours are alike, so each part has some of each kind."""
    if part := config.getoption("--part"):
        first, step = map(int, part.split("/"))
        items[:] = items[first::step]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Records the tests that will run."""
    _write(collected=[item.nodeid for item in session.items])


def pytest_runtest_logstart(nodeid: str) -> None:
    """Records that a test begins."""
    _write(start=nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Records one of a test's three phases. If any of them fails, the test has failed."""
    state = _done[report.nodeid]
    state["seconds"] += report.duration
    if report.outcome != "passed" and state["outcome"] != "failed":
        state |= {"outcome": report.outcome, "message": _reason(report)}
    if report.when == "teardown":
        _write(done=report.nodeid, **_done.pop(report.nodeid))


def pytest_sessionfinish(exitstatus: int) -> None:
    """Records that the run has ended without a crash."""
    _write(end=int(exitstatus))
