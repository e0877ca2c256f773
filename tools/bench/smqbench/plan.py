# SPDX-License-Identifier: GPL-2.0
"""What is to be measured, as the guest's script reads it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import BenchError
from .rows import ROWS
from .timing import turns

IN_KERNEL = "in_kernel"     # smq_load issues it, all other paths are programs' in user space
FEW_JOBS = 2
_DIRECT = {"io_uring", "io_uring_fixed", "io_uring_poll"}
# Arguments of the loop passthrough, and the nodes that it is for.
_PASSTHROUGH = {
    "bsg": (["--path", "v4"], "bsg"),
    "bsg_uring": (["--path", "adhoc"], "bsg"),
    "bsg_uring_fixed": (["--path", "adhoc", "--registered"], "bsg"),
    "smq_adhoc": (["--path", "adhoc"], "smqsg"),
    "smq_adhoc_fixed": (["--path", "adhoc", "--registered"], "smqsg"),
    "smq": (["--path", "run"], "smqsg"),
    "smq_batch": (["--path", "batch"], "smqsg"),
    "smq_held": (["--path", "run", "--held"], "smqsg"),
    "smq_held_batch": (["--path", "batch", "--held"], "smqsg"),
    "smq_poll": (["--path", "run", "--poll"], "smqsg"),
    "smq_batch_poll": (["--path", "batch", "--poll"], "smqsg"),
}
# Of the loop inkernel, which has the module do it.
_IN_KERNEL = {"passthrough": [], "passthrough_cached": ["--cached"]}
_IN_KERNEL_MODULE = "smq_load"


@dataclass(frozen=True, order=True)
class Workload:     # pylint: disable=too-many-instance-attributes
    """How a row is driven."""

    path: str
    op: str
    bs: int
    qd: int
    batch: int
    luns: int = 1
    jobs: int = 1

    @property
    def key(self) -> str:
        """Its name in the guest's log."""
        return ":".join(str(value) for value in (self.path, self.op, self.bs, self.qd, self.batch,
                                                 self.luns, self.jobs))

    def program(self, counts: Sequence[int], warmup: int, data: bool,
                latencies: bool = False) -> list[str]:
        """The loop program, the nodes it is for and how many, and its arguments."""
        if self.path in _IN_KERNEL:
            return self._in_kernel(counts, warmup)
        more, nodes = _PASSTHROUGH.get(self.path, ([], "disk"))
        name = "passthrough" if more else "uring" if self.path in _DIRECT else "sgio"
        if name == "sgio":
            nodes = "smqsg" if self.path == "smq_sg_io" else "sg"
        words = [name, nodes, str(self.luns),
                 "--count", ",".join(map(str, counts)), "--warmup", str(warmup),
                 "--jobs", str(self.jobs)]
        if self.bs:
            words += ["--bs", str(self.bs)]
        if more:
            words += [*more, "--depth", str(self.qd), "--batch", str(self.batch)]
            return words + {"tur": ["--tur"], "write": ["--write"]}.get(self.op, [])
        if self.path not in _DIRECT:
            return words + (["--read"] if self.op == "read" else [])
        words += ["--depth", str(self.qd), "--batch", str(self.batch)]
        words += {"io_uring_fixed": ["--registered"],
                  "io_uring_poll": ["--poll"]}.get(self.path, [])
        words += {"write": ["--write"], "call": ["--idle"]}.get(self.op, [])
        words += ["--latencies"] if latencies else []
        return words + (["--data"] if data else [])

    def _in_kernel(self, counts: Sequence[int], warmup: int) -> list[str]:
        if self.jobs != 1 or self.op not in ("read", "tur"):
            raise BenchError(f"{self.key}: the kernel itself issues reads and TURs, from one CPU")
        return ["inkernel", "disk", str(self.luns), "--count", ",".join(map(str, counts)),
                "--warmup", str(warmup), "--depth", str(self.qd), "--batch", str(self.batch),
                *(["--tur"] if self.op == "tur" else ["--bs", str(self.bs)]),
                *_IN_KERNEL[self.path]]

    @property
    def module(self) -> str:
        """That its program needs, if any."""
        return _IN_KERNEL_MODULE if self.path in _IN_KERNEL else ""


def parse(key: str) -> Workload:
    """The workload of a key."""
    path, op, *numbers = key.split(":")
    return Workload(path, op, *map(int, numbers))


@dataclass(frozen=True)
class Plan:
    """Rows and the workloads of each."""

    cells: Sequence[tuple[str, Sequence[Workload]]]
    counts: Sequence[int]       # I/Os of each job, a run for each number
    warmup: int
    size_mb: int
    virtio_disks: int = 1       # that the VM's virtio-scsi device has, if there is one
    latencies: bool = False     # of each I/O, by the loops that can

    def lines(self, repeats: int) -> Iterable[str]:
        """For the guest: a device is brought up once for all workloads of a number of LUNs."""
        groups = [(row, luns, [w for w in workloads if w.luns == luns])
                  for row, workloads in self.cells
                  for luns in sorted({w.luns for w in workloads})]
        yield f"size {self.size_mb}"
        if self.virtio_disks > 1:
            yield f"virtio_disks {self.virtio_disks}"
        for module in sorted({w.module for _, workloads in self.cells for w in workloads} - {""}):
            yield f"module {module}"
        for repeat, (row, luns, workloads) in turns(groups, repeats):
            yield f"row {row} {luns} {repeat}"
            for workload in workloads:
                words = workload.program([self._share(workload, count) for count in self.counts],
                                         self._share(workload, self.warmup), ROWS[row].data,
                                         self.latencies)
                yield f"run {workload.key} " + " ".join(words)

    @staticmethod
    def _share(workload: Workload, count: int) -> int:
        """Of a job. Many jobs do together what two would do."""
        return count if workload.jobs <= FEW_JOBS else max(count * FEW_JOBS // workload.jobs, 1)

    def runs(self, repeats: int) -> int:
        """How many will be measured if no row is skipped."""
        return repeats * len(self.counts) * sum(len(workloads) for _, workloads in self.cells)

    def write(self, path: Path, repeats: int) -> None:
        """The file that guest/plan reads."""
        path.write_text("".join(line + "\n" for line in self.lines(repeats)), encoding="ascii")
