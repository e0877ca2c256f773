# SPDX-License-Identifier: GPL-2.0
"""The names that udev's rules give to nodes. The VM runs udevadm, not udevd."""
import re
import shutil
from pathlib import Path

import pytest
from kit.host import load, loaded, run, unload, wait_for

RULES = Path(__file__).resolve().parents[2] / "drivers/sg/60-smqsg.rules"


@pytest.fixture
def _rules():
    """Puts the rules where udev finds them."""
    folder = Path("/run/udev/rules.d")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(RULES, folder)
    yield
    (folder / RULES.name).unlink()


def links(node: Path) -> set[str]:
    """Returns the links that udev would make for a node."""
    said = run("udevadm", "test", "--action=add", str(node)).stdout
    found = re.search(r"^DEVLINKS=(.*)$", said, re.M)
    return set(found[1].split()) if found else set()


@pytest.mark.smoke
def test_udev_rules_name_each_node(_rules):
    """Each node gets a name by its H:C:T:L and one by the device's identity. Two LUNs have no name
    in common."""
    load("smq_sg")
    try:
        with loaded("smq_ram", luns=2, size_mb=16) as hosts:
            named = {}
            for lun in hosts[0].luns():
                link = lun.sysfs / "smq_generic"
                wait_for(f"{link}", link.exists)
                named[lun.address] = links(link.resolve())
            for address, names in named.items():
                assert f"/dev/smqsg/by-hctl/{address}" in names
                assert any(name.startswith("/dev/smqsg/by-id/scsi-") for name in names), names
            one, two = named.values()
            assert not one & two
    finally:
        unload("smq_sg")
