# SPDX-License-Identifier: GPL-2.0
"""Prints findings as text, and as JSON."""
import json
import textwrap

from .finding import LEVELS, NOTE, Finding
from .machine import Host

WIDTH = 100
# For each finding at most this many objects, and at most this many commands, are printed.
MOST = 12


def _count(number: int, name: str) -> str:
    return f"{number} {name}" + "s" * (number != 1)


def heading(host: Host, words: str) -> str:
    """The heading of a host."""
    queues, can = host.number("nr_hw_queues"), host.number("can_queue")
    parts = [f"{host.name}: {host.transport}, {host.driver}", words,
             _count(queues, "hardware queue") if queues else "",
             f"can_queue {can}" if can else "", _count(len(host.luns), "LUN")]
    return ", ".join(part for part in parts if part)


def _wrapped(text: str, indent: str) -> str:
    return textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent=indent,
                         break_on_hyphens=False, break_long_words=False)


def finding(one: Finding) -> str:
    """A finding as a paragraph."""
    more = len(one.where) - MOST
    where = " ".join(one.where[:MOST]) + (f" and {more} more" if more > 0 else "")
    lines = [_wrapped(f"{one.level} ({one.check}): {where}: {one.found}.", "  "),
             _wrapped(one.why, "      ")]
    lines += [f"      # {line}" for line in one.commands[:MOST]]
    if len(one.commands) > MOST:
        lines.append(f"      ... {len(one.commands) - MOST} more like these; --json has them all")
    return "\n".join(lines)


def summary(found: list[Finding]) -> str:
    """The last line: how many errors, warnings and notes."""
    counts = [(level, sum(one.level == level for one in found)) for level in LEVELS]
    return ", ".join(_count(count, level) for level, count in counts)


def status(found: list[Finding]) -> int:
    """The exit status."""
    return int(any(one.level != NOTE for one in found))


def as_json(hosts: list[Host], words: dict[str, str], found: list[Finding]) -> str:
    """The findings as JSON."""
    return json.dumps({
        "version": 1,
        "hosts": [{"host": host.name, "transport": host.transport, "driver": host.driver,
                   "about": words[host.name], "nr_hw_queues": host.number("nr_hw_queues"),
                   "can_queue": host.number("can_queue"),
                   "luns": [lun.address for lun in host.luns]} for host in hosts],
        "findings": [vars(one) for one in found]}, indent=2)
