# SPDX-License-Identifier: GPL-2.0
"""What tools/check counts, above all when a run does not go to its end."""
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tools"))

from checks import plan, plants, process, pytests, result  # noqa: E402
from checks.result import Case  # noqa: E402

ONE = Case("t.py::one", "passed")


def record(**more):
    """A record of t.py with the tests one, two and three."""
    return pytests.Record(["t.py::one", "t.py::two", "t.py::three"], **more)


def failures(cases):
    """Names and messages of what failed."""
    return {case.name: case.message for case in cases if case.outcome == "failed"}


def test_a_fault_fails_a_run_whose_tests_passed():
    cases = pytests.judge(pytests.Record(["t.py::one"], [ONE], end=0), 99, "vm")
    assert failures(cases) == {"the run as a whole": "the kernel reported a fault"}


@pytest.mark.parametrize("status, why", [(99, "fault"), (124, "time was over"), (125, "ended")])
def test_tests_lost_with_the_vm_failed(status, why):
    cases = pytests.judge(record(cases=[ONE], running="t.py::two"), status, "vm")
    found = failures(cases)
    assert set(found) == {"t.py::two", "t.py::three"}
    assert why in found["t.py::two"] and "during this test" in found["t.py::two"]
    assert "not run" in found["t.py::three"]


class Stopped:
    """In the place of what runs programs: a VM whose time was over, with a fault or without."""

    def __init__(self, console):
        self.console = console

    def run(self, _words, log, *_args, **_environment):
        """Leaves what tools/vm would in the first of two tests."""
        (log.parent / "console").write_text(self.console, encoding="ascii")
        (log.parent / "record").write_text(
            '{"collected": ["t.py::a", "t.py::b"]}\n{"start": "t.py::a"}\n', encoding="ascii")
        return process.TIMED_OUT


@pytest.mark.parametrize("console, why", [
    ("[ 1.0] BUG: KASAN: slab-use-after-free in x\n", "the kernel reported a fault"),
    ("[ 1.0] sd 0:0:0:0: [sda] Attached\n", "its time was over")])
def test_a_fault_of_a_vm_that_was_stopped_is_one(tmp_path, console, why):
    cases = pytests.in_vm(Stopped(console), tmp_path, tmp_path, "6.1", ["t.py"], 60)
    found = failures(cases)
    assert set(found) == {"t.py::a", "t.py::b"} and all(why in said for said in found.values())


@pytest.mark.parametrize("status", [0, 1, 5, 125])
def test_no_test_at_all_is_a_failure(status):
    assert len(failures(pytests.judge(pytests.Record(end=status), status, "vm"))) == 1


def test_good_end_with_a_failed_test_is_not_believed():
    cases = [ONE, Case("t.py::two", "failed", message="no")]
    assert len(failures(pytests.judge(pytests.Record([], cases, end=0), 0, "host"))) == 2
    assert len(failures(pytests.judge(pytests.Record([], cases, end=1), 1, "host"))) == 1


def test_bad_end_without_a_failed_test_is_a_failure():
    assert failures(pytests.judge(pytests.Record([], [ONE], end=1), 1, "host"))


def test_all_good():
    assert pytests.judge(pytests.Record(["t.py::one"], [ONE], end=0), 0, "vm") == [ONE]


def test_sum_and_exit_status():
    counts = Counter(passed=3, failed=0, skipped=2)
    assert result.last_line(counts) == "3 passed, 0 failed, 2 skipped"
    assert result.exit_status(counts) == 0
    assert result.exit_status(Counter(passed=3, failed=1)) == 1
    assert result.exit_status(Counter(skipped=3)) == 1
    assert result.exit_status(Counter()) == 1


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


def run_pytest(tmp_path, **environment):
    """The tests above by way of what runs them for tools/check."""
    path = tmp_path / "test_planted.py"
    path.write_text(TESTS, encoding="ascii")
    runner = process.Runner(time.monotonic() + 120)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        cases = pytests.on_host(runner, tmp_path, tmp_path, [str(path)], 60)
    return {case.name.partition("::")[2]: case for case in cases}


def test_outcomes_of_pytest(tmp_path):
    cases = run_pytest(tmp_path)
    assert {name: case.outcome for name, case in cases.items()} == {
        "test_good": "passed", "test_bad": "failed", "test_end": "failed",
        "test_skipped": "skipped", "test_dies[1]": "passed", "test_dies[2]": "passed",
        "test_last": "passed"}
    assert "assert 1 == 2" in cases["test_bad"].message
    assert "no reason" in cases["test_skipped"].message


def test_pytest_that_dies(tmp_path):
    cases = run_pytest(tmp_path, DIE="1")
    assert {name for name, case in cases.items() if case.outcome == "failed"} == {
        "test_bad", "test_end", "test_dies[2]", "test_last"}


def test_runs_end(tmp_path):
    runner = process.Runner(time.monotonic() + 60)
    assert runner.run(["sleep", "60"], tmp_path / "log", 0.3, tmp_path) == process.TIMED_OUT
    late = process.Runner(time.monotonic() - 1)
    with pytest.raises(process.Stopped):
        late.run(["true"], tmp_path / "log", 10, tmp_path)


