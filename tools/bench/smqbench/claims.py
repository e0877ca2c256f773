# SPDX-License-Identifier: GPL-2.0
"""Compares the figures taken here with what others reported: tables/claims.toml."""

from typing import Any

from .bars import LIMITS, Bar, is_one
from .figures import FigureSet
from .tomls import table


def _keeps(limits: dict[str, Any], value: float) -> bool:
    return all(keeps(value, limits[name]) for name, (_, keeps) in LIMITS.items() if name in limits)


def _verdict(spec: dict[str, Any], value: float) -> str:
    least = 0.1 if spec.get("metric") in ("locks", "waits") else 0
    if "near" in spec:
        good = any(abs(value - near) <= max(least, spec["within"] * near)
                   for near in spec["near"])
    else:
        good = _keeps(spec, value)
    if not good and "partly" in spec and _keeps(spec["partly"], value):
        return "in part"
    return "reproduced" if good else "not reproduced"


def answer(claim: dict[str, Any], taken: FigureSet) -> list[str]:
    """A claim: its text, the reported figure, the figure here, the verdict, and why."""
    spec = table("claims")["where"] | claim["is"]
    spec.setdefault("batch", min(spec["qd"], 16))
    bar = Bar(spec, spec["instrument"])
    values = [value for one in taken.figures if is_one(one, bar.where)
              and (value := bar.value(taken, one)) is not None]
    if not values:
        name, row = spec["instrument"], spec["row"]
        why = (taken.skipped.get(f"{name} {row}") or taken.failed.get(name)
               or taken.skipped.get(name) or f"tools/bench/{name} took no such figure of {row}")
        return [claim["text"], claim["then"], "", "not measured", why]
    return [claim["text"], claim["then"], f"{values[0]:.4g}", _verdict(spec, values[0]),
            claim.get("why", "")]


def answers(taken: FigureSet) -> list[list[str]]:
    """The answers to all claims."""
    return [answer(claim, taken) for claim in table("claims")["claim"]]
