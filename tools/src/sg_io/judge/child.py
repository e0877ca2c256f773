# SPDX-License-Identifier: GPL-2.0
"""sg_io as a child process of sg_io: the C part, which issues commands."""

import ctypes
import os
import signal
import subprocess
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PR_SET_PDEATHSIG = 1


class Children:
    """While this context lasts, the child that runs gets the signals that this process gets, and
    ends as if it had been started alone. It never outlives this process."""

    def __init__(self) -> None:
        self.caught = 0     # the last signal
        self.child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Children":
        for number in SIGNALS:
            signal.signal(number, self.take)
        return self

    def __exit__(self, *_: object) -> None:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)

    def take(self, number: int, _: FrameType | None) -> None:
        self.caught = number
        if self.child and self.child.returncode is None:
            os.kill(self.child.pid, number)

    def start(self, words: list[str], **more: Any) -> subprocess.Popen[bytes]:
        """Starts a child."""
        parent, prctl = os.getpid(), ctypes.CDLL(None).prctl

        def begin() -> None:
            # A process group of its own: otherwise it would get Ctrl-C twice, from the terminal and
            # from here.
            os.setpgid(0, 0)
            prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:
                os._exit(127)
        # pylint: disable-next=consider-using-with,subprocess-popen-preexec-fn
        self.child = subprocess.Popen(words, preexec_fn=begin, **more)
        return self.child


def status(child: subprocess.Popen[bytes]) -> int:
    """Its exit status when it has ended, as a shell has it."""
    code = child.wait()
    return code if code >= 0 else 128 - code
