# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize
"""smq_conv: attach and detach of a host on which one LUN has a command that takes long."""
import errno
import mmap
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit import conv
from kit.attach import attach, attached, detach, in_place, name
from kit.host import KernelLog, loaded, wait_for
from kit.sanitizing import TIME_FACTOR
from kit.sgio import DID_TIME_OUT, SgDev

pytestmark = pytest.mark.limit(120)
PSEUDO = Path("/sys/bus/pseudo/drivers/scsi_debug")
TRACING = Path("/sys/kernel/tracing")
# A bit of scsi_debug's opts: it never ends a command.
LOSE = 4
READ = bytes.fromhex("28000000000000000800")


@pytest.fixture(name="host")
def host_fixture():
    """A host of scsi_debug with two LUNs, while smq_conv is loaded."""
    with loaded("scsi_debug", names=("add_host", "max_luns"), luns=2, io_errors=True, ndelay=20_000,
                dev_size_mb=16) as (host,), conv.module(io_errors=True):
        yield host


@contextmanager
def long_command(host, seconds):
    """A command of the second LUN that the device does not end; it times out."""
    conv.write(PSEUDO / "opts", LOSE)
    with SgDev(host.luns()[1].sg) as sg, ThreadPoolExecutor(1) as pool:
        before = conv.dispatched(host.luns()[1])
        conv.write(PSEUDO / "every_nth", 1)
        job = pool.submit(sg.cmd, READ, din=4096, timeout_ms=int(seconds * 1000))
        wait_for("the command", lambda: conv.dispatched(host.luns()[1]) > before)
        conv.write(PSEUDO / "every_nth", 0)
        conv.write(PSEUDO / "opts", 0)
        yield job
        assert job.result().host == DID_TIME_OUT


class Reader(threading.Thread):
    """Reads all the time, and measures the longest time between the ends of two reads."""

    def __init__(self, disk):
        super().__init__()
        self._disk = disk
        self._ends = False
        self.longest = 0.0

    def run(self):
        fd = os.open(self._disk, os.O_RDONLY | os.O_DIRECT)
        page = mmap.mmap(-1, 4096)
        last = time.monotonic()
        while not self._ends:
            os.preadv(fd, [page], 0)
            now = time.monotonic()
            self.longest = max(self.longest, now - last)
            last = now
        os.close(fd)

    def take(self):
        """The longest time since the last call, in seconds."""
        found, self.longest = self.longest, 0.0
        return found

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exc):
        self._ends = True
        self.join()


@pytest.mark.parametrize("change", [attach, detach])
def test_other_luns_go_on(host, change):
    """While attach or detach waits for a command of one LUN, another LUN goes on: no read takes
    100 ms longer than before. After 20 s the call fails, and the log says what was in the way. When
    the command has ended, it succeeds."""
    if change is detach:
        attach(host)
    with long_command(host, 35 * TIME_FACTOR), Reader(host.luns()[0].sd) as reader:
        time.sleep(4)
        before = reader.take()
        start = time.monotonic()
        with KernelLog() as log:
            with pytest.raises(OSError) as error:
                change(host)
            took = time.monotonic() - start
            # A read that had to wait has to end, to be counted.
            time.sleep(1)
            longest = reader.take()
            assert error.value.errno == errno.EBUSY and 15 < took < 30 * TIME_FACTOR
            assert longest < before + 0.1, f"{longest:.3f} s, before that {before:.3f} s"
            said = log.matching(f"^smq_conv: {change.__name__}: {name(host)}: "
                                r"0:0:1 has command 0x28 with tag \d+ for \d+ ms$")
            assert len(said) == 1, log.tail()
    change(host)
    assert (name(host) in attached()) == (change is attach)
    if change is attach:
        detach(host)


def test_no_claim_while_a_host_is_being_attached(host):
    """An attach waits for a command of one LUN; meanwhile another LUN cannot be claimed."""
    with long_command(host, 8), ThreadPoolExecutor(1) as pool:
        job = pool.submit(attach, host)
        time.sleep(2)
        assert not job.done()
        with pytest.raises(OSError) as error:
            conv.ask("claim", host.luns()[0].address)
        assert error.value.errno == errno.EBUSY
        job.result()
    assert name(host) in attached() and not conv.uppers()
    detach(host)


@contextmanager
def event(which):
    """A trace event, enabled."""
    if not (TRACING / "events").exists():
        os.system(f"mount -t tracefs none {TRACING}")
    conv.write(TRACING / "events" / which / "enable", 1)
    try:
        yield
    finally:
        conv.write(TRACING / "events" / which / "enable", 0)


def test_locks_while_queues_are_frozen(host):
    """With lockdep: attach and detach take no lock in whose holders' way memory reclaim may be. The
    tracing code's own lock is one: lockdep learns this when an event is enabled. The kernel log has
    no report, as conv.module() checks."""
    for _ in range(2):
        with event("block/block_rq_issue"), in_place(host):
            pass
