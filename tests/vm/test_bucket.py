# SPDX-License-Identifier: GPL-2.0
"""The policy "bucket": one CPU at a time dispatches the commands of all CPUs, and no command that
the other CPUs leave in their buckets is lost. test_pvscsi.py and test_virtio.py run the policy on
their devices."""
import os
import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from kit import cdb, debugfs
from kit.fiojob import fio, load_on, total_ios
from kit.hold import get_param, set_param, with_params
from kit.host import loaded, settle, under_way, wait_for
from kit.ramdir import ram_host
from kit.sanitizing import TIME_FACTOR, repeats
from kit.sgio import DID_RESET, SG_SCSI_RESET_DEVICE, SG_SCSI_RESET_HOST, SgDev
from kit.trace import traced

pytestmark = pytest.mark.skipif(os.cpu_count() < 2, reason="needs two CPUs")

# One job on each of two CPUs.
TWO = {"numjobs": 2, "cpus_allowed": "0,1", "cpus_allowed_policy": "split"}
JOB = TWO | {"ioengine": "libaio", "rw": "randread", "bs": 4096, "iodepth": 16,
             "time_based": True, "runtime": 600}
ONE = JOB | {"numjobs": 1, "cpus_allowed": "0"}
VERIFY = TWO | {"ioengine": "io_uring", "rw": "randwrite", "bs": 4096, "iodepth": 32,
                "size": f"{repeats(4)}m", "offset_increment": "16m", "verify": "crc32c",
                "verify_fatal": 1}
# A dispatcher stays busy for a while, because its doorbell costs CPU time.
SLOW = {"in_commit": 1, "doorbell_us": 200, "delay_us": 1000, "hw_queues": 1, "depth": 64}
DOORBELL_NS = 100000
# For tests that watch a busy dispatcher: they set how long its doorbell takes.
STUCK = {"in_commit": 1, "doorbell_us": 0, "delay_us": 1000, "hw_queues": 1, "depth": 16}
EVENT = re.compile(r"\[(\d+)\] .* (smq_queue|smq_done): host=\d+ hwq=0 tag=(\d+) ")


@pytest.fixture(name="shared")
def shared_fixture(hold):
    """smq_hold with one hardware queue. Without an elevator each CPU dispatches for itself."""
    for lun in hold.luns():
        elevator(lun, "none")
    return hold


def choose(host, policy="bucket", **knobs):
    """Sets the policy's settings, then a host's policy. Unless a test sets share, the policy stays
    effective."""
    for name, value in ({"share": 0} | knobs).items():
        (host.sysfs / "smq_bucket" / name).write_text(str(value), encoding="ascii")
    (host.sysfs / "smq/policy").write_text(policy, encoding="ascii")
    if policy == "bucket" and not knobs.get("share"):
        wait_for("the policy", lambda: debugfs.state(host)["effective"] == "bucket")


def elevator(lun, name):
    """Sets the scheduler of a LUN's disk."""
    (lun.queue / "scheduler").write_text(name, encoding="ascii")


def counters(host):
    """The policy's counters of hardware queue 0."""
    return debugfs.policy(host)


def effective(host):
    """The host's effective policy."""
    return debugfs.state(host)["effective"]


def stays_effective(host):
    """Whether "bucket" stays effective for longer than a look takes."""
    return all(effective(host) == "bucket" and not time.sleep(0.1 * TIME_FACTOR) for _ in range(5))


def read(lun, cpu, seconds=30):
    """Sends a READ from a CPU."""
    os.sched_setaffinity(0, {cpu})
    with SgDev(lun.sg) as sg:
        return sg.cmd(cdb.blocks(cdb.READ_10, 0, 8), din=4096, timeout_ms=1000 * seconds)


def flush(disk, cpu):
    """Flushes an open disk's cache from a CPU."""
    os.sched_setaffinity(0, {cpu})
    os.fsync(disk.fileno())


@pytest.fixture(name="on_cpu_1")
def on_cpu_1_fixture():
    """Runs the test on CPU 1, so that it does not disturb a dispatcher that is busy on CPU 0."""
    os.sched_setaffinity(0, {1})
    yield
    os.sched_setaffinity(0, range(os.cpu_count()))


@pytest.fixture(name="queue", scope="module")
def queue_fixture():
    """A host with one hardware queue whose doorbell costs as much as a command."""
    with ram_host(hw_queues=1) as (host_dir, host):
        host_dir.set("model/doorbell_ns", DOORBELL_NS)
        yield host_dir, host
        settle(host)


