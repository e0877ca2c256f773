# SPDX-License-Identifier: GPL-2.0
"""Runs pytest, on this machine and in VMs, and reads the result of each test."""

import json
import math
import os
import shutil
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from testvm.errors import KERNEL_REPORT
from testvm.job import search_path
from testvm.report import BOOTED_AGAIN, ConsoleLog

from . import process, vmheader
from .result import FAILED, PASSED, Case

PLUGIN = Path(__file__).resolve().parent / "plugin"
# The meaning of the exit statuses that tools/vm itself sets.
VM_STATUS = {
    KERNEL_REPORT: "the kernel reported a fault",
    124: "the VM was stopped: its time limit expired",
    125: "the VM ended before its command did, or did not start",
}
COMPILE_SECONDS = 120
# If a test on the host takes longer, Python writes its stacks to the log.
STACK_SECONDS = 600
# A test's setup, the test and its teardown may each take as long as the test's limit: then pytest
# ends. If a test takes longer than all three, its process cannot end: it sleeps in the kernel.
PHASES = 3
# The name of a case that stands for the whole run. It fails if the run itself went wrong.
WHOLE = "the run as a whole"


@dataclass
class Record:
    """The records that the plugin smq_record has written so far."""

    collected: list[str] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)
    running: str = ""
    # Seconds after which a phase of a test ends pytest.
    limits: dict[str, float | None] = field(default_factory=dict)
    end: int | None = None


def read(path: Path) -> Record:
    """Reads the plugin's file. Leaves out an incomplete last line."""
    record = Record()
    try:
        lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    except FileNotFoundError:
        lines = []
    for line in lines:
        entry = json.loads(line)
        if "collected" in entry:
            record.collected += entry["collected"]
            record.limits |= entry.get("limits", {})
        elif "start" in entry:
            record.running = entry["start"]
        elif "done" in entry:
            record.cases.append(Case(entry["done"], entry["outcome"], entry["seconds"],
                                     entry["message"]))
            record.running = ""
        elif "end" in entry:
            record.end = entry["end"]
    return record


class Overdue:
    """Whether the test that runs in a VM has taken so long that its process cannot end. @path: the
    plugin's file."""

    def __init__(self, path: Path):
        self._path, self._size = path, 0
        self._end = math.inf

    def __call__(self) -> bool:
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            return False
        if size != self._size:
            # The test that runs has just begun, or the last one has just ended.
            self._size = size
            record = read(self._path)
            limit = record.limits.get(record.running)
            self._end = time.monotonic() + PHASES * limit if limit else math.inf
        return time.monotonic() > self._end


def judge(record: Record, status: int, where: str, early: bool = False,
          stall: str = "") -> list[Case]:
    """The results of a run's tests. If the run itself went wrong, also a failed case WHOLE.

    Tests that could not run because the run ended early count as failed. If the kernel reported a
    fault, the failures of the tests that did run are final: there is no second try. So is that of a
    test whose process did not end. @early: the kernel reported the fault before it had a module of
    this project, which therefore did not cause it. @stall: the first line of the report, if a busy
    machine alone can have caused it.
    """
    cases = list(record.cases)
    why = VM_STATUS.get(status) if where == "vm" else None
    if early:
        why = f"{why} before it had a module of this project"
    elif stall:
        why = f"{why}: {stall}"
    why = why or process.WHY.get(status) or f"the run ended with status {status}"
    if record.end is None:
        done = {case.name for case in cases}
        for name in record.collected:
            if name == record.running:
                cases.append(Case(name, FAILED, message=f"{why}, during this test"))
            elif name not in done:
                cases.append(Case(name, FAILED, message=f"not run: {why}", lost=True))
    failed = any(case.outcome == FAILED for case in cases)
    # pytest exits with 1 if tests failed, with 2 if it could not collect files, and with 5 if it
    # collected no test: each file may have skipped its own.
    explained = status == 0 or (status in (1, 2) and failed) or (status == 5 and cases)
    if not explained and not (record.end is None and failed):
        cases.append(Case(WHOLE, FAILED, message=why))
    elif not cases:
        cases.append(Case(WHOLE, FAILED, message="the run had no tests"))
    elif status == 0 and failed:
        cases.append(Case(WHOLE, FAILED, message="status 0 although tests failed"))
    if where == "vm" and status == KERNEL_REPORT and not early and not stall:
        for case in cases:
            case.final = case.outcome == FAILED and not case.lost
    if status == process.OVERDUE and not stall:
        for case in cases:
            case.final = case.name == record.running
    return cases


