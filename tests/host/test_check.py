# SPDX-License-Identifier: GPL-2.0
"""tools/check: the results that it counts, also if a run ends early; what a change gets."""
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from checks import __main__ as check
from checks import choose, plants, process, pytests, result, steps
from checks.result import Case, Result

TOP = Path(__file__).resolve().parents[2]

TABLE = steps.Table(TOP)
TESTS = """
import os, pytest


@pytest.fixture
def broken_end():
    yield
    raise ValueError("at the end")

def test_good(): pass
def test_bad(): assert 1 == 2
def test_end(broken_end): pass
@pytest.mark.skip(reason="no reason")
def test_skipped(): pass
@pytest.mark.parametrize("n", [1, 2])
def test_dies(n):
    if n == 2 and os.environ.get("DIE"): os._exit(7)
def test_last(): pass
"""


def run_pytest(tmp_path):
    """Runs the tests above as tools/check does; returns the cases by name."""
    path = tmp_path / "test_planted.py"
    path.write_text(TESTS, encoding="ascii")
    found = pytests.on_host(process.Runner(), tmp_path, tmp_path, [str(path)], 120)
    return {case.name.partition("::")[2]: case for case in found.cases}


def test_outcomes_of_pytest_are_read(tmp_path):
    cases = run_pytest(tmp_path)
    assert Counter(case.outcome for case in cases.values()) == {
        "passed": 4, "failed": 2, "skipped": 1}
    assert "assert 1 == 2" in result.reasons(cases["test_bad"])
    assert "at the end" in cases["test_end"].message
    assert "no reason" in cases["test_skipped"].message


def test_parts_of_a_file_are_all_of_it(tmp_path):
    gate = choose.Gate(TABLE, ["drivers/sg/run.c"], "seed")
    part = next(step for step in gate.steps if step.name == "sg_events" and step.part)
    assert part.seconds <= choose.PART_SECONDS[0] and re.search(r"part \d+/\d+$", str(part))
    path, found = tmp_path / "test_x.py", []
    path.write_text(TESTS, encoding="ascii")
    for number in range(3):
        subprocess.run(pytests._command([str(path)], part=f"{number}/3"), cwd=tmp_path, check=False,
                       env={**os.environ, **pytests._environment(tmp_path)})
        found += [case.name for case in pytests.judge(tmp_path / "record", 1) if case.ended]
        (tmp_path / "record").unlink()
    assert len(found) == len(set(found)) == 7


def test_tests_fail_if_pytest_dies(tmp_path, monkeypatch):
    monkeypatch.setenv("DIE", "1")
    cases = run_pytest(tmp_path)
    assert {name for name, case in cases.items() if case.outcome == "failed"} == {
        "test_bad", "test_end", "test_dies[2]", "test_last"}
    assert "during this test" in cases["test_dies[2]"].message
    assert "not run" in cases["test_last"].message


@pytest.mark.parametrize("entries, status, failed", [
    ([{"end": 0}], 0, 1), ([{"end": 5}], 5, 1), ([], 125, 1),
    (["passed", {"end": 0}], 0, 0), (["passed", {"end": 1}], 1, 1),
    (["passed", {"end": 0}], 99, 1), (["failed", {"end": 0}], 0, 2),
    (["failed", {"end": 1}], 1, 1), (["skipped", {"end": 5}], 5, 0),
    ([{"collected": ["x", "y"]}, "passed", {"start": "y"}], 124, 1)])
def test_a_run_that_went_wrong_has_failed(tmp_path, entries, status, failed):
    """No test at all, a status that does not fit, and a report of the kernel are failures."""
    path = tmp_path / "record"
    path.write_text("".join(json.dumps(
        entry if isinstance(entry, dict) else
        {"done": "x", "outcome": entry, "seconds": 1, "message": ""}) + "\n"
        for entry in entries), encoding="ascii")
    cases = pytests.judge(path, status)
    assert len([case for case in cases if case.outcome == "failed"]) == failed


