# SPDX-License-Identifier: GPL-2.0
"""Runs programs for a bounded time, with their output in a log."""

import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

# Seconds from SIGTERM to SIGKILL: tools/vm needs them to stop QEMU and collect its output.
GRACE_SECONDS = 45
TIMED_OUT = 124     # the exit status if the time limit expired: timeout(1) sets it


class Runner:
    """Runs programs, and can stop all running ones."""

    def __init__(self) -> None:
        # Protects the set of running programs, which is None after stop().
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] | None = set()

    def run(self, command: list[str], log: Path, limit: float, cwd: Path,
            environment: Mapping[str, str] | None = None) -> int:
        """Runs a program with its output in @log. Returns its exit status, or TIMED_OUT."""
        words = ["timeout", f"--kill-after={GRACE_SECONDS}", f"{limit:.0f}", *command]
        with log.open("ab") as output:
            output.write(f"$ {' '.join(command)}\n".encode())
            output.flush()
            with self._lock:
                if self._running is None:
                    return 128 + signal.SIGTERM
                process = subprocess.Popen(words, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output,
                                           stderr=subprocess.STDOUT,
                                           env={**os.environ, **(environment or {})})
                self._running.add(process)
            return process.wait()

    def stop(self) -> None:
        """Ends all programs, and prevents the start of others."""
        with self._lock:
            running, self._running = self._running or set(), None
        for process in running:
            process.terminate()     # timeout(1) passes the signal on to the program's children


def tail(log: Path) -> str:
    """The last lines of a log, without characters that a terminal cannot show."""
    text = log.read_bytes()[-65536:].decode(errors="replace") if log.exists() else ""
    clean = "".join(c for c in text if c.isprintable() or c in "\n\t")
    return "\n".join(clean.splitlines()[-25:])
