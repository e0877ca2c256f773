# SPDX-License-Identifier: GPL-2.0
# not on uml: needs Fibre Channel
# not on sanitize: as on uml
"""Runs the commands of docs/fibre-channel.md that need no HBA, on ten LUNs of software Fibre
Channel. Runs tools/fc-check on these LUNs and on iSCSI, and then the commands that fc-check
proposes. After these commands fc-check may report only what no command can change."""
import json
import re
import shutil
from pathlib import Path

import pytest
from kit import iscsi, smqsg
from kit.host import find_hosts, run, unload, wait_for
from kit.lio import ramdisk
from kit.softfc import need, soft_fc

TOP = Path(__file__).resolve().parents[2]
PAGE = TOP / "docs/fibre-channel.md"
CHECK = TOP / "tools/fc-check"
LUNS, MIB = 10, 4
# The page's first code block has no prompts; in later ones commands follow root's prompt.
PROMPT = "    # "

pytestmark = pytest.mark.limit(240)


@pytest.fixture(scope="module")
def link():
    """The link to ten LUNs, while no module of this project is loaded."""
    need()
    with soft_fc(MIB, LUNS) as found:
        for lun in found.luns():
            smqsg.clear_attentions(lun.sg)
        yield found


def commands():
    """The page's commands, in their order."""
    text = PAGE.read_text(encoding="utf-8")
    first = re.search(r"^\n((?:    .+\n)+)", text, re.M)[1].splitlines()
    lines = text.partition(first[-1])[2].splitlines()
    return [line[4:] for line in first] + [
        line.removeprefix(PROMPT) for line in lines if line.startswith(PROMPT)]


def checked(*args):
    """Runs fc-check; returns its findings by name."""
    done = run(CHECK, "--json", *args, ok=False)
    assert done.stderr == "" and done.returncode in (0, 1), done.stderr
    return {one["check"]: one for one in json.loads(done.stdout)["findings"]}


def fix(found):
    """Runs the commands that the findings propose."""
    for one in found.values():
        for line in one["commands"]:
            run("bash", "-ec", line)


def test_commands_of_the_page_work(link):
    """All commands of the page work, in one shell, and print what they should."""
    lines = commands()
    assert len(lines) > 20
    script = "".join(f"cat <<'EOF'\n# {line}\nEOF\n{{ {line}\n}} || exit\n" for line in lines)
    try:
        done = run("bash", "-c", script, ok=False, limit=200, cwd=TOP)
    finally:
        unload("smq_sg")
        # udevadm test leaves a record of the disk, whose names lsblk would show for a later disk.
        shutil.rmtree("/run/udev/data", ignore_errors=True)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert done.stdout.count(" good, 0 not good") >= 3
    assert re.search(rf"{LUNS} LUNs", done.stdout) and "0 could not be read" in done.stdout
    assert "err= 0" in done.stdout
    link.up()


def test_fc_check_on_fc(link):
    """The commands that fc-check proposes make all its findings disappear, except the one that no
    command can change."""
    for lun in link.luns():
        (lun.queue / "scheduler").write_text("mq-deadline", encoding="ascii")
        (lun.queue / "add_random").write_text("1", encoding="ascii")
    lun = link.luns()[2]
    link.set_loss_timeouts(dev_loss=20, fast_io_fail=5)
    name = link.host.sysfs.name
    with smqsg.depth(lun, 7):
        (lun.sysfs / "timeout").write_text("5", encoding="ascii")
        found = checked("--host", name)
        assert set(found) >= {"elevator", "add-random", "queue-depth", "uneven-depth", "timeout",
                              "dev-loss", "fast-io-fail", "hardware-queues", "smq-sg"}, found
        assert len(found["elevator"]["where"]) == LUNS
        assert found["queue-depth"]["found"] == "queue_depth is 7, libfc's default 32"
        fix(found)
        try:
            assert set(checked("--host", name)) == {"hardware-queues"}
        finally:
            unload("smq_sg")
    link.set_loss_timeouts()
    link.down()
    found = checked("--host", name)
    assert {found[name]["level"] for name in ("link", "lun-state")} == {"error"}, found
    link.up()


def test_fc_check_on_iscsi():
    """fc-check reports that an iSCSI session's time limit is too short for a session without
    multipath. The commands that fc-check proposes make all its findings disappear, except the one
    that no command can change."""
    with ramdisk("store", 32) as store, iscsi.target(store), iscsi.initiator():
        iscsi.login()
        host = wait_for("a host", lambda: next(iter(find_hosts("iscsi_tcp")), None))
        host.wait_luns(1)
        session = next(iscsi.SESSIONS.glob("session*"))
        (session / "recovery_tmo").write_text("5", encoding="ascii")
        found = checked("--host", host.sysfs.name)
        assert found["recovery"]["where"] == [session.name]
        assert found["hardware-queues"]["level"] == "note"
        fix(found)
        try:
            assert set(checked("--host", host.sysfs.name)) == {"hardware-queues"}
        finally:
            unload("smq_sg")
