# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 7.2
"""queuecommand_lck, here called the entry, runs under host_lock. The LLD is written as drivers were
before multiqueue.

With one CPU (tools/vm --cpus 1) blk-mq completes commands without the softirq, and some deadlocks
can happen only then.
"""
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit.fiojob import fio, load_on, total_ios
from kit.host import ModuleError, load, loaded, settle, under_way, wait_for
from kit.sgio import SgDev
from kit.trace import traced

PARAMS = Path("/sys/module/smq_old/parameters")
ENTRY, IRQ, IRQ_LOCKED, NEXT = range(4)
WHERE = {"entry": ENTRY, "irq": IRQ, "irq_locked": IRQ_LOCKED, "next_entry": NEXT}
VERIFIED = {"ioengine": "io_uring", "rw": "randwrite", "bs": 4096, "iodepth": 16, "size": "1m",
            "verify": "crc32c", "verify_fatal": 1}
# smq_old's drop_how: what the entry does with the command for which it drops host_lock, and whether
# it does so before or after the drop.
DROPS = {"refused": 2, "queued_after": 0, "completed_after": 3, "queued_before": 1}
LOAD = {"ioengine": "libaio", "rw": "randread", "bs": 4096, "iodepth": 16, "numjobs": 2,
        "time_based": True, "runtime": 600}
READ_10 = bytes.fromhex("28000000000000000800")
HOST_BUSY, DEVICE_BUSY, TARGET_BUSY = 0x1055, 0x1056, 0x1058
REASONS = {HOST_BUSY: "busy_host", DEVICE_BUSY: "busy_device", TARGET_BUSY: "busy_target"}


def set_param(name, value):
    """Sets a parameter of smq_old."""
    (PARAMS / name).write_text(str(value), encoding="ascii")


def get_param(name):
    """A parameter of smq_old."""
    return int((PARAMS / name).read_text(encoding="ascii"))


@contextmanager
def old_host(**params):
    """smq_old's host. At the end, each call of the entry must have been under host_lock, with
    interrupts off, one at a time."""
    with loaded("smq_old", **params) as (host,):
        lun = host.luns()[0]
        (lun.sysfs / "timeout").write_text("1", encoding="ascii")
        (lun.queue / "nomerges").write_text("2", encoding="ascii")
        yield host
        stats = settle(host)
        assert stats["queued"] == stats["done"] <= get_param("entries")
        assert get_param("bad_context") == 0


@pytest.fixture(params=WHERE, name="host")
def host_fixture(request):
    """One host for each place where an old driver completes commands."""
    with old_host(where=WHERE[request.param]) as host:
        yield host


# For tests in which it hardly matters where the driver completes commands: two places of WHERE.
two_places = pytest.mark.parametrize("host", ["entry", "irq_locked"], indirect=True)


@pytest.mark.smoke
def test_verified_io_under_host_lock(host):
    before = get_param("entries")
    for jobs in (1, 2):
        with traced() as trace:
            report = fio(host.luns()[0].sd, numjobs=jobs, offset_increment="8m", **VERIFIED)
            settle(host)
        assert trace.check_once() >= total_ios(report) == jobs * 2 * 256
    assert get_param("entries") - before >= trace.count()["smq_queue"]


@two_places
def test_counters_agree_with_the_driver(host):
    before, entries = host.stats(), get_param("entries")
    with SgDev(host.luns()[0].sg) as sg:
        for _ in range(10):
            assert sg.cmd(READ_10, din=4096).good
        past = sg.cmd(bytes.fromhex("28007fffffff00000800"), din=4096)
    after = host.stats()
    assert past.triple == (5, 0x21, 0)
    assert get_param("entries") - entries == after["done"] - before["done"] == 11
    assert after["errors"] - before["errors"] == 1
    assert host.hwqs()[0]["done"] == after["done"] and len(host.hwqs()) == 1


@pytest.mark.parametrize("status", [HOST_BUSY, DEVICE_BUSY, TARGET_BUSY, 1],
                         ids=["host", "device", "target", "anything"])
def test_refused_commands_are_queued_again(status):
    with old_host(where=IRQ, refuse_with=status) as host:
        with traced() as trace:
            with load_on(host.luns()[0].sd, **LOAD) as load_:
                set_param("refuse", 40)
                wait_for("40 refusals", lambda: get_param("refuse") == 0)
            settle(host)
        assert trace.check_once() >= total_ios(load_.result())
        assert trace.count()["smq_busy"] == 40 == host.stats()["busy"]
        counted = {name: host.hwqs()[0][name] for name in REASONS.values()}
        assert counted.pop(REASONS.get(status, "busy_host")) == 40
        assert not any(counted.values()), counted


