# SPDX-License-Identifier: GPL-2.0
# on: uml
# not on sanitize: it tests programs, which are the same there
"""The examples of sg_io's help and manual page, as they stand there."""

import os
import re
import shutil
import subprocess

import pytest
import vmdisk

# A recording of /dev/sda and /dev/sdb, which examples begin with.
LOAD = "".join(f"2a00{8 * n:08x}00000800 out 4096 pattern=lba at={2000 * n} cpu={n % 2} "
               f"dev=/dev/sd{'ab'[n // 2 % 2]} took=50\n" for n in range(100))
# A slow machine needs more than the example's two seconds until sg_io records.
SLEEP = """sleep() {
    until grep -qs 1 /sys/kernel/tracing/instances/*/events/scsi/scsi_dispatch_cmd_done/enable; do
        command sleep 0.1
    done
    command sleep 1
}
"""
BLKPARSE = vmdisk.ROOT / "tests/host/imports/blkparse.txt"


@pytest.fixture(scope="module", autouse=True)
def four_disks(fast_path):
    """/dev/sda to /dev/sdd, whose data is their own; the fast path has nodes of all."""
    with vmdisk.disks(hosts=4, per_host_store=1) as found:
        assert [disk.sd for disk in found] == [f"/dev/sd{letter}" for letter in "abcd"]
        assert all(disk.smq for disk in found)
        yield found


COMMANDS = ["compare", "compare-luns", "copy", "fidelity", "gen", "import", "info", "record",
            "replay", "run", "verify"]


def test_all_commands_are_here():
    text = vmdisk.sg_io("--help").stdout
    assert re.findall(r"^  ([a-z-]+) ", text.split("\n\n")[1], flags=re.M) == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_example(four_disks, tmp_path, command):
    """The lines run in a shell, one after the other, and none fails."""
    text = vmdisk.sg_io(command, "--help").stdout
    lines = re.search(r"^Example.*:\n((?:  .*\n)+)", text, flags=re.M)[1]
    (tmp_path / "load.cdb").write_text(LOAD.replace("sdb", "sda") if command == "fidelity"
                                       else LOAD, encoding="ascii")
    shutil.copy(BLKPARSE, tmp_path / "sda.txt")
    path = f"{vmdisk.SG_IO.parent}:{os.environ['PATH']}"
    done = subprocess.run(["bash", "-e", "-c", SLEEP + lines], cwd=tmp_path, check=False, text=True,
                          capture_output=True, timeout=60, env={**os.environ, "PATH": path})
    # Whether a replay is in time depends on the machine.
    late = re.search(r"^(late|reordered|no verdict): ", done.stdout, flags=re.M)
    assert done.returncode == (1 if late else 0), done.stdout + done.stderr
    for name in re.findall(r"(?:--output |--svg |>)(\S+)", lines):
        assert (tmp_path / name).stat().st_size
