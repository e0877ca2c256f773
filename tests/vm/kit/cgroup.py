# SPDX-License-Identifier: GPL-2.0
"""A memory cgroup for processes that a test forks: what they use, and what they may use."""
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .host import run, wait_for

ROOT = Path("/sys/fs/cgroup")


class MemoryCgroup:
    """One that is there."""

    def __init__(self, path: Path):
        self.path = path

    def enter(self) -> None:
        """What this process uses from here on counts in it."""
        (self.path / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")

    def used(self) -> int:
        """Bytes, but for some that each CPU has taken ahead."""
        return int((self.path / "memory.current").read_text(encoding="ascii"))

    def limit(self, size: int) -> None:
        """More than that is not to be had: the kernel kills who asks for it."""
        (self.path / "memory.max").write_text(str(size), encoding="ascii")


@contextmanager
def memory_cgroup(name: str) -> Iterator[MemoryCgroup]:
    """Makes one, and removes it when its processes have ended."""
    if not (ROOT / "cgroup.controllers").exists():
        run("mount", "-t", "cgroup2", "none", ROOT)
    if "memory" not in (ROOT / "cgroup.controllers").read_text(encoding="ascii").split():
        pytest.skip("a kernel without memory cgroups")
    (ROOT / "cgroup.subtree_control").write_text("+memory", encoding="ascii")
    group = MemoryCgroup(ROOT / name)
    group.path.mkdir()
    try:
        yield group
    finally:
        wait_for(f"{name}: no process", lambda: not (group.path / "cgroup.procs").read_text(
            encoding="ascii"))
        group.path.rmdir()
