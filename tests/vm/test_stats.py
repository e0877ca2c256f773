# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 6.12 7.2
"""Counters and tracepoints: they add up, and show that each command ends once."""
import pytest
from kit import cdb
from kit.host import SgDev, fio, loaded, settle, total_ios
from kit.trace import Trace, traced

SUMS = ("queued", "done", "errors", "busy", "deferred", "polled")
MIX = {"rw": "randrw", "bsrange": "512-64k", "blockalign": 512, "size": "4m",
       "ioengine": "io_uring", "iodepth": 16}


def check_sums(host) -> dict[str, int]:
    """Compares an idle host's counters with the table of its hardware queues."""
    stats = settle(host)
    assert stats["queued"] == stats["done"] and stats["inflight"] == 0
    rows = host.hwqs()
    for name in SUMS:
        assert sum(row[name] for row in rows) == stats[name], name
    assert all(row["inflight"] == 0 and row["queued"] == row["done"] for row in rows)
    assert [row["hwq"] for row in rows] == list(range(len(rows)))
    return stats


@pytest.mark.smoke
def test_each_command_is_counted_once(ram, disk):
    """Each command adds one to @queued and to @done. Only a command that ends with CHECK CONDITION
    adds one to @errors."""
    with SgDev(disk.sg) as dev:
        before = check_sums(ram)
        assert dev.cmd(cdb.plain(cdb.TEST_UNIT_READY)).good
        good = check_sums(ram)
        assert not dev.cmd(cdb.plain(0xc1)).good
        bad = check_sums(ram)
    for stats, errors in ((good, 0), (bad, 1)):
        assert stats["queued"] - before["queued"] == 1 + errors
        assert stats["done"] - before["done"] == 1 + errors
        assert stats["errors"] - before["errors"] == errors
        assert stats["polled"] == before["polled"]


@pytest.mark.parametrize("command,buffer", [
    (cdb.blocks(cdb.VERIFY_10, 0, 1), {}), (cdb.unmap(24), {"dout": cdb.unmap_list((0, 8))}),
    (cdb.blocks(cdb.WRITE_SAME_16, 0, 8), {"dout": bytes(512)})],
    ids=["verify", "unmap", "write-same"])
def test_slow_commands_are_deferred(ram, disk, command, buffer):
    """A command that may have to sleep goes through the worker, and is counted once."""
    with SgDev(disk.sg) as dev:
        before = check_sums(ram)
        assert dev.cmd(command, **buffer).good
        after = check_sums(ram)
    assert after["deferred"] - before["deferred"] == 1
    assert after["done"] - before["done"] == 1


def test_counters_add_up_under_load(ram, disk):
    """The host counts about as many commands as fio counts I/Os, and some on each hardware queue.
    At the end no command is in flight, and none had an error."""
    before = check_sums(ram)
    report = fio(disk.sd, numjobs=4, cpus_allowed="0-1", cpus_allowed_policy="split",
                 **MIX)
    after = check_sums(ram)
    # Requests may be merged or split on the way.
    done = after["done"] - before["done"]
    assert total_ios(report) // 2 <= done <= 2 * total_ios(report)
    assert after["errors"] == before["errors"] and after["timeouts"] == 0
    assert all(row["done"] for row in ram.hwqs())


def test_counts_are_exact_without_merging(ram, disk):
    """With nomerges=2 and one block for each I/O, the host counts as many commands as fio."""
    (disk.queue / "nomerges").write_text("2", encoding="ascii")
    before = check_sums(ram)
    report = fio(disk.sd, rw="randread", bs=512, size="1m", ioengine="io_uring", iodepth=16)
    after = check_sums(ram)
    assert total_ios(report) == 2048
    # When fio opens the disk, the kernel may send commands of its own.
    assert 2048 <= after["done"] - before["done"] <= 2048 + 16


