# SPDX-License-Identifier: GPL-2.0
"""The guest's /lib/modules: the kernel's own modules and those of this project."""

import contextlib
import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from . import cache
from .errors import VMError
from .kernel import Kernel

BUILD_SECONDS = 300


def built(kernel: Kernel) -> list[Path]:
    """The modules of this project that the last build for @kernel made.

    Their names are read from modules.order, because the folder may contain old modules whose source
    no longer exists. Depending on the kernel, the entries of modules.order end in .ko or .o, and
    are absolute or relative. In a copy of a build folder, absolute entries point to the original.
    """
    order = kernel.build / "modules.order"
    if not order.is_file():
        return []
    found = []
    for line in order.read_text().splitlines():
        path = (kernel.build / line.rpartition(f"/{kernel.build.name}/")[2]).with_suffix(".ko")
        if path.is_file():
            found.append(path)
    return found


def tree(kernel: Kernel) -> Path | None:
    """A folder with this project's modules and a new index for modprobe. The guest mounts it as an
    overlay over the kernel's modules. None if there are no modules of this project.

    The modules are copied, so that a build does not change the modules of a running VM.
    """
    with _settled(kernel.build):
        return _tree(kernel)


@contextlib.contextmanager
def _settled(build: Path) -> Iterator[None]:
    """Prevents tools/build-modules from changing the folder while it is read."""
    if not build.is_dir():
        yield
        return
    with open(build / ".lock", "a", encoding="ascii") as file:
        deadline = time.monotonic() + BUILD_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise VMError(f"a build in {build} has run for more than "
                                  f"{BUILD_SECONDS} s") from None
                time.sleep(0.2)
        yield


def _tree(kernel: Kernel) -> Path | None:
    ours = built(kernel)
    if not ours:
        return None
    if kernel.modules is None:
        raise VMError(f"there is no /lib/modules/{kernel.release}: modprobe needs it")
    original = kernel.modules

    def make(folder: Path) -> None:
        base = folder / "lib/modules" / kernel.release
        base.mkdir(parents=True)
        links = []
        for path in original.iterdir():
            if path.name in ("build", "source"):
                continue
            if path.is_dir():
                link = base / path.name
                link.symlink_to(path)
                links.append(link)
            elif path.name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
                shutil.copyfile(path, base / path.name)
        for path in ours:
            target = base / "smq" / path.relative_to(kernel.build)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        # This project's modules take precedence over an installed version of the same module.
        search = folder / "depmod.conf"
        search.write_text("search smq updates built-in\n")
        run_kmod(["depmod", "-C", str(search), "-b", str(folder), kernel.release])
        for link in links:
            link.unlink()

    index = original / "modules.dep"
    if not index.is_file():
        raise VMError(f"{index} is missing: run depmod {kernel.release}")
    folder = cache.entry("modules", kernel.release, cache.stamp(index, *ours), make)
    return folder / "lib/modules" / kernel.release


def dependencies(kernel: Kernel, names: list[str]) -> list[Path]:
    """The files of the named modules and of their dependencies, in the order in which to load them.

    Modules that are built into the kernel have no file. """
    if kernel.modules is None:
        return []
    if kernel.modules.parent.name != "modules" or kernel.modules.parent.parent.name != "lib":
        raise VMError(f"{kernel.modules}: modules must be in lib/modules/{kernel.release}")
    base = kernel.modules.parents[2]
    ordered: list[Path] = []
    for name in names:
        text = run_kmod(["modprobe", "-d", str(base), "-S", kernel.release,
                         "--show-depends", name])
        for line in text.splitlines():
            word, _, path = line.partition(" ")
            if word == "insmod" and Path(path.strip()) not in ordered:
                ordered.append(Path(path.strip()))
    return ordered


def run_kmod(command: list[str]) -> str:
    """Runs one of kmod's tools. Also searches the sbin folders, which a user's PATH may lack."""
    environment = dict(os.environ, PATH=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False,
                              env=environment)
    except FileNotFoundError:
        raise VMError(f"{command[0]} is not installed: tools/deps install run") from None
    if done.returncode:
        raise VMError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
