# SPDX-License-Identifier: GPL-2.0
"""The second try of tools/check: the tests that it repeats, and the results of both tries."""
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tools"))

from checks import __main__ as check  # noqa: E402
from checks import again, plan, pytests, result  # noqa: E402
from checks.result import Case  # noqa: E402


@pytest.fixture(autouse=True)
def nothing_compiled(monkeypatch):
    """Does not compile tests for guests, because no guest runs here."""
    monkeypatch.setattr(pytests, "compile_for_guests", lambda *_: None)


class VMs:
    """Replaces the runner of programs. @console: the kernel's messages, .after: those of later
    runs. @at_end: the seconds that are left after the last run. @runs: (outcomes, status) of each
    run. An outcome is "passed", "skipped", or the message of a failed test. If the run dies in a
    test, the outcome of this test is "died", and the outcome of each later test is None."""

    def __init__(self, *runs, at_end=3600, console=""):
        self.runs = list(runs)
        self.asked = []
        self.console = self.after = console
        self.seconds_left = lambda: 3600 if self.runs else at_end
        self.used = lambda: 0

    def run(self, words, log, *_args, **_environment):
        """Writes the files that pytest in a VM would write."""
        self.asked.append([word for word in words if word.startswith("tests/")])
        outcomes, status = self.runs.pop(0)
        lines = [{"collected": [f"tests/vm/test_x.py::{name}" for name in outcomes]}]
        for name, outcome in outcomes.items():
            name = f"tests/vm/test_x.py::{name}"
            if outcome == "died":
                lines.append({"start": name})
            elif outcome:
                known = outcome in ("passed", "skipped")
                lines.append({"done": name, "outcome": outcome if known else "failed",
                              "seconds": 1, "message": "" if known else outcome})
        if not {"died", None} & set(outcomes.values()):
            lines.append({"end": status})
        text = "".join(json.dumps(line) + "\n" for line in lines if outcomes)
        (log.parent / "record").write_text(text, encoding="ascii")
        (log.parent / "console").write_text(self.console, encoding="ascii")
        self.console = self.after
        return status


def checked(tmp_path, capsys, vms, *steps, **options):
    """Runs some steps; returns the counts and the output."""
    options = {"jobs": 1, "minutes": 60, "plain": True, "no_retry": False, "fill": False} | options
    steps = steps or (plan.Step("vm", "x", "6.1", ("tests/vm/test_x.py",)),)
    one = check.Check(SimpleNamespace(steps=list(steps), **options))
    one.folder, one.runner = tmp_path, vms
    one.run()
    counts = one.report()
    return counts, capsys.readouterr().out


X = "tests/vm/test_x.py"
MODULE = "[ 9.0] smq: loading out-of-tree module taints kernel.\n"
STALL = "[ 8.0] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:\n"
BUG = "[ 9.1] BUG: unable to handle page fault\n"
SOFT = "[ 9.2] watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [fio:9]\n"
POOL = "[ 9.3] BUG: workqueue lockup - pool cpus=0 node=0 flags=0x0 nice=0 stuck for 31s!\n"
HUNG = "[ 9.4] INFO: task fio:9 blocked for more than 120 seconds.\n"
SLOW = "x.py:3: in a\nE   AssertionError: took 9 s"


def test_a_test_that_passes_at_the_second_try_is_unstable(tmp_path, capsys):
    vms = VMs(({"a": SLOW, "b": "passed", "c": "skipped"}, 1), ({"a": "passed"}, 0))
    counts, said = checked(tmp_path, capsys, vms)
    assert counts == Counter(passed=2, skipped=1)
    assert vms.asked[1] == [f"{X}::a"]
    assert f"\nunstable: vm/x on 6.1: {X}::a (first: AssertionError: took 9 s)\n" in said
    assert "] second try, alone, of what failed in vm/x on 6.1\n" in said
    assert "vm/x on 6.1 again: 1 passed" in said and "FAILED vm/x" not in said
    suite = ElementTree.parse(tmp_path / "junit.xml").find("testsuite")
    assert (suite.get("tests"), suite.get("failures")) == ("3", "0")
    assert "took 9 s" in suite.find(f"testcase[@name='{X}::a']/flakyFailure").text


@pytest.mark.parametrize("second, status, why", [
    ("E   still slow", 1, "still slow"), ("skipped", 0, "skipped:"),
    ("died", 1, "during this test")])
def test_a_test_that_fails_twice_has_failed(tmp_path, capsys, second, status, why):
    vms = VMs(({"a": SLOW, "b": "passed"}, 1), ({"a": second}, status))
    counts, said = checked(tmp_path, capsys, vms)
    assert counts == Counter(passed=1, failed=1) and "unstable" not in said
    told = said.partition(f"FAILED vm/x on 6.1: {X}::a\n    first: ")[2]
    assert "took 9 s" in told.partition("again: ")[0] and why in told.partition("again: ")[2]
    failure = ElementTree.parse(tmp_path / "junit.xml").find(".//failure").text
    assert "took 9 s" in failure and why in failure


