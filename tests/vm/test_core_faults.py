# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 7.2
"""Commands that the policy "batch" holds because their device is full: when they end, and which
operations wait for them. LUNs that are found while a policy holds commands. What an LLD tells the
layer about a LUN: its limits, its depth, and that it has room again."""
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from kit import cdb
from kit.child import FAILED, ended, spawn
from kit.debugfs import depths
from kit.deleted import delete, find_again
from kit.hold import get_param, raise_depth, set_param, with_params
from kit.host import seconds_of, settle, wait_for
from kit.ramdir import ram_host, ram_hosts
from kit.sanitizing import TIME_FACTOR
from kit.sgio import TASK_SET_FULL, SgDev

READ = cdb.blocks(cdb.READ_10, 0, 8)
# In seconds: longer than a command that is not held takes, and shorter than any timer, which is at
# least 40 s.
SOON = 20
# In seconds: how much later than with "direct" a command may fail with "batch".
LATER = 6


def choose(host, policy):
    """Sets a host's policy."""
    (host.sysfs / "smq/policy").write_text(policy, encoding="ascii")


def read(node, seconds):
    """Sends a READ with a timeout in seconds. Returns its status, or FAILED if it has a host
    byte."""
    with SgDev(node) as sg:
        got = sg.cmd(READ, din=4096, timeout_ms=1000 * seconds)
    return FAILED if got.host else got.status


@contextmanager
def full_devices(*policies):
    """A host of smq_ram for each policy, whose device answers TASK SET FULL for ever."""
    with ram_hosts(len(policies)) as hosts:
        for (host_dir, host), policy in zip(hosts, policies, strict=True):
            choose(host, policy)
            host_dir.arm("task_set_full")
        try:
            yield hosts
        finally:
            for host_dir, _ in hosts:
                host_dir.set("fault/kind", "none")


def wait_refused(host_dir):
    """Waits until the full device of a host has refused a command more than once."""
    wait_for("a refused command", lambda: int(host_dir.get("fault/injected")) > 1)


def wait_held(host, count=1):
    """Waits until @count commands are held."""
    wait_for(f"{count} held commands", lambda: host.attr("smq/held") == str(count))


def test_full_device_ends_a_command_as_without_policy():
    """The time in which the device refuses a command is part of the command's timeout. After the
    timeout the caller gets TASK SET FULL. With batch, a killed caller ends as soon as with
    direct."""
    with full_devices("direct", "batch") as hosts:
        start = time.monotonic()
        # On both nodes: a killed program that waits at the disk's node ends only when its command
        # ends.
        pids = {(policy, kind): spawn(lambda node=getattr(host.luns()[0], kind): read(node, 2))
                for policy, (_, host) in zip(("direct", "batch"), hosts, strict=True)
                for kind in ("sg", "sd")}
        wait_refused(hosts[0][0])
        wait_held(hosts[1][1], 2)
        for policy in ("direct", "batch"):
            os.kill(pids[policy, "sd"], signal.SIGKILL)
        try:
            assert ended(pids["direct", "sg"]) == TASK_SET_FULL
            assert ended(pids["direct", "sd"]) == -signal.SIGKILL
            took = time.monotonic() - start
            assert ended(pids["batch", "sg"], LATER) == TASK_SET_FULL
            assert ended(pids["batch", "sd"], LATER) == -signal.SIGKILL
            print(f"direct {took:.1f} s, batch {time.monotonic() - start:.1f} s")
            settle(hosts[1][1])
        finally:
            for host_dir, _ in hosts:
                host_dir.set("fault/kind", "none")


@with_params(depth=1)
def test_time_in_a_list_does_not_count_as_timeout(hold):
    """A command that was held for longer than its timeout, before it was issued for the first time,
    does not fail."""
    choose(hold, "batch")
    raise_depth(hold, 1)
    sg = hold.luns()[0].sg
    set_param("delay_us", 3500000)
    with ThreadPoolExecutor(2) as pool:
        slow = pool.submit(read, sg, 20)
        wait_for("a full device", lambda: get_param("inflight") == 1)
        set_param("delay_us", 100)
        assert read(sg, 2) == 0 == slow.result()


