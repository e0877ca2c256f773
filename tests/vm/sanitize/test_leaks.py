# SPDX-License-Identifier: GPL-2.0
"""Checks that all memory is freed that our modules, or the kernel on their behalf, allocate.

The kernel counts allocations by line of code. The first round also allocates what the kernel keeps
for ever. After the second round no line of code that serves SCSI hosts may have more allocations
than before it. """
import os

import pytest
from kit import allocinfo
from kit.cdb import READ_10, TEST_UNIT_READY, blocks, plain
from kit.host import SgDev, find_hosts, is_loaded, loaded, run, unload, wait_for
from kit.ramdir import ram_host
from kit.sgio import SG_SCSI_RESET_DEVICE, SG_SCSI_RESET_HOST

pytestmark = pytest.mark.limit(180)
LEAK = r"module smq\S* func:\S+ has \d+ allocated at module unload"
# Code that allocates hosts, LUNs and their queues, devices, attributes and workers. Not the page
# cache, processes and slabs, whose memory is freed at other times.
PLACES = ("drivers/scsi/", "drivers/base/", "block/", "lib/kobject", "lib/sbitmap", "lib/idr",
          "lib/xarray", "lib/percpu", "fs/sysfs/", "fs/kernfs/", "fs/configfs/", "fs/debugfs/",
          "kernel/module/", "kernel/trace/", "kernel/locking/", "mm/percpu")
# Memory that stays in a queue's elevator or a bio pool, for the next user.
POOLS = ("block/bio.c",)


def wanted(place):
    """Whether the test checks the allocations of a module or of a source file."""
    return place.startswith(("smq", "sd_mod", "sg", *PLACES)) and not place.startswith(POOLS)


def use(host_dir, host):
    """Uses a host in many ways: I/O, passthrough, LUNs, policies, a timeout, resets."""
    disk = host.luns()[0]
    run("dd", "if=/dev/urandom", f"of={disk.sd}", "bs=64k", "count=8", "oflag=direct")
    policy = host.sysfs / "smq/policy"
    for name in ("batch", "bucket", "legacy-model"):
        policy.write_text(name, encoding="ascii")
        run("dd", f"if={disk.sd}", "of=/dev/null", "bs=64k", "count=8", "iflag=direct")
    host_dir.add_lun(2, size_mb=16)
    with SgDev(disk.sg) as sg:
        # Clears the unit attention that the new LUN caused. The fault is armed when the search for
        # partitions is over.
        sg.cmd(plain(TEST_UNIT_READY))
        host_dir.arm("lost", count=1, first_lba=1000)
        sg.cmd(blocks(READ_10, 1000, 8), din=4096, timeout_ms=1000)
        sg.reset(SG_SCSI_RESET_DEVICE)
        sg.reset(SG_SCSI_RESET_HOST)
    host_dir.remove_lun(1)
    policy.write_text("direct", encoding="ascii")


def ram_round():
    """Loads the modules, makes a host by configfs, uses it, removes it, unloads the modules."""
    with ram_host(luns=2, hw_queues=1, depth=8) as (host_dir, host):
        use(host_dir, host)
        assert host.stats()["aborts"] == 1
    unload("smq_legacy")
    if is_loaded("smq"):
        unload("smq")


def module_round(name):
    """As ram_round(), for hosts that a module makes when it is loaded."""
    with loaded(name, depth=8) as (host,):
        disk = host.luns()[0]
        run("dd", "if=/dev/zero", f"of={disk.sd}", "bs=4k", "count=8", "oflag=direct")
    if is_loaded("smq"):
        unload("smq")


def check_rounds(one_round, klog):
    """Checks that a second round leaves no allocation behind."""
    one_round()
    before = allocinfo.live(wanted)
    assert sum(before.values()) > 200
    one_round()
    more = allocinfo.grown(before, wanted)
    assert not more, "\n".join(more)
    leaks = klog.matching(LEAK)
    assert not leaks, "\n".join(leaks)


def test_configfs_host_leaves_no_allocation(klog):
    check_rounds(ram_round, klog)


def test_parameter_host_leaves_no_allocation(klog):
    check_rounds(lambda: module_round("smq_ram"), klog)


def test_host_that_stays_open_is_reported():
    """The check notices a leak: while a process has a removed host's device open, the host is not
    freed."""
    with ram_host(luns=1, hw_queues=1, depth=8) as (host_dir, host):
        before = allocinfo.live(wanted)
        held = os.open(host.luns()[0].bsg, os.O_RDWR | os.O_CLOEXEC)
        try:
            host_dir.set("power", 0)
            assert not find_hosts("smq_ram")
            host_dir.power_on(1)
            more = " ".join(allocinfo.grown(before, wanted, 2))
        finally:
            os.close(held)
        assert "blk_alloc_queue: 1 -> 2" in more
        wait_for("the end of the queue", lambda: "blk_alloc_queue" not in
                 " ".join(allocinfo.grown(before, wanted, 0)))
