# SPDX-License-Identifier: GPL-2.0
"""Bars: limits on figures, of tables/bars.toml, and whether they are kept."""

import operator
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from itertools import product
from typing import Any

from . import groups, matrix
from .figures import METRICS, PATHS, Figure, FigureSet
from .rows import ROWS
from .tomls import table

# Two rows with direct that differ by more than this part have been disturbed.
CHANCE = 0.02
LIMITS = {"most": ("<=", operator.le), "below": ("<", operator.lt), "least": (">=", operator.ge),
          "above": (">", operator.gt)}
UNSURE = "no setting was found"     # in the note of a figure whose doorbell is not the wanted one
_FIELDS = [one.name for one in fields(Figure)]
_SAME = ("instrument", "row", "path", "op", "bs", "qd", "batch", "luns", "jobs", "cpus", "metric")


@dataclass(frozen=True)
class Verdict:
    """A bar, and the value that must keep it."""

    what: str
    limit: str
    value: float | None     # None: not measured
    text: str
    word: str

    @property
    def ok(self) -> bool:
        """Whether the bar is kept, or does not bind here."""
        return self.word not in ("MISSED", "not measured", "not judged")


def is_one(figure: Figure, wanted: dict[str, Any]) -> bool:
    """Whether a figure has these values; * stands for any text, a list for any of its elements."""
    for name, value in wanted.items():
        mine = getattr(figure, name)
        values = value if isinstance(value, list) else [value]
        if not any(fnmatchcase(mine, one) if isinstance(one, str) else mine == one
                   for one in values):
            return False
    return True


def others(taken: FigureSet, figure: Figure, change: dict[str, Any]) -> list[Figure]:
    """The figures that differ from this one only in these fields. In the name of a row * stands for
    the figure's row up to its last word."""
    wanted = {name: getattr(figure, name) for name in _SAME} | change
    rows = wanted["row"] if isinstance(wanted["row"], list) else [wanted["row"]]
    wanted["row"] = [row.replace("*", figure.row.rpartition("_")[0]) for row in rows]
    return [one for one in taken.figures if is_one(one, wanted)]


