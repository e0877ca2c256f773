# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 6.12 7.2
"""write(), read() and poll() on /dev/smqsgN, with headers of interface 3."""
import ctypes
import errno
import fcntl
import os
import select
import signal
import struct
import threading
import time

import pytest
from kit import cdb, sgheader, sgio, smqsg
from kit.host import loaded, run, wait_for
from kit.sgheader import V3, Arena

SET_FORCE_PACK_ID, GET_PACK_ID, GET_NUM_WAITING = 0x227b, 0x227c, 0x227d
GET_REQUEST_TABLE, SET_COMMAND_Q, GET_COMMAND_Q = 0x2286, 0x2271, 0x2270
ROW = struct.Struct("bbbbiQIi")
INQUIRY = cdb.inquiry(96)
TUR = cdb.plain(cdb.TEST_UNIT_READY)
# How many commands of one file may have results that have not been read.
MAX_UNREAD = 1024


@pytest.fixture(scope="module")
def lun():
    """A disk of scsi_debug, with smq_sg."""
    with smqsg.module(), loaded("scsi_debug", io_errors=True, dev_size_mb=16, delay=0) as hosts:
        found = hosts[0].luns()[0]
        smqsg.clear_attentions(found.sg)
        yield found


@pytest.fixture(scope="module")
def arena():
    """Memory for headers, CDBs, sense and data."""
    return Arena(64 << 10)


@pytest.fixture
def pair(lun):
    """Descriptors of sg and smqsg."""
    with smqsg.opened(lun.sg, smqsg.node(lun)) as fds:
        yield fds


@pytest.fixture
def node(lun):
    """A descriptor of smqsg. After the test, waits until no command is in flight."""
    with smqsg.opened(smqsg.node(lun)) as fds:
        yield fds[0]
    smqsg.idle(smqsg.node(lun))


@pytest.fixture
def slow(lun):
    """During the test, commands that move data take half a second."""
    with smqsg.slow(0.5):
        yield
        smqsg.idle(smqsg.node(lun))


def read_cmd(pack_id: int = 0, lba: int = 0) -> V3:
    """A READ of one block."""
    return V3(cdb.blocks(cdb.READ_10, lba, 1), 512, pack_id=pack_id)


def number(fd: int, request: int) -> int:
    """The int that an ioctl returns in its argument."""
    return struct.unpack("i", fcntl.ioctl(fd, request, bytes(4)))[0]


def put(fd: int, request: int, value: int) -> None:
    """Calls an ioctl that takes an int."""
    fcntl.ioctl(fd, request, struct.pack("i", value))


def polled(fd: int, seconds: float = 0) -> int:
    """The events that poll() returns."""
    poll = select.poll()
    poll.register(fd, select.POLLIN | select.POLLOUT)
    events = poll.poll(seconds * 1000)
    return events[0][1] if events else 0


def readable(fd: int, seconds: float = 10) -> bool:
    """Returns true if poll() reports a result within @seconds."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


HEADERS = {
    "plain": V3(INQUIRY, 96, pack_id=5, usr_ptr=0x77),
    "odd": V3(INQUIRY, 95, at=1),
    "check-condition": V3(cdb.blocks(cdb.READ_10, 1 << 30, 1), 512),
    "write": V3(cdb.blocks(cdb.WRITE_10, 8, 8), dout=bytes(range(256)) * 16),
    "none": V3(TUR),
    "iovec": V3(cdb.blocks(cdb.READ_10, 8, 8), 4096, pieces=(512, 3584)),
    "interface-T": V3(INQUIRY, 96, interface=ord("T")),
    "cdb-0": V3(INQUIRY, 96, cmd_len=0),
    "cdb-33": V3(INQUIRY, 96, cmd_len=33),
    "cdb-null": V3(INQUIRY, 96, null=("cmdp",)),
    "cdb-bad": V3(INQUIRY, 96, bad=("cmdp",)),
    "data-null": V3(INQUIRY, 96, null=("dxferp",)),
    "data-bad-write": V3(cdb.blocks(cdb.WRITE_10, 8, 8), dout=bytes(4096), bad=("dxferp",)),
    "bad-sense": V3(cdb.blocks(cdb.READ_10, 1 << 30, 1), 512, bad=("sbp",)),
    "length-256M": V3(INQUIRY, 96, length=1 << 28),
    "length-4G": V3(INQUIRY, 96, length=(1 << 32) - 1),
}


@pytest.mark.smoke
@pytest.mark.parametrize("name", HEADERS)
def test_results_are_the_same_as_with_sg(pair, arena, name):
    """write() and read() return the same on smq_sg's node as on sg's."""
    want = HEADERS[name]
    answers = []
    for fd in pair:
        error = sgheader.write(fd, want, arena)
        answers.append(error or (readable(fd), sgheader.read(fd, want, arena)))
        assert number(fd, GET_NUM_WAITING) == 0
    assert answers[1] == answers[0]


def test_short_write_fails_as_with_sg(pair, arena):
    """A write() of any length that is shorter than a header fails as it does on sg's node."""
    full = ctypes.sizeof(sgio.SgIoHdr)
    for size in range(full):
        theirs, ours = (sgheader.write(fd, V3(TUR), arena, short=full - size) for fd in pair)
        assert ours == theirs, f"{size} bytes"


