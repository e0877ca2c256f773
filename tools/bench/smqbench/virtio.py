# SPDX-License-Identifier: GPL-2.0
"""Compares virtio_scsi and smq_virtio, in turn on one device: a command's instructions in LLD,
rings and bus, and its doorbells and interrupts.

Not under icount, because the device is a thread of QEMU: the number of commands that it ends at a
time, and therefore the number of interrupts, varies with the host. The plugin counts instructions.
"""

import statistics
from argparse import Namespace
from fnmatch import fnmatch
from pathlib import Path

from . import counts, groups, vm
from . import instrument as common
from .bounds import STRAY, Verdict
from .counts import Cell
from .figures import Figure, FigureSet
from .plan import Plan, Workload, parse
from .profile import Profile

THEIRS, OURS, POLLED = "virtio_scsi", "smq_virtio", "smq_virtio_poll"
LEAST_REPEATS = 5
ONE, MANY = (Workload("io_uring", "read", 512, qd, min(qd, 16)) for qd in (1, 32))
# Workloads for which the ring of direct descriptors is too small.
SCARCE = [Workload("io_uring", "read", 65536, 32, 16), Workload("io_uring", "read", 512, 128, 16)]
POLLED_WORKLOAD = Workload("io_uring_poll", "read", 512, 32, 16)

METRICS = ("insn_lld", "allocations", "doorbells", "interrupts")

# The limits on instructions: smq_virtio's number divided by virtio_scsi's number. At QD1 each
# command needs a doorbell and an interrupt, which cost both drivers the same.
SHARES = {ONE: 1.0, MANY: 0.6}
# How many more doorbells and interrupts smq_virtio may have, because they depend on the host's
# scheduler: the share CHANCE of virtio_scsi's number, plus TURNS per command.
CHANCE = 0.05
TURNS = 0.003
POLLED_INTERRUPTS = 0.01


def device(disks: int = 1) -> str:
    """QEMU's options for one virtio-scsi device, whose disks are LUNs of its target 0."""
    words = ["-device virtio-scsi-pci,id=virtio-scsi,num_queues=4"]
    for n in range(disks):
        words += [f"-blockdev driver=null-co,node-name=null{n},size=67108864",
                  f"-device scsi-hd,bus=virtio-scsi.0,scsi-id=0,lun={n},drive=null{n}"]
    return " ".join(words)


def _calls(profile: Profile, *names: str) -> float:
    """How often functions were called."""
    return sum(value for function, value in profile.calls.items() if function.name in names)


def _allocations(profile: Profile) -> float:
    """Allocations by the LLD; an allocator that calls another one counts once."""
    return sum(value for (_, caller, own), value in profile.callers.items()
               if own and not any(fnmatch(caller.name, glob) for glob in vm.ALLOCATORS))


def _values(cell: Cell) -> dict[str, list[float]]:
    """Values by metric, one for each repeat."""
    return {
        "insn": cell.values,
        "insn_lld": [sum(one.own.values()) for one in cell.profiles],
        "allocations": [_allocations(one) for one in cell.profiles],
        "doorbells": [_calls(one, "vp_notify", "vp_notify_with_data") for one in cell.profiles],
        "interrupts": [_calls(one, "vring_interrupt") for one in cell.profiles],
    }


def _parts(cell: Cell, metric: str, small: float) -> dict[str, dict[str, float]]:
    """The parts of a figure of instructions."""
    counter = {"insn": cell.per_io.insns, "insn_lld": cell.per_io.own}.get(metric)
    if counter is None:
        return {}
    return {"group": {name: round(value, 2) for name, value in groups.split(counter).items()},
            "function": {str(function): round(value, 2)
                         for function, value in counter.most_common() if value >= small}}


def measure(options: Namespace, folder: Path, plan: Plan, timeout: int,
            small: float) -> FigureSet:
    """Measures all turns in one boot."""
    log = common.boot(plan, options, folder, plugin="count", name="insn",
                      vm_options=["--cpus", "1", "--append", "tsc=reliable",
                                  "--qemu", device()],
                      plugin_arguments=[f"watch={glob}" for glob in vm.ALLOCATORS],
                      timeout=timeout * options.repeat, own=groups.VIRTIO_MODULES)
    taken = FigureSet(skipped=common.skipped(log, "insn"))
    runs = common.first_runs(log)
    command = f"tools/bench/insn --virtio --repeat {options.repeat}"
    command += "" if options.kernel == "6.1" else f" --kernel {options.kernel}"
    for (row, key), cell in counts.cells(log, folder, icount=False).items():
        for metric, values in _values(cell).items():
            taken.add(common.figure(
                instrument="insn", row=row, kernel=log.kernel, command=command,
                note=common.note(row), parameters=common.setting(log, runs[row, key], plan),
                **common.fields(parse(key), values, metric), parts=_parts(cell, metric, small)))
    return taken


def cells() -> list[tuple[str, list[Workload]]]:
    """Rows with their workloads."""
    workloads = [ONE, MANY, *SCARCE]
    return [(THEIRS, workloads), (OURS, workloads), (POLLED, [POLLED_WORKLOAD])]


def _one(taken: FigureSet, row: str, metric: str, workload: Workload) -> Figure | None:
    return taken.one(row=row, metric=metric, path=workload.path, bs=workload.bs, qd=workload.qd)


def _pair(taken: FigureSet, metric: str, workload: Workload) -> tuple[list[float], list[float]]:
    """The values of our driver and of the kernel's driver, turn by turn."""
    ours, theirs = (_one(taken, row, metric, workload) for row in (OURS, THEIRS))
    return (ours.values, theirs.values) if ours and theirs else ([], [])


def _of_workload(taken: FigureSet, workload: Workload) -> list[Verdict]:
    name, share = f"QD{workload.qd}", SHARES[workload]
    ours, theirs = _pair(taken, "insn_lld", workload)
    ratio = statistics.median(a / b for a, b in zip(ours, theirs)) if ours else None
    result = [Verdict(f"{name}, LLD's instructions / virtio_scsi's", f"<= {share}", ratio,
                      ratio is not None and ratio <= share)]
    mine = _one(taken, OURS, "allocations", workload)
    result.append(Verdict(f"{name}, allocations by smq_virtio per I/O", "= 0",
                          mine.value if mine else None, mine is not None and mine.value < STRAY))
    for metric in ("doorbells", "interrupts"):
        ours, theirs = _pair(taken, metric, workload)
        value = statistics.median(ours) if ours else None
        most = statistics.median(theirs) * (1 + CHANCE) + TURNS if theirs else 0
        result.append(Verdict(f"{name}, {metric} per I/O", f"<= {most:.4g}", value,
                              value is not None and value <= most))
    return result


def verdicts(taken: FigureSet) -> list[Verdict]:
    """The verdicts: whether smq_virtio keeps each limit."""
    result = [verdict for workload in SHARES for verdict in _of_workload(taken, workload)]
    polled = _one(taken, POLLED, "interrupts", POLLED_WORKLOAD)
    return [*result, Verdict("polled, interrupts per I/O", f"< {POLLED_INTERRUPTS}",
                             polled.value if polled else None,
                             polled is not None and polled.value < POLLED_INTERRUPTS)]


def split(taken: FigureSet) -> list[tuple[str, list[float]]]:
    """Instructions that are charged to the LLD, by group of functions, for both drivers at QD32."""
    found = [one.parts["group"] for row in (THEIRS, OURS)
             if (one := _one(taken, row, "insn_lld", MANY))]
    if len(found) < 2:
        return []
    return [(name, [one[name] for one in found]) for name in found[0]
            if any(one[name] >= 0.5 for one in found)]
