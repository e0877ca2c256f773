# SPDX-License-Identifier: GPL-2.0
"""Measures an instrument of tables/instruments.toml in its boots of the test VM."""

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch, fnmatchcase
from itertools import product
from pathlib import Path
from re import fullmatch
from typing import Any

from . import acquisitions, counts, groups, instrument, transfers, vm
from .acquisitions import LOCK_CODE, LOCKING, WAITING, Locks
from .errors import BenchError
from .figures import Figure, FigureSet
from .guestlog import GuestLog
from .plan import Plan, Workload, parse
from .profile import Profile
from .symbols import USER, Function
from .tally import Tally
from .tomls import table
from .transfers import MAX_SLIPS, Sharing

TIMEOUT = 900       # seconds for each repeat: many times what it takes on an idle machine
SMALL = 2.0         # instructions per I/O: functions with fewer are left out
ARGUMENTS = {"allocators": [f"watch={glob}" for glob in vm.ALLOCATORS], "locking": LOCKING,
             "handed_over": vm.HANDED_OVER}
OWN = {"own": groups.OWN_MODULES, "virtio": groups.VIRTIO_MODULES,
       "compared": groups.OWN_MODULES | groups.COMPARED_MODULES,
       "pvscsi": groups.PVSCSI_MODULES, "conv": groups.CONV_MODULES}
# Functions that signal completions without polling.
WAYS = {
    "task work": r"task_work_run|tctx_task_work|handle_tw_list|io_uring_cmd_work|__io_req_task_.*"
                 r"|smqsg_\w+_task_work \[smq_sg\]",
    "interrupts": r"(asm_)?common_interrupt|sdebug_q_cmd_hrt_complete .*|ram_interrupt .*",
}
# SG_IO allocates a buffer for every read, on every kernel and with every LLD.
SG_READ_ALLOCATIONS = 0.9

Values = Iterator[tuple[str, Sequence[float], dict[str, dict[str, Any]]]]


def expanded(text: str) -> Iterator[Workload]:
    """The workloads of PATH:OP:BYTES:QD:BATCH:LUNS:JOBS, in which a field may have several
    values."""
    path, op, bs, qd, batch, luns, jobs = (
        part.split(",") for part in (text + ":" * (6 - text.count(":"))).split(":"))
    for job, lun, one_op, depth, size, length, way in product(jobs, luns, op, qd, batch, bs, path):
        yield Workload(way, one_op, int(length), int(depth), int(size or min(int(depth), 16)),
                       int(lun or 1), int(job or 1))


def _wanted(load: dict[str, Any], options: Namespace) -> bool:
    return all(bool(getattr(options, word.lstrip("!"), False)) != word.startswith("!")
               for word in load.get("when", "").split())


def workloads(boot: dict[str, Any], row: str, options: Namespace) -> list[Workload]:
    """The workloads of a row in a boot."""
    return [one for load in boot["load"] if _wanted(load, options)
            if any(fnmatchcase(row, pattern) for pattern in load["rows"])
            for text in load["workloads"] for one in expanded(text)]


def _device(kind: str, disks: int, place: str = "scsi-id={}") -> str:
    """QEMU's options for an HBA whose disks store nothing and take no time."""
    name = kind.partition(",")[0]
    words = [f"-device {kind},id={name}"]
    for n in range(disks):
        words += [f"-blockdev driver=null-co,node-name={name}{n},size=67108864",
                  f"-device scsi-hd,bus={name}.0,{place.format(n)},drive={name}{n}"]
    return " ".join(words)


