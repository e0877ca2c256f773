# SPDX-License-Identifier: GPL-2.0
# vm: --cpus 4
"""Held slots on a slow device: runs in flight, failures, tags, and a quiesced, blocked or
stopped device."""
import errno
import os
import signal
from pathlib import Path

import pytest
from kit import cdb, sgio, smqsg
from kit.child import ended, spawn
from kit.held import (held_requests, hold_first, holding, node_share, quiescer, set_state,
                      without_elevator)
from kit.host import wait_for
from kit.memory import PAGE, Memory
from kit.ramdir import ram_host
from kit.sanitizing import repeats
from kit.slots import BLOCK, HELD, IN, SlotFile, command, read
from kit.slowdisk import DEPTH, opened, slow_disk, straight_disk
from kit.uring import Ring
from kit.waits import Waits, waits, waits_on


# Drivers with and without a doorbell for several commands (commit_rqs).
DISKS = {"queued": slow_disk, "straight": straight_disk}
# For tests that need smq_ram, to inject faults.
QUEUED = pytest.mark.parametrize("whole", ["queued"], indirect=True)


@pytest.fixture(params=DISKS)
def whole(sg_module, request):
    """Yields a slow disk whose slots may keep a request for each tag. Checks at the end that no tag
    is in use."""
    with DISKS[request.param]() as device, node_share(device.path, 100):
        without_elevator(device.lun)
        yield device
        if os.path.exists(device.path):
            device.idle()
            wait_for("all tags back", lambda: smqsg.tags(device.lun) == 0, 2)


def test_slot_in_flight_is_busy(whole):
    """A slot in flight can neither be run again nor be prepared. The attempts do not affect the run
    in flight."""
    with holding(whole.path, 2) as file, Ring() as ring:
        hold_first(file, 2)
        whole.slow()
        file.push(ring, 0)
        file.push(ring, 0)
        ring.submit()
        assert file.try_prepare([read(9)]) == (errno.EBUSY, 0)
        assert sorted(ring.wait(2)) == [(0, -errno.EBUSY), (0, 0)]
        assert file.status(0).runs == 3 and held_requests(whole.path) == 2
        assert file.memory[:2 * BLOCK] == bytes(2 * BLOCK)
        file.prepare([command(b"")])
        assert held_requests(whole.path) == 1


@QUEUED
def test_fault_does_not_affect_the_next_run(whole):
    """A slot has the right result after each fault of the device, and no fault affects the next
    run. (After BUSY and TASK SET FULL the mid-layer repeats the command.)"""
    with holding(whole.path, 4) as file:
        for fault, settings, result in (
                ("sense", {"sense": 0x031100}, sgio.CHECK_CONDITION),
                ("status", {"status": sgio.RESERVATION_CONFLICT}, sgio.RESERVATION_CONFLICT),
                ("status", {"status": sgio.BUSY}, 0), ("task_set_full", {}, 0)):
            hold_first(file, 4)
            whole.dir.arm(fault, count=1, **settings)
            assert file.run_one(0).result & 0xff == result, fault
            assert whole.dir.get("fault/count") == "0"
        hold_first(file, 4)
        whole.dir.arm("short", count=1)
        file.prepare([read(0, 1, flags=HELD)])
        assert file.run_one(0).resid > 0
        assert (file.run_one(0).result, file.status(0).resid) == (0, 0)


@pytest.mark.parametrize("how", ("close", "prepare", "exit", "SIGKILL"))
def test_kept_tags_are_released(whole, how):
    """All tags of the host can be used again when the file whose slots kept them is closed, when
    the slots are prepared again, or when their process has ended."""
    ready, told = os.pipe()

    def work():
        with holding(whole.path, DEPTH) as file, Ring() as ring:
            hold_first(file, DEPTH)
            if how == "SIGKILL":
                whole.slow()
                for slot in range(3):
                    file.push(ring, slot)
                ring.submit()
            os.write(told, b"x")
            if how == "SIGKILL":
                ring.wait(99, 60)
        return 0
    if how in ("exit", "SIGKILL"):
        pid = spawn(work)
        assert os.read(ready, 1) == b"x"
        if how == "SIGKILL":
            wait_for("commands in flight", lambda: smqsg.attr(whole.path, "inflight") == 3)
            os.kill(pid, signal.SIGKILL)
        assert ended(pid) == (-signal.SIGKILL if how == "SIGKILL" else 0)
        whole.idle()
    else:
        with holding(whole.path, DEPTH) as file:
            hold_first(file, DEPTH)
            assert smqsg.tags(whole.lun) == DEPTH
            if how == "prepare":
                file.prepare([command(b"")] * DEPTH)
                assert smqsg.tags(whole.lun) == 0
    wait_for("all tags back", lambda: smqsg.tags(whole.lun) == 0, 2)
    whole.slow()
    with opened(whole.path) as file, Ring() as ring:
        for slot in range(DEPTH):
            file.push(ring, slot)
        ring.submit()
        assert smqsg.attr(whole.path, "inflight") == smqsg.tags(whole.lun) == DEPTH
        assert sorted(ring.wait(DEPTH)) == [(slot, 0) for slot in range(DEPTH)]
    for end in (ready, told):
        os.close(end)


