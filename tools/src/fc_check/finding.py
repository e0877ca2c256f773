# SPDX-License-Identifier: GPL-2.0
"""A finding: a setting, why it matters, and the command that changes it."""
from collections.abc import Iterable
from dataclasses import dataclass, field

# Levels: something does not work; it works slowly or at a risk; it cannot be changed, or may be
# intended.
ERROR, WARNING, NOTE = LEVELS = ("error", "warning", "note")


@dataclass
class Finding:
    """The result of a check. check: its name; where: the objects in sysfs that it found; commands:
    lines for a root shell, one for each object or one for all. Without a command the setting cannot
    be changed."""

    check: str
    level: str
    where: list[str]
    found: str
    why: str
    commands: list[str] = field(default_factory=list)


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """Joins findings that differ only in their objects; the worst come first."""
    result: dict[tuple, Finding] = {}
    for one in findings:
        same = result.setdefault((one.check, one.level, one.found, one.why), one)
        if same is not one:
            same.where += one.where
            same.commands += [line for line in one.commands if line not in same.commands]
    return sorted(result.values(), key=lambda one: LEVELS.index(one.level))
