# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 7.2
"""Hosts and LUNs of smq_ram are made, changed and removed at run time."""
import errno
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from kit import cdb
from kit.fiojob import fio, load_on
from kit.host import find_hosts, is_loaded, run, under_way, wait_for
from kit.ramdir import HOSTS, RamDir, ram_dirs, ram_host
from kit.sanitizing import repeats
from kit.sgio import SgDev
from kit.trace import traced

SCAN = Path("/sys/module/scsi_mod/parameters/scan")
VERIFY = {"ioengine": "io_uring", "rw": "randwrite", "bs": 4096, "iodepth": 16, "size": "4m",
          "verify": "crc32c", "verify_fatal": 1}
JOB = {"ioengine": "io_uring", "rw": "randrw", "bs": 4096, "iodepth": 16, "numjobs": 2,
       "time_based": True, "runtime": 600, "size": "16m"}


def refused(number, call, *args):
    """Asserts that @call fails with the errno @number."""
    with pytest.raises(OSError) as caught:
        call(*args)
    assert caught.value.errno == number


@pytest.mark.smoke
def test_host_is_created_powered_and_removed():
    with ram_dirs():
        host_dir = RamDir("a")
        assert host_dir.get("power") == "0" and host_dir.get("depth") == "128"
        host_dir.set("depth", 8)
        host_dir.add_lun(0, size_mb=16, sector_size=4096)
        host = host_dir.power_on(1)
        lun = host.luns()[0]
        assert (lun.sysfs / "queue_depth").read_text().strip() == "8"
        assert run("blockdev", "--getsize64", "--getss", lun.sd).stdout.split() == [
            str(16 << 20), "4096"]
        fio(lun.sd, **VERIFY)
        host_dir.set("power", 0)
        assert not find_hosts("smq_ram")
        host = host_dir.power_on(1)
        with SgDev(host.luns()[0].sg) as dev:
            assert dev.cmd(cdb.blocks(cdb.READ_10, 0, 1), din=4096).data == bytes(4096)
        host_dir.remove()
        assert not find_hosts("smq_ram")


@pytest.mark.limit(300)
def test_luns_come_and_go_under_verified_load():
    with ram_host(luns=1) as (host_dir, host):
        # The load is light, so that the programs on the other LUN get CPU time.
        light = {"runtime": 290, "numjobs": 1, "iodepth": 2, "thinktime": 2000}
        with load_on(host.luns()[0].sd, **JOB | light) as load_:
            for _ in range(repeats(6)):
                host_dir.add_lun(5, size_mb=8)
                disk = host.wait_luns(2)[1]
                fio(disk.sd, **VERIFY | {"size": "256k"})
                with load_on(disk.sd, ok=False, **JOB | {"size": "4m"}) as gone:
                    under_way(disk)
                    host_dir.remove_lun(5)
                    gone.result()
                wait_for("its nodes to go", lambda: len(host.luns()) == 1)
            assert load_.running


def test_inventory_change_is_reported():
    with ram_host(luns=1) as (host_dir, host), SgDev(host.luns()[0].sg) as dev:
        assert dev.cmd(cdb.plain(cdb.TEST_UNIT_READY)).good
        host_dir.add_lun(200, size_mb=8)
        assert dev.cmd(cdb.plain(cdb.TEST_UNIT_READY)).triple == (6, 0x3f, 0x0e)
        assert dev.cmd(cdb.plain(cdb.TEST_UNIT_READY)).good
        listed = dev.cmd(cdb.report_luns(), din=512).data
        assert listed[:4] == (16).to_bytes(4, "big") and listed[16:18] == bytes([0, 200])


def test_report_luns_clears_the_inventory_change_of_all_luns():
    unit_ready = cdb.plain(cdb.TEST_UNIT_READY)
    with ram_host(luns=2) as (host_dir, host), ExitStack() as stack:
        devs = [stack.enter_context(SgDev(lun.sg)) for lun in host.luns()]
        for dev in devs:
            assert dev.cmd(unit_ready).good
        host_dir.add_lun(2, size_mb=8)
        # A REPORT LUNS that is refused reports nothing, so it does not clear the unit attention.
        assert devs[0].cmd(cdb.report_luns(select=3), din=512).triple[0] == 5
        assert devs[1].cmd(unit_ready).triple == (6, 0x3f, 0x0e)
        host_dir.add_lun(3, size_mb=8)
        assert devs[0].cmd(cdb.report_luns(), din=512).good
        assert [dev.cmd(unit_ready).good for dev in devs] == [True, True]


def test_host_without_lun_0_has_its_luns():
    def numbers(count):
        return [lun.number for lun in host.wait_luns(count)]
    with ram_dirs():
        host_dir = RamDir("a")
        for number in (3, 5):
            host_dir.add_lun(number, size_mb=8)
        host = host_dir.power_on(2)
        assert numbers(2) == [3, 5]
        for lun in host.luns():
            (lun.sysfs / "delete").write_text("1", encoding="ascii")
        assert not host.luns() and host_dir.get("luns/3/power") == "1"
        (host.sysfs / "scan").write_text("- - -", encoding="ascii")
        assert numbers(2) == [3, 5]
        host_dir.add_lun(0, size_mb=8)
        assert numbers(3) == [0, 3, 5]
        host_dir.remove_lun(0)
        (host.sysfs / "scan").write_text("- - -", encoding="ascii")
        assert numbers(2) == [3, 5]
        host_dir.set("power", 0)
        host = host_dir.power_on(2)
        assert numbers(2) == [3, 5]
        for number in (3, 5):
            host_dir.remove_lun(number)
        (host.sysfs / "scan").write_text("- - -", encoding="ascii")
        assert not host.luns()


