# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 7.2
"""smq_conv: while a device is claimed, a device handler (scsi_dh) of smq_conv replaces the handler
that the device had."""
import errno
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from kit import conv
from kit.conv import claim, release, write
from kit.host import load, loaded, run, unload, wait_for
from kit.lio import LOOPBACK, Wwn, clear_attentions, loop_fabric, ramdisk, write_attr
from kit.paths import read_by_block
from kit.sgio import NOT_READY, UNIT_ATTENTION, SgDev
from kit.uevents import Uevents

TUR, READ = bytes(6), bytes.fromhex("28000000000000000800")
MODE_SENSE_CACHING = bytes.fromhex("1a0808003000")
MODPROBE = Path("/proc/sys/kernel/modprobe")
CHANGED = "MODE_PARAMETERS_CHANGED"
# LIO's number and the mid-layer's name of each ALUA state, in the order in which the test sets the
# states.
STATES = {1: "active/non-optimized", 2: "standby", 3: "unavailable", 0: "active/optimized"}


@pytest.fixture(name="alua")
def alua_fixture():
    """The module scsi_dh_alua."""
    if run("modprobe", "-n", "scsi_dh_alua", ok=False).returncode:
        pytest.skip("this kernel has no scsi_dh_alua")
    load("scsi_dh_alua")
    yield
    unload("scsi_dh_alua")


@pytest.fixture(name="lower")
def lower_fixture(alua):
    """A LUN of scsi_debug, which has ALUA only with vpd_use_hostno=0."""
    del alua
    with loaded("scsi_debug", vpd_use_hostno=0, delay=0, dev_size_mb=8) as (host,), \
            conv.module():
        yield host.luns()[0]


def handler(lun):
    """The name of a LUN's device handler."""
    return (lun.sysfs / "dh_state").read_text(encoding="ascii").strip()


def change_mode(dev):
    """Switches the write cache bit: the next command gets the unit attention 2a/01."""
    page = bytearray(dev.cmd(MODE_SENSE_CACHING, din=0x30).data[:24])
    page[0], page[2] = 0, 0
    page[4] &= 0x3f
    page[6] ^= 4
    assert dev.cmd(bytes.fromhex("151000001800"), dout=bytes(page)).good


def attention(lower, lun):
    """Causes a unit attention of @lun, and sends @lun a READ. Returns the unit attentions that the
    mid-layer reported for @lun, and how often the READ was sent to @lower and to @lun."""
    with Uevents() as events, SgDev(lun.sg) as dev:
        change_mode(dev)
        before = conv.dispatched(lower), conv.dispatched(lun)
        assert dev.cmd(READ, din=4096).good
        sent = conv.dispatched(lower) - before[0], conv.dispatched(lun) - before[1]
        wait_for("the event", lambda: events.attentions_of(lun))
        return events.attentions_of(lun), sent


@pytest.mark.smoke
def test_unit_attentions_reach_the_upper_disk(lower):
    """The lower device's handler passes unit attentions on to the upper device, which has an ALUA
    handler of its own."""
    assert handler(lower) == "alua"
    assert attention(lower, lower) == ([CHANGED], (2, 2))
    for _ in range(2):
        state = (lower.sysfs / "access_state").read_text(encoding="ascii")
        upper = claim(lower)
        assert (handler(lower), handler(upper)) == ("smq_conv", "alua")
        assert (upper.sysfs / "access_state").read_text(encoding="ascii") == state
        # Both hosts send the READ twice: the upper device's handler repeats it.
        assert attention(lower, upper) == ([CHANGED], (2, 2))
        for word, number in (("alua", errno.EINVAL), ("activate", errno.EOPNOTSUPP)):
            with pytest.raises(OSError) as error:
                write(lower.sysfs / "dh_state", word)
            assert error.value.errno == number
        lower = release(lower)
        assert handler(lower) == "alua"
        assert attention(lower, lower) == ([CHANGED], (2, 2))


def test_no_lower_handler_means_no_upper_handler(lower):
    """If the lower device has no handler, the upper device gets none either, and the lower device
    has none after release."""
    write("/sys/bus/pseudo/drivers/scsi_debug/vpd_use_hostno", 1)
    number = conv.host_of(lower).number
    write(lower.sysfs / "delete", 1)
    wait_for("the device to go", lambda: not lower.sysfs.exists())
    write(f"/sys/class/scsi_host/host{number}/scan", "- - -")
    lower = conv.again(lower)
    assert handler(lower) == "detached"
    upper = claim(lower)
    assert (handler(lower), handler(upper)) == ("smq_conv", "detached")
    lower = release(lower)
    assert handler(lower) == "detached"


def through_states(group, lun, handled):
    """The results of commands to a LUN after each change of its port group's ALUA state. If
    @handled, the LUN has an ALUA handler, which must notice each new state."""
    results = []
    with SgDev(lun.sg) as dev:
        clear_attentions(dev)
        for number, name in STATES.items():
            write_attr(group / "alua_access_state", number)
            for cdb, size in ((TUR, 0), (TUR, 0), (READ, 4096)):
                results.append((name, cdb[0], dev.cmd(cdb, din=size)))
            if not handled:
                continue
            wait_for("the handler to know the state", lambda name=name: name == (
                lun.sysfs / "access_state").read_text(encoding="ascii").strip())
            try:
                results.append((name, "block", len(read_by_block(lun, 0, 8))))
            except OSError as error:
                results.append((name, "block", error.errno))
    return results


@contextmanager
def without_handlers():
    """Prevents the kernel, during the block, from loading the module of a device handler."""
    was = MODPROBE.read_text(encoding="ascii")
    write(MODPROBE, "/bin/true")
    try:
        yield
    finally:
        write(MODPROBE, was)


@pytest.mark.smoke
@pytest.mark.parametrize("handled", [True, False], ids=["alua", "no_handler"])
def test_access_state_changes(request, handled):
    """The ALUA state of a LUN of LIO changes. Commands to the upper LUN have the same results as
    commands to the bare LUN: with an ALUA handler, which hides the unit attentions, and without
    one."""
    if handled:
        request.getfixturevalue("alua")
    with ramdisk("store", 8) as store, loop_fabric(io_errors=True), \
            conv.module(io_errors=True), nullcontext() if handled else without_handlers():
        group = store / "alua/default_tg_pt_gp"
        lower = Wwn(fabric=LOOPBACK).tpg().disk(0, store)
        if not (lower.sysfs / "dh_state").exists():
            pytest.skip("this kernel has no device handlers")
        assert handler(lower) == ("alua" if handled else "detached")
        bare = through_states(group, lower, handled)
        upper = claim(lower)
        assert handler(upper) == ("alua" if handled else "detached")
        found = through_states(group, upper, handled)
        for old, new in zip(bare, found, strict=True):
            assert old == new, f"bare {old}, converted {new}"
        keys = {result.triple[0] for _, what, result in bare if what != "block" and result.triple}
        assert keys == {NOT_READY} | ({UNIT_ATTENTION} if not handled else set())
        conv.all_done(upper)
        lower = release(lower)
        assert handler(lower) == ("alua" if handled else "detached")
