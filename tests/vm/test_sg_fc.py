# SPDX-License-Identifier: GPL-2.0
# on: 7.2
# not on uml: needs Fibre Channel
# not on sanitize: Fibre Channel is not in that kernel
"""smq_sg on a Fibre Channel LUN: data, depth, a link that bounces, and a link that is lost.

Results of commands are compared with those of sg's commands that are sent at the same time.
"""
import errno
import mmap
import os
import random
import threading
import time
from contextlib import ExitStack, contextmanager

import pytest
from kit import cdb, sgheader, sgio, smqsg
from kit.host import run, wait_for
from kit.paths import PIECE, SECONDS, by_batch, by_ioctl, by_ring, compare_paths, write_by_sg
from kit.sgheader import V3, Arena
from kit.sgio import DID_ERROR, DID_NO_CONNECT, DID_OK, DID_TRANSPORT_DISRUPTED
from kit.slots import BLOCK, Memory, SlotFile, read
from kit.softfc import need, soft_fc
from kit.uring import Ring

# libfc sets each LUN's queue_depth to this.
DEPTH = 32
# The number of commands: twice the depth. The data of each takes 16 frames.
PIECES = 2 * DEPTH
# The first block of the data. It lies behind the blocks that the partition scan reads, because the
# scan must find no partitions.
FIRST = 64
# How often, at most, a test tries to see the whole depth in use.
TRIES = 5

pytestmark = pytest.mark.limit(3 * SECONDS)


def host_byte(result):
    """Returns the host byte of a slot's result. All other bits of the result must be 0."""
    assert result >= 0 and not result & ~0xff00, f"result {result:#x}"
    return result >> 8


@pytest.fixture(scope="module")
def link():
    """The link to the FC LUN."""
    need()
    with smqsg.module(), soft_fc() as found:
        smqsg.clear_attentions(found.lun().sg)
        yield found


@pytest.fixture(scope="module")
def data(link):
    """Writes data to the disk by sg, from block FIRST on, and returns it. The data stays on the
    disk when nodes are removed."""
    known = random.Random(0).randbytes(PIECES * PIECE)
    with sgio.SgDev(link.lun().sg) as plain:
        write_by_sg(plain, FIRST, known)
    return known


# Data and depth.

@pytest.mark.parametrize("blocks, ways", (
    (1, (by_ring, by_batch, by_ioctl)),
    pytest.param(5, (by_ring, by_batch), marks=pytest.mark.smoke),
    (33, (by_ioctl,)), (64, (by_ring,))), ids=("1", "5", "33", "64"))
def test_transfers_of_one_and_several_frames_are_right(fc, blocks, ways):
    """Transfers of one frame and of several frames are right, although the last frame is not full.
    The test sends more commands than the depth."""
    count, rand = DEPTH + 8, random.Random(blocks)
    behind = FIRST + PIECES * PIECE // BLOCK
    start = rand.randrange(behind + 1, fc.blocks - count * blocks - 1)
    compare_paths(fc.lun(), start, blocks, count, ways, rand)


def test_sg_inq_prints_the_same_as_for_sg(fc):
    """sg_inq, by SG_IO, prints the same for smq_sg's node as for sg's node."""
    lun = fc.lun()
    said = [run("sg_inq", path).stdout.replace(path, "NODE")
            for path in (lun.sg, smqsg.node(lun))]
    assert said[0] == said[1] and "LIO-ORG" in said[0]