def test_luns_share_the_counters():
    """Counters belong to the host: commands of both LUNs count, and each host counts its own."""
    with loaded("smq_ram", hosts=2, luns=2, size_mb=16) as hosts:
        before = [check_sums(host) for host in hosts]
        for lun in hosts[0].luns():
            with SgDev(lun.sg) as dev:
                assert dev.cmd(cdb.plain(cdb.TEST_UNIT_READY)).good
        after = [check_sums(host) for host in hosts]
        assert after[0]["done"] - before[0]["done"] == 2
        assert after[1]["done"] == before[1]["done"]


@pytest.mark.smoke
@pytest.mark.parametrize("params,job", [
    ({"hw_queues": 1}, {}), ({}, {}), ({"poll_queues": 1}, {"hipri": True, "rw": "randread"})],
    ids=["one-queue", "queues", "polled"])
def test_every_command_ends_once(params, job):
    """For each (host, hwq, tag) the events smq_queue and smq_done come in pairs. There are as many
    events of each kind as the counters say."""
    with loaded("smq_ram", size_mb=16, **params) as hosts:
        lun = hosts[0].luns()[0]
        # WRITEs fill holes of smq_ram's store. The worker executes some of these WRITEs, and
        # queuecommand executes the others.
        before = check_sums(hosts[0])
        with traced() as trace:
            fio(lun.sd, numjobs=2, **(MIX | {"size": "1m"} | job))
            with SgDev(lun.sg) as dev:
                dev.cmd(cdb.plain(0xc1))
                dev.cmd(cdb.blocks(cdb.VERIFY_10, 0, 8))
            after = check_sums(hosts[0])
        commands = trace.check_once()
        counts = trace.count()
        assert commands == after["queued"] - before["queued"] > 64
        assert counts["smq_done"] == after["done"] - before["done"]
        failed = [fields for name, fields in trace.events
                  if name == "smq_done" and int(fields["result"], 0)]
        assert len(failed) == after["errors"] - before["errors"]
        assert "0xc1" in {fields["op"] for fields in failed}
        if "hipri" in job:
            assert after["polled"] > before["polled"]


SYNCHRONIZE_CACHE_10 = "0x35"


@pytest.mark.parametrize("scheduler", ["none", "mq-deadline"])
def test_flushes_are_counted_and_end_once(ram, disk, scheduler):
    """blk-mq sends a flush in a request of its own. Flushes are traced and counted like other
    commands, and end once."""
    cache = next((disk.sysfs / "scsi_disk").glob("*")) / "cache_type"
    cache.write_text("temporary write back", encoding="ascii")
    (disk.queue / "scheduler").write_text(scheduler, encoding="ascii")
    before = check_sums(ram)
    with traced() as trace:
        fio(disk.sd, rw="randwrite", bs=4096, size="1m", fsync=4, numjobs=2,
            ioengine="io_uring", iodepth=8)
        after = check_sums(ram)
    assert trace.check_once() == after["queued"] - before["queued"]
    flushes = [fields for name, fields in trace.events
               if name == "smq_done" and fields["op"] == SYNCHRONIZE_CACHE_10]
    assert len(flushes) >= 64 and all(int(one["result"], 0) == 0 for one in flushes)
    assert after["errors"] == before["errors"]


def test_check_once_detects_wrong_traces():
    """check_once() detects a command whose end is missing, comes twice or comes first."""
    def trace(*names, tag=1):
        return Trace("".join(f"  fio-1 [000] 7: {name}: host=0 hwq=0 tag={tag} on=0 id=0\n"
                             for name in names))
    for bad in (trace("smq_queue"), trace("smq_done"), trace("smq_queue", "smq_queue"),
                trace("smq_queue", "smq_done", "smq_done"),
                Trace(trace("smq_queue").text + trace("smq_done", tag=11).text)):
        with pytest.raises(AssertionError):
            bad.check_once()
    good = trace(*["smq_queue", "smq_done"] * 2)
    assert good.check_once() == 2 and good.events[0][1]["tag"] == "1"
