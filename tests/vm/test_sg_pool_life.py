# SPDX-License-Identifier: GPL-2.0
# vm: --cpus 4
# not on uml: a CPU goes offline; kprobes: all 10 tests are skipped
# not on sanitize: four CPUs, one of which goes offline, and kprobes
"""A file allocates a request only when it has to: at first for each command that is in flight at a
time, and again after others needed the requests. The tests count the kernel's allocations, for few
and for many slots."""
import mmap
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit import cdb, sgheader, smqsg
from kit.host import Lun, loaded, run, wait_for
from kit.memory import PAGE, Memory
from kit.pool import SHORT, on_cpus, pool_share
from kit.probe import calls
from kit.ramdir import ram_host
from kit.slots import BLOCK, RUN_LBA, SlotFile, read
from kit.slowdisk import left_alone

CPU = 3
ONLINE = Path(f"/sys/devices/system/cpu/cpu{CPU}/online")
IDLE_SECONDS = 0.9      # a request that is used more often than this is kept
# Driver, slots, tags. The node and the disk each may have half of the tags.
LIVES = (("smq_ram", 2, 8), ("smq_ram", 4, 8), ("smq_ram", 32, 64), ("smq_ram", 1000, 1000),
         ("scsi_debug", 32, 64))


class Life:
    """A file with @count slots, which run one after the other, on CPU 3. @host_dir: that of a host
    of smq_ram, or None."""

    def __init__(self, lun: Lun, count: int, so_far: Callable[[], int | None], host_dir=None):
        self.lun, self.path, self.count, self.so_far = lun, smqsg.node(lun), count, so_far
        self.host_dir = host_dir
        self.file = SlotFile(self.path, count)
        self.area = Memory(PAGE)
        assert self.file.lend(0, self.area) == 0
        self.file.prepare([read(slot % 64) for slot in range(count)])

    @property
    def batch(self) -> int:
        """How many commands are in flight at a time."""
        return min(self.count, SHORT)

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
        """Runs all slots, in short batches."""
        for first in range(0, self.count, self.batch):
            some = range(first, min(first + self.batch, self.count))
            assert self.file.run(some) == (0, 0)

    def settles(self, what: str) -> None:
        """Checks that runs one after the other allocate one request at most, batches as many as
        they have commands, and later runs none. Requests that are not used for a second are given
        back, so rounds that took too long do not count."""
        assert self.new(self.one_by_one) <= 1, what
        assert self.new(self.together) <= self.batch, what
        quick = 0
        while quick < 3:
            began = time.monotonic()
            self.together()
            counts = [self.new(way) for way in (self.one_by_one, self.together)]
            if time.monotonic() - began < IDLE_SECONDS:
                quick += 1
                assert counts == [0, 0], (what, self.count, quick)


@contextmanager
def lun_of(driver: str, depth: int) -> Iterator[tuple]:
    """Yields a LUN with a hardware queue for each CPU, and for smq_ram its host's directory, else
    None."""
    with ram_host(depth=depth, hw_queues=4) if driver == "smq_ram" else loaded(
            "scsi_debug", delay=0, max_queue=depth, submit_queues=4) as made:
        lun, = made[-1].wait_luns(1)
        left_alone(lun)
        yield lun, made[0] if driver == "smq_ram" else None


# What makes requests be given back, or may not.

def pause(life: Life) -> None:
    """Waits until all requests have been given back."""
    wait_for("all requests to be given back", lambda: not smqsg.tags(life.lun))


