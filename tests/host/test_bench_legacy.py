# SPDX-License-Identifier: GPL-2.0
"""tools/bench/legacy-kernel measures a kernel of today. It compares both paths of a stand-in for a
kernel of 2018, in a table for each way of completion. It reports why it cannot measure other
kernels."""

import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from make import make
from legacy import plan
from smqbench import figures

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


def old_image(path, release="4.19.304"):
    """Makes a file that is only the head of a bzImage: the tool reads nothing else."""
    head = bytearray(0x400)
    head[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", head, 0x20E, 0x100)
    name = f"{release} (someone@somewhere)".encode()
    head[0x300:0x300 + len(name)] = name
    path.write_bytes(head)
    return path


@pytest.fixture(name="old")
def fixture_old(tmp_path):
    """Returns a function that runs the tool with the stand-in for QEMU. The function's first
    argument is the stand-in's BENCH_OLD_GUEST."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / QEMU).symlink_to(HERE / "bench_old_guest")
    image = old_image(tmp_path / "bzImage")

    def run_old(wrong="", *arguments):
        return run("--workloads", "aio-4k-qd32", "--repeat", "1", *arguments, str(image),
                   BENCH_OLD_GUEST=wrong, PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return run_old


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


def both_paths(taken, mode="", **wanted):
    """The values of both paths, by metric: (legacy, mq)."""
    return {figure.metric: tuple(one.value for row in (plan.LEGACY, plan.MQ) for one in
                                 taken.find(row=row + mode, metric=figure.metric, **wanted))
            for figure in taken.find(**wanted)}


def table_of(text):
    """The lines of both tables, each split into its cells. The tables' heads are left out."""
    return [[cell.strip() for cell in line.split("  ") if cell.strip()]
            for line in text.splitlines() if line.startswith(("libaio", "SG_IO"))]


def test_figures_of_both_paths(old, tmp_path):
    """Figures are differences of two runs, so a run's fixed costs are not in them."""
    done = old("", "--json", str(tmp_path / "figures"))
    assert done.returncode == 0, done.stderr
    assert [line[3:8] for line in table_of(done.stdout)] == [
        ["7000", "5000", "1.40", "5.00", "1.00"], ["8500", "6500", "1.31", "5.00", "1.00"]]
    found = figures.read(tmp_path / "figures")
    assert both_paths(found) == {"insn": (8000, 6000), "insn_kernel": (7000, 5000),
                                 "locks": (5, 1), "waits": (0, 0)}
    assert both_paths(found, "_timer")["locks"] == (5, 1)


def test_figures_of_two_cpus_and_ten_luns(old, tmp_path):
    """The contended locks, I/O per second, and their ratio, which is calculated for each round."""
    done = old("", "--cpus", "2", "--luns", "10", "--rounds", "7", "--force", "--json",
               str(tmp_path / "figures"))
    assert done.returncode == 0, done.stderr
    lines = table_of(done.stdout)
    assert [line[1:3] for line in lines] == [["1", "1"], ["1", "2"], ["10", "1"], ["10", "2"]] * 2
    # I/Os per second of the rounds: 30000, 32000, ... 42000, each divided by 40000. The interval of
    # the median is that of order statistics: of seven values all, of eight without the outer two.
    assert [line[-3:] for line in lines] == [
        [f"{jobs * 36000}", f"{jobs * 40000}", "0.90 [0.75-1.05]"] for jobs in (1, 2)] * 4
    # On one LUN with two CPUs, two of five acquisitions are contended: 1.6 of four per command.
    assert [line[-5] for line in lines] == ["0.00", "1.60", "0.00", "0.00"] * 2
    found = figures.read(tmp_path / "figures")
    ratio, = found.find(metric="against_mq", jobs=2, luns=10, row="kernel_legacy")
    assert (ratio.values[:3], ratio.repeats, ratio.cpus) == ([0.75, 0.8, 0.85], 7, 2)
    waits, = found.find(metric="waits", jobs=2, luns=1, row="kernel_legacy")
    assert waits.parts["lock"] == {"queue_lock": 1.6}


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
    assert "run libaio:read:4096:32:16:10:2 1000 18000 aio disk --count 2000,6000 --bs 4096 " \
        "--depth 32 --batch 16 --jobs 2" in list(exact.lines())
    assert "run sd_sg_io:read:512:1:1:1:1 1000 9000 sgio disk --count 2000,6000 --read --bs 512 " \
        "--jobs 1" in list(exact.lines())


def test_locks_are_read_from_lock_stat(old, tmp_path):
    """If the kernel has /proc/lock_stat, the tool reads locks from it: the plugin would also count
    the locks of lockdep."""
    done = old("lock_stat", "--json", str(tmp_path / "figures"))
    assert done.returncode == 0, done.stderr
    found = figures.read(tmp_path / "figures")
    locks, = found.find(metric="locks", row="kernel_legacy")
    assert locks.value == 5
    assert locks.parts["lock"] == {"&(&q->__queue_lock)->rlock": 4,
                                   "&(&ctx->completion_lock)->rlock": 1}
    # Nor is there a ratio: it would be that of lockdep's instructions.
    assert [line[5:8] for line in table_of(done.stdout)] == [["5.00", "1.00", "4.00"]] * 2


def test_uncounted_locks_are_not_printed_as_0(old, tmp_path):
    """Without symbols and without lock_stat the tool reports that it has not counted locks; it does
    not print 0."""
    done = old("none", "--json", str(tmp_path / "figures"))
    assert done.returncode == 0, done.stderr
    assert [len(line) for line in table_of(done.stdout)] == [6, 6]
    assert not figures.read(tmp_path / "figures").find(metric="locks")


def test_guest_parses_lock_stat():
    """The guest's sed expression finds acquisitions and contentions among lock_stat's columns."""
    text = (ROOT / "tools/bench/legacy/init").read_text(encoding="ascii")
    expression = text.split("print_lock_stat() {", 1)[1].split("sed -n '", 1)[1].split("'", 1)[0]
    lines = (
        "lock_stat version 0.4\n-----\n"
        "          class name    con-bounces    contentions   waittime-min   waittime-max "
        "waittime-total   waittime-avg    acq-bounces   acquisitions   holdtime-min\n"
        "         &(&q->__queue_lock)->rlock:        128            130547           0.10          "
        " 9.99           28.30           0.35          90000         325266           0.04      "
        "     1.00           16.00        0.10\n"
        "         --------------------------\n"
        "         &(&q->__queue_lock)->rlock            9          [<ffffffff8130>] blk_queue_bio"
        "+0x97/0x3a0\n"
        "               &mm->mmap_sem-R:          0              0           0.00           0.00 "
        "          0.00           0.00              2             77           0.10           "
        "1.00           2.00           0.40\n")
    done = subprocess.run(["sed", "-n", expression], input=lines, capture_output=True, text=True,
                          check=True)
    assert done.stdout == "325266 130547 &(&q->__queue_lock)->rlock\n77 0 &mm->mmap_sem-R\n"


@pytest.mark.parametrize("wrong, message", [
    ("ends", "the guest ended before its measurements did; QEMU: qemu has enough"),
    ("error", "the guest: the disk fell off; its last messages:\n  [    1.000000] the kernel's"),
    ("hangs", "the guest did not finish within 3 s (--timeout)"),
    ("babble", "unknown line: what is this"),
    ("clock", "instructions by the plugin"),
    ("idle", "fewer than 1000: these were not SCSI commands"),
    ("depth", "kernel_legacy: sd0's queue_depth is 64, must be 128 on both paths"),
    ("serial", "the kernel needs CONFIG_SERIAL_8250_RUNTIME_UARTS=4"),
    ("up", "0.00 locks per I/O by symbols, at least 0.2 are taken: is the kernel built with "
           "CONFIG_SMP=y?"),
])
def test_setup_errors_are_reported(old, tmp_path, wrong, message):
    """The tool prints the reason and no figure, and exits with status 2."""
    arguments = ["--timeout", "3"] if wrong == "hangs" else []
    done = old(wrong, "--json", str(tmp_path / "figures"), *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not done.stdout.strip()
    assert not (tmp_path / "figures").exists()
