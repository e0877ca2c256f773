# SPDX-License-Identifier: GPL-2.0
# vm: --cpus 4
# on: uml sanitize 6.12 7.2
"""Commands whose requests come from a file's pools have the same results as other commands. The
number of idle requests is limited."""
import ctypes
import errno
import os
import random
from pathlib import Path

import pytest
from kit import cdb, sgio, smqsg
from kit.host import loaded, wait_for
from kit.memory import PAGE, Memory, OnePage
from kit.numbered import NUMBERED_BLOCKS, numbered_blocks, numbered_disk
from kit.pool import SHORT, WAYS, fill_pool, idle_requests, on_cpus, pool_share, run_slots
from kit.sanitizing import repeats
from kit.slots import (BLOCK, HELD, IN, RUN_BUFFER, RUN_LBA, Field, SlotFile, command,
                       read, run_of, write)
from kit.slowdisk import left_alone, opened
from kit.uring import SETUP_IOPOLL, Ring


# Drivers with and without a doorbell for several commands (commit_rqs).
DRIVERS = {"queued": ("smq_ram", {"poll_queues": 1}),
           "straight": ("scsi_debug", {"delay": 0, "max_queue": 128, "submit_queues": 4})}
QUEUED = pytest.mark.parametrize("path", ["queued"], indirect=True)
ALL_CPUS = set(range(os.cpu_count()))


@pytest.fixture(scope="module", params=DRIVERS)
def path(request):
    """Yields the path of the smq_sg node of a disk whose first blocks are numbered."""
    driver, params = DRIVERS[request.param]
    with numbered_disk(driver, **params) as node:
        yield node


@pytest.fixture(autouse=True)
def one_cpu():
    """Keeps the test on a CPU, because each CPU has its own pools."""
    with on_cpus({1}):
        yield


@pytest.fixture
def file(path):
    """An open file with 64 slots. Closes the file at the end, and checks that no request is
    kept."""
    with SlotFile(path, 64) as found:
        assert found.info().max_held == smqsg.attr(path, "depth") // 2
        yield found
    smqsg.idle(path)
    assert idle_requests(path) == 0


def check_idle(path: str, way: str, commands: int) -> None:
    """Checks how many requests are idle after runs in one of WAYS. If the commands were sent one by
    one, some of them may have ended before the next one was sent, and used the same request."""
    idle = idle_requests(path)
    assert 1 <= idle <= commands if way == "alone" else idle == commands, (way, idle)


# Data.

@pytest.mark.smoke
@pytest.mark.parametrize("way", WAYS)
def test_kept_requests_move_the_right_data(file, way):
    """Idle requests write and read the right data, even after the slots were prepared with other
    commands."""
    rand, area, count = random.Random(way), Memory(64 * BLOCK), 16
    out, into, check = slice(0, count * BLOCK), slice(32 * BLOCK, 48 * BLOCK), 48
    assert file.lend(0, area) == 0
    with Ring() as ring:
        for shift in (0, 100, 0, 200):
            base = NUMBERED_BLOCKS + shift
            file.prepare([*(write(base + at, offset=at * BLOCK) for at in range(count)),
                          *(read(base + at, offset=(32 + at) * BLOCK) for at in range(count)),
                          # A slot that reads any of the written blocks.
                          read(0, offset=check * BLOCK)])
            for _ in range(3):
                area[out], area[into] = rand.randbytes(count * BLOCK), bytes(count * BLOCK)
                run_slots(file, ring, way, range(count))
                run_slots(file, ring, way, range(count, 2 * count))
                assert area[into] == area[out]
                check_idle(file.path, way, count)
                at = rand.randrange(count)
                run_slots(file, ring, way, [run_of(2 * count, flags=RUN_LBA, lba=base + at)])
                assert area[check * BLOCK:][:BLOCK] == area[at * BLOCK:][:BLOCK]


@pytest.mark.smoke
@pytest.mark.parametrize("way", WAYS)
def test_each_write_has_its_own_lba_and_buffer(file, way):
    """Each WRITE writes its own run's buffer to its own run's LBA, with the same idle request.
    test_mixed_runs_move_the_right_data has READs."""
    area, other = Memory(16 * PAGE), Memory(16 * PAGE)
    assert file.lend(0, area) == 0 and file.lend(1, other) == 0
    with Ring() as ring:
        file.prepare([write(NUMBERED_BLOCKS), read(NUMBERED_BLOCKS, 8, offset=8 * PAGE)])
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


