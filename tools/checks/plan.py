# SPDX-License-Identifier: GPL-2.0
"""The steps of tools/check, and the choice of those that run."""

import fnmatch
from dataclasses import dataclass, replace
from pathlib import Path

from . import plants, process, pytests, reasons, vmheader
from .result import FAILED, PASSED, Case, Result

KERNELS = ("6.1", "6.12", "7.2")
# The kernel on which all tests run. The others have only smoke tests, except with --full.
FULL = "6.1"
AREAS = ("build", "lint", "host", "vm", "plant", "sanitize", "slow", "proof")
# The files of tests/vm whose smoke tests run on 6.12. These tests show that the kernel boots, loads
# the modules built for it, and moves data, and that the fast path works with a request queue of its
# own, which smq_sg has on some kernels only. Other differences between kernels show on 6.1 and 7.2,
# the oldest and the newest.
MIDDLE_KERNEL = "6.12"
MIDDLE_FILES = ("conv", "data", "hosts", "io", "kit", "sg_async", "sg_own", "sg_pool", "sg_rings",
                "sg_io/smqtop", "sg_slots", "stats", "unload")
# The files of tests/vm whose smoke tests do not run on 7.2. Most are about QEMU's devices: this
# project's drivers for them are the same on each kernel, and smq_sg reaches all other devices
# through the mid-layer, which other files test. The rest are about load, and about a model that is
# used only for measurements.
NEWEST_KERNEL = "7.2"
NOT_ON_NEWEST = ("boot", "legacy_model", "lld_faults", "matrix", "pvscsi", "qemu_hbas",
                 "sg_pool_life", "sg_io/sg_io_compare", "sg_io/sg_io_loads", "sg_poll_load",
                 "storage", "switch_devices", "virtio_corners", "virtio_full", "virtio_tgt")
# The smoke tests of the newest kernel that need no VM of their own run in this many VMs, so that
# no step takes much longer than the others.
NEWEST_SMOKES = 4
# An area that runs only if it is named or part of a turn (--turn). It takes long, for example
# because a VM inside a VM takes minutes to start. Runs without it test the targets of
# target-configs/ only in vm/storage, which sets them up without targetcli.
SLOW = "slow"
# Another area that runs only if it is named or part of a turn. It downloads herd7, which is not in
# Debian 12.
PROOF = "proof"
# The kernel of area sanitize, and patterns of the files of tests/vm that run on it in addition to
# tests/vm/sanitize. "worker" is not among them: it tests commands that wait for a busy worker, and
# from Linux 6.6 on commands do not wait for a worker that is busy computing.
SANITIZE = "uml-sanitize"
SANITIZED = ("eh", "sg_[!i]*", "policy", "bucket", "prio", "steer", "switch", "full_ring",
             "configfs", "faults", "io", "hosts", "short", "cdb", "state", "data",
             "conv*")
