# SPDX-License-Identifier: GPL-2.0
"""A disk that takes few commands, as slow as a test likes, and files of its node."""
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from . import smqsg
from .host import Lun, loaded, wait_for
from .memory import Memory
from .ramdir import ram_host
from .slots import BLOCK, SlotFile, read

DEPTH = 4
SLOW = 400_000_000      # ns of service: long enough to do something meanwhile


class Disk:
    """A LUN that takes DEPTH commands, with its node."""

    def __init__(self, lun: Lun):
        self.lun, self.path = lun, smqsg.node(lun)

    def idle(self) -> None:
        """Waits until there is nothing in flight nor waiting."""
        def still():
            # More than one look: what was waiting is in flight the next moment.
            return not any(smqsg.attr(self.path, name) for _ in range(3)
                           for name in ("waiting", "inflight"))
        wait_for(f"{self.path}: nothing in flight nor waiting", still)


class SlowDisk(Disk):
    """Of smq_ram."""

    def __init__(self, host_dir, host):
        super().__init__(host.luns()[0])
        self.dir, self.host = host_dir, host

    def slow(self, nanoseconds: int = SLOW) -> None:
        """How long commands take."""
        self.dir.set("model/service_ns", nanoseconds)


class StraightDisk(Disk):
    """Of scsi_debug, which has no doorbell for several commands (commit_rqs): held requests go
    straight to it."""

    def slow(self, nanoseconds: int = SLOW) -> None:
        """How long commands that move data take."""
        smqsg.set_delay(nanoseconds)


@contextmanager
def slow_disk(**config) -> Iterator[SlowDisk]:
    """One, while smq_sg is loaded. It is idle, or has gone, at the end."""
    with ram_host(depth=DEPTH, **{"hw_queues": 1} | config) as (host_dir, host):
        found = SlowDisk(host_dir, host)
        yield found
        host_dir.set("model/service_ns", 0)
        if os.path.exists(found.path):
            found.idle()


@contextmanager
def straight_disk(**params) -> Iterator[StraightDisk]:
    """One without an elevator, that nobody uses but the test; the rest is the same."""
    with loaded("scsi_debug", **{"delay": 0, "max_queue": DEPTH} | params) as (host,):
        lun, = host.wait_luns(1)
        (lun.queue / "scheduler").write_text("none", encoding="ascii")
        left_alone(lun)
        found = StraightDisk(lun)
        yield found
        if os.path.exists(found.path):
            found.idle()


def left_alone(lun: Lun) -> None:
    """Waits until sd has looked at a disk, and nobody else does."""
    def quiet():
        before = (lun.sysfs / "iodone_cnt").read_text(encoding="ascii")
        time.sleep(0.2)
        return (lun.sysfs / "iodone_cnt").read_text(encoding="ascii") == before
    wait_for(f"{lun.sd} to be left alone", quiet)


@contextmanager
def opened(path: str, slots: int = 64, kind: int = 0, **more) -> Iterator[SlotFile]:
    """A file with slots that read, each into its block of buffer 0, which is its memory. @kind:
    their flags."""
    with SlotFile(path, slots, **more) as file:
        file.memory = Memory(slots * BLOCK)
        assert file.lend(0, file.memory) == 0
        file.prepare([read(slot, offset=slot * BLOCK, flags=kind) for slot in range(slots)])
        yield file
