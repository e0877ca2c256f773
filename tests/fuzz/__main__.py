#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Runs rounds of random load on smq_sg inside the VM that tools/fuzz boots.

A round loads the modules and runs the load's processes beside a disturber. When all of them have
ended, it checks that no command, request or pinned page is left, and unloads the modules. """
import argparse
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/vm"))

# pylint: disable=wrong-import-position
from devices import devices, pinned  # noqa: E402
from disturber import disturbing  # noqa: E402
from kit.host import ModuleError, wait_for  # noqa: E402
from kit.klog import KernelLog  # noqa: E402
from kit.sanitizing import TIME_FACTOR  # noqa: E402

PROGRAM = TOP / "build/tools/fuzz/fuzz"
IDLE_SECONDS = 30
# A load that runs this much longer than it should counts as hung. The program itself kills a
# process that takes too long.
ROUND_SECONDS = 900
LOOK_SECONDS = 1
END_SECONDS = 60
TAIL = 60


class FuzzError(Exception):
    """A check after the load has failed."""


def user_mode_linux() -> bool:
    """Whether this is User-Mode Linux. Linux 7.2 has a defect there: the kernel reports
    errors when a process that has a ring mapped forks."""
    return "User Mode Linux" in Path("/proc/cpuinfo").read_text(encoding="ascii")


def parse() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(prog="tests/fuzz", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--seed", type=int, default=1, help="seed of all random choices (default: %(default)s)")
    add("--seconds", type=int, default=60,
        help="seconds of load in all rounds together (default: %(default)s)")
    add("--round-seconds", type=int, default=60,
        help="seconds of load in one round (default: %(default)s)")
    add("--first-round", type=int, default=0, metavar="N",
        help="begin with round N, to repeat it (default: %(default)s)")
    add("--workers", type=int, default=6,
        help="processes that run at a time (default: %(default)s)")
    return parser.parse_args()


def end_load(load: subprocess.Popen) -> None:
    """Ends the load with all its processes: they would keep the modules in use."""
    load.terminate()
    with suppress(subprocess.TimeoutExpired):
        load.wait(END_SECONDS * TIME_FACTOR)
    load.kill()


def reasons(error: BaseException | None) -> str:
    """The message of an error, and of the errors that led to it."""
    found = []
    while error:
        found.append(str(error))
        error = error.__context__
    return "\n  after: ".join(found)


def run_load(seed: int, seconds: int, workers: int, log: KernelLog) -> None:
    """Runs the load until it ends. Raises FuzzError if the kernel log has a fault, if the load does
    not end in time, or if it fails."""
    command = [PROGRAM, f"--seed={seed}", f"--seconds={seconds}", f"--workers={workers}",
               f"--time-factor={TIME_FACTOR}", *(["--no-fork"] if user_mode_linux() else [])]
    end = time.monotonic() + seconds + ROUND_SECONDS * TIME_FACTOR
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as load:
        try:
            while load.poll() is None:
                if log.faults():
                    raise FuzzError("the kernel log reports a bug")
                if time.monotonic() > end:
                    raise FuzzError("the load did not end in time")
                time.sleep(LOOK_SECONDS)
        finally:
            end_load(load)
    if load.returncode:
        raise FuzzError(f"the load ended with status {load.returncode}")


def one_round(options: argparse.Namespace, number: int, seconds: int, log: KernelLog) -> None:
    """Runs one round. The round has a seed of its own, so that it can be repeated alone."""
    seed = options.seed * 1000 + number
    print(f"round {number}: {seconds} s", flush=True)
    before = pinned()
    with devices() as found:
        with disturbing(found, seed, TIME_FACTOR) as done:
            run_load(seed, seconds, options.workers, log)
        print("disturbed:", ", ".join(f"{name} {done[name]}" for name in sorted(done)), flush=True)
        found.wait_until_idle(IDLE_SECONDS)
    # The kernel frees closed files and rings a little later.
    wait_for("all pinned pages released", lambda: pinned() == before)
    if log.faults():
        raise FuzzError("the kernel log reports a bug")


def main() -> int:
    """Runs rounds until the time is used up or a round fails."""
    options = parse()
    print(f"seed {options.seed}", flush=True)
    left, number = options.seconds, options.first_round
    with KernelLog() as log:
        while left > 0:
            seconds = min(left, options.round_seconds)
            try:
                one_round(options, number, seconds, log)
            except (AssertionError, FuzzError, ModuleError, OSError,
                    subprocess.TimeoutExpired) as error:
                print(f"{log.tail(TAIL)}\nfuzz: FAILED in round {number} of seed {options.seed}: "
                      f"{reasons(error)}", file=sys.stderr, flush=True)
                return 1
            left, number = left - seconds, number + 1
    print(f"fuzz: {number - options.first_round} rounds of seed {options.seed}, no failure")
    return 0


if __name__ == "__main__":
    sys.exit(main())
