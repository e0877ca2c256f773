# SPDX-License-Identifier: GPL-2.0
"""Leaves out steps for which a run with --minutes has no time. On a machine that is shared, a run
may take several times as long as usual. That is no fault of what it tests, so these steps are
skipped, not failed; but a run of which too little is left has failed."""

import threading

from . import again
from .plan import Step
from .process import Runner
from .result import FAILED, PASSED, SKIPPED, Case, Result

# Seconds that are kept for second tries.
RESERVE = 3 * again.LEAST_SECONDS
# A step may take this many times the time that it should take at this machine's speed so far.
MARGIN = 1.25
# The least share of the tests in VMs that a run must begin, by the time that they should take.
LEAST_SHARE = 0.15
# The seconds for which the usual speed is assumed, before steps have ended.
USUAL = 300


class Shed:
    """Compares the time that is left with the time that a step will take."""

    def __init__(self, runner: Runner):
        self._runner = runner
        # Protects the two sums: steps end in several threads.
        self._lock = threading.Lock()
        self._expected = self._took = float(USUAL)
        self._left_out: list[Step] = []

    def ended(self, step: Step, result: Result) -> None:
        """Learns how fast the machine is, but not from a step that ended early because it failed or
        was skipped."""
        whole = result.count()[PASSED] and not result.failed
        if step.must or result.seconds < step.expected and not whole:
            return
        with self._lock:
            self._expected += step.expected
            self._took += result.seconds

    def fits(self, step: Step) -> bool:
        """Whether a step should begin now."""
        with self._lock:
            seconds = step.expected * self._took / self._expected
        return step.must or self._runner.seconds_left() >= MARGIN * seconds + RESERVE

    def leave_out(self, steps: list[Step]) -> Result:
        """Records that some steps do not begin. Returns their result."""
        self._left_out += steps
        return Result("left out", [Case(str(step), SKIPPED, message="no time was left")
                                   for step in steps])

    def too_many(self, steps: list[Step]) -> list[Result]:
        """The failure of a run, with these steps, that left out too much; empty if it did not."""
        seconds = sum(step.expected for step in steps if step.area == "vm")
        begun = seconds - sum(step.expected for step in self._left_out if step.area == "vm")
        if begun >= LEAST_SHARE * seconds:
            return []
        why = (f"only {100 * begun / seconds:.0f} % of the tests in VMs, by their usual time, "
               "began before the time (--minutes) was used up")
        return [Result("left out", [Case("left out", FAILED, message=why)])]