# The steps that run only if they are named are split into this many parts. --turn N runs one part;
# CI runs the next part each time. Every second part has tests under the sanitizers, whose kernel
# takes eight minutes to build.
TURNS = 16
# Files and tests that do not run on the kernel of area sanitize.
NOT_SANITIZED = (
    # The first makes hundreds of comparisons with sg, most of them of scsi_debug's behaviour. The
    # others need Fibre Channel and udev, which this kernel's guest does not have.
    "tests/vm/test_sg_compat.py",
    "tests/vm/test_sg_fc.py",
    "tests/vm/test_sg_fc_ten.py",
    "tests/vm/test_sg_udev.py",
    # The guest has no PCI device.
    "tests/vm/test_sg_poll_virtio.py",
    # These tests compare with scsi_debug or the mid-layer, which behave differently in 7.2.
    "tests/vm/test_cdb.py::test_cdb[mode-sense6-unknown-00]",
    "tests/vm/test_cdb.py::test_cdb[mode-sense10-unknown-00]",
    "tests/vm/test_cdb.py::test_cdb[sai16-16]",
    "tests/vm/test_hosts.py::test_power_on_without_disk_driver",
    # This kernel is too slow to probe 64 disks within the time limit of a test.
    "tests/vm/test_hosts.py::test_many_luns",
    # The test measures times and numbers of commands.
    "tests/vm/test_faults.py::test_service_time_and_queue_depth",
    # User Mode Linux cannot take a CPU offline. Its guest has two CPUs; some of these tests need
    # four.
    "tests/vm/test_faults.py::test_cpu_goes_offline_and_comes_back_under_verified_load",
    "tests/vm/test_faults.py::test_a_cpu_goes_offline_while_its_commands_wait_for_a_rate",
    "tests/vm/test_steer.py::test_cpus_go_offline_and_come_back_under_verified_load",
    "tests/vm/test_steer.py::test_cpu_goes_offline_after_foreign_commands_end",
    "tests/vm/test_steer.py::test_cpu_goes_offline_while_its_commands_are_foreign",
    "tests/vm/test_steer.py::test_pinned_task_gets_the_queues_of_all_cpus",
    "tests/vm/test_steer.py::test_balanced_load_does_not_move",
    # The number of commands that arrive while one is served depends on the CPU's speed.
    "tests/vm/test_policy.py::test_expensive_doorbells_are_shared",
    # The variant of this test for a host reset also goes through the steps of these two.
    "tests/vm/test_eh.py::test_failed_steps_escalate[lun]",
    "tests/vm/test_eh.py::test_failed_steps_escalate[target]",
    # The test needs commands that take longer than the submission of a thousand others.
    "tests/vm/test_sg_poll.py::test_commands_beyond_max_waiting_end_with_eagain",
    # Two of the sector sizes are enough here.
    "tests/vm/test_short.py::test_residuals_are_exact_and_block_io_recovers[1024]",
    "tests/vm/test_short.py::test_residuals_are_exact_and_block_io_recovers[2048]",
    # The test reads tags while they change: on a slow kernel it sees a mix of two states.
    "tests/vm/test_sg_depth.py::test_changed_depth_is_never_exceeded",
    # The tests need four CPUs, one of which goes offline, and a limit of 50 ms.
    "tests/vm/test_sg_pool_needs.py",
    # The test needs four CPUs, one of which goes offline, and kprobes.
    "tests/vm/test_sg_pool_life.py",
    # Times and shares, as in the tests below.
    "tests/vm/test_sg_own.py::test_block_io_and_passthrough_get_equal_shares",
    # The test needs a full device, and this kernel is too slow to fill it.
    "tests/vm/test_prio.py::test_sync_writes_go_first",
    # These tests measure waits and shares with four CPUs: a slow kernel makes the results useless.
    "tests/vm/test_sg_depth.py::test_files_have_equal_shares",
    "tests/vm/test_sg_depth.py::test_new_file_soon_gets_its_share",
    "tests/vm/test_sg_depth.py::test_single_commands_get_places_beside_a_huge_batch",
    "tests/vm/test_sg_depth.py::test_neither_passthrough_nor_block_io_starves_on_smq_ram",
    "tests/vm/test_sg_depth.py::test_neither_passthrough_nor_block_io_starves_on_scsi_debug",
)
LINTERS = ("checkpatch", "sparse", "shell", "python", "types", "spelling")

# The time limit of a step. A step that prints nothing for process.SILENT_SECONDS is stopped before.
STEP_SECONDS = 2 * 3600

# By area: the most test files that share a guest. They share, because starting a guest with Python
# takes 15 s.
TOGETHER = {"vm": 10, "sanitize": 4}

# Roughly the seconds that a step takes, by its name or by its area. The longest steps begin first,
# so that short ones fill the gaps at the end. tools/check --times prints what the last run took.
EXPECTED = {
    "build": 50, "lint": 20, "host": 10, "vm": 30, "plant": 55, "slow": 300, "sanitize": 50,
    "proof": 40,
    "slow/target_configs": 150, "slow/states": 180, "slow/vhost": 250, "slow/multipath": 220,
    "slow/matrix_more": 300, "slow/boot_root": 350, "slow/kernel_source": 20,
    "slow/fio_machines": 30, "slow/clang": 500,
    "slow/arm64": 550, "slow/arm64_pages": 600, "slow/arm64_build": 150, "slow/debian13": 900,
    "slow/packages_bookworm": 700, "slow/packages_trixie": 700, "slow/dkms_chroot": 500,
    "host/vm": 280, "host/uml": 95, "host/bench_native": 35, "host/bench_run": 100,
    "host/bucket": 27, "host/smqtop_cost": 60, "host/depth": 18,
    "host/bench_legacy": 80, "host/bench_plugins": 40, "vm/smoke": 90,
    **{f"vm/smoke_{number}": 170 for number in range(1, NEWEST_SMOKES + 1)},
    "vm/legacy_entry": 65, "vm/policy": 120, "vm/sg_pool_needs": 105, "vm/sg_pool_life": 60,
    "vm/attach": 115, "vm/conv": 95, "vm/lio": 65, "vm/faults": 55, "vm/sg_corners": 45,
    "vm/core_faults": 45, "vm/conv_exact": 40,
    "vm/sg_depth": 80, "vm/sg_own": 120,
    "vm/pvscsi": 120, "vm/sg_pool_tags": 55, "vm/eh": 95, "vm/storage": 105,
    "vm/lld_faults": 100, "vm/fio_engine": 120, "vm/sg_io/sg_io_smq": 100, "vm/virtio": 70,
    "vm/matrix": 170, "vm/sg_compat": 70, "vm/sg_fc": 70, "vm/sg_fc_ten": 65, "vm/fc_guide": 70,
    "vm/sg_poll": 65, "vm/sg_tags": 65,
    "vm/sg_io/sg_io_record": 60, "vm/sg_io/smqtop": 110, "vm/sg_io/smqtop_screen": 50,
    "vm/sg_adhoc": 60,
    "vm/escalation": 60, "vm/bucket": 45,
    "vm/steer": 100, "vm/full_ring": 75, "vm/switch": 45, "vm/switch_devices": 60,
    "vm/virtio_full": 45, "vm/virtio_corners": 45, "vm/conv_lowers": 60,
    "vm/conv_blocked": 110, "vm/boot": 80,
    "sanitize/steer": 170, "sanitize/full_ring": 190,
    "sanitize/sg_pool_tags": 230, "sanitize/policy": 230, "sanitize/eh": 230,
    "sanitize/build": 500, "sanitize/defects": 140, "sanitize/sg_corners": 110,
    "sanitize/memory": 110, "sanitize/sg_poll_adhoc": 95,
}