def test_older_headers_are_refused(node):
    """A write() of a header of interface 1 or 2 fails with ENOSYS, as with a header of an unknown
    interface."""
    header = struct.pack("iii", 0, 36 + 96, 1).ljust(36, b"\0") + INQUIRY
    with pytest.raises(OSError) as caught:
        os.write(node, header)
    assert caught.value.errno == errno.ENOSYS


def test_read_waits_for_a_result(node, arena):
    """If there is no result, read() fails with EAGAIN if O_NONBLOCK is set. Otherwise it waits, and
    a signal ends the wait; but if there has been no write() it fails with ENODATA."""
    os.set_blocking(node, False)
    assert sgheader.read(node, V3(TUR), arena).error == errno.EAGAIN
    os.set_blocking(node, True)
    assert polled(node) == select.POLLOUT
    assert sgheader.read(node, V3(TUR), arena).error == errno.ENODATA
    assert not sgheader.write(node, V3(TUR), arena)
    assert not sgheader.read(node, V3(TUR), arena).error

    def interrupt(_number, _frame):
        raise InterruptedError
    before = signal.signal(signal.SIGUSR1, interrupt)
    me = threading.main_thread().ident
    threading.Timer(0.3, signal.pthread_kill, (me, signal.SIGUSR1)).start()
    with pytest.raises(InterruptedError):
        os.read(node, 88)
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("program", (
    "sg_dd if={} of=/dev/null bs=512 count=8", "sgm_dd if={} of=/dev/null bs=512 count=8",
    "sgp_dd if={} of=/dev/null bs=512 count=8", "sg_read if={} bs=512 count=8",
    "dd if={} of=/dev/null bs=512 count=8 status=none"), ids=lambda program: program.split()[0])
def test_programs_that_read_the_node_as_a_file_end(lun, program):
    """Programs that do not recognise the node, and read() it without a write(), end instead of
    waiting for ever. All but sgm_dd report an error."""
    done = run(*program.format(smqsg.node(lun)).split(), ok=False, limit=30)
    assert done.returncode != 0 or program.startswith("sgm_dd")


def test_short_read_keeps_the_result(node, arena):
    """A read() with a short buffer fails, and a later read() still gets the result."""
    want = V3(INQUIRY, 96, pack_id=9)
    assert not sgheader.write(node, want, arena)
    assert readable(node)
    for size in (1, 36, 87):
        assert sgheader.read(node, want, arena, size=size).error == errno.EINVAL
    assert sgheader.read(node, want, arena).fields["pack_id"] == 9


