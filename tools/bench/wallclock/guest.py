# SPDX-License-Identifier: GPL-2.0
"""Runs in the guest: measures the cells of a plan in turn, and writes each result as a line of
JSON.

guest.py PLAN RESULTS
"""

import json
import os
import sys
from pathlib import Path
from typing import Any, TextIO

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from smqbench import plan as plans, timing  # noqa: E402
from smqbench.errors import BenchError  # noqa: E402
from wallclock import devices, load, programs  # noqa: E402

SPIN_COUNT = 20000
DELAY_COUNT = 2500
CALIBRATIONS = 5
DELAY_CLOSE = 0.03
MAX_DELAY = 1000000  # ns: the most that smq_load and smq_ram accept


class Guest:
    """The measurement of one plan."""

    def __init__(self, plan: dict[str, Any], results: TextIO):
        self.plan = plan
        self._results = results
        self._devices: dict[str, devices.Device] = {}

    def note(self, kind: str, **content: object) -> None:
        """Writes a line of JSON, which the host sees at once."""
        self._results.write(json.dumps({"kind": kind, **content}) + "\n")
        self._results.flush()
        os.fsync(self._results.fileno())

    def run(self) -> None:
        """Measures the whole plan."""
        self.note("kernel", release=os.uname().release,
                  cmdline=Path("/proc/cmdline").read_text(encoding="ascii").strip())
        devices.prepare()
        doorbell_ns = self._doorbell()
        for row in self.plan["rows"]:
            try:
                self._devices[row] = devices.bring_up(row, self.plan["luns"],
                                                      self.plan["size_mb"], doorbell_ns)
            except devices.Skipped as why:
                self.note("skip", row=row, why=str(why))
                continue
            self.note("row", row=row, setting=self._devices[row].setting)
        for number, group in enumerate(self.plan["groups"]):
            self._group(number, [(row, plans.parse(key)) for row, key in group
                                 if row in self._devices])
        self.note("end")

    def _doorbell(self) -> int:
        """Finds the setting with which a doorbell takes the wanted time. The setting may differ
        from that time: the kernel's delays count turns of a loop, and the kernel timed that loop
        during its boot, inaccurately if the machine was busy."""
        wanted: int = self.plan["doorbell_ns"]
        setting = wanted
        for _ in range(CALIBRATIONS):
            jobs = load.run("delay", count=DELAY_COUNT, warmup=100, delay_ns=setting)
            took = timing.percentile(jobs[0].per_command(), 10)
            self.note("delay", setting=setting, wanted=wanted, took=took)
            if abs(took / wanted - 1) < DELAY_CLOSE:
                break
            setting = min(max(round(setting * wanted / took), 1), MAX_DELAY)
        return setting

    def _look(self, group: int, cpus: int) -> None:
        """Looks at the machine: measures the same piece of work on each CPU alone, and on all CPUs
        at once."""
        alone = [load.run("spin", cpus=(cpu,), count=SPIN_COUNT)[0].per_command()
                 for cpu in range(cpus)]
        jobs = load.run("spin", cpus=range(cpus), count=SPIN_COUNT)
        self.note("spin", group=group, alone=alone,
                  together=[job.per_command() for job in jobs])

    def _group(self, number: int, cells: list[tuple[str, plans.Workload]]) -> None:
        """Measures cells that are compared with each other, in turn. If several CPUs are measured,
        looks at the machine before each round and after the last one."""
        jobs = max((workload.jobs for _, workload in cells), default=0)
        user = any(workload.path != plans.IN_KERNEL for _, workload in cells)
        last = 0
        with programs.company(range(jobs, os.cpu_count() or 1) if user else ()):
            for repeat, (row, workload) in timing.turns(cells, self.plan["repeat"]):
                if jobs > 1 and repeat != last:
                    self._look(number, jobs)
                last = repeat
                measured = self._in_kernel if workload.path == plans.IN_KERNEL else self._program
                self.note("run", group=number, row=row, workload=workload.key, repeat=repeat,
                          chunks=measured(row, workload))
            if jobs > 1:
                self._look(number, jobs)

    def _count(self, row: str, workload: plans.Workload) -> int:
        """The number of commands to measure: fewer if each waits for a slow device."""
        waits = workload.qd == 1 and row in self.plan["spin"]
        count: int = self.plan["count_waiting" if waits else "count"]
        return count

    def _in_kernel(self, row: str, workload: plans.Workload) -> list[list[float]]:
        jobs = load.run(
            workload.op, self._devices[row].disks[:workload.luns], cpus=range(workload.jobs),
            qd=workload.qd, batch=workload.batch, bs=workload.bs or 512,
            count=self._count(row, workload), warmup=self.plan["warmup"],
            spin=int(row in self.plan["spin"]), seconds=self.plan["seconds"])
        return [job.per_command() for job in jobs]

    def _program(self, row: str, workload: plans.Workload) -> list[list[float]]:
        return programs.run(
            workload, self._devices[row].disks, count=self._count(row, workload),
            warmup=self.plan["warmup"], seconds=self.plan["seconds"])


def main() -> int:
    """Measures the plan. Returns the exit status, 0 if all of it was measured."""
    plan = json.loads(Path(sys.argv[1]).read_text(encoding="ascii"))
    with open(sys.argv[2], "w", encoding="ascii") as results:
        guest = Guest(plan, results)
        try:
            guest.run()
        except BenchError as error:
            guest.note("error", why=str(error))
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
