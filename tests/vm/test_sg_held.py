# SPDX-License-Identifier: GPL-2.0
# vm: --cpus 4
"""Held slots have the same results as other slots, whether they keep their requests or not. The
number of kept requests is limited."""
import ctypes
import errno
import os
import random
from pathlib import Path

import pytest
from kit import cdb, sgio, smqsg
from kit.held import (WAYS, held_requests, hold_first, holding, node_share, run_slots,
                      without_elevator)
from kit.host import find_hosts, loaded, wait_for
from kit.memory import PAGE, Memory, OnePage
from kit.numbered import NUMBERED_BLOCKS, numbered_blocks, numbered_disk
from kit.sanitizing import repeats
from kit.slots import (BLOCK, HELD, IN, RUN_BUFFER, RUN_LBA, Field, SlotFile, command, read,
                       run_of, write)
from kit.slowdisk import opened
from kit.uring import Ring


# Drivers with and without a doorbell for several commands (commit_rqs).
DRIVERS = {"queued": ("smq_ram", {}),
           "straight": ("scsi_debug", {"delay": 0, "max_queue": 128, "submit_queues": 4})}
QUEUED = pytest.mark.parametrize("path", ["queued"], indirect=True)


@pytest.fixture(scope="module", params=DRIVERS)
def path(request):
    """Yields the path of the smq_sg node of a disk whose first blocks are numbered."""
    driver, params = DRIVERS[request.param]
    with numbered_disk(driver, **params) as node:
        for host in find_hosts(driver):
            without_elevator(*host.luns())
        yield node


@pytest.fixture
def file(path):
    """An open file with 64 slots, all of which may keep their requests. Closes the file at the end,
    and checks that no request is kept."""
    with SlotFile(path, 64, held_share=100) as found:
        assert found.info().max_held == 64
        yield found
    smqsg.idle(path)
    assert held_requests(path) == 0


# Data.

@pytest.mark.smoke
@pytest.mark.parametrize("way", WAYS)
def test_kept_requests_move_the_right_data(file, way):
    """Kept requests write and read the right data, even after the slots were prepared with other
    commands."""
    rand, area, count = random.Random(way), Memory(64 * BLOCK), 16
    out, into, check = slice(0, count * BLOCK), slice(32 * BLOCK, 48 * BLOCK), 48
    assert file.lend(0, area) == 0
    with Ring() as ring:
        for shift in (0, 100, 0, 200):
            base = NUMBERED_BLOCKS + shift
            file.prepare([
                *(write(base + at, flags=HELD, offset=at * BLOCK) for at in range(count)),
                *(read(base + at, flags=HELD, offset=(32 + at) * BLOCK) for at in range(count)),
                # A slot that is not held reads what the held slots wrote.
                read(0, offset=check * BLOCK)])
            assert held_requests(file.path) == 0
            for _ in range(3):
                area[out], area[into] = rand.randbytes(count * BLOCK), bytes(count * BLOCK)
                run_slots(file, ring, way, range(count))
                run_slots(file, ring, way, range(count, 2 * count))
                assert area[into] == area[out]
                assert held_requests(file.path) == 2 * count
                at = rand.randrange(count)
                assert file.run_one(2 * count, flags=RUN_LBA, lba=base + at).result == 0
                assert area[check * BLOCK:][:BLOCK] == area[at * BLOCK:][:BLOCK]


