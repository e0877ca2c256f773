# SPDX-License-Identifier: GPL-2.0
"""A finding: what is set, why it matters, what changes it."""
from collections.abc import Iterable
from dataclasses import dataclass, field

# Something does not work; it works, but slowly or at a risk; it cannot be changed or may be meant.
ERROR, WARNING, NOTE = LEVELS = ("error", "warning", "note")


@dataclass
class Finding:
    """One check's result. check names the check; where has the objects in sysfs for which it is
    true, commands one line for a root shell for each, or one for all of them. No command: this
    cannot be changed."""

    check: str
    level: str
    where: list[str]
    found: str
    why: str
    commands: list[str] = field(default_factory=list)


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """Findings with the objects of those that say the same in one; the worst come first."""
    result: dict[tuple, Finding] = {}
    for one in findings:
        same = result.setdefault((one.check, one.level, one.found, one.why), one)
        if same is not one:
            same.where += one.where
            same.commands += [line for line in one.commands if line not in same.commands]
    return sorted(result.values(), key=lambda one: LEVELS.index(one.level))
