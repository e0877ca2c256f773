# SPDX-License-Identifier: GPL-2.0
"""The second try. On a busy machine a test that depends on time may fail although nothing is wrong.

Tests that failed in a VM run once more at the end, one step at a time. There is no second try if
the kernel reported a fault while it had a module of this project, because a busy machine does not
cause such faults; but the tests that could not run after the fault run at the end. The same holds
for a test whose process did not end long after its limit, if nothing stalled. Soft lockups, RCU
stalls and workqueue lockups are different: a busy machine alone can cause them. Tests that failed
outside of a VM have no second try either, because they do not depend on time.
"""

from dataclasses import replace

from .plan import Step
from .pytests import WHOLE
from .result import FAILED, PASSED, SKIPPED, Case, Result

# If more tests failed, the cause is not a busy machine: there is no second try.
MOST_FAILED = 40
# If less time is left, a second try would not end in time.
LEAST_SECONDS = 4 * 60


def _repeatable(result: Result) -> list[Case]:
    """The failed tests that can be repeated. A file that could not be collected is not a test."""
    return [case for case in result.failed
            if not case.final and (case.name == WHOLE or "::" in case.name)]


def tries(steps: list[Step], results: list[Result]) -> list[tuple[Result, Step]]:
    """The results that need a second try, each with a step for it. The step has the tests that
    failed or were lost with their run. If a run failed but none of its tests did, the step
    has all tests of the run."""
    found = []
    by_name = {str(step): step for step in steps
               if step.area in ("vm", "sanitize") and step.kernel and step.targets}
    for result in results:
        step, cases = by_name.get(result.step), _repeatable(result)
        if step and cases:
            names = tuple(case.name for case in cases if case.name != WHOLE)
            found.append((result, replace(step, targets=names or step.targets, again=True)))
    return found


def failures(results: list[Result]) -> int:
    """The number of failed tests that need a second try. The tests that were lost with one run
    count as one test at most."""
    return sum(max(1, sum(not case.lost for case in _repeatable(result))) for result in results)


def _judge(case: Case, second: Result) -> Case:
    """The final outcome of a test that failed at its first try."""
    found = next((one for one in second.cases if one.name == case.name), None)
    if not found and case.name == WHOLE:
        # The second try has a case WHOLE only if its run went wrong, too.
        found = Case(WHOLE, FAILED if second.failed else PASSED, message="its tests failed")
    elif not found:
        found = Case(case.name, FAILED, message="not run")
    elif found.outcome == SKIPPED:
        # A skipped second try proves nothing.
        found = replace(found, outcome=FAILED, message=f"skipped: {found.message}")
    return replace(found, seconds=case.seconds + found.seconds, first=case.message)


def merge(first: Result, second: Result) -> None:
    """Merges the result of the second try into that of the first."""
    repeated = {case.name for case in _repeatable(first)}
    # If all tests of the run were repeated, each has its outcome of the second try.
    news = [case for case in second.cases if case.name not in repeated]
    known = {case.name for case in news}
    first.cases = [_judge(case, second) if case.name in repeated else case
                   for case in first.cases if case.name not in known] + news
    first.seconds += second.seconds
    first.cpu += second.cpu
    first.ends = second.ends
