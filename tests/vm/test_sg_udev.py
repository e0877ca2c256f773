# SPDX-License-Identifier: GPL-2.0
# on: 7.2
# not on uml: needs udev
# not on sanitize: that guest has no udev
"""The names that udev's rules give to nodes. The VM runs udevadm, not udevd."""
import re
import shutil
from pathlib import Path

import pytest
from kit.host import load, loaded, run, unload, wait_for

TOP = Path(__file__).resolve().parents[2]
RULES = TOP / "drivers/sg/60-smqsg.rules"


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


@pytest.mark.parametrize("page", ["tools/src/sg_io/sg_io.8", "docs/sg_io.md"])
def test_rule_that_gives_nodes_to_a_group(page):
    """The rule that the page shows is one that udev understands, and matches the nodes."""
    text = (TOP / page).read_text(encoding="utf-8")
    rule = re.search(r'SUBSYSTEM=="smq_sg", GROUP="\w+", MODE="\d+"', text)[0]
    path = Path("/run/udev/rules.d/90-smqsg.rules")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(rule + "\n", encoding="ascii")
    load("smq_sg")
    try:
        with loaded("smq_ram", size_mb=16) as hosts:
            link = hosts[0].luns()[0].sysfs / "smq_generic"
            wait_for(f"{link}", link.exists)
            done = run("udevadm", "test", "--action=add", str(link.resolve()))
            assert re.search(r"90-smqsg.rules:1 .*MODE 0660", done.stdout + done.stderr)
    finally:
        unload("smq_sg")
        path.unlink()
