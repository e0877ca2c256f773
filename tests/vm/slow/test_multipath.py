# SPDX-License-Identifier: GPL-2.0
"""dm-multipath over two iSCSI paths to one LUN of LIO. The path that ALUA prefers is removed and
comes back while verified writes run, and no data is lost. The same is tested with both paths
claimed by smq_conv: the upper hosts have no sessions, so the time limits for lost paths are set on
the lower hosts. And with the hosts of both paths attached: multipathd sets the time limits itself.

The test prints how long writes stopped. It does not use soft FC, whose target hangs if the
initiator of a WRITE disappears. """
import shutil
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from kit import attach, conv, iscsi
from kit.fiojob import load_on, total_ios
from kit.host import SCSI_DEVICES, Host, KernelLog, is_loaded, load, run, unload, wait_for
from kit.lio import ramdisk, write_attr
from kit.udev import program, udevd

DAEMON = "/sbin/multipathd"
CONF = Path("/etc/multipath.conf")
SETTINGS = """
defaults {
    find_multipaths off
    path_grouping_policy group_by_prio
    prio alua
    failback immediate
    no_path_retry 60
    polling_interval 1
    max_polling_interval 1
    fast_io_fail_tmo 1
    dev_loss_tmo 600
}
"""
MODULES = ("scsi_dh_alua", "dm-multipath", "dm-service-time")
# The module that these need: it is loaded first and unloaded last.
UNDER = ("dm-mod",)
MIB = 32
OPTIMIZED, NOT_OPTIMIZED = 0, 1
JOB = {"ioengine": "libaio", "rw": "randwrite", "bs": 4096, "iodepth": 8, "size": "16m",
       "verify": "crc32c", "verify_fatal": 1, "do_verify": 1, "rate_iops": 200}
SECONDS = 60

pytestmark = pytest.mark.limit(300)


def wait_disks_known():
    """Waits until udev has processed the disks."""
    run("udevadm", "trigger", "--action=add", "--subsystem-match=block")
    run("udevadm", "settle", "--timeout=30")


@contextmanager
def modules():
    """Loads multipath's modules; unloads them after the paths have gone."""
    with ExitStack() as stack:
        for name in (*UNDER, *MODULES):
            if not is_loaded(name.replace("-", "_")):
                load(name)
                stack.callback(unload, name)
        yield


@contextmanager
def multipathd():
    """Runs multipathd with its configuration."""
    CONF.write_text(SETTINGS, encoding="ascii")
    try:
        with program(DAEMON, "-d", "-s", "-v2"):
            yield
    finally:
        CONF.unlink()


def make_groups(store):
    """Makes two ALUA groups: the first portal's is optimized, the second's is not."""
    for number, (name, state) in enumerate(
            (("good", OPTIMIZED), ("other", NOT_OPTIMIZED)), 1):
        group = store / "alua" / name
        group.mkdir()
        write_attr(group / "tg_pt_gp_id", 10 + number)
        write_attr(group / "alua_access_state", state)
        write_attr(iscsi.group(number) / "lun/lun_0/alua_tg_pt_gp", name)


def paths():
    """The scsi_devices of the two paths, by portal."""
    found = {}
    for connection in Path("/sys/class/iscsi_connection").glob("connection*"):
        session = connection.resolve().parents[2]
        port = (connection / "persistent_port").read_text(encoding="ascii").strip()
        for device in SCSI_DEVICES.glob("*:*:*:*"):
            if session in device.resolve().parents and list(device.glob("block/*")):
                found[port] = device
    return [found["3260"], found["3261"]] if len(found) == 2 else None


def done(device):
    """How many commands a path has completed."""
    return int((device / "iodone_cnt").read_text(encoding="ascii"), 16)


def time_until_used(device, what):
    """Waits until a path has completed some commands. Returns how long that took, in seconds."""
    start, before = time.monotonic(), done(device)
    wait_for(what, lambda: done(device) > before + 20, SECONDS)
    return time.monotonic() - start


def device_mapper():
    """Multipath's device if it has both paths, otherwise None."""
    for disk in Path("/sys/block").glob("dm-*"):
        if len(list((disk / "slaves").iterdir())) == 2:
            return Path("/dev", disk.name)
    return None


