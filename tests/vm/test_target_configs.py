# SPDX-License-Identifier: GPL-2.0
"""The configurations of target-configs/, by the commands that its README gives."""
import re
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit import iscsi
from kit.fiojob import fio
from kit.host import is_loaded, run, unload
from kit.targetcli import TOP, configured, wait_disks

README = TOP / "target-configs/README.md"
STORE_FILE = Path("/var/tmp/smq-target.img")
LUNS = ("0:1:0", "0:1:1", "0:1:2")

pytestmark = pytest.mark.limit(240)


def commands(name: str) -> tuple[str, str]:
    """What a row of the README's table says: what loads it, and what shows that it works."""
    row = re.search(rf"^\| `{re.escape(name)}` \|.*$", README.read_text(encoding="utf-8"), re.M)
    assert row, f"no row of {name} in {README.name}"
    loads, shows = row[0].strip("| ").split(" | ")[-2:]
    return loads.strip("`"), shows.strip("`")


def said_by(command: str) -> str:
    """Runs a command of the README where it is to be run: all of it has to work."""
    done = run("sh", "-ec", command, cwd=TOP, limit=120)
    return done.stdout + done.stderr


@contextmanager
def ready():
    """A system for them, which has no backstore in the end."""
    try:
        with configured():
            yield
    finally:
        if is_loaded("null_blk"):
            unload("null_blk")
        STORE_FILE.unlink(missing_ok=True)


def verified(disks) -> None:
    """Data that were written to all of them are there."""
    fio(":".join(lun.sd for lun in disks.values()), ioengine="io_uring", rw="randwrite",
        bsrange="512-64k", iodepth=16, size="3m", verify="crc32c", verify_fatal=1)


@pytest.mark.parametrize("name, driver", [("tcm_loop", "tcm_loopback"), ("smq_lio", "smq_lio")])
def test_local_disks(name, driver):
    loads, shows = commands(f"{name}.json")
    with ready():
        assert "Configuration restored from" in said_by(loads)
        disks = wait_disks(*LUNS, driver=driver)
        shown = said_by(shows)
        assert shown.count("LIO-ORG") == 3, shown
        verified(disks)


def test_iscsi():
    loads, shows = commands("iscsi.json")
    with ready(), iscsi.initiator():
        assert "Configuration restored from" in said_by(loads)
        shown = said_by(shows)
        assert "successful" in shown, shown
        disks = wait_disks("0:0:0", "0:0:1", "0:0:2", driver="iscsi_tcp")
        shown = said_by(shows.rpartition(";")[2])
        assert len(re.findall(r"LIO-ORG.*iscsi", shown)) == 3, shown
        verified(disks)
        iscsi.logout()
        wait_disks(driver="iscsi_tcp")
