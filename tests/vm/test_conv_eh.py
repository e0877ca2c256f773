# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 7.2
"""smq_conv: the lower host does the error handling. Upper commands wait while the lower host
recovers, while it has no free tag, and while the lower queue is stopped."""
import errno
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from kit import conv, debugfs
from kit.conv import claim, write
from kit.fiojob import fio, load_on, total_ios
from kit.hold import get_param, set_param
from kit.host import load, loaded, under_way, unload, wait_for
from kit.ramdir import ram_host
from kit.sgio import (DID_NO_CONNECT, DID_RESET, DID_TIME_OUT, SG_SCSI_RESET_DEVICE,
                      SG_SCSI_RESET_HOST, SG_SCSI_RESET_TARGET, SgDev)

READ = bytes.fromhex("28000000000000000800")
LEVELS = (SG_SCSI_RESET_DEVICE, SG_SCSI_RESET_TARGET, SG_SCSI_RESET_HOST)
VERIFIED = {"ioengine": "io_uring", "rw": "randwrite", "bsrange": "512-64k", "iodepth": 32,
            "size": "4m", "offset_increment": "8m", "verify": "crc32c", "verify_fatal": 1}
# In milliseconds: a command's timer does not expire before the test ends the command.
FOREVER = 60000


@pytest.fixture(name="held")
def held_fixture():
    """A claimed LUN of smq_hold, its host, and the upper LUN."""
    with loaded("smq_hold", io_errors=True, delay_us=500) as (host,), \
            conv.module(io_errors=True):
        lower, = host.luns()
        upper = claim(lower)
        yield lower, host, upper
        conv.all_done(upper)
        conv.release(lower)
        assert get_param("inflight") == 0


def send_lost(upper):
    """Sends, in a thread, a READ that the device loses; returns its future."""
    set_param("lose", 1)
    pool = ThreadPoolExecutor(1)

    def read():
        with SgDev(upper.sg) as sg:
            return sg.cmd(READ, din=4096, timeout_ms=FOREVER)
    job = pool.submit(read)
    wait_for("the command to be with the device", lambda: get_param("inflight") == 1)
    return job


@pytest.mark.smoke
@pytest.mark.parametrize("level", LEVELS, ids=["lun", "target", "host"])
def test_reset_ends_commands_in_flight(held, level):
    """A reset of the upper LUN makes the lower host abort the command in flight. With nothing in
    flight the reset fails with EIO."""
    _, host, upper = held
    with SgDev(upper.sg) as sg:
        job = send_lost(upper)
        before = host.stats()
        sg.reset(level)
        result = job.result(30)
        assert result.host == DID_RESET
        assert host.stats()["aborts"] == before["aborts"] + 1
        with pytest.raises(OSError) as error:
            sg.reset(level)
        assert error.value.errno == errno.EIO
        assert sg.cmd(READ, din=4096).good
    assert host.stats()["lun_resets"] == before["lun_resets"]


def test_reset_of_the_lower_device(held):
    """A reset through the lower device's own node ends a command of the upper LUN with
    DID_RESET."""
    lower, host, upper = held
    job = send_lost(upper)
    with SgDev(lower.sg) as sg:
        sg.reset(SG_SCSI_RESET_DEVICE)
    assert job.result(30).host == DID_RESET
    assert host.stats()["lun_resets"] == 1


@pytest.mark.limit(120)
def test_upper_host_waits_for_the_lower_recovery(held):
    """All steps of the lower host's recovery fail, except the last one. Meanwhile the timers of
    upper commands start again when they expire, and the upper host resets nothing."""
    lower, host, upper = held
    for name in ("fail_abort", "fail_lun_reset", "fail_target_reset"):
        set_param(name, 1)
    set_param("reset_ms", 1500)
    (upper.sysfs / "timeout").write_text("1", encoding="ascii")
    set_param("lose", 1)
    try:
        # The upper mid-layer repeats block I/O.
        fio(upper.sd, rw="randread", bs=4096, iodepth=8, ioengine="libaio", number_ios=200,
            size="8m")
    finally:
        for name in ("fail_abort", "fail_lun_reset", "fail_target_reset", "reset_ms"):
            set_param(name, 0)
    above = conv.all_done(upper)
    assert host.stats()["host_resets"] >= 1 and above["aborts"] >= 1
    assert above["lun_resets"] == above["host_resets"] == 0
    assert (lower.sysfs / "state").read_text(encoding="ascii") == "running\n"
    assert (upper.sysfs / "state").read_text(encoding="ascii") == "running\n"


