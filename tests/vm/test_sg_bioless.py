# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 7.2
"""Slots whose requests have no bio: which slots need none, and that their commands have the same
results as other commands."""
import mmap
import os
import random
from contextlib import contextmanager

import pytest
from kit import sgio, smqsg
from kit.host import loaded
from kit.memory import PAGE, Memory, OnePage
from kit.numbered import numbered_blocks
from kit.pool import WAYS, on_cpus, run_slots
from kit.probe import calls
from kit.ramdir import ram_host
from kit.slots import BLOCK, RUN_BUFFER, RUN_LBA, SlotFile, read, write
from kit.slowdisk import left_alone
from kit.uring import Ring

TAGS = 16


class Mapped:
    """Counts the scatterlists that the mid-layer makes: it makes one for each request with a
    bio."""

    def __init__(self, calls_so_far):
        self._calls, self._seen = calls_so_far, calls_so_far()

    def since(self) -> int | None:
        """Returns how many scatterlists the mid-layer has made since the last call of since(), or
        None if the kernel has no kprobes."""
        before, self._seen = self._seen, self._calls()
        return None if before is None else self._seen - before


@contextmanager
def mapped():
    """Yields a Mapped that counts during the block, in which only the test may send commands."""
    with calls("scsi_mod", "scsi_alloc_sgtables") as so_far:
        yield Mapped(so_far)


@contextmanager
def scsi_debug(**params):
    """Yields the node and the LUN of a disk of scsi_debug that has few tags, and whose first 256
    blocks are numbered."""
    params = {"max_queue": TAGS, "submit_queues": 1, "delay": 1, "io_errors": True} | params
    with smqsg.module(), loaded("scsi_debug", dev_size_mb=8, **params) as (host,):
        lun, = host.wait_luns(1)
        (lun.queue / "scheduler").write_text("none", encoding="ascii")
        with open(lun.sd, "r+b", buffering=0) as disk:
            assert disk.write(numbered_blocks(0, 256)) == 256 * BLOCK
            os.fsync(disk.fileno())
        yield smqsg.node(lun), lun


def run_with_all_tags(file):
    """Runs as many of the file's slots as there are tags. The device is slow, so that the first
    command has not ended when the last one gets its tag."""
    delay = smqsg.SCSI_DEBUG / "delay"
    delay.write_text("100", encoding="ascii")
    assert file.run(range(TAGS)) == (0, 0)
    delay.write_text("1", encoding="ascii")


@pytest.mark.smoke
def test_the_first_command_of_a_tag_has_a_bio():
    """A tag's first command has a bio: the request of that tag has no abort_work yet, so the
    mid-layer must prepare it. The tag's later commands have no bio."""
    area = Memory(TAGS * BLOCK)
    with scsi_debug() as (path, _), SlotFile(path, TAGS) as file, mapped() as made:
        assert file.lend(0, area) == 0
        file.prepare([read(at, offset=at * BLOCK) for at in range(TAGS)])
        made.since()
        for turn in range(4):
            area[:] = bytes(area.size)
            run_with_all_tags(file)
            assert area[:] == numbered_blocks(0, TAGS)
            count = made.since()
            # Before the first turn commands had used only few of the tags.
            assert count is None or (0 < count <= TAGS if not turn else not count), (turn, count)


