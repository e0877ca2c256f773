# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 7.2
"""smq_ram's hardware model and faults; I/O completes in spite of faults, with the right data."""
import time
from collections import Counter
from pathlib import Path

import pytest
from kit import cdb
from kit.debugfs import state
from kit.fiojob import fio, load_on, total_ios
from kit.host import settle, wait_for
from kit.ramdir import ram_host
from kit.sanitizing import repeats
from kit.sgio import RESERVATION_CONFLICT, SgDev
from kit.trace import traced

VERIFY = {"ioengine": "io_uring", "rw": "randwrite", "bs": 4096, "iodepth": 32,
          "size": f"{repeats(8)}m", "verify": "crc32c", "verify_fatal": 1}
FAULTS = repeats(20)
READS = {"ioengine": "libaio", "rw": "randread", "bs": 4096, "size": "16m"}
READ = cdb.blocks(cdb.READ_10, 0, 8)


@pytest.mark.smoke
@pytest.mark.not_sanitized("measures times and numbers of commands")
def test_service_time_and_queue_depth():
    with ram_host(hw_queues=1) as (host_dir, host):
        disk = host.luns()[0].sd
        host_dir.set("model/service_ns", 5000000)
        report = fio(disk, **READS | {"number_ios": 40})
        assert report["jobs"][0]["read"]["lat_ns"]["min"] >= 5000000
        host_dir.set("model/hwq_depth", 3)
        with load_on(disk, **READS | {"iodepth": 32, "time_based": True, "runtime": 600}):
            wait_for("a full queue", lambda: host.hwqs()[0]["busy_hwq"] > 0)
            # The counters of the CPUs are read one after the other, so a single sum may be wrong.
            # The most frequent sum is right. It has three commands less if fio, on a busy machine,
            # takes as long to send the next ones as the device takes for these.
            seen = Counter((row["inflight"], row["refused"]) for row in (
                host.hwqs()[0] for _ in range(100)))
            assert seen.most_common(1)[0][0] in ((32, 29), (29, 26)) and seen[32, 29], seen
            began, before = time.monotonic(), int(host.attr("smq/done"))
            time.sleep(1)
            # The queue completes three commands in 5 ms, and in addition the three that are in
            # flight at the start.
            done = int(host.attr("smq/done")) - before
            assert done <= 600 * (time.monotonic() - began) + 3
        assert settle(host)["busy"] == 0


def test_link_rate():
    with ram_host() as (host_dir, host):
        host_dir.set("model/bytes_per_sec", 1000000)
        # The commands are few and large, so that the link limits the rate, and not the CPU.
        # Repeated, because other load on the machine delays fio.
        for _ in range(4):
            report = fio(host.luns()[0].sd, **READS | {"iodepth": 4, "bs": "64k", "io_size": "4m"})
            rate = report["jobs"][0]["read"]["bw_bytes"]
            assert rate < 1.1 * 1e6
            if rate > 0.8 * 1e6:
                break
        assert rate > 0.8 * 1e6


@pytest.mark.parametrize("batch", [1, 16])
def test_one_doorbell_per_batch(batch):
    ios = repeats(3200)
    with ram_host(hw_queues=1) as (host_dir, host):
        host_dir.set("model/service_ns", 1000)
        # A scheduler would make its own batches.
        (host.luns()[0].queue / "scheduler").write_text("none", encoding="ascii")
        before = int(host_dir.get("model/doorbells"))
        fio(host.luns()[0].sd, **READS | {
            "iodepth": 32, "iodepth_batch_submit": batch, "iodepth_batch_complete_min": batch,
            "number_ios": ios})
        rung = int(host_dir.get("model/doorbells")) - before
        assert ios / batch <= rung < 1.3 * ios / batch + 20


@pytest.mark.smoke
@pytest.mark.parametrize("kind", ["status", "task_set_full", "short", "lost", "no_memory"])
def test_verified_io_survives(kind):
    with ram_host(timeout=1) as (host_dir, host):
        with traced() as trace:
            with load_on(host.luns()[0].sd, to_end=True, **VERIFY) as load_:
                host_dir.arm(kind, count=FAULTS, every=53)
            stats = settle(host)
        assert trace.check_once() >= total_ios(load_.result())
        assert host_dir.get("fault/count") == "0" and host_dir.get("fault/injected") == str(FAULTS)
        assert stats["aborts"] == stats["timeouts"] == (
            FAULTS if kind in ("lost", "no_memory") else 0)


