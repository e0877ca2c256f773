# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 7.2
"""If a hardware queue has no room, its commands wait in the layer. Other hardware queues, and LUNs
on them, continue. Waiting commands are issued in the order in which they came, except with "prio".

smq_hold's parameter "ring" is the number of commands for which a hardware queue has room.
"""
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kit.debugfs import depths
from kit.fiojob import fio, load_on, total_ios
from kit.hold import TIMEOUT, get_param, raise_depth, set_param, with_params
from kit.host import loaded, settle, under_way, wait_for
from kit.ramdir import ram_host
from kit.sanitizing import UML, repeats
from kit.sgio import SG_SCSI_RESET_DEVICE, SG_SCSI_RESET_HOST, SgDev
from kit.trace import traced

pytestmark = pytest.mark.skipif(os.cpu_count() < 2, reason="needs two CPUs")

READS = {"ioengine": "libaio", "rw": "randread", "bs": 4096, "iodepth": 16, "time_based": True,
         "runtime": 600}
ONE = READS | {"cpus_allowed": "0"}
TWO = READS | {"numjobs": 2, "cpus_allowed": "0,1", "cpus_allowed_policy": "split"}
ALL = 2**32 - 1
POLICIES = ("direct", "batch", "bucket", "prio", "steer")


def queue_of(lun, cpu):
    """The hardware queue of a CPU."""
    for path in (lun.queue.parent / "mq").iterdir():
        if str(cpu) in (path / "cpu_list").read_text(encoding="ascii").strip().split(", "):
            return int(path.name)
    return pytest.fail(f"CPU {cpu} has no hardware queue")


def held(host):
    """The number of commands that the layer holds."""
    return int(host.attr("smq/held"))


def choose(host, policy):
    """Sets a host's policy, and keeps it effective if the policy has a setting for that."""
    (host.sysfs / "smq_bucket/share").write_text("0", encoding="ascii")
    (host.sysfs / "smq_steer/threshold").write_text("2", encoding="ascii")
    (host.sysfs / "smq/policy").write_text(policy, encoding="ascii")


@pytest.mark.smoke
@with_params(luns=2)
def test_other_queues_and_luns_continue(hold):
    """One hardware queue has no room at all, then room for two of sixteen commands. The other
    hardware queues, and LUNs on them, continue."""
    full, free = hold.luns()
    other = queue_of(free, 1)

    def look():
        start, before = time.monotonic(), hold.hwqs()[other]["done"]
        time.sleep(0.5)
        return (hold.hwqs()[other]["done"] - before) / (time.monotonic() - start)

    def rate():
        # The best of three: other work on the machine only slows commands down.
        return max(look() for _ in range(3))

    set_param("refuse_hwq", queue_of(full, 0))
    with load_on(free.sd, **READS | {"iodepth": 1, "cpus_allowed": "1"}):
        under_way(free, 50)
        alone = rate()
        set_param("ring", 0)
        with load_on(full.sd, **ONE):
            wait_for("held commands", lambda: hold.hwqs()[1 - other]["refused"] == 16)
            before = hold.hwqs()[1 - other]["busy_hwq"]
            beside = rate()
            refused = hold.hwqs()[1 - other]["busy_hwq"] - before
            set_param("ring", 2)
            under_way(full, 20)
            busy = rate()
            set_param("ring", ALL)
            under_way(full, 50)
    print(f"commands a second: {alone:.0f} alone, {beside:.0f} beside a hardware queue that takes "
          f"nothing, {busy:.0f} beside one that takes two")
    stats = settle(hold)
    # The layer issues waiting commands again every 3 ms. A defect once let a full queue stop the
    # other queue, too: the other queue's rate fell to a fifteenth.
    assert min(beside, busy) > alone / 6 and 0 < refused < 3000
    # The layer returned no command to the mid-layer: that would have stopped the host.
    assert stats["busy"] == stats["held"] == 0 < stats["held_full"]


# All policies but "prio", which has an order of its own.
@pytest.mark.parametrize("policy", [policy for policy in POLICIES if policy != "prio"])
@with_params(hw_queues=1, luns=2, delay_us=2000)
def test_commands_are_issued_in_the_order_they_came(hold, policy):
    """Two LUNs share a hardware queue. No command is overtaken by more commands than the device has
    at once. But the first ones may be, of the other LUN: when the policy becomes effective, those
    that the device refuses wait for room in their LUN, one LUN after the other."""
    for lun in hold.luns():
        (lun.queue / "scheduler").write_text("none", encoding="ascii")
    choose(hold, policy)
    set_param("ring", 3)
    set_param("max_inflight", 0)
    with traced() as trace:
        with load_on(":".join(lun.sd for lun in hold.luns()), **ONE):
            wait_for("commands", lambda: hold.stats()["done"] > repeats(400))
        stats = settle(hold)
    trace.check_once()
    came, went = ([fields["tag"] for name, fields in trace.events if name == event]
                  for event in ("smq_queue", "smq_done"))
    # A tag is used again only after its command has ended. So the n-th start and the n-th end of a
    # tag belong to the same command.
    place, times = {}, {}
    for at, tag in enumerate(came):
        times[tag] = times.get(tag, 0) + 1
        place[tag, times[tag]] = at
    times = {}
    passed = 0
    for at, tag in enumerate(went):
        times[tag] = times.get(tag, 0) + 1
        if at > 2 * READS["iodepth"]:
            passed = max(passed, abs(place[tag, times[tag]] - at))
    print(f"{len(went)} commands, out of order by {passed} at most, held {stats['held_full']}")
    assert passed <= 3 and stats["busy"] == 0
    assert 0 < get_param("max_inflight") <= 3


