# SPDX-License-Identifier: GPL-2.0
"""The initramfs: busybox, and the modules that are needed to mount the host's root."""

import shutil
import subprocess
from pathlib import Path

from . import cache, kernel as kernels, modules
from .errors import VMError

GUEST = kernels.TOP / "tools/guest"
SCRIPTS = ("init", "session", "bashrc")
# Modules to load, in this order. The ports' modules come first: a port takes some time to appear.
# configfs, sd_mod and sg are here because no udev would load them.
NEEDED = ("virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay", "configfs",
          "sd_mod", "sg")


def busybox(root: Path = Path("/")) -> Path:
    """The statically linked busybox of the system in @root."""
    for place in ("usr/bin/busybox", "bin/busybox"):
        path = root / place
        if path.is_file():
            if b"/ld-linux" in path.read_bytes():
                break
            return path
    raise VMError("no statically linked busybox: tools/deps install run")


def build(kernel: kernels.Kernel, root: Path) -> Path:
    """Returns the path of the initramfs for a kernel, with the busybox of the system in @root.
    Makes it if it does not exist."""
    box = busybox(root)
    scripts = [GUEST / name for name in SCRIPTS]
    sources = [box, *scripts, Path(__file__)]
    if kernel.modules is not None:
        sources.append(kernel.modules / "modules.dep")

    def make(folder: Path) -> None:
        tree = folder / "tree"
        for name in ("bin", "dev", "proc", "sys", "host", "job", "new", "rw", "modules"):
            (tree / name).mkdir(parents=True)
        shutil.copy(box, tree / "bin/busybox")
        for script in scripts:
            shutil.copy(script, tree / script.name)
        (tree / "init").chmod(0o755)
        names = []
        # User Mode Linux needs none: it has no such hardware, and the other modules are built in.
        for path in modules.dependencies(kernel, [] if kernel.arch == "um" else list(NEEDED)):
            name = path.name[:path.name.index(".ko")] + ".ko"
            data = path.read_bytes()
            if path.suffix != ".ko":
                data = kernels.unpack(data, str(path))
            (tree / "modules" / name).write_bytes(data)
            names.append(name)
        (tree / "modules/order").write_text("".join(f"{name}\n" for name in names))
        archive(tree, folder / "initramfs")
        shutil.rmtree(tree)

    folder = cache.entry("initramfs", kernel.release, cache.stamp(*sources), make)
    return folder / "initramfs"


def archive(tree: Path, target: Path) -> None:
    """Packs a folder as the kernel expects it, in cpio's newc format."""
    paths = "".join(f"{path.relative_to(tree)}\n" for path in sorted(tree.rglob("*")))
    try:
        with target.open("wb") as file:
            subprocess.run(["cpio", "--create", "--format=newc", "--owner=0:0", "--quiet"],
                           cwd=tree, input=paths.encode(), stdout=file, check=True)
    except FileNotFoundError:
        raise VMError("cpio is not installed: tools/deps install run") from None