@dataclass
class Boot:
    """One boot, and what was measured in it."""

    spec: dict[str, Any]
    options: Namespace
    plan: Plan
    repeat: int

    def run(self, name: str, folder: Path) -> GuestLog:
        """Boots, and measures the plan."""
        plugin, disks = self.spec["plugin"], self.spec.get("virtio_disks", 0)
        devices = [_device("virtio-scsi-pci,num_queues=4", disks, "scsi-id=0,lun={}")
                   ] if disks else []
        luns = max(one.luns for _, loads in self.plan.cells for one in loads)
        devices += [_device(kind, luns) for row, kind in self.spec.get("hba", {}).items()
                    if any(fnmatchcase(one.removeprefix("conv_"), row)
                           for one, _ in self.plan.cells)]
        words = self.spec.get("arguments", ["locking"] if plugin == "locks" else [])
        return instrument.boot(
            self.plan, Namespace(**{**vars(self.options), "repeat": self.repeat}), folder,
            plugin=plugin, name=name, timeout=TIMEOUT * self.repeat,
            vm_options=[*self.spec["vm"], *(f"--qemu={words}" for words in devices)],
            plugin_arguments=[one for word in words for one in ARGUMENTS.get(word, [word])],
            own=OWN[self.spec.get("own", "own")])

    @property
    def cpus(self) -> int:
        """The number of vCPUs."""
        words = self.spec["vm"]
        return int(words[words.index("--cpus") + 1]) if "--cpus" in words else 1

    def values(self, log: GuestLog, folder: Path) -> Iterator[tuple[str, Workload, float, Values]]:
        """What the plugin counted: row, workload, how often the vCPUs ran apart, values."""
        strict = not getattr(self.options, "force", False)
        if self.spec["plugin"] == "lines":
            for (row, key), sharing in transfers.sharings(log, folder, strict).items():
                yield row, parse(key), sharing.slips, _lines(row, parse(key), sharing)
        elif self.spec["plugin"] == "locks":
            taken = acquisitions.cells(log, folder)
            acquisitions.check(taken)
            for (row, key), repeats in taken.items():
                slips = max(locks.slips for locks in repeats)
                if slips > MAX_SLIPS and strict:
                    raise BenchError(f"{row} {key}: the two vCPUs ran apart {slips:.2f} times per "
                                     "I/O; is the machine busy? (--force keeps the figures)")
                yield row, parse(key), slips, _locks(repeats, (row, key), log, self.cpus > 1)
        else:
            found = counts.cells(log, folder, "--icount" in self.spec["vm"])
            for (row, key), cell in found.items():
                yield row, parse(key), 0, _counts(cell, parse(key), log, row, self.spec)


def _by_function(functions: Mapping[Any, float]) -> dict[str, float]:
    return {str(function): value
            for function, value in sorted(functions.items(), key=lambda item: -item[1])}


def _allocations(profile: Profile) -> float:
    """Allocations by our modules; an allocator that calls another one counts once."""
    return sum(value for (_, caller, own), value in profile.callers.items()
               if own and not any(fnmatch(caller.name, glob) for glob in vm.ALLOCATORS))


def _direct(profile: Profile, own: frozenset[str]) -> dict[str, float]:
    """What functions of some modules do themselves, and the spin locks of the whole kernel."""
    result = dict.fromkeys(("insn_own", "allocations", "locks", "host_lock"), 0.0)
    result["insn_own"] = sum(value for function, value in profile.insns.items()
                             if function.module in own)
    for (called, caller, ours), value in profile.callers.items():
        if called.name.startswith("_raw_spin_lock"):
            result["locks"] += value
            # The lock that queuecommand itself takes is host_lock.
            if caller.module in own and caller.name.endswith("queuecommand"):
                result["host_lock"] += value
        elif ours and caller.module in own:
            result["allocations"] += value
    return result


def _counts(cell: counts.Cell, workload: Workload, log: GuestLog, row: str,
            spec: dict[str, Any]) -> Values:
    """The figures of the plugin that counts instructions."""
    def parts(counter: Tally[Function]) -> dict[str, dict[str, Any]]:
        functions = _by_function(counter)
        ways = {way: round(sum(value for name, value in functions.items()
                               if fullmatch(pattern, name)), 2) for way, pattern in WAYS.items()}
        return {"group": {name: round(value, 2) for name, value in groups.split(counter).items()},
                "way": ways, "function": {name: round(value, 2) for name, value
                                          in functions.items() if value >= SMALL}}
    key = (row, workload.key)
    if row.startswith("smq_") and not cell.per_io.own:
        raise BenchError(f"{row} {workload.key}: the count has none of our functions")
    yield "insn", cell.values, parts(cell.per_io.insns)
    if len(spec.get("arguments", [])) > 1:
        found = [_direct(one, OWN[spec["own"]]) for one in cell.profiles]
        for metric in found[0]:
            yield metric, [one[metric] for one in found], {}
    elif "allocators" in spec.get("arguments", []):
        if (workload.path, workload.op) == ("sg_io", "read") and SG_READ_ALLOCATIONS > sum(
                cell.per_io.callers.values()):
            raise BenchError(f"{row} {workload.key}: the count of allocations missed those of sg")
        yield "insn_lld", [sum(one.own.values()) for one in cell.profiles], parts(cell.per_io.own)
        yield "allocations", [_allocations(one) for one in cell.profiles], {}
    for metric, names in spec.get("calls", {}).items():
        yield metric, [sum(value for function, value in one.calls.items()
                           if function.name in names) for one in cell.profiles], {}
    if key in log.doorbells:
        yield "doorbells", log.doorbells[key], {}
    if spec.get("latencies"):
        runs = [run for run in log.runs if (run.row, run.workload) == key
                and run.count == spec["counts"][-1]]
        yield "iops", [1e9 * run.ios / run.ns for run in runs], {}
        for name in ("p50", "p99", "p999"):
            yield f"lat_{name}", [run.loop["lat_ns"][name] / 1e6 for run in runs], {}