def test_child_runs_slots_whose_requests_its_parent_keeps(whole):
    """A child process can run slots whose requests its parent keeps. Afterwards the parent can run
    them as before."""
    with holding(whole.path, DEPTH) as file, Ring() as ring:
        hold_first(file, DEPTH)
        whole.slow()
        file.push(ring, 1)
        ring.submit()

        def work():
            if file.run([0, 2, 3]) != (0, 0):
                return 1
            return 0 if [file.status(slot).runs for slot in (0, 2, 3)] == [3] * 3 else 2
        assert ended(spawn(work)) == 0
        assert ring.wait(1) == [(1, 0)]
        whole.slow(0)
        hold_first(file, DEPTH)


def active(lun) -> int:
    """Returns how many requests the block layer counts against a LUN's part of the host's tags."""
    return sum(int(path.read_text(encoding="ascii")) for path in
               Path("/sys/kernel/debug/block", Path(lun.sd).name).glob("hctx*/active"))


@pytest.mark.limit(120)
def test_ten_luns_share_their_tags(sg_module):
    """The block layer counts each kept request of a LUN once. If it counted a request at each run,
    the LUNs would soon find no tag."""
    with ram_host(luns=10, depth=64, hw_queues=1) as (_, host):
        luns = host.luns()
        without_elevator(*luns)
        nodes = [smqsg.node(lun) for lun in luns]
        files = [SlotFile(node, 4, held_share=100) for node in nodes]
        area = Memory(PAGE)
        for file in files:
            assert file.lend(0, area) == 0
            file.prepare([read(slot, flags=HELD, offset=slot * BLOCK) for slot in range(4)])
        for _ in range(repeats(100)):
            for file in files:
                assert file.run(range(4)) == (0, 0)
        assert sum(map(held_requests, nodes)) == 40
        for lun in luns:
            assert active(lun) == 4
        # Block I/O gets tags too, although it keeps none.
        said = waits(luns[3].sd, path="read", count=200)
        assert said["results"]["0"] == 200
        for file in files:
            file.close()
        assert [active(lun) for lun in luns] == [0] * 10
        assert smqsg.tags(luns[0]) == 0
        jobs = [Waits(node, depth=32, count=2000) for node in nodes]
        assert all(job.result()["results"]["0"] == 2000 for job in jobs)


def test_run_reports_no_earlier_residual(whole):
    """A run that does not reach the device reports no residual, even if the previous run had
    one."""
    with opened(whole.path, 1, held_share=100) as file:
        file.prepare([command(cdb.inquiry(252), IN, 252, flags=HELD)])
        for _ in range(2):
            assert file.run_one(0).result == 0 and file.status(0).resid > 0
            assert held_requests(whole.path) == 1
        state = whole.lun.sysfs / "state"
        state.write_text("offline\n", encoding="ascii")
        try:
            gone = file.run_one(0)
        finally:
            state.write_text("running\n", encoding="ascii")
        assert gone.result == sgio.DID_NO_CONNECT << 8 and gone.resid == 0


@pytest.mark.smoke
@pytest.mark.parametrize("state", ("quiesce", "block", "stop"))
def test_no_command_reaches_a_quiesced_device(whole, state):
    """No command reaches a quiesced, blocked or stopped device. When that state is over, each
    command ends."""
    with quiescer(), holding(whole.path, DEPTH) as file, Ring() as ring:
        for _ in range(3):
            hold_first(file, DEPTH)
            issued = whole.lun.sysfs / "iorequest_cnt"
            before = issued.read_text(encoding="ascii")
            set_state(state, whole.lun.address)
            try:
                for slot in range(DEPTH):
                    file.push(ring, slot)
                    ring.submit()
                # Faulty code would have sent the commands within this time.
                with pytest.raises(AssertionError, match="0 of 1"):
                    ring.wait(1, 0.3)
                assert issued.read_text(encoding="ascii") == before
            finally:
                set_state(state, "")
            assert sorted(ring.wait(DEPTH)) == [(slot, 0) for slot in range(DEPTH)]
        assert [file.status(slot).runs for slot in range(DEPTH)] == [9] * DEPTH


def test_slots_keep_nothing_under_an_elevator(whole):
    """Under an elevator slots run but keep nothing; without it they keep their requests again."""
    scheduler = whole.lun.queue / "scheduler"
    with holding(whole.path, DEPTH) as file:
        for _ in range(3):
            hold_first(file, DEPTH)
            scheduler.write_text("mq-deadline", encoding="ascii")
            try:
                for _ in range(3):
                    assert file.run(range(DEPTH)) == (0, 0) and held_requests(whole.path) == 0
            finally:
                scheduler.write_text("none", encoding="ascii")