@pytest.mark.smoke
def test_three_pieces_need_a_bio():
    """A command has a bio if its data is in three pieces of memory. With one piece or two it has
    none."""
    # All pages of the area are the same page.
    area = OnePage(4 * PAGE)
    half = PAGE // 2
    with scsi_debug() as (path, _), SlotFile(path, TAGS) as file, mapped() as made:
        page = Memory(TAGS * BLOCK)
        assert file.lend(0, page) == 0 == file.lend(1, area) == file.lend(2, area, PAGE)
        file.prepare([read(at, offset=at * BLOCK) for at in range(TAGS)])
        run_with_all_tags(file)
        whole, part = PAGE // BLOCK, half // BLOCK
        for count, offset, pieces in ((1, 0, 1), (whole, 0, 1), (part, half, 1), (whole, half, 2),
                                      (part + 1, half, 2), (2 * whole, half, 3)):
            file.prepare([read(5, count, buffer=1, offset=offset), read(99, whole, buffer=1)])
            for more in ({}, {"flags": RUN_LBA, "lba": 40}, {"flags": RUN_BUFFER, "buffer": 2}, {},
                         {"flags": RUN_BUFFER | RUN_LBA, "buffer": 2, "lba": 50}, {}):
                assert file.run_one(1).result == 0
                made.since()
                status = file.run_one(0, **more)
                assert (status.result, status.resid) == (0, 0), (count, offset, more)
                assert made.since() in (None, int(pieces > 2))
                expected = bytearray(numbered_blocks(99, whole))
                for at, block in enumerate(range(count)):
                    where = (offset + at * BLOCK) % PAGE
                    expected[where:where + BLOCK] = numbered_blocks(more.get("lba", 5) + block)
                file.prepare([write(120, whole, buffer=1)], 2)
                assert file.run_one(2).result == 0
                file.prepare([read(120, whole)], 3)
                assert file.run_one(3).result == 0
                assert page[:PAGE] == expected, (count, offset, more)


@pytest.mark.smoke
@pytest.mark.parametrize("way", WAYS)
def test_elevators_do_not_matter(way):
    """Under an elevator commands have no bio either, and move the same data. The elevator changes
    after the slots were prepared. On one CPU, and within the node's share of the tags: other
    commands may go through the device's queue."""
    rand, count = random.Random(way), TAGS // 4
    area = Memory(2 * count * BLOCK)
    with scsi_debug(delay=0) as (path, lun), SlotFile(path, TAGS) as file, mapped() as made, \
            Ring() as ring, on_cpus({0}):
        queue = lun.queue / "scheduler"
        assert file.lend(0, area) == 0
        file.prepare([*(write(at, offset=at * BLOCK) for at in range(count)),
                      *(read(at, offset=(count + at) * BLOCK) for at in range(count))])
        names = queue.read_text(encoding="ascii").replace("[", "").replace("]", "").split()
        assert {"none", "mq-deadline"} <= set(names)
        for name in (*names, "none"):
            queue.write_text(name, encoding="ascii")
            for _ in range(8):
                area[:] = rand.randbytes(count * BLOCK) + bytes(count * BLOCK)
                made.since()
                run_slots(file, ring, way, range(count))
                run_slots(file, ring, way, range(count, 2 * count))
                assert area[:count * BLOCK] == area[count * BLOCK:]
                mid_layer = made.since()
            # The mid-layer prepares the first command of each tag.
            assert not mid_layer, name


@pytest.mark.parametrize("dif, dix", ((1, 1), (2, 1), (1, 0)))
def test_hosts_with_protection_information(dif, dix):
    """On these hosts the mid-layer prepares the commands, and gives each a list of protection
    data."""
    area = Memory(TAGS * BLOCK)
    with scsi_debug(dif=dif, dix=dix) as (path, _), mapped() as made, SlotFile(path, TAGS) as file:
        assert file.lend(0, area) == 0
        opcode = 0x28 if dif == 1 else 0x88
        file.prepare([read(at, offset=at * BLOCK, opcode=opcode) for at in range(TAGS)])
        counts = []
        for _ in range(5):
            area[:] = bytes(area.size)
            made.since()
            assert file.run(range(TAGS)) == (0, 0)
            assert area[:] == numbered_blocks(0, TAGS)
            counts.append(made.since())
        if None in counts:
            return
        assert counts == [TAGS] * 5


