# SPDX-License-Identifier: GPL-2.0
# on: core uml sanitize 6.12 7.2
"""smq_conv: claim and release of devices, and what user space sees of a claimed device."""
import errno
import json
import mmap
import os
import re
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit import conv, smqsg
from kit.conv import ask, claim, release, uppers, write
from kit.fiojob import fio, load_on, total_ios
from kit.host import (SCSI_DEVICES, SCSI_HOSTS, load, loaded, run, under_way, unload,
                      wait_for)
from kit.lio import iblock
from kit.sgio import DID_NO_CONNECT, SgDev
from kit.slowdisk import opened
from kit.smqsg import SCSI_DEBUG
from kit.targetcli import TOP
from kit.uevents import Uevents

VERIFIED = {"ioengine": "io_uring", "rw": "randwrite", "bsrange": "512-64k", "iodepth": 32,
            "size": "4m", "offset_increment": "8m", "verify": "crc32c", "verify_fatal": 1}
LOAD = {"ioengine": "libaio", "rw": "randrw", "bs": 4096, "iodepth": 32, "numjobs": 2,
        "time_based": True, "runtime": 600}
DEBUG = {"delay": 0, "dev_size_mb": 32}
SG_IO = TOP / "tools/sg_io"
SCAN = Path("/sys/module/scsi_mod/parameters/scan")
READ_10 = bytes.fromhex("28000000000000000800")
PAGES = [0x00, 0x80, 0x83, 0xb0, 0xb1, 0xb2]


@pytest.fixture(name="lower")
def lower_fixture():
    """The first of two LUNs of scsi_debug, while smq_conv is loaded."""
    with loaded("scsi_debug", names=("add_host", "max_luns"), luns=2, io_errors=True,
                **DEBUG) as (host,), conv.module(io_errors=True):
        yield host.luns()[0]


def sectors(lun):
    """The size of a disk, in units of 512 bytes."""
    return int((lun.queue.parent / "size").read_text(encoding="ascii"))


def refused(what, address, number):
    """Asserts that a claim or release fails with the errno @number."""
    with pytest.raises(OSError) as error:
        ask(what, address)
    assert error.value.errno == number


def identity(sg):
    """INQUIRY data and VPD pages of a LUN."""
    with SgDev(sg) as dev:
        pages = [dev.cmd(bytes([0x12, 1, page, 1, 0, 0]), din=256).data for page in PAGES]
        return [dev.cmd(bytes.fromhex("120000006000"), din=96).data, *pages]


@pytest.mark.smoke
def test_claim_and_release(lower):
    """The upper LUN has the lower LUN's identity and data, and one queue per CPU. After release the
    lower disk has the same data. A scan of the upper host does not find the other, unclaimed
    LUN."""
    before = identity(lower.sg)
    fio(lower.sd, **VERIFIED)
    for _ in range(2):
        upper = claim(lower)
        assert identity(upper.sg) == before
        assert len(list((upper.queue.parent / "mq").iterdir())) == os.cpu_count()
        assert not list((SCSI_DEVICES / lower.address).glob("block/*"))
        # The upper disk has the data that fio wrote to the lower disk. Then the test writes and
        # reads the upper disk.
        fio(upper.sd, **VERIFIED | {"verify_only": True})
        assert total_ios(fio(upper.sd, numjobs=2, **VERIFIED)) > 400
        for tool in ("sg_inq", "sg_vpd", "sg_readcap", "sg_luns", "sg_turs"):
            run(tool, upper.sg)
        for lun in ("- - -", "0 0 1", "0 0 -"):
            write(conv.host_of(upper).sysfs / "scan", lun)
        assert len(uppers()) == 1
        conv.all_done(upper)
        lower = release(lower)
        assert not uppers() and not conv.find_hosts("smq_conv")
        fio(lower.sd, **VERIFIED | {"verify_only": True})


def test_flags_of_the_lower_queue(lower):
    """If the lower driver needs data that does not change while it is written, or requests that are
    not merged, the upper queue says so too."""
    flags = {"stable_writes": "1", "nomerges": "2"}
    before = {name: (lower.queue / name).read_text(encoding="ascii") for name in flags}
    for name, value in flags.items():
        (lower.queue / name).write_text(value, encoding="ascii")
    upper = claim(lower)
    try:
        for name, value in flags.items():
            assert (upper.queue / name).read_text(encoding="ascii") == value + "\n"
    finally:
        lower = release(lower)
        for name, value in before.items():
            (lower.queue / name).write_text(value, encoding="ascii")


