# SPDX-License-Identifier: GPL-2.0
# vm: --qemu '-smp maxcpus=8'
# vm: --qemu '-device virtio-scsi-pci,id=hba,num_queues=4,addr=0x10'
# vm: --qemu '-drive file={disk:a:64},if=none,id=a,format=raw'
# vm: --qemu '-device scsi-hd,bus=hba.0,drive=a'
# vm: --qemu '-chardev socket,id=hmp,path={tmp}/hmp,server=on,wait=off -mon chardev=hmp'
# vm: --qemu '-chardev socket,id=hmp1,path={tmp}/hmp'
# vm: --qemu '-device virtserialport,chardev=hmp1,name=monitor'
# on: sanitize 7.2
# not on uml: needs QEMU's devices
"""smq_conv above scsi_debug, tcm_loop and virtio_scsi: in one test a claimed disk goes through all
that can happen to it, in the other its lower host goes through its steps of error handling.

In the first test the disk is claimed and released in a loop. Meanwhile threads write and read it
and compare the data, the policy changes, and resets of the upper and the lower device end commands.
Finally the lower disk is removed. User Mode Linux has no PCI device, and so no virtio_scsi.
"""
import errno
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit import conv
from kit.conv import write
from kit.devices import LOWERS
from kit.fiojob import fio
from kit.host import loaded, wait_for
from kit.lio import LOOPBACK, Wwn, iblock, loop_fabric
from kit.matrix import timeouts
from kit.monitor import Monitor
from kit.ramdir import ram_host
from kit.sgio import (SG_SCSI_RESET_DEVICE, SG_SCSI_RESET_HOST, SG_SCSI_RESET_NO_ESCALATE,
                      SG_SCSI_RESET_TARGET, SgDev)
from kit.smqsg import SCSI_DEBUG
from kit.stamped import Stamped
from kit.steps import recorded

pytestmark = pytest.mark.limit(180)
UPPER_LEVELS = (SG_SCSI_RESET_DEVICE, SG_SCSI_RESET_TARGET, SG_SCSI_RESET_HOST)
CLAIMS = 2
# How long a command of scsi_debug takes: while resets need commands in flight, and otherwise.
SLOW_JIFFIES, FAST_JIFFIES = 25, 1
# Only scsi_debug's commands take so long that a reset of the upper device always finds some in
# flight. The reset makes their timers expire, and the lower host aborts them. virtio_scsi restarts
# every timer that expires, so there such a reset may end nothing.
ALWAYS_IN_FLIGHT = "scsi_debug"


def need_pci(name):
    """Skips the test if the driver needs a PCI device and this kernel has none."""
    if name == "virtio_scsi" and not Path("/sys/bus/pci").exists():
        pytest.skip("this kernel has no PCI device")


@contextmanager
def slow(name):
    """Commands of scsi_debug take long inside the with statement."""
    if name == "scsi_debug":
        write(SCSI_DEBUG / "delay", SLOW_JIFFIES)
    try:
        yield
    finally:
        if name == "scsi_debug":
            write(SCSI_DEBUG / "delay", FAST_JIFFIES)


def reset(sg, level):
    """Resets a device; returns whether that succeeded. The reset may fail with EIO, because no
    command is in flight or because a recovery is in progress."""
    try:
        sg.reset(level)
        return True
    except OSError as error:
        assert error.errno == errno.EIO
        return False


def disturb(cells, lower, upper):
    """Changes the policy, and resets both devices, with I/O in flight. No I/O may fail, and the
    data must stay right. Returns how many resets of the upper and of the lower device
    succeeded."""
    done = [0, 0]
    above = conv.host_of(upper)
    policies = above.attr("smq/policy").replace("[", "").replace("]", "").split()
    with cells.running(upper), SgDev(upper.sg) as sg, SgDev(lower.sg) as below:
        cells.wait(20)
        for number, policy in enumerate(policies):
            write(above.sysfs / "smq/policy", policy)
            cells.wait(10)
            done[0] += reset(sg, UPPER_LEVELS[number % len(UPPER_LEVELS)])
            if number % 2:
                done[1] += reset(below, SG_SCSI_RESET_DEVICE | SG_SCSI_RESET_NO_ESCALATE)
            cells.wait(10)
    assert not cells.errors, cells.errors
    return done


@pytest.mark.smoke
@pytest.mark.parametrize("name", LOWERS)
def test_disk_is_claimed_in_a_loop(name):
    """The data stays right under aborts, resets, changes of the policy, claims, releases, and
    removal."""
    need_pci(name)
    with LOWERS[name]() as attached, conv.module(io_errors=True):
        cells, lower = Stamped(), attached.lun()
        # The end of this block sets scsi_debug's delay to FAST_JIFFIES.
        with slow(name):
            pass
        cells.fill(lower)
        done = [0, 0]
        for _ in range(CLAIMS):
            upper = conv.claim(lower)
            before = timeouts(lower)
            cells.check(upper)
            with slow(name):
                more = disturb(cells, lower, upper)
            done = [sum(pair) for pair in zip(done, more, strict=True)]
            below = timeouts(lower) - before
            stats = conv.all_done(upper)
            print(f"{name}, {os.uname().release}: {cells.total} I/Os, {below} timeouts below, "
                  f"{done} resets, {stats}")
            assert below or name != ALWAYS_IN_FLIGHT
            lower = conv.release(lower)
            cells.check(lower)
        assert done[1] and (done[0] or name != ALWAYS_IN_FLIGHT)
        upper = conv.claim(lower)
        with cells.running(upper):
            cells.wait(20)
            attached.pull()
            wait_for("the upper LUN to go", lambda: not conv.uppers())
            wait_for("an error", lambda: cells.errors)
        wait_for("the upper host to go", lambda: not conv.find_hosts("smq_conv"))
        attached.back()
        cells.check(attached.lun())


