# SPDX-License-Identifier: GPL-2.0
"""How often a function of a module is called, as a kprobe counts; where the kernel has them."""
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

TRACING = Path("/sys/kernel/tracing")
EVENTS = TRACING / "kprobe_events"


def _event(line: str) -> None:
    # Not open(): to append it seeks the end, which there is none of; to write it truncates.
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
    """Counts during the block: what tells the number so far, or None without kprobes (UML)."""
    if not EVENTS.exists():
        yield lambda: None
        return
    name = f"called_{function}"
    _event(f"p:smq_test/{name} {module}:{function}")
    enable = TRACING / f"events/smq_test/{name}/enable"
    try:
        enable.write_text("1", encoding="ascii")
        yield lambda: _hits(name)
    finally:
        enable.write_text("0", encoding="ascii")
        _event(f"-:smq_test/{name}")
