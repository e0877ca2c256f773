# SPDX-License-Identifier: GPL-2.0
"""The kernel that the user names (LEGACY_KERNEL), and the guest's only file system: an initramfs
with the measured programs and the modules that are not built into the kernel."""

import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from smqbench.errors import BenchError
from smqbench.guestlog import GuestLog
from smqbench.vm import BUILT
from testvm import initramfs, kernel as kernels
from testvm.errors import VMError

from .plan import Plan

INIT = Path(__file__).resolve().parent / "init"
PROGRAMS = ("aio", "sgio")
NEEDED = ("scsi_mod", "sd_mod", "sg", "scsi_debug")
SUFFIXES = (".ko", ".ko.xz", ".ko.gz", ".ko.zst")
# The legacy path's last kernel was 4.20.
LAST_LEGACY = (4, 20)

# The guest adds the hosts later (add_host=0): one for each path.
DISK_PARAMETERS = "add_host=0 delay=0 fake_rw=1 dev_size_mb=64 submit_queues=1"
QUEUE_DEPTH = 128       # of each LUN, on either path


def release_of(image: Path) -> str:
    """Returns the kernel's release, which its image contains."""
    if not image.is_file():
        raise BenchError(f"LEGACY_KERNEL: no file {image}")
    try:
        release = kernels.release_of(image)
    except VMError:
        raise BenchError(f"LEGACY_KERNEL: {image} is not a bzImage") from None
    with image.open("rb") as file:
        is_elf = file.read(4) == b"\x7fELF"
    if is_elf:
        raise BenchError(f"LEGACY_KERNEL: {image} is a vmlinux; give the bzImage")
    return release


class Refused(BenchError):
    """The kernel has no legacy path to measure."""

    def __init__(self, release: str, why: str):
        super().__init__(f"LEGACY_KERNEL: {release} has no legacy path ({why}); give a kernel up "
                         f"to {LAST_LEGACY[0]}.{LAST_LEGACY[1]} that has scsi_mod.use_blk_mq")


def refuse(release: str) -> None:
    """Raises Refused if a kernel of this release has no legacy path."""
    numbers = release.replace("-", ".").split(".")
    if all(number.isdigit() for number in numbers[:2]) and \
            tuple(map(int, numbers[:2])) > LAST_LEGACY:
        raise Refused(release, "it was removed in Linux 5.0")


def check_depths(log: GuestLog) -> None:
    """Checks that the disks of both paths have the same queue depth."""
    for row, disks in log.queues.items():
        for disk, settings in disks.items():
            found = dict(word.split("=", 1) for word in settings.split() if "=" in word)
            if found.get("queue_depth") != str(QUEUE_DEPTH):
                raise BenchError(f"{row}: {disk}'s queue_depth is {found.get('queue_depth')}, "
                                 f"must be {QUEUE_DEPTH} on both paths")


def module_name(path: Path) -> str:
    """Returns the name that the kernel has for a module, or "" if the file is not a module."""
    for suffix in SUFFIXES:
        if path.name.endswith(suffix):
            return path.name.removesuffix(suffix).replace("-", "_")
    return ""


class Modules:
    """The modules below LEGACY_MODULES, which is an installed tree or any folder with modules."""

    def __init__(self, folder: Path | None, scratch: Path):
        self._found: dict[str, Path] = {}
        self._scratch = scratch
        if folder is None:
            return
        if not folder.is_dir():
            raise BenchError(f"LEGACY_MODULES: no folder {folder}")
        for path in sorted(folder.rglob("*")):
            if module_name(path) and path.is_file():
                self._found.setdefault(module_name(path), path)
        if not self._found:
            raise BenchError(f"LEGACY_MODULES: {folder} holds no module")

    def loading_order(self, names: tuple[str, ...]) -> list[Path]:
        """Unpacks those of the named modules that exist. Returns the files, each after the modules
        that it depends on. The other modules must be built in; the guest checks that."""
        ordered: dict[str, Path] = {}
        for name in names:
            self._add(name, ordered, ())
        return list(ordered.values())

    def _add(self, name: str, ordered: dict[str, Path], above: tuple[str, ...]) -> None:
        if name in ordered or name not in self._found or name in above:
            return
        path = self._unpacked(name)
        for other in _depends(path):
            self._add(other, ordered, (*above, name))
        ordered[name] = path

    def _unpacked(self, name: str) -> Path:
        source, target = self._found[name], self._scratch / f"{name}.ko"
        try:
            data = source.read_bytes()
            target.write_bytes(data if source.suffix == ".ko" else
                               kernels.unpack(data, str(source)))
        except (OSError, VMError) as error:
            raise BenchError(f"LEGACY_MODULES: {source}: {error}") from None
        return target


def _depends(path: Path) -> list[str]:
    done = subprocess.run(["/sbin/modinfo", "-F", "depends", str(path)], capture_output=True,
                          text=True, check=False)
    if done.returncode:
        raise BenchError(f"LEGACY_MODULES: {path.name}: {done.stderr.strip()}")
    return [name.replace("-", "_") for name in done.stdout.strip().split(",") if name]


@dataclass(frozen=True)
class Job:
    """What one boot measures."""

    plan: Plan
    any_kernel: bool        # the kernel has only blk-mq, and no parameter that selects a path

    def parameters(self) -> dict[str, str]:
        """Returns the parameters of modules, by module."""
        return {"scsi_debug": DISK_PARAMETERS}

    def kernel_arguments(self) -> list[str]:
        """Returns the parameters as kernel arguments, for modules that are built in."""
        return [f"{module}.{word}" for module, words in self.parameters().items()
                for word in words.split()]

    def settings(self) -> str:
        """Returns the settings of the guest's init as assignments of its shell."""
        luns = sorted({one.luns for one in self.plan.workloads})
        values = {"switch": "none" if self.any_kernel else "both", "kind": self.plan.kind,
                  "lun_counts": " ".join(map(str, luns)), "depth": str(QUEUE_DEPTH)}
        return "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())


def build(job: Job, modules: list[Path], folder: Path) -> Path:
    """Makes the initramfs in @folder; returns its path."""
    tree = folder / "tree"
    for name in ("bin", "dev", "proc", "sys", "job", "modules"):
        (tree / name).mkdir(parents=True)
    try:
        shutil.copy(initramfs.busybox(), tree / "bin/busybox")
    except VMError as error:
        raise BenchError(str(error)) from None
    for name in PROGRAMS:
        if not (BUILT / "static" / name).exists():
            raise BenchError(f"build/tools/bench/static/{name} is not built: make tools")
        shutil.copy(BUILT / "static" / name, tree / "bin" / name)
    shutil.copy(INIT, tree / "init")
    (tree / "init").chmod(0o755)
    parameters = job.parameters()
    lines = []
    for path in modules:
        shutil.copy(path, tree / "modules")
        lines.append(f"{path.name} {parameters.get(module_name(path), '')}".strip() + "\n")
    (tree / "job/modules").write_text("".join(lines), encoding="ascii")
    (tree / "job/plan").write_text("".join(f"{line}\n" for line in job.plan.lines()),
                                   encoding="ascii")
    (tree / "job/settings").write_text(job.settings(), encoding="ascii")
    try:
        initramfs.archive(tree, folder / "initramfs")
    except VMError as error:
        raise BenchError(str(error)) from None
    shutil.rmtree(tree)
    return folder / "initramfs"