# Faults that hit one command, on the way to the device or in it: the kind, its settings, and the
# steps of error handling that fail.
FAULTS = (("status", {"status": 8, "count": 2}, ()), ("task_set_full", {"count": 2}, ()),
          ("sense", {}, ()), ("short", {}, ()), ("wrong_status", {}, ()), ("dropped", {}, ()),
          ("lost", {}, ()), ("timeout", {}, ()), ("lost", {}, ("fail_abort",)),
          ("lost", {}, ("fail_abort", "fail_lun_reset")),
          ("lost", {}, ("fail_abort", "fail_lun_reset", "fail_target_reset")))


def leave_retries_of_sd(lun):
    """Makes sd read a page. sd's command leaves its number of retries in the request of the tag
    that this CPU uses next."""
    disk = os.open(lun.sd, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    with mmap.mmap(-1, PAGE) as page:
        assert os.preadv(disk, [page], 0) == PAGE
    os.close(disk)


def as_result(result, triple, resid):
    """Returns a command's result in a form that is the same for the nodes of sg and smq_sg."""
    return result & 0xffff, triple or (0, 0, 0), resid


def with_fault(host_dir, fault, run):
    """Injects a fault into the command that run() sends; returns what run() returns."""
    kind, settings, fails = fault
    for knob in fails:
        host_dir.set(f"fault/{knob}", -1)
    host_dir.arm(kind, **{"count": 1} | settings)
    got = run()
    assert int(host_dir.get("fault/injected")) >= 1
    for knob in fails:
        host_dir.set(f"fault/{knob}", 0)
    host_dir.arm("none")
    return got


@pytest.fixture
def one_cpu():
    """Runs the test on one CPU."""
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cpus)})
    yield
    os.sched_setaffinity(0, cpus)


@pytest.mark.limit(120)
@pytest.mark.usefixtures("one_cpu")
def test_faults_end_commands_as_with_sg():
    """After error handling and retries a command has the same result as through sg, whose requests
    have a bio. The slot's next run is not affected."""
    count = PAGE // BLOCK       # The data is in two pieces of memory.
    area = OnePage(2 * PAGE)
    half = PAGE // 2
    with smqsg.module(), ram_host(depth=TAGS, hw_queues=1) as (host_dir, host), Ring() as ring:
        lun = host.luns()[0]
        (lun.queue / "scheduler").write_text("none", encoding="ascii")
        left_alone(lun)
        with sgio.SgDev(lun.sg) as plain, mapped() as made, \
                SlotFile(smqsg.node(lun), TAGS) as file:
            assert file.lend(0, area, half) == 0
            raw = read(0, count, timeout_ms=500)
            file.prepare([write(at, count) for at in range(TAGS)])
            # The mid-layer prepares the first command of each tag.
            host_dir.set("model/service_ns", 200000000)
            assert file.run(range(TAGS)) == (0, 0)
            host_dir.set("model/service_ns", 0)
            cdb = bytes(raw.cdb[:raw.cdb_len])
            file.prepare([raw])

            def by_sg():
                got = plain.cmd(cdb, count * BLOCK, timeout_ms=500)
                return as_result(got.status | got.host << 8, got.triple, got.resid)

            def by_slot():
                file.push(ring, 0)
                ring.submit()
                ring.wait(1)
                got = file.status(0)
                return as_result(got.result, got.triple, got.resid)
            for fault in FAULTS:
                expected = with_fault(host_dir, fault, by_sg)
                # The next command gets the unit attention of a reset.
                while not plain.cmd(cdb, count * BLOCK).good:
                    pass
                for idle in (False, True):
                    # The first command of a tag has a bio. If this tag was unused, try again.
                    for _ in range(4):
                        leave_retries_of_sd(lun)
                        if idle:
                            assert file.run_one(0).result == 0
                        made.since()
                        assert with_fault(host_dir, fault, by_slot) == expected
                        lists = made.since()
                        while file.run_one(0).result:
                            pass
                        if not lists:
                            break
                    assert not lists, (fault, idle)