def plant(**more):
    """A plant that turns one red and leaves two green."""
    return plants.Plant(Path("p.patch"), "data", ["t.py::one"], ["t.py::two"],
                        shows=["wrong byte"], **more)


RED = Case("t.py::one[a]", "failed", message="a wrong byte")
GREEN = Case("t.py::two", "passed")


def test_plant_that_shows():
    plants.judge(plant(), [RED, GREEN])


@pytest.mark.parametrize("cases, why", [
    ([Case("t.py::one[a]", "passed"), GREEN], "in spite of the defect"),
    ([RED, Case("t.py::one[b]", "skipped"), GREEN], "in spite of the defect"),
    ([Case("t.py::one", "failed", message="no such file"), GREEN], "nothing says"),
    ([RED, Case("t.py::two", "failed")], "too"),
    ([RED, GREEN, Case("the run as a whole", "failed", message="fault")], "too"),
    ([RED], "there is no test t.py::two"),
    ([Case("t.py::one_more", "failed", message="a wrong byte"), GREEN], "there is no test"),
])
def test_plant_that_does_not_show(cases, why):
    with pytest.raises(plants.PlantError, match=why):
        plants.judge(plant(), cases)


def planted(tmp_path, diff, header="Area: x\nRun: cat file\nStatus: 0\nShows: new\n"):
    """Checks a patch of a tree with one file, which says old."""
    top = tmp_path / "top"
    top.mkdir()
    (top / "file").write_text("old\n", encoding="ascii")
    patch = tmp_path / "p.patch"
    patch.write_text(f"{header}\n--- a/file\n+++ b/file\n{diff}", encoding="ascii")
    folder = tmp_path / "folder"
    folder.mkdir()
    plants.check(process.Runner(time.monotonic() + 60), patch, top, folder)
    assert (top / "file").read_text(encoding="ascii") == "old\n"


CHANGE = "@@ -1 +1 @@\n-old\n+new\n"


def test_patch_is_applied_to_a_copy(tmp_path):
    planted(tmp_path, CHANGE)


@pytest.mark.parametrize("diff, header, why", [
    ("@@ -1 +1 @@\n-older\n+new\n", "Area: x\nRun: cat file\nShows: new\n", "does not apply"),
    (CHANGE, "Area: x\nRun: cat file\nStatus: 3\nShows: new\n", "ended with status 0, not 3"),
    (CHANGE, "Area: x\nRun: cat file\nStatus: 0\nShows: old\n", "nothing says"),
    (CHANGE, "Area: x\nRun: cat file\n", "needs"),
    (CHANGE, "Area: x\nShows: new\n", "needs"),
])
def test_patch_that_fails(tmp_path, diff, header, why):
    with pytest.raises(plants.PlantError, match=why):
        planted(tmp_path, diff, header)


def test_every_patch_of_the_project_is_in_order():
    found = [plants.parse(path) for path in (TOP / "tests/plant").glob("*.patch")]
    assert {"data", "core", "bounds", "sg_io", "vm", "lint"} <= {one.area for one in found}
    for one in found:
        for test in one.red + one.green:
            assert (TOP / test.partition("::")[0]).is_file(), f"{one.name}: {test}"


def test_steps_are_chosen_by_area_and_pattern():
    steps = plan.steps(TOP, plan.KERNELS, False)
    assert plan.chosen(steps, []) == steps
    assert [str(step) for step in plan.chosen(steps, ["lint/s*", "build/7.2"])] == [
        "build/7.2", "lint/sparse", "lint/shell"]
    smoke = [str(step) for step in plan.chosen(steps, ["vm/smoke"])]
    assert smoke == ["vm/smoke on 6.12", "vm/smoke on 7.2"]
    for pattern in ("nothing", "vm/nothing"):
        with pytest.raises(ValueError, match=f"--only {pattern}"):
            plan.chosen(steps, [pattern])


def test_sanitizers_come_last_and_need_their_kernel():
    steps = plan.steps(TOP, plan.KERNELS, False)
    ours = plan.chosen(steps, ["sanitize"])
    assert steps[-len(ours):] == ours
    assert str(ours[0]) == "sanitize/build" and not ours[0].needs
    assert {step.needs for step in ours[1:]} == {ours[0].kernel}
    for step in ours[1:]:
        assert (TOP / step.targets[0]).is_file(), step
    for name in plan.NOT_SANITIZED:
        assert (TOP / name.partition("::")[0]).is_file(), name


@pytest.mark.parametrize("words, what", [
    (["--kernel", "5.0"], "--kernel 5.0"), (["--jobs", "0"], "--jobs 0"),
    (["--minutes", "0"], "--minutes 0"), (["--only", "x/y"], "area 'x'")])
def test_bad_options_are_named(words, what):
    done = subprocess.run([TOP / "tools/check", *words], capture_output=True, text=True,
                          check=False, timeout=60)
    assert done.returncode == 2 and what in done.stderr
