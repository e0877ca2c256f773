# SPDX-License-Identifier: GPL-2.0
"""tools/check: the results that it counts, also if a run ends early; its steps and their order."""
import fnmatch
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tools"))

from checks import __main__ as check  # noqa: E402
from checks import again, idle, plan, plants, process, pytests, result, shed, times  # noqa: E402
from checks import vmheader  # noqa: E402
from checks.result import Case  # noqa: E402

ONE = Case("t.py::one", "passed")
compile_for_guests = pytests.compile_for_guests


@pytest.fixture(autouse=True)
def nothing_compiled(monkeypatch):
    """Does not compile tests for guests, because no guest runs here."""
    monkeypatch.setattr(pytests, "compile_for_guests", lambda *_: None)


def record(**more):
    """A Record of t.py with the tests one, two and three."""
    return pytests.Record(["t.py::one", "t.py::two", "t.py::three"], **more)


def failures(cases):
    """The names and messages of failed tests."""
    return {case.name: case.message for case in cases if case.outcome == "failed"}


def test_a_fault_fails_a_run_whose_tests_passed():
    cases = pytests.judge(pytests.Record(["t.py::one"], [ONE], end=0), 99, "vm")
    assert failures(cases) == {"the run as a whole": "the kernel reported a fault"}


@pytest.mark.parametrize("status, why", [(99, "fault"), (124, "limit expired"), (125, "ended")])
def test_tests_lost_with_the_vm_are_failures(status, why):
    cases = pytests.judge(record(cases=[ONE], running="t.py::two"), status, "vm")
    found = failures(cases)
    assert set(found) == {"t.py::two", "t.py::three"}
    assert why in found["t.py::two"] and "during this test" in found["t.py::two"]
    assert "not run" in found["t.py::three"]


class Stopped:
    """Replaces the runner of programs: a VM that exceeded its time limit, with or without a
    fault."""

    def __init__(self, console):
        self.console = console

    def run(self, _words, log, *_args, **_environment):
        """Writes the files that tools/vm would have written when it was stopped in the first of two
        tests."""
        (log.parent / "console").write_text(self.console, encoding="ascii")
        (log.parent / "record").write_text(
            '{"collected": ["t.py::a", "t.py::b"]}\n{"start": "t.py::a"}\n', encoding="ascii")
        return process.TIMED_OUT


@pytest.mark.parametrize("console, why", [
    ("[ 1.0] BUG: KASAN: slab-use-after-free in x\n", "the kernel reported a fault"),
    ("[ 1.0] sd 0:0:0:0: [sda] Attached\n", "its time limit expired")])
def test_a_fault_of_a_stopped_vm_counts(tmp_path, console, why):
    cases = pytests.in_vm(Stopped(console), tmp_path, tmp_path, "6.1", ["t.py"], 60)
    found = failures(cases)
    assert set(found) == {"t.py::a", "t.py::b"} and all(why in said for said in found.values())


@pytest.mark.parametrize("status", [0, 1, 5, 125])
def test_no_test_at_all_is_a_failure(status):
    assert len(failures(pytests.judge(pytests.Record(end=status), status, "vm"))) == 1


def test_file_that_skips_all_its_tests_is_skipped(tmp_path):
    (tmp_path / "test_none.py").write_text(
        "import pytest\npytest.importorskip('no_such_module', reason='not here')\n",
        encoding="ascii")
    case, = pytests.on_host(process.Runner(), tmp_path, tmp_path, ["test_none.py"], 60)
    assert (case.outcome, case.message) == ("skipped", "Skipped: not here")


def test_good_status_with_a_failed_test_is_a_failure():
    cases = [ONE, Case("t.py::two", "failed", message="no")]
    assert len(failures(pytests.judge(pytests.Record([], cases, end=0), 0, "host"))) == 2
    assert len(failures(pytests.judge(pytests.Record([], cases, end=1), 1, "host"))) == 1


def test_bad_status_without_a_failed_test_is_a_failure():
    assert failures(pytests.judge(pytests.Record([], [ONE], end=1), 1, "host"))


def test_passed_tests_are_not_changed():
    assert pytests.judge(pytests.Record(["t.py::one"], [ONE], end=0), 0, "vm") == [ONE]