class Bar:
    """A bar."""

    def __init__(self, spec: dict[str, Any], instrument: str):
        self.spec = spec
        self.where: dict[str, Any] = {
            "instrument": instrument, "metric": "insn",
            **{name: value for name, value in spec.items() if name in _FIELDS}}
        self.change: dict[str, Any] = spec.get("by") or spec.get("minus") or {}

    def rows(self) -> list[str]:
        """The rows that the bar needs, as patterns."""
        row, other = self.where["row"], self.change.get("row", [])
        if self.where["metric"] == "against_direct":
            other = row.removesuffix("_batch")
        return [row, *(other if isinstance(other, list) else [other])]

    @property
    def what(self) -> str:
        """The name of the bar."""
        if "what" in self.spec:
            return str(self.spec["what"])
        where, row = self.where, self.where["row"]
        words = [ROWS[row].label if row in ROWS else row, PATHS.get(where.get("path", ""), "")]
        words += [f"{name} {where[name]}" for name in ("op", "bs", "qd", "batch", "luns", "jobs")
                  if name in where]
        words.append(METRICS[where["metric"]][1].partition(",")[0])
        words.append(self.spec.get("take", "").partition("/")[2])
        for name, word in (("by", "divided by"), ("minus", "less")):
            for field, value in self.spec.get(name, {}).items():
                scale = f"{self.spec['scale']} times " if "scale" in self.spec else ""
                words.append(f"{word} {scale}that of {field} {value}")
        return ", ".join(filter(None, words))

    def value(self, taken: FigureSet, figure: Figure) -> float | None:
        """The value of a figure that counts; None if another figure is missing."""
        take, change = self.spec.get("take", ""), self.change
        found = others(taken, figure, change) if change else []
        mine = _taken(figure, take)
        if not change:
            return mine
        if not found:
            return None
        other = min(found, key=lambda one: one.value)
        if "again" in self.spec:
            again = others(taken, figure, self.spec["again"])
            if not again or other.row == figure.row or again[0].row == figure.row:
                return None
            if take == "spreads":
                return _spreads(figure, other, again[0])
            if abs(other.value - again[0].value) > CHANCE * other.value:
                return None
        if self.spec.get("by"):
            if take == "turns":
                return statistics.median(a / b for a, b in zip(figure.values, other.values))
            return mine / _taken(other, take) if _taken(other, take) else None
        scale: float = self.spec.get("scale", 1)
        return mine - scale * _taken(other, take)

    def _broken(self, value: float) -> bool:
        return any(name in self.spec and not keeps(value, self.spec[name])
                   for name, (_, keeps) in LIMITS.items())

    def judge(self, taken: FigureSet) -> Verdict:
        """The verdict: of several figures the worst one counts."""
        limit = " ".join(f"{sign} {self.spec[name]:g}" for name, (sign, _) in LIMITS.items()
                         if name in self.spec)
        found = [(value, one) for one in taken.figures if is_one(one, self.where)
                 and (value := self.value(taken, one)) is not None]
        if not found:
            return Verdict(self.what, limit, None, "",
                           "" if self.spec.get("optional") else "not measured")
        high = "most" in self.spec or "below" in self.spec
        value, worst = (max if high else min)(found, key=lambda item: item[0])
        for one in found:
            if self._broken(one[0]):
                value, worst = one
        text = f"{value:.4g}"
        if value == worst.value and matrix.has_interval(worst):
            text = matrix.text_of(worst)
        word = "MISSED" if self._broken(value) else "PASS"
        if "on" in self.spec and not worst.kernel.startswith(f"{self.spec['on']}."):
            word = f"({self.spec['on']} only)"
        elif UNSURE in worst.note:
            word = "not judged"
        return Verdict(self.what, limit, value, text, word)


def _taken(figure: Figure, take: str) -> float:
    """The part of a figure that "take" names, else its value."""
    kind, _, names = take.partition("/")
    parts = figure.parts.get("group" if kind in ("share", "kernel") else kind, {})
    found = sum(value for name, value in parts.items()
                if any(fnmatchcase(name, one) for one in names.split("+")))
    kernel = figure.value - parts.get(groups.PROGRAM, 0.0)
    if kind == "share":
        return 100 * found / kernel
    if names:
        return found
    return {"worst": max(figure.values or [figure.value]), "low": figure.low,
            "kernel": kernel}.get(kind, figure.value)


def _spreads(figure: Figure, direct: Figure, again: Figure) -> float:
    """How much slower a row is than direct, as a multiple of direct's spread: of the difference
    between two rows with direct, plus half the spread of the first row's repeats."""
    low, high = sorted((direct.low, again.low))
    spread = high - low + direct.spread / 2
    return (figure.low - high) / spread if spread else 0.0


SECTIONS = list(table("bars"))


def bars(section: str) -> Iterator[Bar]:
    """The bars of a section; a list in a field stands for a bar of each element."""
    content = table("bars")[section]
    instrument = content.get("instrument", section)
    for one in content["bars"]:
        spec = content["where"] | one
        lists = [name for name, value in spec.items() if isinstance(value, list)]
        for values in product(*(spec[name] for name in lists)):
            yield Bar(spec | dict(zip(lists, values)), instrument)


def judged(section: str, taken: FigureSet, rows: Sequence[str]) -> list[Verdict]:
    """The verdicts of the bars all of whose rows are among these."""
    return [bar.judge(taken) for bar in bars(section)
            if all(any(fnmatchcase(row, pattern) or pattern.startswith("*") for row in rows)
                   for pattern in bar.rows())]


def cells(found: Sequence[Verdict]) -> tuple[list[str], list[list[str]]]:
    """A table of verdicts: the head, and the rows."""
    return ["bar", "must be", "is", ""], [[one.what, one.limit, one.text, one.word]
                                          for one in found]
