# SPDX-License-Identifier: GPL-2.0
"""Programs that are run: bounded in time, their output in a log."""

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

# tools/vm stops its QEMU and collects what it said within this.
GRACE_SECONDS = 45
TIMED_OUT = 124


class Stopped(Exception):
    """The whole run is being given up."""


class Runner:
    """Starts programs and can stop all that run."""

    def __init__(self, deadline: float):
        self._deadline = deadline
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen] = set()
        self.stopped = threading.Event()

    def left(self) -> float:
        """Seconds until the whole run's time is over."""
        return self._deadline - time.monotonic()

    def run(self, command: list[str], log: Path, timeout: float, cwd: Path,
            **environment: str) -> int:
        """Runs a program with its output in log; its exit status, 124 when its time was over."""
        left = self.left()
        if self.stopped.is_set() or left <= 0:
            raise Stopped("the time of the whole run is over" if left <= 0 else "stopped")
        with log.open("ab") as output:
            output.write(f"$ {' '.join(map(str, command))}\n".encode())
            output.flush()
            with self._lock:
                process = subprocess.Popen(
                    [str(word) for word in command], cwd=cwd, stdin=subprocess.DEVNULL,
                    stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
                    env={**os.environ, **environment})
                self._running.add(process)
            try:
                return process.wait(min(timeout, left))
            except subprocess.TimeoutExpired:
                self._end(process)
                output.write(f"\nstopped after {min(timeout, left):.0f} s\n".encode())
                return TIMED_OUT
            finally:
                with self._lock:
                    self._running.discard(process)

    @staticmethod
    def _end(process: subprocess.Popen) -> None:
        # A group of its own: what the program started ends with it.
        for number, seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, None)):
            try:
                os.killpg(process.pid, number)
            except ProcessLookupError:
                pass
            try:
                process.wait(seconds)
                return
            except subprocess.TimeoutExpired:
                continue

    def stop(self) -> None:
        """Ends everything; nothing starts any more."""
        self.stopped.set()
        with self._lock:
            running = list(self._running)
        for process in running:
            try:
                os.killpg(process.pid, signal.SIGTERM)
            except ProcessLookupError:
                pass


def tail(log: Path, lines: int = 25) -> str:
    """The end of a log, in text that a terminal can show."""
    try:
        text = log.read_bytes()[-65536:].decode(errors="replace")
    except FileNotFoundError:
        return ""
    clean = "".join(c for c in text if c.isprintable() or c in "\n\t")
    return "\n".join(clean.splitlines()[-lines:])
