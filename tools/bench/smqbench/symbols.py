# SPDX-License-Identifier: GPL-2.0
"""Maps a guest's addresses to functions and modules, by its /proc/kallsyms."""

import bisect
import re
from functools import lru_cache
from dataclasses import dataclass
from pathlib import Path

from .guestlog import Run

KERNEL_HALF = 1 << 63
# The compiler's clones of a function count as that function.
CLONE = re.compile(r"\.(?:isra|part|constprop|cold|llvm)\b.*$")


@dataclass(frozen=True)
class Function:
    """A function, or all of user space."""

    name: str
    module: str = ""

    def __str__(self) -> str:
        return f"{self.name} [{self.module}]" if self.module else self.name


USER = Function("[user space]")


class Symbols:
    """One dump of /proc/kallsyms."""

    def __init__(self, path: Path):
        found: dict[int, Function] = {}
        with path.open(encoding="ascii", errors="replace") as lines:
            for line in lines:
                words = line.split()
                if len(words) < 3 or words[1] not in "tTwW":
                    continue
                address = int(words[0], 16)
                if address < KERNEL_HALF:
                    continue
                module = words[3].strip("[]") if len(words) > 3 else ""
                found.setdefault(address, Function(CLONE.sub("", words[2]), module))
        self._addresses = sorted(found)
        self._functions = [found[address] for address in self._addresses]

    def function(self, address: int) -> Function:
        """The function whose code is at an address."""
        if address < KERNEL_HALF:
            return USER
        at = bisect.bisect_right(self._addresses, address) - 1
        return self._functions[at] if at >= 0 else Function(f"{address:#x}")

    def is_entry(self, address: int) -> bool:
        """Whether a function begins at this address."""
        at = bisect.bisect_left(self._addresses, address)
        return at < len(self._addresses) and self._addresses[at] == address


@lru_cache(64)
def _symbols(path: Path) -> Symbols:
    return Symbols(path)


def symbols_of(folder: Path, run: Run) -> Symbols:
    """The kernel's symbols during a run: the guest dumps them again when other modules are
    loaded."""
    return _symbols(folder / f"kallsyms.{run.figures['symbols']}")