def _locks(repeats: Sequence[Locks], key: tuple[str, str], log: GuestLog, pair: bool) -> Values:
    """The figures of the plugin that counts locks, on one CPU or on a pair of them."""
    last = repeats[-1]
    yield "locks", [locks.total() for locks in repeats], {
        "lock": last.by_lock(), "site": last.by_site(), "group": last.by_group(),
        "instances": last.instances()}
    if not pair:
        return
    yield "contended", [locks.contended_share() for locks in repeats], {
        "lock": {name: round(last.contended_share(name), 2) for name in last.by_lock()}}
    yield "lock_share", [locks.insn_share(LOCK_CODE) for locks in repeats], {}
    yield "waits", [locks.waits() for locks in repeats], {"lock": last.by_lock(contended=True)}
    yield "wait_share", [locks.insn_share(WAITING) for locks in repeats], {}
    totals = [sum(locks.insns.values()) for locks in repeats]
    yield "insn", totals, {}
    yield "insn_kernel", [total - locks.insns.get(USER, 0)
                          for total, locks in zip(totals, repeats)], {}
    if key in log.doorbells:
        yield "doorbells", log.doorbells[key], {}
    shared = [one["shared"] for one in log.counted.get(key, []) if "shared" in one]
    if shared:
        yield "shared", shared, {}


def _lines(row: str, workload: Workload, sharing: Sharing) -> Values:
    """The figures of the plugin that counts cache lines."""
    if (row.startswith("smq_") or workload.path.startswith("smq")) and sharing.own_accesses < 1:
        raise BenchError(f"{row} {workload.key}: none of our accesses to memory was seen")
    yield "transfers", sharing.totals, {"function": transfers.by_function(sharing.top)}
    yield "own_transfers", sharing.own, {"function": transfers.by_function(sharing.own_top)}


def measure(name: str, options: Namespace, folder: Path, *, instrument_name: str = "",
            command: str = "", mark: str = "", only: Sequence[str] = ()) -> FigureSet:
    """Measures in all boots of a section, or in those that @only names. @command: by which the
    figures can be taken again; without it that of the row. @mark: a note on a busy machine."""
    said, taken = instrument_name or name, FigureSet()
    for number, spec in enumerate(table("instruments")[name]["boot"]):
        if only and spec["name"] not in only:
            continue
        rows = options.rows if "rows" in table("instruments")[name] else list(dict.fromkeys(
            row for load in spec["load"] for row in load["rows"]))
        cells = [(row, found) for row in rows if (found := workloads(spec, row, options))]
        if not cells:
            continue
        boot = Boot(spec, options, Plan(
            cells, spec["counts"], spec.get("warmup", 500), spec.get("size_mb", 4),
            spec.get("virtio_disks", 1), spec.get("latencies", False), spec.get("fill", True)),
            spec.get("repeat", options.repeat))
        place = folder / spec.get("name", str(number))
        log = boot.run(f"{said} {spec.get('name', '')}".strip(), place)
        taken.skipped |= {f"{said} {row}": why for row, why in log.skipped.items()}
        taken.failed |= instrument.without_policy(log, said)
        runs = instrument.first_runs(log)
        for row, workload, slips, values in boot.values(log, place):
            parameters = instrument.setting(log, runs[row, workload.key], boot.plan)
            if boot.cpus > 1:
                parameters["slips_per_io"] = round(slips, 4)
            for metric, numbers, parts in values:
                taken.add(instrument.figure(
                    instrument=said, row=row, kernel=log.kernel, cpus=boot.cpus,
                    command=command or instrument.command(name, options, row),
                    note=instrument.note(row, mark if boot.cpus > 1 else ""),
                    parameters=parameters, parts=parts,
                    **instrument.fields(workload, numbers, metric)))
    return taken


def figures_of(taken: FigureSet, name: str) -> list[Figure]:
    """The figures whose instructions an instrument shows by group of functions."""
    wanted = [one for text in [table("instruments")[name].get("split", "")] if text
              for one in expanded(text)]
    return [one for one in taken.figures if one.parts.get("group") and one.metric != "locks"
            and Workload(one.path, one.op, one.bs, one.qd, one.batch, one.luns, one.jobs) in wanted]
