# SPDX-License-Identifier: GPL-2.0
"""Runs pytest, on this machine and in VMs, and reads the result of each test."""

import json
import os
import sys
from pathlib import Path

from testvm.errors import KERNEL_REPORT
from testvm.report import ConsoleLog

from . import process
from .result import FAILED, Case, Result

PLUGIN = Path(__file__).resolve().parent / "plugin"
WHY = {KERNEL_REPORT: "the kernel reported a fault", process.TIMED_OUT: "the time limit expired",
       125: "the VM ended before its command did, or did not start"}
# If a test on the host takes longer, Python writes its stacks to the log.
STACK_SECONDS = 600
# The name of a case that stands for the whole run. It fails if the run itself went wrong.
WHOLE = "the run as a whole"


def judge(path: Path, status: int, why: str = "") -> list[Case]:
    """The results of a run's tests, from the file of the plugin smq_record. If the run itself went
    wrong, also a failed case WHOLE. Tests that could not run because the run ended early have
    failed. @why: why it ended, if known."""
    lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
    entries = [json.loads(line) for line in lines]
    cases = [Case(entry["done"], entry["outcome"], entry["seconds"], entry["message"], ended=True)
             for entry in entries if "done" in entry]
    why = why or WHY.get(status) or f"the run ended with status {status}"
    ended = bool(entries) and "end" in entries[-1]
    if not ended:
        done = {case.name for case in cases}
        running = entries[-1].get("start") if entries else None
        cases += [Case(name, FAILED, message=f"{why}, during this test" if name == running
                       else f"not run: {why}")
                  for entry in entries for name in entry.get("collected", []) if name not in done]
    failed = any(case.outcome == FAILED for case in cases)
    # pytest exits with 1 if tests failed, with 2 if it could not collect files, and with 5 if it
    # collected no test: each file may have skipped its own.
    explained = failed if status in (1, 2) or not ended else status in (0, 5) and not failed
    if not explained or not cases:
        # The log says more if the VM could not be set up.
        why = why if status else "the status is 0, although tests failed or none ran"
        cases.append(Case(WHOLE, FAILED, message=f"{process.tail(path.with_name('log'))}\n{why}"))
    return cases


def _command(targets: list[str], mark: str = "", part: str = "") -> list[str]:
    """The command that runs pytest with the plugin. pytest uses no cache, because it would be lost
    with the VM."""
    words = ["python3", "-B", "-m", "pytest", "-p", "smq_record", "-p", "no:cacheprovider",
             "--color=no", "-v", "--tb=short"]
    words += ["-m", mark] if mark else []
    return words + (["--part", part] if part else []) + targets


def _environment(folder: Path) -> dict[str, str]:
    """The variables for pytest and the plugin. The guest gets the first two from tools/vm."""
    path = ":".join([str(PLUGIN), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {"SMQ_RECORD": str(folder / "record"), "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


def on_host(runner: process.Runner, top: Path, folder: Path, targets: list[str],
            limit: float) -> Result:
    """Runs tests on this machine."""
    words = [sys.executable, *_command(targets)[1:], "-o", f"faulthandler_timeout={STACK_SECONDS}"]
    status = runner.run(words, folder / "log", limit, top, _environment(folder))
    return Result("", judge(folder / "record", status))


def in_vm(runner: process.Runner, top: Path, folder: Path, kernel: str, targets: list[str],
          limit: float, mark: str = "", part: str = "") -> Result:
    """Runs tests in one guest. A kernel uml-FLAVOUR is one of tools/uml."""
    uml = kernel.startswith("uml-")
    words = [f"{top}/tools/{'uml' if uml else 'vm'}", "--flavour" if uml else "--kernel",
             kernel.removeprefix("uml-"), "--timeout", f"{limit:.0f}", "--share", str(folder),
             "--log", str(folder / "console")]
    words += [word for path in dict.fromkeys(target.partition("::")[0] for target in targets)
              for word in ("--for", path)]
    # tools/vm has its own time limit. This longer one is for a tools/vm that hangs.
    words += ["--", *_command(targets, mark, part)]
    status = runner.run(words, folder / "log", limit + 60, top, _environment(folder))
    # If a VM was stopped, its status does not show whether the kernel reported a fault.
    log = ConsoleLog("vm: end ")
    log.feed((folder / "console").read_bytes() if (folder / "console").exists() else b"")
    log = log.of_last_boot()
    fault = next((f"{WHY[KERNEL_REPORT]}: {line}" for line in log.reports().values()), "")
    return Result("", judge(folder / "record", KERNEL_REPORT if fault else status, fault),
                  stall=log.stall())