def test_exit_status_follows_the_counts():
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
    """Runs the tests above as tools/check does; returns the cases by name."""
    path = tmp_path / "test_planted.py"
    path.write_text(TESTS, encoding="ascii")
    runner = process.Runner(time.monotonic() + 120)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        cases = pytests.on_host(runner, tmp_path, tmp_path, [str(path)], 60)
    return {case.name.partition("::")[2]: case for case in cases}


def test_outcomes_of_pytest_are_read(tmp_path):
    cases = run_pytest(tmp_path)
    assert {name: case.outcome for name, case in cases.items()} == {
        "test_good": "passed", "test_bad": "failed", "test_end": "failed",
        "test_skipped": "skipped", "test_dies[1]": "passed", "test_dies[2]": "passed",
        "test_last": "passed"}
    assert "assert 1 == 2" in cases["test_bad"].message
    assert "no reason" in cases["test_skipped"].message


def test_tests_fail_if_pytest_dies(tmp_path):
    cases = run_pytest(tmp_path, DIE="1")
    assert {name for name, case in cases.items() if case.outcome == "failed"} == {
        "test_bad", "test_end", "test_dies[2]", "test_last"}


def ends(tmp_path, *command, timeout=60, silence=60, left=60):
    """Runs a program; returns how it ended, and the end of its log."""
    log = tmp_path / "log"
    runner = process.Runner(time.monotonic() + left)
    status = runner.run(list(command), log, timeout, tmp_path, silence=silence)
    return status, log.read_text(encoding="utf-8").splitlines()[-1]


def test_runner_returns_the_exit_status(tmp_path):
    assert ends(tmp_path, "true")[0] == 0
    assert ends(tmp_path, "sh", "-c", "exit 3")[0] == 3
    assert ends(tmp_path, "sh", "-c", "kill -9 $$")[0] == -9
    with pytest.raises(process.Stopped):
        ends(tmp_path, "true", left=-1)


@pytest.mark.parametrize("limit, status", [("timeout", process.TIMED_OUT),
                                           ("silence", process.SILENT),
                                           ("left", process.RUN_TIMED_OUT)])
def test_a_hanging_vm_is_ended_with_a_reason(tmp_path, limit, status):
    # The program's children must end with it: they would keep the log open.
    found, said = ends(tmp_path, "sh", "-c", "sleep 60 & wait", **{limit: 0.3})
    told = re.fullmatch(r"stopped after (\d+) s: (.*)", said)
    # On a busy machine it takes longer, but never as long as the program.
    assert found == status and told[2] == process.WHY[status] and int(told[1]) < 50


def test_a_vm_that_prints_is_not_stopped(tmp_path):
    script = "for n in 1 2 3 4 5 6; do echo $n; sleep 1; done"
    assert ends(tmp_path, "sh", "-c", script, silence=5) == (0, "6")


def test_a_hanging_test_is_named_with_its_stack(tmp_path, monkeypatch):
    path = tmp_path / "test_planted.py"
    path.write_text("import time\ndef test_good(): pass\ndef test_hangs(): time.sleep(60)\n",
                    encoding="ascii")
    monkeypatch.setattr(pytests, "STACK_SECONDS", 1)
    others = process.Runner.run.__defaults__[1:]
    monkeypatch.setattr(process.Runner.run, "__defaults__", (8, *others))
    step = plan.Step("host", "x", targets=(str(path),))
    found = plan.run(step, process.Runner(), tmp_path, tmp_path)
    assert [case.outcome for case in found.cases] == ["passed", "failed"]
    why = process.WHY[process.SILENT]
    assert found.failed[0].message == f"{why}, during this test"
    assert any("in test_hangs" in line for line in found.ends), found.ends
    assert found.tail.endswith(why)


# A VM whose second test sleeps in the kernel: it neither prints nor ends.
HANGS = """#!/bin/sh
exec >> "$SMQ_RECORD"
echo '{"collected": ["t.py::a", "t.py::b", "t.py::c"], "limits": {"t.py::a": 60, "t.py::b": LIMIT}}'
echo '{"start": "t.py::a"}'
echo '{"done": "t.py::a", "outcome": "passed", "seconds": 1, "message": ""}'
echo '{"start": "t.py::b"}'
sleep SLEEP
"""


