# SPDX-License-Identifier: GPL-2.0
"""Figures: each is one number, with all that is needed to measure it again.

Every instrument writes a file of figures (FigureSet.write), and tools/bench/run merges the files.
The report and its answers to claims use these figures and nothing else.
"""

import csv
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

from .errors import BenchError
from .rows import ROWS

FORMAT = "smq-figures 1"

# Each is the name of a command under tools/bench.
INSTRUMENTS = ("insn", "fastpath", "locks", "lines", "native", "legacy-kernel",
               "policies")
PATHS = {
    "io_uring": "io_uring", "io_uring_fixed": "io_uring, registered",
    "io_uring_poll": "io_uring, polled",
    "io_uring_beside": "io_uring beside smq_sg's own queue",
    "sg_io": "SG_IO", "sd_sg_io": "SG_IO on the disk",
    "libaio": "libaio", "in_kernel": "in kernel", "passthrough": "in-kernel passthrough",
    "passthrough_cached": "in-kernel passthrough, cached requests", "bsg": "bsg SG_IO v4",
    "bsg_uring": "bsg uring_cmd", "bsg_uring_fixed": "bsg uring_cmd, registered",
    "smq_sg_io": "smq_sg SG_IO", "smq_write_read": "smq_sg write() and read()",
    "smq_adhoc": "smq_sg ad hoc", "smq_adhoc_fixed": "smq_sg ad hoc, registered",
    "smq": "smq_sg prepared", "smq_batch": "smq_sg prepared, a batch per SQE",
    "smq_timed": "smq_sg prepared, timed batches",
    "smq_lba": "smq_sg prepared, another LBA",
    "smq_poll": "smq_sg prepared, polled",
    "page_cache": "page cache", "fsync": "write and fsync", "direct": "O_DIRECT write",
    "database": "commit of a database", "untar": "untar", "copy": "bulk copy",
    "buffered": "buffered reads", "buffered_pinned": "buffered reads, pinned",
    "smq_batch_poll": "smq_sg prepared, a batch per SQE, polled",
}
# "call" is not I/O but an empty system call for each batch.
OPS = ("read", "write", "tur", "call")
NO_DATA = ("tur", "call")
# name: (unit, what it is)
METRICS = {
    "insn": ("insn/IO", "instructions, kernel and program together"),
    "insn_kernel": ("insn/IO", "instructions in the kernel"),
    "insn_lld": ("insn/IO", "instructions of the LLD and what it calls"),
    "allocations": ("allocations/IO", "allocations by the LLD"),
    "interrupts": ("interrupts/IO", "interrupts of the device"),
    "doorbells": ("doorbells/IO", "doorbells rung"),
    "locks": ("locks/IO", "acquisitions of locks"),
    "shared": ("doorbells/IO", "doorbells that a CPU rang for others"),
    "lat_p50": ("ms", "latency, median"),
    "lat_p99": ("ms", "latency, 99 of 100 below"),
    "lat_p999": ("ms", "latency, 999 of 1000 below"),
    "mb_s": ("MB/s", "bytes moved"),
    "seconds": ("s", "time of the whole load"),
    "queued": ("writes", "waiting in the block layer or with the device"),
    "steered": ("%", "commands that left their hardware queue"),
    "migrations": ("", "migrations of the task"),
    "waits": ("waits/IO", "waits for a lock"),
    "contended": ("%", "acquisitions that found the lock taken"),
    "transfers": ("lines/IO", "cache lines that moved between CPUs"),
    "own_transfers": ("lines/IO", "cache lines moved by our modules"),
    "time": ("ns/IO", "time"),
    "iops": ("IO/s", "I/O per second"),
    "iops_cpu": ("IO/s/CPU", "I/O per second of CPU time"),
    "against_block": ("x", "time divided by that of registered block reads, p10 of each repeat"),
    "against_mq": ("x", "I/O per second on the legacy path divided by those on scsi-mq, by round"),
    "against_block_bare": ("x", "against_block with the time of empty calls subtracted from both"),
    "lock_share": ("%", "instructions in locks and waiting for them"),
    "wait_share": ("%", "instructions spent waiting for locks"),
}
TIMES = ("time",)       # metrics that also have p10 and median, of chunks
# The fields of a figure that write_csv() writes, for other programs.
COLUMNS = ("instrument", "row", "path", "op", "bs", "qd", "batch", "luns", "jobs", "cpus", "metric",
           "unit", "value", "spread", "repeats", "p10", "median", "model", "kernel", "command",
           "note")


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


def _require(good: bool, name: str, value: Any, limit: str) -> None:
    if not good:
        raise BenchError(f"figure: {name} is {value!r}, must be {limit}")


