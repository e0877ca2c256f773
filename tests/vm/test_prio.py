# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 7.2
"""The dispatch policy "prio": which commands go first on a full device or within a rate, and that
no waiting command is lost, however the wait ends.

Async writes are writes of the page cache for which no task waits: sync_file_range() starts them.
"""
import ctypes
import mmap
import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from kit.debugfs import depths, state
from kit.fiojob import fio
from kit.host import KernelLog, settle, wait_for
from kit.ramdir import ram_host
from kit.sanitizing import TIME_FACTOR
from kit.sgio import SG_SCSI_RESET_DEVICE, SgDev
from kit.trace import traced

MB = 10 ** 6
KIB, MIB = 1 << 10, 1 << 20
BLOCK = 4 * KIB
DEPTH = 4
# A comparison is repeated if the device was not full.
TRIES = 4
SYNC_FILE_RANGE_WRITE = 2
_LIBC = ctypes.CDLL(None, use_errno=True)
VERIFY = {"ioengine": "io_uring", "rw": "randwrite", "bs": BLOCK, "iodepth": 32, "size": "2m",
          "verify": "crc32c", "verify_fatal": 1}


def choose(host, policy, **knobs):
    """Sets a host's settings of prio, then the host's policy."""
    # These tests fill the device: with a learned depth it would not get full. See
    # test_inner_depth.py.
    for name, value in ({"ratio": 4, "bytes_per_sec": 0, "async_max_ms": 500, "learn": 0}
                        | knobs).items():
        (host.sysfs / "smq_prio" / name).write_text(str(value), encoding="ascii")
    (host.sysfs / "smq/policy").write_text(policy, encoding="ascii")


def wait_effective(host):
    """Waits until the policy is effective."""
    wait_for("an effective policy", lambda: state(host)["effective"] == "prio")


@pytest.fixture(scope="module", name="both")
def both_fixture():
    """Yields the configfs directory of a host, and the host. All tests use this host. The
    queue_depth of its LUN is DEPTH."""
    with ram_host(hw_queues=1) as (host_dir, host):
        lun = host.luns()[0]
        (lun.queue / "scheduler").write_text("none", encoding="ascii")
        # The kernel's own throttling would hold async writes before they reach a policy.
        if (lun.queue / "wbt_lat_usec").exists():
            (lun.queue / "wbt_lat_usec").write_text("0", encoding="ascii")
        (lun.sysfs / "queue_depth").write_text(str(DEPTH), encoding="ascii")
        yield host_dir, host


def limit_requests(lun, kib):
    """Limits the size of a LUN's requests. nomerges alone does not give one request per page,
    because some kernels write the page cache in large pieces."""
    (lun.queue / "max_sectors_kb").write_text(str(kib), encoding="ascii")


@pytest.fixture(name="host")
def host_fixture(both):
    """Yields the host. At the end restores its settings, and checks that no command has timed out
    and that none is held."""
    host_dir, host = both
    # A request of 1 MiB takes a tenth of a second at 10 MB/s. Newer kernels would send larger ones.
    limit_requests(host.luns()[0], 1024)
    before = settle(host)
    yield host
    host_dir.set("model/service_ns", 0)
    choose(host, "direct")
    after = settle(host)
    assert after["timeouts"] == before["timeouts"] and state(host)["held"] == 0


class Writer:
    """Sends async writes: writes for which no task waits."""

    def __init__(self, path):
        self.fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def dirty(self, size, at=0, byte=0x3c):
        """Writes data to the page cache."""
        os.pwrite(self.fd, bytes([byte]) * size, at)

    def start(self, size, at=0):
        """Starts the write to the disk; returns when the block layer has all of it."""
        if _LIBC.sync_file_range(self.fd, ctypes.c_long(at), ctypes.c_long(size),
                                 SYNC_FILE_RANGE_WRITE):
            raise OSError(ctypes.get_errno(), "sync_file_range")

    def wait(self):
        """Waits until all is written."""
        os.fsync(self.fd)

    def close(self):
        """Closes the file; the close waits for nothing."""
        os.close(self.fd)