@pytest.mark.smoke
@pytest.mark.parametrize("way", WAYS)
def test_another_lba_or_buffer_does_not_affect_later_runs(file, way):
    """Runs with another LBA, another buffer, both or neither use the same kept request. No run
    affects a later one."""
    area, other = Memory(16 * PAGE), Memory(16 * PAGE)
    assert file.lend(0, area) == 0 and file.lend(1, other) == 0
    place = slice(PAGE, PAGE + 2 * BLOCK)
    file.prepare([read(40, 2, flags=HELD, offset=PAGE)])
    order = [{}, {"flags": RUN_LBA, "lba": 50}, {}, {"flags": RUN_BUFFER, "buffer": 1}, {},
             {"flags": RUN_LBA | RUN_BUFFER, "buffer": 1, "lba": 60}, {}, {}]
    with Ring() as ring:
        for more in [*order, *random.Random(way).choices(order, k=40)]:
            for memory in (area, other):
                memory[:] = bytes(memory.size)
            run_slots(file, ring, way, [run_of(0, **more)])
            assert held_requests(file.path) == 1
            want, rest = (other, area) if "buffer" in more else (area, other)
            assert want[place] == numbered_blocks(more.get("lba", 40), 2), more
            assert want[:place.start] + want[place.stop:] == bytes(want.size - 2 * BLOCK), more
            assert rest[:] == bytes(rest.size), more
        # Each WRITE writes its own run's buffer to its own run's LBA.
        file.prepare([write(NUMBERED_BLOCKS, flags=HELD),
                      read(NUMBERED_BLOCKS, 8, offset=8 * PAGE)])
        blocks = {at: bytes(BLOCK) for at in range(8)}
        for turn, (at, buffer) in enumerate(((0, 0), (3, 0), (0, 1), (5, 1), (0, 0), (0, 0))):
            (area, other)[buffer][:BLOCK] = blocks[at] = bytes([turn + 1]) * BLOCK
            (other, area)[buffer][:BLOCK] = b"\xee" * BLOCK
            more = {"flags": (RUN_LBA if at else 0) | (RUN_BUFFER if buffer else 0),
                    "lba": NUMBERED_BLOCKS + at if at else 0, "buffer": buffer}
            run_slots(file, ring, way, [run_of(0, **more)])
            assert file.run_one(1).result == 0
            for lba, want in blocks.items():
                got = area[8 * PAGE + lba * BLOCK:][:BLOCK]
                assert got == want or want == bytes(BLOCK) and lba != at, (turn, lba)


@pytest.mark.parametrize("pieces", (1, 2, 3, 5))
def test_slot_with_more_than_two_pieces_keeps_no_request(file, pieces):
    """A slot whose data is in more than two pieces of memory works too, but keeps no request."""
    area = OnePage(pieces * PAGE)
    blocks = PAGE // BLOCK
    assert file.lend(0, area) == 0
    file.prepare([read(7, pieces * blocks, flags=HELD)])
    for turn in range(3):
        ctypes.memset(area.address, turn, PAGE)
        status = file.run_one(0)
        assert (status.result, status.runs) == (0, turn + 1)
        # All pieces are the same page, so the page has the data of the last piece.
        assert ctypes.string_at(area.address, PAGE) == numbered_blocks(
            7 + (pieces - 1) * blocks, blocks)
        assert held_requests(file.path) == (1 if pieces <= 2 else 0)


def read32(lba: int, byte10: int) -> bytes:
    """Returns the CDB of a READ (32) of one block."""
    raw = bytearray(32)
    raw[0], raw[7], raw[9], raw[10] = 0x7f, 24, 9, byte10
    raw[12:20], raw[20:24], raw[28:32] = (value.to_bytes(size, "big") for value, size in (
        (lba, 8), (lba, 4), (1, 4)))
    return bytes(raw)


