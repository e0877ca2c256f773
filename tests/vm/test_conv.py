# SPDX-License-Identifier: GPL-2.0
"""smq_conv: claim and release, and what is to be seen of the device meanwhile."""
import errno
import json
import os
import socket
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from kit import conv, smqsg
from kit.conv import ask, claim, release, uppers, write
from kit.fiojob import fio, load_on, total_ios
from kit.host import SCSI_DEVICES, SCSI_HOSTS, loaded, run, under_way, wait_for
from kit.sgio import SgDev
from kit.slowdisk import opened
from kit.targetcli import TOP

VERIFIED = {"ioengine": "io_uring", "rw": "randwrite", "bsrange": "512-64k", "iodepth": 32,
            "size": "4m", "offset_increment": "8m", "verify": "crc32c", "verify_fatal": 1}
LOAD = {"ioengine": "libaio", "rw": "randrw", "bs": 4096, "iodepth": 32, "numjobs": 2,
        "time_based": True, "runtime": 60}
DEBUG = {"delay": 0, "dev_size_mb": 32}
SG_IO = TOP / "tools/sg_io"
READ_10 = bytes.fromhex("28000000000000000800")
PAGES = [0x00, 0x80, 0x83, 0xb0, 0xb1, 0xb2]


@pytest.fixture(name="lower")
def lower_fixture():
    """The first of two LUNs of scsi_debug, while smq_conv is loaded."""
    with loaded("scsi_debug", names=("add_host", "max_luns"), luns=2, io_errors=True,
                **DEBUG) as (host,), conv.module(io_errors=True):
        yield host.luns()[0]


def refused(what, address, number):
    """A claim or release is refused with that errno."""
    with pytest.raises(OSError) as error:
        ask(what, address)
    assert error.value.errno == number


def identity(sg):
    """INQUIRY data and VPD pages of a LUN."""
    with SgDev(sg) as dev:
        pages = [dev.cmd(bytes([0x12, 1, page, 1, 0, 0]), din=256).data for page in PAGES]
        return [dev.cmd(bytes.fromhex("120000006000"), din=96).data, *pages]


@pytest.mark.smoke
def test_claimed_and_released(lower):
    """Identity, data, queues; back as it was. The other LUN does not appear."""
    before = identity(lower.sg)
    fio(lower.sd, **VERIFIED)
    for _ in range(2):
        upper = claim(lower)
        assert identity(upper.sg) == before
        assert len(list((upper.queue.parent / "mq").iterdir())) == os.cpu_count()
        assert not list((SCSI_DEVICES / lower.address).glob("block/*"))
        # What was written to the lower disk is read from the upper one, and anew.
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


def test_several_luns_of_one_host(lower):
    """They share an upper host, which goes with the last one."""
    other = conv.host_of(lower).luns()[1]
    first, second = claim(lower), claim(other)
    assert conv.host_of(first) == conv.host_of(second)
    with load_on(first.sd, to_end=True, **VERIFIED), \
            load_on(second.sd, to_end=True, **VERIFIED):
        pass
    release(lower)
    fio(second.sd, **VERIFIED)
    # One that was deleted is found again, for it is claimed; and only that one.
    write(second.sysfs / "delete", 1)
    wait_for("the LUN to go", lambda: not uppers())
    write(conv.host_of(second).sysfs / "scan", "0 0 1")
    assert [lun.address for lun in uppers()] == [second.address]
    conv.again(second)
    release(other)
    assert not conv.find_hosts("smq_conv")


@contextmanager
def mounted(disk):
    """Opens it as a mount does."""
    fd = os.open(disk, os.O_RDONLY | os.O_EXCL)
    try:
        yield
    finally:
        os.close(fd)


def test_refused(lower, klog):
    """What cannot be claimed or released is left as it was, and the log says why."""
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
    for text in ("is open", "cannot be had: -16", "is claimed already", "is not claimed",
                 "is a LUN of smq_conv itself", "is no SCSI device"):
        assert klog.matching(text), text


def test_no_disk():
    """A tape is none."""
    with loaded("scsi_debug", disks=False, ptype=1, **DEBUG) as (host,), conv.module():
        refused("claim", host.luns()[0].address, errno.EINVAL)


def test_release_of_what_is_offline(lower):
    """It cannot be opened; that is no reason to keep it."""
    upper = claim(lower)
    write(upper.sysfs / "state", "offline\n")
    fio(release(lower).sd, **VERIFIED)


def test_module_goes(lower):
    """rmmod gives all devices back."""
    other = conv.host_of(lower).luns()[1]
    claim(lower)
    claim(other)
    conv.unload("smq_conv")
    fio(conv.again(lower).sd, **VERIFIED)
    conv.again(other)
    conv.load("smq_conv")


