# SPDX-License-Identifier: GPL-2.0
"""Prints the progress of tools/check while it runs."""

import sys
import threading
import time
from collections.abc import Callable

from .result import FAILED, PASSED, SKIPPED, Result

# Without a terminal, a line of progress is printed this often.
HEARTBEAT_SECONDS = 30
SHOWN_FAILURES = 10
WIDTH = 160


def _clip(line: str) -> str:
    """Cuts off the end of a long line. The log has the whole line."""
    return line if len(line) <= WIDTH else line[:WIDTH - 3] + "..."


class Progress:
    """Prints a line for each step that has ended. On a terminal also shows the running steps in a
    live line."""

    def __init__(self, steps: int, live: bool):
        self._began = time.monotonic()
        self._live = live and sys.stdout.isatty()
        self._steps = steps
        self._over = 0
        self._lock = threading.Lock()
        self._running: dict[str, float] = {}
        self._spoke = self._began

    def more(self, steps: int) -> None:
        """Adds to the number of steps."""
        with self._lock:
            self._steps += steps

    def begin(self, name: str) -> None:
        """Records that a step begins."""
        with self._lock:
            self._running[name] = time.monotonic()

    def end(self, result: Result) -> None:
        """Records that a step has ended, and prints its result."""
        with self._lock:
            self._running.pop(result.step, None)
            self._over += 1
            counts = result.count()
            parts = [f"{counts[kind]} {kind}" for kind in (PASSED, SKIPPED) if counts[kind]]
            if counts[FAILED]:
                parts.append(f"{counts[FAILED]} FAILED")
            self._line(f"{result.step}: {', '.join(parts)} ({result.seconds:.0f} s)")
            self._explain(result)

    def _explain(self, result: Result) -> None:
        if not result.failed:
            return
        for case in result.failed[:SHOWN_FAILURES]:
            lines = case.message.strip().splitlines() or [""]
            if case.name == result.step:
                for line in lines[-30:]:
                    print(f"    {_clip(line)}")
                continue
            print(f"    {case.name}")
            # The lines in which pytest explains the failure begin with E: prefer them.
            told = [line for line in lines if line.startswith("E ")] or lines
            for line in told[:6]:
                print(f"        {_clip(line)}")
        if len(result.failed) > SHOWN_FAILURES:
            print(f"    and {len(result.failed) - SHOWN_FAILURES} more")
        if result.tail and any(case.name != result.step for case in result.failed):
            print("    the log ends with:")
            for line in result.tail.splitlines():
                print(f"    | {_clip(line)}")
        print(f"    log: {result.log}", flush=True)

    def say(self, text: str) -> None:
        """Prints a line."""
        with self._lock:
            self._line(text)

    def _line(self, text: str) -> None:
        if self._live:
            sys.stdout.write("\r\033[K")
        print(f"[{time.monotonic() - self._began:5.0f} s] {text}", flush=True)
        self._spoke = time.monotonic()

    def tick(self, doing: Callable[[str], str]) -> None:
        """To be called at short intervals: updates the live line or, without a terminal, prints a
        line every HEARTBEAT_SECONDS. doing(name) returns what a step is doing."""
        with self._lock:
            now = time.monotonic()
            if not self._live and now - self._spoke < HEARTBEAT_SECONDS:
                return
            parts = []
            for name, began in self._running.items():
                at = doing(name)
                parts.append(f"{name} {now - began:.0f} s{f' {at}' if at else ''}")
            text = f"{self._over}/{self._steps} " + "; ".join(parts)
            if not parts:
                return
            if self._live:
                sys.stdout.write(f"\r\033[K[{now - self._began:5.0f} s] {text[:68]}")
                sys.stdout.flush()
            else:
                self._line(f"... {text}")

    def close(self) -> None:
        """Removes the live line."""
        if self._live:
            sys.stdout.write("\r\033[K")
            sys.stdout.flush()