@pytest.mark.parametrize("how", ["block", "quiesce", "stop"])
def test_commands_wait_while_the_lower_queue_is_stopped(held, how):
    """Upper commands wait while the lower queue is stopped, even when their timers expire. If the
    queue is quiesced, they may fail instead."""
    lower, _, upper = held
    load("smq_quiesce")
    knob = f"/sys/module/smq_quiesce/parameters/{how}"
    try:
        with ThreadPoolExecutor(1) as pool, SgDev(upper.sg) as sg:
            write(knob, lower.address)
            job = pool.submit(sg.cmd, READ, din=4096, timeout_ms=500)
            time.sleep(2.5)
            done = job.done()
            write(knob, "\n")
            # A command that has not reached a driver may fail once its timeout is over.
            assert job.result(20).good or how == "quiesce"
            assert not done or how == "quiesce"
            assert sg.cmd(READ, din=4096).good
    finally:
        unload("smq_quiesce")


def test_commands_fail_while_the_lower_device_is_offline(held):
    """While the lower device is offline, upper commands end with DID_NO_CONNECT."""
    lower, _, upper = held
    with SgDev(upper.sg) as sg:
        write(lower.sysfs / "state", "offline\n")
        assert sg.cmd(READ, din=4096).host == DID_NO_CONNECT
        write(lower.sysfs / "state", "running\n")
        assert sg.cmd(READ, din=4096).good


@pytest.mark.smoke
@pytest.mark.limit(180)
def test_resets_and_policies_under_verified_load():
    """Resets through the upper and the lower node end commands, under every policy, and verified
    I/O stays right."""
    with ram_host(luns=2, hw_queues=1) as (host_dir, host), conv.module(io_errors=True):
        host_dir.set("model/service_ns", 200000)
        lower, other = host.luns()
        uppers = claim(lower), claim(other)
        above = conv.host_of(uppers[0])
        policies = above.attr("smq/policy").replace("[", "").replace("]", "").split()
        assert {"direct", "batch", "bucket", "prio", "steer"} <= set(policies)
        options = VERIFIED | {"loops": 2, "numjobs": 2, "size": "2m"}
        with load_on(uppers[0].sd, to_end=True, limit=150, **options), \
                load_on(uppers[1].sd, to_end=True, limit=150, **options), \
                SgDev(uppers[0].sg) as sg, SgDev(lower.sg) as below:
            under_way(uppers[0], 50)
            for number in range(15):
                write(above.sysfs / "smq/policy", policies[number % len(policies)])
                for dev in (sg, below) if number % 3 else (sg,):
                    try:
                        dev.reset(LEVELS[number % len(LEVELS)])
                    except OSError as error:
                        assert error.errno == errno.EIO
                time.sleep(0.1)
            write(above.sysfs / "smq/policy", "direct")
        host_dir.set("model/service_ns", 0)
        stats = conv.all_done(uppers[0])
        print(stats)
        assert stats["lun_resets"] and stats["host_resets"] and stats["target_resets"]
        conv.release(lower)
        conv.release(other)


@pytest.mark.limit(180)
def test_lost_commands_under_verified_load():
    """smq_ram loses commands. The lower host aborts each lost command, and the upper mid-layer
    retries it."""
    with ram_host(timeout=1) as (host_dir, host), conv.module(io_errors=True):
        lower, = host.luns()
        upper = claim(lower)
        (upper.sysfs / "timeout").write_text("1", encoding="ascii")
        host_dir.arm("lost", every=200, count=5)
        total = total_ios(fio(upper.sd, limit=150, **VERIFIED | {"loops": 4}))
        host_dir.arm("none")
        assert total > 1000 and host.stats()["aborts"] == 5
        above = conv.all_done(upper)
        assert above["aborts"] == 5 and above["lun_resets"] == 0
        conv.release(lower)


def read_once(lun):
    """Reads a block by block I/O: the mid-layer repeats it after a timeout."""
    fio(lun.sd, rw="read", bs=4096, ioengine="psync", size=4096, limit=90)


def steps_of_two_timeouts(host_dir, host, lun):
    """Loses a READ and its first repetition. Returns how often the host's driver was asked for each
    step of error handling."""
    (lun.sysfs / "timeout").write_text("1", encoding="ascii")
    before = host.stats()
    host_dir.arm("lost", every=1, count=2)
    read_once(lun)
    host_dir.arm("none")
    after = host.stats()
    return {name: after[name] - before[name]
            for name in ("aborts", "lun_resets", "target_resets", "host_resets")}


@pytest.mark.limit(180)
@pytest.mark.parametrize("last, failing", [
    ("lun_resets", ()), ("target_resets", ("fail_lun_reset",)),
    ("host_resets", ("fail_lun_reset", "fail_target_reset"))])
