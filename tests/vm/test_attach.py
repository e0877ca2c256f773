# SPDX-License-Identifier: GPL-2.0
# on: core uml sanitize 7.2
"""smq_conv: attach and detach of hosts in place."""
import errno
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit import conv, debugfs
from kit.attach import all_done, attach, attached, detach, in_place
from kit.attach import name as kit_name
from kit.faults import Faults
from kit.fiojob import fio, load_on, total_ios
from kit.host import Host, KernelLog, loaded, run, unload, wait_for
from kit.lio import LOOPBACK, Wwn, iblock, loop_fabric
from kit.pool import on_cpus, without_elevator
from kit.quiesce import quiescer, set_state
from kit.ramdir import ram_host
from kit.sanitizing import TIME_FACTOR
from kit.sgio import (DID_TIME_OUT, SG_SCSI_RESET_DEVICE, SG_SCSI_RESET_HOST,
                      SG_SCSI_RESET_TARGET, SgDev)
from kit.trace import traced

VERIFIED = {"ioengine": "io_uring", "rw": "randwrite", "bsrange": "512-64k", "iodepth": 32,
            "size": "4m", "offset_increment": "8m", "verify": "crc32c", "verify_fatal": 1}
# Reads, because LUNs of a scsi_debug host share their data.
LOAD = {"ioengine": "libaio", "rw": "randread", "bs": 4096, "iodepth": 32, "numjobs": 2,
        "time_based": True, "runtime": 600}
DEBUG = {"delay": 0, "dev_size_mb": 32}
READ = bytes.fromhex("28000000000000000800")
WRITE = bytes.fromhex("2a000000000000000800")
PSEUDO = Path("/sys/bus/pseudo/drivers/scsi_debug")
# A bit of scsi_debug's opts: it never ends a command.
LOSE = 4
# The level of sg_reset for a bus.
BUS = 2
SLOW = {"ndelay": 20_000_000, "dev_size_mb": 32, "max_queue": 32}


@pytest.fixture(name="debug")
def debug_fixture():
    """A host of scsi_debug with two LUNs, while smq_conv is loaded."""
    with loaded("scsi_debug", names=("add_host", "max_luns"), luns=2, io_errors=True,
                **DEBUG) as (host,), conv.module(io_errors=True):
        yield host


def refused(change, host, number):
    """Asserts that attach or detach fails with an errno, and that the kernel log has one line."""
    with KernelLog() as log:
        with pytest.raises(OSError) as error:
            change(host)
        assert error.value.errno == number
        said = log.matching(f"^smq_conv: {change.__name__}: ")
        assert len(said) == 1 and kit_name(host) in said[0], log.tail()


def names(host):
    """What must stay the same while a host is attached."""
    return [(lun.address, lun.sd, lun.sg) for lun in host.luns()], \
        {attr: host.attr(attr) for attr in ("proc_name", "can_queue", "unique_id", "state")}


@pytest.mark.smoke
def test_attach_and_detach(debug):
    """An attached host has the same LUNs, the same data, and the layer's counters, which agree with
    what was done. A second attach and a second detach are refused. After detach the layer's
    attributes are gone."""
    before = names(debug)
    lun = debug.luns()[0]
    fio(lun.sd, **VERIFIED)
    for _ in range(2):
        attach(debug)
        assert names(debug) == before
        assert attached() == {debug.sysfs.name: ("scsi_debug", 0)}
        refused(attach, debug, errno.EEXIST)
        fio(lun.sd, **VERIFIED | {"verify_only": True})
        done = all_done(debug)["done"] - conv.dispatched(lun)
        assert total_ios(fio(lun.sd, numjobs=2, **VERIFIED)) > 400
        assert all_done(debug)["done"] - conv.dispatched(lun) == done
        assert attached() == {debug.sysfs.name: ("scsi_debug", 0)}
        detach(debug)
        assert not attached() and not (debug.sysfs / "smq").exists()
        assert not (debug.sysfs / "smq_prio").exists()
        refused(detach, debug, errno.ENOENT)
        assert names(debug) == before
        fio(lun.sd, **VERIFIED | {"verify_only": True})


