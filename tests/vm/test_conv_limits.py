# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 7.2
"""smq_conv: limits of the lower queue that change while its device is claimed.

smq_quiesce changes them, as mpi3mr and usb-storage do. The mid-layer's trace shows which commands
reach the lower LLD.
"""
import mmap
import os
import re
import time
from pathlib import Path

import pytest
from kit import conv, smqsg
from kit.conv import claim, release
from kit.fiojob import fio, load_on
from kit.host import load, loaded, under_way, unload, wait_for
from kit.sgio import DID_ERROR, SgDev
from kit.trace import TRACING, enabled, recording

KNOB = Path("/sys/module/smq_quiesce/parameters/limits")
STARTS = "scsi/scsi_dispatch_cmd_start"
START = re.compile(r"scsi_dispatch_cmd_start: host_no=(\d+) .* data_sgl=(\d+) .*txlen=(\d+)")
PAGE, SECTOR = 4096, 512
MAX_SEGMENT = 0xffffffff
READ_256 = bytes.fromhex("28000000000000010000")


@pytest.fixture(name="lower")
def lower_fixture(request):
    """A LUN of scsi_debug, with smq_conv and smq_quiesce loaded. The test's parameter has further
    parameters for scsi_debug."""
    params = {"delay": 0, "dev_size_mb": 32} | getattr(request, "param", {})
    with loaded("scsi_debug", **params) as (host,), conv.module(io_errors=True):
        load("smq_quiesce")
        try:
            yield host.luns()[0]
        finally:
            unload("smq_quiesce")


def set_limits(lower, sectors=0, segments=0, boundary=0, size=MAX_SEGMENT):
    """Sets the limits of the lower queue; limits that are not given become large."""
    KNOB.write_text(f"{lower.address} {sectors or 2048} {segments or 128} {size} {boundary}",
                    encoding="ascii")


def attr(lun, name):
    """A limit of a disk's queue, as a number."""
    return int((lun.queue / name).read_text(encoding="ascii"))


def commands(lines, lower):
    """The sectors, and the entries of the scatterlist, of each command that reached the lower
    host."""
    number = int(lower.address.partition(":")[0])
    found = [(int(hit[3]), int(hit[2])) for hit in map(START.search, lines)
             if hit and int(hit[1]) == number]
    assert found
    return found


def largest(lines, lower):
    """The most sectors, and the most entries of a scatterlist, of commands()."""
    return tuple(map(max, zip(*commands(lines, lower), strict=True)))


def transfer(upper, size=PAGE, count=64):
    """Writes pieces of memory by one system call, and reads them back; returns whether the data is
    the same. Each piece begins at a page, and no two of these pages are neighbours."""
    fd = os.open(upper.sd, os.O_RDWR | os.O_DIRECT)
    areas, back = ([mmap.mmap(-1, 2 * PAGE) for _ in range(count)] for _ in range(2))
    try:
        for area in areas:
            area[:size] = os.urandom(size)
        views = [memoryview(area)[:size] for area in areas]
        into = [memoryview(area)[:size] for area in back]
        assert os.pwritev(fd, views, 0) == os.preadv(fd, into, 0) == count * size
        same = all(bytes(one) == bytes(two) for one, two in zip(views, into, strict=True))
        for view in (*views, *into):
            view.release()
        return same
    finally:
        os.close(fd)


@pytest.mark.smoke
@pytest.mark.parametrize("what", ["sectors", "segments", "boundary"])
def test_too_large_block_io_is_split(lower, what):
    """smq_conv splits block I/O that was built with the old limits, and the data stays right. The
    upper queue takes over the new limits, and later takes over larger ones."""
    changes = {"sectors": {"sectors": 64}, "segments": {"segments": 5},
               "boundary": {"boundary": PAGE - 1}}
    upper = claim(lower)
    whole = attr(upper, "max_hw_sectors_kb")
    with recording(STARTS) as lines:
        set_limits(lower, **changes[what])
        # With this boundary a command may have a second segment only if the first segment ends at
        # the end of a page.
        assert transfer(upper, SECTOR if what == "boundary" else PAGE)
    sectors, segments = largest(lines, lower)
    print(f"{what}: {sectors} sectors, {segments} entries at most")
    assert what != "sectors" or sectors == 64
    assert what != "segments" or segments == 5
    assert what != "boundary" or segments == 1
    name, value = {"sectors": ("max_hw_sectors_kb", 32), "segments": ("max_segments", 5),
                   "boundary": ("virt_boundary_mask", PAGE - 1)}[what]
    wait_for("the limit to follow", lambda: attr(upper, name) == value)
    assert transfer(upper)
    conv.all_done(upper)
    set_limits(lower, whole * 2)
    fio(upper.sd, rw="read", bs=4096, number_ios=1, size="1m")
    wait_for("the limit to follow", lambda: attr(upper, "max_hw_sectors_kb") == whole)
    lower = release(lower)
    assert attr(lower, "max_hw_sectors_kb") == whole


