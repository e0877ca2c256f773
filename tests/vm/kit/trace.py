# SPDX-License-Identifier: GPL-2.0
"""The layer's tracepoints, which show that each command ends exactly once."""
import re
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from .sanitizing import SANITIZING

TRACING = Path("/sys/kernel/tracing")
# Traces are long: they are parsed by regular expressions as a whole, because a Python loop over the
# lines would take as long as the load.
NAME = re.compile(r" (smq_\w+): ")
EVENT = re.compile(r" (smq_\w+): (.*)")
COMMAND = re.compile(r" (smq_\w+): (host=\d+ hwq=\d+ tag=\d+) ")
ENDS = ("smq_done", "smq_taken", "smq_busy")


# The largest trace buffer that is kept after a test. A new buffer takes a second to allocate. Under
# the sanitizers memory is slow and few tests trace, so there the buffer shrinks to almost nothing.
BUFFER_KB = 4 if SANITIZING else 16384


def _set(path: str, value: str) -> None:
    (TRACING / path).write_text(value, encoding="ascii")


def _resize(size: Callable[[int], int]) -> None:
    """Resizes the buffer only if the size differs: the change takes as long as a test."""
    # Before its first use the file reads "7 (expanded: 1408)".
    before = int((TRACING / "buffer_size_kb").read_text(encoding="ascii").split()[0])
    if size(before) != before:
        _set("buffer_size_kb", str(size(before)))


@contextmanager
def enabled(*events: str):
    """Enables events during the block. In the block recording() patches no code of the kernel, so
    it may begin under load. QEMU before 8.1 with several CPUs may keep an old translation of code
    that is patched while it is executed, and then executes int3 there endlessly."""
    states = [TRACING / f"events/{event}/enable" for event in events]
    changed = [path for path in states if path.read_text(encoding="ascii").startswith("0")]
    on = (TRACING / "tracing_on").read_text(encoding="ascii")
    _set("tracing_on", "0")
    try:
        for path in changed:
            path.write_text("1", encoding="ascii")
        yield
    finally:
        _set("tracing_on", "0")
        for path in changed:
            path.write_text("0", encoding="ascii")
        _set("tracing_on", on)


@contextmanager
def recording(*events: str, buffer_kb: int = 1024, clock: str = "local"):
    """Yields a list, which has the lines of these events when the block ends. Afterwards tracing is
    in its initial state, except for the size of the buffer. Under load use enabled() as well."""
    lines: list[str] = []
    _set("tracing_on", "0")
    _resize(lambda kb: max(kb, buffer_kb))
    _set("trace_clock", clock)
    _set("trace", "")
    try:
        with enabled(*events):
            _set("tracing_on", "1")
            yield lines
    finally:
        lines += (TRACING / "trace").read_text(encoding="utf-8").splitlines()
        lost = [int(re.search(r"^overrun: (\d+)", stats.read_text(encoding="ascii"), re.M)[1])
                for stats in TRACING.glob("per_cpu/cpu*/stats")]
        _set("trace", "")
        _resize(lambda kb: min(kb, BUFFER_KB))
        _set("trace_clock", "local")
        _set("tracing_on", "1")
    assert not any(lost), f"{sum(lost)} events lost: the trace buffer is too small"


class Trace:
    """Recorded smq:* events, in the order in which they happened."""

    def __init__(self, text: str = ""):
        self.text = text

    @cached_property
    def events(self) -> list[tuple[str, dict[str, str]]]:
        """Each event's name and fields."""
        return [(name, dict(word.split("=", 1) for word in fields.split()))
                for name, fields in EVENT.findall(self.text)]

    def count(self) -> Counter:
        """How many events of each kind there were."""
        return Counter(NAME.findall(self.text))

    def check_once(self) -> int:
        """Asserts that each queued command ended once, before its tag was used again.

        Returns how many commands there were.
        """
        open_tags: set[str] = set()
        commands = 0
        for name, key in COMMAND.findall(self.text):
            if name == "smq_queue":
                assert key not in open_tags, f"queued again before its end: {key}"
                open_tags.add(key)
                commands += 1
            elif name in ENDS:
                assert key in open_tags, f"{name} of a command that is not queued: {key}"
                open_tags.remove(key)
        assert not open_tags, f"never ended: {sorted(open_tags)}"
        return commands


@contextmanager
def _work(event: str, function: str):
    found: list[str] = []
    with recording(f"workqueue/workqueue_{event}") as lines:
        yield found
    found += [line for line in lines if re.search(rf"function[= ]{function}\b", line + " ")]


def queued_work(function: str):
    """Yields a list, filled when the block ends: a line for each time that work of @function
    was queued."""
    return _work("queue_work", function)


def executed_work(function: str):
    """As queued_work(), for each time that a worker executed it."""
    return _work("execute_start", function)


@contextmanager
def traced(buffer_kb: int = 16384):
    """Records smq:* events during the block. The Trace is filled when the block ends; hosts must be
    idle then."""
    trace = Trace()
    if SANITIZING:
        # With all checkers a MiB takes 0.1 s to allocate and as long to free, and a test does fewer
        # I/Os.
        buffer_kb = max(buffer_kb // 8, 4096)
    # A counter as the clock, because times of two CPUs may be equal.
    with recording("smq", buffer_kb=buffer_kb, clock="counter") as lines:
        yield trace
    trace.text = "\n".join(lines)