@pytest.mark.smoke
@pytest.mark.parametrize("tags", ({}, {"host_max_queue": 16}), ids=("own_tags", "shared_tags"))
def test_commands_belong_to_their_hardware_queue(tags):
    """Also the first command of a tag, if it meets a policy, a fault or, as here, a trace event:
    the layer rings the doorbell of the command's hardware queue."""
    with loaded("scsi_debug", names=("add_host", "max_luns"), submit_queues=2, **DEBUG | tags) as (
            host,), conv.module(), in_place(host), traced() as trace:
        lun = host.luns()[0]
        without_elevator(lun)
        for mine in (1, 0):
            cpu = (lun.queue.parent / f"mq/{mine}/cpu_list").read_text(encoding="ascii")
            before = [hwq["queued"] for hwq in host.hwqs()]
            with on_cpus({int(cpu.partition(",")[0])}):
                fio(lun.sd, rw="randread", bs=4096, iodepth=16, ioengine="libaio",
                    number_ios=200, size="8m")
            sent = [hwq["queued"] - had for hwq, had in zip(host.hwqs(), before)]
            # Others may read the disk meanwhile.
            assert sent[mine] >= 200 > 50 > sent[1 - mine], sent
    assert trace.check_once() >= 400


def test_refusals(debug):
    """What cannot be attached or detached is refused, each with its errno."""
    for change in (attach, detach):
        for bad in ("host9999", "host", "7", "host-1", debug.luns()[0].address):
            refused(change, bad, errno.ENODEV)
    lower = debug.luns()[0]
    upper = conv.claim(lower)
    refused(attach, debug, errno.EBUSY)
    refused(attach, conv.host_of(upper), errno.EINVAL)
    conv.release(lower)
    with ram_host() as (_, host):
        refused(attach, host, errno.EINVAL)
    with in_place(debug):
        with pytest.raises(OSError) as error:
            conv.ask("claim", lower.address)
        assert error.value.errno == errno.EBUSY
    for lun in debug.luns():
        conv.write(lun.sysfs / "delete", 1)
    refused(attach, debug, errno.ENXIO)


def test_under_load(debug):
    """Attach, policies and detach under load lose and corrupt nothing."""
    one, two = debug.luns()
    with load_on(one.sd, **LOAD), load_on(two.sd, verify="crc32c", verify_fatal=1,
                                          **LOAD | {"rw": "randwrite", "numjobs": 1}):
        for _ in range(3):
            with in_place_loaded(debug):
                for policy in ("prio", "batch", "bucket", "direct", "prio"):
                    done = debug.stats()["done"]
                    conv.write(debug.sysfs / "smq/policy", policy)
                    wait_for("commands to end", lambda: debug.stats()["done"] > done + 200)
    assert not attached()


class in_place_loaded:
    """As in_place(), without the wait for an idle host."""

    def __init__(self, host):
        self.host = host

    def __enter__(self):
        attach(self.host)

    def __exit__(self, *exc):
        detach(self.host)


def test_module_removal(debug):
    """Unloading smq_conv under load detaches the host."""
    lun = debug.luns()[0]
    attach(debug)
    with load_on(lun.sd, **LOAD):
        wait_for("load", lambda: debug.stats()["done"] > 500)
        unload("smq_conv")
        assert not (debug.sysfs / "smq").exists()
    fio(lun.sd, **VERIFIED)
    conv.load("smq_conv")


@pytest.fixture(name="slow")
def slow_fixture(request):
    """A host of scsi_debug whose commands take 20 ms, attached, with queue_depth 8 if it has
    as many tags. The fixture's parameters go to the module."""
    with loaded("scsi_debug", names=("add_host", "max_luns"), luns=2, io_errors=True,
                **SLOW | getattr(request, "param", {})) as (host,), conv.module(io_errors=True):
        for lun in host.luns():
            conv.write(lun.sysfs / "queue_depth", min(8, int(host.attr("can_queue"))))
        with in_place(host):
            yield host


def policy(host, name):
    """Chooses a policy."""
    conv.write(host.sysfs / "smq/policy", name)


def lose(every):
    """Makes scsi_debug lose each command (1), or none (0)."""
    conv.write(PSEUDO / "opts", LOSE if every else 0)
    conv.write(PSEUDO / "every_nth", -1 if every else 0)


@contextmanager
def held(host, runtime=600):
    """A load of writes of which the policy prio holds some, on the first LUN."""
    policy(host, "prio")
    with load_on(host.luns()[0].sd, ok=False, **LOAD | {
            "rw": "randwrite", "ioengine": "io_uring", "numjobs": 1, "runtime": runtime}) as job:
        wait_for("held commands", lambda: int(host.attr("smq/held")) > 0, 40)
        yield job