@contextmanager
def readers(lun, known):
    """Yields a file whose slots each read one piece of @known from the disk."""
    with SlotFile(smqsg.node(lun), PIECES) as file:
        file.memory = Memory(len(known))
        assert file.lend(0, file.memory) == 0
        file.prepare([read(FIRST + at * PIECE // BLOCK, PIECE // BLOCK, offset=at * PIECE)
                      for at in range(PIECES)])
        yield file


def blank(file):
    """Clears the memory that slots read into."""
    file.memory[:] = bytes(file.memory.size)


def compare(file, known, slots=range(PIECES)):
    """Checks that @slots have read their pieces of @known."""
    for slot in slots:
        part = slice(slot * PIECE, (slot + 1) * PIECE)
        assert file.memory[part] == known[part], slot


def push_all(file, ring, slots=range(PIECES)):
    """Sends slots by SQEs."""
    for slot in slots:
        file.push(ring, slot)
    ring.submit()


def ended(ring, slots=range(PIECES)):
    """Returns the results of slots sent by SQEs. Each of @slots must end once, and no other slot
    may end."""
    got = ring.wait(len(slots), SECONDS)
    assert sorted(slot for slot, _ in got) == list(slots)
    assert not ring.reap()
    return dict(got)


def works(file, known):
    """Checks that all slots can be run and read the right data."""
    blank(file)
    assert file.run(range(PIECES)) == (0, 0)
    compare(file, known)


def busy(lun):
    """The number of commands in flight, as the mid-layer counts them."""
    return int((lun.sysfs / "device_busy").read_text(encoding="ascii"))


def in_flight(lun, commands):
    """Waits until @commands are in flight, as the mid-layer counts them."""
    wait_for(f"{commands} commands in flight", lambda: busy(lun) == commands)


@pytest.mark.parametrize("depth", (DEPTH, 5))
def test_depth_is_used_and_not_exceeded(fc, data, depth):
    """As many commands are in flight as the LUN's depth allows, and never more. The depth is the
    one that libfc sets, or one set by sysfs."""
    lun = fc.lun()
    assert int((lun.sysfs / "queue_depth").read_text(encoding="ascii")) == DEPTH
    with smqsg.depth(lun, depth), readers(lun, data) as file, Ring() as ring, fc.slow(100):
        assert file.info().depth == depth
        for _ in range(TRIES):
            blank(file)
            push_all(file, ring)
            got, seen, end = [], [], time.monotonic() + SECONDS
            while len(got) < PIECES:
                assert time.monotonic() < end, f"{len(got)} of {PIECES}"
                seen.append((smqsg.attr(file.path, "inflight"), busy(lun)))
                got += ring.reap()
            most = [max(column) for column in zip(*seen, strict=True)]
            assert sorted(got) == [(slot, 0) for slot in range(PIECES)]
            compare(file, data)
            assert max(most) <= depth, most
            if most == [depth, depth]:
                break
        else:
            pytest.fail(f"depth {depth}: at most {most}")


# A link that comes and goes.

class Plain:
    """Sends READs by write() and read() of sg. With O_NONBLOCK no call waits."""

    def __init__(self, path, count=4):
        self._path, self._count = path, count
        self._room = [Arena(PIECE + 2 * mmap.PAGESIZE) for _ in range(count)]
        self._want = V3(cdb.blocks(cdb.READ_10, FIRST, PIECE // BLOCK), PIECE)
        self._fd = -1

    def __enter__(self):
        self._fd = os.open(self._path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        return self

    def __exit__(self, *exc):
        os.close(self._fd)

    def send(self):
        """Sends all READs."""
        for room in self._room:
            assert sgheader.write(self._fd, self._want, room) == 0

    def hosts(self):
        """Waits until all READs have ended. Returns the set of their host bytes."""
        found = []

        def all_back():
            answer = sgheader.read(self._fd, self._want, self._room[0])
            if answer.error != errno.EAGAIN:
                assert not answer.error and not answer.fields["status"], answer
                found.append(answer.fields["host_status"])
            return len(found) == self._count
        wait_for("sg's READs", all_back, SECONDS)
        return set(found)


def test_commands_wait_for_a_blocked_port(fc, data):
    """Commands that are sent while the port is blocked wait until it is back. Meanwhile their file
    may be closed."""
    lun = fc.lun()
    with readers(lun, data) as file, Ring() as ring, Plain(lun.sg) as plain:
        works(file, data)
        blank(file)
        fc.down()
        push_all(file, ring)
        plain.send()
        with readers(lun, data) as other, Ring() as other_ring:
            other.push_batch(other_ring, range(8), 100)
            other_ring.submit()
        assert smqsg.attr(file.path, "inflight") == DEPTH
        assert smqsg.attr(file.path, "waiting") > 0
        assert not ring.reap() and fc.port_state() == "Blocked"
        fc.up()
        assert set(ended(ring).values()) == {0}
        compare(file, data)
        assert plain.hosts() == {DID_OK}
        works(file, data)
        # The commands of the closed file have ended, too.
        smqsg.idle(file.path)
        assert [file.status(slot).runs for slot in range(PIECES)] == [3] * PIECES
        assert file.info().depth == DEPTH


@pytest.mark.smoke
def test_commands_in_flight_end_like_those_of_sg_when_the_link_bounces(fc, data):
    """Commands in flight have the same results as sg's commands; waiting commands run when the
    link is up again."""
    lun, first = fc.lun(), DEPTH // 2
    with readers(lun, data) as file, Ring() as ring, Plain(lun.sg, 8) as plain:
        blank(file)
        with fc.silent():
            push_all(file, ring, range(first))
            in_flight(lun, first)
            plain.send()
            in_flight(lun, first + 8)
            push_all(file, ring, range(first, PIECES))
            in_flight(lun, DEPTH)
            fc.down()
        fc.up()
        got = {slot: host_byte(res) for slot, res in ended(ring).items()}
        assert [file.status(slot).runs for slot in range(PIECES)] == [1] * PIECES
        assert plain.hosts() == {DID_TRANSPORT_DISRUPTED}
        assert sorted(got.values()) == [DID_OK] * (PIECES - DEPTH + 8) + [
            DID_TRANSPORT_DISRUPTED] * (DEPTH - 8)
        compare(file, data, [slot for slot in got if got[slot] == DID_OK])
        assert file.info().depth == DEPTH
        works(file, data)
    smqsg.idle(file.path)


def sg_io_errno(path_fd):
    """Returns the errno of SG_IO on an open node, or 0."""
    return sgheader.sg_io(path_fd, V3(cdb.plain(cdb.TEST_UNIT_READY)), Arena(4 << 12)).error


@pytest.mark.parametrize("when", ("idle", "reads"))
def test_commands_fail_after_fast_io_fail(fc, data, when):
    """When fast_io_fail_tmo has expired, I/O no longer waits for the port: queued commands have the
    same results as sg's commands. Slots work again when the port is back."""
    lun = fc.lun()
    fc.set_loss_timeouts(fast_io_fail=1)
    with readers(lun, data) as file, Ring() as ring, Plain(lun.sg) as plain, \
            smqsg.opened(lun.sg, file.path) as fds:
        if when == "idle":
            fc.down()
            push_all(file, ring)
            plain.send()
        else:
            with fc.silent():
                push_all(file, ring)
                in_flight(lun, DEPTH)
                plain.send()
                fc.down()
        got = sorted(host_byte(res) for res in ended(ring).values())
        # The commands that were not in flight have not been sent. Neither have sg's commands.
        lost = DEPTH if when == "reads" else 0
        assert got == [DID_NO_CONNECT] * (PIECES - lost) + [DID_TRANSPORT_DISRUPTED] * lost
        assert plain.hosts() == {DID_NO_CONNECT}
        assert [file.status(slot).runs for slot in range(PIECES)] == [1] * PIECES
        # From now on commands fail at once.
        wait_for("the LUN offline", lambda: (lun.sysfs / "state").read_text(
            encoding="ascii").strip() == "transport-offline", SECONDS)
        assert file.run(range(PIECES)) == (0, PIECES)
        assert {host_byte(file.status(slot).result) for slot in range(PIECES)} == {DID_NO_CONNECT}
        plain.send()
        assert plain.hosts() == {DID_NO_CONNECT}
        assert [sg_io_errno(fd) for fd in fds] == [errno.ENXIO] * 2
        fc.up()
        works(file, data)
        assert [sg_io_errno(fd) for fd in fds] == [0, 0]
    smqsg.idle(file.path)


@pytest.mark.parametrize("when, fast_io_fail", (("idle", 1), ("reads", None)),
                         ids=("idle", "reads"))
def test_all_commands_end_when_the_lun_is_lost(fc, data, when, fast_io_fail):
    """When the link is lost for good and the LUN is removed, all commands end, and the node's open
    files get ENODEV. When the link comes back, there is a new LUN."""
    lun = fc.lun()
    fc.set_loss_timeouts(dev_loss=2, fast_io_fail=fast_io_fail)
    with readers(lun, data) as file, readers(lun, data) as other, Ring() as ring, \
            smqsg.opened(lun.sg, file.path) as fds:
        told = []
        caller = threading.Thread(target=lambda: told.append(other.run(range(PIECES))),
                                  daemon=True)
        with ExitStack() as stack:
            if when == "reads":
                stack.enter_context(fc.silent())
                push_all(file, ring, range(PIECES - 8))
                file.push_batch(ring, range(PIECES - 8, PIECES), 1000)
                ring.submit()
                in_flight(lun, DEPTH)
                caller.start()
            fc.down()
        wait_for("the LUN to disappear", lambda: not lun.sysfs.exists(), SECONDS)
        if when == "reads":
            got = dict(ring.wait(PIECES - 8 + 1, SECONDS))
            assert sorted(got) == [*range(PIECES - 8), 1000] and not ring.reap()
            caller.join(SECONDS)
            assert told and told[0][0] == 0, told
            ends = [[file.status(slot).result for slot in range(PIECES)],
                    [other.status(slot).result for slot in range(PIECES)]]
            assert ends[0][:-8] == [got[slot] for slot in range(PIECES - 8)]
            assert got[1000] == sum(end != 0 for end in ends[0][-8:])
            assert told[0][1] == sum(end != 0 for end in ends[1])
            # The disrupted commands were in flight. The others were queued, were sent during
            # the removal of the LUN, or waited until it was removed.
            disrupted = [end for end in ends[0] if end == DID_TRANSPORT_DISRUPTED << 8]
            assert len(disrupted) == DEPTH, ends
            others = {DID_NO_CONNECT << 8, DID_ERROR << 8, -errno.ENODEV}
            assert set(ends[0] + ends[1]) - others == set(disrupted), ends
        dead(file, fds)
        new = fc.up()
        # The old file still returns ENODEV when the new node exists.
        dead(file, fds)
        assert smqsg.node(new) != file.path
        with readers(new, data) as again:
            works(again, data)
            assert again.info().depth == DEPTH
    smqsg.idle(smqsg.node(new))


def dead(file, fds):
    """Checks that each operation on @file, whose device was removed, fails with ENODEV. The same
    holds for @fds: open files of the nodes of sg and smq_sg."""
    def gone():
        # The LUN disappears from sysfs before its queue is removed. In between, the removal of the
        # disk freezes the queue for a moment: a command gets ENODEV then, too, but later commands
        # may be accepted again. So one ENODEV is not enough.
        for _ in range(5):
            if file.run([0]) != (0, 1) or file.status(0).result != -errno.ENODEV:
                return False
            time.sleep(0.05)
        return True
    wait_for("the removal of the queue", gone)
    assert file.run(range(PIECES)) == (0, PIECES)
    assert {file.status(slot).result for slot in range(PIECES)} == {-errno.ENODEV}
    with Ring() as ring:
        push_all(file, ring)
        assert set(ended(ring).values()) == {-errno.ENODEV}
    assert file.info().slots == PIECES
    # SG_IO, read() and write() fail as on sg's node.
    assert [sg_io_errno(fd) for fd in fds] == [errno.ENODEV] * 2
    want, room = V3(cdb.plain(cdb.TEST_UNIT_READY)), Arena(4 << 12)
    assert [sgheader.read(fd, want, room).error for fd in fds] == [errno.ENODEV] * 2
    assert [sgheader.write(fd, want, room) for fd in fds] == [errno.ENODEV] * 2
    with pytest.raises(OSError) as refused:
        SlotFile(file.path).close()
    assert refused.value.errno in (errno.ENOENT, errno.ENXIO)