def test_luns_of_one_host_share_an_upper_host(lower):
    """Two claimed LUNs share an upper host. The host is removed when the second LUN is released."""
    other = conv.host_of(lower).luns()[1]
    first, second = claim(lower), claim(other)
    assert conv.host_of(first) == conv.host_of(second)
    with load_on(first.sd, to_end=True, **VERIFIED), \
            load_on(second.sd, to_end=True, **VERIFIED):
        pass
    release(lower)
    fio(second.sd, **VERIFIED)
    # A scan finds the deleted upper LUN again, because its lower LUN is still claimed, and finds no
    # other LUN.
    write(second.sysfs / "delete", 1)
    wait_for("the LUN to go", lambda: not uppers())
    write(conv.host_of(second).sysfs / "scan", "0 0 1")
    assert [lun.address for lun in uppers()] == [second.address]
    conv.again(second)
    release(other)
    assert not conv.find_hosts("smq_conv")


@contextmanager
def mounted(disk):
    """Keeps a disk open as a mount does: exclusively."""
    fd = os.open(disk, os.O_RDONLY | os.O_EXCL)
    try:
        yield
    finally:
        os.close(fd)


def test_claims_and_releases_are_refused(lower, klog):
    """A claim or release that is refused changes nothing, and the log says why."""
    for word in ("0:0:0", "host0", "9:9:9:9", "\n", "x" * 100):
        refused("claim", word, errno.ENODEV)
    refused("release", lower.address, errno.ENODEV)
    with SgDev(lower.sd):
        refused("claim", lower.address, errno.EBUSY)
    with mounted(lower.sd):
        refused("claim", lower.address, errno.EBUSY)
    assert not conv.find_hosts("smq_conv") and os.path.exists(lower.sd)
    upper = claim(lower)
    refused("claim", lower.address, errno.EBUSY)
    refused("claim", upper.address, errno.EINVAL)
    with SgDev(upper.sd):
        refused("release", lower.address, errno.EBUSY)
    with mounted(upper.sd):
        refused("release", lower.address, errno.EBUSY)
        held = run("rmmod", "smq_conv", ok=False)
        assert held.returncode and "in use" in held.stderr
    held = run("rmmod", "scsi_debug", ok=False)
    assert held.returncode and "in use" in held.stderr
    for text in ("is open; 'sg_io info", "is mounted or in use; 'sg_io info",
                 "is claimed already", "is not claimed", "is a LUN of smq_conv itself",
                 "there is no SCSI device 9:9:9:9", "'host0' is no address of a SCSI device"):
        assert klog.matching(text), text


def test_new_size_of_the_lower_disk(lower):
    """The upper disk has the lower disk's new size after a rescan of the upper device, and the
    lower disk has it after the release."""
    upper = claim(lower)
    size = SCSI_DEBUG / "virtual_gb"
    before = size.read_text(encoding="ascii")
    size.write_text("1", encoding="ascii")
    try:
        assert sectors(upper) == DEBUG["dev_size_mb"] * 2048
        write(upper.sysfs / "rescan", 1)
        assert sectors(upper) == 1024 * 2048
        fio(upper.sd, **VERIFIED | {"offset": "1000m"})
        lower = release(lower)
        assert sectors(lower) == 1024 * 2048
    finally:
        size.write_text(before, encoding="ascii")


def test_cache_type_is_set_through_the_upper_disk(lower):
    """Each cache type that the lower device takes can be set for the upper disk. The lower device
    keeps it after the release."""
    upper = claim(lower)
    knob = upper.sysfs / "scsi_disk" / upper.address / "cache_type"
    for value in ("write through", "none", "write back, no read (daft)", "write back",
                  "temporary write through", "none"):
        write(knob, value)
        assert knob.read_text(encoding="ascii").strip() == value.removeprefix("temporary ")
    lower = release(lower)
    assert (lower.sysfs / "scsi_disk" / lower.address / "cache_type").read_text(
        encoding="ascii").strip() == "none"


