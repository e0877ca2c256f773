# SPDX-License-Identifier: GPL-2.0
"""What the command lines of tools/vm and tools/uml have in common."""

import argparse
import shlex
import signal
import sys
from pathlib import Path
from types import FrameType

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


def files_in(arguments: list[str]) -> list[Path]:
    """The files of --for, whose options have to be known before the others are parsed."""
    return [Path(name) for word, name in zip(arguments, arguments[1:], strict=False)
            if word == "--for"]


def parsed(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    """Parses the options, and names the mistake if CMD is among them."""
    options, more = parser.parse_known_args(arguments)
    if more and not more[0].startswith("-"):
        parser.error(f"put -- before the command: {parser.prog} [options] -- {shlex.join(more)}")
    if more:
        parser.error(f"unrecognized arguments: {' '.join(more)}")
    return options


def log_file(name: str | None) -> Path | None:
    """The file of --log, which is made empty; VMError if it cannot be written."""
    if not name:
        return None
    try:
        Path(name).write_bytes(b"")
    except OSError as error:
        raise VMError(f"--log {name}: {error.strerror}") from None
    return Path(name)


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
    def stop(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
