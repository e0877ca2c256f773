# SPDX-License-Identifier: GPL-2.0
"""The whole bench with the smallest loads: a VM, the plugins, figures, report and pictures."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from make import make
from smqbench import figures, instrument, plan
from smqbench.errors import BenchError
from smqbench.plan import Plan, Workload

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "tools" / "bench"

needs_qemu = pytest.mark.skipif(shutil.which("qemu-system-x86_64") is None,
                                reason="needs qemu-system-x86_64")


def run(tmp_path, *arguments):
    """Runs tools/bench/run until it ends."""
    make(BENCH)
    done = subprocess.run([BENCH / "run", "--out", tmp_path, "--repeat", "1", *arguments],
                          capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    return figures.read(tmp_path / "results.json"), (tmp_path / "report.md").read_text()


@needs_qemu
def test_run_measures_instructions(tmp_path):
    """tools/bench/insn counts the instructions of null_blk with 1, 4 and 10 LUNs."""
    taken, text = run(tmp_path, "--only", "insn", "--rows", "null_blk")
    assert not taken.failed
    assert len(taken.figures) == 12
    for one in taken.figures:
        assert 4500 < one.value < 7500
        assert sum(one.parts["group"].values()) == pytest.approx(one.value, rel=1e-4)
        assert one.parameters["modules"] == [
            "modprobe null_blk queue_mode=2 submit_queues=1 irqmode=0 bs=512 gb=1 "
            f"nr_devices={one.luns} hw_queue_depth=128"]
        assert "elevator=none" in one.parameters["queue"]
    few, many = (taken.one(qd=32, bs=512, luns=luns) for luns in (1, 10))
    assert few.value + 100 < many.value, "batches no longer go to one queue"
    assert "Taken by `tools/bench/insn --rows null_blk --repeat 1`" in text
    assert {path.name for path in tmp_path.glob("*.svg")} == {"insn.svg", "split.svg"}


@needs_qemu
def test_run_finds_locks_of_sg(tmp_path):
    """The bench finds each lock that a command takes in sg: once per command, under the function
    that takes the lock."""
    taken, text = run(tmp_path, "--only", "locks", "--rows", "scsi_debug_timer", "--force")
    one = taken.one(path="sg_io", metric="locks")
    for place in ("sg_add_request [sg]: write_lock_irqsave", "sg_common_write [sg]: mutex_lock",
                  "sg_remove_request [sg]: write_lock_irqsave"):
        assert one.parts["site"][place] == pytest.approx(1, abs=0.01)
        assert place in text
    # These functions take the same rwlock of sg, so there is one instance.
    name, = (name for name in one.parts["lock"] if "sg_add_request" in name or
             "sg_remove_request" in name)
    assert one.parts["instances"][name] == 1
    assert one.parts["lock"][name] >= 4


@needs_qemu
def test_run_sees_shared_cache_lines(tmp_path):
    """smq_virtio's queues share no cache line. The same instrument sees that virtio_scsi's queues,
    which are adjacent in memory, share some."""
    taken, text = run(tmp_path, "--only", "lines", "--rows", "virtio_scsi,smq_virtio", "--force")
    own = {(one.row, one.luns): one.value for one in taken.find(metric="own_transfers")}
    assert len(own) == 4
    assert own["smq_virtio", 2] < 0.02 and own["smq_virtio", 1] < 0.02
    assert own["virtio_scsi", 2] > 0.2
    assert "### Cache lines moved by our modules, by function" in text
    assert {path.name for path in tmp_path.glob("*.svg")} == {"lines.svg"}


def test_plan_sets_a_device_up_once():
    """A device is set up once for all its workloads. Every second repeat is in reverse order."""
    few, many = (Workload("io_uring", "read", 512, 32, 16, luns) for luns in (1, 4))
    sgio = Workload("sg_io", "tur", 0, 1, 1)
    made = Plan([("smq_ram", [few, many, sgio]), ("null_blk", [few])], (10, 30), 5, 4)
    lines = list(made.lines(2))
    assert [line for line in lines if line.startswith(("row", "size"))] == [
        "size 4", "row smq_ram 1 1", "row smq_ram 4 1", "row null_blk 1 1", "row null_blk 1 2",
        "row smq_ram 4 2", "row smq_ram 1 2"]
    with pytest.raises(BenchError, match="this path runs only reads and TURs"):
        Workload("passthrough", "write", 512, 32, 16).program((300,), 250, False)
    assert made.runs(2) == 16 == 2 * sum(line.startswith("run") for line in lines)
    for one in (few, many, sgio):
        assert plan.parse(one.key) == one


@pytest.mark.parametrize("busy, cpus, refused", [
    (0.1, 2, False), (1.0, 2, True), (1.0, 4, False), (3.0, 4, True), (0.0, 1, True)])
def test_busy_machine_is_refused(monkeypatch, busy, cpus, refused):
    """Two vCPUs need two idle CPUs. With --force the figures note that the CPUs were busy."""
    monkeypatch.setattr(os, "cpu_count", lambda: cpus)
    monkeypatch.setattr(instrument, "busy_cpus", lambda: busy)
    if not refused:
        assert instrument.refuse_busy(False) == ""
        return
    with pytest.raises(BenchError, match="two-CPU figures are not taken"):
        instrument.refuse_busy(False)
    assert instrument.refuse_busy(True).startswith("forced: this machine ")


def test_busy_cpus_are_counted_since_the_first_look(monkeypatch):
    """Busy CPUs are counted from the first look to the second one, not since boot."""
    said = iter([(1000, 10000), (1050, 10100)])
    monkeypatch.setattr(instrument, "_busy_ticks", lambda: next(said))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert instrument.busy_cpus(0) == 1.0