@pytest.mark.parametrize("limit, ended", [(0.2, True), (60, False), ("null", False)])
def test_a_test_that_cannot_end_ends_its_vm(tmp_path, limit, ended):
    """The VM ends soon after three times the limit. The test's failure is final; the tests that
    were lost run again."""
    tool = tmp_path / "tools/vm"
    tool.parent.mkdir()
    tool.write_text(HANGS.replace("LIMIT", str(limit)).replace("SLEEP", "60" if ended else "2"),
                    encoding="ascii")
    tool.chmod(0o755)
    began = time.monotonic()
    cases = pytests.in_vm(process.Runner(), tmp_path, tmp_path, "6.1", ["t.py"], 600)
    assert time.monotonic() - began < 50
    assert [case.outcome for case in cases[:3]] == ["passed", "failed", "failed"]
    assert (process.WHY[process.OVERDUE] in cases[1].message) == ended
    assert (process.WHY[process.OVERDUE] in (tmp_path / "log").read_text("utf-8")) == ended
    step = plan.Step("vm", "x", kernel="6.1", targets=("t.py",))
    tries = again.tries([step], [result.Result(str(step), cases)])
    assert tries[0][1].targets == (("t.py::c",) if ended else ("t.py::b", "t.py::c"))


def test_each_test_of_a_vm_has_its_limit_in_the_record(tmp_path, monkeypatch):
    """The time begins again with each test."""
    now = [0.0]
    monkeypatch.setattr(pytests.time, "monotonic", lambda: now[0])
    path = tmp_path / "record"
    overdue = pytests.Overdue(path)
    assert not overdue()
    lines = ['{"collected": ["a", "b"], "limits": {"a": 10, "b": 20}}', '{"start": "a"}',
             '{"done": "a", "outcome": "passed", "seconds": 1, "message": ""}',
             '{"start": "b"}']
    for seen, wait, expected in ((1, 1e6, False), (2, 29, False), (2, 2, True), (3, 100, False),
                                 (4, 59, False), (4, 2, True)):
        path.write_text("\n".join(lines[:seen]) + "\n", encoding="ascii")
        overdue()
        now[0] += wait
        assert overdue() == expected, (seen, wait)


def test_limits_of_the_tests_in_a_vm_are_recorded(tmp_path):
    """Without its limit a test that cannot end would keep its VM until the time of silence."""
    path = tmp_path / "record"
    words = [*pytests.command(["tests/vm/test_sg_rights.py", "tests/vm/test_sg_who.py"]),
             "--collect-only", "-q"]
    subprocess.run([sys.executable, *words[1:]], cwd=TOP, check=True, capture_output=True,
                   env={**os.environ, **pytests.environment(path)}, timeout=100)
    record_of_all = pytests.read(path)
    assert set(record_of_all.limits) == set(record_of_all.collected)
    name = "tests/vm/test_sg_who.py::test_32_bit_program_gets_the_same_results"
    assert record_of_all.limits[name] > 2 * 200
    assert 2 * 60 < min(record_of_all.limits.values()) < 2 * 200


def test_no_program_starts_while_all_are_being_stopped(tmp_path):
    """stop() comes after run() has begun, and before run() starts the program."""
    class Late(process.Runner):
        """A runner that is stopped while run() asks for the time that is left."""
        def seconds_left(self):
            self.stop()
            return 60

    with pytest.raises(process.Stopped):
        Late().run(["touch", "started"], tmp_path / "log", 60, tmp_path)
    assert not (tmp_path / "started").exists()


def test_programs_are_charged_with_their_cpu_time(tmp_path):
    runner = process.Runner()
    burn = "import time\nwhile time.process_time() < 0.4: pass"
    # The CPU time of the program's child counts as well.
    runner.run(["sh", "-c", f"{sys.executable} -c '{burn}'; true"], tmp_path / "log", 60, tmp_path)
    used = runner.used()
    assert 0.4 <= used < 10
    other = []
    thread = threading.Thread(target=lambda: other.append(runner.used()))
    thread.start()
    thread.join()
    assert other == [0] and runner.used() == used


def plant(**more):
    """A planted defect with which the test one must fail and the test two must pass."""
    return plants.Plant(Path("p.patch"), "data", ["t.py::one"], ["t.py::two"],
                        shows=["wrong byte"], **more)


RED = Case("t.py::one[a]", "failed", message="a wrong byte")
GREEN = Case("t.py::two", "passed")


def test_noticed_plant_passes():
    plants.judge(plant(), [RED, GREEN])


