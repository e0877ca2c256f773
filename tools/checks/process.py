# SPDX-License-Identifier: GPL-2.0
"""Runs programs for a bounded time, with their output in a log."""

import math
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

# Seconds from SIGTERM to SIGKILL: tools/vm needs them to stop QEMU and collect its output.
GRACE_SECONDS = 45
# A program that prints nothing for this long hangs: tests, even under the sanitizers, and downloads
# have shorter limits.
SILENT_SECONDS = 1800
POLL_SECONDS = 0.1
# What run() returns if it had to stop the program: 124, as timeout(1) does, or a number that cannot
# be an exit status.
TIMED_OUT, SILENT, RUN_TIMED_OUT, OVERDUE = 124, 1001, 1002, 1003
WHY = {
    TIMED_OUT: "its time limit expired",
    SILENT: "it was stopped: it printed nothing for too long",
    OVERDUE: "a test took far longer than its limit, and its process did not end",
    RUN_TIMED_OUT: "the time limit of the whole run (--minutes) expired",
}


class Stopped(Exception):
    """No program can be started any more: the run is being stopped, or its time limit expired."""


class Runner:
    """Runs programs, and can stop all running ones."""

    def __init__(self, deadline: float = math.inf):
        self._deadline = deadline
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._used = threading.local()
        self.stopped = threading.Event()

    def seconds_left(self) -> float:
        """The seconds that are left for the whole run."""
        return self._deadline - time.monotonic()

    def used(self) -> float:
        """CPU seconds of all programs that this thread has run, including their children."""
        return getattr(self._used, "seconds", 0.0)

    def run(self, command: list[str], log: Path, timeout: float, cwd: Path,
            silence: float = SILENT_SECONDS, overdue: Callable[[], bool] = lambda: False,
            environment: Mapping[str, str] = MappingProxyType({})) -> int:
        """Runs a program with its output in log. Returns its exit status, or a key of WHY. The
        program is also stopped when @overdue() is true."""
        if self.stopped.is_set() or self.seconds_left() <= 0:
            raise Stopped("stopped" if self.stopped.is_set() else
                          "the time limit of the whole run expired")
        with log.open("ab") as output:
            output.write(f"$ {' '.join(map(str, command))}\n".encode())
            output.flush()
            with self._lock:
                # stop() sets this first, and then ends the programs that it finds under the lock.
                if self.stopped.is_set():
                    raise Stopped("stopped")
                process = subprocess.Popen(
                    [str(word) for word in command], cwd=cwd, stdin=subprocess.DEVNULL,
                    stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
                    env={**os.environ, **environment})
                self._running.add(process)
            began = time.monotonic()
            try:
                status = self._watch(process, log, began + timeout, silence, overdue)
                if status is None:
                    return process.returncode
                self._end(process)
                output.write(f"\nstopped after {time.monotonic() - began:.0f} s: "
                             f"{WHY[status]}\n".encode())
                return status
            finally:
                with self._lock:
                    self._running.discard(process)

    def _watch(self, process: subprocess.Popen[bytes], log: Path, end: float, silence: float,
               overdue: Callable[[], bool]) -> int | None:
        """Waits for a program's end. Returns None if it ended, or a key of WHY if it must be
        stopped."""
        size, heard = -1, time.monotonic()
        while not self._reaped(process):
            now, found = time.monotonic(), log.stat().st_size
            if found != size:
                size, heard = found, now
            if now >= self._deadline:
                return RUN_TIMED_OUT
            if now >= end:
                return TIMED_OUT
            if now >= heard + silence:
                return SILENT
            if overdue():
                return OVERDUE
            time.sleep(POLL_SECONDS)
        return None

    def _reaped(self, process: subprocess.Popen[bytes]) -> bool:
        """Whether a program has ended. If so, adds its CPU time to used()."""
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if not pid:
            return False
        process.returncode = os.waitstatus_to_exitcode(status)
        self._used.seconds = self.used() + usage.ru_utime + usage.ru_stime
        return True

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        # Signal the process group, which also has the program's children.
        for number, seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, math.inf)):
            try:
                os.killpg(process.pid, number)
            except ProcessLookupError:
                pass
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                if self._reaped(process):
                    return
                time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """Ends all programs, and prevents the start of others."""
        self.stopped.set()
        with self._lock:
            running = list(self._running)
        for process in running:
            try:
                os.killpg(process.pid, signal.SIGTERM)
            except ProcessLookupError:
                pass


def tail(log: Path, lines: int = 25) -> str:
    """The last lines of a log, without characters that a terminal cannot show."""
    try:
        text = log.read_bytes()[-65536:].decode(errors="replace")
    except FileNotFoundError:
        return ""
    clean = "".join(c for c in text if c.isprintable() or c in "\n\t")
    return "\n".join(clean.splitlines()[-lines:])