def read32(lba: int, byte10: int) -> bytes:
    """Returns the CDB of a READ (32) of one block."""
    raw = bytearray(32)
    raw[0], raw[7], raw[9], raw[10] = 0x7f, 24, 9, byte10
    raw[12:20], raw[20:24], raw[28:32] = (value.to_bytes(size, "big") for value, size in (
        (lba, 8), (lba, 4), (1, 4)))
    return bytes(raw)


@QUEUED
@pytest.mark.parametrize("dif", (1, 2))
def test_command_with_protection_information(path, dif):
    """Each CDB that a device of protection type @dif takes has the same result as through sg, and a
    later run without protection information has, too, with the same request."""
    assert path     # The fixture has loaded smq_sg.
    wants = (0, 1 << 5, 5 << 5)
    raws = [(want, cdb.blocks(opcode, 3, 1, want)) for want in wants
            for opcode in (cdb.READ_10, cdb.READ_12, cdb.READ_16)] if dif == 1 else [
                (want, read32(3, want)) for want in wants]
    with loaded("scsi_debug", dif=dif, dix=1, delay=0, dev_size_mb=8) as (host,):
        lun, = host.wait_luns(1)
        left_alone(lun)
        data, good = random.Random(dif).randbytes(BLOCK), 0
        with open(lun.sd, "r+b", buffering=0) as disk:
            assert disk.seek(3 * BLOCK) and disk.write(data) == BLOCK
            os.fsync(disk.fileno())
        with SlotFile(smqsg.node(lun), 1) as file, sgio.SgDev(lun.sg) as plain:
            memory = Memory(PAGE)
            assert file.lend(0, memory) == 0
            for want, raw in [*raws, *reversed(raws)]:
                file.prepare([command(raw, IN, BLOCK)])
                for _ in range(2):
                    memory[:] = bytes(PAGE)
                    got, other = file.run_one(0), plain.cmd(raw, BLOCK)
                    assert got.result & 0xff == other.status
                    assert got.triple == (other.triple or (0, 0, 0))
                    assert got.result or memory[:BLOCK] == other.data == data
                    assert idle_requests(file.path) == (not got.result), (want, raw.hex())
                good += not got.result and bool(want)
        assert good


def test_slots_read_the_right_data_while_their_task_migrates(file):
    """Slots read the right data while their task moves between CPUs."""
    area = Memory(64 * BLOCK)
    assert file.lend(0, area) == 0
    file.prepare([read(slot, offset=slot * BLOCK) for slot in range(64)])
    assert len(ALL_CPUS) > 1
    rand = random.Random(0)
    with Ring() as ring:
        for _ in range(repeats(60)):
            os.sched_setaffinity(0, {rand.choice(sorted(ALL_CPUS))})
            some = rand.sample(range(64), 24)
            area[:] = bytes(area.size)
            run_slots(file, ring, rand.choice(WAYS), some)
            assert area[:] == b"".join(numbered_blocks(slot) if slot in some else bytes(BLOCK)
                                       for slot in range(64))