@pytest.mark.smoke
def test_read_returns_results_by_pack_id(node, arena):
    """With SG_SET_FORCE_PACK_ID read() returns the result of one pack_id, otherwise the oldest
    result."""
    for pack_id in range(40):
        assert not sgheader.write(node, read_cmd(pack_id), arena)
    wait_for("40 results", lambda: number(node, GET_NUM_WAITING) == 40)
    first = number(node, GET_PACK_ID)
    assert 0 <= first < 40
    put(node, SET_FORCE_PACK_ID, 1)
    os.set_blocking(node, False)
    for pack_id in (39, 7, 8, 6):
        assert sgheader.read(node, read_cmd(), arena, pack_id).fields["pack_id"] == pack_id
        assert sgheader.read(node, read_cmd(), arena, pack_id).error == errno.EAGAIN
    assert sgheader.read(node, read_cmd(), arena, 40).error == errno.EAGAIN
    put(node, SET_FORCE_PACK_ID, 0)
    rest = [sgheader.read(node, read_cmd(), arena, 99).fields["pack_id"] for _ in range(36)]
    assert rest == sorted(set(range(40)) - {39, 7, 8, 6})
    assert number(node, GET_PACK_ID) == -1


def test_read_for_a_pack_id_waits(node, arena, slow):
    """A read() for one pack_id waits for that result."""
    put(node, SET_FORCE_PACK_ID, 1)
    assert not sgheader.write(node, V3(TUR, pack_id=1), arena)
    assert not sgheader.write(node, read_cmd(2), arena)
    began = time.monotonic()
    assert sgheader.read(node, read_cmd(), arena, 2).fields["pack_id"] == 2
    assert time.monotonic() - began > 0.2
    assert sgheader.read(node, V3(TUR), arena, 1).fields["pack_id"] == 1


def test_request_table_shows_all_commands(node, arena, slow):
    """SG_GET_REQUEST_TABLE shows commands in flight and commands that have ended."""
    assert not sgheader.write(node, V3(INQUIRY, 96, pack_id=3, usr_ptr=0x33), arena)
    assert not sgheader.write(node, V3(cdb.blocks(cdb.READ_10, 1 << 30, 1), 512, pack_id=4), arena)
    assert not sgheader.write(node, read_cmd(5), arena)
    for _ in range(2):
        table = fcntl.ioctl(node, GET_REQUEST_TABLE, bytes(16 * ROW.size))
        rows = [row for row in ROW.iter_unpack(table) if row[0]]
        assert [row[4] for row in rows] == [3, 4, 5] and rows[0][5] == 0x33
        if rows[2][0] == 1:
            assert polled(node) & select.POLLOUT
        wait_for("3 results", lambda: number(node, GET_NUM_WAITING) == 3)
    assert [row[0] for row in rows] == [2, 2, 2]
    assert [row[3] for row in rows] == [0, 1, 0]
    assert rows[2][6] >= 400


@pytest.mark.smoke
@pytest.mark.limit(120)
def test_the_largest_number_of_unread_results(node, arena):
    """write() fails with EDOM while 1024 results wait to be read. Meanwhile poll() does not report
    POLLOUT."""
    for pack_id in range(MAX_UNREAD):
        assert not sgheader.write(node, V3(TUR, pack_id=pack_id), arena)
    assert polled(node, 5) == select.POLLIN
    assert sgheader.write(node, V3(TUR), arena) == errno.EDOM
    assert sgheader.sg_io(node, V3(TUR), arena).error == errno.EDOM
    assert sgheader.read(node, V3(TUR), arena).fields["pack_id"] == 0
    assert polled(node, 5) == select.POLLIN | select.POLLOUT
    assert not sgheader.write(node, V3(TUR, pack_id=MAX_UNREAD), arena)
    for pack_id in range(1, MAX_UNREAD + 1):
        assert sgheader.read(node, V3(TUR), arena).fields["pack_id"] == pack_id


def test_command_q_stays_until_a_header_of_interface_3(pair, arena):
    """The value of SG_SET_COMMAND_Q stays until a header of interface 3 is written."""
    for fd in pair:
        put(fd, SET_COMMAND_Q, 0)
        assert number(fd, GET_COMMAND_Q) == 0
        assert not sgheader.write(fd, V3(TUR), arena)
        assert number(fd, GET_COMMAND_Q) == 1
        assert readable(fd)
        sgheader.read(fd, V3(TUR), arena)