def nr_requests(life: Life) -> None:
    """Changes nr_requests there and back: the device's queue is frozen twice."""
    knob = life.lun.queue / "nr_requests"
    before = int(knob.read_text(encoding="ascii"))
    for value in (max(before // 2, 1), before):
        knob.write_text(str(value), encoding="ascii")


def elevator(life: Life) -> None:
    """Sets an elevator, runs the slots, and removes the elevator."""
    knob = life.lun.queue / "scheduler"
    knob.write_text("mq-deadline", encoding="ascii")
    life.settles("under an elevator")
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


def share(life: Life) -> None:
    """Lets the node keep no request, and then all again."""
    knob = smqsg.CLASS / Path(life.path).name / "pool_share"
    for percent in ("0", "100"):
        knob.write_text(percent, encoding="ascii")


def read_block(fd: int) -> None:
    """Reads a block without the page cache."""
    with mmap.mmap(-1, mmap.PAGESIZE) as area:
        assert os.preadv(fd, [area], 0) == len(area)


def tag_shortage(life: Life) -> None:
    """Reads the disk by more threads than there are tags; only on a device that can be slow."""
    if not life.host_dir or life.count > SHORT:
        return
    life.together()
    tags = int(life.host_dir.get("depth"))
    life.host_dir.set("model/service_ns", 20000000)
    fd = os.open(life.lun.sd, os.O_RDONLY | os.O_DIRECT)
    with ThreadPoolExecutor(2 * tags) as pool:
        list(pool.map(read_block, [fd] * 4 * tags))
    os.close(fd)
    life.host_dir.set("model/service_ns", 0)


def failure(life: Life) -> None:
    """Fails a run of the first slot."""
    assert life.file.run_one(0, flags=RUN_LBA, lba=0x7fffffff).result


@pytest.fixture(name="life", params=LIVES, ids=lambda found: f"{found[0]}-{found[1]}")
def fixture_life(sg_module, request):
    """Yields a Life on a disk that has enough tags for a batch."""
    driver, count, tags = request.param
    run("modprobe", "mq-deadline")
    with calls("", "blk_mq_alloc_request") as so_far, lun_of(driver, tags) as (lun, host_dir):
        if so_far() is None:
            pytest.skip("this kernel has no kprobes")
        with pool_share(smqsg.node(lun), 100), on_cpus({CPU}):
            life = Life(lun, count, so_far, host_dir)
            try:
                yield life
            finally:
                life.file.close()


def test_requests_are_seldom_read_while_a_cpu_is_offline(sg_module):
    """The scan reads all idle requests every half second. Only when a CPU has gone offline it reads
    them at once, and not again as long as the CPU is offline."""
    with calls("smq_sg", "smqsg_pool_collect") as reads, lun_of("scsi_debug", 64) as (lun, _), \
            pool_share(smqsg.node(lun), 100):
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
def test_requests_are_allocated_only_when_they_have_to(life):
    """A file allocates its first requests, none while its slots run, and no more than for its
    commands in flight after an event that took its requests. The first event is a failure before
    all slots have run, as a unit attention is."""
    failure(life)
    life.settles("fresh, after a failure of the first run")
    for event in (pause, failure, nr_requests, elevator, cpu, share, tag_shortage):
        event(life)
        life.settles(event.__name__)


def by_sg_io(fd: int, want: sgheader.V3, arena: sgheader.Arena) -> None:
    """Sends a command by SG_IO."""
    assert not sgheader.sg_io(fd, want, arena).error


def by_write(fd: int, want: sgheader.V3, arena: sgheader.Arena) -> None:
    """Sends a command by write(), and reads its result."""
    assert not sgheader.write(fd, want, arena)
    assert not sgheader.read(fd, want, arena).error


@pytest.mark.parametrize("size", (BLOCK, 64 * PAGE), ids=("copied", "mapped"))
@pytest.mark.parametrize("way", (by_sg_io, by_write))
def test_interfaces_of_sg_use_idle_requests(sg_module, way, size):
    """On the own queue, SG_IO and write() allocate a request for the first command only."""
    want = sgheader.V3(cdb.blocks(cdb.READ_10, 0, size // BLOCK), size)
    with calls("", "blk_mq_alloc_request") as so_far, lun_of("scsi_debug", 64) as (lun, _), \
            on_cpus({CPU}), SlotFile(smqsg.node(lun), 1) as file:
        if so_far() is None:
            pytest.skip("this kernel has no kprobes")
        assert smqsg.attr(smqsg.node(lun), "own_queue_exists") == 1
        arena = sgheader.Arena(size + 2 * PAGE)
        for _ in range(4):
            way(file.fd, want, arena)
            before, began = so_far(), time.monotonic()
            for _ in range(10):
                way(file.fd, want, arena)
            if time.monotonic() - began < IDLE_SECONDS:
                break
        assert so_far() == before
