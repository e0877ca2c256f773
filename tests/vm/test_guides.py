# SPDX-License-Identifier: GPL-2.0
# on: uml
# not on sanitize: it tests programs, which are the same there
"""Runs the code blocks of the README and of the guides for which this VM has the devices, to find
wrong names, renamed options and missing steps. Only device names, counts and sizes are replaced.

With SMQ_ROOT the lines run in that folder's system, with the tree in SMQ_TREE there: the tests of
the packages have installed one way or the other what the lines name.

Other tests run the rest: docs/fibre-channel.md is run by test_fc_guide.py, target-configs/README.md
by slow/test_target_configs.py, and docs/converting-an-lld.md by tests/host/test_install_dev.py."""
import os
import re
from pathlib import Path

import pytest
from kit import smqsg
from kit.host import find_hosts, loaded, run, unload

TOP = Path(__file__).resolve().parents[2]
README = "README.md"
ROOT = os.environ.get("SMQ_ROOT")
# In the VM all lines run as root, so a function that runs its arguments replaces sudo.
PRELUDE = 'sudo() { "$@"; }\n'
if ROOT:
    PRELUDE += f"cd {os.environ['SMQ_TREE']}\n"
# Replaces the pages' counts and sizes: smaller ones are enough here.
FEWER = {"--count 20000": "--count 100", "--count 1000": "--count 100", "--size=64M": "--size=1M"}

pytestmark = pytest.mark.limit(120)


@pytest.fixture(scope="module", autouse=True)
def other_system():
    """The other system has this kernel's file systems and modules, until this VM ends."""
    for folder in ("/dev", "/proc", "/sys", "/run", "/lib/modules") if ROOT else ():
        run("mkdir", "-p", f"{ROOT}{folder}")
        run("mount", "--rbind", folder, f"{ROOT}{folder}")


def lines_of(page, title=""):
    """The first code block after @title, or the page's first code block if there is no title."""
    text = (TOP / page).read_text(encoding="utf-8")
    text = text[text.index(title):]
    return re.search(r"^\n((?:    .+\n)+)", text, re.M)[1].replace("\n    ", "\n").strip()


def run_lines(script, **names):
    """Runs lines, with this VM's device names in place of the page's. Returns what they print."""
    for old, new in {**FEWER, **names}.items():
        script = script.replace(old, new)
    where = ["chroot", ROOT] if ROOT else []
    done = run(*where, "bash", "-ec", PRELUDE + script, ok=False, limit=100, cwd=TOP)
    assert done.returncode == 0, script + done.stdout + done.stderr
    return done.stdout


@pytest.fixture(name="disk")
def disk_fixture():
    """A disk of smq_ram, and the pages' names for it. The pages' own lines load smq_sg."""
    with loaded("smq_ram", size_mb=64) as (host,):
        lun = host.luns()[0]
        smqsg.clear_attentions(lun.sg)
        try:
            yield {"/dev/sg0": lun.sg, "0:0:0:0": lun.address, "host0": f"host{host.number}",
                   "/dev/sdX": lun.sd}
        finally:
            unload("smq_sg")


@pytest.mark.parametrize("page, title", [
    (README, "**Drive one device"), ("docs/sg_io.md", "# Prebuilt")])
def test_prebuilt_commands(disk, page, title):
    said = run_lines(lines_of(page, title).replace("/dev/smqsg0", "$(ls /dev/smqsg[0-9]*)"), **disk)
    assert ", 0 not good" in said


def test_prebuilt_commands_on_ten_luns():
    """Not on Fibre Channel: test_fc_guide.py does that. There is no udev for the nodes' names."""
    script = lines_of(README, "**Issue prebuilt commands on ten")
    with loaded("smq_ram", luns=10, size_mb=4) as (host,):
        try:
            for lun in host.luns():
                smqsg.clear_attentions(lun.sg)
            said = run_lines(script, **{
                "fc-check ": "fc-check || [ $? = 1 ] ", "/dev/smqsg/by-hctl/1:0:0:0": "/dev/smqsg0",
                "/dev/smqsg/by-hctl/1:0:0:{0..9}": "/dev/smqsg[0-9]*"})
            assert ", 0 not good" in said
        finally:
            unload("smq_sg")


@pytest.mark.parametrize("page", [README, "docs/replay.md"])
def test_recording_and_replay(disk, page):
    """Ctrl-C is SIGINT, after some reads and a write of another program."""
    script = lines_of(page, "**Record what" if page == README else "#")
    record, rest = script.split("\n", 1)
    record = record.partition("#")[0].replace("sudo ", "")
    said = run_lines(f"""{record} 2>/tmp/said & recorder=$!
until grep -q Ctrl-C /tmp/said; do sleep 0.1; done
dd if=/dev/zero of=/dev/sdX bs=4k count=64 oflag=direct 2>/dev/null
sync; kill -INT $recorder; wait $recorder; cat /tmp/said
{rest}
""", **disk, **{"/dev/sdY": disk["/dev/sdX"]})
    assert " good" in said and "0 differ" in said


def test_smqtop():
    """One interval as text in place of the screen, which needs a terminal."""
    script = lines_of(README, "**See what any SCSI host")
    assert script.startswith("smqtop ")
    with loaded("smq_ram"):
        assert "INFLIGHT" in run_lines(script.replace("smqtop ", "smqtop --once ", 1))


@pytest.mark.parametrize("page, title", [
    ("docs/policies.md", "# Dispatch"), ("docs/how-it-works.md", "# How")])
def test_commands_that_show_a_host(disk, page, title):
    """Runs all lines except the one that does not end, which reads trace_pipe."""
    script = "".join(line + "\n" for line in lines_of(page, title).splitlines()
                     if "trace_pipe" not in line)
    run_lines("modprobe smq_sg\nmountpoint -q /sys/kernel/debug || "
              "mount -t debugfs debugfs /sys/kernel/debug\n" +
              script.replace("smqsg0", "smqsg[0-9]*"), **disk)


def test_a_ram_disk():
    try:
        said = run_lines(lines_of("docs/ram-disk.md"))
        assert said.count("RAM DISK") == 2 and "[direct]" in said
    finally:
        unload("smq_ram")


def test_a_ram_disk_with_faults():
    script = lines_of(README, "**A RAM disk with faults")
    assert "host0" in script
    try:
        run_lines(script.splitlines()[0])
        host, = find_hosts("smq_ram")
        host.wait_luns(2)
        said = run_lines(script + "\ngrep . kind count\necho none > kind",
                         host0=f"host{host.number}")
        assert said.endswith("kind:lost\ncount:3\n")
    finally:
        unload("smq_ram")


def test_policies_in_front_of_an_hba():
    script = lines_of(README, "**Put policies in front")
    with loaded("scsi_debug", names=("add_host", "max_luns"), delay=0) as (host,):
        try:
            run_lines(script, host0=f"host{host.number}")
            assert "[prio]" in host.attr("smq/policy")
        finally:
            unload("smq_conv")