@pytest.mark.parametrize("outcomes, status, console", [
    ({"a": SLOW, "b": "passed"}, 99, ""), ({"a": "passed", "b": "died"}, 99, ""),
    ({"a": "passed"}, 99, ""), ({}, 99, ""),
    ({"a": "passed"}, 99, STALL + MODULE + "[ 9.1] BUG: unable to handle page fault\n"),
    ({"a": "died"}, 124, MODULE + "[ 9.1] BUG: KASAN: slab-use-after-free in x\n")])
def test_a_fault_of_the_kernel_is_not_repeated(tmp_path, capsys, outcomes, status, console):
    vms = VMs((outcomes, status), console=console)
    counts, said = checked(tmp_path, capsys, vms)
    assert counts["failed"] and len(vms.asked) == 1
    assert "second try" not in said and "the kernel reported a fault" in said


@pytest.mark.parametrize("status", [99, 124])
def test_tests_that_a_fault_prevented_run_at_the_end(tmp_path, capsys, status):
    """The test in which the kernel reported the fault has failed. The others tell whether there is
    more."""
    vms = VMs(({"a": "passed", "b": "died", "c": None, "d": None}, status),
              ({"c": "passed", "d": "passed"}, 0),
              console=MODULE + "[ 9.1] BUG: KASAN: slab-use-after-free in x\n")
    vms.after = MODULE
    counts, said = checked(tmp_path, capsys, vms)
    assert vms.asked[1] == [f"{X}::c", f"{X}::d"] and counts == Counter(passed=3, failed=1)
    assert f"FAILED vm/x on 6.1: {X}::b\n    the kernel reported a fault, during this test" in said


@pytest.mark.parametrize("status", [99, 124])
@pytest.mark.parametrize("report", [STALL, SOFT, POOL])
def test_a_stall_is_repeated(tmp_path, capsys, status, report):
    """A busy machine alone can cause it."""
    runs = ({"a": "died", "b": None}, status), ({"a": "passed", "b": "passed"}, 0)
    vms = VMs(*runs, console=MODULE + report)
    vms.after = MODULE
    counts, said = checked(tmp_path, capsys, vms)
    assert vms.asked[1] == [f"{X}::a", f"{X}::b"] and counts == Counter(passed=2)
    assert any(line.startswith(f"unstable: vm/x on 6.1: {X}::a") and report.strip() in line
               for line in said.splitlines())


def test_a_second_stall_counts(tmp_path, capsys):
    runs = ({"a": "died"}, 99), ({"a": "died"}, 99)
    counts, said = checked(tmp_path, capsys, VMs(*runs, console=MODULE + STALL))
    assert counts == Counter(failed=1) and "unstable" not in said


@pytest.mark.parametrize("report", [HUNG, STALL + BUG, SOFT + HUNG])
def test_a_stall_beside_a_fault_is_not_repeated(tmp_path, capsys, report):
    vms = VMs(({"a": "died"}, 99), console=MODULE + report)
    assert checked(tmp_path, capsys, vms)[0] == Counter(failed=1) and len(vms.asked) == 1


def test_a_vm_that_was_stopped_says_which_fault_came_first(tmp_path, capsys):
    vms = VMs(({"a": "died"}, pytests.process.SILENT),
              console=MODULE + "[ 9.1] BUG: x\n[ 9.2]  </TASK>\n" + "[ 10.0] word\n" * 90)
    _, said = checked(tmp_path, capsys, vms)
    assert "the kernel reported a fault:" in said and "[ 9.1] BUG: x" in said


@pytest.mark.parametrize("outcomes", [{"a": "passed", "b": "passed"}, {}])
@pytest.mark.parametrize("status", [99, 124])
@pytest.mark.parametrize("console", [STALL, STALL + MODULE])
def test_a_fault_before_a_module_is_loaded_is_repeated(tmp_path, capsys, outcomes, status, console):
    """No module of this project can have caused the fault."""
    vms = VMs((outcomes, status), ({"a": "passed", "b": "passed"}, 0), console=console)
    vms.after = MODULE
    counts, said = checked(tmp_path, capsys, vms)
    assert vms.asked == [[X], [X]] and counts == Counter(passed=3)
    why = "the kernel reported a fault before it had a module of this project"
    assert f"unstable: vm/x on 6.1: {pytests.WHOLE} (first: {why})\n" in said


def test_a_fault_of_an_earlier_boot_does_not_count(tmp_path, capsys):
    """The log of the step says why the VM was booted again."""
    why = "vm: booted again: the guest ended before the command began\n"
    panic = "[ 1.0] Kernel panic - not syncing: VFS: Unable to mount root fs\n"
    vms = VMs(({"a": "passed"}, 0), console=panic + why + MODULE)
    assert checked(tmp_path, capsys, vms)[0] == Counter(passed=1)
    assert (tmp_path / "vm-x-6.1/log").read_text(encoding="ascii") == why
    vms = VMs(({"a": "passed"}, 99), console=panic + why + MODULE + BUG)
    assert checked(tmp_path, capsys, vms)[0] == Counter(passed=1, failed=1)


