# SPDX-License-Identifier: GPL-2.0
# on: core uml sanitize 7.2
"""Error handling and depth, on an LLD that delays, loses and refuses commands.

Most cases run under load, and every command has to end exactly once.
"""
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from kit.deleted import delete, find_again, reset_a_deleted_lun
from kit.fiojob import fio, load_on, total_ios
from kit.hold import TIMEOUT, get_param, set_param, with_params
from kit.host import loaded, settle, wait_for
from kit.sgio import (DID_TIME_OUT, SG_SCSI_RESET_DEVICE, SG_SCSI_RESET_HOST,
                      SG_SCSI_RESET_TARGET, SgDev)
from kit.trace import traced

READ_10 = bytes.fromhex("28000000000000000800")
JOB = {"ioengine": "libaio", "rw": "randread", "bs": 4096, "iodepth": 32, "numjobs": 2,
       "time_based": True, "runtime": 600}
# Writes, because a read of a removed disk may find the end of the disk. That is no error, so fio
# would continue.
WRITES = JOB | {"rw": "randwrite"}


@pytest.mark.smoke
@pytest.mark.parametrize("hold", [{"depth": 1}, {"depth": 16}], indirect=True,
                         ids=lambda p: f"depth{p['depth']}")
def test_inflight_reaches_the_depth_and_never_passes_it(hold):
    depth = int((hold.luns()[0].sysfs / "queue_depth").read_text(encoding="ascii"))
    set_param("max_inflight", 0)
    fio(hold.luns()[0].sd, **JOB | {"runtime": 1})
    assert 0 < get_param("max_inflight") <= depth
    # The delay is long enough for a slow CPU to fill the device.
    set_param("delay_us", 50000)
    fio(hold.luns()[0].sd, **JOB | {"runtime": 1})
    assert get_param("max_inflight") == depth


@with_params(depth=32, delay_us=2000)
def test_smaller_depth_takes_effect_under_load(hold):
    lun = hold.luns()[0]
    with load_on(lun.sd, **JOB):
        wait_for("a full device", lambda: get_param("max_inflight") == 32)
        (lun.sysfs / "queue_depth").write_text("3", encoding="ascii")

        def most_in(seconds):
            set_param("max_inflight", 0)
            time.sleep(seconds)
            return get_param("max_inflight")
        # Commands that were issued under the larger depth may still be in flight, so the test waits
        # until they have ended.
        end, seen = time.monotonic() + 20, [32]
        while seen[-1] > 3:
            state = {name: hold.attr(f"smq/{name}") for name in ("inflight", "timeouts")}
            assert time.monotonic() < end, (seen, get_param("inflight"), state,
                                            (lun.sysfs / "queue_depth").read_text("ascii"))
            seen.append(most_in(0.2))
        wait_for("a full device", lambda: most_in(0.5) >= 3)
        assert get_param("max_inflight") == 3


@with_params(depth=4, luns=3)
def test_each_lun_has_its_own_depth(hold):
    set_param("max_inflight", 0)
    luns = hold.luns()
    fio(":".join(lun.sd for lun in luns), **JOB | {"runtime": 1})
    assert 4 < get_param("max_inflight") <= 12


@pytest.mark.smoke
@with_params(in_commit=1)
def test_commit_starts_every_batch(hold):
    with traced() as trace:
        report = fio(hold.luns()[0].sd, iodepth_batch_submit=8, **JOB | {"runtime": 1})
        settle(hold)
    assert trace.check_once() >= total_ios(report) > 0


def test_refused_commands_are_queued_again(hold):
    with traced() as trace:
        with load_on(hold.luns()[0].sd, **JOB) as load:
            for _ in range(5):
                set_param("refuse", 40)
                wait_for("40 refusals", lambda: get_param("refuse") == 0)
        settle(hold)
    assert trace.check_once() >= total_ios(load.result())
    assert trace.count()["smq_busy"] == 200 == hold.stats()["busy"]


@pytest.mark.smoke
def test_lost_commands_are_aborted_and_repeated(hold):
    with traced() as trace:
        with load_on(hold.luns()[0].sd, **JOB):
            set_param("lose", 6)
            wait_for("6 aborts", lambda: hold.stats()["aborts"] == 6)
        stats = settle(hold)
    trace.check_once()
    assert trace.count()["smq_taken"] == 6
    assert stats["timeouts"] == 6
    assert stats["lun_resets"] == stats["host_resets"] == 0


def test_completion_and_abort_of_one_command_race(hold):
    with traced() as trace:
        with load_on(hold.luns()[0].sd, **JOB):
            set_param("race_abort", 1)
            for repeat in range(1, 4):
                set_param("lose", 8)
                # On slow CPUs another command may time out by itself.
                wait_for("8 aborts", lambda: hold.stats()["aborts"] >= 8 * repeat)
        settle(hold)
    trace.check_once()
    # The LLD completed each command before its abort operation returned, as the LLD promises.
    assert trace.count()["smq_taken"] == 0


