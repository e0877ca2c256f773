# SPDX-License-Identifier: GPL-2.0
# vm: --cpus 2 --mem 1536
# on: uml
# not on sanitize: a loop of a million commands takes minutes there
"""Loops of smq_sg whose length a user chooses: with the greatest length and the longest transfers,
on devices whose commands end inside queuecommand, the task gives its CPU up, and dies soon after
SIGKILL."""
import ctypes
import mmap
import os
import resource
import signal
import time
from pathlib import Path

import pytest
from kit import cdb, smqsg
from kit.child import become_nobody, ended, spawn
from kit.host import loaded
from kit.memory import Memory
from kit.pool import on_cpus
from kit.sanitizing import TIME_FACTOR
from kit.slots import (BATCH_RANGE, BATCH_RUNS, BLOCK, IN, MAX_SLOTS, RUN, URING_BATCH, RunBatch,
                       SlotFile, command, ioctl, run_of)
from kit.timed import MAX_TIMED, Timed, entry
from kit.uring import Ring

pytestmark = pytest.mark.usefixtures("sg_module")

DRIVERS = {"smq_ram": {"size_mb": 16},
           "scsi_debug": {"dev_size_mb": 16, "delay": 0, "submit_queues": 2}}
# Slots with a command. A batch names each of them many times.
SLOTS = 64
# How long another task of the CPU waits, and how long a killed task lives, at most, in seconds: on
# a busy machine. Without a bound a batch here takes minutes.
LONGEST = 1.5 * TIME_FACTOR


class Loops:
    """Calls of a process without privileges, by name. Each is repeated until the process is
    killed."""

    def __init__(self, path: str):
        self.path, self.file, self.keep = path, None, []

    def open(self, slots: int = SLOTS) -> SlotFile:
        """Opens a file whose first slots read as much as a command can, up to 8 MiB."""
        self.file = SlotFile(self.path, slots, 0)
        length = min(self.file.info().max_transfer, 8 << 20)
        memory = Memory(length)
        assert self.file.lend(0, memory) == 0
        raw = cdb.blocks(cdb.READ_10, 0, length // BLOCK)
        self.file.prepare([command(raw, IN, length)] * SLOTS)
        self.keep.append(memory)
        return self.file

    def batch(self, raw: bytes, flags: int = 0, count: int = MAX_SLOTS):
        """A call that runs a batch whose list is @raw, repeated to @count elements."""
        memory = ctypes.create_string_buffer(raw * (count // SLOTS))
        self.keep.append(memory)
        fd = self.open().fd
        return lambda: ioctl(fd, RUN, RunBatch(list=ctypes.addressof(memory), count=count,
                                               flags=flags))

    def numbers(self):
        """A batch of slot numbers."""
        return self.batch(b"".join(slot.to_bytes(4, "little") for slot in range(SLOTS)))

    def runs(self):
        """A batch of runs."""
        return self.batch(b"".join(map(run_of, range(SLOTS))), BATCH_RUNS)

    def range(self):
        """A batch of all slots, most of which are empty."""
        fd = self.open(MAX_SLOTS).fd
        return lambda: ioctl(fd, RUN, RunBatch(count=MAX_SLOTS, flags=BATCH_RANGE))

    def ring(self):
        """A batch of slot numbers, by io_uring."""
        what = self.open().batch([slot % SLOTS for slot in range(MAX_SLOTS)])
        ring = Ring()

        def call():
            ring.push(self.file.fd, URING_BATCH, what, 1)
            ring.submit()
            ring.wait(1)
        return call

    def timed(self):
        """A timed batch."""
        what = Timed.of([entry(slot % SLOTS) for slot in range(MAX_TIMED)])
        file = self.open()

        def call():
            what.head.start = 0
            what.run(file)
        return call

    def prepare(self):
        """Prepares all slots."""
        file = self.open(MAX_SLOTS)
        slots = [command(cdb.plain(cdb.TEST_UNIT_READY))] * MAX_SLOTS
        return lambda: file.try_prepare(slots)

    def status(self):
        """Maps the status of all slots."""
        self.file = SlotFile(self.path)
        assert self.file.setup(slots=MAX_SLOTS, sense_size=96) == 0
        size = len(self.file.status_map)
        return lambda: mmap.mmap(self.file.fd, size, mmap.MAP_SHARED, mmap.PROT_READ).close()

    def lend(self):
        """Lends memory, and takes it back."""
        file, memory = self.open(), Memory(256 << 20)

        def call():
            assert file.lend(1, memory) == 0
            assert file.take_back(1) == 0
        return call

    def cancel(self):
        """Cancels all that waits."""
        return self.open().cancel

    def attributes(self):
        """Reads what the node and a file say of idle requests."""
        info = Path(f"/proc/self/fdinfo/{self.open().fd}")
        self.file.run(range(SLOTS))

        def call():
            for name in ("pool", "inflight", "share"):
                smqsg.attr(self.path, name)
            assert info.read_text(encoding="ascii")
        return call


NAMES = [name for name in vars(Loops) if name[0] != "_" and name not in ("open", "batch")]


@pytest.fixture(name="path", scope="module", params=sorted(DRIVERS))
def _path(request):
    """The node of a disk whose commands end inside queuecommand."""
    with loaded(request.param, **DRIVERS[request.param]) as hosts:
        path = smqsg.node(hosts[-1].wait_luns(1)[0])
        os.chmod(path, 0o666)
        yield path


def longest_sleep(seconds: float) -> float:
    """Sleeps again and again for 5 ms; returns the longest of these sleeps."""
    longest, at = 0.0, time.monotonic()
    end = at + seconds
    while at < end:
        time.sleep(0.005)
        longest = max(longest, time.monotonic() - at)
        at = time.monotonic()
    return longest


@pytest.mark.limit(60)
@pytest.mark.parametrize("cpus", (1, 2))
@pytest.mark.parametrize("name", NAMES)
def test_task_gives_its_cpu_up_and_can_be_killed(path, name, cpus):
    ready, told = os.pipe()

    def work():
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY,) * 2)
        become_nobody()
        call = getattr(Loops(path), name)()
        os.write(told, b"1")
        while True:
            call()

    with on_cpus(set(range(cpus))):
        pid = spawn(work)
        os.close(told)
        assert os.read(ready, 1) == b"1"
        os.close(ready)
        slept = longest_sleep(0.5)
        began = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        assert ended(pid, 55) == -signal.SIGKILL
        died = time.monotonic() - began
    print(f"{name}, {cpus} CPUs: slept {slept:.3f} s, died after {died:.3f} s")
    assert max(slept, died) < LONGEST
    smqsg.idle(path)
