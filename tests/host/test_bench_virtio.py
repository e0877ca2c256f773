# SPDX-License-Identifier: GPL-2.0
"""The comparison of smq_virtio with virtio_scsi: its verdicts, and its counts of doorbells and
interrupts."""

import shutil
from argparse import Namespace
from pathlib import Path

import pytest
from make import make
from smqbench import bars, instrument, measure
from smqbench.figures import FigureSet
from smqbench.plan import Workload
from smqbench.tomls import table

ROOT = Path(__file__).resolve().parents[2]
ROWS = table("instruments")["virtio"]["rows"]
GOOD = {"insn_lld": 1000, "allocations": 1, "doorbells": 0.06, "interrupts": 0.06}


def figures(**ours):
    """A set of figures. The kernel's driver has the values of GOOD. Ours has half of each and no
    allocations, or the values in @ours."""
    taken = FigureSet()

    def add(row, workload, metric, value):
        values = value if isinstance(value, list) else [value] * 5
        taken.add(instrument.figure(
            instrument="insn", row=row, kernel="6.1.0", command="tools/bench/insn --virtio",
            parameters={}, **instrument.fields(workload, values, metric)))
    for qd in (1, 32):
        workload = Workload("io_uring", "read", 512, qd, min(qd, 16))
        for metric, value in GOOD.items():
            add("virtio_scsi", workload, metric, value)
            half = 0 if metric == "allocations" else value / 2
            add("smq_virtio", workload, metric, ours.get(metric, half))
    add("smq_virtio_poll", Workload("io_uring_poll", "read", 512, 32, 16), "interrupts",
        ours.get("polled", 0))
    return taken


@pytest.mark.parametrize("worse, what", [
    ({}, []), ({"insn_lld": 601}, ["LLD, qd 32"]),
    ({"insn_lld": 1001}, ["LLD, qd 1", "LLD, qd 32"]),
    ({"insn_lld": [590, 590, 601, 601, 601]}, ["LLD, qd 32"]),
    ({"allocations": 0.5}, ["allocations, qd 1", "allocations, qd 32"]),
    ({"doorbells": 0.07}, ["doorbells, qd 1", "doorbells, qd 32"]),
    ({"interrupts": 0.07}, ["interrupts, qd 1", "interrupts, qd 32"]),
    ({"polled": 0.01}, ["interrupts"]),
])
def test_each_worse_figure_is_named(worse, what):
    """Only these bars are missed."""
    found = bars.judged("virtio", figures(**worse), ROWS)
    assert len(found) == 9
    missed = [one.what for one in found if not one.ok]
    assert len(missed) == len(what)
    for words, name in zip(what, missed):
        metric, _, depth = words.partition(", ")
        assert metric in name and depth in name


def test_unmeasured_bounds_do_not_pass():
    assert not any(one.ok for one in bars.judged("virtio", FigureSet(), ROWS))


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
