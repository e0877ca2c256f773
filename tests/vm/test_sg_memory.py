# SPDX-License-Identifier: GPL-2.0
# on: sanitize
# not on uml: 20 of 22 tests skip: no userfaultfd (CONFIG_USERFAULTFD)
"""/dev/smqsgN: the caller's memory. A command whose memory does not come takes nothing from others,
and waiting commands pin a limited number of pages."""
import ctypes
import errno
import fcntl
import mmap
import os
import resource
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from kit import cdb, sgio, smqsg
from kit.adhoc import push_adhoc
from kit.child import as_nobody, become_nobody, ended, spawn
from kit.memory import PAGE, Memory
from kit.missing import Missing
from kit.sgheader import SgIoV4
from kit.slots import BLOCK, SlotFile
from kit.slowdisk import DEPTH
from kit.uring import SETUP_CQE32, SETUP_SQE128, Ring

SMALL, LARGE = BLOCK, 64 << 10
pytestmark = pytest.mark.usefixtures("sg_module")


def header(raw: bytes, address: int, size: int, out: bool) -> sgio.SgIoHdr:
    """A header of interface 3. @raw must live until the command has ended."""
    way = sgio.DXFER_TO_DEV if out else sgio.DXFER_FROM_DEV
    return sgio.SgIoHdr(interface_id=ord("S"), dxfer_direction=way, cmd_len=len(raw),
                        dxfer_len=size, dxferp=address, cmdp=ctypes.addressof(raw), timeout=60000)


def by_v3(fd: int, raw, address: int, size: int, out: bool) -> int:
    """SG_IO, interface 3."""
    hdr = header(raw, address, size, out)
    fcntl.ioctl(fd, sgio.SG_IO, hdr)
    return hdr.status or hdr.host_status


def by_v4(fd: int, raw, address: int, size: int, out: bool) -> int:
    """SG_IO, interface 4."""
    hdr = SgIoV4(guard=ord("Q"), request_len=len(raw), request=ctypes.addressof(raw),
                 timeout=60000)
    way = "dout" if out else "din"
    setattr(hdr, f"{way}_xfer_len", size)
    setattr(hdr, f"{way}_xferp", address)
    fcntl.ioctl(fd, sgio.SG_IO, hdr)
    return hdr.device_status or hdr.transport_status


def by_write(fd: int, raw, address: int, size: int, out: bool) -> int:
    """write() and read()."""
    hdr = header(raw, address, size, out)
    os.write(fd, bytes(hdr))
    os.readv(fd, [memoryview(hdr).cast("B")])
    return hdr.status or hdr.host_status


def by_adhoc(fd: int, raw, address: int, size: int, out: bool) -> int:
    """An ad hoc command."""
    with Ring(4, SETUP_SQE128 | SETUP_CQE32) as ring:
        kept = push_adhoc(ring, fd, raw.raw, 0, SimpleNamespace(address=address), 0, size, out=out)
        ring.submit()
        (_, res), = ring.wait(1)
        del kept
        if res < 0:
            raise OSError(-res, "ad hoc")
        return ring.more[0] & 0xffff


WAYS = {"v3": by_v3, "v4": by_v4, "write": by_write, "adhoc": by_adhoc}