GUEST = """#!/bin/sh
log=$(dirname "$SMQ_RECORD")/console
echo "$CONSOLE" > "$log"
echo '{"collected": ["a"]}' > "$SMQ_RECORD"
echo '{"done": "a", "outcome": "passed", "seconds": 1, "message": ""}' >> "$SMQ_RECORD"
echo '{"end": 0}' >> "$SMQ_RECORD"
"""


@pytest.mark.parametrize("console, failed, stalled", [
    ("[ 1.0] sd 0:0:0:0: [sda] Attached", False, False),
    ("[ 1.0] BUG: KASAN: slab-use-after-free in x", True, False),
    ("[ 1.0] watchdog: BUG: soft lockup - CPU#1 stuck for 23s!", True, True)])
def test_a_report_of_the_kernel_fails_a_run(tmp_path, monkeypatch, console, failed, stalled):
    """The tests passed, and tools/vm has no bad status because it was stopped."""
    tool = tmp_path / "tools/vm"
    tool.parent.mkdir()
    tool.write_text(GUEST, encoding="ascii")
    tool.chmod(0o755)
    monkeypatch.setenv("CONSOLE", console)
    found = pytests.in_vm(process.Runner(), tmp_path, tmp_path, "6.1", ["t.py"], 60)
    assert bool(found.of("failed")) == failed and bool(found.stall) == stalled
    assert not failed or console[8:] in found.of("failed")[0].message


def test_a_program_that_hangs_is_ended_with_its_children(tmp_path):
    began = time.monotonic()
    status = process.Runner().run(["sh", "-c", "sleep 60 & wait"], tmp_path / "log", 1, tmp_path)
    assert status == process.TIMED_OUT and time.monotonic() - began < 40


def test_no_program_starts_after_the_stop(tmp_path):
    runner = process.Runner()
    assert runner.run(["false"], tmp_path / "log", 9, tmp_path) == 1
    runner.stop()
    runner.run(["touch", "started"], tmp_path / "log", 9, tmp_path)
    assert not (tmp_path / "started").exists()


@pytest.fixture(name="run")
def run_fixture(tmp_path, monkeypatch):
    """Runs tools/check with steps that do nothing; returns the order in which steps began, the
    output, and the exit status."""
    began = []
    monkeypatch.setattr(check.Check, "prepare", lambda *_: None)
    monkeypatch.setattr(check, "TOP", tmp_path)
    monkeypatch.setattr(check, "Table", lambda _top: TABLE)
    (tmp_path / "build/check").mkdir(parents=True)

    def run(capsys, *words, ends=lambda step: Result("", [Case(str(step), "passed")])):
        def attempt(_self, step, *_more):
            began.append(str(step))
            return ends(step)
        monkeypatch.setattr(check.Check, "attempt", attempt)
        monkeypatch.setattr(sys, "argv", ["tools/check", *words])
        status = check.main()
        return began, capsys.readouterr().out, status
    return run


def test_builds_come_first_and_their_failure_skips_tests(run, capsys):
    began, out, status = run(capsys, "--only", "vm/eh", "--kernel", "7.2", "--only", "lint/types",
                             ends=lambda step: Result("", [Case("x", "failed")]))
    assert began == ["build/7.2", "lint/types"] and status == 1
    assert "skipped vm/eh on 7.2: 1 x 7.2 was not built" in out
    assert out.endswith("0 passed, 2 failed, 1 skipped\n")


def test_a_guest_that_stood_still_has_one_second_try(run, capsys):
    began, out, status = run(
        capsys, "--only", "vm/eh",
        ends=lambda step: Result("", [Case("x", "passed" if step.builds else "failed")],
                                 stall="" if step.builds else "soft lockup"))
    assert began == ["build/uml-perf", "vm/eh on uml-perf", "vm/eh on uml-perf"] and status == 1
    assert "once more, because the guest stood still: soft lockup" in out


@pytest.mark.parametrize("tries, ended, passed", [
    (["failed", "passed"], True, 1), (["failed", "failed"], True, 0), (["failed"], False, 0)])