def test_lun_300_in_flat_addressing():
    """A LUN above 255, which the kernel numbers by its flat address, is claimed and released."""
    number = 0x4000 + 300
    before = SCAN.read_text(encoding="ascii").strip()
    # A scan of all would make 301 disks.
    write(SCAN, "manual")
    try:
        with loaded("scsi_debug", luns=0, max_luns=301, lun_format=1, **DEBUG) as (host,), \
                conv.module():
            write(host.sysfs / "scan", f"0 0 {number}")
            lower, = host.wait_luns(1)
            upper = claim(lower)
            assert upper.number == lower.number == number
            some = VERIFIED | {"size": "256k"}
            fio(upper.sd, **some)
            conv.all_done(upper)
            fio(release(lower).sd, **some | {"verify_only": True})
    finally:
        write(SCAN, before)


@contextmanager
def open_in_a_program(disk):
    """This process has the disk open."""
    name = Path("/proc/self/comm").read_text(encoding="ascii").strip()
    with SgDev(disk):
        yield "open in", f"{name} (process {os.getpid()})"


@contextmanager
def device_mapper(disk):
    """A device of device mapper is on the disk."""
    load("dm_mod")
    try:
        run("dmsetup", "create", "--noudevsync", "above", "--table", f"0 2048 linear {disk} 0")
        try:
            above = next(Path("/sys/block").glob("dm-*")).name
            yield "in use", f"{Path(disk).name} is held by {above}"
        finally:
            run("dmsetup", "remove", "--noudevsync", "above")
    finally:
        unload("dm_mod")


@contextmanager
def backstore(disk):
    """LIO exports the disk."""
    with iblock("store", disk) as path:
        yield "in use", f"{Path(disk).name} is LIO's backstore {path.parent.name}/store"


@pytest.mark.not_uml("it has no device mapper")
def test_a_refusal_leads_to_who_has_the_disk(lower, klog):
    """When a claim or a release is refused, the log names a command. Its output says who has the
    disk."""
    def check(what, disk):
        for use in (open_in_a_program, device_mapper, backstore):
            klog.mark()
            with use(disk) as (label, who):
                refused(what, lower.address, errno.EBUSY)
                command, = {re.search(r"'(sg_io info /dev/\w+)' shows by whom", line)[1]
                            for line in klog.matching(f"{what}: ")}
                said = run(TOP / "tools" / command.split()[0], *command.split()[1:]).stdout
                assert re.search(rf"^{label} +{re.escape(who)}", said, re.M), said

    check("claim", lower.sd)
    check("release", claim(lower).sd)
    release(lower)


def test_claim_of_a_tape_is_refused():
    """A claim of a tape is refused."""
    with loaded("scsi_debug", disks=False, ptype=1, **DEBUG) as (host,), conv.module():
        refused("claim", host.luns()[0].address, errno.EINVAL)


def test_release_while_offline(lower, klog):
    """An upper device that is offline cannot be opened, but its lower device can be released
    without an error."""
    upper = claim(lower)
    write(upper.sysfs / "state", "offline\n")
    fio(release(lower).sd, **VERIFIED)
    assert not klog.matching("release: ")


def test_rmmod_releases_all_devices(lower):
    """rmmod releases all claimed devices."""
    other = conv.host_of(lower).luns()[1]
    claim(lower)
    claim(other)
    conv.unload("smq_conv")
    fio(conv.again(lower).sd, **VERIFIED)
    conv.again(other)
    conv.load("smq_conv")


def test_smq_sg_refuses_commands_to_a_claimed_device(lower, sg_module):
    """smq_sg's node of the claimed device refuses opens and commands; the node of the upper device
    works."""
    with opened(smqsg.node(lower), slots=8) as file, SgDev(smqsg.node(lower)) as sg:
        assert [file.run_one(slot).result for slot in range(8)] == [0] * 8
        upper = claim(lower)
        before = conv.dispatched(lower), conv.dispatched(upper)
        # A file opened before the claim stays open, but its commands fail.
        assert [file.run_one(slot).result for slot in range(8)] == [-errno.ENODEV] * 8
        with pytest.raises(OSError) as error:
            sg.cmd(READ_10, din=4096)
        assert error.value.errno == errno.ENODEV
        with pytest.raises(OSError) as error:
            os.open(smqsg.node(lower), os.O_RDWR)
        assert error.value.errno == errno.EBUSY
        assert (conv.dispatched(lower), conv.dispatched(upper)) == before
        lower = release(lower)
        assert [file.run_one(slot).result for slot in range(8)] == [0] * 8
        assert sg.cmd(READ_10, din=4096).good
    # smq_sg behaves in the same way if it is loaded after the claim.
    upper = claim(lower)
    unload("smq_sg")
    load("smq_sg")
    with pytest.raises(OSError) as error:
        os.open(smqsg.node(lower), os.O_RDWR)
    assert error.value.errno == errno.EBUSY
    with opened(smqsg.node(upper), slots=8) as file:
        assert [file.run_one(slot).result for slot in range(8)] == [0] * 8
    lower = release(lower)
    with SgDev(smqsg.node(lower)) as sg:
        assert sg.cmd(READ_10, din=4096).good


