# SPDX-License-Identifier: GPL-2.0
"""tools/bench/legacy-kernel measures a kernel of today, and refuses figures that are not those of
SCSI commands."""

import os
import shutil
import subprocess
from contextlib import nullcontext
from pathlib import Path

import pytest
from make import make
from legacy import counts, plan
from smqbench import figures, guestlog
from smqbench.errors import BenchError

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TOOL = ROOT / "tools" / "bench" / "legacy-kernel"

LIMIT = 300
# The instructions of a command on 6.1, at least and at most: exact enough to distinguish paths.
ON_6_1 = {("libaio", 32): (6300, 7300), ("libaio", 1): (7100, 8300), ("sd_sg_io", 1): (4700, 6400)}
QEMU = "qemu-system-x86_64"
needs_qemu = pytest.mark.skipif(shutil.which(QEMU) is None, reason=f"needs {QEMU}")


@pytest.fixture(name="tools", scope="module", autouse=True)
def fixture_tools():
    """Builds the programs and the plugin."""
    make(ROOT / "tools/bench")


@pytest.fixture(name="kernel", scope="module")
def fixture_kernel():
    """The image and the modules of 6.1."""
    done = subprocess.run([ROOT / "tools/kernels", "path", "6.1"], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        pytest.skip(done.stderr)
    settings = dict(line.split("=", 1) for line in done.stdout.splitlines())
    return Path(settings["IMAGE"]), Path(settings["MODULES"])


def run(*arguments, **environment):
    """Runs tools/bench/legacy-kernel to its end."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LEGACY_")}
    return subprocess.run([TOOL, *arguments], capture_output=True, text=True, check=False,
                          timeout=LIMIT, stdin=subprocess.DEVNULL, env=clean | environment)


@needs_qemu
def test_tool_measures_a_kernel_of_today(kernel, tmp_path):
    """On a kernel of today the tool measures both ways of completion, with one LUN and with two,
    and locks. Only the legacy path is missing."""
    image, modules = kernel
    done = run("--any-kernel", "--repeat", "1", "--luns", "2", "--workloads",
               "aio-4k-qd32,aio-4k-qd1,sg-tur,sd-read", "--modules", str(modules), "--json",
               str(tmp_path / "figures"), str(image))
    assert done.returncode == 0, done.stderr
    assert "32 of 32 runs" in done.stderr
    found = figures.read(tmp_path / "figures")
    assert len(found.figures) == 2 * 2 * 4 * 4
    for figure in found.find(row="kernel_mq", metric="insn_kernel", op="read"):
        low, high = ON_6_1[figure.path, figure.qd]
        assert low < figure.value < high, figure.workload
        assert "elevator=none queue_depth=128" in figure.parameters["queue"]
        assert figure.parameters["queue"].count("queue_depth") == 1
        assert "legacy path" in figure.note
        same = {name: getattr(figure, name) for name in ("path", "op", "bs", "qd", "luns")}
        insn = found.one(row=figure.row, metric="insn", **same)
        # Each I/O takes some instructions in the program.
        assert 50 < insn.value - figure.value < 1000
        assert sum(insn.parts["group"].values()) == pytest.approx(insn.value, abs=1)
        assert insn.parts["group"]["LLD"] > 50
        # A command takes the lock of the AIO context or the locks of sg, but no queue_lock.
        locks = found.one(row=figure.row, metric="locks", **same)
        assert (1 <= locks.value < 1.3) if figure.path == "libaio" and figure.qd > 1 else \
            0.9 < locks.value < 20
        assert locks.parts["site"] and not any("queue_lock" in name
                                               for name in locks.parts["lock"])
        timer = found.one(row="kernel_mq_timer", metric="insn_kernel", **same)
        assert timer.value > figure.value + 800
        # A completion by an interrupt takes locks in the interrupt, and these count.
        assert found.one(row="kernel_mq_timer", metric="locks", **same).value > locks.value + 1


def test_runs_that_take_time_are_long():
    """A run of 0.1 s is as long as what disturbs it: the CPU that QEMU emulates reaches 60,000 I/Os
    per second at most, and a timer of 20 us 20,000."""
    one = plan.Plan(plan.TIME, plan.ROWS, plan.chosen(["aio-4k-qd32"], [1], [1]), 1)
    counts = {line.split()[1]: 0 for line in one.lines() if line.startswith("row")}
    row = ""
    for line in one.lines():
        words = line.split()
        row = words[1] if words[0] == "row" else row
        if words[0] == "run":
            counts[row] = int(words[words.index("--count") + 1])
    assert all(count >= (10000 if row.endswith("_timer") else 30000)
               for row, count in counts.items())


def test_paths_alternate_in_each_round():
    """In each round both paths run each workload, one after the other; every second round begins
    with the other path. The boot that counts exactly sets up each row once for each number of
    LUNs."""
    some = plan.chosen(["aio-4k-qd32", "sd-read"], [1, 10], [1, 2])
    lines = list(plan.Plan(plan.TIME, ["kernel_legacy", "kernel_mq"], some, 2).lines())
    assert [line.split()[1] for line in lines if line.startswith("row")][:4] == [
        "kernel_legacy", "kernel_mq", "kernel_mq", "kernel_legacy"]
    assert [line.split()[0] for line in lines] == ["row", "run"] * (2 * 2 * 8)
    pairs = [line.split()[1] for line in lines if line.startswith("run")]
    assert pairs[::2] == pairs[1::2]
    exact = plan.Plan(plan.EXACT, ["kernel_legacy", "kernel_mq"], some, 1)
    assert sum(line.startswith("row") for line in exact.lines()) == 4
    assert exact.runs() == 2 * 8 * 2


@pytest.mark.parametrize("kernel, locks, message", [
    (10, 5, "fewer than 1000: these were not SCSI commands"), (8000, 5, "fewer than 1000"),
    (7000, 0.1, "0.10 locks per I/O, at least 0.2 are taken")])
def test_figures_of_something_else_are_refused(kernel, locks, message):
    with pytest.raises(BenchError, match=message):
        counts._check("x", counts.Count([8000], [kernel], [locks]))


@pytest.mark.parametrize("row, ns, good", [
    ("kernel_mq", 10100, True), ("kernel_mq", 10200, False), ("kernel_mq_timer", 20000, True),
    ("kernel_mq_timer", 9800, False)])
def test_the_plugin_and_the_guests_clock_agree(row, ns, good):
    """The clock also runs while the CPU is idle, which it is only with a timer."""
    run_ = guestlog.Run(1, row, "x", 1, 10, ns, {}, figures={"insns": 10000})
    with nullcontext() if good else pytest.raises(BenchError, match="instructions by the plugin"):
        counts._check_clock(run_)