@QUEUED
@pytest.mark.parametrize("dif", (1, 2))
def test_command_with_protection_information_keeps_no_request(path, dif):
    """Each CDB that a device of protection type @dif takes has the same result as through sg. A
    command that asks for protection information keeps no request."""
    assert path     # The fixture has loaded smq_sg.
    wants = (0, 1 << 5, 5 << 5)
    raws = [(want, cdb.blocks(opcode, 3, 1, want)) for want in wants
            for opcode in (cdb.READ_10, cdb.READ_12, cdb.READ_16)] if dif == 1 else [
                (want, read32(3, want)) for want in wants]
    with loaded("scsi_debug", dif=dif, dix=1, delay=0, dev_size_mb=8) as (host,):
        lun, = host.wait_luns(1)
        without_elevator(lun)
        data, good = random.Random(dif).randbytes(BLOCK), 0
        with open(lun.sd, "r+b", buffering=0) as disk:
            assert disk.seek(3 * BLOCK) and disk.write(data) == BLOCK
            os.fsync(disk.fileno())
        with SlotFile(smqsg.node(lun), 1, held_share=100) as file, sgio.SgDev(lun.sg) as plain:
            memory = Memory(PAGE)
            assert file.lend(0, memory) == 0
            for want, raw in raws:
                file.prepare([command(raw, IN, BLOCK, flags=HELD)])
                for _ in range(2):
                    memory[:] = bytes(PAGE)
                    got, other = file.run_one(0), plain.cmd(raw, BLOCK)
                    assert got.result & 0xff == other.status
                    assert got.triple == (other.triple or (0, 0, 0))
                    assert got.result or memory[:BLOCK] == other.data == data
                    assert held_requests(file.path) == (not got.result and not want), \
                        (want, raw.hex())
                good += not got.result and bool(want)
        assert good


def test_slots_read_the_right_data_while_their_task_migrates(file):
    """Slots read the right data while their task moves between CPUs."""
    area = Memory(64 * BLOCK)
    assert file.lend(0, area) == 0
    file.prepare([read(slot, flags=HELD, offset=slot * BLOCK) for slot in range(64)])
    cpus = os.sched_getaffinity(0)
    assert len(cpus) > 1
    rand = random.Random(0)
    try:
        with Ring() as ring:
            for _ in range(repeats(60)):
                os.sched_setaffinity(0, {rand.choice(sorted(cpus))})
                some = rand.sample(range(64), 24)
                area[:] = bytes(area.size)
                run_slots(file, ring, rand.choice(WAYS), some)
                assert area[:] == b"".join(numbered_blocks(slot) if slot in some else bytes(BLOCK)
                                           for slot in range(64))
    finally:
        os.sched_setaffinity(0, cpus)


# Status.

@pytest.mark.smoke
@pytest.mark.parametrize("way", WAYS)
def test_good_run_after_a_failed_one_has_no_sense(file, way):
    """After a run that ends with CHECK CONDITION the slot keeps no request. The next GOOD run
    reports no sense data."""
    area = Memory(PAGE)
    assert file.lend(0, area) == 0
    file.prepare([read(5, flags=HELD)])
    runs = 0
    with Ring() as ring:
        for _ in range(3):
            for _ in range(2):
                area[:BLOCK] = bytes(BLOCK)
                run_slots(file, ring, way, [0])
                runs += 1
                status = file.status(0)
                assert (status.result, status.resid, status.runs) == (0, 0, runs)
                assert status.triple == (0, 0, 0) and status.sense == b""
                assert area[:BLOCK] == numbered_blocks(5) and held_requests(file.path) == 1
            status = file.run_one(0, flags=RUN_LBA, lba=0x7fffffff)
            runs += 1
            assert status.triple == (sgio.ILLEGAL_REQUEST, 0x21, 0) and status.sense
            assert status.runs == runs and held_requests(file.path) == 0


# How many requests are kept.

