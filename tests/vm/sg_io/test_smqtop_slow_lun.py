# SPDX-License-Identifier: GPL-2.0
# not on uml: smqtop's times need BPF on tracepoints (perf events), which arch/um does not have
# not on sanitize: as on uml
"""smqtop puts the LUN that is slow first."""

import glob
import json
import os
import subprocess
from contextlib import ExitStack

import pytest
import vmdisk
from kit.host import unload
from vmdisk import SG_IO, set_param, wait_for

SMQTOP = vmdisk.ROOT / "tools/smqtop"
LUNS = 10
# scsi_debug answers INQUIRY at once, and takes SLOW_NS for READ.
INQUIRY = "120000002400 in 36\n"
READ = "28000000000000000800 in 4096\n"
SLOW_NS = 20_000_000
ADDRESSES = "/sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/target*/*:*:*:*"

pytestmark = pytest.mark.skipif(not SMQTOP.exists(), reason="tools/deps install top; make tools")


@pytest.fixture(name="nodes")
def _nodes():
    """The sg nodes of ten LUNs of one host, by H:C:T:L."""
    for name in ("sd_mod", "sg"):
        subprocess.run(["modprobe", name], check=True, timeout=vmdisk.TIMEOUT)
    subprocess.run(["modprobe", "scsi_debug", "delay=0", f"max_luns={LUNS}", "dev_size_mb=16"],
                   check=True, timeout=vmdisk.TIMEOUT)
    try:
        wait_for(lambda: len(glob.glob(f"{ADDRESSES}/block/*/queue/max_hw_sectors_kb")) == LUNS)
        found = wait_for(lambda: (lambda all_: len(all_) == LUNS and all_)(
            glob.glob(f"{ADDRESSES}/scsi_generic/sg*")))
        for path in glob.glob(ADDRESSES):
            vmdisk.settle(vmdisk.Disk(path))
        yield {path.split("/")[-3]: "/dev/" + os.path.basename(path) for path in found}
    finally:
        unload("scsi_debug")


def last_interval(*options):
    """The rows of the last interval that smqtop prints."""
    done = subprocess.run([SMQTOP, "--json", *options], capture_output=True, text=True, check=True,
                          timeout=vmdisk.TIMEOUT)
    return json.loads(done.stdout.splitlines()[-1])["rows"]


def test_slow_lun_is_the_first_row_within_two_intervals(nodes, tmp_path):
    (tmp_path / "slow").write_text(READ, encoding="ascii")
    (tmp_path / "fast").write_text(INQUIRY, encoding="ascii")
    *fast, slow = sorted(nodes)
    set_param("ndelay", SLOW_NS)
    loads = [[SG_IO, "run", "--time=30", "--rate=200", *(nodes[name] for name in fast),
              tmp_path / "fast"],
             [SG_IO, "run", "--time=30", "--depth=4", nodes[slow], tmp_path / "slow"]]
    with ExitStack() as stack:
        for load in loads:
            process = stack.enter_context(subprocess.Popen(load, stdout=subprocess.DEVNULL))
            stack.callback(process.terminate)
        # On a busy machine the loads begin late.
        for _ in range(5):
            rows = last_interval("--count=2")
            if all(row["interval"]["done"] for row in rows):
                break
        by_name = last_interval("--count=1", "--sort=name")
        filtered = last_interval("--count=1", "--interval=0.1", f"--filter={slow}")
    assert rows[0]["name"] == slow
    assert [row["name"] for row in by_name] == [*fast, slow]
    assert [row["name"] for row in filtered] == [slow]
    assert {row["name"] for row in rows} == set(nodes)
    # The bucket of a time is at most 1/8 wide; the timer of a busy VM may be late.
    assert SLOW_NS <= rows[0]["device_ns"]["p50"]
    for row in rows[1:]:
        assert row["interval"]["done"], row
        assert row["device_ns"]["p50"] * 20 < rows[0]["device_ns"]["p50"], row
