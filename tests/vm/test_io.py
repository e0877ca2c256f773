# SPDX-License-Identifier: GPL-2.0
# on: core uml sanitize 6.12 7.2
"""Block I/O with fio, every byte verified: one queue, several, polled, many LUNs."""
import subprocess
import threading
from contextlib import contextmanager

import pytest
from kit.host import fio, load, loaded, settle, unload, wait_for

VERIFY = {"rw": "randwrite", "bssplit": "512/20:4k/50:12k/10:64k/20", "blockalign": 512,
          "size": "4m", "offset_increment": "8m", "numjobs": 4, "iodepth": 32,
          "verify": "crc32c", "verify_fatal": 1, "ioengine": "io_uring"}


@pytest.mark.parametrize("params", [
    {"hw_queues": 1}, pytest.param({}, marks=pytest.mark.smoke), {"sector_size": 4096}],
    ids=["one-queue", "queues", "sector-4096"])
def test_fio_verify(params):
    """Four jobs write random blocks of several sizes, read them back and verify them."""
    size = params.get("sector_size", 512)
    job = VERIFY | ({} if size == 512 else {"bssplit": "4k/60:12k/20:64k/20",
                                            "blockalign": size})
    with loaded("smq_ram", size_mb=64, **params) as hosts:
        # Some commands of sd's probe fail; their number differs between kernels.
        probed = settle(hosts[0])
        fio(hosts[0].luns()[0].sd, **job)
        assert settle(hosts[0])["errors"] == probed["errors"]


@pytest.mark.smoke
def test_fio_verify_polled():
    """Four jobs with polled I/O write, read and verify blocks through poll queues."""
    with loaded("smq_ram", size_mb=64, poll_queues=2) as hosts:
        fio(hosts[0].luns()[0].sd, **VERIFY, hipri=True)
        stats = settle(hosts[0])
        rows = [row for row in hosts[0].hwqs() if row["type"] == "poll"]
        # Each poll queue has completed commands, and some of these were found by a poll.
        assert all(row["done"] for row in rows)
        done = sum(row["done"] for row in rows)
        assert 0 < stats["polled"] <= done
        assert stats["timeouts"] == 0


def test_many_luns_at_once():
    """16 LUNs under load together."""
    with loaded("smq_ram", luns=16, size_mb=4) as hosts:
        names = ":".join(lun.sd for lun in hosts[0].luns())
        fio(names, rw="randwrite", bs="4k", size="4m", ioengine="io_uring", iodepth=32,
            verify="crc32c")
        assert settle(hosts[0])["timeouts"] == 0


def test_write_at_the_end_of_a_tebibyte():
    """Block I/O at the end of 1 TiB."""
    with loaded("smq_ram", size_mb=1 << 20) as hosts:
        fio(hosts[0].luns()[0].sd, rw="randwrite", bs="4k", size="1m",
            offset=(1 << 40) - (1 << 20), ioengine="io_uring", iodepth=8, verify="crc32c")


def _meminfo(name: str) -> int:
    """A value of /proc/meminfo, in KiB."""
    with open("/proc/meminfo", encoding="ascii") as entry:
        return next(int(line.split()[1]) for line in entry if line.startswith(name + ":"))


def _set_reserve(kilobytes: int) -> None:
    with open("/proc/sys/vm/min_free_kbytes", "w", encoding="ascii") as entry:
        entry.write(str(kilobytes))


def _shake_reserve(stop: threading.Event) -> None:
    """Repeatedly sets the reserve above the free memory. Then an allocation that must not wait
    fails until the kernel has reclaimed enough of the page cache."""
    while not stop.is_set():
        _set_reserve(min(_meminfo("MemFree") + (64 << 10), _meminfo("MemAvailable") * 3 // 4))
        stop.wait(0.1)
        _set_reserve(16 << 10)
        for _ in range(20):             # until the reader has filled memory again
            if _meminfo("MemFree") < 128 << 10 or stop.wait(0.05):
                break


@contextmanager
def _page_cache_pressure():
    """Keeps memory full of clean page cache, so that allocations succeed, but only after a wait."""
    with open("/proc/sys/vm/min_free_kbytes", encoding="ascii") as entry:
        before = int(entry.read())
    load("null_blk", nr_devices=1, gb=250)
    stop = threading.Event()
    shaker = threading.Thread(target=_shake_reserve, args=(stop,))
    try:
        with subprocess.Popen(["dd", "if=/dev/nullb0", "of=/dev/null", "bs=1M"],
                              stderr=subprocess.DEVNULL) as reader:
            try:
                wait_for("memory full of page cache", lambda: _meminfo("MemFree") < 128 << 10, 60)
                shaker.start()
                yield
            finally:
                stop.set()
                reader.kill()
    finally:
        if shaker.ident:
            shaker.join()
        _set_reserve(before)
        unload("null_blk")


@pytest.mark.limit(120)
def test_holes_under_memory_pressure():
    """A WRITE to a hole for which no memory is free at once goes to the worker, which fills the
    hole with the right data."""
    with loaded("smq_ram", size_mb=160) as hosts:
        before = settle(hosts[0])
        with _page_cache_pressure():
            fio(hosts[0].luns()[0].sd, rw="write", bs="16k", size="16m", offset_increment="16m",
                numjobs=3, ioengine="io_uring", iodepth=8, verify="crc32c", verify_fatal=1,
                rate_iops=250)
        after = settle(hosts[0])
        assert after["deferred"] > before["deferred"], "memory was never short"
        assert after["timeouts"] == 0