@pytest.mark.smoke
@pytest.mark.parametrize("level, counter", [
    (SG_SCSI_RESET_DEVICE, "lun_resets"), (SG_SCSI_RESET_TARGET, "target_resets"),
    (SG_SCSI_RESET_HOST, "host_resets")], ids=["lun", "target", "host"])
def test_reset_by_ioctl_with_commands_in_flight(hold, level, counter):
    lun = hold.luns()[0]
    # The long timeout makes sure that only the reset ends lost commands, however slow the CPUs are.
    (lun.sysfs / "timeout").write_text("120", encoding="ascii")
    with traced() as trace:
        with load_on(lun.sd, **JOB), SgDev(lun.sg) as sg:
            for repeat in range(1, 4):
                before = hold.stats()["reset_cmds"]
                set_param("lose", 6)
                wait_for("lost commands", lambda: get_param("lose") == 0)
                sg.reset(level)
                assert hold.stats()[counter] == repeat
                assert hold.stats()["reset_cmds"] >= before + 6
        stats = settle(hold)
    trace.check_once()
    assert stats["timeouts"] == 0


def test_commands_of_the_error_handler_wait_for_a_reset_by_ioctl(hold):
    """A command fails without sense data during a reset, so the error handler sends REQUEST SENSE.
    During the reset the mid-layer blocks all other commands, but not REQUEST SENSE, so the layer
    must refuse REQUEST SENSE until the reset is over."""
    lun = hold.luns()[0]
    set_param("reset_ms", 2000)
    set_param("delay_us", 800000)
    with traced() as trace, SgDev(lun.sg) as sg, ThreadPoolExecutor(2) as pool:
        set_param("no_sense", 1)
        read = pool.submit(sg.cmd, READ_10, din=4096, timeout_ms=20000)
        wait_for("the command in flight", lambda: get_param("inflight") == 1)
        with SgDev(lun.sg) as other:
            reset = pool.submit(other.reset, SG_SCSI_RESET_DEVICE)
            wait_for("the reset", lambda: get_param("resetting") == 1)
            assert get_param("inflight") == 1, "the command ended before the reset began"
            reset.result(timeout=20)
        read.result(timeout=20)
        stats = settle(hold)
    trace.check_once()
    asked = [fields["op"] for name, fields in trace.events if name == "smq_queue"]
    assert "0x03" in asked, "the error handler did not ask for sense data"
    assert get_param("in_reset") == 0
    assert stats["lun_resets"] >= 1 and stats["timeouts"] == 0
    set_param("delay_us", 100)
    with SgDev(lun.sg) as sg:
        assert sg.cmd(READ_10, din=4096).good


def test_failed_host_reset_ends_all_commands(hold):
    """The layer ends all commands even after a host reset that fails, because the LLD no longer
    touches them. A host reset is the last step: after it the mid-layer ends timed-out commands
    without calling the LLD."""
    lun = hold.luns()[0]
    set_param("fail_host_reset", 1)
    set_param("delay_us", 400000)
    with traced() as trace:
        with load_on(lun.sd, **JOB), SgDev(lun.sg) as sg:
            wait_for("commands in flight", lambda: get_param("inflight") > 4)
            with pytest.raises(OSError):
                sg.reset(SG_SCSI_RESET_HOST)
            assert hold.stats()["reset_cmds"] > 4
            set_param("delay_us", 100)
        stats = settle(hold)
    trace.check_once()
    assert stats["host_resets"] == 1 and stats["timeouts"] == 0


def test_three_threads_reset_at_once(ram, disk):
    """Three threads reset one LUN, each through an open file of its own. The mid-layer has one bit
    for all reset ioctls: the first reset that ends clears it, and so unblocks the host."""
    def reset_often(_):
        with SgDev(disk.sg) as sg:
            done = 0
            while done < 15:
                try:
                    sg.reset(SG_SCSI_RESET_DEVICE)
                    done += 1
                except BlockingIOError:         # another reset is in progress
                    time.sleep(0.002)

    verified = {"ioengine": "io_uring", "rw": "randwrite", "bs": 4096, "iodepth": 32,
                "size": "32m", "verify": "crc32c", "verify_fatal": 1}
    (disk.queue / "nomerges").write_text("2", encoding="ascii")
    with load_on(disk.sd, to_end=True, **verified), ThreadPoolExecutor(3) as pool:
        assert len(list(pool.map(reset_often, range(3)))) == 3
    assert settle(ram)["lun_resets"] == 45


