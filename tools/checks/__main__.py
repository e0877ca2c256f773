# SPDX-License-Identifier: GPL-2.0
"""Runs the tests that a change needs, within 15 minutes on two idle CPUs: builds, linters, tests on
this machine, a core of tests in VMs, tests under the sanitizers, and the tests of what changed.
Time that is left goes to a sample of the others, another one for each commit. First installs
missing packages and kernels, which is not part of that time.

Tests that share a guest are one step: "vm/cdb+7" is vm/cdb and seven others. A guest that a busy
machine let stand still has a second try. So have, at the end and alone, up to 5 tests that failed.

The last line is "N passed, M failed, K skipped". Logs are kept in build/check/. The exit status is
0 if tests passed and none failed, 1 otherwise, and 2 for wrong arguments.

examples:
  tools/check --since HEAD~3
  tools/check --only lint --only 'host/sg_*'
  tools/check --only 'vm/e*' --kernel 7.2
  tools/check --only plant/ram-wrong-byte
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from testvm.command import catch_signals, positive

from . import choose, plants, process, pytests
from .result import (FAILED, PASSED, SKIPPED, Case, Result, last_line, reasons, refreshed,
                     write_junit)
from .steps import AREAS, KERNELS, TIMES, Step, Table, together

TOP = Path(__file__).resolve().parents[2]
# The time limit of a step: a machine may be this many times as slow as usual.
SLOWER = 10
LEAST_SECONDS = 900
BUILD_SECONDS = 7200    # a kernel may have to be built first
# With --minutes, steps that run at the end of the time have this many more seconds. A step that
# would not end in time on a machine that much slower does not begin.
GRACE_SECONDS = 900
SPARE = 2.5
MOST_SHOWN = 10         # tests of one step that failed
MOST_AGAIN = 5          # tests that have a second try


def parse() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        prog="tools/check", description=__doc__, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--since", default="", metavar="REV",
        help="what changed since this commit (default: uncommitted, or within 24 hours)")
    add("--changed", nargs="+", metavar="FILE", help="these files changed, whatever git says")
    add("--all", action="store_true", help="all of the areas build, lint, host and vm")
    add("--nightly", type=int, metavar="N", help="slice N, of 20 minutes, of all tests that not "
        "every run has; after the last slice comes the first")
    add("--only", action="append", default=[], metavar="AREA[/PATTERN]",
        help=f"only these steps; areas: {' '.join(AREAS)}. May be repeated")
    add("--kernel", default="", metavar="|".join(KERNELS),
        help="with --only: tests in VMs run with this kernel; without: its smoke tests")
    add("--first", metavar="FILE",
        help="stop at the first failure; a step with this test file comes first")
    add("--jobs", type=positive, default=choose.JOBS, metavar="N",
        help="number of steps that run at a time (default: two for each CPU, as tests wait)")
    add("--minutes", type=positive, default=24 * 60, metavar="N",
        help="a step that has not begun by then is skipped and named")
    add("--list", action="store_true", help="print the steps and exit")
    add("--times", action="store_true", help=f"take the times of the last run into {TIMES}")
    options = parser.parse_args()
    options.table = Table(TOP)
    try:
        options.steps, options.left_out, options.said = chosen(options)
    except ValueError as error:
        parser.error(str(error))
    return options


def chosen(options: argparse.Namespace) -> tuple[list[Step], list[Step], str]:
    """The steps that run, those for which there is no time, and what is to be said of the
    choice."""
    table = options.table
    if options.only or options.kernel:
        return table.named(options.only, options.kernel), [], "what was named"
    if options.all:
        return choose.everything(table), [], "everything"
    if options.nightly is not None:
        parts = choose.slices(table)
        number = options.nightly % len(parts)
        return parts[number], [], f"slice {number} of {len(parts)}"
    changed, commit = (options.changed, "") if options.changed else choose.changed_files(
        TOP, options.since)
    gate = choose.Gate(table, changed, commit)
    names = " ".join(subject.name for subject in gate.touched) or "nothing"
    return gate.steps, gate.left_out, f"changed: {names}"


class Check:
    """One run of tools/check."""

    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.folder = TOP / "build" / "check"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.runner = process.Runner()
        self.pool = ThreadPoolExecutor(options.jobs)
        self.results: list[Result] = []
        self.built: set[str] = {""}
        self.began = time.monotonic()

    def say(self, text: str) -> None:
        """Prints a line with the time since the start."""
        print(f"[{(time.monotonic() - self.began) / 60:5.1f}] {text}", flush=True)

    def prepare(self, steps: list[Step]) -> None:
        """Downloads or builds missing kernels, and compiles the guests' tests as pytest does:
        otherwise each guest would. Ignores errors: if a kernel is missing, its build fails."""
        kernels = sorted({step.kernel or step.needs for step in steps} - {""})
        for command in ([["tools/kernels", "prepare", *kernels]] if kernels else []) + [
                ["/usr/bin/python3", "-m", "pytest", "-p", "no:cacheprovider", "--co", "-q",
                 "tests/vm"]]:
            subprocess.run(command, check=False, cwd=TOP, stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL)

    def announce(self, steps: list[Step]) -> None:
        """Says what will run, and how long that takes."""
        areas = Counter(step.area for step in steps)
        self.say(f"{self.options.said}; {', '.join(f'{areas[area]} {area}' for area in areas)}; "
                 f"about {choose.wall(steps, self.options.table) / 60:.0f} minutes on an idle "
                 "machine")
        if self.options.left_out:
            self.say("no time for " + " ".join(sorted(step.path for step in self.options.left_out)))

    def over(self) -> bool:
        """Whether no more steps may begin."""
        return time.monotonic() - self.began > 60 * self.options.minutes or bool(
            self.options.first and any(result.of(FAILED) for result in self.results))

    def run_step(self, step: Step) -> None:
        """Runs one step and prints its result."""
        name, began = str(step), time.monotonic()
        left = self.began + 60 * self.options.minutes + GRACE_SECONDS - began
        limit = min(left, BUILD_SECONDS if step.builds else
                    max(SLOWER * step.seconds, LEAST_SECONDS))
        try:
            why = ("no time was left" if self.over() or SPARE * step.seconds > left else
                   "" if step.needs in self.built else f"{step.needs} was not built")
            if why:
                result = Result("", [Case(name, SKIPPED, message=why)])
            else:
                self.say(f"{name} begins")
                result = self.attempt(step, self.folder / step.slug, limit)
            if result.stall:
                self.say(f"{name}: once more, because the guest stood still: {result.stall}")
                result = self.attempt(step, self.folder / f"{step.slug}-again", limit)
        except Exception as error:  # pylint: disable=broad-except
            # An error in tools/check itself must count as a failure.
            result = Result("", [Case(name, FAILED, message=f"tools/check: {error!r}")])
        result.step, result.seconds = name, time.monotonic() - began
        self.results.append(result)
        if step.builds and not result.of(FAILED):
            self.built.add(step.kernel)
        self.say(f"{name}: {last_line([result])} in {result.seconds:.0f} s")
        self.show(result)

    def attempt(self, step: Step, folder: Path, limit: float) -> Result:
        """Runs one step, with its files in a folder."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        targets, log = list(step.targets), folder / "log"
        if step.area == "plant":
            return Result("", [plants.check(self.runner, TOP / targets[0], TOP, folder)])
        if step.kernel and not step.builds:
            return pytests.in_vm(self.runner, TOP, folder, step.kernel, targets, limit, step.mark,
                                 step.part)
        if targets:
            return pytests.on_host(self.runner, TOP, folder, targets, limit)
        status = self.runner.run(["make", "build-all", f"KERNELS={step.kernel}"] if step.builds
                                 else ["tools/lint", step.name], log, limit, TOP)
        return Result("", [Case(str(step), FAILED if status else PASSED,
                                message=f"status {status}\n{process.tail(log)}" if status else "")])

    def again(self, steps: list[Step]) -> None:
        """Runs tests that failed once more, when nothing else runs: others may have been in their
        way. Not if many failed, and not what a report of the kernel or an early end failed."""
        failed = [result for result in self.results if result.of(FAILED)]
        cases = [case for result in failed for case in result.of(FAILED)]
        if len(cases) > MOST_AGAIN or self.over() or not all(case.ended for case in cases):
            return
        for result in failed:
            step = next(step for step in steps if str(step) == result.step)
            names = tuple(case.name for case in result.of(FAILED))
            self.say(f"{result.step}: once more: {' '.join(names)}")
            new = self.attempt(replace(step, targets=names, part=""),
                               self.folder / f"{step.slug}-again", LEAST_SECONDS)
            passed = {case.name for case in new.of(PASSED) if all(one.ended for one in new.cases)}
            for case in result.of(FAILED):
                if case.name in passed:
                    case.outcome, case.unstable = PASSED, True
            self.show(result)

    @staticmethod
    def show(result: Result) -> None:
        """Prints why tests failed, were skipped, or failed at first."""
        failed = result.of(FAILED)
        for case in failed[:MOST_SHOWN]:
            print(f"FAILED {result.step}: {case.name}\n{reasons(case)}")
        if failed[MOST_SHOWN:]:
            print(f"FAILED {result.step}: {len(failed) - MOST_SHOWN} more")
        for reason, count in Counter(case.message for case in result.of(SKIPPED)).items():
            print(f"skipped {result.step}: {count} x {reason}")
        for case in result.of(PASSED):
            if case.message:
                print(f"{'unstable ' * case.unstable}{result.step}: {case.name}: "
                      f"{case.message.splitlines()[-1]}")
        sys.stdout.flush()

    def run(self, steps: list[Step]) -> None:
        """Runs builds one after the other, because each uses all CPUs, and then the other steps,
        --jobs of them at a time."""
        for kernel in dict.fromkeys(step.kernel if step.builds else step.needs for step in steps):
            if kernel not in self.built:
                self.run_step(self.options.table.build_of(kernel))
        guests = together([step for step in steps if not step.builds])
        list(self.pool.map(self.run_step, guests))
        self.again(guests)

    def run_all(self) -> None:
        """Runs the chosen steps, with --first those of one file before the others, and whole."""
        steps = [replace(step, part="") if self.options.first in step.targets else step
                 for step in self.options.steps]
        self.prepare(steps)
        self.began = time.monotonic()
        self.announce(steps)
        self.run([step for step in steps if self.options.first in step.targets])
        self.run([step for step in steps if self.options.first not in step.targets])


def main() -> int:
    """Runs the chosen steps."""
    options = parse()
    junit = TOP / "build/check/junit.xml"
    if options.list:
        print("\n".join(map(str, options.steps)))
        return 0
    if options.times:
        times = json.dumps(refreshed(options.table.times, junit), indent=0)
        (TOP / TIMES).write_text(times + "\n", encoding="utf-8")
        return 0
    catch_signals()
    check = Check(options)
    try:
        check.run_all()
    finally:
        check.runner.stop()
        check.pool.shutdown()
        print("---")
        for result in check.results:
            check.show(result)
        write_junit(check.results, junit)
        print(last_line(check.results), flush=True)
    outcomes = {case.outcome for result in check.results for case in result.cases}
    return 0 if PASSED in outcomes and FAILED not in outcomes else 1


if __name__ == "__main__":
    sys.exit(main())
