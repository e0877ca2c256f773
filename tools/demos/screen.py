# SPDX-License-Identifier: GPL-2.0
"""Runs a program in a terminal of a given size, presses keys, and reads its screen."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

try:
    import pyte
except ImportError:     # this Python is not Debian's, which has the package python3-pyte
    sys.path.append("/usr/lib/python3/dist-packages")
    import pyte

TIMEOUT = 20
TERM = "screen-256color"    # pyte does not know xterm's repeated characters


class Screen:
    """A program in a terminal; a context manager, which ends the program."""

    def __init__(self, argv: Sequence[Any], columns: int = 80, lines: int = 24,
                 env: Mapping[str, str] | None = None) -> None:
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.master, self.slave = pty.openpty()
        self.modes = termios.tcgetattr(self.slave)
        self.set_size(columns, lines)
        kept = {name: value for name, value in os.environ.items()
                if name not in ("NO_COLOR", "LINES", "COLUMNS")}
        self.process = subprocess.Popen(
            argv, stdin=self.slave, stdout=self.slave, stderr=self.slave,
            env={**kept, "TERM": TERM, "TZ": "UTC", **(env or {})},
            preexec_fn=self.take_terminal)

    def take_terminal(self) -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])

    def __enter__(self) -> "Screen":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(TIMEOUT)
        os.close(self.slave)
        os.close(self.master)

    def set_size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def resize(self, columns: int, lines: int) -> None:
        """Changes the size; the kernel tells the program by SIGWINCH."""
        self.screen.resize(lines, columns)
        self.set_size(columns, lines)

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode("ascii"))

    def read(self, seconds: float) -> bool:
        """Takes what the program writes within a time; returns whether there was something."""
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        data = os.read(self.master, 65536)
        self.raw += data
        self.stream.feed(data)
        return True

    def text(self) -> str:
        """The lines, without blanks at their ends."""
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip("\n")

    def wait(self, wanted: str | Callable[[str], bool], seconds: float = TIMEOUT) -> str:
        """Waits until a text is on the screen, or a condition of the text is true, and the
        program is done with writing."""
        end = time.monotonic() + seconds
        while True:
            there = wanted in self.text() if isinstance(wanted, str) else wanted(self.text())
            if not self.read(0.03 if there else 0.1) and there:
                return self.text()
            if not there and time.monotonic() > end:
                raise TimeoutError(self.text())

    def end(self) -> int:
        """Waits for the end of the program; returns its exit status."""
        end = time.monotonic() + TIMEOUT
        while self.process.poll() is None and time.monotonic() < end:
            self.read(0.05)
        while self.read(0):
            pass
        return self.process.wait(0.1)

    def restored(self) -> bool:
        """Whether the terminal is as it was, and the program has left its second screen."""
        return (termios.tcgetattr(self.slave) == self.modes and
                self.raw.rfind(b"\x1b[?1049l") > self.raw.rfind(b"\x1b[?1049h"))
