# SPDX-License-Identifier: GPL-2.0
"""What sg_io prints: text in UTF-8 whatever files have, and the exit statuses."""

import contextlib
import io
import os
import sys
from collections.abc import Iterable

GOOD, NOT_GOOD, USAGE, DEVICE = range(4)

# A question mark for each control character but newline and tab, and for each byte that is no text.
CONTROL = {n: "?" for n in (*range(0x20), *range(0x7f, 0xa0)) if n not in (9, 10)}


class Ended(Exception):
    """The command cannot go on."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Printable(io.TextIOWrapper):
    """A stream that takes text of any source."""

    def write(self, some: str) -> int:
        return super().write(some.translate(CONTROL) if not some.isprintable() else some)


def open_text(name: str | int) -> Printable:
    """A stream to a file."""
    return Printable(open(name, "wb"), "utf-8", "replace")


def begin() -> None:
    """Makes standard output and standard error such streams."""
    for name, number in (("stdout", 1), ("stderr", 2)):
        setattr(sys, name, Printable(open(number, "wb", closefd=False), "utf-8", "replace",
                                     line_buffering=number == 2 or os.isatty(number)))


def say(why: str) -> None:
    """A message."""
    print(f"sg_io: {why}", file=sys.stderr)


def give_up(error: OSError) -> None:
    """Says that standard output cannot be written, and forgets what was to be."""
    say(f"{error.filename or 'standard output'}: {error.strerror}")
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def input_error(name: str, error: OSError) -> Ended:
    """An input that cannot be read."""
    return Ended(USAGE, f"{name}: {error.strerror}")


def check_output(option: str, path: str | None, inputs: Iterable[str]) -> None:
    """Ends if an output would replace an input."""
    for other in inputs:
        with contextlib.suppress(OSError):
            if path is not None and os.path.samefile(path, 0 if other == "-" else other) and (
                    os.path.isfile(path)):
                raise Ended(USAGE, f"{option}: writing {path} would replace an input or another "
                            "output of this command")
