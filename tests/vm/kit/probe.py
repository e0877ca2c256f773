# SPDX-License-Identifier: GPL-2.0
"""Counts the calls of a module's function by a kprobe, in kernels that have kprobes."""
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

TRACING = Path("/sys/kernel/tracing")
EVENTS = TRACING / "kprobe_events"


def _event(line: str) -> None:
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
def calls(module: str, function: str) -> Iterator[Callable[[], int | None]]:
    """Counts calls during the block. Yields a function that returns the number so far, or None in a
    kernel without kprobes (UML). @module: "" for the kernel itself."""
    if not EVENTS.exists():
        yield lambda: None
        return
    name = f"called_{function}"
    place = f"{module}:{function}" if module else function
    _event(f"p:smq_test/{name} {place}")
    enable = TRACING / f"events/smq_test/{name}/enable"
    try:
        enable.write_text("1", encoding="ascii")
        yield lambda: _hits(name)
    finally:
        enable.write_text("0", encoding="ascii")
        _event(f"-:smq_test/{name}")
