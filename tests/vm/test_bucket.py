# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 7.2
"""The policy "bucket": one CPU at a time rings the doorbell, also for the commands of other CPUs,
and no command is left without a doorbell. test_pvscsi.py and test_virtio.py run the policy on their
devices."""
import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from kit import cdb, debugfs
from kit.fiojob import fio, load_on, total_ios
from kit.hold import get_param, set_param, with_params
from kit.host import settle, under_way, wait_for
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
# A doorbell costs CPU time.
SLOW = {"in_commit": 1, "doorbell_us": 200, "delay_us": 1000, "hw_queues": 1, "depth": 64}
DOORBELL_NS = 100000
# For tests that watch a CPU that rings: they set how long its doorbell takes.
STUCK = {"in_commit": 1, "doorbell_us": 0, "delay_us": 1000, "hw_queues": 1, "depth": 16}


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


@pytest.fixture(name="on_cpu_1")
def on_cpu_1_fixture():
    """Runs the test on CPU 1, so that it does not disturb CPU 0, which rings."""
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
    assert 0 < row["shared"] < row["rung"]


@pytest.mark.not_uml("needs two CPUs that run at the same time")
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


def both_queued(host):
    """Lets CPU 0 ring a slow doorbell for a READ, and CPU 1 queue another one meanwhile. Returns
    the results that will come, and how many doorbells were rung when both commands were queued."""
    lun = host.luns()[0]
    pool = ThreadPoolExecutor(2)
    before = get_param("commits")
    first = pool.submit(read, lun, 0)
    wait_for("the doorbell", lambda: get_param("commits") > before)
    second = pool.submit(read, lun, 1)
    wait_for("both commands", lambda: host.stats()["queued"] - host.stats()["done"] == 2)
    pool.shutdown(wait=False)
    return first, second, get_param("commits") - before


@with_params(**STUCK)
@pytest.mark.usefixtures("on_cpu_1")
def test_doorbell_is_left_to_the_cpu_that_rings(shared):
    """CPU 0 rings a slow doorbell. CPU 1 queues a command and goes on: CPU 0 rings for it."""
    choose(shared)
    set_param("doorbell_us", 200000)
    for _ in range(8):
        shared_before = counters(shared)["shared"]
        first, second, rung = both_queued(shared)
        set_param("doorbell_us", 0)
        assert first.result().status == second.result().status == 0
        set_param("doorbell_us", 200000)
        # On a busy machine CPU 1 may queue its command only after the doorbell.
        if rung == 1 and counters(shared)["shared"] == shared_before + 1:
            break
    else:
        pytest.fail("no doorbell was shared in eight tries")
    set_param("doorbell_us", 0)
    settle(shared)


@with_params(**STUCK)
@pytest.mark.parametrize("level, counter", [
    (SG_SCSI_RESET_DEVICE, "lun_resets"), (SG_SCSI_RESET_HOST, "host_resets")],
    ids=["lun", "host"])
@pytest.mark.smoke
def test_resets_end_commands_without_a_doorbell(shared, level, counter):
    """While CPU 0 rings a slow doorbell, a command of CPU 1 waits for the next one. A reset ends
    both commands."""
    lun = shared.luns()[0]
    choose(shared)
    with traced() as trace, SgDev(lun.sg) as sg:
        set_param("doorbell_us", 200000)
        # The first command is still with the device at the reset.
        set_param("delay_us", 5000000)
        first, second, _ = both_queued(shared)
        sg.reset(level)
        assert shared.stats()[counter] == 1
        assert [first.result().host, second.result().host] == [DID_RESET, DID_RESET]
        set_param("doorbell_us", 0)
        set_param("delay_us", 1000)
        stats = settle(shared)
    trace.check_once()
    assert stats["reset_cmds"] == 2 and stats["held"] == 0