def test_a_fault_at_the_second_try_counts(tmp_path, capsys):
    counts, said = checked(tmp_path, capsys, VMs(({"a": SLOW}, 1), ({"a": "passed"}, 99)))
    assert counts == Counter(passed=1, failed=1)
    assert f"FAILED vm/x on 6.1: {pytests.WHOLE}\n    the kernel reported a fault" in said


@pytest.mark.parametrize("status, why", [(124, "its time limit expired"), (125, "the VM ended")])
def test_tests_that_were_lost_are_repeated(tmp_path, capsys, status, why):
    lost = {f"l{n}": None for n in range(again.MOST_FAILED + 1)}
    vms = VMs(({"a": "passed", "b": SLOW, "c": "died"} | lost, status),
              ({"b": "passed", "c": "passed"} | dict.fromkeys(lost, "passed"), 0))
    counts, said = checked(tmp_path, capsys, vms)
    assert counts == Counter(passed=3 + len(lost))
    assert vms.asked[1] == [f"{X}::{name}" for name in ["b", "c", *lost]]
    assert said.count("\nunstable: ") == 2 + len(lost) and why in said


def test_tests_lost_twice_have_failed(tmp_path, capsys):
    vms = VMs(({"a": "died", "b": None}, 125), ({"a": "passed", "b": "died"}, 125))
    assert checked(tmp_path, capsys, vms)[0] == Counter(passed=1, failed=1)


@pytest.mark.parametrize("outcomes", [{}, {"a": "passed", "b": "passed"}])
def test_a_run_that_failed_as_a_whole_is_repeated(tmp_path, capsys, outcomes):
    good = {"a": "passed", "b": "passed"}
    vms = VMs((outcomes, 125), (good, 0))
    counts, said = checked(tmp_path, capsys, vms)
    assert vms.asked == [[X], [X]]
    assert counts == Counter(passed=3)
    assert f"unstable: vm/x on 6.1: {pytests.WHOLE} (first: the VM ended" in said
    for second in (({}, 125), (good, 125), ({"a": "passed", "b": SLOW}, 1)):
        counts, said = checked(tmp_path, capsys, VMs((outcomes, 125), second))
        assert counts["failed"] and "unstable" not in said


@pytest.mark.parametrize("steps, failed, repeated", [(1, 40, True), (1, 41, False),
                                                     (4, 10, True), (4, 11, False)])
def test_many_failures_are_not_repeated(tmp_path, capsys, steps, failed, repeated):
    names = [f"t{n}" for n in range(failed)]
    runs = [({name: SLOW for name in names}, 1)] * steps
    vms = VMs(*runs, *[({name: "passed" for name in names}, 0)] * steps)
    counts, said = checked(tmp_path, capsys, vms, *(
        plan.Step("vm", f"x{n}", "6.1", (X,), f"mark{n}") for n in range(steps)))
    assert counts == Counter({"passed" if repeated else "failed": steps * failed})
    assert len(vms.asked) == steps * (2 if repeated else 1)
    assert repeated or f"no second try: {steps * failed} tests failed" in said


@pytest.mark.parametrize("at_end, options, told", [
    (239, {}, "no second try of what failed in vm/x on 6.1: less than 4 minutes"),
    (3600, {"no_retry": True}, "")])
def test_no_second_try_without_time_or_with_no_retry(tmp_path, capsys, at_end, options, told):
    vms = VMs(({"a": SLOW}, 1), at_end=at_end)
    counts, said = checked(tmp_path, capsys, vms, **options)
    assert counts == Counter(failed=1) and told in said
    assert "second try, alone" not in said


def test_help_lists_no_retry():
    done = subprocess.run([TOP / "tools/check", "--help"], capture_output=True, text=True,
                          check=False, timeout=60)
    assert done.returncode == 0 and "--no-retry" in done.stdout


def test_only_vm_and_sanitize_have_a_second_try():
    steps = plan.steps(TOP, plan.KERNELS, False)
    results = [result.Result(str(step), [Case(f"{X}::a", "failed")]) for step in steps]
    found = [step for _, step in again.tries(steps, results)]
    names = {(step.area, step.name) for step in steps}
    assert {(step.area, step.name) for step in found} == {
        name for name in names if name[0] in ("vm", "sanitize")} - {
        ("sanitize", "build"), ("sanitize", "defects")}
    assert all(step.targets == (f"{X}::a",) for step in found)
    # A file that pytest cannot collect is not repeated: it would fail again.
    assert not again.tries(steps, [result.Result("vm/io on 6.1", [Case(X, "failed")])])
