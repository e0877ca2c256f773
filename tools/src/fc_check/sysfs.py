# SPDX-License-Identifier: GPL-2.0
"""Reads sysfs and procfs of this machine, or copies of them from another machine.

If an attribute does not exist or cannot be read, its value is an empty string: drivers have
different attributes, and devices may be removed at any time. """
import os
import re
from contextlib import suppress
from pathlib import Path


def numbers(text: str) -> list[int]:
    """The numbers in a list of CPUs or NUMA nodes as the kernel prints it, for example "0-3,8"."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdigit():
            found += range(int(first), int(last or first) + 1)
    return found


def number(text: str) -> int | None:
    """The decimal or hexadecimal number that a text begins with; None if there is none."""
    match = re.match(r"-?(0[xX][0-9a-fA-F]+|\d+)", text)
    return int(match[0], 0 if match[1][:2] in ("0x", "0X") else 10) if match else None


class Sysfs:
    """A /sys, and the /proc that belongs to it. proc: None if there is no copy of /proc."""

    def __init__(self, root: Path, proc: Path | None):
        self.root, self._proc = root, proc

    def text(self, *parts: str) -> str:
        """An attribute without the white space around it."""
        with suppress(OSError):
            return self.root.joinpath(*parts).read_text(
                encoding="ascii", errors="replace").strip()
        return ""

    def number(self, *parts: str) -> int | None:
        """An attribute as a number."""
        return number(self.text(*parts))

    def proc(self, *parts: str) -> str:
        """A file of /proc."""
        with suppress(OSError):
            if self._proc:
                return self._proc.joinpath(*parts).read_text(
                    encoding="ascii", errors="replace").strip()
        return ""

    def names(self, *parts: str) -> list[str]:
        """The names in a directory, sorted by the numbers in them."""
        with suppress(OSError):
            return sorted(os.listdir(self.root.joinpath(*parts)), key=lambda name: [
                int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)])
        return []

    def real(self, *parts: str) -> Path:
        """The path of an object with symbolic links resolved: below its parent device's path."""
        return self.root.joinpath(*parts).resolve()

    def parameter(self, module: str, name: str) -> str:
        """The value of a module's parameter."""
        return self.text("module", module, "parameters", name)

    def cpus(self) -> list[int]:
        """CPUs that are online."""
        return numbers(self.text("devices/system/cpu/online")) or [0]

    def nodes(self) -> int:
        """The number of possible NUMA nodes."""
        return len(numbers(self.text("devices/system/node/possible"))) or 1