def test_fast_path(lower, sg_module):
    """smq_sg's node of the lower device refuses, that of the upper one works."""
    assert smqsg.node(lower)
    upper = claim(lower)
    with pytest.raises(OSError) as error:
        os.open(smqsg.node(lower), os.O_RDWR)
    assert error.value.errno == errno.EBUSY
    with opened(smqsg.node(upper), slots=8) as file:
        assert [file.one(slot).result for slot in range(8)] == [0] * 8
    lower = release(lower)
    with SgDev(smqsg.node(lower)) as sg:
        assert sg.cmd(READ_10, din=4096).good


def test_sg_io_knows(lower):
    """It says what has the lower device, and writes nothing there."""
    upper = claim(lower)
    host = f"host{conv.host_of(upper).number}"
    told = json.loads(run(SG_IO, "info", "--json", lower.sg).stdout)["in_use"]
    assert told == f"{lower.address} is claimed by smq_conv, for a LUN of {host}"
    assert json.loads(run(SG_IO, "info", "--json", upper.sg).stdout)["in_use"] is None
    write = "2a000000000000000100 out 512\n"
    for node, status in ((lower.sg, 3), (upper.sg, 0)):
        done = subprocess.run([SG_IO, "run", node, "-"], input=write, text=True, check=False,
                              capture_output=True, timeout=60)
        assert done.returncode == status, done.stderr
        assert ("is claimed by smq_conv" in done.stderr) == bool(status)
    release(lower)


class Uevents:
    """What the kernel tells udev."""

    def __init__(self):
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 15)
        self._socket.bind((0, 1))
        self._socket.setblocking(False)
        self.paths = []

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._socket.close()

    def of(self, lun):
        """Of those of devices added so far: those of a LUN's disks."""
        with suppress(BlockingIOError):
            while True:
                head = self._socket.recv(65536).split(b"\0")[0].decode(errors="replace")
                action, _, path = head.partition("@")
                if action == "add":
                    self.paths.append(path)
        return [path for path in self.paths if f"/{lun.address}/block" in path]


@pytest.mark.smoke
def test_rule(lower):
    """A device that comes back is claimed before sd sees it; one that is released stays so."""
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
    # What is there stays as it is, until it comes back.
    assert os.path.exists(lower.sd) and not uppers()
    number = lower.address.partition(":")[0]
    with Uevents() as events:
        for _ in range(2):
            write(lower.sysfs / "delete", 1)
            wait_for("the device to go", lambda: not lower.sysfs.exists() and not uppers())
            write(SCSI_HOSTS / f"host{number}" / "scan", "0 0 0")
            upper, = wait_for("the upper disk", lambda: [
                lun for lun in uppers() if lun.sd and lun.ready])
            wait_for("the event of the upper disk", lambda lun=upper: events.of(lun))
            assert events.paths and not events.of(lower)
            fio(upper.sd, **VERIFIED)
    lower = release(lower)
    assert not uppers()
    write(rules, "-" + wwid)
    assert rules.read_text(encoding="ascii") == ""


def gone(address):
    """Neither an upper LUN nor an upper host is there any more."""
    return not uppers() and not conv.find_hosts("smq_conv") and \
        not (conv.DRIVER / address).exists()


@pytest.mark.smoke
@pytest.mark.parametrize("how", ["delete", "unbind", "host"])
def test_lower_goes_under_load(lower, how):
    """Every command ends, and the upper LUN with them."""
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


def test_upper_goes_under_load(lower):
    """Deleted above, its commands end and the claim stays."""
    upper = claim(lower)
    with load_on(upper.sd, ok=False, **LOAD) as job:
        under_way(upper, 100)
        write(upper.sysfs / "delete", 1)
        assert any(entry["error"] for entry in job.result()["jobs"])
    wait_for("the LUN to go", lambda: not uppers())
    fio(release(lower).sd, **VERIFIED)


@pytest.mark.limit(120)
def test_claim_and_release_beside_load(lower):
    """Again and again, while another LUN of the same hosts is verified."""
    other = conv.host_of(lower).luns()[1]
    second = claim(other)
    with load_on(second.sd, **VERIFIED | {"size": "8m", "loops": 1000}) as job:
        under_way(second, 50)
        for _ in range(4):
            upper = claim(lower)
            fio(upper.sd, **VERIFIED | {"size": "256k"})
            lower = release(lower)
        assert job.running
    conv.all_done(second)


def test_limits_are_the_lower_ones():
    """And the depth, which follows."""
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