@contextmanager
def stuck(path: str, way, size: int, out: bool):
    """During the block as many callers as the queue is deep sleep for their data. Yields their
    memory, and a function that returns how each one's command ended: its status, or its errno
    below 0."""
    def call(number: int) -> int:
        raw = ctypes.create_string_buffer(
            cdb.blocks(cdb.WRITE_10 if out else cdb.READ_10, 0, size // BLOCK), 10)
        with smqsg.opened(path) as (fd,):
            try:
                return way(fd, raw, memory.address + number * LARGE, size, out)
            except OSError as error:
                return -error.errno
    with ThreadPoolExecutor(DEPTH) as pool, Missing(DEPTH * LARGE) as memory:
        calls = [pool.submit(call, number) for number in range(DEPTH)]
        memory.wait_asleep(DEPTH)
        yield memory, lambda: [one.result(30) for one in calls]


def inquiry(path: str) -> int:
    """An INQUIRY of another user. Returns its errno."""
    def work():
        with sgio.SgDev(path) as dev:
            return dev.cmd(cdb.inquiry(96), din=96, timeout_ms=5000).status
    return as_nobody(work)


def in_time(work, *args) -> None:
    """Runs @work(@args) in another process, which must end."""
    assert ended(spawn(lambda: bool(work(*args)) * 0), 30) == 0


def block_read(lun) -> None:
    """Reads from the disk, past the page cache."""
    fd = os.open(lun.sd, os.O_RDONLY | os.O_DIRECT)
    assert os.preadv(fd, [mmap.mmap(-1, PAGE)], 0) == PAGE


def freeze(lun) -> None:
    """Freezes the queue, by a change of its elevator."""
    knob = lun.queue / "scheduler"
    for name in ("none", "mq-deadline"):
        knob.write_text(name, encoding="ascii")


@pytest.fixture
def disk(device):
    """A disk that every user may open."""
    os.chmod(device.path, 0o666)
    return device


@pytest.mark.parametrize("out", (False, True), ids=("in", "out"))
@pytest.mark.parametrize("size", (SMALL, LARGE), ids=("small", "large"))
@pytest.mark.parametrize("way", WAYS)
def test_memory_that_does_not_come(disk, way, size, out):
    """Callers whose memory does not come keep neither place nor tag: another user's command ends,
    block I/O ends, the queue can be frozen. When the memory comes, their commands are sent."""
    with stuck(disk.path, WAYS[way], size, out) as (memory, results):
        assert inquiry(disk.path) == 0
        in_time(block_read, disk.lun)
        in_time(freeze, disk.lun)
        assert smqsg.attr(disk.path, "inflight") == 0
        memory.come()
        assert results() == [0] * DEPTH


@pytest.mark.parametrize("way", WAYS)
def test_device_removed_while_memory_does_not_come(disk, way):
    """A device can be removed while callers' memory does not come; their commands then fail."""
    with stuck(disk.path, WAYS[way], SMALL, False) as (memory, results):
        in_time((disk.lun.sysfs / "delete").write_text, "1")
        memory.come()
        assert 0 not in results()


def submit(ring: Ring, fd: int, total: int) -> list[tuple[int, int]]:
    """Submits this many READs of two pages, which are not copied; returns the completions so
    far."""
    size = 2 * PAGE
    area, ends = Memory(size), []
    for first in range(0, total, ring.entries):
        kept = [push_adhoc(ring, fd, cdb.blocks(cdb.READ_10, 0, size // BLOCK), number, area, 0,
                           size) for number in range(first, first + ring.entries)]
        ring.submit()
        ends += ring.reap()
        del kept
    return ends


@pytest.mark.limit(200)
@pytest.mark.parametrize("locked", (0, 64), ids=("max_waiting", "memlock"))
def test_waiting_commands_pin_few_pages(disk, locked):
    """However many ad hoc commands a program submits, only max_waiting of them wait, or as many as
    RLIMIT_MEMLOCK allows. So only these and those in flight have pinned pages. The others end with
    EAGAIN."""
    total, (ready, notify) = 10 * 1024, os.pipe()
    with SlotFile(disk.path) as file:
        most = file.info().max_waiting
    if locked:
        # Each counts as three pages: its data might not begin where a page begins.
        most = locked // 3

    def work():
        if locked:
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (locked * PAGE,) * 2)
        with SlotFile(disk.path) as file, Ring(512, SETUP_SQE128 | SETUP_CQE32) as ring:
            if locked:
                become_nobody()
            ends = submit(ring, file.fd, total)
            os.write(notify, b"x")
            ends += ring.wait(total - len(ends), 60)
            assert {res for _, res in ends} == {0, -errno.EAGAIN}
        return 0
    disk.slow()
    pid = spawn(work)
    assert os.read(ready, 1) == b"x"
    waiting = smqsg.attr(disk.path, "waiting")
    disk.slow(0)
    assert ended(pid, 60) == 0
    # Some may have been sent since the last one was submitted.
    assert most // 2 <= waiting <= most
    os.close(ready)
    os.close(notify)