@dataclass(frozen=True)
class Step:
    """A part of a run, with its own result. needs: the kernel for which modules must be built
    before the step begins. named: the step runs only if it is named. again: the step is run for the
    second time, because it failed. shared: if other steps were put into this one, roughly the
    seconds of all."""

    area: str
    name: str
    kernel: str = ""
    targets: tuple[str, ...] = ()
    mark: str = ""
    needs: str = ""
    named: bool = False
    again: bool = False
    shared: float = 0

    @property
    def builds(self) -> bool:
        """Whether the step builds the modules for a kernel, which other steps need."""
        return self.area == "build" or str(self) == "sanitize/build"

    def __str__(self) -> str:
        on = f" on {self.kernel}" if self.kernel and self.area in ("vm", SLOW) else ""
        return f"{self.area}/{self.name}{on}{' again' if self.again else ''}"

    @property
    def expected(self) -> float:
        """Roughly the seconds that the step takes, see EXPECTED."""
        return self.shared or EXPECTED.get(f"{self.area}/{self.name}", EXPECTED[self.area])

    @property
    def must(self) -> bool:
        """Whether a run without the step is no run: a run that has to end soon leaves out others
        instead (tools/check --minutes)."""
        return self.area in ("build", "lint") or self.area == "host" and not _yields(self)

    @property
    def slug(self) -> str:
        """The path of the step's folder. A second try has a folder inside that of the first."""
        return str(self).replace(" on ", "-").replace("/", "-").replace(" again", "/again")


def _test_files(top: Path, folder: str) -> list[Path]:
    """All test files except the slow ones and those that run only under the sanitizers."""
    return [path.relative_to(top) for path in sorted((top / folder).rglob("test_*.py"))
            if path.parent.name not in ("sanitize", SLOW)]


def _name(path: Path, folder: str) -> str:
    return str(path.relative_to(folder).with_name(path.stem.removeprefix("test_")))


def builds() -> list[Step]:
    """The builds for all kernels."""
    return [*(Step("build", kernel, kernel) for kernel in KERNELS),
            Step("sanitize", "build", SANITIZE, named=True)]


def _is_left_out(kernel: str, name: str) -> bool:
    """Whether the smoke tests of a file do not run on a kernel."""
    return (kernel == MIDDLE_KERNEL and name not in MIDDLE_FILES or
            kernel == NEWEST_KERNEL and name in NOT_ON_NEWEST)


def smoke_steps(top: Path, kernel: str) -> list[Step]:
    """The steps of the smoke tests: one, or NEWEST_SMOKES, for all files that need no VM of their
    own, and one for each of the others."""
    files = _test_files(top, "tests/vm")
    files = [path for path in files if not _is_left_out(kernel, _name(path, "tests/vm"))]
    alone = [path for path in files if
             (top / path).read_text(encoding="utf-8").find(f"\n{vmheader.PREFIX}") >= 0]
    targets = [str(path) for path in files if path not in alone]
    parts = NEWEST_SMOKES if kernel == NEWEST_KERNEL else 1
    return [Step("vm", f"smoke_{number + 1}" if parts > 1 else "smoke", kernel,
                 tuple(targets[number::parts]), "smoke", kernel)
            for number in range(parts) if targets[number::parts]] + [
        Step("vm", _name(path, "tests/vm"), kernel, (str(path),), "smoke", kernel)
        for path in alone]


