# SPDX-License-Identifier: GPL-2.0
"""Events at calls of functions, and their number, by kprobes."""
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

TRACING = Path("/sys/kernel/tracing")
EVENTS = TRACING / "kprobe_events"


def _write(line: str) -> None:
    # os.open(), because open() with mode "a" seeks to the end, which fails here, and with mode "w"
    # removes other events.
    fd = os.open(EVENTS, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(fd, f"{line}\n".encode("ascii"))
    finally:
        os.close(fd)


def _hits(name: str) -> int:
    for line in (TRACING / "kprobe_profile").read_text(encoding="ascii").splitlines():
        event, hits, *_ = line.split()
        if event == name:
            return int(hits)
    raise AssertionError(f"kprobe_profile does not have {name}")


@contextmanager
def probed(name: str, what: str) -> Iterator[str]:
    """Defines an event during the block; yields its name. @what: a function, and the arguments to
    record."""
    _write(f"p:smq_test/{name} {what}")
    try:
        yield f"smq_test/{name}"
    finally:
        _write(f"-:smq_test/{name}")


@contextmanager
def calls(module: str, function: str) -> Iterator[Callable[[], int | None]]:
    """Counts calls during the block. Yields a function that returns the number so far, or None in a
    kernel without kprobes (UML). @module: "" for the kernel itself."""
    if not EVENTS.exists():
        yield lambda: None
        return
    name = f"called_{function}"
    place = f"{module}:{function}" if module else function
    with probed(name, place) as defined:
        enable = TRACING / "events" / defined / "enable"
        try:
            enable.write_text("1", encoding="ascii")
            yield lambda: _hits(name)
        finally:
            enable.write_text("0", encoding="ascii")
