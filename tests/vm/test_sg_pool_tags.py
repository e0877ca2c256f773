# SPDX-License-Identifier: GPL-2.0
# vm: --cpus 4
# on: uml sanitize 7.2
"""Idle requests on a slow device: tags, timeouts, and a quiesced, blocked or stopped device."""
import os
import signal

import pytest
from kit import cdb, sgio, smqsg
from kit.child import ended, spawn
from kit.host import run, wait_for
from kit.memory import PAGE, Memory
from kit.pool import fill_pool, filled, idle_requests, most_idle, on_cpus, pool_share
from kit.ramdir import ram_host
from kit.sanitizing import repeats
from kit.slots import BLOCK, IN, SlotFile, command, read
from kit.slowdisk import DEPTH, opened, slow_disk, straight_disk
from kit.uring import Ring
from kit.waits import Waits, waits, waits_on


# Drivers with and without a doorbell for several commands (commit_rqs).
DISKS = {"queued": slow_disk, "straight": straight_disk}
IDLE = most_idle(DEPTH)


@pytest.fixture(autouse=True)
def one_cpu():
    """Keeps the test on a CPU, because each CPU has its own pools."""
    with on_cpus({1}):
        yield


@pytest.fixture(params=DISKS)
def whole(sg_module, request):
    """Yields a slow disk whose node may keep a request for each tag but one, which its host leaves
    to others. Checks at the end that no tag is in use."""
    with DISKS[request.param]() as device, pool_share(device.path, 100):
        yield device
        if os.path.exists(device.path):
            device.idle()
            wait_for("all tags back", lambda: smqsg.tags(device.lun) == 0)


@pytest.mark.smoke
@pytest.mark.parametrize("how", ("close", "exit", "SIGKILL"))
def test_kept_tags_are_released(whole, how):
    """All tags of the host can be used again when the file whose commands kept them is closed, or
    when its process has ended."""
    ready, told = os.pipe()

    def work():
        with filled(whole.path, IDLE) as file, Ring() as ring:
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
        with filled(whole.path, IDLE):
            assert smqsg.tags(whole.lun) == IDLE
    wait_for("all tags back", lambda: smqsg.tags(whole.lun) == 0)
    whole.slow()
    with opened(whole.path) as file, Ring() as ring:
        for slot in range(DEPTH):
            file.push(ring, slot)
        ring.submit()
        assert smqsg.attr(whole.path, "inflight") == smqsg.tags(whole.lun) == DEPTH
        assert sorted(ring.wait(DEPTH)) == [(slot, 0) for slot in range(DEPTH)]
    for end in (ready, told):
        os.close(end)


@pytest.mark.limit(120)
def test_ten_luns_share_their_tags(sg_module):
    """The block layer counts each kept request of a LUN once. If it counted a request at each run,
    the LUNs would soon find no tag."""
    with ram_host(luns=10, depth=64, hw_queues=1) as (_, host):
        luns = host.luns()
        nodes = [smqsg.node(lun) for lun in luns]
        files = [SlotFile(node, 4) for node in nodes]
        area = Memory(PAGE)
        for file in files:
            assert file.lend(0, area) == 0
            file.prepare([read(slot, offset=slot * BLOCK) for slot in range(4)])
        for _ in range(repeats(100)):
            for file in files:
                assert file.run(range(4)) == (0, 0)
        assert sum(map(idle_requests, nodes)) == smqsg.tags(luns[0]) == 40
        # Block I/O gets tags too, although it keeps none.
        said = waits(luns[3].sd, path="read", count=200)
        assert said["results"]["0"] == 200
        for file in files:
            file.close()
        assert smqsg.tags(luns[0]) == 0
        jobs = [Waits(node, depth=32, count=2000) for node in nodes]
        assert all(job.result()["results"]["0"] == 2000 for job in jobs)


def test_run_reports_no_earlier_residual(whole):
    """A run that does not reach the device reports no residual, even if the previous run had
    one."""
    with opened(whole.path, 1) as file:
        file.prepare([command(cdb.inquiry(252), IN, 252)])
        for _ in range(2):
            assert file.run_one(0).result == 0 and file.status(0).resid > 0
            assert idle_requests(whole.path) == 1
        state = whole.lun.sysfs / "state"
        state.write_text("offline\n", encoding="ascii")
        try:
            gone = file.run_one(0)
        finally:
            state.write_text("running\n", encoding="ascii")
        assert gone.result == sgio.DID_NO_CONNECT << 8 and gone.resid == 0


def test_requests_are_kept_under_an_elevator(whole):
    """The elevator of the disk does not matter: the node's queue has none."""
    run("modprobe", "mq-deadline")
    scheduler = whole.lun.queue / "scheduler"
    with filled(whole.path, IDLE) as file:
        for elevator in ("mq-deadline", "none") * 2:
            fill_pool(file, IDLE)
            scheduler.write_text(elevator, encoding="ascii")
            for _ in range(3):
                assert file.run(range(IDLE)) == (0, 0) and idle_requests(whole.path) == IDLE


# Error handling.


@pytest.mark.limit(120)
@pytest.mark.parametrize("delay_ms", (700, 4000))
def test_timeouts_are_found_while_requests_are_reused(sg_module, delay_ms):
    """While the block layer scans for expired requests, idle requests are used again on all CPUs.
    The scan finds only the expired ones. A scan runs once a second, so some commands that take
    700 ms end before a scan finds them."""
    with ram_host(depth=32) as (host_dir, host):
        lun, = host.luns()
        host_dir.set("model/service_ns", 1000000)
        path = smqsg.node(lun)
        host_dir.arm("timeout", every=301, count=6, delay_ms=delay_ms)
        with on_cpus(set(range(os.cpu_count()))):
            jobs = [Waits(path, depth=8, ms=6000, expire=500) for _ in range(2)]
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
        host_dir.set("model/service_ns", 2000000)
        path = smqsg.node(lun)
        (lun.sysfs / "queue_ramp_up_period").write_text("50", encoding="ascii")
        with pool_share(path, 100), waits_on(path, depth=32, count=3000) as job:
            wait_for("an idle request", lambda: idle_requests(path) > 0)
            host_dir.arm("task_set_full", every=5, count=200)
            said = job.result()
        assert said["served"] == said["results"]["0"] == said["sent"] == 3000
        assert host_dir.get("fault/injected") == "200"
        with filled(path, 2):
            pass
