# SPDX-License-Identifier: GPL-2.0
"""The kernel log from a point in time on."""
import errno
import os
import re
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3] / "tools"))
# pylint: disable=wrong-import-position
from testvm import report  # noqa: E402

IO_ERROR = re.compile(r"I/O error, dev|critical (?:target|medium|space|nexus) error|"
                      r"Buffer I/O error|Medium access timeout|offlined|FAILED Result:")


class KernelLog:
    """The lines that the kernel has logged since the object was made, or since mark()."""

    def __init__(self):
        self._fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._lines: list[str] = []
        os.lseek(self._fd, 0, os.SEEK_END)

    def close(self) -> None:
        """Closes the log."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self):
        return self

    def __exit__(self, *exc) -> None:
        self.close()

    def lines(self) -> list[str]:
        """The text of all lines so far, oldest first."""
        while True:
            try:
                record = os.read(self._fd, 8192)
            except BlockingIOError:
                return self._lines
            except OSError as error:
                # A record was overwritten before it was read: the next read continues after it.
                if error.errno == errno.EPIPE:
                    continue
                raise
            head, _, text = record.decode(errors="replace").partition(";")
            if head and text:
                self._lines.append(text.split("\n")[0])

    def mark(self) -> None:
        """Forgets what has been logged so far."""
        self.lines()
        self._lines.clear()

    def matching(self, pattern: str) -> list[str]:
        """The lines in which the regular expression is found."""
        return [line for line in self.lines() if re.search(pattern, line)]

    def wait(self, pattern: str, seconds: float = 20) -> str:
        """The first line with @pattern; fails after @seconds."""
        end = time.monotonic() + seconds
        while True:
            found = self.matching(pattern)
            if found:
                return found[0]
            assert time.monotonic() < end, f"no {pattern!r} in the log:\n" + self.tail()
            time.sleep(0.05)

    def faults(self) -> list[str]:
        """Lines that report a kernel bug."""
        return list(report.reports(self.lines()).values())

    def io_errors(self) -> list[str]:
        """Lines that report failed block I/O."""
        return [line for line in self.lines() if IO_ERROR.search(line)]

    def tail(self, count: int = 30) -> str:
        """The last lines, for a message."""
        return "\n".join(self.lines()[-count:])
