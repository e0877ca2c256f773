# SPDX-License-Identifier: GPL-2.0
"""The comparison of smq_virtio with virtio_scsi: its verdicts, and its counts of doorbells and
interrupts."""

import shutil
from argparse import Namespace
from pathlib import Path

import pytest
from make import make
from smqbench import measure
from smqbench.tomls import table

ROOT = Path(__file__).resolve().parents[2]
ROWS = table("instruments")["virtio"]["rows"]


@pytest.mark.skipif(shutil.which("qemu-system-x86_64") is None, reason="needs qemu-system-x86_64")
def test_short_run_counts_doorbells_and_interrupts(tmp_path, monkeypatch):
    """At QD1 each command needs a doorbell and an interrupt; a polled one needs no interrupt."""
    make(ROOT / "tools/bench")
    boot, = table("instruments")["virtio"]["boot"]
    monkeypatch.setitem(boot, "counts", [200, 600])
    monkeypatch.setitem(boot["load"][0], "workloads", ["io_uring:read:512:1"])
    taken = measure.measure("virtio", Namespace(kernel="6.1", repeat=1, rows=ROWS), tmp_path,
                            instrument_name="insn")
    assert not taken.skipped
    for row in ("virtio_scsi", "smq_virtio"):
        for metric in ("doorbells", "interrupts"):
            assert taken.one(row=row, metric=metric).value == pytest.approx(1, abs=0.02)
        assert 500 < taken.one(row=row, metric="insn_lld").value < 2000
    # The kernel's driver allocates a table of descriptors for each command.
    assert taken.one(row="virtio_scsi", metric="allocations").value == pytest.approx(1, abs=0.02)
    assert taken.one(row="smq_virtio", metric="allocations").value < 0.01
    assert taken.one(row="smq_virtio_poll", metric="interrupts").value < 0.01
    added = taken.one(row="smq_virtio", metric="insn_lld").parts["function"]
    assert added["virtqueue_add_split [virtio_ring]"] > 100