def test_prio_holds(slow):
    """With prio the device gets three quarters of queue_depth, and the policy holds the rest. A
    freeze finds held commands: a write to nr_requests ends soon. The same with detach."""
    with held(slow):
        state = debugfs.luns(slow)[0]
        assert state["queue_depth"] == 8 and state["depth"] == 6 and state["inflight"] <= 6
        start = time.monotonic()
        conv.write(slow.luns()[0].queue / "nr_requests", 16)
        assert time.monotonic() - start < 5 * TIME_FACTOR
        detach(slow)
        attach(slow)


PM_TEST, SLEEP = Path("/sys/power/pm_test"), Path("/sys/power/state")


def test_suspend_with_held_commands(slow):
    """The steps of a suspend that concern a host: the tasks are frozen, and each LUN is quiesced.
    A quiesce waits until the LUN has no command, so the policy has to give up what it holds."""
    with held(slow), quiescer():
        if PM_TEST.exists():
            PM_TEST.write_text("freezer", encoding="ascii")
            SLEEP.write_text("freeze", encoding="ascii")
            PM_TEST.write_text("none", encoding="ascii")
        start = time.monotonic()
        set_state("quiesce", slow.luns()[0].address)
        assert time.monotonic() - start < 5 * TIME_FACTOR
        assert slow.stats()["inflight"] == int(slow.attr("smq/held")) == 0
        set_state("quiesce", "")
        done = slow.stats()["done"]
        wait_for("commands after the suspend", lambda: slow.stats()["done"] > done + 20, 40)


# From 6.12 on scsi_debug fails to abort a lost command if no earlier one with its tag took time.
@pytest.mark.parametrize("slow", [{"max_queue": 1}], indirect=True, ids=[""])
def test_lost_command(slow):
    """The device loses a command: abort ends it, and the layer counts it. A command whose abort
    fails is ended by the resets."""
    lun = slow.luns()[0]
    with SgDev(lun.sg) as sg:
        lose(1)
        got = sg.cmd(READ, din=4096, timeout_ms=1500)
        lose(0)
        assert got.host == DID_TIME_OUT
        assert all_done(slow)["aborts"] == 1
        assert sg.cmd(READ, din=4096).good
        Faults(slow).set("fail_abort", 1)
        lose(1)
        job = ThreadPoolExecutor(1).submit(sg.cmd, READ, din=4096, timeout_ms=1500)
        wait_for("the command", lambda: slow.stats()["inflight"] == 1)
        # Before its timer expires: the error handler sends commands, too.
        lose(0)
        assert job.result().host == DID_TIME_OUT
        assert sg.cmd(READ, din=4096).good
    stats = all_done(slow)
    assert stats["lun_resets"] == 1 and stats["timeouts"] >= 2
    # The error handler ended this command. The layer found that out by itself.
    assert attached()[slow.sysfs.name][1] == 1


def test_resets_by_ioctl(slow):
    """sg_reset reaches the driver, which ends commands, while a policy holds others."""
    with held(slow), SgDev(slow.luns()[1].sg) as sg:
        for level in (SG_SCSI_RESET_DEVICE, SG_SCSI_RESET_TARGET, SG_SCSI_RESET_HOST):
            sg.reset(level)
        done = slow.stats()["done"]
        wait_for("commands after the resets", lambda: slow.stats()["done"] > done + 50, 40)
    stats = all_done(slow)
    assert [stats[name] for name in ("lun_resets", "target_resets", "host_resets")] == [1, 1, 1]


@pytest.mark.not_uml("the mid-layer of 7.2 behaves differently")
def test_attach_and_detach_during_a_reset(debug):
    """After a bus reset by ioctl the mid-layer sleeps for ten seconds, with the template in hand.
    Meanwhile attach is refused, and detach waits."""
    sg = debug.luns()[0].sg

    def reset():
        with SgDev(sg) as dev:
            dev.reset(BUS)
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(reset)
        wait_for("the reset", lambda: debug.attr("state") == "running" and not job.done())
        time.sleep(2)
        refused(attach, debug, errno.EBUSY)
        job.result()
        attach(debug)
        job = pool.submit(reset)
        wait_for("the reset", lambda: debug.stats()["target_resets"] == 1)
        detach(debug)
        wait_for("the end of the reset", job.done, 1)
        job.result()


