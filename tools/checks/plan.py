# SPDX-License-Identifier: GPL-2.0
"""The steps there are, and which of them are wanted."""

import fnmatch
from dataclasses import dataclass, replace
from pathlib import Path

from . import plants, process, pytests, reasons, vmheader
from .result import FAILED, PASSED, Case, Result

KERNELS = ("6.1", "6.12", "7.2")
FULL = "6.1"
AREAS = ("build", "lint", "host", "vm", "plant", "sanitize", "slow", "proof")
# Of the smoke tests, what 6.12 has: it boots, loads what was built for it, moves data, and has the
# fast path with held slots, which are allowed for each kernel by itself. Where a kernel matters
# otherwise, 6.1 and 7.2 are the ends of what there is.
BETWEEN = "6.12"
BETWEEN_HAS = ("conv", "data", "hosts", "io", "kit", "sg_async", "sg_held", "sg_rings", "sg_slots",
               "stats", "unload")
# What 7.2 is spared: devices of QEMU, whose drivers are ours and the same, or which smq_sg reaches
# by way of a mid-layer that other files look at; a model for measuring; load.
NEWEST = "7.2"
NEWEST_NOT = ("legacy_model", "lld_faults", "pvscsi", "qemu_hbas", "sg_io/sg_io_compare",
              "sg_io/sg_io_loads", "sg_poll_load", "storage", "switch_devices", "virtio_full",
              "virtio_tgt")
# Run only when it is named, or when its turn comes: a VM inside a VM takes minutes to start, and
# the targets of target-configs/ are those that vm/storage sets up without targetcli.
ON_REQUEST = "slow"
# Run when it is named, or when its turn comes: it downloads herd7, which Debian 12 does not have.
PROOF = "proof"
# The kernel of area sanitize, and patterns of those of tests/vm that run on it beside
# tests/vm/sanitize. Not "worker": Linux 6.6 and later have nobody wait for a worker that
# computes, which is how that one keeps commands waiting.
SANITIZE = "uml-sanitize"
SANITIZED = ("eh", "sg_[!i]*", "policy", "bucket", "prio", "steer", "switch", "full_ring",
             "configfs", "faults", "io", "hosts", "short", "cdb", "state", "data",
             "conv*")
# Parts of what is run by name, for --turn N: each run of the gate has the next one. The sanitizers'
# are every second part: their kernel takes eight minutes to be built.
TURNS = 16
# Files, and tests, that do not.
NOT_SANITIZED = (
    # Hundreds of comparisons with sg, most of them of what scsi_debug does; Fibre Channel and
    # udev, which are not there.
    "tests/vm/test_sg_compat.py",
    "tests/vm/test_sg_fc.py",
    "tests/vm/test_sg_fc_ten.py",
    "tests/vm/test_sg_udev.py",
    # It has no PCI device.
    "tests/vm/test_sg_poll_virtio.py",
    # They compare with what scsi_debug or the mid-layer of 7.2 does otherwise.
    "tests/vm/test_cdb.py::test_cdb[mode-sense6-unknown-00]",
    "tests/vm/test_cdb.py::test_cdb[mode-sense10-unknown-00]",
    "tests/vm/test_cdb.py::test_cdb[sai16-16]",
    "tests/vm/test_hosts.py::test_power_on_without_disk_driver",
    # 64 disks are more than this kernel can probe in the time of a test.
    "tests/vm/test_hosts.py::test_many_luns",
    # It measures how long commands take and how many there are.
    "tests/vm/test_faults.py::test_service_time_and_queue_depth",
    # User Mode Linux takes no CPU offline, and has two of the four that some are for.
    "tests/vm/test_faults.py::test_cpu_goes_offline_and_comes_back_under_verified_load",
    "tests/vm/test_steer.py::test_cpus_go_offline_and_come_back_under_verified_load",
    "tests/vm/test_steer.py::test_a_cpu_waits_for_what_its_queue_was_given",
    "tests/vm/test_steer.py::test_its_own_cpu_goes_offline",
    "tests/vm/test_steer.py::test_one_pinned_task_gets_the_queues_of_all_cpus",
    "tests/vm/test_steer.py::test_balanced_load_is_left_alone",
    # How many commands come while one is served is a matter of the CPU's speed.
    "tests/vm/test_policy.py::test_expensive_doorbells_are_shared",
    # That of the host takes all steps.
    "tests/vm/test_eh.py::test_failed_steps_escalate[lun]",
    "tests/vm/test_eh.py::test_failed_steps_escalate[target]",
    # Its commands are to take longer than it takes to submit a thousand others.
    "tests/vm/test_sg_poll.py::test_more_wait_than_may",
    # Sectors of two sizes are enough here.
    "tests/vm/test_short.py::test_residuals_are_exact_and_block_io_recovers[1024]",
    "tests/vm/test_short.py::test_residuals_are_exact_and_block_io_recovers[2048]",
    # It looks at tags that move on, and on a slow kernel counts those of two moments as one.
    "tests/vm/test_sg_depth.py::test_never_more_than_the_depth_of_the_moment",
    # Four CPUs, one of which goes offline, and 50 ms.
    "tests/vm/test_sg_held_needs.py",
    # The device is to be full of what this slow kernel sends it.
    "tests/vm/test_prio.py::test_sync_writes_go_first",
    # They measure, with four CPUs: waits and shares on a slow kernel say nothing.
    "tests/vm/test_sg_depth.py::test_files_have_equal_shares",
    "tests/vm/test_sg_depth.py::test_a_late_comer_has_his_share_soon",
    "tests/vm/test_sg_depth.py::test_one_at_a_time_beside_a_huge_batch",
    "tests/vm/test_sg_depth.py::test_passthrough_and_block_io_of_smq_ram",
    "tests/vm/test_sg_depth.py::test_passthrough_and_block_io_of_scsi_debug",
)
LINTERS = ("checkpatch", "sparse", "shell", "python")