@pytest.mark.parametrize("cases, why", [
    ([Case("t.py::one[a]", "passed"), GREEN], "in spite of the defect"),
    ([RED, Case("t.py::one[b]", "skipped"), GREEN], "in spite of the defect"),
    ([Case("t.py::one", "failed", message="no such file"), GREEN], "no text matches"),
    ([RED, Case("t.py::two", "failed")], "too"),
    ([RED, GREEN, Case("the run as a whole", "failed", message="fault")], "too"),
    ([RED], "there is no test t.py::two"),
    ([Case("t.py::one_more", "failed", message="a wrong byte"), GREEN], "there is no test"),
])
def test_unnoticed_plant_fails(cases, why):
    with pytest.raises(plants.PlantError, match=why):
        plants.judge(plant(), cases)


def planted(tmp_path, diff, header="Area: x\nRun: cat file\nStatus: 0\nShows: new\n"):
    """Applies a patch to a tree whose only file has the text "old", and checks the result."""
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
    (CHANGE, "Area: x\nRun: cat file\nStatus: 0\nShows: old\n", "no text matches"),
    (CHANGE, "Area: x\nRun: cat file\n", "needs"),
    (CHANGE, "Area: x\nShows: new\n", "needs"),
])
def test_failing_patch_is_reported(tmp_path, diff, header, why):
    with pytest.raises(plants.PlantError, match=why):
        planted(tmp_path, diff, header)


def test_every_patch_names_files_that_exist():
    found = [plants.parse(path) for path in (TOP / "tests/plant").glob("*.patch")]
    assert {"data", "core", "bounds", "sg_io", "vm", "lint"} <= {one.area for one in found}
    for one in found:
        for test in one.red + one.green:
            assert (TOP / test.partition("::")[0]).is_file(), f"{one.name}: {test}"


def test_steps_are_selected_by_area_and_pattern():
    steps = plan.steps(TOP, plan.KERNELS, False)
    slow = plan.chosen(steps, ["slow"])
    assert [str(step) for step in slow] == [
        "slow/arm64", "slow/arm64_build", "slow/arm64_pages", "slow/boot_root", "slow/clang",
        "slow/debian13", "slow/dkms_chroot", "slow/fio_machines", "slow/kernel_source",
        "slow/packages_bookworm", "slow/packages_trixie", "slow/states", "slow/suites_bookworm",
        "slow/suites_sid", "slow/suites_trixie", "slow/matrix_more on 6.1", "slow/multipath on 6.1",
        "slow/target_configs on 6.1", "slow/vhost on 6.1"]
    assert [str(step) for step in plan.chosen(steps, ["proof"])] == ["proof/litmus"]
    default = plan.chosen(steps, [])
    assert {step.area for step in default} == set(plan.AREAS) - {"sanitize", "slow", "proof"}
    left = [step for step in steps if step not in default]
    assert {step.area for step in left} == {"sanitize", "slow", "proof"}
    assert [str(step) for step in plan.chosen(steps, ["lint/s*", "build/7.2"])] == [
        "build/7.2", "lint/sparse", "lint/shell", "lint/spelling"]
    smoke = [str(step) for step in plan.chosen(steps, ["vm/smoke*"])]
    assert smoke == ["vm/smoke on 6.12", *(f"vm/smoke_{n + 1} on 7.2"
                                           for n in range(plan.NEWEST_SMOKES))]
    for pattern in ("nothing", "vm/nothing"):
        with pytest.raises(ValueError, match=f"--only {pattern}"):
            plan.chosen(steps, [pattern])


def test_turns_run_all_steps_that_are_not_default():
    steps = plan.steps(TOP, plan.KERNELS, False)
    left = [step for step in steps if step not in plan.chosen(steps, []) and not step.builds]
    parts = [plan.turn(steps, number) for number in range(plan.TURNS)]
    assert sorted(map(str, left)) == sorted(str(step) for part in parts for step in part)
    assert all(parts[1::2]) and plan.turn(steps, plan.TURNS + 3) == parts[3]
    # Only every second turn needs the sanitizers' kernel.
    for number, part in enumerate(parts):
        assert {step.area for step in part} <= (
            {"sanitize"} if number % 2 else {"slow", "proof"}), number


