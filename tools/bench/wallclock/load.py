# SPDX-License-Identifier: GPL-2.0
"""Runs in the guest: one run of the module smq_load."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from smqbench.errors import BenchError

DEBUGFS = Path("/sys/kernel/debug/smq_load")


@dataclass(frozen=True)
class Job:
    """The results of one CPU."""

    cpu: int
    commands: int
    ns: int
    chunks: list[tuple[int, int]]       # (commands, ns)

    def per_command(self) -> list[float]:
        """Nanoseconds per command, of each chunk."""
        return [ns / commands for commands, ns in self.chunks]


def run(op: str, devices: Sequence[str] = (), cpus: Sequence[int] = (0,),
        **settings: int) -> list[Job]:
    """Runs one load. If it fails, raises BenchError with the module's message."""
    words = [f"op={op}", "cpus=" + ",".join(map(str, cpus)),
             *(f"dev={device}" for device in devices),
             *(f"{name}={value}" for name, value in settings.items())]
    if not DEBUGFS.is_dir():
        raise BenchError("smq_load is not loaded")
    failed: OSError | None = None
    try:
        (DEBUGFS / "run").write_text(" ".join(words), encoding="ascii")
    except OSError as error:
        failed = error
    result = json.loads((DEBUGFS / "result").read_text(encoding="ascii"))
    if result["error"] or failed:
        raise BenchError(f"smq_load: {result['error'] or failed}")
    return [Job(job["cpu"], job["commands"], job["ns"],
                [(commands, ns) for commands, ns in job["chunks"]])
            for job in result["jobs"]]