def test_tests_that_failed_run_once_more_alone(run, capsys, tries, ended, passed):
    """But not if the guest ended early."""
    left = list(tries)

    def ends(step):
        if step.area == "vm":
            return Result("", [Case("t.py::x", left.pop(0), 1, "late", ended)])
        return Result("", [Case(str(step), "passed")])
    began, out, status = run(capsys, "--only", "vm/eh", "--only", "lint/types", ends=ends)
    assert began[3:] == ["vm/eh on uml-perf"] * (len(tries) - 1) and not left
    assert (status == 0) == bool(passed) == ("unstable vm/eh on uml-perf: t.py::x" in out)


def test_a_signal_during_a_build_stops_it(run, capsys, monkeypatch):
    stopped = []
    monkeypatch.setattr(process.Runner, "stop", lambda self: stopped.append(self))
    with pytest.raises(SystemExit):
        run(capsys, "--only", "build/6.1", ends=lambda _step: sys.exit(143))
    assert stopped


def test_the_first_failure_ends_a_run_with_first(run, capsys):
    began, _, status = run(
        capsys, "--changed", "drivers/sg/run.c", "--first", "tests/host/test_sg_cdb.py",
        ends=lambda step: Result("", [Case("x", "passed" if step.builds else "failed")]))
    assert began == ["build/6.1", "host/sg_cdb"] and status == 1


def test_steps_that_do_not_fit_into_the_time_are_named(run, capsys, monkeypatch):
    monkeypatch.setattr(check, "GRACE_SECONDS", -60)
    began, out, status = run(capsys, "--only", "lint", "--minutes", "1")
    assert not began and status == 1 and out.count("no time was left") >= len(steps.LINTERS)


def test_times_of_a_run_are_taken_from_its_results(tmp_path):
    result.write_junit([
        Result("vm/a+1 on 6.1", [Case("tests/a.py::x", "passed", 2), Case("tests/a.py::y", "passed",
                                 3), Case("tests/b.py::x", "failed", 9)], 60),
        Result("host/c", [Case("tests/c.py::x", "passed", 1)], 4)], tmp_path / "junit.xml")
    known = {"host/c": 9, "tests/b.py on 6.1": 1, "d": 2}
    assert result.refreshed(known, tmp_path / "junit.xml") == {
        "d": 2, "host/c": 4, "tests/a.py on 6.1": 5, "tests/b.py on 6.1": 1}
    assert list(result.failures(tmp_path / "junit.xml")) == ["tests/b.py::x (vm/a+1 on 6.1)"]


@pytest.mark.parametrize("changed", [
    "drivers/sg/run.c", "drivers/core/eh.c", "drivers/conv/attach.c", "docs/testing.md",
    "drivers/policy/prio.c", "tools/src/sg_io/issue/run/run.c", "tools/bench/run", "tools/vm", "x"])
def test_each_change_gets_a_run_of_15_minutes(changed):
    gate = choose.Gate(TABLE, [changed], "seed")
    assert choose.wall(gate.steps, TABLE) <= 60 * choose.MINUTES
    names = {str(step) for step in gate.steps}
    assert {"build/6.1", "build/6.12", "build/7.2", "lint/checkpatch", "host/docs"} <= names
    assert len({step.kernel for step in gate.steps} & {"6.1", "7.2", "uml-sanitize"}) == 3
    for subject in gate.touched:
        tests = {step.path for step in gate.steps if subject.has(step)}
        left = {step.path for step in gate.left_out}
        wanted = {step.path for step in TABLE.steps if subject.has(step) and step.area == "vm"}
        assert not wanted - tests - left, "neither run nor named"


def test_a_changed_test_runs_and_time_that_is_left_goes_to_others():
    gate = choose.Gate(TABLE, ["tests/vm/test_state.py"], "seed")
    assert "vm/state" in {step.path for step in gate.steps} and not gate.left_out
    others = [{str(step) for step in choose.Gate(TABLE, [], seed).steps} for seed in "ab"]
    assert others[0] != others[1]


