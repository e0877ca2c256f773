# SPDX-License-Identifier: GPL-2.0
"""Runs in the guest: measures a part of tools/bench/policies. Writes each figure as a line of
JSON.

guest.py PART RESULTS REPEATS QUICK
"""

import os
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from smqbench.errors import BenchError  # noqa: E402
from wallclock import devices  # noqa: E402
from dispatch import depth, files, prio, steer  # noqa: E402
from dispatch.notes import Notes  # noqa: E402

PARTS = {"depth": depth.measure, "files": files.measure, "prio": prio.measure,
         "steer": steer.measure}


def main() -> int:
    """Measures a part. Returns the exit status: 0 if the whole part was measured, otherwise 1."""
    part, path, repeats, quick = sys.argv[1:]
    with open(path, "w", encoding="ascii") as results:
        notes = Notes(results)
        notes.line("kernel", release=os.uname().release, cpus=os.cpu_count(),
                   cmdline=Path("/proc/cmdline").read_text(encoding="ascii").strip())
        try:
            devices.prepare_ram()
            PARTS[part](notes, int(repeats), quick == "quick")
        except BenchError as error:
            notes.line("error", why=str(error))
            return 1
        notes.flush()
        notes.line("end")
    return 0


if __name__ == "__main__":
    sys.exit(main())
