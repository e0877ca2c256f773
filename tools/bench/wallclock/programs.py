# SPDX-License-Identifier: GPL-2.0
"""Runs in the guest: one run of a program of tools/bench/loop, whose load comes from user space."""

import json
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from smqbench.errors import BenchError
from smqbench.plan import Workload

PROGRAMS = Path(__file__).resolve().parents[3] / "build/tools/bench"
CHUNK = 256     # a multiple of every batch
# Links in a SCSI device's folder, by the plan's names for the kinds of nodes.
_NODES = {"smqsg": "smq_generic", "sg": "generic"}


def _node(disk: str, kind: str) -> str:
    """The node of this kind for a disk's device."""
    if kind == "disk":
        return disk
    device = Path("/sys/block", Path(disk).name, "device")
    if kind == "bsg":
        node = Path("/dev/bsg", device.resolve().name)
    else:
        node = Path("/dev", (device / _NODES[kind]).resolve().name)
    if not node.exists():
        raise BenchError(f"{disk} has no node of kind {kind}")
    return str(node)


def _chunks_of(output: str) -> list[list[float]]:
    """Nanoseconds per command of each chunk, job by job."""
    try:
        jobs = json.loads(output)["chunks"]
        return [[ns / commands for commands, ns in job] for job in jobs]
    except (ValueError, KeyError, TypeError, ZeroDivisionError) as error:
        raise BenchError(f"the program's output cannot be read: {error}: {output}") from None


def run(workload: Workload, disks: Sequence[str], *, count: int, warmup: int,
        seconds: int) -> list[list[float]]:
    """Runs one program on the first of these disks."""
    name, kind, luns, *arguments = workload.program([count], warmup, data=False)
    words = [str(PROGRAMS / name), *arguments, "--chunk", str(CHUNK), "--timeout", str(seconds),
             *(_node(disk, kind) for disk in disks[:int(luns)])]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise BenchError(f"{' '.join(words)}: status {done.returncode}: {done.stderr.strip()}")
    return _chunks_of(done.stdout)


@contextmanager
def company(cpus: Iterable[int]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Keeps these CPUs busy during the block, without system calls. Under User Mode Linux a program
    and its system call run in two threads of the host. The host runs both threads on one CPU only
    if no other CPU is idle. So with idle CPUs a system call would take longer than with busy ones.
    """
    busy: list[subprocess.Popen[bytes]] = []
    try:
        for cpu in cpus:
            busy.append(subprocess.Popen(       # pylint: disable=consider-using-with
                ["taskset", "--cpu-list", str(cpu), "sh", "-c", "while :; do :; done"],
                stdin=subprocess.DEVNULL))
        yield busy
    finally:
        for process in busy:
            process.kill()
            process.wait()