def test_verify_finds_a_wrong_byte():
    with ram_host() as (host_dir, host), SgDev(host.luns()[0].sg) as dev:
        host_dir.arm("wrong_byte", count=1)
        assert dev.cmd(READ, din=4096).data == b"\xff" + bytes(4095)
        assert dev.cmd(READ, din=4096).data == bytes(4096)
        host_dir.arm("wrong_byte", count=1)
        report = fio(host.luns()[0].sd, ok=False, **VERIFY)
        assert report["jobs"][0]["error"]


def test_a_kind_alone_is_one_fault():
    """A kind that is written while the count is 0 makes it 1; "none" makes it 0. Through configfs
    and through the host's sysfs."""
    with ram_host() as (host_dir, host), SgDev(host.luns()[0].sg) as dev:
        def statuses(commands):
            return [dev.cmd(READ, din=4096).status for _ in range(commands)]

        host_dir.set("fault/status", RESERVATION_CONFLICT)
        for faults in (host_dir.path / "fault", host.sysfs / "smq_fault"):
            def write(name, value, faults=faults):
                (faults / name).write_text(str(value), encoding="ascii")

            for _ in range(2):
                write("kind", "status")
                assert statuses(3) == [RESERVATION_CONFLICT, 0, 0]
            # A count that is not 0 stays, whichever kind follows.
            write("count", 2)
            write("kind", "status")
            assert statuses(3) == [RESERVATION_CONFLICT] * 2 + [0]
            write("count", -1)
            write("kind", "status")
            assert statuses(3) == [RESERVATION_CONFLICT] * 3
            write("kind", "none")
            assert host_dir.get("fault/count") == "0" and statuses(2) == [0, 0]
            write("kind", "status")
            assert statuses(2) == [RESERVATION_CONFLICT, 0]


def test_only_matching_commands_get_faults():
    with ram_host() as (host_dir, host), SgDev(host.luns()[0].sg) as dev:
        host_dir.arm("sense", count=-1, first_lba=100, last_lba=107, every=2)
        for lba, hit in ((92, False), (93, True), (108, False), (100, True)):
            seen = [not dev.cmd(cdb.blocks(cdb.READ_10, lba, 8), din=4096).good
                    for _ in range(4)]
            assert sum(seen) == (2 if hit else 0), (lba, seen)


@pytest.mark.limit(90)
@pytest.mark.not_uml("it cannot take a CPU offline")
def test_cpu_goes_offline_and_comes_back_under_verified_load():
    online = Path("/sys/devices/system/cpu/cpu1/online")
    with ram_host() as (host_dir, host):
        host_dir.set("model/service_ns", 200000)
        with load_on(host.luns()[0].sd, to_end=True, **VERIFY | {"size": "32m"}):
            try:
                for _ in range(20):
                    online.write_text("0", encoding="ascii")
                    time.sleep(0.05)
                    online.write_text("1", encoding="ascii")
                    time.sleep(0.05)
            finally:
                online.write_text("1", encoding="ascii")
        assert settle(host)["errors"] <= 2


@pytest.mark.not_uml("it cannot take a CPU offline")
def test_a_cpu_goes_offline_while_its_commands_wait_for_a_rate():
    """The CPU does not wait for the rate of the policy prio. The other CPU's commands do."""
    online = Path("/sys/devices/system/cpu/cpu1/online")
    writes = {"ioengine": "io_uring", "rw": "write", "bs": "16k", "iodepth": 24, "number_ios": 24}
    with ram_host(hw_queues=2) as (_, host):
        rate = host.sysfs / "smq_prio/bytes_per_sec"
        rate.write_text("50000", encoding="ascii")
        (host.sysfs / "smq/policy").write_text("prio", encoding="ascii")
        disk, before = host.luns()[0].sd, settle(host)
        with load_on(disk, to_end=True, cpus_allowed=1, **writes), \
                load_on(disk, to_end=True, cpus_allowed=0, **writes):
            wait_for("commands waiting", lambda: state(host)["held"] > 40)
            online.write_text("0", encoding="ascii")
            # At this rate the commands of both CPUs take 15 s.
            held = state(host)["held"]
            online.write_text("1", encoding="ascii")
            rate.write_text("0", encoding="ascii")
        assert held > 10
        assert settle(host)["errors"] == before["errors"]