@pytest.mark.smoke
def test_removal_does_not_wait_for_the_timers_of_held_commands():
    """Three removals end soon: of a LUN with "direct", which holds nothing; of a LUN with "batch";
    and of a host with "batch"."""
    with ThreadPoolExecutor(3) as pool, full_devices("direct", "batch", "batch") as hosts:
        # If a removal waited, it would wait for the timers of the commands. The test could not end
        # it, because the directory of a host that is being removed is locked.
        pids = [spawn(lambda node=host.luns()[0].sg: read(node, 40 * TIME_FACTOR))
                for _, host in hosts]
        for host_dir, _ in hosts:
            wait_refused(host_dir)
        for _, host in hosts[1:]:
            wait_held(host)
        luns = [host.luns()[0].sysfs / "delete" for _, host in hosts]
        took = {"direct": pool.submit(seconds_of, lambda: luns[0].write_text("1", "ascii")),
                "batch": pool.submit(seconds_of, lambda: luns[1].write_text("1", "ascii")),
                "host": pool.submit(seconds_of, lambda: hosts[2][0].set("power", 0))}
        took = {name: one.result(60 * TIME_FACTOR) for name, one in took.items()}
        for pid in pids:
            ended(pid)
        print(took)
        assert max(took.values()) < SOON * TIME_FACTOR, took


@pytest.mark.smoke
def test_held_command_is_returned_before_its_timer_expires():
    """The layer returns a held command to the mid-layer after a second, long before its timer
    expires (60 s): the mid-layer has to decide for how long a command is repeated."""
    with full_devices("batch") as ((host_dir, host),):
        before = host.stats()["errors"]
        pid = spawn(lambda: read(host.luns()[0].sg, 60))
        wait_held(host)
        wait_for("the command to be returned", lambda: host.stats()["errors"] > before)
        host_dir.set("fault/kind", "none")
        assert ended(pid) == 0


@with_params(depth=1)
def test_command_behind_a_slow_one_is_returned_before_its_timer_expires(hold):
    choose(hold, "batch")
    raise_depth(hold, 1)
    sg = hold.luns()[0].sg
    set_param("delay_us", 5000000)
    before = hold.stats()["errors"]
    with ThreadPoolExecutor(2) as pool:
        slow = pool.submit(read, sg, 60)
        wait_for("a full device", lambda: get_param("inflight") == 1)
        set_param("delay_us", 100)
        behind = pool.submit(read, sg, 60)
        wait_held(hold)
        wait_for("the command to be returned", lambda: hold.stats()["errors"] > before)
        assert slow.result() == 0 == behind.result()


def test_freeze_ends_when_the_device_takes_held_commands():
    """When the elevator or nr_requests changes, the block layer waits for all commands. Held
    commands are issued, so the wait ends."""
    with full_devices("batch") as ((host_dir, host),), ThreadPoolExecutor(1) as pool:
        lun = host.luns()[0]
        for name, value in (("scheduler", "mq-deadline"), ("nr_requests", "16")):
            host_dir.arm("task_set_full")
            pid = spawn(lambda: read(lun.sg, 60))
            wait_held(host)
            change = pool.submit((lun.queue / name).write_text, value, "ascii")
            host_dir.set("fault/kind", "none")
            change.result(SOON * TIME_FACTOR)
            assert ended(pid) == 0


@pytest.mark.smoke
@with_params(depth=32, cmd_per_lun=4)
def test_a_lun_found_while_a_policy_holds_keeps_its_own_depth(hold):
    """The device of each LUN takes fewer commands than the host: the LUN is found with that depth,
    and the device never gets more."""
    assert depths(hold)[0] == 4
    choose(hold, "batch")
    lun = hold.luns()[0]
    delete(lun)
    lun = find_again(hold, lun)
    assert depths(hold) == (4, 4, 4)
    raise_depth(hold, 4)
    assert depths(hold) == (36, 4, 4)
    set_param("delay_us", 200000)
    set_param("max_inflight", 0)
    with ThreadPoolExecutor(12) as pool:
        assert not any(pool.map(read, [lun.sg] * 12, [20] * 12))
    assert get_param("max_inflight") == 4
    choose(hold, "direct")
    assert depths(hold) == (4, 4, 4)


def test_a_lun_added_while_more_is_advertised_advertises_more():
    """While a policy advertises more commands for a host's LUNs, it does so for a new LUN, too."""
    with ram_host(depth=32) as (host_dir, host):
        choose(host, "batch")
        host_dir.arm("task_set_full", count=1)
        assert not read(host.luns()[0].sg, 20)
        wait_for("a raised queue_depth", lambda: depths(host)[0] == 64)
        host_dir.add_lun(1, size_mb=64)
        # The policy advertises more for at least five seconds.
        wait_for("the new LUN", lambda: len(host.luns()) == 2)
        wait_for("the new LUN's queue_depth", lambda: depths(host, 1) == (64, 32, 32))
        host.wait_luns(2)
        choose(host, "direct")
        assert depths(host, 1) == (32, 32, 32)