def test_slices_have_everything_that_not_each_run_has():
    parts = choose.slices(TABLE)
    there = {step for part in parts for step in part}
    always = set(choose.Gate(TABLE, [], "").fixed())
    count = Counter((step.area, step.name, step.kernel, step.mark) for step in there)
    for step in set(TABLE.steps) - always:
        found = count[step.area, step.name, step.kernel, step.mark]
        assert step.builds or found == len(choose._parts(step, choose.SLICE_PART_SECONDS))
    assert len(there) == sum(map(len, parts))
    assert max(choose.wall(part, TABLE) for part in parts) <= 66 * choose.SLICE_MINUTES


def test_each_test_belongs_to_a_subject_or_always_runs():
    subjects = choose.subjects(TOP)
    for step in TABLE.steps:
        assert step.area != "vm" or any(subject.has(step) for subject in subjects), step
    for subject in subjects:
        for pattern in subject.tests:
            assert any(choose.fnmatch.fnmatchcase(step.path, pattern) for step in TABLE.steps), (
                f"{subject.name}: no test matches {pattern}")
        for pattern in subject.paths:
            path = pattern.partition("*")[0]
            assert list(TOP.glob(f"{path}*")) or "*" in pattern, f"{subject.name}: no {pattern}"


def test_each_file_says_where_it_runs():
    """On User Mode Linux and under the sanitizers, or why not."""
    for path in sorted((TOP / "tests/vm").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if path.parent.name in ("slow", "sanitize"):
            continue
        on = " ".join(re.findall(r"^# on: (.*)$", text, re.M)).split()
        reasons = re.findall(r"^# not on (\S+): .", text, re.M)
        assert not set(on + reasons).difference(steps.PLACES), path
        assert {"uml", "sanitize"} <= set(on + reasons), f"{path}: # on: or # not on"
        assert "smoke" in text or not set(on) & {"core", "6.12", "7.2"}, f"{path}: no smoke tests"


def test_files_share_guests_that_have_the_same_words_and_kernel():
    found = steps.together([step for step in TABLE.steps if step.area in ("vm", "host")])
    files = [target for step in found if step.kernel == "6.1" and not step.mark
             for target in step.targets]
    assert len(files) == len(set(files)) and len(files) > len(
        [step for step in found if step.kernel == "6.1"])
    assert all(len(step.targets) == 1 for step in found if step.area == "host")


@pytest.mark.parametrize("words, what", [
    (["--only", "vn"], "matches none of: the areas build lint"),
    (["--only", "lint/x"], "matches none of: checkpatch commits"),
    (["--jobs", "0"], "--jobs: invalid positive value: '0'"),
    (["--since", "no-such"], "git diff: fatal: ")])
def test_bad_options_are_named(words, what):
    done = subprocess.run([TOP / "tools/check", "--list", *words], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 2 and what in done.stderr


@pytest.mark.parametrize("path", sorted((TOP / "tests/plant").glob("*.patch")),
                         ids=lambda path: path.stem)
def test_plants_apply_and_their_tests_exist(path):
    header, _ = plants.parse(path)
    assert header["Subject"][0] in {subject.name for subject in choose.subjects(TOP)} | {"lint"}
    assert all((TOP / test.partition("::")[0]).exists() for test in header["Red"])
    subprocess.run(["git", "apply", "--check", path], cwd=TOP, check=True)


@pytest.mark.parametrize("message, good", [
    ("x\n\nFixes: 1f2e3d4c5b6a (\"sg: x\")\nFound-by: reading\n", True), ("x: y\n", True),
    ("x\n\nFixes: 1f2e3d4c5b6a (\"sg: x\")\nFound-by: host/sg_explore\n", True),
    ("x\n\nFixes: 1f2e3d4c5b6a (\"sg: x\")\n", False), ("x\n\nFound-by: user\n", False),
    ("x\n\nFixes: 1f2 (\"sg: x\")\nFound-by: fuzz\n", False),
    ("x\n\nFixes: 1f2e3d4c5b6a (\"sg: x\")\nFound-by: luck\n", False)])
def test_a_mend_says_what_found_the_fault(message, good):
    done = subprocess.run([TOP / "tools/hooks/commit-msg"], input=message, text=True,
                          capture_output=True, check=False)
    assert (done.returncode == 0) == good and bool(done.stdout) != good
