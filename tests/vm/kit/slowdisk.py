# SPDX-License-Identifier: GPL-2.0
"""A disk with a small queue depth, which a test can make slow, and files of its node."""
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
# ns per command: long enough for a test to act on a command in flight. slow() takes twice as long,
# because a busy machine may stop the test meanwhile.
SLOW = 400_000_000


class Disk:
    """A LUN with queue depth DEPTH, and its node."""

    def __init__(self, lun: Lun):
        self.lun, self.path = lun, smqsg.node(lun)

    def idle(self) -> None:
        """Waits until no command is in flight or waiting."""
        def still():
            # Check more than once: a command that was waiting is in flight a moment later.
            return not any(smqsg.attr(self.path, name) for _ in range(3)
                           for name in ("waiting", "inflight"))
        wait_for(f"{self.path}: nothing in flight or waiting", still)


class SlowDisk(Disk):
    """A slow disk of smq_ram."""

    def __init__(self, host_dir, host):
        super().__init__(host.luns()[0])
        self.dir, self.host = host_dir, host

    def slow(self, nanoseconds: int = 2 * SLOW) -> None:
        """Sets how long commands take, in ns."""
        self.dir.set("model/service_ns", nanoseconds)


class StraightDisk(Disk):
    """A slow disk of scsi_debug. That driver has no doorbell for several commands (commit_rqs), so
    held requests go straight to it."""

    def slow(self, nanoseconds: int = 2 * SLOW) -> None:
        """Sets how long commands that move data take, in ns."""
        smqsg.set_delay(nanoseconds)


@contextmanager
def slow_disk(**config) -> Iterator[SlowDisk]:
    """Yields a SlowDisk while smq_sg is loaded. At the end the disk must be idle or removed."""
    with ram_host(depth=DEPTH, **{"hw_queues": 1} | config) as (host_dir, host):
        found = SlowDisk(host_dir, host)
        yield found
        host_dir.set("model/service_ns", 0)
        if os.path.exists(found.path):
            found.idle()


@contextmanager
def straight_disk(**params) -> Iterator[StraightDisk]:
    """Yields a disk of scsi_debug that has no elevator, and that only the test uses."""
    with loaded("scsi_debug", **{"delay": 0, "max_queue": DEPTH} | params) as (host,):
        lun, = host.wait_luns(1)
        (lun.queue / "scheduler").write_text("none", encoding="ascii")
        left_alone(lun)
        found = StraightDisk(lun)
        yield found
        if os.path.exists(found.path):
            found.idle()


def left_alone(lun: Lun) -> None:
    """Waits until sd has probed a disk and no program sends it commands."""
    def quiet():
        before = (lun.sysfs / "iodone_cnt").read_text(encoding="ascii")
        time.sleep(0.2)
        return (lun.sysfs / "iodone_cnt").read_text(encoding="ascii") == before
    wait_for(f"{lun.sd} to be left alone", quiet)


@contextmanager
def opened(path: str, slots: int = 64, kind: int = 0, **more) -> Iterator[SlotFile]:
    """A file with slots that read, each into its own block of buffer 0. @kind: the slots' flags."""
    with SlotFile(path, slots, **more) as file:
        file.memory = Memory(slots * BLOCK)
        assert file.lend(0, file.memory) == 0
        file.prepare([read(slot, offset=slot * BLOCK, flags=kind) for slot in range(slots)])
        yield file
