# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 7.2
"""Dispatch policies: how a host chooses one, which commands "batch" holds, and that no held command
is lost.

smq_hold, the LLD, counts the commands that it gets. Every command must end exactly once.
"""
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from kit import cdb
from kit.debugfs import depths, doorbell, state
from kit.delay import udelay_ns
from kit.fiojob import fio, load_on, total_ios
from kit.hold import get_param, raise_depth, set_param, with_params
from kit.host import loaded, settle, under_way, wait_for
from kit.ramdir import ram_host
from kit.sanitizing import repeats
from kit.sgio import DID_TIME_OUT, SG_SCSI_RESET_DEVICE, SG_SCSI_RESET_HOST, SgDev
from kit.trace import traced

JOB = {"ioengine": "libaio", "rw": "randread", "bs": 4096, "iodepth": 32, "numjobs": 2,
       "time_based": True, "runtime": 600}
ONE = JOB | {"numjobs": 1, "cpus_allowed": "0"}
VERIFY = {"ioengine": "io_uring", "rw": "randwrite", "bs": 4096, "iodepth": 32,
          "size": f"{repeats(8)}m", "verify": "crc32c", "verify_fatal": 1}
# This doorbell is expensive on any machine, and takes so long that a slow machine can collect
# commands meanwhile.
DOORBELL_US = 200
EXPENSIVE = {"in_commit": 1, "doorbell_us": DOORBELL_US,
             "delay_us": 8000, "hw_queues": 1, "depth": 64}


def choose(host, policy, **limits):
    """Sets the limits of batch, and then a host's policy."""
    for name, value in limits.items():
        (host.sysfs / "smq_batch" / name).write_text(str(value), encoding="ascii")
    (host.sysfs / "smq/policy").write_text(policy, encoding="ascii")


def read(lun, seconds):
    """Sends a READ whose timeout is @seconds."""
    with SgDev(lun.sg) as sg:
        return sg.cmd(cdb.blocks(cdb.READ_10, 0, 8), din=4096, timeout_ms=1000 * seconds)


@pytest.mark.smoke
def test_choice_and_limits(ram, klog):
    assert ram.policy() == "direct" and ram.attr("can_queue") == "128"
    choose(ram, "batch", requests=1, bytes=512, usecs=1)
    assert ram.policy() == "batch"
    choose(ram, "batch", requests=4096, bytes=1 << 24, usecs=10000)
    for name, value, limits in (("requests", 0, "1..4096"), ("requests", 4097, "1..4096"),
                                ("bytes", 511, "512..16777216"), ("usecs", 0, "1..10000"),
                                ("usecs", 10001, "1..10000"), ("usecs", -1, "1..10000"),
                                ("bytes", "x", "512..16777216")):
        with pytest.raises(OSError):
            choose(ram, "batch", **{name: value})
        klog.wait(rf"smq_batch/{name}={value} is no number in {limits}")
    assert ram.attr("smq_batch/requests") == "4096"
    with pytest.raises(OSError):
        choose(ram, "batches")
    klog.wait("policy 'batches' is not known; known: direct, batch")
    choose(ram, "direct")
    assert ram.attr("can_queue") == "128" and depths(ram) == (128, 128, 128)


def test_more_is_advertised_for_an_expensive_doorbell():
    with ram_host() as (host_dir, host):
        host_dir.set("model/doorbell_ns", 200000)
        choose(host, "batch")
        assert host.attr("can_queue") == "128" and depths(host) == (128, 128, 128)
        with load_on(host.luns()[0].sd, **JOB):
            wait_for("a raised queue_depth", lambda: depths(host)[0] == 256)
            assert host.attr("can_queue") == "256" and depths(host) == (256, 128, 128)
            choose(host, "direct")
            assert host.attr("can_queue") == "128" and depths(host) == (128, 128, 128)
        # The policy does the same when it is chosen again.
        choose(host, "batch")
        with load_on(host.luns()[0].sd, **JOB):
            wait_for("a raised queue_depth", lambda: depths(host)[0] == 256)


def test_more_is_advertised_only_while_commands_are_held(hold):
    """More is advertised each time that the device is full and commands are held, and for a while
    after that."""
    choose(hold, "batch")
    for _ in range(2):
        assert depths(hold) == (16, 16, 16)
        raise_depth(hold, 16)
        assert depths(hold) == (32, 16, 16) and hold.attr("can_queue") == "32"
        start = time.monotonic()
        wait_for("the plain depth", lambda: depths(hold)[0] == 16, 20)
        assert time.monotonic() - start > 3 and hold.attr("can_queue") == "16"
    set_param("delay_us", 30000)
    with load_on(hold.luns()[0].sd, **JOB):
        wait_for("a full device", lambda: get_param("inflight") == 16)
        set_param("max_inflight", 0)
        raise_depth(hold, 16)
        wait_for("a full device", lambda: get_param("max_inflight") >= 16)
        time.sleep(0.5)
        assert get_param("max_inflight") == 16