def _last_boot(console: Path) -> ConsoleLog:
    """The kernel's messages of the last boot. If a VM was stopped, its status does not show whether
    the kernel reported a fault."""
    log = ConsoleLog("vm: end ")
    try:
        log.feed(console.read_bytes())
    except FileNotFoundError:
        pass
    return log.of_last_boot()


def _log_boots(folder: Path) -> None:
    """Adds to the log why the VM was booted again, if it was."""
    try:
        lines = (folder / "console").read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return
    with (folder / "log").open("a", encoding="utf-8") as log:
        log.writelines(f"{line}\n" for line in lines if line.startswith(BOOTED_AGAIN))


def _keep_messages(folder: Path, faults: str) -> None:
    """Adds to the log what tools/vm did not print because it was stopped: the kernel's report of a
    fault and its last messages."""
    said = process.tail(folder / "console")
    with (folder / "log").open("a", encoding="utf-8") as log:
        if faults:
            log.write(f"vm: the kernel reported a fault:\n{faults}\n")
        if said:
            log.write(f"vm: stopped; the kernel's last messages:\n{said}\n")


def command(targets: list[str], mark: str = "") -> list[str]:
    """The command that runs pytest with the plugin smq_record. pytest uses no cache, because the
    cache would be lost with the VM."""
    words = ["python3", "-B", "-m", "pytest", "-p", "smq_record", "-p", "no:cacheprovider",
             "--color=no", "-v", "--tb=short"]
    return words + (["-m", mark] if mark else []) + targets


def environment(record: Path) -> dict[str, str]:
    """The environment variables for pytest and the plugin. The guest gets the first two from
    tools/vm."""
    path = [str(PLUGIN)] + [part for part in [os.environ.get("PYTHONPATH", "")] if part]
    return {"SMQ_RECORD": str(record), "PYTHONPATH": ":".join(path),
            "PYTHONUNBUFFERED": "1"}


def compile_for_guests(runner: process.Runner, top: Path, folder: Path) -> None:
    """Compiles the guests' tests as pytest does, and leaves the results beside the tests: otherwise
    each guest would compile the tests again. This only saves time, so errors are ignored."""
    python = shutil.which("python3", path=search_path())
    if python:
        runner.run([python, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "-q",
                    "tests/vm"], folder / "compile.log", COMPILE_SECONDS, top,
                   environment={"PYTHONDONTWRITEBYTECODE": ""})


def on_host(runner: process.Runner, top: Path, folder: Path, targets: list[str],
            timeout: float) -> list[Case]:
    """Runs tests on this machine."""
    record = folder / "record"
    words = [sys.executable] + command(targets)[1:] + [
        "-o", f"faulthandler_timeout={STACK_SECONDS}"]
    status = runner.run(words, folder / "log", timeout, top, environment=environment(record))
    return judge(read(record), status, "host")


def in_vm(runner: process.Runner, top: Path, folder: Path, kernel: str, targets: list[str],
          timeout: float, mark: str = "") -> list[Case]:
    """Runs tests in one VM, with the options in the headers of the test files. For a kernel
    uml-FLAVOUR, runs them in a guest of tools/uml. @top: the checkout whose tests run."""
    record = folder / "record"
    uml = kernel.startswith("uml-")
    tool = [str(top / "tools/uml"), "--flavour", kernel.removeprefix("uml-")] if uml else [
        str(top / "tools/vm"), "--kernel", kernel]
    try:
        # The headers ask for QEMU's devices, which User Mode Linux does not have.
        needs = [] if uml else vmheader.of(
            list({top / target.partition("::")[0] for target in targets}))
        with vmheader.prepared(needs) as options:
            words = [*tool, "--timeout", f"{timeout:g}", "--log", str(folder / "console"),
                     "--share", str(folder), *options, "--", *command(targets, mark)]
            # tools/vm has its own time limit. This longer one is for a tools/vm that hangs.
            status = runner.run(words, folder / "log", timeout + 60, top, overdue=Overdue(record),
                                environment=environment(record))
    except vmheader.HeaderError as error:
        return [Case(WHOLE, FAILED, message=str(error))]
    messages = _last_boot(folder / "console")
    faulted = bool(messages.faults())
    if status in process.WHY:
        _keep_messages(folder, messages.faults())
    _log_boots(folder)
    later = messages.with_modules()
    return judge(read(record), KERNEL_REPORT if faulted else status, "vm",
                 faulted and not later.faults(), later.stall())


def all_passed(cases: list[Case]) -> bool:
    """Whether there is at least one test, and all passed."""
    return bool(cases) and all(case.outcome == PASSED for case in cases)
