# SPDX-License-Identifier: GPL-2.0
"""The devices that are measured, in the order of the report: tables/rows.toml. Behind them the rows
of the policies, whose names are DEVICE_WORD: tables/policyrows.toml."""

from dataclasses import dataclass
from typing import Any

from .errors import BenchError
from .tomls import table


@dataclass(frozen=True)
class Row:
    """A device and its settings."""

    label: str
    note: str
    model: bool = False
    waits: bool = False
    data: bool = False


def _words(group: dict[str, Any]) -> dict[str, str]:
    policy: str = group["policy"]
    more: dict[str, str] = group.get("more", {})
    return {"direct": "direct", "again": "direct again", policy: policy} | more


# Of each device that policies are compared on: its rows, with their labels.
POLICY_ROWS = {name: _words(group) for name, group in table("policyrows").items()}
ROWS = {name: Row(**row) for name, row in table("rows").items()}
for _name, _group in table("policyrows").items():
    for _word, _text in POLICY_ROWS[_name].items():
        ROWS[f"{_name}_{_word}"] = Row(f"{_group['label']}, {_text}", _group["note"], waits=True,
                                       data=_group.get("data", True))


def chosen(text: str | None, of: list[str]) -> list[str]:
    """The rows named by an option, in the order of @of; without the option all of them."""
    if text is None:
        return list(of)
    names = text.split(",")
    for name in names:
        if name not in of:
            raise BenchError(f"--rows: there is no row '{name}', only {', '.join(of)}")
    return [name for name in of if name in names]