@pytest.mark.smoke
def test_choice_and_settings(queue, klog):
    _, ram = queue
    assert (ram.attr("smq_bucket/budget"), ram.attr("smq_bucket/share")) == ("64", "16")
    choose(ram, budget=4096, share=1024)
    assert ram.policy() == "bucket"
    for name, value, limits in (("budget", 0, "1..4096"), ("budget", 4097, "1..4096"),
                                ("share", -1, "0..1024"), ("share", 1025, "0..1024")):
        with pytest.raises(OSError):
            choose(ram, **{name: value})
        klog.wait(rf"smq_bucket/{name}={value} is no number in {limits}")
    # The policy does not advertise more commands than the device takes.
    assert ram.attr("can_queue") == "128" and debugfs.depths(ram) == (128, 128, 128)
    choose(ram, "direct")


@pytest.mark.smoke
@pytest.mark.parametrize("scheduler", ["none", "mq-deadline"])
def test_verified_io_from_two_cpus(queue, scheduler):
    _, host = queue
    lun = host.luns()[0]
    elevator(lun, scheduler)
    choose(host)
    with traced() as trace:
        report = fio(lun.sd, **VERIFY)
        settle(host)
    assert trace.check_once() >= total_ios(report)
    row = counters(host)
    print(row)
    assert 0 < row["by_other"] < row["all"] and row["held"] == 0


def test_dispatchers_hand_over_with_a_budget_of_one(queue):
    _, host = queue
    lun = host.luns()[0]
    elevator(lun, "none")
    choose(host, budget=1)
    before = counters(host)["handovers"]
    with traced() as trace:
        report = fio(lun.sd, **VERIFY)
        settle(host)
    assert trace.check_once() >= total_ios(report)
    assert counters(host)["handovers"] > before and counters(host)["held"] == 0
    choose(host, budget=64)


