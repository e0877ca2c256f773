# SPDX-License-Identifier: GPL-2.0
"""A pytest plugin: writes each outcome to the file SMQ_RECORD at once, as a line of JSON.

pytest's own JUnit XML is no substitute: pytest writes it at the end, so it is lost if the kernel
crashes.
"""

import json
import os
from typing import Any

import pytest

_phases: dict[str, dict[str, Any]] = {}


def _write(**record: object) -> None:
    line = json.dumps(record) + "\n"
    descriptor = os.open(os.environ["SMQ_RECORD"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line.encode())
        # The line must reach the host now, because the next test may crash the guest.
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Records a file that cannot be collected as a failed test, and one that skips all its tests as
    a skipped one."""
    if report.skipped:
        _write(done=report.nodeid, outcome="skipped", seconds=0, message=_reason(report))
    if report.failed:
        _write(done=report.nodeid or "collection", outcome="failed", seconds=0,
               message=str(report.longrepr)[-4000:])


def pytest_collection_finish(session: pytest.Session) -> None:
    """Records the tests that will run, and after how many seconds each phase of a test ends pytest,
    if tests/vm/conftest.py has said so."""
    limits = {item.nodeid: dict(item.user_properties).get("limit") for item in session.items}
    _write(collected=list(limits), limits=limits)


def pytest_runtest_logstart(nodeid: str) -> None:
    """Records that a test begins."""
    _write(start=nodeid)


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    if report.skipped and isinstance(report.longrepr, tuple):
        return report.longrepr[2]
    return str(report.longrepr)[-4000:]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Records one of a test's three phases. If any of them fails, the test has failed."""
    state = _phases.setdefault(report.nodeid, {"outcome": "passed", "seconds": 0, "message": ""})
    state["seconds"] += report.duration
    if report.outcome != "passed" and state["outcome"] != "failed":
        state["outcome"] = report.outcome
        state["message"] = _reason(report)
    if report.when == "teardown":
        _write(done=report.nodeid, **_phases.pop(report.nodeid))


def pytest_sessionfinish(exitstatus: int) -> None:
    """Records that the run has ended without a crash."""
    _write(end=int(exitstatus))
