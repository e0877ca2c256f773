# SPDX-License-Identifier: GPL-2.0
"""What the command lines of tools/vm and tools/uml have in common."""

import signal
import sys
from pathlib import Path

from .errors import VMError


def positive(text: str) -> int:
    """The value of an option that must be a whole number above zero."""
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def split_command(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Returns the options and CMD, which follows --."""
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1:]


def shares(names: list[str]) -> list[Path]:
    """The paths of the folders to share; VMError if one does not exist."""
    paths = []
    for name in names:
        path = Path(name).resolve()
        if not path.is_dir():
            raise VMError(f"--share {name}: no such folder")
        paths.append(path)
    return paths


def say(text: str) -> None:
    """Prints a message to the user on a separate line."""
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")
    if text:
        print(text.rstrip("\n"), file=sys.stderr)
    sys.stderr.flush()


def catch_signals() -> None:
    """Makes signals raise SystemExit, so that the guest is stopped before this process exits."""
    def stop(number, _frame):
        raise SystemExit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