def _finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _check_types(figure: Figure) -> None:
    for one in fields(figure):
        value = getattr(figure, one.name)
        kinds = get_args(one.type) if isinstance(one.type, UnionType) else [one.type]
        plain: list[Any] = [get_origin(kind) or kind for kind in kinds]
        good = isinstance(value, tuple(plain)) or float in plain and isinstance(value, int)
        if bool not in plain and isinstance(value, bool):
            good = False
        names = " or ".join(kind.__name__ for kind in plain)
        _require(good, one.name, value, f"of type {names}")


def _check(figure: Figure) -> None:
    _check_types(figure)
    for name, known in (("instrument", INSTRUMENTS), ("row", ROWS), ("path", PATHS), ("op", OPS),
                        ("metric", METRICS)):
        _require(getattr(figure, name) in known, name, getattr(figure, name),
                 "one of " + ", ".join(known))
    _require(figure.unit == METRICS[figure.metric][0], "unit", figure.unit,
             f"{METRICS[figure.metric][0]} for {figure.metric}")
    for name, least in (("bs", 0), ("qd", 1), ("batch", 1), ("luns", 1), ("jobs", 1), ("cpus", 1),
                        ("repeats", 1)):
        _require(getattr(figure, name) >= least, name, getattr(figure, name), f"at least {least}")
    _require(figure.batch <= figure.qd, "batch", figure.batch, f"at most qd ({figure.qd})")
    _require((figure.bs == 0) == (figure.op in NO_DATA), "bs", figure.bs,
             "0 for " + " and ".join(NO_DATA) + ", and only for these")
    _require(_finite(figure.value), "value", figure.value, "a finite number")
    _require(_finite(figure.spread) and figure.spread >= 0, "spread", figure.spread,
             "a finite number from 0")
    for name in ("p10", "median"):
        value = getattr(figure, name)
        _require((value is not None) == (figure.metric in TIMES), name, value,
                 "given only for " + ", ".join(TIMES))
        _require(value is None or _finite(value), name, value, "a finite number")
    _require(figure.model == ROWS[figure.row].model, "model", figure.model,
             f"{ROWS[figure.row].model} for row {figure.row}")
    _require(figure.command.startswith("tools/bench/"), "command", figure.command,
             "one under tools/bench")
    _require(bool(figure.kernel), "kernel", figure.kernel, "the measured kernel's release")
    _require(len(figure.values) in (0, figure.repeats) and all(map(_finite, figure.values)),
             "values", figure.values, f"{figure.repeats} finite numbers, one a repeat")
    for what, parts in figure.parts.items():
        _require(isinstance(parts, dict), f"parts[{what}]", parts, "numbers by name")
        for name, value in parts.items():
            _require(_finite(value), f"parts[{what}][{name}]", value, "a finite number")


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

    def write_csv(self, path: Path) -> None:
        """Writes CSV, a line for each figure, without its parts and parameters."""
        try:
            with path.open("w", encoding="utf-8", newline="") as file:
                lines = csv.writer(file, lineterminator="\n")
                lines.writerow(COLUMNS)
                lines.writerows([getattr(one, name) for name in COLUMNS] for one in self.figures)
        except OSError as error:
            raise BenchError(f"{path}: {error.strerror}") from error


def _from_json(number: int, content: Any) -> Figure:
    names = {one.name for one in fields(Figure)}
    if not isinstance(content, Mapping):
        raise BenchError(f"figure {number}: is not an object")
    unknown = content.keys() - names
    if unknown:
        raise BenchError(f"figure {number}: unknown field {sorted(unknown)[0]}")
    try:
        return Figure(**content)
    except TypeError as error:
        raise BenchError(f"figure {number}: {error}") from error
    except BenchError as error:
        raise BenchError(f"figure {number}: {error}") from error


def read(path: Path) -> FigureSet:
    """Reads a file that FigureSet.write() wrote, and checks every field."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BenchError(f"{path}: {error}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise BenchError(f"{path}: format is not '{FORMAT}'")
    result = FigureSet()
    try:
        for number, one in enumerate(content["figures"]):
            result.add(_from_json(number, one))
        for name in ("skipped", "failed"):
            said = getattr(result, name)
            said |= {str(key): str(why) for key, why in content[name].items()}
    except KeyError as error:
        raise BenchError(f"{path}: {error} is missing") from error
    except (TypeError, AttributeError) as error:
        raise BenchError(f"{path}: {error}") from error
    except BenchError as error:
        raise BenchError(f"{path}: {error}") from error
    return result


def merged(sets: Iterable[FigureSet]) -> FigureSet:
    """Merges all sets into a new one."""
    result = FigureSet()
    for one in sets:
        result.merge(one)
    return result