def gone():
    """Removes multipath's devices; returns whether none is left. The removal fails while udev reads
    a device, so the caller repeats it."""
    run("multipath", "-F", ok=False)
    return not list(Path("/sys/block").glob("dm-*"))


def lun_of(device):
    """Waits until a path has its nodes; returns it as a Lun."""
    host = Host(int(device.name.partition(":")[0]))
    return wait_for(f"the disk of {device.name}", lambda: next(
        (lun for lun in host.luns() if lun.address == device.name and lun.sd and lun.sg and
         lun.ready), None))


@contextmanager
def bare(both):
    """Leaves the paths unclaimed; yields them."""
    yield both


@contextmanager
def converted(both):
    """Claims the paths; yields the upper devices. multipathd sets the time limit of a path's
    session, but upper devices have no session: this function sets the limit of the sessions of the
    lower devices."""
    with conv.module(io_errors=True):
        for knob in iscsi.SESSIONS.glob("session*/recovery_tmo"):
            write_attr(knob, 1)
        lowers = [lun_of(device) for device in both]
        uppers = [conv.claim(lun) for lun in lowers]
        yield [lun.sysfs for lun in uppers]
        for upper, lower in zip(uppers, lowers, strict=True):
            conv.all_done(upper)
            conv.release(lower)


@contextmanager
def in_place(both):
    """Attaches the hosts of the paths, with the policy prio; yields the paths."""
    with conv.module(io_errors=True):
        hosts = [conv.host_of(lun_of(device)) for device in both]
        for host in hosts:
            attach.attach(host)
            conv.write(host.sysfs / "smq/policy", "prio")
        yield both
        for host in hosts:
            assert attach.all_done(host)["done"] > 0
            attach.detach(host)


@pytest.fixture(name="disk", params=(bare, converted, in_place),
                ids=lambda paths_of: paths_of.__name__)
def _disk(request):
    """The multipath device and its two paths."""
    if not shutil.which(DAEMON):
        pytest.skip("no multipathd: tools/deps line targets")
    with KernelLog() as log:
        with modules(), ramdisk("store", MIB) as store, \
                iscsi.target(store, (iscsi.PORTAL, iscsi.SECOND)), iscsi.initiator(), \
                ExitStack() as stack:
            make_groups(store)
            for portal in (iscsi.PORTAL, iscsi.SECOND):
                iscsi.login(portal)
            both = stack.enter_context(request.param(wait_for("both paths", paths)))
            # udev, which tells multipathd of disks, starts after the claims: a program that udev
            # starts may open a disk, and a claim of an open disk fails.
            stack.enter_context(udevd())
            wait_disks_known()
            with multipathd():
                try:
                    yield wait_for("the multipath device", device_mapper, SECONDS), both
                finally:
                    wait_for("the device's end", gone)
        assert not log.faults(), "the kernel log reports a bug:\n" + log.tail(80)


def states(both):
    """The ALUA states of the paths."""
    return [(path / "access_state").read_text(encoding="ascii").strip() for path in both]


def test_writes_survive_removal_and_return_of_a_path(disk):
    """When the better path is removed, writes continue on the other path. When the better path is
    back, writes return to it."""
    device, (good, other) = disk
    print(run("multipath", "-ll").stdout)
    assert states((good, other)) == ["active/optimized", "active/non-optimized"]
    with load_on(str(device), to_end=True, limit=240, **JOB) as writes:
        time_until_used(good, "writes on the better path")
        before = done(other)
        write_attr(iscsi.group(1) / "enable", 0)
        pulled = time_until_used(other, "writes on the other path")
        print(f"path removed: writes continue after {pulled:.1f} s")
        assert writes.running and done(other) > before
        time_until_used(other, "more writes on the other path")
        write_attr(iscsi.group(1) / "enable", 1)
        returned = time_until_used(good, "writes on the better path again")
        print(f"path is back: writes use it after {returned:.1f} s")
        assert writes.running
        report = writes.result()
    assert total_ios(report) == 2 * (16 << 20) // 4096
    print(f"{total_ios(report) // 2} blocks written and verified; path 1 {done(good)}, "
          f"path 2 {done(other)} commands")