def test_sg_io_reports_claimed_devices(lower):
    """sg_io says that smq_conv has claimed the lower device, and sends the lower device no
    WRITE."""
    upper = claim(lower)
    host = f"host{conv.host_of(upper).number}"
    reported = json.loads(run(SG_IO, "info", "--json", lower.sg).stdout)["in_use"]
    assert reported == f"{lower.address} is claimed by smq_conv, for a LUN of {host}"
    reported = json.loads(run(SG_IO, "info", "--json", upper.sg).stdout)
    assert reported["in_use"] is None and reported["bypassed"] is None
    write = "2a000000000000000100 out 512\n"
    for node, status in ((lower.sg, 3), (upper.sg, 0)):
        done = subprocess.run([SG_IO, "run", node, "-"], input=write, text=True, check=False,
                              capture_output=True, timeout=60)
        assert done.returncode == status, done.stderr
        assert ("is claimed by smq_conv" in done.stderr) == bool(status)
    release(lower)


def bypassed(lower):
    """The number of commands that reached a claimed device, but not through its upper LUN. sg_io
    and the driver must report the same number."""
    reported = json.loads(run(SG_IO, "info", "--json", lower.bsg).stdout)["bypassed"]
    lines = (conv.DRIVER / "claims").read_text(encoding="ascii").splitlines()
    count, = (int(count) for address, _, count in map(str.split, lines)
              if address == lower.address)
    # The number includes sg_io's own commands, INQUIRY and READ CAPACITY.
    assert count == reported
    return count


def test_commands_by_sg_and_bsg_are_counted(lower):
    """smq_conv counts commands that sg and bsg send to a claimed device, but not the commands of
    its upper LUN."""
    assert (conv.DRIVER / "claims").read_text(encoding="ascii") == ""
    upper = claim(lower)
    fio(upper.sd, **VERIFIED)
    conv.all_done(upper)
    line = f"{lower.address} {upper.address} "
    assert (conv.DRIVER / "claims").read_text(encoding="ascii") == f"{line}0\n"
    for number, node in ((3, lower.sg), (5, lower.bsg)):
        before = bypassed(lower)
        run("sg_turs", f"--number={number}", node)
        fio(upper.sd, **VERIFIED | {"size": "64k"})
        conv.all_done(upper)
        text = (conv.DRIVER / "claims").read_text(encoding="ascii")
        assert text == f"{line}{before + number}\n"
    lower = release(lower)
    # A new claim counts from zero.
    upper = claim(lower)
    assert (conv.DRIVER / "claims").read_text(encoding="ascii") == f"{line}0\n"


def test_failed_upper_commands_are_not_counted(lower):
    """Commands of the upper LUN that fail because the lower device is offline do not change the
    number of commands that came by sg."""
    upper = claim(lower)
    line = f"{lower.address} {upper.address} "
    run("sg_turs", "--number=10", lower.sg)
    write(lower.sysfs / "state", "offline\n")
    with SgDev(upper.sg) as sg:
        assert {sg.cmd(READ_10, din=4096).host for _ in range(7)} == {DID_NO_CONNECT}
    assert (conv.DRIVER / "claims").read_text(encoding="ascii") == f"{line}10\n"
    write(lower.sysfs / "state", "running\n")
    release(lower)


