# SPDX-License-Identifier: GPL-2.0
"""The comparison of smq_virtio with virtio_scsi: its verdicts, and its counts of doorbells and
interrupts."""

import shutil
from argparse import Namespace
from pathlib import Path

import pytest
from make import make
from smqbench import instrument, virtio
from smqbench.figures import FigureSet
from smqbench.plan import Plan

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "tools" / "bench"

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
    for workload in virtio.SHARES:
        for metric, value in GOOD.items():
            add(virtio.THEIRS, workload, metric, value)
            half = 0 if metric == "allocations" else value / 2
            add(virtio.OURS, workload, metric, ours.get(metric, half))
    add(virtio.POLLED, virtio.POLLED_WORKLOAD, "interrupts", ours.get("polled", 0))
    return taken


def failed(taken):
    """The bounds that do not hold."""
    return {one.what for one in virtio.verdicts(taken) if not one.ok}


def test_a_good_driver_passes():
    assert not failed(figures())
    assert len(virtio.verdicts(figures())) == 9


@pytest.mark.parametrize("worse, what", [
    ({"insn_lld": 601}, {"QD32, LLD's instructions / virtio_scsi's"}),
    ({"insn_lld": 1001}, {"QD1, LLD's instructions / virtio_scsi's",
                          "QD32, LLD's instructions / virtio_scsi's"}),
    ({"insn_lld": [590, 590, 601, 601, 601]}, {"QD32, LLD's instructions / virtio_scsi's"}),
    ({"allocations": 0.5}, {f"QD{qd}, allocations by smq_virtio per I/O" for qd in (1, 32)}),
    ({"doorbells": 0.07}, {f"QD{qd}, doorbells per I/O" for qd in (1, 32)}),
    ({"interrupts": 0.07}, {f"QD{qd}, interrupts per I/O" for qd in (1, 32)}),
    ({"polled": 0.01}, {"polled, interrupts per I/O"}),
])
def test_each_worse_figure_is_named(worse, what):
    assert failed(figures(**worse)) == what


def test_unmeasured_bounds_do_not_pass():
    assert len(failed(FigureSet())) == 9


@pytest.mark.skipif(shutil.which("qemu-system-x86_64") is None, reason="needs qemu-system-x86_64")
def test_short_run_counts_doorbells_and_interrupts(tmp_path):
    """At QD1 each command needs a doorbell and an interrupt; a polled one needs no interrupt."""
    make(BENCH)
    plan = Plan([(row, workloads[:1]) for row, workloads in virtio.cells()], (200, 600), 100, 4)
    taken = virtio.measure(Namespace(kernel="6.1", repeat=1), tmp_path, plan, 300, 1.0)
    assert not taken.skipped
    for row in (virtio.THEIRS, virtio.OURS):
        for metric in ("doorbells", "interrupts"):
            assert taken.one(row=row, metric=metric).value == pytest.approx(1, abs=0.02)
        assert 500 < taken.one(row=row, metric="insn_lld").value < 2000
    # The kernel's driver allocates a table of descriptors for each command.
    assert taken.one(row=virtio.THEIRS, metric="allocations").value == pytest.approx(1, abs=0.02)
    assert taken.one(row=virtio.OURS, metric="allocations").value < 0.01
    assert taken.one(row=virtio.POLLED, metric="interrupts").value < 0.01
    added = taken.one(row=virtio.OURS, metric="insn_lld").parts["function"]
    assert added["virtqueue_add_split [virtio_ring]"] > 100
