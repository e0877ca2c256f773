# SPDX-License-Identifier: GPL-2.0
"""What each boot measures, as lines for the guest. Every workload runs first on one path and then
on the other, with the same program, queue depth and number of I/Os."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from smqbench.plan import Workload
from smqbench.timing import turns

WORKLOADS = {
    "aio-4k-qd32": Workload("libaio", "read", 4096, 32, 16),
    "aio-512-qd32": Workload("libaio", "read", 512, 32, 16),
    "aio-4k-qd1": Workload("libaio", "read", 4096, 1, 1),
    "aio-512-qd1": Workload("libaio", "read", 512, 1, 1),
    "sg-tur": Workload("sg_io", "tur", 0, 1, 1),
    "sg-read": Workload("sg_io", "read", 512, 1, 1),
    "sd-read": Workload("sd_sg_io", "read", 512, 1, 1),     # SG_IO on the node of sd
}
# Without --workloads, only these are measured if there are several LUNs or CPUs.
MAIN = ["aio-4k-qd32", "aio-4k-qd1", "sd-read"]
LEGACY, MQ = "kernel_legacy", "kernel_mq"
TIMER = "_timer"
ROWS = (LEGACY, LEGACY + TIMER, MQ, MQ + TIMER)

EXACT, PACED, TIME = "exact", "paced", "time"


@dataclass(frozen=True)
class Counts:
    """How many I/Os each job issues as warm-up, and in each measured run. If there are two runs,
    the figures are the difference of the two."""

    warmup: int
    measured: tuple[int, ...]


COUNTS = {EXACT: Counts(1000, (2000, 6000)), PACED: Counts(500, (2000,))}
# By QD1 or more, and by completion inside queuecommand or by a timer: so many that each run takes
# half a second on an emulated CPU. What disturbs a shorter one decides the ratio.
TIMES = {(False, False): Counts(1000, (40000,)), (False, True): Counts(300, (10000,)),
         (True, False): Counts(300, (12000,)), (True, True): Counts(100, (2000,))}


def program(workload: Workload, kind: str) -> str:
    """Returns the program, the kind of its nodes, and its arguments, as words of the plan."""
    if workload.path == "libaio":
        words = ["aio", "disk", "--bs", str(workload.bs), "--depth", str(workload.qd),
                 "--batch", str(workload.batch), *([] if kind == EXACT else ["--now"])]
    else:
        nodes = "disk" if workload.path == "sd_sg_io" else "sg"
        words = ["sgio", nodes, *(["--read", "--bs", str(workload.bs)] if workload.bs else [])]
    return " ".join([*words, "--jobs", str(workload.jobs)])


@dataclass(frozen=True)
class Plan:
    """What one boot measures: each row with each workload, `repeat` times."""

    kind: str
    rows: Sequence[str]
    workloads: Sequence[Workload]
    repeat: int

    def counts(self, workload: Workload, row: str = "") -> Counts:
        """Returns how many I/Os a job of the workload issues."""
        return TIMES[workload.qd == 1, row.endswith(TIMER)] if self.kind == TIME else \
            COUNTS[self.kind]

    def _steps(self) -> Iterator[tuple[int, str, int, list[Workload]]]:
        """Yields (repeat, row, LUNs, workloads). The paths take turns, and every second repeat
        begins with the other path. If times are measured, the paths take turns within each
        workload."""
        for mode, luns in product(("", TIMER), sorted({one.luns for one in self.workloads})):
            rows = [row for row in self.rows if row.endswith(TIMER) == bool(mode)]
            found = [one for one in self.workloads if one.luns == luns]
            for group in [[one] for one in found] if self.kind == TIME else [found]:
                for repeat, row in turns(rows, self.repeat):
                    yield repeat, row, luns, group

    def lines(self) -> Iterable[str]:
        """Yields the lines of the plan that the guest executes."""
        for repeat, row, luns, workloads in self._steps():
            yield f"row {row} {luns} {repeat}"
            for one in workloads:
                counts = self.counts(one, row)
                ios = (counts.warmup + sum(counts.measured)) * one.jobs
                name, nodes, *words = program(one, self.kind).split()
                yield " ".join(["run", one.key, str(counts.warmup), str(ios), name, nodes,
                                "--count", ",".join(map(str, counts.measured)), *words])

    def runs(self) -> int:
        """Returns how many runs the guest will measure."""
        return self.repeat * len(self.rows) * sum(len(self.counts(one).measured)
                                                  for one in self.workloads)


def chosen(names: Sequence[str], luns: Sequence[int], jobs: Sequence[int]) -> list[Workload]:
    """Returns the named workloads, each with every number of LUNs and of jobs."""
    return [replace(WORKLOADS[name], luns=many, jobs=cpus)
            for cpus in jobs for many in luns for name in names]
