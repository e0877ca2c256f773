# SPDX-License-Identifier: GPL-2.0
"""Runs all tests: builds for every kernel, linters, tests on this machine and in VMs, planted
defects. First installs missing packages and downloads missing kernels.

Steps whose tests need the same kind of VM share a VM: "vm/cdb+7" is vm/cdb and the next seven
listed steps that can share its VM.

Tests that failed in VMs run once more at the end, alone. If a test passes then, it counts as
passed and is listed as unstable. If the kernel reported a fault while it had a module of this
project, only the tests that could not run after it run once more; but if it reported only soft
lockups, RCU stalls or workqueue lockups, the test has a second try, too.

A step that prints nothing for half an hour is stopped. A message says what it was doing.

The last line is "N passed, M failed, K skipped". Logs are kept in build/check/.
"""

import argparse
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from types import FrameType
from typing import Any

from . import again, idle, plan, process, pytests, reasons, shed, times
from .progress import Progress
from .result import (FAILED, SKIPPED, Case, Result, exit_status, last_line, total,
                     write_junit)

TOP = Path(__file__).resolve().parents[2]
PACKAGES = ["build", "run", "bench", "lint", "kernels", "uml", "targets", "fio",
            "examples", "top", "arm64"]
# The default of --jobs. Even a small CI machine can run two VMs of two CPUs each.
MOST_JOBS = 2
POLL_SECONDS = 0.5
FIO_SECONDS = 600       # to download and build fio

EPILOG = """\
exit status: 0 tests passed and none failed; 1 otherwise; 2 wrong arguments

examples:
  tools/check --only lint --only host
  tools/check --only 'vm/e*' --kernel 7.2 --full
  tools/check --only plant/ram-wrong-byte
  tools/check --only sanitize --only slow
  tools/check --times
"""


def parse() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        prog="tools/check", description=__doc__, epilog=EPILOG, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--only", action="append", default=[], metavar="AREA[/PATTERN]",
        help=f"only these steps; areas: {' '.join(plan.AREAS)}; sanitize, slow "
             "and proof run only if they are named. May be repeated")
    add("--turn", type=int, metavar="N",
        help="also part N of the steps that otherwise run only if they are named; "
             f"{plan.TURNS} successive values of N run all of them")
    add("--kernel", action="append", default=[], metavar="|".join(plan.KERNELS),
        help="only these kernels (default: all)")
    add("--full", action="store_true",
        help=f"all tests on every kernel, not only on {plan.FULL}")
    add("--jobs", type=int, metavar="N",
        help="number of steps that run at a time, after the modules are built (default: "
             f"{min(MOST_JOBS, os.cpu_count() or 1)}; and one more if more than a fifth of the CPU "
             f"time of the last {idle.SECONDS} s was idle, because tests wait a lot)")
    add("--minutes", type=int, metavar="N",
        help="end after this time: a step that would not end in time, by its usual time and this "
             "machine's speed, does not begin, and counts as skipped. Steps of build, lint and "
             "most of host always begin; what still runs at the end of the time has failed "
             "(default: no limit)")
    add("--no-retry", action="store_true",
        help="do not repeat tests that failed in VMs. Without this option they are not repeated "
             f"either if more than {again.MOST_FAILED} failed or less than "
             f"{again.LEAST_SECONDS // 60} minutes remain")
    add("--list", action="store_true", help="print the steps and exit")
    add("--times", action="store_true",
        help="print how the last run spent its time, and exit: sums per area and kernel, "
             "steps, files, and the tests that took longest")
    add("--plain", action="store_true", help="no live status line, even on a terminal")
    options = parser.parse_args()
    for kernel in options.kernel:
        if kernel not in plan.KERNELS:
            parser.error(f"--kernel {kernel}: expected one of {' '.join(plan.KERNELS)}")
    options.fill = options.jobs is None
    if options.fill:
        options.jobs = min(MOST_JOBS, os.cpu_count() or 1)
    for name in ("jobs", "minutes"):
        value = getattr(options, name)
        if value is not None and value < 1:
            parser.error(f"--{name} {value}: at least 1")
    kernels = tuple(k for k in plan.KERNELS if not options.kernel or k in options.kernel)
    try:
        every = plan.steps(TOP, kernels, options.full)
        options.steps = plan.chosen(every, options.only)
        number, options.turn = options.turn, []
        if number is not None:
            options.turn = plan.turn(every, number)
            always = plan.beside(options.steps, number, options.turn)
            options.steps = [step for step in every if step in always + options.turn]
    except ValueError as error:
        parser.error(str(error))
    return options


