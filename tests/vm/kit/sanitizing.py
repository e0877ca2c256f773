# SPDX-License-Identifier: GPL-2.0
"""The kernel with all checkers, which takes its time."""
import os

SANITIZING = os.uname().release.endswith("-smq-sanitize")
# How many times as long as elsewhere what is waited for, or a test, may take.
PATIENCE = 4 if SANITIZING else 1


def repeats(count: int) -> int:
    """How often a test is to do again what it does @count times elsewhere: there a checker
    finds at the first time what others find by luck."""
    return max(count // 4, 2) if SANITIZING else count