@pytest.mark.smoke
def test_switching_and_freezing_under_verified_load(queue):
    _, host = queue
    lun = host.luns()[0]
    with traced() as trace:
        with load_on(lun.sd, **VERIFY | {"loops": 100000}) as load:
            under_way(lun)
            for turn in range(repeats(24)):
                choose(host, ("bucket", "direct", "bucket", "batch")[turn % 4],
                       budget=(1, 64)[turn % 8 // 4])
                if turn % 3 == 0:
                    elevator(lun, ("none", "mq-deadline")[turn % 2])
            assert load.running
        settle(host)
    assert trace.check_once() >= total_ios(load.result())
    choose(host, budget=64)


def test_order_is_kept_within_a_cpu(queue):
    """If its hardware model has no delays, smq_ram executes a command when the layer issues it. So
    commands of a CPU complete in the order in which the CPU queued them."""
    host_dir, host = queue
    lun = host.luns()[0]
    elevator(lun, "none")
    choose(host)
    host_dir.set("model/doorbell_ns", 0)
    with traced() as trace:
        fio(lun.sd, **JOB | {"ioengine": "io_uring", "bs": 65536, "runtime": 2,
                             "iodepth_batch": 8})
        settle(host)
    host_dir.set("model/doorbell_ns", DOORBELL_NS)
    trace.check_once()
    queued, last, elsewhere = {}, {}, 0
    events = EVENT.findall(trace.text)
    for number, (cpu, event, tag) in enumerate(events):
        if event == "smq_queue":
            queued[tag] = (cpu, number)
            continue
        home, since = queued.pop(tag)
        assert since > last.get(home, -1), f"tag {tag} of CPU {home} was overtaken"
        last[home] = since
        elsewhere += cpu != home
    print(f"{elsewhere} of {len(events) // 2} commands were dispatched by another CPU")
    assert len(last) >= 2 and elsewhere > 20


@with_params(**SLOW)
def test_one_submitter_runs_as_direct(shared):
    """The policy is effective only while two CPUs submit commands."""
    disk = shared.luns()[0].sd
    choose(shared, share=16)
    with load_on(disk, **ONE):
        under_way(shared.luns()[0])
        wait_for("direct", lambda: effective(shared) == "direct")
    with load_on(disk, **JOB):
        wait_for("the policy to stay effective", lambda: stays_effective(shared), 15)
    with load_on(disk, **ONE):
        under_way(shared.luns()[0])
        wait_for("direct", lambda: effective(shared) == "direct", 15)
    settle(shared)


@with_params(**STUCK)
@pytest.mark.usefixtures("on_cpu_1")
def test_flushes_do_not_wait_in_buckets(shared):
    """A dispatcher on CPU 0 rings a slow doorbell. A flush from CPU 1 does not wait in a bucket
    until that dispatcher takes it."""
    lun = shared.luns()[0]
    for cache in lun.sysfs.glob("scsi_disk/*/cache_type"):
        cache.write_text("temporary write back", encoding="ascii")
    choose(shared)
    with ThreadPoolExecutor(2) as pool, open(lun.sd, "wb", buffering=0) as disk:
        for _ in range(8):
            set_param("doorbell_us", 200000)
            set_param("delay_us", 500000)
            first = pool.submit(read, lun, 0)
            wait_for("the dispatcher", lambda: get_param("inflight") == 1)
            rings = time.monotonic()
            # The doorbell that CPU 1 rings for the flush takes no time.
            set_param("doorbell_us", 0)
            second = pool.submit(flush, disk, 1)
            wait_for("both commands", lambda: get_param("inflight") == 2)
            after = time.monotonic() - rings
            set_param("delay_us", 1000)
            first.result()
            second.result()
            print(f"the device got the flush {after:.3f} s after the dispatcher's READ")
            if after < 0.1:
                break
    settle(shared)
    assert after < 0.1


@with_params(**STUCK)
@pytest.mark.parametrize("level, counter", [
    (SG_SCSI_RESET_DEVICE, "lun_resets"), (SG_SCSI_RESET_HOST, "host_resets")],
    ids=["lun", "host"])
@pytest.mark.smoke
def test_resets_end_commands_in_buckets(shared, level, counter):
    """While a dispatcher on CPU 0 rings a slow doorbell, a command waits in CPU 1's bucket. A reset
    ends both commands."""
    lun = shared.luns()[0]
    choose(shared)
    with traced() as trace, ThreadPoolExecutor(2) as pool, SgDev(lun.sg) as sg:
        set_param("doorbell_us", 200000)
        # The first command is still with the device at the reset.
        set_param("delay_us", 5000000)
        found = 0
        for tries in range(1, 9):
            first = pool.submit(read, lun, 0)
            wait_for("the dispatcher", lambda: get_param("inflight") == 1)
            second = pool.submit(read, lun, 1)
            # On a busy machine CPU 1 may submit its command only after the doorbell. Or the command
            # may have been held for more than a second when the reset begins: by then the layer has
            # returned it to the mid-layer, which queues it again.
            wait_for("both commands",
                     lambda: counters(shared)["held"] == 1 or get_param("inflight") == 2)
            waits = counters(shared)["held"]
            sg.reset(level)
            assert shared.stats()[counter] == tries
            hosts = [first.result().host, second.result().host]
            assert hosts[0] == DID_RESET
            found += hosts.count(DID_RESET)
            if waits and hosts[1] == DID_RESET:
                break
        set_param("doorbell_us", 0)
        set_param("delay_us", 1000)
        stats = settle(shared)
    trace.check_once()
    assert waits == 1 and hosts[1] == DID_RESET
    assert stats["reset_cmds"] == found and stats["held"] == 0


@pytest.mark.limit(120)
@with_params(**SLOW)
def test_lost_commands_are_aborted(shared):
    choose(shared)
    for limit in shared.luns()[0].sysfs.glob("scsi_disk/*/max_medium_access_timeouts"):
        limit.write_text("1000", encoding="ascii")
    with traced() as trace:
        with load_on(shared.luns()[0].sd, **JOB):
            for repeat in range(1, repeats(4) + 1):
                set_param("lose", 1)
                wait_for("a timeout", lambda: shared.stats()["timeouts"] >= repeat, 60)
        stats = settle(shared, 30)
    trace.check_once()
    assert stats["aborts"] + stats["lun_resets"] >= repeats(4) == stats["timeouts"]
    assert stats["host_resets"] == stats["held"] == 0


@with_params(**SLOW)
def test_refused_commands_are_retried(shared):
    """The LLD refuses commands. If a refused command was dispatched from a bucket, the layer holds
    it. If the policy passed it to the LLD at once, the layer returns it to the mid-layer, as with
    direct."""
    choose(shared)
    with traced() as trace:
        with load_on(shared.luns()[0].sd, **JOB) as load:
            under_way(shared.luns()[0], 20)
            for _ in range(5):
                set_param("refuse", 40)
                wait_for("40 refusals", lambda: get_param("refuse") == 0)
            under_way(shared.luns()[0], 20)
        stats = settle(shared)
    assert trace.check_once() >= total_ios(load.result())
    assert stats["held_full"] + stats["busy"] >= 200 > stats["timeouts"] == stats["held"] == 0


@pytest.mark.smoke
def test_host_removed_under_load():
    with loaded("smq_hold", io_errors=True, **SLOW) as (host,):
        lun = host.luns()[0]
        elevator(lun, "none")
        choose(host)
        with load_on(lun.sd, ok=False, **JOB) as load:
            under_way(lun, 50)
            wait_for("commands in buckets", lambda: counters(host)["by_other"] > 0)
            set_param("remove", 1)
            assert not host.sysfs.exists()
            load.kill()
        assert get_param("inflight") == 0