class Check:
    """One run of tools/check."""

    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.folder = TOP / "build" / "check"
        self.runner = process.Runner(time.monotonic() + 60 * (options.minutes or math.inf))
        needed = {step.needs for step in options.steps if step.needs}
        self.builds = [step for step in options.steps if step.builds]
        self.builds += [step for step in plan.builds()
                        if step.kernel in needed and step not in self.builds]
        self.shed = shed.Shed(self.runner)
        self.steps = plan.together(TOP, [step for step in options.steps if not step.builds])
        self.progress = Progress(len(self.steps) + len(self.builds), not options.plain)
        self.used = idle.cpu_seconds()
        self.second: list[plan.Step] = []
        self.results: list[Result] = []
        self.built: set[str] = set()

    def packages(self) -> bool:
        """Installs missing packages. Returns false if that fails."""
        tool = str(TOP / "tools/deps")
        missing = subprocess.run([tool, "missing", *PACKAGES], capture_output=True, text=True,
                                 check=False, stdin=subprocess.DEVNULL)
        if missing.returncode == 0 and not missing.stdout.strip():
            return True
        self.progress.say("installing " + " ".join(missing.stdout.split()))
        done = subprocess.run([tool, "install", *PACKAGES], check=False,
                              stdin=subprocess.DEVNULL)
        if done.returncode:
            why = f"tools/deps install ended with status {done.returncode}"
            self.progress.say(why)
            self.results.append(Result("packages", [Case("packages", FAILED, message=why)]))
        return done.returncode == 0

    def fio(self) -> None:
        """Builds a fio for the tests in guests, because the installed one starts slowly there."""
        if not any(step.kernel and not step.builds for step in self.steps):
            return
        try:
            done = subprocess.run([TOP / "tools/fio-headers", "program"], stdout=subprocess.PIPE,
                                  text=True, check=True, stdin=subprocess.DEVNULL,
                                  timeout=FIO_SECONDS)
            os.environ["SMQ_FIO"] = done.stdout.strip()
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            self.progress.say("no fio was built: tests use the installed one")

    def run_step(self, step: plan.Step) -> Result:
        """Runs one step and prints its result."""
        name = str(step)
        folder = self.folder / step.slug
        self.progress.begin(name)
        began, used = time.monotonic(), self.runner.used()
        try:
            if step.needs and step.needs not in self.built:
                result = Result(name, [Case(name, SKIPPED, message=f"{step.needs} not built")])
            else:
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
                result = plan.run(step, self.runner, TOP, folder)
        except process.Stopped as error:
            result = Result(name, [Case(name, FAILED, message=str(error))])
        except Exception as error:  # pylint: disable=broad-except
            # An error in tools/check itself must count as a failure.
            result = Result(name, [Case(name, FAILED, message=f"tools/check: {error!r}")])
        result.seconds = time.monotonic() - began
        result.cpu = self.runner.used() - used
        if not step.again:
            self.results.append(result)
            self.shed.ended(step, result)
        self.progress.end(result)
        return result

    def doing(self, name: str) -> str:
        """What a step is doing, if it runs pytest: the current test; otherwise ""."""
        for step in self.steps + self.second:
            if str(step) == name:
                record = pytests.read(self.folder / step.slug / "record")
                if record.collected:
                    return f"({len(record.cases)}/{len(record.collected)}) {record.running}"
        return ""

    def watch(self, futures: set[Future[Any]]) -> None:
        """Shows progress until all futures are done."""
        while futures:
            done, futures = wait(futures, POLL_SECONDS, FIRST_COMPLETED)
            for future in done:
                future.result()
            self.progress.tick(self.doing)

    def run(self) -> None:
        """Runs everything, in order."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(self.options.jobs + 1) as pool:
            try:
                if any(step.kernel for step in self.steps):
                    pytests.compile_for_guests(self.runner, TOP, self.folder)
                # A kernel with sanitizers runs as a program, User Mode Linux. While one CPU of
                # such a guest is not running, the guest's other CPUs may wait for a lock that it
                # holds. Two guests can run at a time, because each needs less than one CPU on
                # average. A third one runs only if CPUs are still idle, see run_steps(). Other
                # steps do not run beside them. They come last, because the kernel's build takes
                # long, and only now it is known whether the time is enough for it.
                checked = [step for step in self.steps if step.needs == plan.SANITIZE]
                self.run_part(pool, False, [step for step in self.steps if step not in checked])
                self.run_part(pool, True, checked)
                self.results += self.shed.too_many(self.steps)
            except BaseException:
                self.runner.stop()
                pool.shutdown(cancel_futures=True)
                raise

    def run_part(self, pool: ThreadPoolExecutor, sanitize: bool, steps: list[plan.Step]) -> None:
        """Runs steps after the builds that they need, and a second try of those that failed.
        @sanitize: the steps need the kernel with sanitizers."""
        builds = [step for step in self.builds if (step.kernel == plan.SANITIZE) == sanitize]
        if not all(map(self.shed.fits, builds)):
            self.leave_out(builds + steps)
            return
        # Builds run one after the other, because each uses all CPUs.
        for step in builds:
            self.run_alone(pool, step)
        if builds:
            self.tell_busy("builds")
        if steps:
            self.run_steps(pool, steps)
            self.tell_busy("tests")
        if not self.options.no_retry:
            self.run_again(pool, steps)

    def leave_out(self, steps: list[plan.Step]) -> None:
        """Skips steps for which no time is left."""
        if steps:
            names = ", ".join(map(str, steps))
            self.progress.say(f"no time is left for {len(steps)} steps: {names}")
            self.results.append(self.shed.leave_out(steps))

    def run_steps(self, pool: ThreadPoolExecutor, steps: list[plan.Step]) -> None:
        """Runs steps in order: --jobs of them at a time. Without --jobs, one more than the default
        if CPUs are idle. With --minutes, those that will not end in time do not begin."""
        waiting, lull = list(steps), idle.Lull()
        running: set[Future[Result]] = set()
        while waiting or running:
            room = self.options.jobs - len(running)
            if room == 0 and self.options.fill and lull.lasts():
                room = 1
            for _ in range(room):
                step = next(filter(self.shed.fits, waiting), None)
                if not step:
                    break
                waiting.remove(step)
                running.add(pool.submit(self.run_step, step))
                # Measure the load with this step before adding another one.
                lull.begin()
            if not running:
                break
            done, running = wait(running, POLL_SECONDS, FIRST_COMPLETED)
            for future in done:
                future.result()
            self.progress.tick(self.doing)
        self.leave_out(waiting)

    def run_alone(self, pool: ThreadPoolExecutor, step: plan.Step) -> None:
        """Runs a step alone. If it is a build and passes, steps that need its kernel can run."""
        self.watch({pool.submit(self.run_step, step)})
        if step.builds and not self.results[-1].failed:
            self.built.add(step.kernel)

    def tell_busy(self, what: str) -> None:
        """Prints how busy the CPUs have been since the last call. If they were not fully busy,
        steps waited for each other, or slept."""
        before, self.used = self.used, idle.cpu_seconds()
        self.progress.say(f"{what} done: the CPUs were "
                          f"{100 * self.used.busy_since(before):.0f} % busy")

    def run_second(self, first: Result, step: plan.Step) -> None:
        """Runs the second try of one step."""
        again.merge(first, self.run_step(step))

    def run_again(self, pool: ThreadPoolExecutor, steps: list[plan.Step]) -> None:
        """Runs a second try of the tests of some steps that failed in VMs, one step at a time."""
        tries = again.tries(steps, self.results)
        failed = again.failures([first for first, _ in tries])
        if failed > again.MOST_FAILED:
            self.progress.say(f"no second try: {failed} tests failed in VMs, which is more than "
                              f"{again.MOST_FAILED}")
            return
        self.second = [step for _, step in tries]
        self.progress.more(len(tries))
        for number, (first, step) in enumerate(tries):
            if self.runner.seconds_left() < again.LEAST_SECONDS:
                names = ", ".join(late.step for late, _ in tries[number:])
                self.progress.say(f"no second try of what failed in {names}: less than "
                                  f"{again.LEAST_SECONDS // 60} minutes are left")
                return
            self.progress.say(f"second try, alone, of what failed in {first.step}")
            self.watch({pool.submit(self.run_second, first, step)})

    def report(self) -> Counter[str]:
        """Prints what is unstable, what failed and why, and what was skipped. Returns the number of
        tests by outcome."""
        self.progress.close()
        for line in reasons.unstable(self.results):
            print(line)
        for line in reasons.summary(self.results):
            print(line)
        skipped = Counter((result.step, case.message) for result in self.results
                          for case in result.cases if case.outcome == SKIPPED)
        for (name, reason), count in sorted(skipped.items()):
            print(f"skipped {name}: {count} x {reason}")
        if self.folder.is_dir():
            write_junit(self.results, self.folder / "junit.xml")
        return total(self.results)


def stop(number: int, _frame: FrameType | None) -> None:
    """A signal handler: raises SystemExit, so that running programs are stopped."""
    raise SystemExit(128 + number)


def main() -> int:
    """Runs the chosen steps."""
    options = parse()
    if options.list:
        for step in options.steps:
            print(step)
        return 0
    if options.times:
        return times.show(TOP / "build/check/junit.xml")
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, stop)
    check = Check(options)
    if options.turn:
        check.progress.say("steps of this turn: " + " ".join(map(str, options.turn)))
    try:
        if check.packages():
            check.fio()
            check.run()
    finally:
        counts = check.report()
        print(last_line(counts), flush=True)
    return exit_status(counts)


if __name__ == "__main__":
    sys.exit(main())
