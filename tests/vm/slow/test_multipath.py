# SPDX-License-Identifier: GPL-2.0
"""dm-multipath over two iSCSI paths to one LUN of LIO's, ALUA telling which is the better one: a
path is pulled and comes back while verified writes run, and nothing is lost.

Printed is how long writes stood still. Soft FC is not asked: its target does not survive WRITEs
whose initiator goes.
"""
import shutil
import subprocess
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from kit import iscsi
from kit.fiojob import load_on, total_ios
from kit.host import SCSI_DEVICES, KernelLog, is_loaded, load, run, unload, wait_for
from kit.lio import put, ramdisk

DAEMON, UDEVD = "/sbin/multipathd", "/lib/systemd/systemd-udevd"
CONF = Path("/etc/multipath.conf")
UDEV = Path("/run/udev")
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
# Left behind by them.
UNDER = ("dm-mod",)
MIB = 32
OPTIMIZED, NOT_OPTIMIZED = 0, 1
JOB = {"ioengine": "libaio", "rw": "randwrite", "bs": 4096, "iodepth": 8, "size": "16m",
       "verify": "crc32c", "verify_fatal": 1, "do_verify": 1, "rate_iops": 200}
SECONDS = 60

pytestmark = pytest.mark.limit(300)


@contextmanager
def program(*argv):
    """A daemon in the foreground, which systemd would start."""
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()
            process.wait(20)


@contextmanager
def udevd():
    """udev, from which multipathd knows disks. Nothing of it stays: libdevmapper would wait for
    it."""
    UDEV.mkdir(exist_ok=True)
    try:
        with program(UDEVD):
            wait_for("udevd", (UDEV / "control").exists)
            yield
    finally:
        shutil.rmtree(UDEV)


def disks_known():
    """udev has looked at the disks."""
    run("udevadm", "trigger", "--action=add", "--subsystem-match=block")
    run("udevadm", "settle", "--timeout=30")


@contextmanager
def modules():
    """What multipath stands on, until after the paths have gone; none of it in the end."""
    with ExitStack() as stack:
        for name in (*UNDER, *MODULES):
            if not is_loaded(name.replace("-", "_")):
                load(name)
                stack.callback(unload, name)
        yield


@contextmanager
def multipathd():
    """The daemon with its configuration."""
    CONF.write_text(SETTINGS, encoding="ascii")
    try:
        with program(DAEMON, "-d", "-s", "-v2"):
            yield
    finally:
        CONF.unlink()


def groups(store):
    """Two ALUA groups: the first portal's is optimized, the second's is not."""
    for number, (name, state) in enumerate(
            (("good", OPTIMIZED), ("other", NOT_OPTIMIZED)), 1):
        group = store / "alua" / name
        group.mkdir()
        put(group / "tg_pt_gp_id", 10 + number)
        put(group / "alua_access_state", state)
        put(iscsi.group(number) / "lun/lun_0/alua_tg_pt_gp", name)


def paths():
    """The two paths' scsi_devices by their portal."""
    found = {}
    for connection in Path("/sys/class/iscsi_connection").glob("connection*"):
        session = connection.resolve().parents[2]
        port = (connection / "persistent_port").read_text(encoding="ascii").strip()
        for device in SCSI_DEVICES.glob("*:*:*:*"):
            if session in device.resolve().parents and list(device.glob("block/*")):
                found[port] = device
    return [found["3260"], found["3261"]] if len(found) == 2 else None


def done(device):
    """Commands that a path has completed."""
    return int((device / "iodone_cnt").read_text(encoding="ascii"), 16)


def moves(device, what):
    """Waits until a path completes commands; how long that took."""
    start, before = time.monotonic(), done(device)
    wait_for(what, lambda: done(device) > before + 20, SECONDS)
    return time.monotonic() - start


def device_mapper():
    """multipath's device, once it has both paths."""
    for disk in Path("/sys/block").glob("dm-*"):
        if len(list((disk / "slaves").iterdir())) == 2:
            return Path("/dev", disk.name)
    return None


def gone():
    """Ends multipath's devices; udev may look at one at the moment. Whether there are none."""
    run("multipath", "-F", ok=False)
    return not list(Path("/sys/block").glob("dm-*"))


@pytest.fixture(name="disk")
def _disk():
    """The multipath device and its two paths."""
    if not shutil.which(DAEMON):
        pytest.skip("no multipathd: tools/deps line targets")
    with KernelLog() as log:
        with modules(), ramdisk("store", MIB) as store, \
                iscsi.target(store, (iscsi.PORTAL, iscsi.SECOND)), iscsi.initiator(), udevd():
            groups(store)
            for portal in (iscsi.PORTAL, iscsi.SECOND):
                iscsi.login(portal)
            both = wait_for("both paths", paths)
            disks_known()
            with multipathd():
                try:
                    yield wait_for("the multipath device", device_mapper, SECONDS), both
                finally:
                    wait_for("the device's end", gone)
        assert not log.faults(), "the kernel log tells of a bug:\n" + log.tail(80)


def test_a_path_is_pulled_and_returned(disk):
    """The writes that were on it go on on the other, and come back with it."""
    device, (good, other) = disk
    print(run("multipath", "-ll").stdout)
    states = [(path / "access_state").read_text(encoding="ascii").strip() for path in (good, other)]
    assert states == ["active/optimized", "active/non-optimized"]
    with load_on(str(device), to_end=True, limit=240, **JOB) as writes:
        moves(good, "writes on the better path")
        before = done(other)
        put(iscsi.group(1) / "enable", 0)
        pulled = moves(other, "writes on the other path")
        print(f"pulled: writes go on after {pulled:.1f} s")
        assert writes.running and done(other) > before
        moves(other, "more of them")
        put(iscsi.group(1) / "enable", 1)
        returned = moves(good, "writes on the better path again")
        print(f"returned: writes are back after {returned:.1f} s")
        assert writes.running
        report = writes.result()
    assert total_ios(report) == 2 * (16 << 20) // 4096
    print(f"{total_ios(report) // 2} blocks written and verified; path 1 {done(good)}, "
          f"path 2 {done(other)} commands")
