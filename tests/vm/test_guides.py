# SPDX-License-Identifier: GPL-2.0
# on: uml
# not on sanitize: it tests programs, which are the same there
"""Runs the code blocks of the README and of the guides for which this VM has the devices, to find
wrong names, renamed options and missing steps. Only device names, counts and sizes are replaced.

Other tests run the rest: docs/fibre-channel.md is run by test_fc_guide.py, target-configs/README.md
by slow/test_target_configs.py, and docs/converting-an-lld.md by tests/host/test_install_dev.py."""
import re
from pathlib import Path

import pytest
from kit import smqsg
from kit.host import find_hosts, loaded, run, unload

TOP = Path(__file__).resolve().parents[2]
README = "README.md"
# In the VM all lines run as root, so a function that runs its arguments replaces sudo.
PRELUDE = 'sudo() { "$@"; }\n'
# Replaces the pages' counts and sizes: smaller ones are enough here.
FEWER = {"--count 20000": "--count 100", "--count 1000": "--count 100", "--size=64M": "--size=1M"}

pytestmark = pytest.mark.limit(120)


def lines_of(page, title=""):
    """The first code block after @title, or the page's first code block if there is no title."""
    text = (TOP / page).read_text(encoding="utf-8")
    text = text[text.index(title):]
    return re.search(r"^\n((?:    .+\n)+)", text, re.M)[1].replace("\n    ", "\n").strip()


def run_lines(script, **names):
    """Runs lines, with this VM's device names in place of the page's. Returns what they print."""
    for old, new in {**FEWER, **names}.items():
        script = script.replace(old, new)
    done = run("bash", "-ec", PRELUDE + script, ok=False, limit=100, cwd=TOP)
    assert done.returncode == 0, script + done.stdout + done.stderr
    return done.stdout


@pytest.fixture(name="disk")
def disk_fixture():
    """A disk of smq_ram, and the pages' names for it. The pages' own lines load smq_sg."""
    with loaded("smq_ram") as (host,):
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
