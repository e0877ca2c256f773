# SPDX-License-Identifier: GPL-2.0
"""The plan of a measurement, in the form that the guest's script reads."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import BenchError
from .rows import ROWS
from .timing import turns

IN_KERNEL = "in_kernel"  # the path of smq_load; programs in user space use all others
FEW_JOBS = 2
# Paths of the program uring, and the kind of nodes that each uses.
_DIRECT = {"io_uring": "disk", "io_uring_fixed": "disk", "io_uring_poll": "disk",
           "io_uring_beside": "disk_own"}
# Arguments of the program passthrough, and the kind of nodes that it uses.
_PASSTHROUGH: dict[str, tuple[list[str], str]] = {
    "bsg": (["--path", "v4"], "bsg"),
    "bsg_uring": (["--path", "adhoc"], "bsg"),
    "bsg_uring_fixed": (["--path", "adhoc", "--registered"], "bsg"),
    "smq_adhoc": (["--path", "adhoc"], "smqsg"),
    "smq_adhoc_fixed": (["--path", "adhoc", "--registered"], "smqsg"),
    "smq": (["--path", "run"], "smqsg"),
    "smq_batch": (["--path", "batch"], "smqsg"),
    "smq_timed": (["--path", "timed"], "smqsg"),
    "smq_lba": (["--path", "run-lba"], "smqsg"),
    "smq_poll": (["--path", "run", "--poll"], "smqsg"),
    "smq_batch_poll": (["--path", "batch", "--poll"], "smqsg"),
}
# Arguments of the program inkernel, which starts a run of the module smq_load.
_IN_KERNEL: dict[str, list[str]] = {"passthrough": [], "passthrough_cached": ["--cached"]}
_IN_KERNEL_MODULE = "smq_load"


@dataclass(frozen=True, order=True)
class Workload:     # pylint: disable=too-many-instance-attributes
    """The load on a row."""

    path: str
    op: str
    bs: int
    qd: int
    batch: int
    luns: int = 1
    jobs: int = 1

    @property
    def key(self) -> str:
        """The workload's name in the guest's log."""
        return ":".join(str(value) for value in (self.path, self.op, self.bs, self.qd, self.batch,
                                                 self.luns, self.jobs))

    def program(self, counts: Sequence[int], warmup: int, data: bool,
                latencies: bool = False) -> list[str]:
        """The program, the kind and number of its nodes, and its arguments."""
        if self.path in _IN_KERNEL:
            return self._in_kernel(counts, warmup)
        more, nodes = _PASSTHROUGH.get(self.path, ([], _DIRECT.get(self.path, "disk")))
        name = "passthrough" if more else "uring" if self.path in _DIRECT else "sgio"
        if name == "sgio":
            nodes = {"smq_sg_io": "smqsg", "smq_write_read": "smqsg",
                     "sd_sg_io": "disk"}.get(self.path, "sg")
        words = [name, nodes, str(self.luns),
                 "--count", ",".join(map(str, counts)), "--warmup", str(warmup),
                 "--jobs", str(self.jobs)]
        if self.bs:
            words += ["--bs", str(self.bs)]
        if more:
            words += [*more, "--depth", str(self.qd), "--batch", str(self.batch)]
            return words + {"tur": ["--tur"], "write": ["--write"]}.get(self.op, [])
        if self.path not in _DIRECT:
            words += ["--write-read"] if self.path == "smq_write_read" else []
            return words + (["--read"] if self.op == "read" else [])
        words += ["--depth", str(self.qd), "--batch", str(self.batch)]
        words += {"io_uring_fixed": ["--registered"],
                  "io_uring_poll": ["--poll"]}.get(self.path, [])
        words += {"write": ["--write"], "call": ["--idle"]}.get(self.op, [])
        words += ["--latencies"] if latencies else []
        return words + (["--data"] if data else [])

    def _in_kernel(self, counts: Sequence[int], warmup: int) -> list[str]:
        if self.jobs != 1 or self.op not in ("read", "tur"):
            raise BenchError(f"{self.key}: this path runs only reads and TURs, on one CPU")
        return ["inkernel", "disk", str(self.luns), "--count", ",".join(map(str, counts)),
                "--warmup", str(warmup), "--depth", str(self.qd), "--batch", str(self.batch),
                *(["--tur"] if self.op == "tur" else ["--bs", str(self.bs)]),
                *_IN_KERNEL[self.path]]

    @property
    def module(self) -> str:
        """The module that the workload's program needs, if any."""
        return _IN_KERNEL_MODULE if self.path in _IN_KERNEL else ""


def parse(key: str) -> Workload:
    """The workload of a key."""
    path, op, *numbers = key.split(":")
    return Workload(path, op, *map(int, numbers))


@dataclass(frozen=True)
class Plan:
    """Rows and the workloads of each."""

    cells: Sequence[tuple[str, Sequence[Workload]]]
    counts: Sequence[int]       # I/Os of each job; there is a run for each number
    warmup: int
    size_mb: int
    virtio_disks: int = 1  # disks of the VM's virtio-scsi device, if there is one
    latencies: bool = False  # measure the latency of each I/O, if the program can
    fill: bool = True       # write disks that move data before they are read

    def lines(self, repeats: int) -> Iterable[str]:
        """The plan's lines for the guest: a device is brought up once for all workloads with the
        same number of LUNs."""
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
                                         self._share(workload, self.warmup),
                                         ROWS[row].data and self.fill, self.latencies)
                yield f"run {workload.key} " + " ".join(words)

    @staticmethod
    def _share(workload: Workload, count: int) -> int:
        """The I/Os of one job. More than two jobs together issue as many I/Os as two jobs would."""
        return count if workload.jobs <= FEW_JOBS else max(count * FEW_JOBS // workload.jobs, 1)

    def runs(self, repeats: int) -> int:
        """The number of runs if no row is skipped."""
        return repeats * len(self.counts) * sum(len(workloads) for _, workloads in self.cells)

    def write(self, path: Path, repeats: int) -> None:
        """Writes the file that guest/plan reads."""
        path.write_text("".join(line + "\n" for line in self.lines(repeats)), encoding="ascii")