@pytest.mark.smoke
def test_rule_claims_a_device_before_sd(lower, klog):
    """With a rule, smq_conv claims a device that a scan finds again, before sd sees it. A released
    device stays released."""
    wwid = (lower.sysfs / "wwid").read_text(encoding="ascii").strip()
    rules = conv.DRIVER / "rules"
    assert wwid.startswith("naa.") and rules.read_text(encoding="ascii") == ""
    write(rules, wwid)
    assert rules.read_text(encoding="ascii") == wwid + "\n"
    for bad, number in ((wwid, errno.EEXIST), ("-naa.1", errno.ENOENT), ("-", errno.ENOENT),
                        ("x" * 300, errno.EINVAL)):
        with pytest.raises(OSError) as error:
            write(rules, bad)
        assert error.value.errno == number
    for text in (f"one for {wwid} already", "none for 'naa.1'", "is no wwid"):
        assert klog.matching(f"rules: .*{text}"), text
    # A new rule does not claim an existing device until the device is removed and found again.
    assert os.path.exists(lower.sd) and not uppers()
    number = lower.address.partition(":")[0]
    with Uevents() as events:
        for _ in range(2):
            write(lower.sysfs / "delete", 1)
            wait_for("the device to go", lambda: not lower.sysfs.exists() and not uppers())
            write(SCSI_HOSTS / f"host{number}" / "scan", "0 0 0")
            upper, = wait_for("the upper disk", lambda: [
                lun for lun in uppers() if lun.sd and lun.ready])
            wait_for("the event of the upper disk", lambda lun=upper: events.disks_of(lun))
            assert events.seen and not events.disks_of(lower)
            fio(upper.sd, **VERIFIED)
    # The upper device has the same wwid; the rule does not apply to it.
    assert not klog.matching("claim: ")
    lower = release(lower)
    assert not uppers()
    write(rules, "-" + wwid)
    assert rules.read_text(encoding="ascii") == ""


def test_more_rules_than_fit_a_page():
    """The list has whole lines only, and says that there are more."""
    names = [f"naa.{number:056x}." for number in range(100)]
    with conv.module():
        for name in names:
            write(conv.DRIVER / "rules", name)
        text = (conv.DRIVER / "rules").read_text(encoding="ascii")
        *lines, last = text.splitlines()
        assert lines == names[:len(lines)] and last == "..."
        assert len(text) <= mmap.PAGESIZE < len(text) + 2 * len(names[0])
        for name in names:
            write(conv.DRIVER / "rules", "-" + name)
        assert not (conv.DRIVER / "rules").read_text(encoding="ascii")


def test_rules_are_parameters_of_the_module(klog):
    """smq_conv is loaded with rules before the device exists. A rule that is given twice is added
    once."""
    # scsi_debug's wwids contain its host number, which is not known yet, so there is a rule for
    # each number that it may get. A kernel with checkers frees the numbers of earlier hosts late.
    names = [f"naa.{0x3333333000000000 + 2000 * (host + 1):x}" for host in range(40)]
    conv.load("smq_conv", rules=",".join([*names, "naa.1", names[0]]))
    try:
        text = (conv.DRIVER / "rules").read_text(encoding="ascii")
        assert text.split() == [*names, "naa.1"]
        assert klog.matching(f"rules: .*one for {names[0]} already")
        with Uevents() as events, loaded("scsi_debug", disks=False, **DEBUG) as (host,):
            upper, = wait_for("the upper disk", lambda: [
                lun for lun in uppers() if lun.sd and lun.ready])
            wait_for("the event of the upper disk", lambda: events.disks_of(upper))
            lower, = host.luns()
            wwid = (lower.sysfs / "wwid").read_text(encoding="ascii").strip()
            assert wwid in names
            assert not events.disks_of(lower)
            write(conv.DRIVER / "rules", "-" + wwid)
            fio(release(lower).sd, **VERIFIED)
    finally:
        conv.unload("smq_conv")


def test_upper_devices_are_suspended_first(lower):
    """The upper host is the consumer of a device link to the lower device, so the kernel suspends
    and shuts down the upper devices first. The test checks only the link: a suspend of all devices
    would end this VM, whose root is a virtio device without suspend."""
    for _ in range(2):
        upper = claim(lower)
        link, = lower.sysfs.resolve().glob("consumer:*")
        consumer = (link / "consumer").resolve()
        assert consumer.name == f"host{conv.host_of(upper).number}"
        assert upper.sysfs.resolve().is_relative_to(consumer)
        lower = release(lower)
        assert not list(lower.sysfs.resolve().glob("consumer:*"))


def gone(address):
    """Returns true if no upper LUN and no upper host exists any more, and no LUN at @address is
    bound to smq_conv."""
    return not uppers() and not conv.find_hosts("smq_conv") and \
        not (conv.DRIVER / address).exists()


