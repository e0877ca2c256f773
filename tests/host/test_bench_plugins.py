# SPDX-License-Identifier: GPL-2.0
"""The bench's plugins on loads with known figures: they must count instructions exactly, and must
see allocations, contended locks and shared cache lines."""

import shutil
import subprocess
from pathlib import Path

import pytest
from make import make
from smqbench import acquisitions, counts, transfers, vm
from smqbench.errors import BenchError

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

pytestmark = pytest.mark.skipif(shutil.which("qemu-system-x86_64") is None,
                                reason="needs qemu-system-x86_64")

INSNS_PER_TURN = 2
# Instructions of an io_uring read of 512 bytes from scsi_debug, at least and at most.
PLAIN_512 = 6000, 7000


def boot(plugin, folder, own, *arguments, options=(), plugin_arguments=()):
    """Runs bench_control in the VM."""
    make(ROOT / "tools/bench")
    return vm.run(vm.Boot(
        plugin=plugin, kernel="6.1", script=HERE / "bench_control",
        arguments=[plugin, *arguments], vm_options=options, plugin_arguments=plugin_arguments,
        expected_runs=8, timeout=180, own=frozenset(own)), folder)


@pytest.fixture(name="counted", scope="module")
def fixture_counted(tmp_path_factory):
    """A count with sg in place of our module: sg allocates for every READ, never for a TUR."""
    folder = tmp_path_factory.mktemp("count")
    program = folder / "known"
    subprocess.run(["gcc", "-O2", "-Wall", "-Werror", "-static", "-o", program,
                    HERE / "bench_known.c"], check=True, timeout=60)
    log = boot("count", folder, {"sg"}, str(program), options=["--icount"],
               plugin_arguments=[f"watch={glob}" for glob in vm.ALLOCATORS])
    return log, counts.cells(log, folder)


def test_count_is_exact(counted):
    """The count of a loop of known length is exact, once the instructions of interrupts are
    subtracted."""
    log, cells = counted
    small, large = (run for run in log.runs if run.workload == "known")
    insns = large.figures["insns"] - small.figures["insns"]
    irq = large.figures["irq"] - small.figures["irq"]
    assert insns - irq == INSNS_PER_TURN * (large.count - small.count)
    assert not sum(cells["scsi_debug", "known"].per_io.own.values())


def test_scsi_debug_reads_charge_nothing_to_sg(counted):
    """In an io_uring read of scsi_debug nothing is charged to sg, which takes no part in it."""
    cell = counted[1]["scsi_debug", "plain-512"]
    insns, = cell.values
    assert PLAIN_512[0] < insns < PLAIN_512[1]
    assert sum(cell.per_io.insns.values()) == pytest.approx(insns, rel=1e-9)
    functions = {str(function): value for function, value in cell.per_io.calls.items()}
    assert functions["scsi_queue_rq [scsi_mod]"] == pytest.approx(1, abs=0.01)
    assert not sum(value for (_, _, ours), value in cell.per_io.callers.items() if ours)
    assert not sum(cell.per_io.own.values())


def test_allocations_are_charged(counted):
    """Allocations that sg makes through the block layer are charged to sg, too."""
    def ours(workload):
        return sum(value for (_, _, own), value
                   in counted[1]["scsi_debug", workload].per_io.callers.items() if own)
    assert ours("sg-read") > 0.9
    assert ours("sg-read") > ours("sg-tur")
    cell = counted[1]["scsi_debug", "sg-read"]
    itself = sum(value for function, value in cell.per_io.insns.items() if function.module == "sg")
    assert sum(cell.per_io.own.values()) > itself > 100


def test_contended_locks_are_seen(tmp_path):
    """The plugin sees that two CPUs contend for one lock, and that they do not contend if each has
    a lock of its own."""
    program = tmp_path / "contended"
    subprocess.run(["gcc", "-O2", "-Wall", "-Werror", "-static", "-o", program,
                    HERE / "bench_contended.c", ROOT / "tools/bench/loop/jobs.c"],
                   check=True, timeout=60)
    log = boot("locks", tmp_path, {"sg"}, str(program),
               options=["--cpus", "2", "--append", "tsc=reliable"],
               plugin_arguments=acquisitions.LOCKING)
    cells = acquisitions.cells(log, tmp_path)
    (shared,), (own,) = (cells["scsi_debug", name] for name in ("shared", "own"))
    for locks, instances in ((shared, 1), (own, 2)):
        name, = (name for name in locks.by_lock() if "fdget_pos" in name)
        assert locks.by_lock()[name] == pytest.approx(1, abs=0.01)
        assert locks.instances()[name] == instances
    assert shared.contended_share() > 5
    assert shared.insn_share(acquisitions.WAITING) > own.insn_share(acquisitions.WAITING) + 1
    assert own.contended_share() < 1


def test_shared_lines_are_seen(tmp_path):
    """The plugin sees that two CPUs on one LUN share cache lines of sd, and that a single CPU
    shares none. On a busy machine the instrument refuses its figures."""
    log = boot("lines", tmp_path, {"sd_mod"}, options=["--cpus", "2", "--append", "tsc=reliable"])
    try:
        sharings = transfers.sharings(log, tmp_path)
    except BenchError as error:
        assert "ran apart" in str(error)
        pytest.skip(str(error))
    shared, alone = (sharings["scsi_debug", workload] for workload in ("shared", "alone"))
    assert shared.own[0] > 0.2
    assert shared.totals[0] > 1
    assert shared.own_accesses > 10
    assert any("sd_mod" in function for function, _ in shared.own_top)
    assert alone.own[0] < 0.01
    assert alone.own_accesses > 10