@with_params(luns=2)
def test_a_lun_reset_leaves_the_other_lun_alone(hold):
    mine, other = hold.luns()
    set_param("delay_us", 300000)
    with load_on(other.sd, **JOB | {"iodepth": 4, "numjobs": 1}):
        wait_for("commands in flight", lambda: get_param("inflight") == 4)
        with SgDev(mine.sg) as sg:
            sg.reset(SG_SCSI_RESET_DEVICE)
        assert hold.stats()["reset_cmds"] == 0


def test_passthrough_that_times_out_returns_and_leaves_a_usable_device(hold):
    with SgDev(hold.luns()[0].sg) as sg:
        set_param("lose", 1)
        start = time.monotonic()
        result = sg.cmd(READ_10, din=4096, timeout_ms=1000)
        assert result.host == DID_TIME_OUT
        assert time.monotonic() - start < 10
        assert sg.cmd(READ_10, din=4096).good
    assert hold.stats()["aborts"] == 1


@with_params(io_errors=True, luns=2)
def test_lun_deleted_under_load(hold):
    gone, stays = hold.luns()
    with load_on(stays.sd, **JOB) as stay:
        with load_on(gone.sd, ok=False, **WRITES) as load:
            wait_for("load", lambda: get_param("inflight") > 16)
            (gone.sysfs / "delete").write_text("1", encoding="ascii")
            assert any(job["error"] for job in load.result()["jobs"])
        assert stay.running
    wait_for("its nodes to go", lambda: len(hold.luns()) == 1)
    # A scan finds the LUN again, and it works.
    (hold.sysfs / "scan").write_text("0 0 0", encoding="ascii")
    lun = hold.wait_luns(2)[0]
    fio(lun.sd, **JOB | {"runtime": 1})


@pytest.mark.smoke
@pytest.mark.parametrize("policy", ["direct", "bucket"])
def test_host_removed_under_load_then_unloaded(policy):
    with loaded("smq_hold", io_errors=True, in_commit=1) as (host,):
        (host.sysfs / "smq_bucket/share").write_text("0", encoding="ascii")
        (host.sysfs / "smq/policy").write_text(policy, encoding="ascii")
        with load_on(host.luns()[0].sd, ok=False, **WRITES) as load:
            wait_for("load", lambda: get_param("inflight") > 4)
            set_param("remove", 1)
            assert not host.sysfs.exists()
            assert any(job["error"] for job in load.result()["jobs"])
        assert get_param("inflight") == 0


@pytest.mark.parametrize("level", [SG_SCSI_RESET_DEVICE, SG_SCSI_RESET_HOST], ids=["lun", "host"])
def test_reset_of_a_removed_host_is_refused(level):
    """The layer refuses the reset. The mid-layer does not check the device before the ioctl,
    because the file was opened with O_NONBLOCK."""
    with loaded("smq_hold") as (host,), SgDev(host.luns()[0].sd) as disk:
        set_param("remove", 1)
        with pytest.raises(OSError):
            disk.reset(level)


def test_reset_of_a_deleted_lun(hold):
    reset_a_deleted_lun(hold)
    assert get_param("lun_gone") == 0, "the layer reset a LUN after its lun_exit"


@pytest.mark.smoke
def test_reset_of_a_deleted_lun_of_smq_ram(ram):
    reset_a_deleted_lun(ram)


def test_a_lun_is_not_removed_during_its_reset(hold):
    lun = hold.luns()[0]
    set_param("reset_ms", 1000)
    with SgDev(lun.sd) as disk, ThreadPoolExecutor(1) as pool:
        reset = pool.submit(disk.reset, SG_SCSI_RESET_DEVICE)
        wait_for("the reset", lambda: get_param("resetting") == 1)
        delete(lun)
        reset.result(timeout=20)
    assert get_param("lun_gone") == 0, "lun_exit was called while the LLD reset the LUN"
    find_again(hold, lun)


def test_host_removed_with_a_lost_command():
    with loaded("smq_hold", io_errors=True) as (host,):
        lun = host.luns()[0]
        (lun.sysfs / "timeout").write_text(str(TIMEOUT), encoding="ascii")
        # A read of a removed disk may fail or find the end of the disk. In the second case fio does
        # not stop by itself.
        with load_on(lun.sd, ok=False, **JOB) as load:
            set_param("lose", 2)
            wait_for("lost commands", lambda: get_param("lose") == 0)
            set_param("remove", 1)
            load.kill()
        assert get_param("inflight") == 0


def test_commands_of_a_killed_program_end(hold):
    set_param("delay_us", 400000)
    with load_on(hold.luns()[0].sd, **JOB) as load:
        wait_for("commands in flight", lambda: get_param("inflight") > 4)
        load.kill()
    settle(hold)
    assert get_param("inflight") == 0