@pytest.mark.smoke
@pytest.mark.parametrize("policy", ["direct", "batch"])
def test_waiting_commands_are_issued_when_their_lun_has_room(hold, policy):
    """When the LLD says that a LUN has room again, waiting commands are issued at once, although no
    other command of the LUN ends."""
    choose(hold, policy)
    lun = hold.luns()[0]
    (lun.sysfs / "timeout").write_text("60", encoding="ascii")
    set_param("delay_us", 8000000)
    with ThreadPoolExecutor(3) as pool:
        slow = pool.submit(read, lun.sg, 60)
        wait_for("a slow command", lambda: get_param("inflight") == 1)
        set_param("delay_us", 100)
        set_param("closed", 1)
        refused_before = sum(row["busy_device"] for row in hold.hwqs())
        waiting = [pool.submit(read, lun.sg, 60) for _ in range(2)]
        wait_for("a refusal", lambda: sum(row["busy_device"] for row in hold.hwqs()) >
                 refused_before)
        # Gives the layer time to return the refused commands to the mid-layer.
        time.sleep(0.1)
        set_param("closed", 0)
        assert [one.result(20) for one in waiting] == [0, 0]
        assert not slow.done(), "the waiting commands were issued only when the slow one ended"
        assert slow.result() == 0


@pytest.mark.parametrize("policy", ["direct", "batch"])
def test_a_driver_that_refuses_is_waited_for(hold, policy):
    """A command that the LLD refuses for many times its timeout waits, with and without a policy
    that holds commands. It has no retries."""
    choose(hold, policy)
    with SgDev(hold.luns()[0].sg) as dev, ThreadPoolExecutor(1) as pool:
        set_param("closed", 1)
        job = pool.submit(dev.cmd, cdb.blocks(cdb.READ_10, 0, 8), din=4096, timeout_ms=1000)
        time.sleep(4)
        assert not job.done()
        set_param("closed", 0)
        assert job.result(20).good


def test_lun_that_was_deleted_may_have_room(hold):
    """The LLD says that a LUN has room after the LUN was deleted: the reference that the LLD has is
    enough."""
    lun = hold.luns()[0]
    set_param("closed", 1)
    set_param("room_ms", 1500)
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(set_param, "closed", 0)
        time.sleep(0.3)
        delete(lun)
        assert not opening.done()
        opening.result(20)
    set_param("room_ms", 0)
    assert read(find_again(hold, lun).sg, 20) == 0


@with_params(depth=32)
def test_lld_sets_limits_of_a_new_lun(hold):
    """When a LUN is found the LLD sets its limits and its depth, or refuses the LUN. The LLD can
    set the depth also while a policy advertises more than the device takes."""
    lun = hold.luns()[0]
    segments = (lun.queue / "max_segments").read_text("ascii").strip()
    set_param("lun_depth", 4)
    set_param("lun_segments", 7)
    for policy in ("direct", "batch"):
        choose(hold, policy)
        delete(lun)
        lun = find_again(hold, lun)
        assert depths(hold)[0] == 4
        assert (lun.queue / "max_segments").read_text("ascii").strip() == "7" != segments
    raise_depth(hold, 4)
    delete(lun)
    lun = find_again(hold, lun)
    # The policy advertises more for at least five seconds. On a slow machine this time may be over
    # by now, so the next line makes the policy advertise more again.
    raise_depth(hold, 4)
    assert depths(hold) == (36, 4, 4)
    choose(hold, "direct")
    set_param("no_lun", 1)
    delete(lun)
    (hold.sysfs / "scan").write_text("0 0 0", encoding="ascii")
    assert not hold.luns()
    set_param("no_lun", 0)
    find_again(hold, lun)


@with_params(depth=1500, cmd_per_lun=32)
def test_map_of_commands_has_room_for_all_advertised_commands(hold):
    """When the LLD changes a LUN's depth, the mid-layer may replace the LUN's map of commands by a
    map with room for only can_queue commands. So the layer replaces the map first, by a map with
    room for the 256 more commands that a policy may hold."""
    set_param("lun_depth", 1400)
    choose(hold, "batch")
    lun = hold.luns()[0]
    delete(lun)
    find_again(hold, lun)
    raise_depth(hold, 1400)
    assert depths(hold) == (1656, 1400, 1400)
    (hold.luns()[0].sysfs / "queue_depth").write_text("1450", encoding="ascii")
    assert depths(hold) == (1706, 1450, 1450)
    choose(hold, "direct")
    assert depths(hold)[0] == 1450