# A step that hangs is stopped after process.SILENT_SECONDS; this bounds one that goes on talking.
STEP_SECONDS = 2 * 3600

# Files of tests that share a guest: it, and Python in it, take 15 s to be there.
TOGETHER = {"vm": 10, "sanitize": 4}

# Seconds that a step takes, roughly, by name or by area: the longest begin first, so that short
# ones fill the gaps at the end. tools/check --times says what the last run took.
EXPECTED = {
    "build": 50, "lint": 20, "host": 10, "vm": 30, "plant": 55, "slow": 300, "sanitize": 50,
    "proof": 40,
    "slow/target_configs": 150, "slow/vhost": 250, "slow/multipath": 100,
    "host/vm": 240, "host/uml": 95, "host/bench_native": 35, "host/bench_run": 100,
    "host/bucket": 27, "host/depth": 18,
    "host/bench_legacy": 80, "host/bench_plugins": 40, "vm/smoke": 600,
    "vm/legacy_entry": 140, "vm/policy": 165, "vm/sg_held_needs": 85, "vm/sg_depth": 120,
    "vm/pvscsi": 120, "vm/sg_held_tags": 80, "vm/eh": 95, "vm/storage": 105,
    "vm/lld_faults": 100, "vm/fio_engine": 115, "vm/sg_io/sg_io_smq": 100, "vm/virtio": 70,
    "vm/sg_compat": 70, "vm/sg_fc": 70, "vm/sg_fc_ten": 65, "vm/fc_guide": 70,
    "vm/sg_poll": 65, "vm/sg_tags": 65,
    "vm/sg_io/sg_io_record": 60, "vm/sg_adhoc": 60, "vm/escalation": 60, "vm/bucket": 45,
    "vm/steer": 100, "vm/full_ring": 75, "vm/switch": 45, "vm/switch_devices": 60,
    "vm/virtio_full": 45,
    "sanitize/steer": 170, "sanitize/full_ring": 190,
    "sanitize/sg_held_tags": 230, "sanitize/policy": 230, "sanitize/eh": 230,
    "sanitize/defects": 140, "sanitize/sg_corners": 110, "sanitize/memory": 110,
    "sanitize/sg_poll_adhoc": 95,
}


@dataclass(frozen=True)
class Step:
    """Something that is run and counted by itself. needs: kernels to be built before.
    named: run only when it is named. again: the second try of one."""

    area: str
    name: str
    kernel: str = ""
    targets: tuple[str, ...] = ()
    mark: str = ""
    needs: str = ""
    named: bool = False
    again: bool = False

    @property
    def builds(self) -> bool:
        """Whether it makes a kernel's modules, which others need."""
        return self.area == "build" or str(self) == "sanitize/build"

    def __str__(self) -> str:
        on = f" on {self.kernel}" if self.kernel and self.area in ("vm", ON_REQUEST) else ""
        return f"{self.area}/{self.name}{on}{' again' if self.again else ''}"

    @property
    def expected(self) -> float:
        """Seconds it takes, roughly: see EXPECTED."""
        return EXPECTED.get(f"{self.area}/{self.name}", EXPECTED[self.area])

    @property
    def slug(self) -> str:
        """A name for a folder; that of a second try is in that of the first."""
        return str(self).replace(" on ", "-").replace("/", "-").replace(" again", "/again")


def _test_files(top: Path, folder: str) -> list[Path]:
    """All but those that only the sanitizing kernel can run, and the slow ones."""
    return [path.relative_to(top) for path in sorted((top / folder).rglob("test_*.py"))
            if path.parent.name not in ("sanitize", ON_REQUEST)]


