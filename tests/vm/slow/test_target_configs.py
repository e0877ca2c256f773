# SPDX-License-Identifier: GPL-2.0
"""Loads and tests the configurations of target-configs/ with the commands that its README gives."""
import json
import re
import shlex
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit import iscsi
from kit.fiojob import fio
from kit.host import find_hosts, is_loaded, run, unload
from kit.targetcli import TOP, configured, wait_disks

README = TOP / "target-configs/README.md"
STORE_FILE = Path("/var/tmp/smq-target.img")
LUNS = ("0:1:0", "0:1:1", "0:1:2")
# Addresses of LUNs of a remote target, whose target port groups do not appear as SCSI targets.
REMOTE_LUNS = ("0:0:0", "0:0:1", "0:0:2")
SOFT_FC = TOP / "target-configs/soft-fc"

# A boot sector. The BIOS loads it from block 0 and runs it; it writes itself to block 1, and ends
# the VM.
BOOT = bytes.fromhex("31c0 8ed8 8ec0"       # xor ax,ax; mov ds,ax; mov es,ax
                     "bb007c b80103"        # mov bx,0x7c00; mov ax,0x301: write one block
                     "b90200 b600 cd13"     # mov cx,2: at block 1; mov dh,0; int 0x13
                     "b010 7302 b011"       # mov al,0x10; jnc +2; mov al,0x11
                     "e6f4 f4 ebfd")        # out 0xf4,al; hlt; jmp -3
BOOT = BOOT.ljust(510, b"\0") + b"\x55\xaa"
DEBUG_EXIT = "isa-debug-exit,iobase=0xf4,iosize=1"
# QEMU's exit status after a write to this device: twice the number written, plus 1.
WRITTEN = 2 * 0x10 + 1

pytestmark = pytest.mark.limit(240)


def commands(name: str) -> tuple[str, str]:
    """The two commands in a row of the README's table: one loads the configuration, the other shows
    that it works."""
    row = re.search(rf"^\| `{re.escape(name)}` \|.*$", README.read_text(encoding="utf-8"), re.M)
    assert row, f"no row of {name} in {README.name}"
    loads, shows = row[0].strip("| ").split(" | ")[-2:]
    return loads.strip("`"), shows.strip("`")


def output_of(command: str) -> str:
    """Runs a command of the README, in the folder that the README expects. Each part of the command
    must succeed. Returns its output."""
    done = run("sh", "-ec", command, cwd=TOP, limit=120)
    return done.stdout + done.stderr


@contextmanager
def ready():
    """Prepares the system for the configurations; at the end LIO must have no backstore."""
    try:
        with configured():
            yield
    finally:
        if is_loaded("null_blk"):
            unload("null_blk")
        STORE_FILE.unlink(missing_ok=True)


def verified(disks) -> None:
    """Checks that data written to all disks can be read back."""
    fio(":".join(lun.sd for lun in disks.values()), ioengine="io_uring", rw="randwrite",
        bsrange="512-64k", iodepth=16, size="3m", verify="crc32c", verify_fatal=1)


@pytest.mark.parametrize("name, driver", [("tcm_loop", "tcm_loopback"), ("smq_lio", "smq_lio")])
def test_local_disks(name, driver):
    loads, shows = commands(f"{name}.json")
    with ready():
        assert "Configuration restored from" in output_of(loads)
        disks = wait_disks(*LUNS, driver=driver)
        shown = output_of(shows)
        assert shown.count("LIO-ORG") == 3, shown
        verified(disks)


def test_iscsi():
    loads, shows = commands("iscsi.json")
    with ready(), iscsi.initiator():
        assert "Configuration restored from" in output_of(loads)
        shown = output_of(shows)
        assert "successful" in shown, shown
        disks = wait_disks(*REMOTE_LUNS, driver="iscsi_tcp")
        shown = output_of(shows.rpartition(";")[2])
        assert len(re.findall(r"LIO-ORG.*iscsi", shown)) == 3, shown
        verified(disks)
        iscsi.logout()
        wait_disks(driver="iscsi_tcp")


def test_soft_fc():
    loads, shows = commands("tcm_fc.json")
    refused = run(SOFT_FC, "connect", ok=False)
    assert refused.returncode and "no FC port on smqfc1" in refused.stderr
    with ready():
        try:
            assert "Configuration restored from" in output_of(loads)
            disks = wait_disks(*REMOTE_LUNS, driver="fcoe")
            shown = output_of(shows)
            assert "0x2000020000000020" in shown, shown
            assert len(re.findall(r"LIO-ORG.*fc", shown)) == 3, shown
            verified(disks)
            refused = run(SOFT_FC, "create", ok=False)
            assert refused.returncode and "smqfc0 is there already" in refused.stderr
        finally:
            run(SOFT_FC, "delete", limit=120)
        assert not find_hosts("fcoe") and not Path("/sys/class/net/smqfc0").exists()
    for module in ("fcoe", "veth"):
        unload(module)


def test_targetcli_accepts_the_qlogic_configuration():
    """targetcli accepts the configuration except for the target, because this VM has no port of
    that name. Apart from names, the configuration is the same as for tcm_fc."""
    loads, shows = commands("tcm_qla2xxx.json")
    ours, other = (json.loads((TOP / f"target-configs/{name}.json").read_text(encoding="ascii"))
                   for name in ("tcm_qla2xxx", "tcm_fc"))
    for config in (ours, other):
        target = config["targets"][0]
        for port in (target, target["tpgs"][0]["node_acls"][0]):
            name = port.pop("wwn" if port is target else "node_wwn")
            assert re.fullmatch("naa[.]2[0-9a-f]{15}", name), name
    assert (ours["targets"][0].pop("fabric"), other["targets"][0].pop("fabric")) == (
        "qla2xxx", "tcm_fc")
    assert ours == other
    with ready():
        done = run("sh", "-ec", loads, cwd=TOP, ok=False, limit=120)
        said = done.stdout + done.stderr
        assert "1 recoverable errors" in said and "Could not create Target" in said, said
        # targetcli lists the fabric qla2xxx only on a machine that has a port for it.
        assert "No such path /qla2xxx" in run("sh", "-ec", shows, cwd=TOP, ok=False).stderr


def test_vhost():
    loads, shows = commands("vhost.json")
    with ready():
        assert "Configuration restored from" in output_of(loads)
        with STORE_FILE.open("r+b") as file:
            file.write(BOOT)
        done = run(*shlex.split(shows), "-nodefaults", "-display", "none", "-device", DEBUG_EXIT,
                   ok=False, limit=180)
        assert done.returncode == WRITTEN, f"{done.returncode}: {done.stderr}"
        with STORE_FILE.open("rb") as file:
            assert file.read(2 * 512) == BOOT + BOOT and not any(file.read(512))