@pytest.mark.smoke
@pytest.mark.limit(120)
def test_depth_is_not_exceeded(lun, node, arena, slow):
    """The device's depth is not exceeded. Without room a nonblocking write() fails, and poll()
    shows when there is room again."""
    path = smqsg.node(lun)
    with smqsg.depth(lun, 4):
        os.set_blocking(node, False)
        for pack_id in range(4):
            assert not sgheader.write(node, read_cmd(pack_id), arena)
        assert smqsg.attr(path, "inflight") == 4
        refused = smqsg.attr(path, "refused")
        assert sgheader.write(node, read_cmd(4), arena) == errno.EAGAIN
        assert smqsg.attr(path, "refused") == refused + 1
        assert polled(node) == 0
        assert polled(node, 5)
        wait_for("4 results", lambda: number(node, GET_NUM_WAITING) == 4)
        assert polled(node) == select.POLLIN | select.POLLOUT
        # A blocking write() waits for a place; the depth is never exceeded.
        os.set_blocking(node, True)
        most = 0
        for pack_id in range(4, 14):
            assert not sgheader.write(node, read_cmd(pack_id), arena)
            most = max(most, smqsg.attr(path, "inflight"))
        assert most == 4
        wait_for("14 results", lambda: number(node, GET_NUM_WAITING) == 14)


def test_write_waits_for_a_place_of_another_file(lun, node, arena, slow):
    """While another file has all places, a write() waits for a place, even with O_NONBLOCK."""
    with smqsg.depth(lun, 1), smqsg.opened(smqsg.node(lun)) as (other,):
        assert not sgheader.write(other, read_cmd(), arena)
        os.set_blocking(node, False)
        began = time.monotonic()
        assert not sgheader.write(node, read_cmd(1), arena)
        assert time.monotonic() - began > 0.2
        assert readable(node)


@pytest.mark.smoke
def test_sigio_reports_a_result(node, arena):
    """With O_ASYNC the process gets a signal when a result can be read."""
    caught = []
    before = signal.signal(signal.SIGIO, lambda *_: caught.append(1))
    fcntl.fcntl(node, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(node, fcntl.F_SETFL, fcntl.fcntl(node, fcntl.F_GETFL) | os.O_ASYNC)
    assert not sgheader.write(node, V3(TUR), arena)
    wait_for("SIGIO", lambda: caught)
    signal.signal(signal.SIGIO, before)


def test_two_readers_get_one_result_each(node, arena, slow):
    """If two readers wait, each gets one of two results."""
    got = []
    # The readers may be first: read() waits only after a write().
    assert not sgheader.write(node, V3(TUR), arena)
    assert not sgheader.read(node, V3(TUR), arena).error

    def fetch():
        got.append(sgheader.read(node, V3(cdb.plain(0)), Arena(8192)).fields["pack_id"])
    threads = [threading.Thread(target=fetch) for _ in range(2)]
    for thread in threads:
        thread.start()
    for pack_id in (1, 2):
        assert not sgheader.write(node, read_cmd(pack_id), arena)
    for thread in threads:
        thread.join(20)
    assert sorted(got) == [1, 2]


@pytest.mark.smoke
@pytest.mark.limit(120)
def test_close_does_not_wait_for_commands(lun, arena, slow):
    """close() with commands in flight and unread results does not wait; the commands end later."""
    path, took = smqsg.node(lun), []
    for _ in range(3):
        with smqsg.opened(path) as (fd,):
            for pack_id in range(16):
                assert not sgheader.write(fd, read_cmd(pack_id), arena)
            for pack_id in range(16):
                assert not sgheader.write(fd, V3(INQUIRY, 95, pack_id=pack_id, at=1), arena)
            assert smqsg.attr(path, "inflight") >= 16
            began = time.monotonic()
        took.append(time.monotonic() - began)
        wait_for("the commands to end", lambda: not smqsg.attr(path, "inflight"))
    # A busy machine delays some of them.
    assert min(took) < 0.3, took


def test_buffers_of_a_closed_file_are_not_written(lun, arena, slow):
    """After close() smq_sg does not copy a command's data to the command's buffer: the program may
    already use that memory for something else."""
    odd = V3(cdb.blocks(cdb.READ_10, 0, 1), 511, at=1)
    with smqsg.opened(smqsg.node(lun)) as (fd,):
        assert not sgheader.write(fd, odd, arena)
    buffer = arena.address + 4096 + 1
    arena.put(buffer, b"\x5a" * 511)
    smqsg.idle(smqsg.node(lun))
    time.sleep(0.2)
    assert set(arena.get(buffer, 511)) == {0x5a}