def test_detach_during_a_reset_of_another_host():
    """A host's reset takes as long as its driver waits: that of tcm_loop, until its backstore has
    ended a command. Meanwhile another host is detached."""
    with loaded("scsi_debug", hosts=2, names=("add_host", "max_luns"), **DEBUG) as (below, host), \
            iblock("store", below.luns()[0].sd) as store, loop_fabric(), conv.module(), \
            ThreadPoolExecutor(3) as pool, quiescer():
        lun = Wwn(fabric=LOOPBACK).tpg().disk(0, store)
        attach(host)
        with in_place(Host(int(lun.address.partition(":")[0]))) as loop, SgDev(lun.sg) as sg:
            set_state("block", below.luns()[0].address)
            try:
                read = pool.submit(sg.cmd, READ, din=4096)
                wait_for("the command", lambda: loop.stats()["inflight"] == 1)
                reset = pool.submit(sg.reset, SG_SCSI_RESET_DEVICE)
                wait_for("the reset", lambda: loop.stats()["lun_resets"] == 1)
                job = pool.submit(detach, host)
                wait_for("the detach", job.done)
                job.result()
                assert not reset.done() and not read.done()
            finally:
                set_state("block", "")
            reset.result()
            read.result()


def test_polled_and_legacy():
    """A host with poll queues, and a policy of another module, which stays loaded meanwhile."""
    with conv.module(io_errors=True), loaded("scsi_debug", submit_queues=3, poll_queues=1,
                                             **DEBUG) as (host,):
        with in_place(host):
            conv.write(host.sysfs / "smq/policy", "prio")
            fio(host.luns()[0].sd, **VERIFIED | {"hipri": True})
    with conv.module(io_errors=True), loaded("scsi_debug", submit_queues=1, **DEBUG) as (host,):
        with in_place(host):
            conv.write(host.sysfs / "smq/policy", "legacy-model")
            fio(host.luns()[0].sd, **VERIFIED)
            assert run("modprobe", "-r", "smq_legacy", ok=False).returncode
        unload("smq_legacy")


def test_faults(slow):
    """Faults end commands as they do on a host of the layer: sense data to the byte, BUSY and TASK
    SET FULL are repeated, a dropped command is aborted. What the layer cannot do is refused."""
    faults = Faults(slow)
    with SgDev(slow.luns()[0].sg) as sg:
        assert sg.cmd(WRITE, dout=b"a" * 4096).good
        faults.arm("sense", count=2, sense=0x031101)
        for data in ({"din": 4096, "cdb": READ}, {"dout": b"b" * 4096, "cdb": WRITE}):
            got = sg.cmd(**data)
            assert (got.status, got.triple, got.resid) == (2, (3, 0x11, 1), 4096)
        # The write was not executed.
        assert sg.cmd(READ, din=4096).data == b"a" * 4096
        faults.arm("status", count=1, status=0x18)
        assert sg.cmd(READ, din=4096).status == 0x18
        faults.arm("wrong_status", count=1, status=0x18)
        assert sg.cmd(WRITE, dout=b"c" * 4096).status == 0x18
        assert sg.cmd(READ, din=4096).data == b"c" * 4096
        for kind in ("task_set_full", "status"):
            faults.arm(kind, count=3, status=8)
            assert sg.cmd(READ, din=4096).good
            assert faults.get("injected")
        faults.arm("dropped", count=1)
        assert sg.cmd(READ, din=4096, timeout_ms=1500).host == DID_TIME_OUT
        assert sg.cmd(READ, din=4096).good
        faults.arm("dropped", count=1)
        job = ThreadPoolExecutor(1).submit(sg.cmd, READ, din=4096)
        wait_for("the fault", lambda: slow.stats()["inflight"] == 1)
        detach(slow)
        assert job.result().good
        attach(slow)
        for kind in ("timeout", "lost", "short"):
            with pytest.raises(OSError) as error:
                faults.set("kind", kind)
            assert error.value.errno == errno.EOPNOTSUPP


def test_policies_that_are_refused(slow):
    """steer moves commands to other hardware queues, which the driver does not know; prio needs
    commands to hold."""
    for name, depth in (("steer", 8), ("prio", 1)):
        for lun in slow.luns():
            conv.write(lun.sysfs / "queue_depth", depth)
        with pytest.raises(OSError) as error:
            policy(slow, name)
        assert error.value.errno == errno.EOPNOTSUPP
        assert slow.policy() == "direct"