@pytest.mark.limit(120)
@pytest.mark.parametrize("policy", POLICIES)
@with_params(luns=2)
def test_resets_and_changes_lose_no_waiting_command(hold, policy):
    """Resets, changes of the elevator and of the policy, and a CPU that goes offline lose no
    waiting command. The hardware queues have no room when each of these begins, and room for three
    commands a moment later."""
    first, second = hold.luns()
    cpu = Path("/sys/devices/system/cpu/cpu1/online")

    def scheduler(name):
        for lun in (first, second):
            (lun.queue / "scheduler").write_text(name, encoding="ascii")

    with SgDev(first.sg) as sg, ThreadPoolExecutor(1) as pool, traced() as trace:
        steps = [lambda: sg.reset(SG_SCSI_RESET_DEVICE), lambda: sg.reset(SG_SCSI_RESET_HOST),
                 lambda: scheduler("none"), lambda: scheduler("mq-deadline"),
                 lambda: choose(hold, "direct"), lambda: choose(hold, "batch")]
        if not UML:
            steps += [lambda: cpu.write_text("0", encoding="ascii")]
        try:
            with load_on(f"{first.sd}:{second.sd}", **READS | {"numjobs": 2}) as load:
                for step in steps:
                    choose(hold, policy)
                    set_param("ring", 0)
                    wait_for("commands that wait",
                             lambda: held(hold) > 4 and not get_param("inflight"))
                    done = pool.submit(step)
                    time.sleep(0.05)
                    set_param("ring", 3)
                    done.result(30)
                    under_way(first, 20)
                    under_way(second, 20)
                assert load.running
        finally:
            set_param("ring", ALL)
            if not UML:
                cpu.write_text("1", encoding="ascii")
        stats = settle(hold)
    trace.check_once()
    assert stats["queued"] == stats["done"] and stats["held"] == stats["timeouts"] == 0
    assert stats["reset_cmds"] > 0 and stats["host_resets"] == stats["lun_resets"] == 1
    assert all(row["refused"] == row["foreign"] == 0 for row in hold.hwqs())


@pytest.mark.limit(90)
@with_params(hw_queues=1, luns=2)
def test_an_abort_makes_room(hold):
    """A lost command takes all the room there is, until it is aborted."""
    for lun in hold.luns():
        for limit in lun.sysfs.glob("scsi_disk/*/max_medium_access_timeouts"):
            limit.write_text("1000", encoding="ascii")
    set_param("ring", 1)
    with traced() as trace:
        with load_on(":".join(lun.sd for lun in hold.luns()), **ONE) as load:
            under_way(hold.luns()[0], 20)
            set_param("lose", 1)
            wait_for("the abort", lambda: hold.stats()["aborts"] == 1, 30)
            under_way(hold.luns()[0], 20)
            under_way(hold.luns()[1], 20)
        stats = settle(hold)
    assert trace.check_once() >= total_ios(load.result())
    assert stats["timeouts"] == stats["aborts"] == 1 and stats["lun_resets"] == 0


@with_params(luns=2, io_errors=True)
def test_lun_removed_while_its_commands_wait(hold):
    """Commands of the other LUN wait for 8 s, and none of them fails. If the layer returned them,
    the mid-layer would retry them only for six times their timeout of 1 s."""
    gone, stays = hold.luns()
    with load_on(stays.sd, **TWO) as stay, load_on(gone.sd, ok=False, **TWO) as load:
        under_way(gone, 20)
        set_param("ring", 0)
        wait_for("commands that wait", lambda: held(hold) > 4 and not get_param("inflight"))
        # Room for one command lets commands end: while none ends, the block layer may not notice
        # free tags.
        set_param("ring", 1)
        (gone.sysfs / "delete").write_text("1", encoding="ascii")
        assert len(hold.luns()) == 1
        load.kill()
        set_param("ring", 0)
        time.sleep(8)
        set_param("ring", 3)
        under_way(stays, 20)
        assert stay.running


def wait_in_the_ring(host):
    """Commands wait because the hardware queue has no room."""
    set_param("ring", 0)
    wait_for("commands that wait", lambda: held(host) and not get_param("inflight"))


def wait_behind_lost(host):
    """Commands wait because the device is full: it has lost the commands that it has."""
    choose(host, "batch")
    raise_depth(host, 4)
    set_param("lose", 4)
    wait_for("commands that wait", lambda: get_param("lose") == 0 and held(host))


