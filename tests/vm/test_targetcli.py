# SPDX-License-Identifier: GPL-2.0
# not on uml: targetcli-smq fails there (modules of LIO)
# not on sanitize: as on uml
"""tools/targetcli-smq: targetcli with the fabric of smq_lio."""
import json
import os
import subprocess
from pathlib import Path

import pytest
from kit import cdb
from kit.host import SgDev, is_loaded, run
from kit.lio import SMQ, TARGET, clear_attentions
from kit.targetcli import PROGRAM, TOP, configured, shell, targetcli, wait_disks

WWN = "naa.5001405000000001"
STORE_FILE = Path("/run/targetcli.img")
SAVED = Path("/run/targetcli.json")
SERVICE = TOP / "docs/boot/systemd/system/rtslib-fb-targetctl.service.d/smq.conf"
SERVICE_FILE = Path("/etc/rtslib-fb-target/saveconfig.json")


def service(key):
    """Does what systemd does for a key of the service: an empty value drops the unit's own."""
    unit, *own = (line.partition("=")[2] for line in
                  SERVICE.read_text(encoding="ascii").splitlines() if line.startswith(f"{key}="))
    assert not unit and own
    for line in own:
        subprocess.run(line.split(), check=True, timeout=120,
                       env={"PATH": f"{PROGRAM.parent}:/usr/sbin:/usr/bin:/sbin:/bin"})


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
        # Like other fabrics, smq is listed even before the module smq_lio is loaded.
        assert "o- smq " in said, said
        data = os.urandom(64 * 512)
        with SgDev(wait_disks("0:1:0", "0:7:3")["0:1:0"].sg) as dev:
            clear_attentions(dev)
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
            clear_attentions(dev)   # restoring the ALUA group after the LUN caused one
            assert dev.cmd(cdb.blocks(cdb.READ_10, 4096, 64), din=len(data)).data == data

        # targetcli-smq passes on targetcli's error messages and exit status.
        refused = run(PROGRAM, "/smq", "create", "iqn.2026-01.org.t:x", ok=False, limit=120)
        assert refused.returncode and "WWN not valid as: naa" in refused.stdout + refused.stderr
        shell(f"/smq delete {WWN}", "/backstores/fileio delete held",
              "/backstores/ramdisk delete gone")
        wait_disks()
        assert not list(SMQ.glob("naa.*"))


@pytest.mark.limit(300)
def test_the_service_restores_and_clears_the_targets():
    """rtslib-fb-targetctl.service, with the drop-in, at boot and at stop."""
    with configured():
        shell(f"/backstores/fileio create name=held file_or_dev={STORE_FILE} size=16M",
              f"/smq create {WWN}", f"/smq/{WWN}/tpg1/luns create /backstores/fileio/held",
              f"saveconfig {SAVED}", "clearconfig confirm=True")
        # targetcli has saved there, too, when it ended.
        SERVICE_FILE.write_bytes(SAVED.read_bytes())
        try:
            wait_disks()
            service("ExecStart")
            wait_disks("0:1:0")
            service("ExecStop")
            wait_disks()
            assert not list(SMQ.glob("naa.*")) and not list(TARGET.glob("core/*/held"))
        finally:
            SERVICE_FILE.unlink()