def test_too_large_passthrough_fails(lower, klog):
    """A passthrough command beyond the limits ends with DID_ERROR and does not reach the lower
    device; the log says why."""
    upper = claim(lower)
    with SgDev(upper.sg) as sg:
        assert sg.cmd(READ_256, din=256 * SECTOR).good
        set_limits(lower, sectors=64)
        before = conv.dispatched(lower)
        assert sg.cmd(READ_256, din=256 * SECTOR).host == DID_ERROR
        assert conv.dispatched(lower) == before
        klog.wait("is beyond the lower device.s limits")
        wait_for("the limit to follow", lambda: attr(upper, "max_hw_sectors_kb") == 32)
    release(lower)


# With clustering a segment may be longer than a page.
@pytest.mark.not_uml("it has no huge pages")
@pytest.mark.parametrize("lower", [{"clustering": 1}], indirect=True, ids=[""])
def test_smaller_segments_while_requests_wait(lower):
    """The segments of the lower queue become smaller while requests that were built for larger
    ones wait in the upper queue. They have no room for more segments."""
    upper = claim(lower)
    whole = attr(upper, "max_hw_sectors_kb")
    Path("/proc/sys/vm/nr_hugepages").write_text("8", encoding="ascii")
    load_options = {"ioengine": "io_uring", "rw": "randread", "bs": "512k", "iodepth": 4,
                    "size": "8m", "loops": 1000, "iomem": "shmhuge"}
    with enabled(STARTS), smqsg.depth(lower, 1), smqsg.slow(0.01), \
            load_on(upper.sd, **load_options) as job:
        for _ in range(2):
            with recording(STARTS) as lines:
                # In the second round the requests of 64 KiB end first.
                under_way(upper, 40)
                set_limits(lower, size=65536)
                (TRACING / "trace_marker").write_text("smaller", encoding="ascii")
                under_way(upper, 60)
            at, = (number for number, line in enumerate(lines) if line.endswith(": smaller"))
            # The first commands may be those that the lower queue had, which were not checked.
            assert all(sectors <= entries * 65536 // SECTOR
                       for sectors, entries in commands(lines[at:], lower)[20:])
            wait_for("the limit to follow", lambda: attr(upper, "max_hw_sectors_kb") == 64)
            # After a second smq_conv checks no command while the limits stay as they are. In the
            # next round they become small again less than a second after they became larger.
            time.sleep(1.5)
            set_limits(lower, whole * 2)
            wait_for("the limit to follow", lambda: attr(upper, "max_hw_sectors_kb") == whole)
        assert job.running
    conv.all_done(upper)
    release(lower)


@pytest.mark.limit(120)
def test_limits_change_under_verified_load(lower):
    """Limits shrink and grow under verified writes of all sizes. No I/O fails, and after a change
    no command that reaches the lower host exceeds the limits."""
    load_options = {"ioengine": "io_uring", "rw": "randwrite", "bsrange": "512-512k", "iodepth": 8,
                    "size": "8m", "verify": "crc32c", "verify_fatal": 1, "loops": 1000}
    upper = claim(lower)
    with enabled(STARTS), load_on(upper.sd, **load_options) as job:
        for sectors, segments in ((256, 128), (64, 16), (8, 2), (32, 128), (1024, 7), (16, 3)):
            set_limits(lower, sectors, segments)
            with recording(STARTS, buffer_kb=16384) as lines:
                under_way(upper, 300)
            found = largest(lines, lower)
            print(f"limits {sectors}, {segments}: {found}")
            assert found[0] <= sectors and found[1] <= segments
        assert job.running
    conv.all_done(upper)
    release(lower)