@pytest.mark.limit(90)
def test_depth_holds_while_commands_beyond_it_are_in_flight(hold):
    """The policy has nothing to do, but commands for which more was advertised take 25 s: until
    they have ended, the policy stays effective and the device gets no more than its depth."""
    lun = hold.luns()[0]
    choose(hold, "batch")
    raise_depth(hold, 16)
    with ThreadPoolExecutor(48) as pool:
        # Two groups of the device's depth. The second one is slow; it begins when the first ends.
        # On a busy machine it takes a while until all of the second one are held.
        set_param("delay_us", 3_000_000)
        slow = [pool.submit(read, lun, 60) for _ in range(32)]
        wait_for("held commands", lambda: hold.stats()["held"] == 16)
        set_param("delay_us", 25_000_000)
        wait_for("the slow commands", lambda: hold.stats()["held"] == 0)
        wait_for("the plain depth", lambda: depths(hold)[0] == 16, 20)
        # smq_depth_lower() waits 2 s.
        time.sleep(3)
        assert get_param("inflight") == 16 and state(hold)["effective"] == "batch"
        set_param("max_inflight", 0)
        set_param("delay_us", 0)
        more = [pool.submit(read, lun, 60) for _ in range(16)]
        assert all(job.result().good for job in more)
        assert all(job.result().good for job in slow)
        assert get_param("max_inflight") <= 16
    wait_for("the end of the policy", lambda: state(hold)["effective"] == "direct", 20)


@pytest.mark.not_sanitized(
    "the number of commands that arrive while one is served depends on the CPU's speed")
@with_params(**EXPENSIVE | {"delay_us": 20000})
def test_expensive_doorbells_are_shared(hold):
    """Commands submitted one by one at QD32 need at most one doorbell for eight commands. On a busy
    machine a batch may end with fewer, because its time is over or the device has no commands left:
    one good attempt of six is enough. The hardware queue's counters show the same."""
    choose(hold, "batch", usecs=10000)
    disk = hold.luns()[0].sd
    with load_on(disk, **ONE):
        wait_for("an expensive doorbell", lambda: doorbell(hold)[1])
    for attempt in range(6):
        with traced() as trace:
            settle(hold)
            set_param("commits", 0)
            before = hold.hwqs()[0]
            fio(disk, **ONE | {"runtime": 1})
            settle(hold)
            commits, batches, held, done = (
                hold.hwqs()[0][name] - before[name]
                for name in ("commits", "dispatches", "dispatched", "done"))
        trace.check_once()
        print(f"attempt {attempt}: {get_param('commits')} doorbells, {done} commands, {held} held")
        assert commits >= get_param("commits")
        if get_param("commits") <= done / 8:
            break
    assert 0 < batches < held <= done
    # On a busy machine udelay() is measured as too long.
    assert doorbell(hold)[0] > 0.75 * min(udelay_ns(DOORBELL_US), DOORBELL_US * 1000)
    assert done > 100 and get_param("commits") <= done / 8


@pytest.mark.limit(120)
@with_params(**EXPENSIVE | {"delay_us": 0})
def test_slower_policy_runs_as_direct(hold):
    """A load that fills batches makes batch effective. Then ten slow commands keep the device from
    being idle: batch waits for a third of twelve commands, and the two of another load wait 10 ms
    for each doorbell. The layer finds out that direct ends more of them."""
    lun = hold.luns()[0]
    choose(hold, "batch", usecs=10000)
    with load_on(lun.sd, **ONE | {"iodepth": 40}):
        wait_for("batch", lambda: state(hold)["compared"] and not state(hold)["slower"] and
                 state(hold)["effective"] == "batch", 60)
    settle(hold)
    set_param("delay_us", 20_000_000)
    with ThreadPoolExecutor(10) as pool:
        slow = [pool.submit(read, lun, 60) for _ in range(10)]
        wait_for("the slow commands", lambda: get_param("inflight") == 10)
        set_param("delay_us", 0)
        with load_on(lun.sd, **ONE | {"iodepth": 2}):
            wait_for("direct", lambda: state(hold)["slower"] and
                     state(hold)["effective"] == "direct", 40)
        assert all(job.result().good for job in slow)
    settle(hold)