# Error handling.

@QUEUED
@pytest.mark.parametrize("fault", ("lost", "timeout"))
def test_held_command_times_out(whole, fault):
    """A held command that the device does not answer ends with DID_TIME_OUT, and its slot can run
    again."""
    with holding(whole.path, DEPTH) as file, Ring() as ring:
        file.prepare([read(slot, offset=slot * BLOCK, timeout_ms=1000, flags=HELD)
                      for slot in range(DEPTH)])
        for turn in range(2):
            hold_first(file, DEPTH)
            before = int(whole.host.stats()["timeouts"])
            whole.dir.arm(fault, count=1, delay_ms=4000)
            for slot in range(DEPTH):
                file.push(ring, slot)
            ring.submit()
            got = dict(ring.wait(DEPTH, 40))
            bad = [slot for slot, res in got.items() if res]
            assert len(bad) == 1 and got[bad[0]] >> 8 & 0xff == sgio.DID_TIME_OUT, got
            assert file.status(bad[0]).runs == 3 * turn + 3
            assert whole.host.stats()["timeouts"] == before + 1
            smqsg.clear_attentions(whole.lun.sg)
        hold_first(file, DEPTH)


@pytest.mark.parametrize("whole", ["straight"], indirect=True)
def test_held_command_sent_straight_times_out(whole):
    """As test_held_command_times_out(), but on scsi_debug, which is set to ignore every fourth
    command."""
    forgets = 4
    with holding(whole.path, DEPTH) as file, Ring() as ring:
        file.prepare([read(slot, offset=slot * BLOCK, timeout_ms=1000, flags=HELD)
                      for slot in range(DEPTH)])
        for turn in range(2):
            hold_first(file, DEPTH)
            (smqsg.SCSI_DEBUG / "opts").write_text(str(forgets), encoding="ascii")
            (smqsg.SCSI_DEBUG / "every_nth").write_text("4", encoding="ascii")
            for slot in range(DEPTH):
                file.push(ring, slot)
            ring.submit()
            got = dict(ring.wait(DEPTH, 40))
            (smqsg.SCSI_DEBUG / "every_nth").write_text("0", encoding="ascii")
            (smqsg.SCSI_DEBUG / "opts").write_text("0", encoding="ascii")
            bad = [slot for slot, res in got.items() if res]
            assert bad and {got[slot] >> 8 & 0xff for slot in bad} == {sgio.DID_TIME_OUT}, got
            assert {file.status(slot).runs for slot in bad} == {3 * turn + 3}
            smqsg.clear_attentions(whole.lun.sg)
        hold_first(file, DEPTH)


@pytest.mark.limit(120)
@pytest.mark.parametrize("delay_ms", (700, 4000))
def test_timeouts_are_found_while_held_requests_are_reused(sg_module, delay_ms):
    """While the block layer scans for expired requests, held requests are used again on all CPUs.
    The scan finds only the expired ones. A scan runs once a second, so some commands that take
    700 ms end before a scan finds them."""
    with ram_host(depth=32) as (host_dir, host):
        lun, = host.luns()
        without_elevator(lun)
        host_dir.set("model/service_ns", 1000000)
        path = smqsg.node(lun)
        host_dir.arm("timeout", every=301, count=6, delay_ms=delay_ms)
        jobs = [Waits(path, depth=8, ms=6000, expire=500, held=True)
                for _ in range(2)]
        said = [job.result() for job in jobs]
        assert host_dir.get("fault/injected") == "6"
        bad = sum(one["results"]["status"] for one in said)
        assert bad == host.stats()["timeouts"] <= 6
        assert bad == 6 or delay_ms < 1000
        assert sum(one["results"]["0"] for one in said) == sum(one["sent"] for one in said) - bad


@pytest.mark.limit(90)
def test_task_set_full_lowers_the_number_of_kept_requests(sg_module):
    """TASK SET FULL lowers the depth, and so the number of requests that are kept; each command
    ends once."""
    with ram_host(depth=16) as (host_dir, host):
        lun, = host.luns()
        without_elevator(lun)
        host_dir.set("model/service_ns", 2000000)
        path = smqsg.node(lun)
        (lun.sysfs / "queue_ramp_up_period").write_text("50", encoding="ascii")
        with node_share(path, 100), waits_on(path, depth=32, count=3000, held=True) as job:
            wait_for("a kept request", lambda: held_requests(path) > 0)
            host_dir.arm("task_set_full", every=5, count=200)
            said = job.result()
        assert said["served"] == said["results"]["0"] == said["sent"] == 3000
        assert host_dir.get("fault/injected") == "200"
        with holding(path, 2) as file:
            hold_first(file, 2)
