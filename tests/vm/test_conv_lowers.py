# SPDX-License-Identifier: GPL-2.0
# vm: --qemu '-device virtio-scsi-pci,id=hba,num_queues=4,addr=0x10'
# vm: --qemu '-drive file={disk:a:64},if=none,id=a,format=raw'
# vm: --qemu '-device scsi-hd,bus=hba.0,drive=a'
"""smq_conv above scsi_debug, tcm_loop and virtio_scsi: in one test a claimed disk goes through all
that can happen to it.

The disk is claimed and released in a loop. Meanwhile threads write and read it and compare the
data, the policy changes, and resets of the upper and the lower device end commands. Finally the
lower disk is removed. User Mode Linux has no PCI device, and so no virtio_scsi.
"""
import errno
import os
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit import conv
from kit.conv import write
from kit.devices import LOWERS
from kit.host import wait_for
from kit.matrix import timeouts
from kit.sgio import (SG_SCSI_RESET_DEVICE, SG_SCSI_RESET_HOST, SG_SCSI_RESET_NO_ESCALATE,
                      SG_SCSI_RESET_TARGET, SgDev)
from kit.smqsg import SCSI_DEBUG
from kit.stamped import Stamped

pytestmark = [pytest.mark.limit(180), pytest.mark.smoke]
UPPER_LEVELS = (SG_SCSI_RESET_DEVICE, SG_SCSI_RESET_TARGET, SG_SCSI_RESET_HOST)
CLAIMS = 2
# How long a command of scsi_debug takes: while resets need commands in flight, and otherwise.
SLOW_JIFFIES, FAST_JIFFIES = 25, 1
# Only scsi_debug's commands take so long that a reset of the upper device always finds some in
# flight. The reset makes their timers expire, and the lower host aborts them. virtio_scsi restarts
# every timer that expires, so there such a reset may end nothing.
ALWAYS_IN_FLIGHT = "scsi_debug"


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


@pytest.mark.parametrize("name", LOWERS)
def test_disk_is_claimed_in_a_loop(name):
    """The data stays right under aborts, resets, changes of the policy, claims, releases, and
    removal."""
    if name == "virtio_scsi" and not Path("/sys/bus/pci").exists():
        pytest.skip("this kernel has no PCI device")
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
            time.sleep(0.1)
        assert cells.errors and not conv.find_hosts("smq_conv")
        attached.back()
        cells.check(attached.lun())