def test_second_timeout_escalates_as_on_a_bare_disk(last, failing):
    """When the repetition of an aborted command times out as well, the lower host resets the LUN,
    and then the target and the host if that fails: the same steps bare and claimed."""
    with ram_host(timeout=1) as (host_dir, host), conv.module(io_errors=True):
        for knob in failing:
            host_dir.set(f"fault/{knob}", -1)
        lower, = host.luns()
        bare = steps_of_two_timeouts(host_dir, host, lower)
        upper = claim(lower)
        assert steps_of_two_timeouts(host_dir, host, upper) == bare
        assert bare["aborts"] == 1 and bare[last] == 1
        above = conv.all_done(upper)
        assert above["aborts"] == 2 and above["lun_resets"] == above["host_resets"] == 0
        conv.release(lower)


@pytest.mark.limit(120)
def test_three_luns_share_four_tags():
    """Three LUNs, one of them unclaimed, share the four tags of a lower host. I/O on each LUN
    completes."""
    with loaded("scsi_debug", names=("add_host", "max_luns"), luns=3, max_queue=4, dev_size_mb=32,
                ndelay=1000000) as (host,), conv.module():
        first, second, bare = host.luns()
        uppers = claim(first), claim(second)
        options = VERIFIED | {"size": "1m"}
        with load_on(uppers[0].sd, to_end=True, **options), \
                load_on(uppers[1].sd, to_end=True, **options):
            fio(bare.sd, offset="16m", rw="randread", bs=4096, ioengine="libaio", iodepth=8,
                number_ios=500, size="1m")
        assert conv.all_done(uppers[0])["busy"] > 0
        conv.release(first)
        conv.release(second)


@pytest.mark.limit(120)
def test_tags_shared_with_a_bare_lun():
    """The host has one tag. Commands for the unclaimed LUN sleep until they get the tag, each in
    its turn. Commands of the upper LUN try to get it once or twice, and then sleep in the same
    way."""
    with loaded("scsi_debug", names=("add_host", "max_luns"), luns=2, max_queue=1, dev_size_mb=32,
                ndelay=1000000) as (host,), conv.module():
        lower, bare = host.luns()
        upper = claim(lower)
        read = {"rw": "randread", "bs": 4096, "ioengine": "libaio", "iodepth": 8, "size": "8m"}
        with load_on(bare.sd, time_based=True, runtime=600, **read) as job:
            under_way(bare, 20)
            before, busy = conv.dispatched(bare), conv.host_of(upper).stats()["busy"]
            fio(upper.sd, number_ios=150, **read)
            others = conv.dispatched(bare) - before
            busy = conv.host_of(upper).stats()["busy"] - busy
            print(others, busy)
            # Normally the layer tries about 370 times in vain. If it did nothing but try again
            # every 3 ms, it would try 1000 times.
            assert busy < 5 * 150
            # A release ends although the other LUN's load always uses the tag.
            conv.release(lower)
            assert job.running


def test_batches_reach_the_lower_host_whole():
    """Upper commands that are submitted together reach the lower host as one batch, with one
    doorbell."""
    with ram_host(hw_queues=2) as (_, host), conv.module():
        lower, = host.luns()
        upper = claim(lower)
        (upper.queue / "nomerges").write_text("2", encoding="ascii")

        def count(name):
            return sum(int(row[name]) for row in debugfs.hwqs(host))
        before = count("queued"), count("commits")
        fio(upper.sd, rw="randread", bs=4096, ioengine="libaio", iodepth=32, number_ios=3200,
            iodepth_batch_submit=16, iodepth_batch_complete_min=16, size="16m")
        queued, commits = count("queued") - before[0], count("commits") - before[1]
        print(queued, commits)
        assert queued >= 3200 and commits * 8 < queued
        conv.release(lower)


def test_faults_injected_above_any_host():
    """With smq_conv the layer's fault injection works above any LLD, here scsi_debug."""
    with loaded("scsi_debug", delay=0, dev_size_mb=32) as (host,), conv.module(io_errors=True):
        lower, = host.luns()
        upper = claim(lower)
        faults = conv.host_of(upper).sysfs / "smq_fault"
        with SgDev(upper.sg) as sg:
            write(faults / "sense", 0x031100)
            write(faults / "kind", "sense")
            assert sg.cmd(READ, din=4096).triple == (3, 0x11, 0)
            write(faults / "kind", "lost")
            assert sg.cmd(READ, din=4096, timeout_ms=500).host == DID_TIME_OUT
            write(faults / "kind", "short")
            assert sg.cmd(READ, din=4096).resid == 2048
            # Each kind was for one command.
            assert sg.cmd(READ, din=4096).good
        conv.all_done(upper)
        conv.release(lower)
