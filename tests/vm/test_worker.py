# SPDX-License-Identifier: GPL-2.0
# not on uml: from 6.6 on commands do not wait for a busy worker
# not on sanitize: as on uml
"""Commands that wait for the worker, and how error handling takes them back from it."""
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from kit import cdb
from kit.fiojob import load_on
from kit.host import settle, wait_for
from kit.ramdir import ram_host
from kit.sgio import DID_TIME_OUT, SgDev
from kit.trace import traced

WRITES = 20
# For how long earlier commands keep the worker busy. Meanwhile the timers of later commands (1 s,
# checked once a second) expire, and all aborts run, one after the other.
BUSY_SECONDS = 4
READS = {"ioengine": "libaio", "rw": "randread", "bs": 4096, "iodepth": 64, "time_based": True,
         "runtime": 600}


def on_cpu(cpu, node, *args, **more):
    """Sends a command from a CPU. If the command is deferred, that CPU's worker executes it."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        with SgDev(node) as dev:
            return dev.cmd(*args, **more)
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def busy_worker(pool, host, lun):
    """Keeps CPU 1's worker busy: the worker compares all blocks of a LUN with one block, again and
    again."""
    verify = on_cpu, 1, lun.sg, cdb.blocks(cdb.VERIFY_16, 0, 256 << 11, byte1=6)
    start = time.monotonic()
    assert pool.submit(*verify, dout=bytes(512)).result().good
    # One more than needed, because one may end while the others are sent.
    count = 2 + int(BUSY_SECONDS / (time.monotonic() - start))
    sent = []

    def all_in_flight():
        """On a busy machine some VERIFYs end before the last is sent: sends others for them."""
        ended = sum(verified.done() for verified in sent)
        sent.extend(pool.submit(*verify, dout=bytes(512), timeout_ms=60000)
                    for _ in range(count + ended - len(sent)))
        return host.stats()["inflight"] >= count - 1
    wait_for("VERIFYs", all_in_flight)
    yield
    assert all(verified.result().good for verified in sent)


@pytest.mark.parametrize("fails", [False, True], ids=["abort", "reset"])
def test_writes_that_wait_for_memory_give_their_room_back(fails):
    with ram_host(hw_queues=1) as (host_dir, host), ThreadPoolExecutor(64) as pool:
        host_dir.add_lun(1, size_mb=256)
        disk, big = host.wait_luns(2)
        # Clear the unit attention that reports the new LUN.
        on_cpu(0, disk.sg, cdb.plain(cdb.TEST_UNIT_READY))
        # From now on commands take room in the ring. It has room for 64, so the host refuses none.
        host_dir.set("model/hwq_depth", 64)
        with traced() as trace:
            with busy_worker(pool, host, big):
                host_dir.set("fault/fail_abort", -int(fails))
                host_dir.arm("no_memory", delay_ms=0, count=WRITES)
                writes = [pool.submit(on_cpu, 1, disk.sg, cdb.blocks(cdb.WRITE_10, 8 * at, 8),
                                      dout=bytes(4096), timeout_ms=1000)
                          for at in range(WRITES)]
                assert {write.result().host for write in writes} == {DID_TIME_OUT}
            stats = settle(host)
        trace.check_once()
        assert stats["aborts"] == WRITES and stats["lun_resets"] == int(fails)
        assert stats["target_resets"] == stats["host_resets"] == 0
        host_dir.set("model/hwq_depth", 2 * WRITES)
        host_dir.set("model/service_ns", 20000000)
        with load_on(disk.sd, **READS):
            wait_for("a full ring", lambda: host.stats()["inflight"] == 2 * WRITES)