# Timeout of the error handler's TEST UNIT READY.
READY_S = 4
# scsi_debug's option: all commands are lost.
LOSE_ALL = 4


class DebugDevice:
    """scsi_debug loses the READ twice, and the TEST UNIT READY after the LUN reset. A third try of
    the READ must not time out, however busy the machine is."""
    steps, reads, read_ms = ["abort", "LUN reset", "target reset"], 1, 2000

    @contextmanager
    def made(self):
        with loaded("scsi_debug", io_errors=True, delay=0, dev_size_mb=16, every_nth=-1) as (host,):
            yield host.luns()[0]

    def start(self):
        write(SCSI_DEBUG / "opts", LOSE_ALL)

    def end(self, steps):
        try:
            wait_for("the LUN reset", lambda: "LUN reset" in steps())
            # The command after the reset is lost as well.
            time.sleep(1)
        finally:
            write(SCSI_DEBUG / "opts", 0)


class LoopDevice:
    """A READ of the backstore takes longer than the timeout. tcm_loop's abort and LUN reset wait
    for its end. There is no other step: tcm_loop has no host reset, and its target reset makes
    Linux 6.1 warn."""
    steps, reads, read_ms = ["abort", "LUN reset"], 1, 700
    _ram = None

    @contextmanager
    def made(self):
        with ram_host() as (self._ram, host), iblock("store", host.luns()[0].sd) as store, \
                loop_fabric(io_errors=True):
            yield Wwn(fabric=LOOPBACK).tpg().disk(0, store)

    def start(self):
        """The block layer may let a timer expire a second late."""
        self._ram.set("model/service_ns", 2300000000)

    def end(self, steps):
        self._ram.set("model/service_ns", 0)
        wait_for("the LUN reset", lambda: "LUN reset" in steps())


class VirtioDevice:
    """virtio_scsi restarts each timer that expires, so there is no step, however long QEMU takes
    for a READ."""
    steps, reads, read_ms = [], 3, 700

    @contextmanager
    def made(self):
        with LOWERS["virtio_scsi"]() as attached:
            yield attached.lun()

    def start(self):
        """From now on QEMU's disk reads 2 KiB/s."""
        with Monitor() as monitor:
            monitor.run("block_set_io_throttle a 0 2048 0 0 0 0")

    def end(self, steps):
        time.sleep(2 * self.read_ms / 1000)
        with Monitor() as monitor:
            monitor.run("block_set_io_throttle a 0 0 0 0 0 0")


DEVICES = {"scsi_debug": DebugDevice, "tcm_loop": LoopDevice, "virtio_scsi": VirtioDevice}


def steps_for(device, lower, disk):
    """Reads from a disk while the device does not answer in time. Returns the steps of error
    handling that the lower host has taken, in their order."""
    (disk.queue / "io_timeout").write_text(str(device.read_ms), encoding="ascii")
    (lower.sysfs / "eh_timeout").write_text(str(READY_S), encoding="ascii")
    with recorded(lower) as steps, ThreadPoolExecutor(1) as pool:
        before = conv.dispatched(lower)
        device.start()
        try:
            read = pool.submit(fio, disk.sd, rw="read", bs=4096, ioengine="libaio", size=12288,
                               number_ios=device.reads, limit=60)
            wait_for("the second READ", lambda: conv.dispatched(lower) >= before + 2)
        finally:
            device.end(steps)
        read.result(60)
        return steps()


@pytest.mark.parametrize("name", DEVICES)
def test_lower_host_takes_the_steps_that_it_takes_for_a_bare_disk(name):
    """A READ times out, and after its abort once more. The lower host takes the same steps of error
    handling for the bare and for the claimed disk, and then the READ succeeds."""
    need_pci(name)
    device = DEVICES[name]()
    with conv.module(io_errors=True), device.made() as lower:
        bare = steps_for(device, lower, lower)
        upper = conv.claim(lower)
        claimed = steps_for(device, lower, upper)
        print(f"{name}, {os.uname().release}: {bare}, {claimed}")
        assert bare == claimed == device.steps
        conv.all_done(upper)
        conv.release(lower)


def test_upper_host_has_no_queue_for_cpus_that_are_missing():
    """Six of the eight possible CPUs of this VM are not there."""
    def cpus(name):
        text = Path("/sys/devices/system/cpu", name).read_text(encoding="ascii")
        return int(text.rpartition("-")[2]) + 1

    if cpus("possible") == cpus("present"):
        pytest.skip("each possible CPU is present")
    with ram_host() as (_, host), conv.module():
        lower, = host.luns()
        upper = conv.claim(lower)
        assert len(list((upper.queue.parent / "mq").iterdir())) == cpus("present")
        conv.release(lower)