@contextmanager
def units_tested(sg_node):
    """Sends TEST UNIT READY in another thread, one at a time."""
    stop = threading.Event()

    def test_units():
        count = 0
        with SgDev(sg_node) as sg:
            while not stop.is_set():
                assert sg.cmd(bytes(6)).good
                count += 1
        return count

    with ThreadPoolExecutor(1) as pool:
        tested = pool.submit(test_units)
        try:
            yield
        finally:
            stop.set()
        assert tested.result(20) > 0


@pytest.mark.smoke
def test_entries_that_drop_host_lock():
    """While one call of the entry has dropped host_lock, other calls run and complete their
    commands. Each command ends once, and only when the driver ends it. The call that has dropped
    the lock waits until another call runs. blk-mq may have put all block I/O requests into the list
    of the thread that waits, so another thread sends TEST UNIT READY all the time."""
    with old_host(where=ENTRY) as host:
        disk = host.luns()[0]
        (disk.queue / "scheduler").write_text("none", encoding="ascii")
        (disk.sysfs / "timeout").write_text("10", encoding="ascii")
        with traced(buffer_kb=65536) as trace:
            with load_on(disk.sd, numjobs=2, offset_increment="8m", verify_backlog=16,
                         time_based=True, runtime=600, cpus_allowed="0-1",
                         cpus_allowed_policy="split", **VERIFIED | {"size": "4m"}) as load_:
                under_way(disk, 50)
                with units_tested(disk.sg):
                    for name, how in DROPS.items():
                        before, busy = get_param("overlaps"), host.stats()["busy"]
                        set_param("drop_how", how)
                        set_param("drop", 7)
                        wait_for("overlapping entries", lambda least=before + 5:
                                 get_param("overlaps") >= least)
                        set_param("drop", 0)
                        overlaps, busy = get_param("overlaps") - before, host.stats()["busy"] - busy
                        print(f"{name}: {overlaps} overlaps, {busy} refused")
                        assert get_param("stolen") == 0, f"{name}: ended, but not by the driver"
                        assert name != "refused" or busy >= overlaps, \
                            "a refused command was completed"
            settle(host)
        assert trace.check_once() >= total_ios(load_.result())


@two_places
def test_lost_commands_are_aborted_and_repeated(host):
    with traced() as trace:
        for eh_done, aborts in ((0, 4), (1, 8)):
            set_param("eh_done", eh_done)
            set_param("lose", 4)
            fio(host.luns()[0].sd, **VERIFIED)
            assert host.stats()["aborts"] == aborts
        stats = settle(host)
    trace.check_once()
    # With eh_done=1 the driver itself completed the other four lost commands, in its abort.
    assert trace.count()["smq_taken"] == 4
    assert stats["timeouts"] == 8 and stats["host_resets"] == 0


def test_reset_completes_commands_under_host_lock(host):
    set_param("fail_abort", 1)
    with traced() as trace:
        set_param("lose", 3)
        fio(host.luns()[0].sd, **VERIFIED)
        settle(host)
    trace.check_once()
    stats = host.stats()
    assert (stats["lun_resets"], stats["host_resets"]) == (1, 0)


@pytest.mark.parametrize("params, says", [
    ({"entry": 0}, "needs either queue_cmd or queuecommand_lck, but has neither"),
    ({"entry": 2}, "needs either queue_cmd or queuecommand_lck, but has both"),
    ({"hw_queues": 2}, "hw_queues=2 poll_queues=0, but queuecommand_lck needs 1 and 0"),
    ({"max_cmd_len": 5}, "max_cmd_len=5 is outside 6..32"),
    ({"max_cmd_len": 33}, "max_cmd_len=33 is outside 6..32"),
    ({"sg_tablesize": 0}, "sg_tablesize=0 is outside 1..2048"),
    ({"sg_tablesize": 2049}, "sg_tablesize=2049 is outside 1..2048"),
], ids=["neither", "both", "queues", "short_cdb", "long_cdb", "no_segment", "too_many_segments"])
def test_bad_setups_are_refused(klog, params, says):
    with pytest.raises(ModuleError):
        load("smq_old", **params)
    assert any(says in line for line in klog.lines())