def _name(path: Path, folder: str) -> str:
    return str(path.relative_to(folder).with_name(path.stem.removeprefix("test_")))


def builds() -> list[Step]:
    """Of all kernels."""
    return [*(Step("build", kernel, kernel) for kernel in KERNELS),
            Step("sanitize", "build", SANITIZE, named=True)]


def _spared(kernel: str, name: str) -> bool:
    """Whether a kernel does without the smoke tests of a file."""
    return (kernel == BETWEEN and name not in BETWEEN_HAS or
            kernel == NEWEST and name in NEWEST_NOT)


def smoke_steps(top: Path, kernel: str) -> list[Step]:
    """Smoke tests: one VM for all, but for files that need one of their own."""
    files = _test_files(top, "tests/vm")
    spared = [path for path in files if _spared(kernel, _name(path, "tests/vm"))]
    alone = [path for path in files if path not in spared and
             (top / path).read_text(encoding="utf-8").find(f"\n{vmheader.PREFIX}") >= 0]
    targets = ("tests/vm", *(f"--ignore={path}" for path in (*spared, *alone)))
    return [Step("vm", "smoke", kernel, targets, "smoke", kernel)] + [
        Step("vm", _name(path, "tests/vm"), kernel, (str(path),), "smoke", kernel)
        for path in alone]


def steps(top: Path, kernels: tuple[str, ...], everything: bool) -> list[Step]:
    """All of them, in order; @everything: in full on every kernel."""
    result = [step for step in builds() if step.kernel in kernels]
    result += [Step("lint", name) for name in LINTERS]
    result += [Step("host", _name(path, "tests/host"), targets=(str(path),), needs=FULL)
               for path in _test_files(top, "tests/host")]
    for kernel in kernels:
        if kernel == FULL or everything:
            result += [Step("vm", _name(path, "tests/vm"), kernel, (str(path),), needs=kernel)
                       for path in _test_files(top, "tests/vm")]
        else:
            result += smoke_steps(top, kernel)
    result += [Step("plant", path.stem, targets=(str(path.relative_to(top)),), needs=FULL)
               for path in sorted((top / "tests/plant").glob("*.patch"))]
    return (result + _slow_steps(top, kernels, everything) + _sanitize_steps(top) +
            [Step(PROOF, path.stem.removeprefix("test_"), targets=(str(path.relative_to(top)),),
                  named=True) for path in sorted((top / "tests/proof").glob("test_*.py"))])


def _slow_steps(top: Path, kernels: tuple[str, ...], everything: bool) -> list[Step]:
    """A VM for each file of the one folder, none for those of the other."""
    host = [Step(ON_REQUEST, path.stem.removeprefix("test_"), targets=(str(path.relative_to(top)),),
                 named=True)
            for path in sorted((top / "tests/host" / ON_REQUEST).glob("test_*.py"))]
    return host + [Step(ON_REQUEST, path.stem.removeprefix("test_"), kernel,
                        (str(path.relative_to(top)),), needs=kernel, named=True)
                   for kernel in kernels if kernel == FULL or everything
                   for path in sorted((top / "tests/vm" / ON_REQUEST).glob("test_*.py"))]


def _sanitize_steps(top: Path) -> list[Step]:
    """The kernel with all checkers, proof that they speak up, and tests under them."""
    result = [*(step for step in builds() if step.kernel == SANITIZE),
              Step("sanitize", "defects", targets=("tests/sanitize/test_defects.py",),
                   needs=SANITIZE, named=True)]
    files = {_name(path, "tests/vm"): path for path in _test_files(top, "tests/vm")}
    tests = [(path.stem.removeprefix("test_"), path.relative_to(top))
             for path in sorted((top / "tests/vm/sanitize").glob("test_*.py"))]
    tests += [(name, files[name]) for pattern in SANITIZED
              for name in fnmatch.filter(files, pattern) if str(files[name]) not in NOT_SANITIZED]
    return result + [Step("sanitize", name, SANITIZE, (str(path),), needs=SANITIZE, named=True)
                     for name, path in tests]


def turn(all_steps: list[Step], number: int) -> list[Step]:
    """Of the steps that are run by name those whose turn it is: all have been run after TURNS
    turns in a row. Those of the sanitizers are in the odd parts, all others in the even ones."""
    parts: list[list[Step]] = [[] for _ in range(TURNS)]
    for step in sorted((step for step in all_steps if step.named and not step.builds),
                       key=lambda step: -step.expected):
        min(parts[step.area == "sanitize"::2],
            key=lambda part: sum(one.expected for one in part)).append(step)
    return [step for step in all_steps if step in parts[number % TURNS]]


