# SPDX-License-Identifier: GPL-2.0
"""Figures: each is one number, with all that is needed to measure it again.

Every instrument writes a file of figures (FigureSet.write), and tools/bench/run merges the files.
The report and its answers to claims use these figures and nothing else.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .errors import BenchError
from .rows import ROWS
from .tomls import table

FORMAT = "smq-figures 1"

INSTRUMENTS: dict[str, str] = table("names")["instruments"]
PATHS: dict[str, str] = table("names")["paths"]
# "call" is not I/O but an empty system call for each batch.
OPS = ("read", "write", "tur", "call")
NO_DATA = ("tur", "call")
METRICS: dict[str, list[str]] = table("names")["metrics"]     # the unit, and what it is
TIMES = ("time",)       # metrics that also have p10 and median, of chunks


@dataclass(frozen=True, kw_only=True)
class Figure:   # pylint: disable=too-many-instance-attributes
    """One number."""

    instrument: str
    row: str                    # a device of ROWS
    path: str                   # how I/O is issued, of PATHS
    op: str
    bs: int                     # bytes, 0 for a command without data
    qd: int
    batch: int  # commands submitted at a time
    luns: int                   # LUNs in use
    jobs: int  # jobs that issue I/O, each pinned to its own CPU
    metric: str
    unit: str
    value: float                # median of the repeats
    spread: float               # between the smallest and the largest repeat
    repeats: int
    kernel: str                 # uname -r
    command: str                # from the top of the tree
    parameters: dict[str, Any]  # of modules and queues
    p10: float | None = None    # only for TIMES: of all chunks
    median: float | None = None
    model: bool = False         # the figure is of something that doesn't run here
    cpus: int = 1               # of the machine that was measured
    values: list[float] = field(default_factory=list)   # one for each repeat
    note: str = ""  # a remark for the reader
    # Parts of the value, by kind and name: {"group": {"LLD": 71.0, ...}}.
    parts: dict[str, dict[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check(self)

    @property
    def key(self) -> tuple[object, ...]:
        """The key of a figure, which is unique in a report."""
        return (self.instrument, self.row, self.path, self.op, self.bs, self.qd, self.batch,
                self.luns, self.jobs, self.cpus, self.metric, self.kernel)

    @property
    def low(self) -> float:
        """p10 of a time, the value of any other figure."""
        return self.value if self.p10 is None else self.p10

    @property
    def label(self) -> str:
        """The device, as the report names it."""
        return ROWS[self.row].label

    @property
    def workload(self) -> str:
        """The workload, as the report names it."""
        words = [PATHS[self.path], self.op + ("" if not self.bs else f" {size(self.bs)}"),
                 f"QD{self.qd}"]
        if self.batch > 1:
            words.append(f"batch {self.batch}")
        if self.luns > 1:
            words.append(f"{self.luns} LUNs")
        if self.jobs > 1:
            words.append(f"{self.jobs} jobs")
        return " ".join(words)


def size(count: int) -> str:
    """A number of bytes in the form 512 or 4k."""
    return f"{count // 1024}k" if count and count % 1024 == 0 else str(count)


def _check(figure: Figure) -> None:
    """Raises BenchError for a figure that says nothing, or that cannot be found again."""
    def require(good: object, name: str, limit: str) -> None:
        if not good:
            raise BenchError(f"figure: {name} is {getattr(figure, name)!r}, must be {limit}")
    names: dict[str, Iterable[str]] = {
        "instrument": INSTRUMENTS, "row": ROWS, "path": PATHS, "op": OPS, "metric": METRICS}
    for name, known in names.items():
        require(getattr(figure, name) in known, name, "one of " + ", ".join(known))
    require(figure.unit == METRICS[figure.metric][0], "unit", f"that of {figure.metric}")
    for name in ("qd", "batch", "luns", "jobs", "cpus", "repeats"):
        require(getattr(figure, name) >= 1, name, "at least 1")
    require(figure.batch <= figure.qd, "batch", f"at most qd ({figure.qd})")
    require((figure.bs == 0) == (figure.op in NO_DATA), "bs", "0 for a command without data")
    for name in ("value", "spread", *(("p10", "median") if figure.metric in TIMES else ())):
        require(math.isfinite(getattr(figure, name)), name, "a finite number")
    require(figure.model == ROWS[figure.row].model, "model", f"that of row {figure.row}")
    require(figure.command.startswith("tools/bench/"), "command", "one under tools/bench")
    require(figure.kernel, "kernel", "the measured kernel's release")
    require(len(figure.values) in (0, figure.repeats), "values", f"{figure.repeats}, one a repeat")


@dataclass
class FigureSet:
    """The figures of one instrument, or of all instruments."""

    figures: list[Figure] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)    # "insn legacy_419": why
    failed: dict[str, str] = field(default_factory=dict)     # instrument: why

    def add(self, figure: Figure) -> None:
        """Adds a figure. Two with the same key are an error."""
        if any(figure.key == other.key for other in self.figures):
            raise BenchError("figure: there are two of " + " ".join(map(str, figure.key)))
        self.figures.append(figure)

    def merge(self, other: "FigureSet") -> None:
        """Adds all figures of another set."""
        for figure in other.figures:
            self.add(figure)
        self.skipped |= other.skipped
        self.failed |= other.failed

    def find(self, **wanted: Any) -> list[Figure]:
        """All figures whose fields have these values, in order."""
        return [figure for figure in self.figures
                if all(getattr(figure, name) == value for name, value in wanted.items())]

    def one(self, **wanted: Any) -> Figure | None:
        """The figure with these values; None if there is none, an error if there are several."""
        found = self.find(**wanted)
        if len(found) > 1:
            raise BenchError(f"figure: {len(found)} fit {wanted}")
        return found[0] if found else None

    def write(self, path: Path) -> None:
        """Writes JSON. If that fails, an older file stays as it was."""
        text = json.dumps({"format": FORMAT, "figures": [asdict(one) for one in self.figures],
                           "skipped": self.skipped, "failed": self.failed}, indent=1)
        new = path.with_name(path.name + ".new")
        try:
            new.write_text(text + "\n", encoding="utf-8")
            new.replace(path)
        except OSError as error:
            raise BenchError(f"{path}: {error.strerror}") from error


def read(path: Path) -> FigureSet:
    """Reads a file that FigureSet.write() wrote, and checks every figure."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content.get("format") != FORMAT:
            raise BenchError(f"format is not '{FORMAT}'")
        result = FigureSet(skipped=content["skipped"], failed=content["failed"])
        for one in content["figures"]:
            result.add(Figure(**one))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, BenchError) as error:
        raise BenchError(f"{path}: {error}") from error
    return result
