# SPDX-License-Identifier: GPL-2.0
"""How many allocations the kernel has not freed, for each line of code that allocates."""
import re
import time
from collections.abc import Callable
from pathlib import Path

ALLOCINFO = Path("/proc/allocinfo")
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
LINE = re.compile(r"\s*(\d+)\s+(\d+)\s+(\S+) (?:\[(\w+)\] )?func:(\S+)")


def live(wanted: Callable[[str], bool]) -> dict[str, int]:
    """Counts allocations that are not freed, by place in the code: "FILE:LINE FUNCTION".

    @wanted is called with a module's name, or for built-in code with a source file's path. It
    returns whether to count the allocations made there.
    """
    assert ALLOCINFO.exists(), "no allocation profiling: run as tools/uml --flavour sanitize"
    found: dict[str, int] = {}
    for line in ALLOCINFO.read_text(encoding="ascii").splitlines():
        match = LINE.match(line)
        if match and wanted(match[4] or match[3]):
            place = f"{match[3]} {match[5]}"
            found[place] = found.get(place, 0) + int(match[2])
    return found


def grown(before: dict[str, int], wanted: Callable[[str], bool],
          seconds: float = 20) -> list[str]:
    """Waits until no place has more allocations than in @before, but at most @seconds, because the
    kernel frees some memory late. Returns the places that still have more."""
    end = time.monotonic() + seconds
    while True:
        # Frees inodes and dentries of removed objects.
        DROP_CACHES.write_text("2", encoding="ascii")
        now = live(wanted)
        more = [f"{place}: {before.get(place, 0)} -> {count}"
                for place, count in sorted(now.items()) if count > before.get(place, 0)]
        if not more or time.monotonic() > end:
            return more
        time.sleep(0.2)


def size_of(function: str) -> int:
    """How many bytes are allocated by the calls in a function."""
    found = map(LINE.match, ALLOCINFO.read_text(encoding="ascii").splitlines())
    return sum(int(match[1]) for match in found if match and match[5] == function)
