# SPDX-License-Identifier: GPL-2.0
# on: core uml sanitize 6.12 7.2
"""Prepared commands: data in shared buffers, batches, status, a million slots."""
import errno
import mmap
import os
import random
import re
import signal
import struct
from pathlib import Path

import pytest
from kit import cdb, sgio, smqsg
from kit.cgroup import cgroup
from kit.child import ended, spawn
from kit.host import wait_for
from kit.memory import PAGE, Memory, OnePage, huge_memory, mprotect
from kit.numbered import NUMBERED_BLOCKS, numbered_blocks
from kit.probe import calls
from kit.slots import (BLOCK, IN, MAX_SLOTS, RESULT_SENSE, RESULT_SHORT, RUN_BUFFER, RUN_LBA,
                       Field, SlotFile, command, read, run_of, write)
from kit.uring import Ring

MIB = 1 << 20
TUR = cdb.plain(cdb.TEST_UNIT_READY)


# Data.

@pytest.mark.smoke
@pytest.mark.parametrize("kind", ("pages", "huge"))
def test_transfers_do_not_touch_memory_around_them(path, kind):
    """Transfers of random lengths at random offsets move the right data, and leave the memory
    around it unchanged."""
    rand = random.Random(kind)
    area = huge_memory(2 * MIB) if kind == "huge" else Memory(2 * MIB)
    with SlotFile(path, 32) as file:
        step, most = file.info().alignment, file.info().max_transfer
        # The buffer begins inside a page, if the device's alignment allows that.
        at = 3 * step % PAGE
        assert file.lend(1, area, at, area.size - PAGE) == 0
        # Data goes out of the first half and into the second; a page lies between them.
        half = (area.size - PAGE) // 2 - PAGE
        for turn in range(25):
            count = rand.choice((1, 2, 7, 8, 9, 64, rand.randint(1, 255), most // BLOCK))
            count = min(count, half // BLOCK)
            lba = NUMBERED_BLOCKS + rand.randrange(10000)
            out = rand.randrange(0, (half - count * BLOCK) // step + 1) * step
            into = half + PAGE + out
            data = rand.randbytes(count * BLOCK)
            area[at + out:at + out + len(data)] = data
            around = max(at + into - 64, 0), at + into + len(data) + 64
            area[around[0]:around[1]] = b"\xa5" * (around[1] - around[0])
            error, done = file.try_prepare([
                write(lba, count, cdb.WRITE_16, buffer=1, offset=out),
                read(lba, count, cdb.READ_16, buffer=1, offset=into)])
            assert (error, done) == (0, 2), (turn, count, out, into)
            assert file.run_one(0).result == 0 and file.run_one(1).result == 0
            assert area[at + into:at + into + len(data)] == data, (turn, count, out, into)
            assert area[around[0]:at + into] == b"\xa5" * (at + into - around[0])
            assert area[at + into + len(data):around[1]] == b"\xa5" * 64
    area.close()


def test_queue_stats_can_be_turned_off(path):
    """The node has the attribute queue_stats only on Linux 6.1. If it is 0, the block layer does
    not measure the times of passthrough commands on the device's queue."""
    knob = smqsg.CLASS / Path(path).name / "queue_stats"
    assert knob.exists() == os.uname().release.startswith("6.1.")
    if not knob.exists():
        return
    counts = []
    own = knob.with_name("own_queue")
    own.write_text("off", encoding="ascii")
    wait_for("the node's own queue to go",
             lambda: not smqsg.attr(path, "own_queue_exists"))
    with calls("", "blk_stat_add") as so_far, SlotFile(path, 1) as file:
        if so_far() is None:
            return
        assert file.lend(0, Memory(PAGE)) == 0 and file.try_prepare([read(0)]) == (0, 1)
        for value in (None, "0", "1"):
            if value:
                knob.write_text(value, encoding="ascii")
            assert knob.read_text(encoding="ascii") == f"{value or 1}\n"
            before = so_far()
            assert all(file.run_one(0).result == 0 for _ in range(64))
            counts.append(so_far() - before)
    own.write_text("auto", encoding="ascii")
    # The counts include commands of other queues.
    assert counts[1] < 64 <= min(counts[0], counts[2]), counts


def test_data_in_max_segments_pieces_is_moved(file):
    """Data in as many pieces of memory as the device takes is moved; one more piece is refused."""
    info = file.info()
    pieces = min(info.max_segments, info.max_transfer // PAGE)
    area = OnePage((pieces + 1) * PAGE)
    assert file.lend(0, area) == 0
    blocks = pieces * PAGE // BLOCK
    file.prepare([read(0, blocks)])
    assert file.run_one(0).result == 0
    # Data that begins and ends inside a page has one more piece.
    assert pieces == info.max_segments, "the device's max_transfer is too small for this test"
    assert file.try_prepare([read(0, blocks, offset=BLOCK)], 1) == (errno.EMSGSIZE, 0)
    assert file.field == Field.LENGTH
    assert file.run_one(0).result == 0 and file.run_one(1).result == -errno.ENODATA


@pytest.mark.smoke
def test_slot_runs_with_another_lba(file, memory):
    """A READ, WRITE or VERIFY with a CDB of 6 to 16 bytes can run with another LBA than the one
    that was prepared."""
    memory[:BLOCK] = numbered_blocks(9)
    for opcode in cdb.READS:
        file.prepare([read(3, opcode=opcode, offset=PAGE)])
        for lba in (0, 1, 0x123, NUMBERED_BLOCKS - 1):
            assert file.run_one(0, flags=RUN_LBA, lba=lba).result == 0
            assert memory[PAGE:PAGE + BLOCK] == numbered_blocks(lba), (opcode, lba)
        assert file.run_one(0).result == 0 and memory[PAGE:PAGE + BLOCK] == numbered_blocks(3)
    for at, opcode in enumerate(cdb.WRITES):
        lba = NUMBERED_BLOCKS + 20 + at
        file.prepare([write(NUMBERED_BLOCKS + 10, opcode=opcode), read(0, offset=PAGE)])
        assert file.run_one(0, flags=RUN_LBA, lba=lba).result == 0
        assert file.run_one(1, flags=RUN_LBA, lba=lba).result == 0
        assert memory[PAGE:PAGE + BLOCK] == numbered_blocks(9), opcode
    for opcode in cdb.VERIFIES:
        file.prepare([command(cdb.blocks(opcode, 1 << 30, 1))])
        assert file.run_one(0).triple == (sgio.ILLEGAL_REQUEST, 0x21, 0)
        assert file.run_one(0, flags=RUN_LBA, lba=77).result == 0
    for opcodes, bits in (((cdb.READ_6, cdb.WRITE_6), 21),
                          ((cdb.READ_10, cdb.WRITE_10, cdb.READ_12, cdb.WRITE_12), 32)):
        for opcode in opcodes:
            file.prepare([(read if opcode in cdb.READS else write)(0, opcode=opcode)])
            for lba, error in (((1 << bits) - 1, 0), (1 << bits, errno.ERANGE),
                               ((1 << 64) - 1, errno.ERANGE)):
                status = file.run_one(0, flags=RUN_LBA, lba=lba)
                assert status.result == -error or not error and status.asc == 0x21, (opcode, lba)
    file.prepare([command(cdb.blocks(cdb.VERIFY_16, 0, 1)), command(TUR),
                  command(cdb.inquiry(128), IN, 128), command(b"")])
    assert file.run_one(0, flags=RUN_LBA, lba=(1 << 64) - 1).asc == 0x21
    for slot, error in ((1, errno.EOPNOTSUPP), (2, errno.EOPNOTSUPP), (3, errno.ENODATA)):
        assert file.run_one(slot, flags=RUN_LBA, lba=1).result == -error


def test_slot_runs_with_another_buffer(file, memory):
    """With SMQ_SG_RUN_BUFFER a run uses another buffer, at the slot's offset and length."""
    other, small = Memory(4 * PAGE), Memory(PAGE)
    assert file.lend(1, other) == 0 and file.lend(2, small) == 0
    file.prepare([read(40, 2, offset=PAGE), command(TUR), read(7)])
    memory[:] = bytes(memory.size)
    for _ in range(3):
        other[:] = bytes(other.size)
        assert file.run_one(0, flags=RUN_BUFFER, buffer=1).result == 0
        assert other[PAGE:PAGE + 2 * BLOCK] == numbered_blocks(40, 2)
    assert memory[:] == bytes(memory.size)
    assert file.run_one(0, flags=RUN_BUFFER | RUN_LBA, buffer=1, lba=50).result == 0
    assert other[PAGE:PAGE + 2 * BLOCK] == numbered_blocks(50, 2)
    for slot, buffer, error in ((0, 2, errno.ERANGE), (0, 3, errno.ENOENT), (1, 1, errno.EINVAL)):
        assert file.run_one(slot, flags=RUN_BUFFER, buffer=buffer).result == -error
    assert file.run_one(2, flags=4).result == -errno.EINVAL
    with Ring() as ring:
        file.push(ring, 0, flags=RUN_BUFFER, buffer=1)
        file.push(ring, 2, flags=RUN_BUFFER | RUN_LBA, buffer=2, lba=99)
        ring.submit()
        assert sorted(ring.wait(2)) == [(0, 0), (2, 0)]
        for slot, more, error in ((0, {"flags": 8}, errno.EINVAL), (64, {}, errno.EINVAL),
                                  (0xffffffff, {}, errno.EINVAL), (9, {}, errno.ENODATA),
                                  (0, {"flags": RUN_BUFFER, "buffer": 9}, errno.ENOENT),
                                  (2, {"flags": RUN_LBA, "lba": 1 << 32}, errno.ERANGE)):
            file.push(ring, slot, **more)
            ring.submit()
            assert ring.wait(1) == [(slot, -error)], (slot, more)
    assert small[:BLOCK] == numbered_blocks(99)
    # When the runs have ended, the buffers can be taken back.
    assert file.take_back(1) == 0 and file.take_back(2) == 0


# Status.

@pytest.mark.smoke
@pytest.mark.parametrize("way", ("alone", "batch", "ioctl"))
def test_refused_run_has_its_reason_in_the_status(file, memory, way):
    """If a slot cannot be run, its status has the reason, however it was submitted."""
    for at, (slot, more, error) in enumerate((
            (read(5), {"flags": 8}, errno.EINVAL),
            (read(5), {"flags": RUN_LBA, "lba": 1 << 40}, errno.ERANGE),
            (read(5), {"flags": RUN_BUFFER, "buffer": 9}, errno.ENOENT),
            (command(TUR), {"flags": RUN_LBA}, errno.EOPNOTSUPP),
            (command(TUR), {"flags": RUN_BUFFER}, errno.EINVAL),
            (command(b""), {}, errno.ENODATA))):
        file.prepare([read(0x7fffffff)])
        assert file.run_one(0).triple == (sgio.ILLEGAL_REQUEST, 0x21, 0)
        file.prepare([slot])
        if way == "ioctl":
            assert file.run([run_of(0, **more)]) == (0, 1)
        else:
            with Ring() as ring:
                if way == "alone":
                    file.push(ring, 0, **more)
                else:
                    file.push_batch(ring, [run_of(0, **more)])
                ring.submit()
                assert ring.wait(1) == [(0, 1 if way == "batch" else -error)]
        status = file.status(0)
        assert (status.result, status.runs, status.resid) == (-error, at + 1, 0), more
        assert status.triple == (0, 0, 0) and status.sense == b""


@pytest.mark.parametrize("size", (0, 8, 96))
def test_status_has_sense_of_each_size(path, size):
    with SlotFile(path, 4, size) as file:
        area = Memory(PAGE)
        assert file.lend(0, area) == 0
        file.prepare([read(0x7fffffff), read(0)])
        for runs in (1, 2, 3):
            status = file.run_one(0)
            assert status.result == RESULT_SENSE | sgio.CHECK_CONDITION | (
                RESULT_SHORT if status.resid else 0)
            assert status.triple == (sgio.ILLEGAL_REQUEST, 0x21, 0) and status.runs == runs
            whole = sgio.decode_sense(status.sense.ljust(18, b"\0")) if size > 14 else None
            assert len(status.sense) == min(size, 18)
            assert not whole or whole.triple == (sgio.ILLEGAL_REQUEST, 0x21, 0)
        # The status of slot 1 lies behind that of slot 0, and is not overwritten.
        assert file.run_one(1) == file.status(1) and file.status(1).runs == 1
        assert file.status(1).triple == (0, 0, 0) and file.status(1).sense == b""
        file.prepare([read(0)])
        assert file.run_one(0).triple == (0, 0, 0) and file.status(0).sense == b""
        assert file.status(0).runs == 4


def test_mapped_status_is_read_only(file):
    with SlotFile(file.path) as early, pytest.raises(OSError, match="No such device or address"):
        mmap.mmap(early.fd, PAGE, mmap.MAP_SHARED, mmap.PROT_READ)
    size = len(file.status_map)
    for protection, flags in ((mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED),
                              (mmap.PROT_WRITE, mmap.MAP_SHARED),
                              (mmap.PROT_READ, mmap.MAP_PRIVATE),
                              (mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE)):
        with pytest.raises(PermissionError):
            mmap.mmap(file.fd, size, flags, protection)
    for length, offset in ((size + PAGE, 0), (size, PAGE), (PAGE, 1 << 40)):
        with pytest.raises(OSError, match="Invalid argument"):
            mmap.mmap(file.fd, length, mmap.MAP_SHARED, mmap.PROT_READ, offset=offset)
    maps = Path("/proc/self/maps").read_text(encoding="ascii").splitlines()
    line = next(line for line in maps if file.path in line)

    class Mapped:
        """The mapping of the status array."""
        address, size = int(line.split("-")[0], 16), PAGE
    assert mprotect(Mapped, 3) == -1
    # The mapping keeps the status array after the file is closed.
    file.prepare([command(TUR)])
    assert file.run_one(0).runs == 1
    kept = mmap.mmap(file.fd, size, mmap.MAP_SHARED, mmap.PROT_READ)
    file.close()
    assert struct.unpack_from("<iII", kept) == (0, 0, 1)
    kept.close()


# Batches.

@pytest.mark.smoke
@pytest.mark.limit(120)
@pytest.mark.parametrize("count", (1, 2, 16, 17, 32, 33, 64, 1000))
def test_batch_runs_each_slot_once(path, count):
    """A batch given by range, by list or by runs, with io_uring or without, runs each of its slots
    once, with its data in the right place."""
    with SlotFile(path, 1000, 0) as file, Ring() as ring:
        area = Memory(1000 * BLOCK)
        assert file.lend(0, area) == 0
        file.prepare([read(slot, offset=slot * BLOCK) for slot in range(1000)])
        order = random.Random(count).sample(range(1000), count)
        kinds = (range(1000 - count, 1000), order, [run_of(slot) for slot in order],
                 [run_of(slot, flags=RUN_LBA, lba=slot + 1000) for slot in order])
        for kind, what in enumerate(kinds):
            slots = what if kind == 0 else order
            shift = 1000 if kind == 3 else 0
            for uring in (False, True):
                before = [file.status(slot).runs for slot in slots]
                area[:] = bytes(area.size)
                if uring:
                    file.push_batch(ring, what, 5)
                    ring.submit()
                    assert ring.wait(1) == [(5, 0)]
                else:
                    assert file.run(what) == (0, 0)
                assert [file.status(slot).runs for slot in slots] == [n + 1 for n in before]
                assert area[:] == b"".join(
                    numbered_blocks(slot + shift) if slot in set(slots) else bytes(BLOCK)
                    for slot in range(1000)), (kind, uring)


def test_bad_elements_of_a_batch_fail_by_themselves(file, memory):
    """Each bad element of a batch fails and is counted. The other elements run."""
    file.prepare([read(slot, offset=slot * BLOCK) for slot in range(64)])
    file.prepare([command(b"")], 7)
    file.prepare([read(0x7fffffff)], 9)
    file.prepare([command(TUR)], 11)
    bad = [run_of(64), run_of(0xffffffff), run_of(1, flags=8),
           run_of(2, flags=RUN_LBA, lba=1 << 40), run_of(3, flags=RUN_BUFFER, buffer=9),
           run_of(7), run_of(11, flags=RUN_LBA),
           run_of(9)]
    errors = {1: errno.EINVAL, 2: errno.ERANGE, 3: errno.ENOENT, 7: errno.ENODATA,
              11: errno.EOPNOTSUPP}
    good = [slot for slot in range(64) if slot not in errors and slot != 9]
    rand = random.Random(1)
    with Ring() as ring:
        for turn in range(10):
            runs = bad + [run_of(slot) for slot in rand.sample(good, rand.choice((5, 24, 57)))]
            rand.shuffle(runs)
            before = {slot: file.status(slot).runs for slot in range(64)}
            if turn % 2:
                assert file.run(runs) == (0, len(bad))
            else:
                file.push_batch(ring, runs)
                ring.submit()
                assert ring.wait(1) == [(0, len(bad))]
            ran = {struct.unpack_from("<I", run)[0] for run in runs}
            for slot in range(64):
                status = file.status(slot)
                assert status.runs == before[slot] + (slot in ran and slot not in errors), slot
                if slot in errors:
                    assert status.result == -errors[slot] and status.triple == (0, 0, 0)
            assert file.status(9).triple == (sgio.ILLEGAL_REQUEST, 0x21, 0)
    file.prepare([command(b"")] * 64)
    assert file.run(range(64)) == (0, 64)
    assert {file.status(slot).result for slot in range(64)} == {-errno.ENODATA}


@pytest.mark.limit(180)
def test_million_slots_take_little_more_than_80_bytes_each(path):
    """A file can have a million slots with a shared buffer. Each slot takes 80 bytes when it is set
    up, and nothing more when it is prepared."""
    some = 8192
    before = allocated()
    with SlotFile(path, MAX_SLOTS, 0) as file:
        area = Memory(some * BLOCK // 2)
        assert file.lend(0, area) == 0
        part = [read(at % NUMBERED_BLOCKS, offset=at % (some // 2) * BLOCK) for at in range(some)]
        for first in range(0, MAX_SLOTS, some):
            file.prepare(part, first)
        areas, slabs = ((now - then) / MAX_SLOTS for then, now in zip(before, allocated()))
        info = file.info()
        print(f"{MAX_SLOTS} slots: {info.slot_bytes} bytes each as reported, {areas:.2f} from "
              f"vmalloc(), {slabs:.2f} of slabs")
        assert info.slots == MAX_SLOTS and info.slot_bytes == 80
        # A bit for each slot and what describes the buffer come on top. Other slabs may grow in the
        # meantime.
        assert 80 <= areas < 81 and slabs < 8
        rand = random.Random(0)
        slots = [0, MAX_SLOTS - 1] + rand.sample(range(1, MAX_SLOTS - 1), 1000)
        assert file.run(slots) == (0, 0)
        assert all(file.status(slot).runs == 1 for slot in slots)
        last = range(MAX_SLOTS - some, MAX_SLOTS)
        area[:] = bytes(area.size)
        assert file.run(last) == (0, 0)
        assert area[:] == numbered_blocks(0, some // 2)
        assert file.try_prepare(part[:2], MAX_SLOTS - 1)[0] == errno.EINVAL


@pytest.mark.limit(120)
@pytest.mark.parametrize("size", (0, 96))
def test_slots_are_charged_to_the_memory_cgroup(path, size):
    """All memory of slots is charged to the memory cgroup of the process, and the cgroup's limit
    applies to it."""
    need = MAX_SLOTS * (64 + 16 + size)

    with cgroup("smq-slots") as group:
        def work():
            group.enter()
            with SlotFile(path) as file:
                before = group.used()
                if file.setup(slots=MAX_SLOTS, sense_size=size):
                    return 1
                used = group.used() - before
                print(f"{need} bytes of slots and status: {used} charged")
                # The margins allow for page tables, and for memory that the kernel charges in
                # advance on each CPU.
                if not need <= used + MIB <= need * 1.05 + 2 * MIB:
                    return 2
            return 0 if group.used() - before < need / 20 + MIB else 3

        def too_much():
            group.enter()
            with SlotFile(path) as file:
                return file.setup(slots=MAX_SLOTS, sense_size=size)
        assert ended(spawn(work), 60) == 0
        group.limit(need // 2)
        assert ended(spawn(too_much), 60) in (errno.ENOMEM, -signal.SIGKILL)
    with SlotFile(path, MAX_SLOTS, size):
        pass


def allocated():
    """Returns the bytes that smq_sg has from vmalloc(), and the bytes of all slabs that cannot be
    reclaimed. MemAvailable would be wrong by many megabytes: since Linux 6.7 each CPU may keep so
    many free pages for itself."""
    areas = Path("/proc/vmallocinfo").read_text(encoding="ascii")
    pages = sum(int(count) for count in re.findall(r"\[smq_sg\].* pages=(\d+)", areas))
    slabs = Path("/proc/meminfo").read_text(encoding="ascii")
    return pages * PAGE, int(re.search(r"^SUnreclaim: +(\d+) kB$", slabs, re.M)[1]) * 1024
