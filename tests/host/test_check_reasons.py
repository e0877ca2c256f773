# SPDX-License-Identifier: GPL-2.0
"""tools/check ends with a bounded number of lines that give the reasons for failed tests."""
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tools"))

from checks import __main__ as check  # noqa: E402
from checks import plan, process, pytests, reasons  # noqa: E402
from checks.result import Case, Result  # noqa: E402


def failed(name, message):
    """Makes a failed test."""
    return Case(name, "failed", message=message)


def why(results):
    """The lines that give reasons."""
    return [line for line in reasons.summary(results) if line.startswith(" ")]


ASSERTION = """tests/vm/test_x.py:12: in test_x
    fio(disk)
tests/vm/kit/fiojob.py:50: in fio
    return fio_report(argv)
tests/vm/kit/fiojob.py:40: in fio_report
    assert good
E   AssertionError: fio --name=job: status 1, errors [5]
E     fio: io_u error on file /dev/sda: Input/output error
E   assert (False)""" + "\nE    +  where False = more" * 20


def test_failed_assertion_reports_its_place():
    told = why([Result("vm/x on 6.1", [failed("t.py::x", ASSERTION)])])
    assert len(told) == reasons.CASE_LINES
    for part in ("test_x.py:12: in test_x", "fiojob.py:40", "status 1, errors [5]",
                 "Input/output error", "assert (False)"):
        assert any(part in line for line in told), part


def test_kernel_log_in_an_assertion_is_reduced_to_its_warning():
    log = "".join(f"\nE   [  1.{n:06}] sd 0:0:0:0: [sda] Attached" for n in range(60))
    log += "\nE   [  2.0] WARNING: CPU: 1 PID: 9 at drivers/x.c:5 x+0x1/0x2" + log
    told = reasons.telling(f"t.py:1: in x\nE   AssertionError: the kernel log tells:{log}")
    assert len(told) == reasons.CASE_LINES and any("WARNING: CPU: 1" in line for line in told)


def test_failed_build_reports_its_error():
    log = "status 2\n" + "  CC [M]  file.o\n" * 20 + "x.c:1: error: no\n" + "  LD x\n" * 20
    assert "    x.c:1: error: no" in why([Result("build/6.1", [failed("build/6.1", log)])])


def test_tests_that_did_not_run_share_one_reason():
    cases = [failed(f"t.py::{n}", "not run: the kernel reported a fault") for n in range(200)]
    text = reasons.summary([Result("vm/x", cases)])
    assert len(text) == 201 and text[-1] == "    not run: the kernel reported a fault"


def test_total_output_is_bounded_and_each_step_gets_lines():
    many = "\n".join(f"E   {'x' * 5000} {n}" for n in range(90))
    ends = ["vm: the kernel reported a fault"] + ["[ 1.0] line"] * 50
    results = [Result(f"vm/{step}", [failed(f"t.py::{n}", f"{step} {n}\n{many}")
                                     for n in range(10)], ends=ends) for step in range(5)]
    results.append(Result("lint/last", [failed("lint/last", "status 1\nthe last one's reason")]))
    told = why(results)
    assert len(told) <= reasons.ALL_LINES
    assert max(map(len, told)) <= reasons.WIDTH + 6
    assert told[-1] == "    the last one's reason"
    assert sum("the kernel reported a fault" in line for line in told) == 5
    crowd = [Result(f"vm/{n}", [failed("a", many[:20000])]) for n in range(500)]
    assert len(why(crowd)) <= reasons.ALL_LINES
    assert sum(line.startswith("FAILED") for line in reasons.summary(crowd)) == 500


FAULT = """tests/vm/test_x.py::test_x
vm: the guest ended before its command did; its last messages:
[    9.0] something
vm: the kernel reported a fault:
[    5.9] sd 0:0:0:0: [sda] Attached
[    6.0] BUG: kernel NULL pointer dereference, address: 0000000000000008
[    6.0] Hardware name: QEMU Standard PC
[    6.0] RIP: 0010:smq_cmd_done+0x5/0x70 [smq]
[    6.0] RSP: 0018:ffffb7c18004bdd8 EFLAGS: 00010246
[    6.0] Call Trace:
[    6.0]  ? __die+0x1a/0x60
[    6.0]  ram_complete_due+0x8b/0x100 [smq_ram]
"""
HANG = """tests/vm/test_x.py::test_x Timeout (0:01:20)!
Thread 0x1 (most recent call first):
  File "kit/host.py", line 37 in run
"""


def test_kernel_reports_are_found_in_the_log(tmp_path):
    log = tmp_path / "log"
    log.write_text(FAULT, encoding="ascii")
    told = reasons.of_run(log)
    assert told[0] == "vm: the kernel reported a fault:"
    for part in ("BUG: kernel NULL", "RIP: 0010:smq_cmd_done", "ram_complete_due"):
        assert any(part in line for line in told), part
    assert not any(part in line for line in told for part in ("RSP", "Hardware", "__die"))


@pytest.mark.parametrize("text, first", [
    (HANG, "Timeout (0:01:20)!"), ("vm: stopped after 5 s\n", "vm: stopped after 5 s"),
    ("1 failed in 3 s\n", None), ("", None)])
def test_timeouts_of_test_and_vm_are_found_in_the_log(tmp_path, text, first):
    log = tmp_path / "log"
    log.write_text(text, encoding="ascii")
    told = reasons.of_run(log)
    assert (told[0] if told else None) == first
    assert first is None or len(told) == len(text.splitlines())
    assert not reasons.of_run(tmp_path / "none")


class Broken:
    """Takes the place of process.Runner. Its VM ends because the kernel has reported a fault."""

    def run(self, _words, log, *_args, **_environment):
        """Writes the log and the record of a VM in which the first of two tests was running."""
        log.write_text(FAULT, encoding="ascii")
        (log.parent / "record").write_text(
            '{"collected": ["t.py::a", "t.py::b"]}\n{"start": "t.py::a"}\n', encoding="ascii")
        return 99


def test_the_end_of_the_output_names_all_failures(tmp_path, capsys):
    step = plan.Step("vm", "x", "6.1", ("t.py",))
    one = SimpleNamespace(results=[plan.run(step, Broken(), tmp_path, tmp_path)],
                          folder=tmp_path, progress=SimpleNamespace(close=lambda: None))
    counts = check.Check.report(one)
    said = capsys.readouterr().out
    assert counts == Counter(failed=2)
    for part in ("FAILED vm/x on 6.1: t.py::a\n    the kernel reported a fault, during this test\n",
                 "FAILED vm/x on 6.1: t.py::b\n    not run: the kernel",
                 "    | vm: the kernel reported a fault:\n", "BUG: kernel NULL pointer"):
        assert part in said, said


def test_failed_tests_of_pytest_are_reported(tmp_path):
    path = tmp_path / "test_planted.py"
    path.write_text("def test_bad():\n    found = 3\n    assert found == 4, 'of the four'\n",
                    encoding="ascii")
    runner = process.Runner(time.monotonic() + 120)
    cases = pytests.on_host(runner, tmp_path, tmp_path, [str(path)], 60)
    told = why([Result("host/planted", cases)])
    assert any("test_planted.py:3: in test_bad" in line for line in told)
    assert any("AssertionError: of the four" in line for line in told)
    assert any("assert 3 == 4" in line for line in told)