def steps(top: Path, kernels: tuple[str, ...], everything: bool) -> list[Step]:
    """All steps, in order. With @everything: all tests on every kernel."""
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
    """The slow tests: the files of tests/host run on this machine, each file of tests/vm in a
    VM."""
    host = [Step(SLOW, path.stem.removeprefix("test_"), targets=(str(path.relative_to(top)),),
                 needs=FULL, named=True)
            for path in sorted((top / "tests/host" / SLOW).glob("test_*.py"))]
    return host + [Step(SLOW, path.stem.removeprefix("test_"), kernel,
                        (str(path.relative_to(top)),), needs=kernel, named=True)
                   for kernel in kernels if kernel == FULL or everything
                   for path in sorted((top / "tests/vm" / SLOW).glob("test_*.py"))]


def _sanitize_steps(top: Path) -> list[Step]:
    """Area sanitize: the build of the kernel with the sanitizers, a test that the sanitizers report
    defects, and tests under the sanitizers."""
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
    """The steps of one turn: a part of those that run only if they are named. TURNS successive
    turns run all of them. Steps of area sanitize are in the odd turns, all others in the even
    ones."""
    parts: list[list[Step]] = [[] for _ in range(TURNS)]
    for step in sorted((step for step in all_steps if step.named and not step.builds),
                       key=lambda step: -step.expected):
        min(parts[step.area == "sanitize"::2],
            key=lambda part: sum(one.expected for one in part)).append(step)
    return [step for step in all_steps if step in parts[number % TURNS]]


def _yields(step: Step) -> bool:
    """Whether a step is left out of a turn with the sanitizers, which takes long because their
    kernel has to be built. Left out are VMs of other kernels than FULL (the sanitizers' kernel is a
    7.2), tests in NOT_ON_NEWEST, planted defects, and tests of tools/vm and of the benchmarks."""
    if step.area == "vm":
        return step.kernel != FULL or step.name in NOT_ON_NEWEST
    return step.area == "plant" or step.area == "host" and (
        step.name == "vm" or step.name.startswith("bench_"))


def beside(always: list[Step], number: int, part: list[Step]) -> list[Step]:
    """The steps of @always that run together with @part, turn @number. To save time each turn
    leaves out some of them, which the next turn has: one with the sanitizers those of _yields(),
    the others every second of the rest in VMs, in turn."""
    if any(step.area == "sanitize" for step in part):
        return [step for step in always if not _yields(step)]
    rest = [step for step in always if step.area == "vm" and not _yields(step)]
    return [step for step in always if step not in rest[number // 2 % 2::2]]


def chosen(all_steps: list[Step], patterns: list[str]) -> list[Step]:
    """The steps that match one of the patterns, AREA or AREA/NAME. Without patterns: all steps
    except those that run only if they are named."""
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


def _guest(top: Path, step: Step) -> tuple[object, ...] | None:
    """A key: steps with the same key may share a guest. None: the step does not share its guest."""
    if not (step.area in TOGETHER and step.kernel and len(step.targets) == 1):
        return None
    try:
        # The headers ask for QEMU's devices, which User Mode Linux does not have.
        words = [] if step.area == "sanitize" else vmheader.of([top / step.targets[0]])
    except vmheader.HeaderError:
        return None     # the error is reported when the step runs
    return step.area, step.kernel, step.mark, _yields(step), tuple(words)


def together(top: Path, wanted: list[Step]) -> list[Step]:
    """The steps in the order in which they begin. Steps that share a guest become one step."""
    result: list[list[Step]] = []
    begun: dict[tuple[object, ...], list[Step]] = {}
    for step in wanted:
        guest = _guest(top, step)
        group = begun.get(guest) if guest else None
        if group and len(group) < TOGETHER[step.area]:
            group.append(step)
            continue
        result.append([step])
        if guest:
            begun[guest] = result[-1]
    # A run that has to end soon (--minutes) leaves out steps at the end of this order: those of
    # this turn come before those that each turn has, and what the next turn leaves out comes first.
    # The sanitizers come last, see Check.run(). The longest steps come before shorter ones.
    result.sort(key=lambda group: (group[0].area == "sanitize", not group[0].must,
                                   not group[0].named, not _yields(group[0]),
                                   -sum(step.expected for step in group)))
    return [replace(first, name=f"{first.name}+{len(more)}",
                    shared=sum(step.expected for step in (first, *more)),
                    targets=tuple(target for step in (first, *more) for target in step.targets))
            if more else first for first, *more in result]


def _exits(status: int, step: Step, log: Path) -> list[Case]:
    outcome = FAILED if status else PASSED
    why = process.WHY.get(status, f"status {status}")
    message = f"{why}\n{process.tail(log)}" if status else ""
    return [Case(str(step), outcome, message=message)]


def run(step: Step, runner: process.Runner, top: Path, folder: Path) -> Result:
    """Runs one step. @folder: an empty folder that no other step uses."""
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
