# SPDX-License-Identifier: GPL-2.0
"""Processes that a test forks. The test waits for each of them, with a time limit."""
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .host import wait_for

NOBODY = 65534
# The exit status of a process that ended with an exception.
FAILED = 99


def spawn(work: Callable) -> int:
    """Runs @work in a new process; returns its pid. The exit status is what @work returns."""
    pid = os.fork()
    if not pid:
        status = FAILED
        try:
            status = work() or 0
        except BaseException as error:   # pylint: disable=broad-exception-caught
            print(f"child: {error!r}", file=sys.stderr, flush=True)
        finally:
            os._exit(status)
    return pid


def ended(pid: int, seconds: float = 20) -> int:
    """Waits until a process has ended. Returns its exit status, or minus the number of the signal
    that ended it."""
    def status():
        found, raw = os.waitpid(pid, os.WNOHANG)
        return (os.waitstatus_to_exitcode(raw),) if found else None
    return wait_for(f"the end of process {pid}", status, seconds)[0]


@contextmanager
def running(work: Callable) -> Iterator[tuple[int, Callable]]:
    """Runs a process during the block; yields its pid and a function that waits for its status."""
    pid = spawn(work)
    done = []
    try:
        yield pid, lambda seconds=20: done.append(ended(pid, seconds)) or done[-1]
    finally:
        if not done:
            os.kill(pid, signal.SIGKILL)
            ended(pid)


def become_nobody() -> None:
    """Drops all privileges of this process."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def as_nobody(work: Callable) -> int:
    """Runs @work() as a user without privileges; returns its result, a number up to 98."""
    def run_it():
        become_nobody()
        return work()
    with running(run_it) as (_, status):
        return status()