class Mixed:
    """Slots that read data in one, two and three pieces of memory: slot N reads from block N on."""

    def __init__(self, file: SlotFile):
        self.file, self.areas = file, [OnePage(4 * PAGE), OnePage(4 * PAGE)]
        assert [file.lend(at, area) for at, area in enumerate(self.areas)] == [0, 0]
        # A slot's data begins in the middle of a page, so it is in one piece more than it has
        # whole pages.
        self.counts = [1 + at % 3 * PAGE // BLOCK for at in range(24)]
        file.prepare([read(at, count, offset=PAGE - BLOCK)
                      for at, count in enumerate(self.counts)])

    def run(self, rand: random.Random, runner) -> None:
        """Runs a slot by @runner, perhaps with another LBA or buffer, and checks its data."""
        slot = rand.randrange(len(self.counts))
        lba, buffer = rand.choice((0, 100 + rand.randrange(1000))), rand.choice((0, 1))
        flags = (RUN_LBA if lba else 0) | (RUN_BUFFER if buffer else 0)
        for area in self.areas:
            ctypes.memset(area.address, 0, PAGE)
        runner([run_of(slot, buffer, flags, lba)])
        # All pages are the same one, so it has the last data that was read into each place.
        count, want = self.counts[slot], bytearray(PAGE)
        for at in range(count):
            place = (PAGE - BLOCK + at * BLOCK) % PAGE
            want[place:place + BLOCK] = numbered_blocks((lba or slot) + at)
        assert ctypes.string_at(self.areas[buffer].address, PAGE) == want, (slot, lba, buffer)
        assert ctypes.string_at(self.areas[not buffer].address, PAGE) == bytes(PAGE)
        assert self.file.status(slot).resid == 0


@pytest.mark.smoke
def test_mixed_runs_move_the_right_data(path):
    """Runs right after one another, each in another way, of another size or to another place, all
    use the same few requests and read the right data."""
    rand = random.Random(path)
    with SlotFile(path, 64) as file, Ring() as ring:
        mixed = Mixed(file)
        for _ in range(repeats(200)):
            way = rand.choice(WAYS)
            mixed.run(rand, lambda runs, way=way: run_slots(file, ring, way, runs))
        # One for runs alone, and one for batches.
        assert idle_requests(path) == 2


@pytest.mark.smoke
@QUEUED
def test_polled_runs_and_others_move_the_right_data(path):
    """Polled runs and others use the same commands of the pool, but each kind needs a request of
    its own kind of hardware queue."""
    rand = random.Random(5)
    with SlotFile(path, 64) as file, Ring() as ring, Ring(flags=SETUP_IOPOLL) as polled:
        mixed = Mixed(file)
        for _ in range(repeats(200)):
            way, where = rand.choice(("alone", "batch")), rand.choice((ring, polled))
            mixed.run(rand, lambda runs, way=way, where=where: run_slots(file, where, way, runs))
        assert idle_requests(path) == 2


# Status.

@pytest.mark.smoke
@pytest.mark.parametrize("way", WAYS)
def test_good_run_after_a_failed_one_has_no_sense(file, way):
    """After a run that ends with CHECK CONDITION no request is kept. The next GOOD run reports no
    sense data."""
    area = Memory(PAGE)
    assert file.lend(0, area) == 0
    file.prepare([read(5)])
    bad, runs = run_of(0, flags=RUN_LBA, lba=0x7fffffff), 0
    with Ring() as ring:
        for _ in range(3):
            for _ in range(2):
                area[:BLOCK] = bytes(BLOCK)
                run_slots(file, ring, way, [0])
                runs += 1
                status = file.status(0)
                assert (status.result, status.resid, status.runs) == (0, 0, runs)
                assert status.triple == (0, 0, 0) and status.sense == b""
                assert area[:BLOCK] == numbered_blocks(5) and idle_requests(file.path) == 1
            with pytest.raises(AssertionError):
                run_slots(file, ring, way, [bad])
            runs += 1
            status = file.status(0)
            assert status.triple == (sgio.ILLEGAL_REQUEST, 0x21, 0) and status.sense
            assert status.runs == runs and idle_requests(file.path) == 0


# How many requests are kept.

@pytest.mark.smoke
def test_requests_are_kept_for_as_many_commands_as_were_in_flight(path):
    """A short batch keeps a request for each of its commands; a long one, which uses the commands
    of single runs, for as many as were in flight at a time; single runs one after the other use
    only one."""
    with opened(path, 64) as file, Ring() as ring:
        for _ in range(3):
            for slot in range(8):
                run_slots(file, ring, "alone", [slot])
            assert idle_requests(path) == 1
        for way in ("batch", "ioctl"):
            run_slots(file, ring, way, range(SHORT))
            assert idle_requests(path) == 1 + SHORT
    with opened(path, 64) as file:
        for _ in range(2):
            assert file.run(range(64)) == (0, 0)
            assert 1 <= idle_requests(path) <= smqsg.attr(path, "depth") // 2


@QUEUED
@pytest.mark.smoke
def test_pool_share_limits_idle_requests(path, klog):
    """pool_share, also named held_share, is 0 to 100 percent of the depth. When it is lowered,
    requests above the new share are given back at once."""
    depth = smqsg.attr(path, "depth")
    for name in ("pool_share", "held_share"):
        knob = smqsg.CLASS / Path(path).name / name
        assert smqsg.attr(path, name) == 50
        for bad, why in (("101", errno.EINVAL), ("-1", errno.EINVAL), ("x", errno.EINVAL),
                         ("4294967296", errno.ERANGE)):
            with pytest.raises(OSError) as error:
                knob.write_text(bad, encoding="ascii")
            assert error.value.errno == why, bad
        assert smqsg.attr(path, name) == 50
    klog.wait("pool_share is no number in 0..100")
    with opened(path, SHORT) as file, pool_share(path, 100):
        fill_pool(file, SHORT)
        assert smqsg.attr(path, "held") == SHORT
        for percent in (20, 10, 1, 0):
            knob.write_text(str(percent), encoding="ascii")
            most = depth * percent // 100
            assert most < SHORT and idle_requests(path) <= most
            assert file.info().max_held == most
            assert file.run(range(SHORT)) == (0, 0)
            assert idle_requests(path) == most
            assert file.memory[:] == numbered_blocks(0, SHORT)
        knob.write_text("100", encoding="ascii")
        fill_pool(file, SHORT)
    assert idle_requests(path) == 0


@QUEUED
def test_flag_and_share_of_held_slots_have_no_effect(path):
    """Programs that ask for held slots get what all get: the flag and each held_share up to 100 are
    accepted, and change nothing."""
    with SlotFile(path) as none:
        assert none.setup(slots=8, held_share=101) == errno.EINVAL
        assert none.field == Field.HELD_SHARE
        assert none.info().max_held == 0
    for share in (0, 1, 30, 100):
        for flags in (0, HELD):
            with opened(path, SHORT, flags, held_share=share) as file:
                assert file.info().max_held == smqsg.attr(path, "depth") // 2
                fill_pool(file, SHORT)
                assert file.memory[:] == numbered_blocks(0, SHORT)


@QUEUED
def test_files_share_the_requests_of_their_node(path):
    """All files of a node that keep requests share those that the node may keep: when a second file
    keeps requests, the first file gives back the second file's share."""
    depth = smqsg.attr(path, "depth")
    most = depth * 25 // 100
    assert most <= SHORT
    with pool_share(path, 25), opened(path, most) as first:
        assert first.info().max_held == most
        fill_pool(first, most)
        with opened(path, most) as second:
            # A file that keeps nothing takes no share from the others.
            assert [one.info().max_held for one in (first, second)] == [most, most // 2]

            def shared():
                assert first.run(range(most)) == second.run(range(most)) == (0, 0)
                limits = [one.info().max_held for one in (first, second)]
                return limits == [most // 2] * 2 and idle_requests(path) == most // 2 * 2
            wait_for("equal shares", shared)
            for _ in range(3):
                assert shared()
        assert idle_requests(path) <= most // 2 and first.info().max_held == most
        fill_pool(first, most)


@QUEUED
def test_unused_requests_are_given_back(path):
    """A request that no command has used for a second is given back; one in use is kept."""
    with opened(path, 16) as file:
        fill_pool(file, 16)

        def only_two():
            assert file.run(range(2)) == (0, 0)
            return idle_requests(path) == 2
        wait_for("14 requests to be given back", only_two)
        wait_for("all requests to be given back", lambda: idle_requests(path) == 0)
        fill_pool(file, 16)


def test_unknown_slot_flags_are_refused(file):
    """Unknown flags are refused, and the slot is unchanged."""
    area = Memory(PAGE)
    assert file.lend(0, area) == 0
    file.prepare([read(3, flags=HELD)])
    for flags in (2, HELD | 2, 4, 1 << 31):
        assert file.try_prepare([read(9, flags=flags)]) == (errno.EINVAL, 0)
        assert file.field == Field.FLAGS
    assert file.run_one(0).result == 0 and area[:BLOCK] == numbered_blocks(3)
    # A command without data, whose opcode has no LBA, uses the same request.
    file.prepare([command(cdb.plain(cdb.TEST_UNIT_READY))], 1)
    for _ in range(3):
        assert file.run_one(1).result == 0 and idle_requests(file.path) == 1