@QUEUED
@pytest.mark.smoke
def test_held_share_limits_kept_requests(path, klog):
    """held_share is 0 to 100 percent of the depth. When it is lowered, slots at once give back the
    requests above the new share."""
    knob = smqsg.CLASS / Path(path).name / "held_share"
    depth = smqsg.attr(path, "depth")
    assert smqsg.attr(path, "held_share") == 50
    for bad, why in (("101", errno.EINVAL), ("-1", errno.EINVAL), ("x", errno.EINVAL),
                     ("4294967296", errno.ERANGE)):
        with pytest.raises(OSError) as error:
            knob.write_text(bad, encoding="ascii")
        assert error.value.errno == why, bad
    klog.wait("held_share is no number in 0..100")
    assert smqsg.attr(path, "held_share") == 50
    with SlotFile(path) as none:
        assert none.setup(slots=8, held_share=101) == errno.EINVAL
        assert none.field == Field.HELD_SHARE
        assert none.info().max_held == 0
    with holding(path, depth) as file, node_share(path, 100):
        hold_first(file, depth)
        for percent in (25, 10, 0):
            knob.write_text(str(percent), encoding="ascii")
            most = depth * percent // 100
            assert held_requests(path) <= most
            assert file.info().max_held == most
            assert file.run(range(depth)) == (0, 0)
            assert held_requests(path) == most
            assert file.memory[:] == numbered_blocks(0, depth)
        knob.write_text("100", encoding="ascii")
        hold_first(file, depth)
    assert held_requests(path) == 0


@QUEUED
def test_file_keeps_no_more_than_it_asked_for(path):
    """A file keeps no more requests than the held_share that it asked for, even if the node allows
    more. A file that did not ask for a share keeps none."""
    depth = smqsg.attr(path, "depth")
    with node_share(path, 100):
        for share in (0, 1, 30, 100):
            with opened(path, depth, HELD, held_share=share) as file:
                assert file.info().max_held == depth * share // 100
                for _ in range(2):
                    assert file.run(range(depth)) == (0, 0)
                    assert held_requests(path) == depth * share // 100
    # A slot without the flag HELD keeps nothing either.
    with opened(path, 8, 0, held_share=100) as file:
        assert file.run(range(8)) == (0, 0) and held_requests(path) == 0


@QUEUED
def test_files_share_the_requests_of_their_node(path):
    """All files of a node share the requests that the node may keep: when a second file is opened,
    the first file gives back the second file's share."""
    depth = smqsg.attr(path, "depth")
    with node_share(path, 50), holding(path, depth) as first:
        assert first.info().max_held == depth // 2
        assert first.run(range(depth)) == (0, 0) and held_requests(path) == depth // 2
        with holding(path, depth) as second:
            assert [one.info().max_held for one in (first, second)] == [depth // 4] * 2
            wait_for("requests to be given back", lambda: held_requests(path) <= depth // 4, 2)
            for _ in range(3):
                assert first.run(range(depth)) == second.run(range(depth)) == (0, 0)
                assert held_requests(path) == depth // 2
            with SlotFile(path, 8):
                # A file that keeps nothing takes no share from the others.
                assert first.info().max_held == depth // 4
        assert held_requests(path) == depth // 4 and first.info().max_held == depth // 2
        assert first.run(range(depth)) == (0, 0) and held_requests(path) == depth // 2


@QUEUED
def test_idle_slots_give_their_requests_back(path):
    """A slot that has not run for a second gives its request back; a slot that runs keeps it."""
    with holding(path, 16) as file:
        hold_first(file, 16)

        def only_two():
            assert file.run(range(2)) == (0, 0)
            return held_requests(path) == 2
        wait_for("14 requests to be given back", only_two, 5)
        wait_for("all requests to be given back", lambda: held_requests(path) == 0, 5)
        hold_first(file, 16)


def test_unknown_slot_flags_are_refused(file):
    """Unknown flags are refused, and the slot is unchanged."""
    area = Memory(PAGE)
    assert file.lend(0, area) == 0
    file.prepare([read(3, flags=HELD)])
    for flags in (2, HELD | 2, 4, 1 << 31):
        assert file.try_prepare([read(9, flags=flags)]) == (errno.EINVAL, 0)
        assert file.field == Field.FLAGS
    assert file.run_one(0).result == 0 and area[:BLOCK] == numbered_blocks(3)
    # A command without data, whose opcode has no LBA, keeps its request too.
    file.prepare([command(cdb.plain(cdb.TEST_UNIT_READY), flags=HELD)], 1)
    for _ in range(3):
        assert file.run_one(1).result == 0 and held_requests(file.path) == 2