def test_the_proof_runs_on_the_host_and_needs_no_kernel():
    step, = plan.chosen(plan.steps(TOP, plan.KERNELS, False), ["proof"])
    assert step.named and not step.kernel and not step.needs
    assert (TOP / step.targets[0]).is_file()


def test_list_has_the_default_steps_and_the_turn():
    def listed(*words):
        done = subprocess.run([TOP / "tools/check", "--list", *words], capture_output=True,
                              text=True, check=True, timeout=60)
        return done.stdout.splitlines()

    always = set(listed())
    yields = re.compile("plant/|host/(vm$|bench_)|vm/.* on (6.12|7.2)$|"
                        f"vm/({'|'.join(plan.NOT_ON_NEWEST)}) on")
    rest = {name for name in always if name.startswith("vm/") and not yields.match(name)}
    left_out = {}
    for number in (3, 4, 6):
        part = {str(step) for step in plan.turn(plan.steps(TOP, plan.KERNELS, False), number)}
        found = listed("--turn", str(number))
        assert len(found) == len(set(found)) and set(found) - always == part
        left_out[number] = always - set(found)
    assert left_out[3] == set(filter(yields.match, always))
    # Two turns without the sanitizers have all the rest.
    assert left_out[4] | left_out[6] == rest and not left_out[4] & left_out[6]
    assert abs(len(left_out[4]) - len(left_out[6])) <= 1


def test_the_ci_has_a_turn_and_a_limit():
    text = (TOP / ".ci/run").read_text(encoding="utf-8")
    assert " --turn " in text and " --minutes " in text


def test_sanitizers_need_their_kernel():
    steps = plan.steps(TOP, plan.KERNELS, False)
    ours = plan.chosen(steps, ["sanitize"])
    assert str(ours[0]) == "sanitize/build" and not ours[0].needs
    assert {step.needs for step in ours[1:]} == {ours[0].kernel}
    for step in ours[1:]:
        assert (TOP / step.targets[0]).is_file(), step
    for pattern in plan.SANITIZED:
        assert fnmatch.filter([step.name for step in ours], pattern), pattern
    for name in plan.NOT_SANITIZED:
        path, _, test = name.partition("::")
        text = (TOP / path).read_text(encoding="utf-8")
        assert not test or f"\ndef {test.partition('[')[0]}(" in text, name


def test_files_that_need_the_same_vm_share_one():
    every = plan.chosen(plan.steps(TOP, plan.KERNELS, False), list(plan.AREAS))
    shared = plan.together(TOP, every)
    # Each file runs once, and each step runs in one guest.
    assert sorted(target for step in shared for target in step.targets) == sorted(
        target for step in every for target in step.targets)
    assert len({str(step) for step in shared}) == len({step.slug for step in shared}) == len(shared)
    guests = [step for step in shared if len(step.targets) > 1 and "smoke" not in step.name]
    assert {step.area for step in guests} == set(plan.TOGETHER)
    for step in guests:
        assert len(step.targets) <= plan.TOGETHER[step.area]
        assert step.name.endswith(f"+{len(step.targets) - 1}")
        if step.area == "vm":
            vmheader.of([TOP / target for target in step.targets])
    # A step that always runs alone, or that is the only chosen one, keeps its name.
    for pattern in ("vm/storage", "vm/io", "sanitize/eh", "vm/smoke", "host/vm"):
        assert plan.together(TOP, plan.chosen(every, [pattern])) == plan.chosen(every, [pattern])


def test_order_of_the_steps():
    """First what a run must have, then what only this turn has, then what the next turn will leave
    out; the sanitizers last. The longest begin first."""
    every = plan.chosen(plan.steps(TOP, plan.KERNELS, False), list(plan.AREAS))
    expected = {(step.area, step.kernel, step.mark, target): step.expected
                for step in every for target in step.targets}
    shared = [step for step in plan.together(TOP, every) if not step.builds]
    for step in shared:
        if "+" in step.name:
            assert step.shared == sum(expected[step.area, step.kernel, step.mark, target]
                                      for target in step.targets)

    def kind(step):
        name = step.name.partition("+")[0]
        if step.area == "sanitize":
            return 4
        if step.area == "lint" or step.area == "host" and not re.match("vm$|bench_", name):
            return 0
        if step.area in ("slow", "proof"):
            return 1
        return 3 if (step.kernel == plan.FULL and name not in plan.NOT_ON_NEWEST) else 2

    order = [(kind(step), -step.expected) for step in shared]
    assert order == sorted(order) and {first for first, _ in order} == set(range(5))
    must = [step for step in every if step.must]
    assert {step.area for step in must} == {"build", "lint", "host"}
    assert {"host/vm", "host/bench_run", "host/uml", "sanitize/build"} & set(map(str, must)) == {
        "host/uml"}
    # Each name in the table of expected times must be the name of a step.
    names = {f"{step.area}/{step.name}" for step in plan.steps(TOP, plan.KERNELS, False)}
    assert {name for name in plan.EXPECTED if "/" in name} <= names
    assert set(plan.AREAS) <= set(plan.EXPECTED)