@pytest.mark.smoke
@pytest.mark.limit(120)
@pytest.mark.parametrize("what", ["lun", "host"])
@pytest.mark.parametrize("state", [wait_in_the_ring, wait_behind_lost])
def test_removal_does_not_wait_for_waiting_commands(state, what):
    with loaded("smq_hold", io_errors=True, luns=2, depth=4) as (host,):
        gone = host.luns()[0]
        (gone.sysfs / "timeout").write_text(str(TIMEOUT), encoding="ascii")
        with load_on(gone.sd, ok=False, **TWO | {"iodepth": 32}) as load:
            under_way(gone, 20)
            state(host)
            if what == "host":
                set_param("remove", 1)
                assert not host.sysfs.exists()
            else:
                (gone.sysfs / "delete").write_text("1", encoding="ascii")
                assert len(host.luns()) == 1
            load.kill()
        assert get_param("inflight") == 0


def test_polled_commands_wait_for_room():
    with ram_host(hw_queues=1, poll_queues=1) as (host_dir, host):
        host_dir.set("model/hwq_depth", 4)
        report = fio(host.luns()[0].sd, ioengine="io_uring", hipri=True, rw="randread", bs=4096,
                     iodepth=16, runtime=1, time_based=True)
        stats = settle(host)
        assert stats["polled"] >= total_ios(report) > 0 == stats["busy"]
        assert host.hwqs()[1]["busy_hwq"] > 0


def test_doorbell_is_rung_when_the_ring_gets_full():
    """With batches of 16 and room for 4, each doorbell is for four commands at most, and a batch
    takes four times as long as one command."""
    with loaded("smq_hold", in_commit=1, hw_queues=1, delay_us=500) as (host,):
        lun = host.luns()[0]
        (lun.queue / "scheduler").write_text("none", encoding="ascii")
        set_param("ring", 4)
        report = fio(lun.sd, **ONE | {"iodepth_batch_submit": 16, "iodepth_batch_complete_min": 16,
                                      "runtime": 1})
        settle(host)
        # The doorbell was rung at once for each four commands, and not only after 3 ms, when the
        # layer issues waiting commands again.
        print(f"commits {get_param('commits')}, {total_ios(report)} commands")
        assert get_param("commits") >= total_ios(report) / 4


@pytest.mark.parametrize("waiting", [False, True], ids=["in-flight", "waiting"])
def test_a_new_policy_counts_commands_that_it_has_not_seen(hold, waiting):
    """A policy is chosen while commands are in flight, or wait for room in the hardware queue. The
    inner depth counts them: the device never gets more commands than its depth."""
    lun = hold.luns()[0]
    set_param("delay_us", 20000)
    with load_on(lun.sd, **READS | {"iodepth": 64, "numjobs": 2}):
        for _ in range(repeats(4)):
            if waiting:
                set_param("ring", 0)
                wait_for("commands that wait",
                         lambda: held(hold) == 16 and not get_param("inflight"))
            else:
                wait_for("a full device", lambda: get_param("inflight") == 16)
            set_param("max_inflight", 0)
            choose(hold, "batch")
            set_param("refuse", int(not waiting))
            wait_for("a raised queue_depth", lambda: depths(hold)[0] == 32)
            set_param("ring", ALL)
            wait_for("a full device", lambda: get_param("inflight") == 16)
            time.sleep(0.2)
            assert get_param("max_inflight") == 16
            choose(hold, "direct")
            time.sleep(0.1)
            assert get_param("max_inflight") == 16


def ends_nothing(host):
    """Whether no command ends for a while, although the device has some. How many it has depends on
    the depth that the layer has learned."""
    done = host.stats()["done"]
    time.sleep(0.3)
    return get_param("inflight") and host.stats()["done"] == done


@with_params(depth=4)
def test_replaced_policy_leaves_no_command_in_its_lists(hold):
    """"prio" is replaced while its lists have commands for which a slow device has no room.
    Afterwards commands wait only if there is no room."""
    lun = hold.luns()[0]
    (lun.sysfs / "timeout").write_text("60", encoding="ascii")
    choose(hold, "prio")
    with load_on(lun.sd, **READS):
        set_param("refuse", 1)
        wait_for("commands in its lists", lambda: held(hold) >= 4)
        # The device takes longer than a change of policy waits for it.
        set_param("delay_us", 4000000)
        wait_for("slow commands", lambda: ends_nothing(hold) and held(hold) >= 4)
        choose(hold, "batch")
        set_param("delay_us", 1000)
    settle(hold)
    set_param("refuse", 1)
    fio(lun.sd, **READS | {"iodepth": 1, "runtime": 1})
    before = hold.stats()
    fio(lun.sd, **READS | {"iodepth": 1, "runtime": 1})
    stats = hold.stats()
    assert stats["done"] > before["done"] + 50 and stats["held_full"] == before["held_full"]
