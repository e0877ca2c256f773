# SPDX-License-Identifier: GPL-2.0
"""A cgroup for processes that a test forks: how much memory they use, and a limit for it."""
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .host import run, wait_for

ROOT = Path("/sys/fs/cgroup")


class Cgroup:
    """An existing cgroup."""

    def __init__(self, path: Path):
        self.path = path

    def enter(self) -> None:
        """Moves this process into the cgroup: memory that it allocates later counts there."""
        (self.path / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")

    def used(self) -> int:
        """Bytes in use, including a small reserve that each CPU has charged in advance."""
        return int((self.path / "memory.current").read_text(encoding="ascii"))

    def limit(self, size: int) -> None:
        """Sets the limit; the kernel kills a process that exceeds it."""
        (self.path / "memory.max").write_text(str(size), encoding="ascii")


@contextmanager
def cgroup(name: str) -> Iterator[Cgroup]:
    """Creates a cgroup, and removes it when its processes have ended."""
    if not (ROOT / "cgroup.controllers").exists():
        run("mount", "-t", "cgroup2", "none", ROOT)
    if "memory" not in (ROOT / "cgroup.controllers").read_text(encoding="ascii").split():
        pytest.skip("a kernel without memory cgroups")
    (ROOT / "cgroup.subtree_control").write_text("+memory", encoding="ascii")
    group = Cgroup(ROOT / name)
    group.path.mkdir()
    try:
        yield group
    finally:
        wait_for(f"{name}: no process", lambda: not (group.path / "cgroup.procs").read_text(
            encoding="ascii"))
        group.path.rmdir()