def test_times_of_the_last_run_are_shown(tmp_path, capsys):
    junit = tmp_path / "junit.xml"
    assert times.show(junit) == 1 and "no times of an earlier run" in capsys.readouterr().err
    io, eh = "tests/vm/test_io.py", "tests/vm/test_eh.py"
    result.write_junit([
        result.Result("vm/io+1 on 6.1", [
            Case(f"{io}::a", "passed", 3), Case(f"{eh}::b", "passed", 9),
            Case(f"{io}::c", "failed", 4)], seconds=30, cpu=44),
        result.Result("sanitize/io", [Case(f"{io}::a", "passed", 12)], seconds=70, cpu=60),
        result.Result("lint/shell", [Case("lint/shell", "passed")], seconds=2, cpu=1)], junit)
    assert times.show(junit) == 0
    said = [line.split(maxsplit=3) for line in capsys.readouterr().out.splitlines() if line]
    assert ["100.0", "104", "5", "all"] not in said and ["102.0", "105", "5", "all"] in said
    for row in (["70.0", "60", "1", "sanitize"], ["30.0", "44", "3", "6.1"],
                ["70.0", "60", "1", "uml-sanitize"], ["2.0", "1", "1", "host"]):
        assert row in said
    at = [" ".join(row[1:]) for row in said if "::" in " ".join(row) or ".py on" in " ".join(row)]
    assert at == [f"1 {io} on uml-sanitize", f"1 {eh} on 6.1", f"2 {io} on 6.1",
                  f"1 {io}::a on uml-sanitize", f"1 {eh}::b on 6.1", f"1 {io}::c on 6.1",
                  f"1 {io}::a on 6.1"]


def test_bad_header_fails_one_step(tmp_path):
    """A bad header affects only its own step: the others still share a guest."""
    (tmp_path / "x.py").write_text("# vm: word\n", encoding="ascii")
    (tmp_path / "y.py").write_text("", encoding="ascii")
    steps = [plan.Step("vm", name, "6.1", (f"{name}.py",)) for name in "xyy"]
    assert {step.name for step in plan.together(tmp_path, steps)} == {"x", "y+1"}


def test_guests_find_their_tests_compiled(tmp_path):
    (tmp_path / "tests/vm").mkdir(parents=True)
    test = tmp_path / "tests/vm/test_one.py"
    test.write_text("def test_it():\n    assert 1\n", encoding="ascii")
    compile_for_guests(process.Runner(time.monotonic() + 60), tmp_path, tmp_path)
    assert list(test.parent.glob("__pycache__/test_one.*-pytest-*.pyc"))


def scheduled(tmp_path, monkeypatch, run, jobs, *patterns, fill=False):
    """Runs a whole check in which run(step) replaces each step. Returns the names of the steps in
    the order in which they began, and the check."""
    began = []

    def run_step(step, _runner, _top, _folder):
        began.append(str(step))
        return result.Result(str(step), [Case(str(step), run(step) or "passed")])

    monkeypatch.setattr(plan, "run", run_step)
    one = check.Check(SimpleNamespace(
        steps=plan.chosen(plan.steps(TOP, plan.KERNELS, False), list(patterns)), jobs=jobs,
        minutes=60, plain=True, no_retry=True, fill=fill))
    one.folder = tmp_path
    one.run()
    return began, one


def test_builds_run_first_then_all_steps_in_order(tmp_path, monkeypatch, capsys):
    began, _ = scheduled(tmp_path, monkeypatch, lambda step: None, 1)
    every = plan.chosen(plan.steps(TOP, plan.KERNELS, False), [])
    tests = plan.together(TOP, [step for step in every if not step.builds])
    builds = [step for step in every if step.builds]
    assert began == [str(step) for step in builds + tests] and "sanitize/build" not in began
    said = capsys.readouterr().out
    assert "] builds done: the CPUs were " in said or "] tests done: the CPUs were " in said