def _makes_room(step: Step) -> bool:
    """Whether a step waits for the next turn while a part of the sanitizers runs, whose kernel has
    to be built: VMs of other kernels, theirs being of the source of 7.2; planted defects; what
    7.2 is spared as well; how VMs and benchmarks are made."""
    if step.area == "vm":
        return step.kernel != FULL or step.name in NEWEST_NOT
    return step.area == "plant" or step.area == "host" and (
        step.name == "vm" or step.name.startswith("bench_"))


def beside(always: list[Step], part: list[Step]) -> list[Step]:
    """What runs always, but for what makes room for a part of the sanitizers'. The turn after it
    has all."""
    if not any(step.area == "sanitize" for step in part):
        return always
    return [step for step in always if not _makes_room(step)]


def chosen(all_steps: list[Step], patterns: list[str]) -> list[Step]:
    """The steps that match one of the patterns, AREA or AREA/NAME; of no patterns all but those
    that are to be named."""
    if not patterns:
        return [step for step in all_steps if not step.named]
    found = []
    for pattern in patterns:
        area, _, name = pattern.partition("/")
        if area not in AREAS:
            raise ValueError(f"--only {pattern}: area '{area}' is unknown, expected one of: "
                             f"{' '.join(AREAS)}")
        matching = [step for step in all_steps
                    if step.area == area and fnmatch.fnmatch(step.name, name or "*")]
        if not matching:
            names = sorted({step.name for step in all_steps if step.area == area})
            raise ValueError(f"--only {pattern}: matches none of: {' '.join(names) or '(none)'}")
        found += matching
    return [step for step in all_steps if step in found]


def _guest(top: Path, step: Step) -> tuple | None:
    """What steps that may share a guest have in common; None: it shares none."""
    if not (step.area in TOGETHER and step.kernel and len(step.targets) == 1):
        return None
    try:
        # User Mode Linux has no devices to ask for.
        words = [] if step.area == "sanitize" else vmheader.of([top / step.targets[0]])
    except vmheader.HeaderError:
        return None     # which is said when it is run
    return step.area, step.kernel, step.mark, tuple(words)


def together(top: Path, wanted: list[Step]) -> list[Step]:
    """The steps in the order to begin them, those of files that may share a guest in one."""
    result: list[list[Step]] = []
    begun: dict[tuple, list[Step]] = {}
    for step in wanted:
        guest = _guest(top, step)
        group = begun.get(guest) if guest else None
        if group and len(group) < TOGETHER[step.area]:
            group.append(step)
            continue
        result.append([step])
        if guest:
            begun[guest] = result[-1]
    # Guests of User Mode Linux bear only each other: their CPUs keep one another waiting for a
    # lock while one of them waits for its turn. Of all else the longest come first.
    result.sort(key=lambda group: (group[0].area != "sanitize",
                                   -sum(step.expected for step in group)))
    return [replace(first, name=f"{first.name}+{len(more)}" if more else first.name,
                    targets=tuple(target for step in (first, *more) for target in step.targets))
            for first, *more in result]


def _exits(status: int, step: Step, log: Path) -> list[Case]:
    outcome = FAILED if status else PASSED
    why = process.WHY.get(status, f"status {status}")
    message = f"{why}\n{process.tail(log)}" if status else ""
    return [Case(str(step), outcome, message=message)]


def run(step: Step, runner: process.Runner, top: Path, folder: Path) -> Result:
    """Runs one step; folder is empty and its own."""
    log = folder / "log"
    result = Result(str(step), log=log)
    targets = list(step.targets)
    if step.builds:
        status = runner.run(["make", "build-all", f"KERNELS={step.kernel}"], log, STEP_SECONDS,
                            top)
        result.cases = _exits(status, step, log)
    elif step.area == "lint":
        status = runner.run(["tools/lint", step.name], log, STEP_SECONDS, top)
        result.cases = _exits(status, step, log)
    elif step.area != "plant":
        if step.area == "sanitize":
            targets += [f"--deselect={name}" for name in NOT_SANITIZED]
        if step.kernel:
            result.cases = pytests.in_vm(runner, top, folder, step.kernel, targets, STEP_SECONDS,
                                         step.mark)
        else:
            result.cases = pytests.on_host(runner, top, folder, targets, STEP_SECONDS)
    else:
        try:
            plants.check(runner, top / targets[0], top, folder)
            result.cases = [Case(str(step), PASSED)]
        except (plants.PlantError, OSError, ValueError) as error:
            result.cases = [Case(str(step), FAILED, message=str(error))]
    if result.failed:
        result.tail = process.tail(log)
        if step.area not in ("build", "lint"):
            result.ends = reasons.of_run(log)
    return result
