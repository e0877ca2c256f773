# SPDX-License-Identifier: GPL-2.0
"""The kernel to boot: its image, release and modules, and its unpacked ELF file."""

import lzma
import re
import shutil
import struct
import subprocess
import zlib
from dataclasses import dataclass
from pathlib import Path

from . import cache
from .errors import VMError

TOP = Path(__file__).resolve().parents[2]

# ELF notes of a PVH entry point, for 32 and 64 bits. QEMU can start an ELF kernel that has one.
PVH_NOTES = (b"\x04\0\0\0\x04\0\0\0\x12\0\0\0Xen\0", b"\x04\0\0\0\x08\0\0\0\x12\0\0\0Xen\0")


# In the header of an arm64 kernel's image, at byte 0x38.
ARM64_MAGIC = b"ARMd"


@dataclass(frozen=True)
class Kernel:
    """One bootable kernel.

    modules: its folder below lib/modules, or None if it has none. arch: "" for this machine's own
    kernels, "um" for User Mode Linux, "arm64".
    """

    release: str
    image: Path
    modules: Path | None
    arch: str = ""

    @property
    def build(self) -> Path:
        """The folder in which this project's modules are built for this kernel."""
        return TOP / "build" / self.release


def find(name: str) -> Kernel:
    """Finds a kernel by its series (see tools/kernels), or by the path of its image."""
    if "/" in name or Path(name).is_file():
        return _from_image(Path(name))
    done = subprocess.run([TOP / "tools/kernels", "path", name], capture_output=True,
                          text=True, check=False)
    if done.returncode:
        raise VMError(done.stderr.strip())
    settings = dict(line.split("=", 1) for line in done.stdout.splitlines())
    return Kernel(settings["RELEASE"], Path(settings["IMAGE"]), Path(settings["MODULES"]),
                  settings.get("ARCH", ""))


def _from_image(image: Path) -> Kernel:
    if not image.is_file():
        raise VMError(f"--kernel: no file {image}")
    image = image.resolve()
    release = release_of(image)
    places = [parent / "lib/modules" / release for parent in list(image.parents)[:4]]
    places.append(Path("/lib/modules") / release)
    modules = next((place for place in places if place.is_dir()), None)
    arch = "arm64" if _is_arm64(image) else ""
    return Kernel(release, image, modules, arch)


def _is_arm64(image: Path) -> bool:
    with image.open("rb") as file:
        return file.read(0x3C)[0x38:] == ARM64_MAGIC


def release_of(image: Path) -> str:
    """The release of an image's kernel, as uname -r prints it."""
    with image.open("rb") as file:
        # Enough for a bzImage: its header has a 16-bit offset of the release's name.
        head = file.read(0x10400)
        if head[:4] == b"\x7fELF":
            file.seek(0)
            found = re.search(rb"Linux version (\S+) ", file.read())
        elif head[0x38:0x3C] == ARM64_MAGIC:
            file.seek(0)
            found = re.search(rb"Linux version (\S+) ", file.read())
        elif head[0x202:0x206] == b"HdrS":
            offset = struct.unpack_from("<H", head, 0x20E)[0] + 0x200
            found = re.match(rb"(\S+) ", head[offset:offset + 256])
        else:
            found = None
    if not found:
        raise VMError(f"--kernel: {image} is neither a bzImage, a vmlinux nor an Image of arm64")
    return found.group(1).decode()


def bootable(kernel: Kernel) -> Path:
    """The file to boot: the unpacked ELF kernel, so that the guest need not decompress it. For a
    kernel without a PVH entry point, the image itself, which boots more slowly. The image of an
    arm64 kernel is not compressed."""
    if kernel.arch == "arm64":
        return kernel.image

    def make(folder: Path) -> None:
        data = kernel.image.read_bytes()
        if data[:4] != b"\x7fELF":
            data = _payload(data, kernel.image)
        if any(note in data for note in PVH_NOTES):
            (folder / "vmlinux").write_bytes(data)

    folder = cache.entry("kernel", kernel.release, cache.stamp(kernel.image), make)
    elf = folder / "vmlinux"
    return elf if elf.exists() else kernel.image


def _payload(data: bytes, image: Path) -> bytes:
    """Unpacks a bzImage. Its header says where the compressed kernel is."""
    if data[0x202:0x206] != b"HdrS":
        raise VMError(f"--kernel: {image} is neither a bzImage nor a vmlinux")
    setup_sectors = data[0x1F1] or 4
    offset, length = struct.unpack_from("<II", data, 0x248)
    start = (setup_sectors + 1) * 512 + offset
    # The last 4 bytes are the size of the unpacked kernel, which the unpackers do not expect.
    packed = data[start:start + length - 4]
    return unpack(packed, str(image))


def unpack(packed: bytes, name: str) -> bytes:
    """Unpacks xz, gzip or zstd, the formats of kernels and modules."""
    if packed.startswith(b"\xfd7zXZ\0"):
        return lzma.decompress(packed)
    if packed.startswith(b"\x1f\x8b\x08"):
        return zlib.decompressobj(31).decompress(packed)
    if packed.startswith(b"\x28\xb5\x2f\xfd"):
        if not shutil.which("zstd"):
            raise VMError(f"{name} is packed with zstd, which is not installed: "
                          "tools/deps install run")
        done = subprocess.run(["zstd", "-dcq"], input=packed, capture_output=True, check=False)
        # A kernel's payload may be followed by padding, which zstd reports as an error.
        if done.stdout:
            return done.stdout
        raise VMError(f"{name}: zstd: {done.stderr.decode(errors='replace').strip()}")
    raise VMError(f"{name} is packed in an unknown format, expected xz, gzip or zstd")