def test_power_off_under_load():
    with ram_host(luns=2) as (host_dir, host):
        host_dir.set("model/service_ns", 2000000)
        names = ":".join(lun.sd for lun in host.luns())
        with load_on(names, ok=False, **JOB) as load_:
            wait_for("load", lambda: host.stats()["inflight"] > 8)
            host_dir.set("power", 0)
            load_.result()
        host_dir.set("model/service_ns", 0)
        fio(host_dir.power_on(2).luns()[0].sd, **VERIFY)


@pytest.mark.limit(180)
def test_hosts_come_and_go_under_verified_load():
    """Two hosts are created and powered off under load, then powered on and removed under load;
    this is repeated."""
    job = VERIFY | {"size": "2m", "time_based": True, "runtime": 60, "verify_backlog": 16}
    with ram_dirs(), traced(buffer_kb=65536) as trace:
        dirs = {name: RamDir(name) for name in ("a", "b")}
        for repeat in range(repeats(4)):
            loads = ExitStack()
            for host_dir in dirs.values():
                if repeat % 2 == 0:
                    host_dir.add_lun(0, size_mb=8)
                    host_dir.set("model/service_ns", 5000000)
                host = host_dir.power_on(1)
                lun = host.luns()[0]
                (lun.queue / "nomerges").write_text("2", encoding="ascii")
                loads.enter_context(load_on(lun.sd, ok=False, to_end=True, **job))
                host_dir.host = host
            with loads, ThreadPoolExecutor(2) as pool:
                for host_dir in dirs.values():
                    wait_for("load", lambda host=host_dir.host: (
                        host.stats()["done"] > 100 and host.stats()["inflight"] > 4))
                if repeat % 2 == 0:
                    list(pool.map(lambda host_dir: host_dir.set("power", 0), dirs.values()))
                else:
                    list(pool.map(RamDir.remove, dirs.values()))
                    dirs = {name: RamDir(name) for name in dirs}
            assert not find_hosts("smq_ram")
    assert trace.check_once() > repeats(4) * 200


@pytest.mark.parametrize("name, value, said", [
    ("luns/0/size_mb", 0, "size_mb=0 is outside 1..16777216"),
    ("luns/0/size_mb", "1G", "size_mb is no number"),
    ("luns/0/sector_size", 513, "sector_size=513 is none of 512, 1024, 2048, 4096"),
    ("model/doorbell_ns", 1000001, "model/doorbell_ns=1000001 is above 1000000"),
    ("model/hwq_depth", 4097, "model/hwq_depth=4097 is above 4096"),
    ("fault/kind", "meteor", "fault/kind is none of none, status"),
    ("fault/sense", 0x100000, "fault/sense=1048576 is above"),
    ("fault/every", "often", "fault/every is no number in 0..4294967295"),
    ("fault/count", -2, "fault/count is no number in -1..2147483647"),
    ("fault/fail_abort", "yes", "fault/fail_abort is no number in -1..2147483647")])
def test_bad_values_are_refused(klog, name, value, said):
    with ram_dirs():
        host_dir = RamDir("a")
        host_dir.add_lun(0)
        host_dir.set("luns/0/power", 0)
        before = host_dir.get(name)
        refused(errno.EINVAL, host_dir.set, name, value)
        assert host_dir.get(name) == before
        klog.wait(said.replace(".", r"\."))


def test_bad_hosts_and_luns_are_refused(klog):
    with ram_dirs():
        host_dir = RamDir("a")
        host_dir.set("depth", 0)
        refused(errno.EINVAL, host_dir.set, "power", 1)
        klog.wait(r"smq_ram: depth=0 is outside 1\.\.4096")
        for number in (256, "x", -1):
            refused(errno.EINVAL, (host_dir.path / f"luns/{number}").mkdir)
        klog.wait(r"a LUN is a number in 0\.\.255")


def test_lun_that_the_mid_layer_refuses_stays_powered_off():
    with ram_host(luns=1) as (host_dir, host):
        (host_dir.path / "luns/1").mkdir()
        old = SCAN.read_text(encoding="ascii").strip()
        SCAN.write_text("none", encoding="ascii")
        try:
            refused(errno.ENODEV, host_dir.set, "luns/1/power", 1)
        finally:
            SCAN.write_text(old, encoding="ascii")
        assert host_dir.get("luns/1/power") == "0"
        # A scan does not find the LUN either.
        (host.sysfs / "scan").write_text("- - -", encoding="ascii")
        assert len(host.luns()) == 1
        host_dir.set("luns/1/power", 1)
        host.wait_luns(2)


def test_powered_host_cannot_be_changed_or_unloaded():
    with ram_host(luns=1) as (host_dir, _):
        refused(errno.EBUSY, host_dir.set, "depth", 4)
        refused(errno.EBUSY, host_dir.set, "luns/0/size_mb", 4)
        refused(errno.ENOTEMPTY, host_dir.path.rmdir)
        assert "in use" in run("rmmod", "smq_ram", ok=False).stderr
        assert is_loaded("smq_ram") and HOSTS.exists()