@with_params(**EXPENSIVE | {"delay_us": 0})
def test_timed_doorbells_are_counted(hold):
    """To time a doorbell, batch rings two: one for the commands before, and one for the command
    that it gave alone. The hardware queue's counters show both."""
    choose(hold, "batch", usecs=10000)

    def more():
        hwq = hold.hwqs()[0]
        return hwq["commits"] - hwq["done"]
    with load_on(hold.luns()[0].sd, **ONE | {"iodepth": 1}):
        wait_for("an expensive doorbell", lambda: doorbell(hold)[1])
        wait_for("the policy", lambda: state(hold)["effective"] == "batch")
        # Of 256 doorbells one is timed. A command in flight is a doorbell without an end, too.
        before = more()
        wait_for("two doorbells for one command, twice", lambda: more() > before + 2)


@with_params(**EXPENSIVE | {"delay_us": 1000000})
def test_time_and_bytes_end_a_batch(hold):
    """Commands wait behind slow ones until the limit of time or of bytes ends their batch."""
    lun = hold.luns()[0]
    choose(hold, "batch", usecs=10000)
    set_param("delay_us", 0)
    fio(lun.sd, **ONE | {"runtime": 1})
    set_param("delay_us", 400000)
    with load_on(lun.sd, **ONE | {"iodepth": 20}):
        # No slow command has ended yet: the limit of time ended the batches, not a completion.
        wait_for("20 commands with the device", lambda: get_param("inflight") == 20)
    choose(hold, "batch", bytes=4096, usecs=10000)
    set_param("commits", 0)
    before = settle(hold)["done"]
    set_param("delay_us", 1000)
    fio(lun.sd, **ONE | {"runtime": 1})
    # While batch looks whether it gains, commands ring as they are queued.
    assert get_param("commits") > 0.7 * (settle(hold)["done"] - before)


@pytest.mark.smoke
@pytest.mark.parametrize("hold", [{"depth": 1}, {"depth": 4}, {"depth": 4, "luns": 3},
                                  {"depth": 4, "in_commit": 1, "doorbell_us": 100}],
                         indirect=True, ids=["1", "4", "luns", "expensive"])
def test_more_is_advertised_than_the_device_gets(hold):
    luns, depth = hold.luns(), int(hold.attr("can_queue"))
    choose(hold, "batch")
    with traced() as trace:
        with load_on(":".join(lun.sd for lun in luns), **JOB) as load:
            under_way(luns[0], 20)
            raise_depth(hold, depth)
            assert depths(hold) == (2 * depth, depth, depth)
            set_param("max_inflight", 0)
            wait_for("full devices", lambda: get_param("max_inflight") > depth or len(luns) == 1)
            time.sleep(1)
        stats = settle(hold)
    assert trace.check_once() >= total_ios(load.result()) > 0
    assert depth < get_param("max_inflight") <= depth * len(luns) or len(luns) == 1
    assert get_param("max_inflight") <= depth * len(luns)
    # When the device is full the layer holds commands, and returns none as busy.
    assert stats["held_full"] > 0 == stats["busy"] == stats["timeouts"]


def test_a_refused_command_is_issued_again(hold):
    choose(hold, "batch")
    with traced() as trace:
        with load_on(hold.luns()[0].sd, **JOB) as load:
            for _ in range(5):
                set_param("refuse", 40)
                wait_for("40 refusals", lambda: get_param("refuse") == 0)
        stats = settle(hold)
    assert trace.check_once() >= total_ios(load.result())
    assert stats["busy"] == 0 and stats["held_full"] >= 200
    assert stats["timeouts"] == 0


@pytest.mark.smoke
def test_task_set_full_lowers_the_inner_depth():
    with ram_host() as (host_dir, host):
        lun = host.luns()[0]
        host_dir.set("model/service_ns", 2000000)
        choose(host, "batch")
        (lun.sysfs / "queue_ramp_up_period").write_text("50", encoding="ascii")
        before = settle(host)["errors"]
        with traced() as trace:
            with load_on(lun.sd, to_end=True, **VERIFY) as load:
                for name, value in (("count", repeats(20)), ("every", 53),
                                    ("kind", "task_set_full")):
                    host_dir.set(f"fault/{name}", value)
                wait_for("the last fault", lambda: host_dir.get("fault/count") == "0")
            stats = settle(host)
        assert trace.check_once() >= total_ios(load.result())
        advertised, inner, most = depths(host)
        assert advertised == 256 and most == 128 and inner < 128
        # The layer did not report TASK SET FULL to the mid-layer.
        assert stats["errors"] == before and stats["held_full"] >= repeats(20)
        with load_on(lun.sd, **JOB | {"iodepth": 4}):
            wait_for("a growing depth", lambda: depths(host)[1] > inner + 3)
        choose(host, "direct")
        assert depths(host)[0] == depths(host)[1]


