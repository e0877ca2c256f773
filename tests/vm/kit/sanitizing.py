# SPDX-License-Identifier: GPL-2.0
"""The kernels of User Mode Linux: what tests cannot do there, and time limits and repeats for the
one with all checkers, which is slow."""
import os

SANITIZING = os.uname().release.endswith("-smq-sanitize")
UML = SANITIZING or os.uname().release.endswith("-smq-perf")
# The markers of tests that do not run on this kernel.
ABSENT = [*(["not_uml"] if UML else []), *(["not_sanitized"] if SANITIZING else [])]
# The factor for time limits of waits and tests.
TIME_FACTOR = 4 if SANITIZING else 1


def repeats(count: int) -> int:
    """How often a test repeats an action that it repeats @count times on other kernels. Under the
    checkers a quarter is enough: they report a defect the first time that it occurs, while other
    kernels show it only by chance."""
    return max(count // 4, 2) if SANITIZING else count
