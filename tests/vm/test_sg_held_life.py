# SPDX-License-Identifier: GPL-2.0
# vm: --cpus 4
"""Held slots allocate a request only when they have to: once per slot at first, and again after
others needed the requests. The tests count the kernel's allocations, for few and for many slots."""
import mmap
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit import smqsg
from kit.held import node_share, without_elevator
from kit.host import Lun, loaded, run, wait_for
from kit.memory import PAGE, Memory
from kit.probe import calls
from kit.ramdir import ram_host
from kit.slots import HELD, RUN_LBA, SlotFile, read
from kit.slowdisk import left_alone

CPU = 3
ONLINE = Path(f"/sys/devices/system/cpu/cpu{CPU}/online")
IDLE_SECONDS = 0.9      # a slot that runs more often than this keeps its request
LIVES = (("smq_ram", 2), ("smq_ram", 4), ("smq_ram", 32), ("smq_ram", 1000), ("scsi_debug", 32))


class Life:
    """A file with @count held slots, which run one after the other, on CPU 3."""

    def __init__(self, lun: Lun, count: int, so_far: Callable[[], int | None]):
        self.lun, self.path, self.count, self.so_far = lun, smqsg.node(lun), count, so_far
        self.file = SlotFile(self.path, count, held_share=100)
        self.area = Memory(PAGE)
        assert self.file.lend(0, self.area) == 0
        self.file.prepare([read(slot % 64, flags=HELD) for slot in range(count)])

    def new(self, what: Callable[[], None]) -> int:
        """Returns how many requests the kernel allocates during a call."""
        before = self.so_far()
        what()
        return self.so_far() - before

    def one_by_one(self) -> None:
        """Runs each slot, by a call of its own."""
        for slot in range(self.count):
            assert self.file.run(range(slot, slot + 1)) == (0, 0)

    def together(self) -> None:
        """Runs all slots as a batch."""
        assert self.file.run(range(self.count)) == (0, 0)

    def settles(self, what: str) -> None:
        """Checks that each slot allocates one request at most, and then none. Slots that are idle
        for a second give their requests back, so rounds that took too long do not count."""
        assert self.new(self.one_by_one) <= self.count, what
        quick = 0
        while quick < 3:
            began = time.monotonic()
            self.one_by_one()
            counts = [self.new(way) for way in (self.together, self.one_by_one)]
            if time.monotonic() - began < IDLE_SECONDS:
                quick += 1
                assert counts == [0, 0], (what, self.count, quick)


@contextmanager
def lun_of(driver: str, depth: int) -> Iterator[Lun]:
    """Yields a LUN with a hardware queue for each CPU, without an elevator."""
    with ram_host(depth=depth, hw_queues=4) if driver == "smq_ram" else loaded(
            "scsi_debug", delay=0, max_queue=depth, submit_queues=4) as made:
        host = made[-1]
        lun, = host.wait_luns(1)
        without_elevator(lun)
        left_alone(lun)
        yield lun


def pause(life: Life) -> None:
    """Waits until the slots have given all requests back."""
    wait_for("all requests to be given back", lambda: not smqsg.tags(life.lun))


def nr_requests(life: Life) -> None:
    """Changes nr_requests there and back: the queue is frozen twice."""
    knob = life.lun.queue / "nr_requests"
    before = int(knob.read_text(encoding="ascii"))
    for value in (max(before // 2, 1), before):
        knob.write_text(str(value), encoding="ascii")


def elevator(life: Life) -> None:
    """Sets an elevator, under which no slot keeps a request, runs the slots, and removes it."""
    knob = life.lun.queue / "scheduler"
    knob.write_text("mq-deadline", encoding="ascii")
    assert life.new(life.one_by_one) == life.count
    knob.write_text("none", encoding="ascii")


def cpu(life: Life) -> None:
    """Takes the slots' CPU offline, runs them on another one, and takes the CPU online."""
    os.sched_setaffinity(0, {0})
    try:
        ONLINE.write_text("0", encoding="ascii")
        life.settles("on another CPU")
    finally:
        ONLINE.write_text("1", encoding="ascii")
        os.sched_setaffinity(0, {CPU})


def tag_shortage(life: Life) -> None:
    """Reads a block of the disk while the slots keep all tags of the hardware queue."""
    life.together()
    fd = os.open(life.lun.sd, os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, mmap.PAGESIZE) as area:
            assert os.preadv(fd, [area], 0) == len(area)
    finally:
        os.close(fd)


def failure(life: Life) -> None:
    """Fails a run of the first slot."""
    assert life.file.run_one(0, flags=RUN_LBA, lba=0x7fffffff).result


@pytest.fixture(name="life", params=LIVES, ids=lambda pair: f"{pair[0]}-{pair[1]}")
def fixture_life(sg_module, request):
    """Yields a Life on a disk that has as many tags as the file has slots."""
    driver, count = request.param
    run("modprobe", "mq-deadline")
    before = os.sched_getaffinity(0)
    with calls("", "blk_mq_alloc_request") as so_far, lun_of(driver, count) as lun:
        if so_far() is None:
            pytest.skip("this kernel has no kprobes")
        with node_share(smqsg.node(lun), 100):
            os.sched_setaffinity(0, {CPU})
            life = Life(lun, count, so_far)
            try:
                yield life
            finally:
                life.file.close()
                os.sched_setaffinity(0, before)


def test_entries_are_seldom_read_while_a_cpu_is_offline(sg_module):
    """The look reads all entries every half second. Only when a CPU has gone offline it reads them
    at once, and not again as long as the CPU is offline."""
    with calls("smq_sg", "smqsg_held_collect") as reads, lun_of("scsi_debug", 32) as lun, \
            node_share(smqsg.node(lun), 100):
        if reads() is None:
            pytest.skip("this kernel has no kprobes")
        life = Life(lun, 2, lambda: None)
        try:
            ONLINE.write_text("0", encoding="ascii")
            life.together()
            time.sleep(0.1)
            before, began = reads(), time.monotonic()
            while time.monotonic() < began + 2:
                life.together()
                time.sleep(0.1)
            seconds = time.monotonic() - began
            assert 1 <= reads() - before <= 2 * seconds + 3
        finally:
            ONLINE.write_text("1", encoding="ascii")
            life.file.close()


@pytest.mark.limit(120)
def test_slots_allocate_requests_only_when_they_have_to(life):
    """Slots allocate their first requests, none while they run, and no more than one each after
    an event that took their requests. The first event is a failure before all slots have run, as
    a unit attention is."""
    failure(life)
    life.settles("fresh, after a failure of the first run")
    for event in (pause, failure, nr_requests, elevator, cpu, tag_shortage):
        event(life)
        life.settles(event.__name__)
