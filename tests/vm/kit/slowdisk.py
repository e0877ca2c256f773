# SPDX-License-Identifier: GPL-2.0
"""A disk of smq_ram that takes few commands, as slow as a test likes, and files of its node."""
import os
from collections.abc import Iterator
from contextlib import contextmanager

from . import smqsg
from .host import wait_for
from .memory import Memory
from .ramdir import ram_host
from .slots import BLOCK, SlotFile, read

DEPTH = 4
SLOW = 400_000_000      # ns of service: long enough to do something meanwhile


class SlowDisk:
    """A LUN of smq_ram that takes DEPTH commands, with its node."""

    def __init__(self, host_dir, host):
        self.dir, self.host, self.lun = host_dir, host, host.luns()[0]
        self.path = smqsg.node(self.lun)

    def slow(self, nanoseconds: int = SLOW) -> None:
        """How long commands take."""
        self.dir.set("model/service_ns", nanoseconds)

    def idle(self) -> None:
        """Waits until there is nothing in flight nor waiting."""
        def still():
            # More than one look: what was waiting is in flight the next moment.
            return not any(smqsg.attr(self.path, name) for _ in range(3)
                           for name in ("waiting", "inflight"))
        wait_for(f"{self.path}: nothing in flight nor waiting", still)


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
def opened(path: str, slots: int = 64, kind: int = 0, **more) -> Iterator[SlotFile]:
    """A file with slots that read, each into its block of buffer 0, which is its memory. @kind:
    their flags."""
    with SlotFile(path, slots, **more) as file:
        file.memory = Memory(slots * BLOCK)
        assert file.lend(0, file.memory) == 0
        file.prepare([read(slot, offset=slot * BLOCK, flags=kind) for slot in range(slots)])
        yield file
