# SPDX-License-Identifier: GPL-2.0
"""Runs in the guest: writes figures to a file that the host reads."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any, TextIO

from smqbench.errors import BenchError

PROGRAMS = Path(__file__).resolve().parents[3] / "build/tools/bench"


def program(name: str, *words: object, ok: bool = True) -> dict[str, Any]:
    """Runs a program of tools/bench/loop. Returns its last line of JSON. With ok=False the program
    may fail, and the function always returns {}."""
    argv = [str(PROGRAMS / name), *map(str, words)]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False)
    if not ok:
        return {}
    if done.returncode:
        raise BenchError(f"{' '.join(argv)}: status {done.returncode}: "
                         f"{done.stderr.strip() or done.stdout[-300:]}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


class Notes:
    """Collects the values of each metric, one of each repeat, and writes them to a file."""

    def __init__(self, results: TextIO):
        self._results = results
        self._values: dict[str, list[float]] = {}
        self._more: dict[str, dict[str, Any]] = {}

    def line(self, kind: str, **content: object) -> None:
        """Writes a line of JSON, which the host sees at once."""
        self._results.write(json.dumps({"kind": kind, **content}) + "\n")
        self._results.flush()
        os.fsync(self._results.fileno())

    def value(self, row: str, metric: str, value: float, **workload: Any) -> None:
        """Adds the value of one repeat."""
        parameters = workload.pop("parameters", {})
        key = json.dumps({"row": row, "metric": metric, **workload}, sort_keys=True)
        self._values.setdefault(key, []).append(round(value, 5))
        self._more[key] = parameters
        self.line("seen", row=row, metric=metric, value=round(value, 4), **workload)

    def flush(self) -> None:
        """Writes all figures so far."""
        for key, values in self._values.items():
            self.line("figure", **json.loads(key), values=values, parameters=self._more[key])
        self._values.clear()
