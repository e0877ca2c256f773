# SPDX-License-Identifier: GPL-2.0
"""The second try: on a busy machine a test that depends on time fails though nothing is wrong.

What failed in a VM is run once more at the end, with nothing beside it. A fault that the
kernel reported is no accident, and what failed elsewhere has no time to depend on.
"""

from dataclasses import replace

from .plan import Step
from .pytests import WHOLE
from .result import FAILED, PASSED, SKIPPED, Case, Result

# More tests that failed are no accident.
MOST_FAILED = 40
# With less time than this left, a second try would not get to its end.
LEAST_SECONDS = 8 * 60


def _repeatable(result: Result) -> list[Case]:
    """Of the tests that failed those to repeat: not files that could not be collected."""
    return [case for case in result.failed
            if not case.final and (case.name == WHOLE or "::" in case.name)]


def tries(steps: list[Step], results: list[Result]) -> list[tuple[Result, Step]]:
    """The results that want a second try, each with the step that is one: the tests that failed
    or were lost with their run, or all of a run that failed without naming any."""
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
    """How many tests failed that want a second try; those lost with a run are one with it."""
    return sum(max(1, sum(not case.lost for case in _repeatable(result))) for result in results)


def _judge(case: Case, second: Result) -> Case:
    """What a test is that failed at its first try."""
    found = next((one for one in second.cases if one.name == case.name), None)
    if not found and case.name == WHOLE:
        # There is such a test only where the run went wrong.
        found = Case(WHOLE, FAILED if second.failed else PASSED, message="its tests failed")
    elif not found:
        found = Case(case.name, FAILED, message="not run")
    elif found.outcome == SKIPPED:
        # Nothing has been shown.
        found = replace(found, outcome=FAILED, message=f"skipped: {found.message}")
    return replace(found, seconds=case.seconds + found.seconds, first=case.message)


def merge(first: Result, second: Result) -> None:
    """Adds to the first try what came of the second."""
    repeated = {case.name for case in _repeatable(first)}
    # A run that is repeated as a whole: its tests have the outcome they had at last.
    news = [case for case in second.cases if case.name not in repeated]
    known = {case.name for case in news}
    first.cases = [_judge(case, second) if case.name in repeated else case
                   for case in first.cases if case.name not in known] + news
    first.seconds += second.seconds
    first.cpu += second.cpu
    first.ends = second.ends