@contextmanager
def writing(lun, size, merges=True, again=False):
    """Runs async writes of @size bytes during the block. With @again the writes are repeated until
    the block ends. Without @merges each page is a request."""
    writer, stop = Writer(lun.sd), []
    if not merges:
        limit_requests(lun, BLOCK // KIB)

    def work():
        writer.dirty(size)
        writer.start(size)
        while again and not stop:
            # A page that is still under writeback cannot be written again, so wait for a moment.
            time.sleep(0.002)
            writer.dirty(size)
            writer.start(size)
    try:
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(work)
            try:
                yield writer
            finally:
                stop.append(True)
            done.result(60)
        writer.wait()
    finally:
        writer.close()


@contextmanager
def direct_file(lun):
    """Yields write(at), which writes a block synchronously and returns how long that took, in
    seconds."""
    fd = os.open(lun.sd, os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
    with mmap.mmap(-1, BLOCK) as area:
        area[:] = b"\x5a" * BLOCK

        def write(at):
            began = time.monotonic()
            assert os.pwrite(fd, area, at) == BLOCK
            return time.monotonic() - began
        try:
            yield write
        finally:
            os.close(fd)


@pytest.mark.smoke
def test_bad_settings_are_refused(host):
    with KernelLog() as klog:
        for name, value, limits in (("ratio", 0, "1..64"), ("ratio", 65, "1..64"),
                                    ("bytes_per_sec", -1, "0..4294967295"),
                                    ("bytes_per_sec", "10M", "0..4294967295"),
                                    ("async_max_ms", 0, "1..60000")):
            with pytest.raises(OSError):
                choose(host, "prio", **{name: value})
            klog.wait(rf"smq_prio/{name}={value} is no number in {limits}")
    choose(host, "prio")
    assert host.policy() == "prio"
    wait_for("nothing to do", lambda: state(host)["effective"] == "direct")


def sync_writes(host, policy):
    """Returns how long sync writes take, in seconds, while async writes wait."""
    lun = host.luns()[0]
    choose(host, "direct")
    # If there were more than 96 requests, some would wait for a tag, and the policy would not see
    # them yet.
    with writing(lun, 96 * BLOCK, merges=False, again=True), direct_file(lun) as write:
        time.sleep(0.3)
        choose(host, policy)
        if policy == "prio":
            wait_effective(host)
            wait_for("a raised queue_depth", lambda: depths(host)[0] > DEPTH)
        time.sleep(0.3)
        return [write(32 * MIB + number * BLOCK) for number in range(15)]


@pytest.mark.smoke
@pytest.mark.not_uml("needs a full device, which programs do not keep full there")
def test_sync_writes_go_first(both, host):
    """A sync write waits for the four commands that the device has, but not for commands that wait
    themselves."""
    both[0].set("model/service_ns", 4000000)
    # On a busy machine the async writer may not keep the device full: then the comparison is
    # repeated.
    for _ in range(TRIES):
        took = {policy: sync_writes(host, policy) for policy in ("direct", "prio")}
        direct, prio = (statistics.median(took[policy]) for policy in ("direct", "prio"))
        print(f"direct {direct * 1000:.1f} ms, prio {prio * 1000:.1f} ms")
        if prio < direct / 3:
            return
    pytest.fail(f"{took}")


@pytest.mark.smoke
def test_bytes_per_second(host):
    """The rate applies to writes and to reads, and reads return the right data."""
    lun = host.luns()[0]
    choose(host, "prio", bytes_per_sec=8 * MB)
    wait_effective(host)
    # fio reports a lower rate, because its time includes the time that it takes to verify data and,
    # on a busy machine, for all its work. Then it is repeated.
    for _ in range(TRIES):
        job, = fio(lun.sd, **VERIFY | {"bs": "64k", "size": "8m"})["jobs"]
        rates = [job[kind]["bw_bytes"] for kind in ("write", "read")]
        print(rates)
        assert max(rates) < 8.4 * MB
        if rates[0] > 6 * MB and rates[1] > 5 * MB:
            break
    assert rates[0] > 6 * MB and rates[1] > 5 * MB
    # A new rate applies to waiting commands, too. At the old one they would take 33 s.
    choose(host, "prio", bytes_per_sec=MB)
    with writing(lun, 32 * MIB):
        time.sleep(0.2)
        choose(host, "prio", bytes_per_sec=0)
        began = time.monotonic()
    assert time.monotonic() - began < 15 * TIME_FACTOR


@pytest.mark.smoke
@pytest.mark.parametrize("end", ("elevator", "direct", "batch"))
def test_waiting_commands_are_dispatched_at_once_for_a_drain(host, end):
    """A change of the elevator or of the policy dispatches the waiting commands at once. At the
    set rate they would take 33 s."""
    lun = host.luns()[0]
    choose(host, "prio", bytes_per_sec=MB // 4)
    wait_effective(host)
    with writing(lun, 8 * MIB, merges=False) as writer:
        wait_for("commands waiting", lambda: state(host)["held"] > 50)
        began = time.monotonic()
        if end == "elevator":
            (lun.queue / "scheduler").write_text("mq-deadline", encoding="ascii")
        else:
            (host.sysfs / "smq/policy").write_text(end, encoding="ascii")
        assert time.monotonic() - began < 10 * TIME_FACTOR
        (host.sysfs / "smq_prio/bytes_per_sec").write_text("0", encoding="ascii")
        writer.wait()
        assert time.monotonic() - began < 15 * TIME_FACTOR
    (lun.queue / "scheduler").write_text("none", encoding="ascii")
    with open(lun.sd, "rb") as disk:
        assert disk.read(8 * MIB) == b"\x3c" * (8 * MIB)


def test_waiting_for_a_rate_is_no_timeout(host):
    """Because of the rate, commands wait for longer than their timeout, and none times out."""
    lun = host.luns()[0]
    timeout = (lun.sysfs / "timeout").read_text(encoding="ascii")
    (lun.sysfs / "timeout").write_text("1", encoding="ascii")
    choose(host, "prio", bytes_per_sec=MB)
    wait_effective(host)
    began, before = time.monotonic(), settle(host)
    with traced() as trace:
        with writing(lun, 3 * MIB, merges=False):
            pass
        after = settle(host)
    assert time.monotonic() - began > 2.5 and trace.check_once()
    assert after["errors"] == before["errors"] and after["done"] > before["done"] + 700
    (lun.sysfs / "timeout").write_text(timeout, encoding="ascii")


def test_a_reset_ends_waiting_commands(host):
    lun = host.luns()[0]
    choose(host, "prio", bytes_per_sec=MB // 4)
    wait_effective(host)
    with traced() as trace:
        with writing(lun, 4 * MIB, merges=False) as writer, SgDev(lun.sg) as sg:
            wait_for("commands waiting", lambda: state(host)["held"] > 50)
            before = host.stats()["reset_cmds"]
            began = time.monotonic()
            sg.reset(SG_SCSI_RESET_DEVICE)
            # At the set rate the commands take 16 s.
            assert time.monotonic() - began < 10 * TIME_FACTOR
            assert host.stats()["reset_cmds"] > before + 50
            (host.sysfs / "smq_prio/bytes_per_sec").write_text("0", encoding="ascii")
            writer.wait()
        settle(host)
    trace.check_once()
    with open(lun.sd, "rb") as disk:
        assert disk.read(4 * MIB) == b"\x3c" * (4 * MIB)


def test_lun_removed_while_its_commands_wait(both, host):
    both[0].add_lun(5, size_mb=64)
    lun = next(one for one in host.wait_luns(2) if one.address.endswith(":5"))
    limit_requests(lun, BLOCK // KIB)
    choose(host, "prio", bytes_per_sec=MB // 4)
    wait_effective(host)
    writer = Writer(lun.sd)
    try:
        writer.dirty(4 * MIB)
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(writer.start, 4 * MIB)
            wait_for("commands waiting", lambda: state(host)["held"] > 50)
            began = time.monotonic()
            both[0].remove_lun(5)
            # At the set rate the commands take 16 s.
            assert time.monotonic() - began < 10 * TIME_FACTOR
            done.result(20)
    finally:
        writer.close()
    wait_for("the removed LUN to go", lambda: len(host.luns()) == 1)