@pytest.mark.smoke
@pytest.mark.parametrize("how", ["delete", "unbind", "host"])
def test_lower_device_removed_under_load(lower, how):
    """When the lower device is deleted or unbound, or its host is removed, each command ends and
    the upper LUN is removed."""
    if how == "host":
        write("/sys/bus/pseudo/drivers/scsi_debug/ndelay", 500000)
    upper = claim(lower)
    with load_on(upper.sd, ok=False, **LOAD) as job:
        under_way(upper, 100)
        if how == "delete":
            write(lower.sysfs / "delete", 1)
        elif how == "unbind":
            write(conv.DRIVER / "unbind", lower.address)
        else:
            write("/sys/bus/pseudo/drivers/scsi_debug/add_host", -1)
        assert any(entry["error"] for entry in job.result()["jobs"])
    wait_for("the upper LUN to go", lambda: gone(lower.address))
    if how == "unbind":
        write("/sys/bus/scsi/drivers/sd/bind", lower.address)
        fio(conv.again(lower).sd, **VERIFIED)
    elif how == "delete":
        write(SCSI_HOSTS / f"host{lower.address.partition(':')[0]}" / "scan", "0 0 0")
        lower = conv.again(lower)
        fio(claim(lower).sd, **VERIFIED)
        release(lower)
    else:
        write("/sys/bus/pseudo/drivers/scsi_debug/add_host", 1)


def test_upper_lun_deleted_under_load(lower):
    """When the upper LUN is deleted its commands end, and the lower LUN stays claimed."""
    upper = claim(lower)
    with load_on(upper.sd, ok=False, **LOAD) as job:
        under_way(upper, 100)
        write(upper.sysfs / "delete", 1)
        assert any(entry["error"] for entry in job.result()["jobs"])
    wait_for("the upper LUN to be removed", lambda: not uppers())
    fio(release(lower).sd, **VERIFIED)


@pytest.mark.limit(120)
def test_claim_and_release_beside_load(lower):
    """A LUN is claimed and released under each policy, while verified load runs on another LUN of
    the same hosts."""
    other = conv.host_of(lower).luns()[1]
    second = claim(other)
    with load_on(second.sd, **VERIFIED | {"size": "8m", "loops": 1000}) as job:
        under_way(second, 50)
        above = conv.host_of(second)
        for policy in above.attr("smq/policy").replace("[", "").replace("]", "").split():
            write(above.sysfs / "smq/policy", policy)
            upper = claim(lower)
            fio(upper.sd, **VERIFIED | {"size": "256k"})
            lower = release(lower)
        assert job.running
    conv.all_done(second)


def test_policies_above_a_small_queue_depth(lower):
    """The lower queue_depth is much smaller than the host's depth. If the mid-layer allocated the
    upper LUN's map of commands for that queue_depth, the map would be too small for the commands
    that a holding policy advertises. KASAN would report this."""
    write(lower.sysfs / "queue_depth", 16)
    upper = claim(lower)
    above = conv.host_of(upper)
    for policy in (*above.attr("smq/policy").replace("[", "").replace("]", "").split(), "direct"):
        write(above.sysfs / "smq/policy", policy)
        fio(upper.sd, **VERIFIED | {"size": "256k"})
    assert (upper.sysfs / "queue_depth").read_text(encoding="ascii") == "16\n"
    conv.all_done(upper)
    release(lower)


def test_upper_queue_has_the_lower_limits():
    """The upper queue has the limits of the lower queue, and the upper queue_depth follows the
    lower queue_depth."""
    with loaded("scsi_debug", max_queue=7, **DEBUG) as (host,), conv.module():
        lower, = host.luns()
        want = {name: (lower.queue / name).read_text(encoding="ascii")
                for name in ("max_segments", "max_segment_size", "max_hw_sectors_kb",
                             "dma_alignment", "virt_boundary_mask", "write_cache", "fua",
                             "logical_block_size", "rotational", "max_discard_segments",
                             "write_same_max_bytes", "discard_max_bytes", "io_timeout")
                if (lower.queue / name).exists()}
        upper = claim(lower)
        have = {name: (upper.queue / name).read_text(encoding="ascii") for name in want}
        assert have == want and len(want) > 8
        depth = upper.sysfs / "queue_depth"
        assert depth.read_text(encoding="ascii") == "7\n"
        assert (upper.sysfs / "timeout").read_text(encoding="ascii") == "30\n"
        write(lower.sysfs / "queue_depth", 3)
        with SgDev(upper.sg) as sg:
            assert sg.cmd(READ_10, din=4096).good
        wait_for("the depth to follow", lambda: depth.read_text(encoding="ascii") == "3\n")
        assert Path(upper.queue / "nr_requests").exists()
        fio(upper.sd, **VERIFIED)
