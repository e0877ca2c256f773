# SPDX-License-Identifier: GPL-2.0
"""tools/targetcli-smq: targetcli with the fabric of smq_lio."""
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit import cdb
from kit.fiojob import fio
from kit.host import (KernelLog, Lun, SgDev, find_hosts, is_loaded, load, run, unload,
                      wait_for)
from kit.lio import SMQ, TARGET, calm

TOP = Path(__file__).resolve().parents[2]
PROGRAM = TOP / "tools/targetcli-smq"
BUS = Path("/run/dbus/system_bus_socket")
WWN = "naa.5001405000000001"
STORE_FILE = Path("/run/targetcli.img")
SAVED = Path("/run/targetcli.json")


def targetcli(words: str, ok: bool = True) -> str:
    """One command, and what it says."""
    done = run(PROGRAM, *words.split(), ok=ok, limit=120)
    return done.stdout + done.stderr


def shell(*commands: str) -> str:
    """Commands in one shell of targetcli, whose start takes seconds, and what they say."""
    done = subprocess.run([PROGRAM], input="\n".join(commands), text=True, check=True, timeout=120,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout


@contextmanager
def configured() -> Iterator[None]:
    """What targetcli wants of a system; at the end nothing of LIO's configuration is left."""
    BUS.parent.mkdir(exist_ok=True)
    with KernelLog() as log:
        with subprocess.Popen(["dbus-daemon", "--system", "--nofork", "--nopidfile"]) as bus:
            try:
                wait_for("the system's bus", BUS.exists)
                yield
            finally:
                if any(TARGET.glob("core/*_*")):
                    targetcli("clearconfig confirm=True", ok=False)
                bus.terminate()
        for fabric in (SMQ, TARGET / "loopback"):
            if fabric.exists():
                fabric.rmdir()
        for module in ("smq_lio", "tcm_loop", "null_blk"):
            if is_loaded(module):
                unload(module)
        assert not log.faults(), "the kernel log tells of a bug:\n" + log.tail(80)


def wait_disks(*places: str, driver: str = "smq_lio") -> dict[str, Lun]:
    """The disks at these channels, targets and LUNs, once they are there, and no others."""
    def ready():
        luns = [lun for host in find_hosts(driver) for lun in host.luns()]
        found = {lun.address.partition(":")[2]: lun for lun in luns
                 if lun.sd and lun.sg and lun.ready}
        return (found,) if found.keys() == set(places) else None
    return wait_for(f"disks at {places}", ready, 30)[0]


@pytest.mark.limit(300)
def test_targets_are_created_saved_cleared_and_restored():
    with configured():
        assert not is_loaded("smq_lio")
        said = shell("ls / 1",
                     f"/backstores/fileio create name=held file_or_dev={STORE_FILE} size=16M",
                     "/backstores/ramdisk create name=gone size=16M",
                     f"/smq create {WWN}",
                     f"/smq/{WWN}/tpg1/luns create /backstores/fileio/held",
                     f"/smq/{WWN} create 7",
                     f"/smq/{WWN}/tpg7/luns create /backstores/ramdisk/gone lun=3",
                     f"saveconfig {SAVED}")
        # As the other fabrics it is listed before its module is there.
        assert "o- smq " in said, said
        data = os.urandom(64 * 512)
        with SgDev(wait_disks("0:1:0", "0:7:3")["0:1:0"].sg) as dev:
            calm(dev)
            assert dev.cmd(cdb.blocks(cdb.WRITE_10, 4096, 64), dout=data).good
        saved = json.loads(SAVED.read_text(encoding="utf-8"))
        assert [(one["fabric"], one["wwn"], {tpg["tag"] for tpg in one["tpgs"]})
                for one in saved["targets"]] == [("smq", WWN, {1, 7})]

        targetcli("clearconfig confirm=True")
        wait_disks()
        assert not list(SMQ.glob("naa.*"))
        assert not list(TARGET.glob("core/*/held"))

        said = shell(f"restoreconfig {SAVED}", "ls /smq")
        for word in ("Configuration restored", WWN, "tpg1", "tpg7", "lun3", "fileio/held",
                     "ramdisk/gone"):
            assert word in said, said
        with SgDev(wait_disks("0:1:0", "0:7:3")["0:1:0"].sg) as dev:
            calm(dev)   # its ALUA group was restored after the LUN
            assert dev.cmd(cdb.blocks(cdb.READ_10, 4096, 64), din=len(data)).data == data

        # Errors are targetcli's, and its exit status comes back.
        refused = run(PROGRAM, "/smq", "create", "iqn.2026-01.org.t:x", ok=False, limit=120)
        assert refused.returncode and "WWN not valid as: naa" in refused.stdout + refused.stderr
        shell(f"/smq delete {WWN}", "/backstores/fileio delete held",
              "/backstores/ramdisk delete gone")
        wait_disks()
        assert not list(SMQ.glob("naa.*"))


@pytest.mark.limit(240)
@pytest.mark.parametrize("name, driver", [("tcm_loop", "tcm_loopback"), ("smq_lio", "smq_lio")])
def test_ready_configurations(name, driver):
    with configured():
        load("null_blk", memory_backed=1, gb=1)
        try:
            said = targetcli(f"restoreconfig {TOP}/target-configs/{name}.json")
            assert "Configuration restored" in said, said
            disks = wait_disks("0:1:0", "0:1:1", "0:1:2", driver=driver)
            shown = run("lsblk", "-So", "NAME,HCTL,VENDOR,MODEL").stdout
            assert shown.count("LIO-ORG") == 3, shown
            fio(":".join(lun.sd for lun in disks.values()), ioengine="io_uring", rw="randwrite",
                bsrange="512-64k", iodepth=16, size="3m", verify="crc32c", verify_fatal=1)
        finally:
            Path("/var/tmp/smq-target.img").unlink(missing_ok=True)
