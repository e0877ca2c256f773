# SPDX-License-Identifier: GPL-2.0
"""A finding: a setting, why it matters, and the command that changes it."""
from collections.abc import Iterable
from dataclasses import dataclass, field

# ERROR: something does not work. WARNING: it works, but slowly or at a risk. NOTE: the setting
# cannot be changed, or may be intended.
ERROR, WARNING, NOTE = LEVELS = ("error", "warning", "note")


@dataclass
class Finding:
    """The result of a check. check: the name of the check; where: the objects that the finding is
    about, most of them in sysfs; commands: lines for a root shell, one for each object or one for
    all. If there are no commands, the setting cannot be changed."""

    check: str
    level: str
    where: list[str]
    found: str
    why: str
    commands: list[str] = field(default_factory=list)


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """Joins findings that differ only in their objects. Sorts them: errors come first."""
    result: dict[tuple[str, ...], Finding] = {}
    for one in findings:
        same = result.setdefault((one.check, one.level, one.found, one.why), one)
        if same is not one:
            same.where += one.where
            same.commands += [line for line in one.commands if line not in same.commands]
    return sorted(result.values(), key=lambda one: LEVELS.index(one.level))