def test_queue_depth_sets_the_inner_depth(hold):
    lun = hold.luns()[0]
    choose(hold, "batch")
    with load_on(lun.sd, **JOB):
        wait_for("a full device", lambda: get_param("max_inflight") == 16)
        raise_depth(hold, 16)
        (lun.sysfs / "queue_depth").write_text("3", encoding="ascii")
        wait_for("the excess to drain", lambda: get_param("inflight") <= 3)
        set_param("max_inflight", 0)
        wait_for("a full device", lambda: get_param("max_inflight") >= 3)
        time.sleep(0.5)
        assert get_param("max_inflight") == 3 and depths(hold) == (19, 3, 3)
    choose(hold, "direct")
    assert depths(hold)[0] == 3


@pytest.mark.limit(180)
@pytest.mark.parametrize("policy, hold", [
    ("batch", {"depth": 2}), ("bucket", EXPENSIVE | {"delay_us": 1000})], indirect=["hold"],
    ids=["batch", "bucket"])
def test_lost_commands_are_aborted_while_others_are_held(hold, policy):
    (hold.sysfs / "smq_bucket/share").write_text("0", encoding="ascii")
    choose(hold, policy)
    # sd sets a disk offline after two timeouts in a row, and a repeated command may time out again.
    for limit in hold.luns()[0].sysfs.glob("scsi_disk/*/max_medium_access_timeouts"):
        limit.write_text("1000", encoding="ascii")
    with traced() as trace:
        with load_on(hold.luns()[0].sd, **JOB):
            if policy == "batch":
                raise_depth(hold, 2)
            for repeat in range(1, repeats(6) + 1):
                set_param("lose", 1)
                wait_for("a timeout", lambda: hold.stats()["timeouts"] >= repeat, 60)
        stats = settle(hold, 30)
    trace.check_once()
    # A command that is lost again when it is repeated is not aborted; its LUN is reset.
    assert stats["aborts"] + stats["lun_resets"] >= repeats(6) == stats["timeouts"]
    assert stats["host_resets"] == 0


@pytest.mark.smoke
@pytest.mark.limit(90)
@with_params(depth=4)
def test_recovery_does_not_wait_for_the_timers_of_held_commands(hold):
    lun = hold.luns()[0]
    choose(hold, "batch")
    raise_depth(hold, 4)
    set_param("fail_abort", 1)
    with traced() as trace, ThreadPoolExecutor(8) as pool:
        set_param("lose", 4)
        lost = [pool.submit(read, lun, 3) for _ in range(4)]
        wait_for("lost commands", lambda: get_param("lose") == 0)
        held = [pool.submit(read, lun, 45) for _ in range(4)]
        wait_for("held commands behind them", lambda: hold.attr("smq/held") == "4")
        wait_for("the timeouts", lambda: hold.stats()["timeouts"] == 4)
        start = time.monotonic()
        wait_for("the recovery", lambda: hold.stats()["lun_resets"], 25)
        print(f"recovery began {1000 * (time.monotonic() - start):.0f} ms after the last timeout")
        assert {one.result().host for one in lost} == {DID_TIME_OUT}
        assert all(one.result().good for one in held)
        stats = settle(hold)
    trace.check_once()
    assert stats["timeouts"] == stats["aborts"] == 4 and stats["lun_resets"] == 1
    assert stats["held"] == stats["target_resets"] == 0


@pytest.mark.smoke
@with_params(depth=2)
@pytest.mark.parametrize("level, counter", [
    (SG_SCSI_RESET_DEVICE, "lun_resets"), (SG_SCSI_RESET_HOST, "host_resets")],
    ids=["lun", "host"])
def test_resets_end_held_commands(hold, level, counter):
    lun = hold.luns()[0]
    choose(hold, "batch")
    with traced() as trace:
        with load_on(lun.sd, **JOB), SgDev(lun.sg) as sg:
            under_way(lun, 20)
            raise_depth(hold, 2)
            for repeat in range(1, repeats(10) + 1):
                set_param("lose", 2)
                wait_for("held commands behind lost ones", lambda: get_param("lose") == 0 and int(
                    hold.attr("smq/held")) > 0)
                sg.reset(level)
                assert hold.stats()[counter] == repeat
        stats = settle(hold)
    trace.check_once()
    assert stats["reset_cmds"] > 2 * repeats(10) and stats["held"] == 0


def test_polled_commands_are_not_held():
    with loaded("smq_ram", poll_queues=1) as (host,):
        choose(host, "batch", usecs=10000)
        report = fio(host.luns()[0].sd, ioengine="io_uring", hipri=True, rw="randread", bs=4096,
                     iodepth=8, runtime=1, time_based=True)
        assert settle(host)["polled"] >= total_ios(report) > 0