@pytest.mark.parametrize("pattern, build", [("sanitize/eh", "sanitize/build"),
                                            ("vm/io", "build/6.1"), ("lint/sparse", None)])
def test_a_step_builds_what_it_needs(tmp_path, monkeypatch, pattern, build):
    began, one = scheduled(tmp_path, monkeypatch, lambda step: None, 1, pattern)
    assert len(began) == (2 if build else 1) and (not build or began[0] == build)
    assert not any(found.failed for found in one.results)
    # If a build fails, only the steps that need it are skipped.
    began, one = scheduled(tmp_path, monkeypatch, lambda step: "failed" if step.builds else None,
                           1, pattern, "lint/shell")
    assert sorted(began) == sorted([build or pattern, "lint/shell"])
    assert sorted(case.outcome for found in one.results for case in found.cases) == (
        ["failed", "passed", "skipped"] if build else ["passed", "passed"])


@pytest.mark.parametrize("patterns", [["vm/storage", "vm/pvscsi"],
                                      ["sanitize/defects", "sanitize/eh"],
                                      ["plant/vm-module-warns", "vm/eh"]])
def test_two_steps_run_at_a_time_but_never_two_builds(tmp_path, monkeypatch, patterns):
    """Two steps run at a time, also if they are of different areas. A build does not run beside
    another build."""
    together, alone = threading.Barrier(2), threading.Lock()

    def run(step):
        if step.builds:
            assert alone.acquire(blocking=False), "two builds at a time"
            time.sleep(0.1)
            alone.release()
        else:
            together.wait(20)
    began, one = scheduled(tmp_path, monkeypatch, run, 2, *patterns)
    assert len(began) >= 3 and not any(found.failed for found in one.results)


def test_the_sanitizers_run_after_all_others_have_ended(tmp_path, monkeypatch):
    """Nothing else runs beside them or their build."""
    ended = []

    def run(step):
        if step.needs == plan.SANITIZE or step.kernel == plan.SANITIZE:
            assert len(ended) >= 3
            return
        time.sleep(0.2)
        ended.append(step)
    began, one = scheduled(tmp_path, monkeypatch, run, 2, "vm/eh", "vm/storage", "sanitize/eh")
    assert began[0] == "build/6.1" and began[3:] == ["sanitize/build", "sanitize/eh"]
    assert not any(found.failed for found in one.results)


@pytest.mark.parametrize("slower, left, failed", [(0.8, 0, 0), (3, 20, 0), (16, 40, 1)])
def test_a_slow_machine_leaves_out_steps(tmp_path, monkeypatch, capsys, slower, left, failed):
    """With --minutes a step that would not end in time is skipped, and named. If too few of the
    tests in VMs begin, the run has failed. A machine whose steps take @slower times as long leaves
    out more than @left steps."""
    now = time.monotonic()
    spent = [0.0]

    def run(step):
        spent[0] += step.expected * slower / 2
        assert step.must or shed_by.seconds_left() > check.again.LEAST_SECONDS, step

    monkeypatch.setattr(time, "monotonic", lambda: now + spent[0])
    real = check.process.Runner

    def runner(*_):
        nonlocal shed_by
        shed_by = real(now + 90 * 60)
        return shed_by
    shed_by = None
    monkeypatch.setattr(check.process, "Runner", runner)
    _, one = scheduled(tmp_path, monkeypatch, run, 1)
    cases = [case for found in one.results for case in found.cases]
    skipped = [case for case in cases if case.outcome == "skipped"]
    assert (len(skipped) > left) if left else not skipped
    assert sum(case.outcome == "failed" for case in cases) == failed
    assert all(case.message == "no time was left" for case in skipped)
    said = capsys.readouterr().out
    assert (f"no time is left for {len(skipped)} steps: " in said) == bool(skipped)
    names = {str(step) for step in one.steps + one.builds}
    assert {case.name for case in skipped} < names
    assert not any(step.must for step in one.steps if str(step) in {c.name for c in skipped})


@pytest.mark.parametrize("outcome, seconds, speed", [
    ("passed", 1, "faster"), ("failed", 1, "usual"), ("skipped", 1, "usual"),
    ("passed", 9000, "slower"), ("failed", 9000, "slower"), ("skipped", 9000, "slower")])
def test_speed_is_not_learned_from_a_step_that_ended_early(outcome, seconds, speed):
    """A step that failed or was skipped at once says nothing about the machine."""
    step = plan.Step("vm", "policy", plan.FULL)
    fits = []
    for left in (1.0, 1.3):     # times the step's usual seconds; the margin is 1.25
        one = shed.Shed(SimpleNamespace(
            seconds_left=lambda left=left: shed.RESERVE + left * step.expected))
        one.ended(step, result.Result(str(step), [Case("a", outcome)], seconds))
        fits.append(one.fits(step))
    assert fits == {"faster": [True, True], "usual": [False, True],
                    "slower": [False, False]}[speed]


def test_used_share_of_the_cpus_is_measured(tmp_path, monkeypatch):
    before = idle.cpu_seconds()
    assert before.busy_since(before) == 1
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        pass
    after = idle.cpu_seconds()
    # Both numbers are rounded separately: with all CPUs busy, "busy" may be slightly larger.
    assert 0.2 < after.busy - before.busy < after.all - before.all + 0.001
    # The columns: user nice system idle iowait irq softirq steal guest guest_nice. user and nice
    # include the last two.
    monkeypatch.setattr(idle, "STAT", tmp_path / "stat")
    idle.STAT.write_text("cpu 100 200 300 1000 500 10 20 70 90 90\ncpu0 1\n", encoding="ascii")
    found, hertz = idle.cpu_seconds(), os.sysconf("SC_CLK_TCK")
    assert (found.busy * hertz, found.all * hertz) == (700, 2200)
    assert found.busy_since(idle.CpuTime(0, 0)) == pytest.approx(700 / 2200)


@pytest.mark.parametrize("fill, busy, most", [
    (True, 0.5, 3), (True, 0.79, 3), (True, 0.81, 2), (True, 1.0, 2), (False, 0.0, 2)])
def test_one_more_step_runs_while_cpus_are_idle(tmp_path, monkeypatch, fill, busy, most):
    """At most one more step than --jobs runs, and only after a time in which CPUs were idle."""
    running, seen, lock = set(), [], threading.Lock()
    began = time.monotonic()

    def cpu_seconds():
        now = time.monotonic() - began
        return idle.CpuTime(busy * now, now)

    def run(step):
        with lock:
            running.add(step)
            seen.append((len(running), time.monotonic() - began))
        time.sleep(0.6)
        with lock:
            running.remove(step)

    monkeypatch.setattr(idle, "cpu_seconds", cpu_seconds)
    monkeypatch.setattr(idle, "SECONDS", 0.2)
    monkeypatch.setattr(check, "POLL_SECONDS", 0.02)
    names, one = scheduled(tmp_path, monkeypatch, run, 2, "lint", "host/b*", fill=fill)
    assert len(names) == len(set(names)) == len(one.results) > 9
    assert max(count for count, _ in seen) == most
    assert all(at > 0.2 for count, at in seen if count == 3)


@pytest.mark.parametrize("words, what", [
    (["--kernel", "5.0"], "--kernel 5.0"), (["--jobs", "0"], "--jobs 0"),
    (["--minutes", "0"], "--minutes 0"), (["--only", "x/y"], "area 'x'")])
def test_bad_options_are_named(words, what):
    done = subprocess.run([TOP / "tools/check", *words], capture_output=True, text=True,
                          check=False, timeout=60)
    assert done.returncode == 2 and what in done.stderr


def test_the_public_ci_runs_steps_of_tools_check_only():
    """.github/workflows does nothing that tools/check --only does not, and its steps exist."""
    text = (TOP / ".github/workflows/check.yml").read_text(encoding="ascii")
    runs = [line for line in re.findall(r"^ +- run: (.*)", text, re.M)
            if not line.startswith("apt-get ")]
    assert runs == ["tools/check --plain --only ${{ matrix.only }}"]
    only, = re.findall(r"^ +only: \[(.*)\]$", text, re.M)
    steps = plan.steps(TOP, plan.KERNELS, False)
    for pattern in only.split(", "):
        assert plan.chosen(steps, [pattern]), pattern
