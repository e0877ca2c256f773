# SPDX-License-Identifier: GPL-2.0
"""tools/bench/legacy-kernel measures a kernel of today, and compares both paths of a stand-in for a
kernel of 2018. It refuses figures that are not those of SCSI commands."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from make import make
from legacy import plan
from program import program
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


USER = 1000                             # instructions of an I/O in the program
KERNEL = {"legacy": 7000, "mq": 5000}   # instructions in the kernel; 1500 more with an interrupt
IOPS = {"legacy": 28000, "mq": 40000}   # of each job; each round adds 2000 on the legacy path
FIXED = 123456                          # instructions of each run, whatever its length
LOCK, SUBMIT, COMPLETE, AIO = (f"ffffffff8100{n}000" for n in range(4))
QUEUES = 0xffff888000000000             # address of the first LUN's queue_lock
KALLSYMS = (f"{LOCK} T _raw_spin_lock\n{SUBMIT} T blk_queue_bio\n{COMPLETE} t scsi_end_request\n"
            f"{AIO} T aio_complete\n")
# The last ones are no locks, but lockdep's notes of other things.
LOCK_STAT = ("4 0 &(&q->__queue_lock)->rlock", "1 0 &(&ctx->completion_lock)->rlock",
             "9 3 rcu_read_lock-R", "2 0 rcu_read_lock_sched-R", "2 0 tk_core.seq-R",
             "1 0 jiffies_lock-R", "1 0 fs_reclaim", "1 0 (work_completion)(&ctx->work)")


class OldGuest:
    """In place of a boot of a kernel of 2018, which Debian's archive no longer has: writes what
    guest and plugin would write for a plan. @job: in place of the initramfs."""
    wrong = ""      # clock, idle, depth, up: an error; lock_stat, none: how locks are counted

    def __init__(self, _image, job, _arguments, folder, *, kind, **_):
        self.folder, self.plan, self.plugin = folder, job.plan, kind != plan.TIME
        self.lines, self.out = [], []
        self.row = self.path = ""
        self.luns = self.repeat = 1

    def run(self, *_):
        """Executes the plan."""
        means = self.wrong if self.wrong in ("lock_stat", "none") else "symbols"
        self.lines = ["kernel 4.19.304", "cpu old", "cmdline x", f"means {means}"]
        (self.folder / "kallsyms.1").write_text(KALLSYMS, encoding="ascii")
        for line in self.plan.lines():
            word, *words = line.split()
            {"row": self.set_up, "run": self.measure}[word](*words)
        (self.folder / "out").write_text("".join(self.out), encoding="ascii")
        (self.folder / "log").write_text("".join(f"{line}\r\n" for line in [*self.lines, "end"]),
                                         encoding="ascii")
        return guestlog.read(self.folder, plugin=self.plugin)

    def set_up(self, row, luns, repeat):
        """Begins a row of the plan."""
        self.row, self.luns, self.repeat = row, int(luns), int(repeat)
        self.path = "legacy" if "legacy" in row else "mq"
        depth = 64 if self.wrong == "depth" and self.path == "legacy" else 128
        self.lines += [f"param {row} scsi_debug",
                       *(f"queue {row} sd{n} elevator=noop queue_depth={depth}"
                         for n in range(int(luns))), f"row {row} {repeat}"]

    def locks(self, ios, jobs):
        """The plugin's lines on locks. On the legacy path an I/O takes queue_lock four times: twice
        at its submission and twice at its completion, which may be in an interrupt. With two jobs
        on one LUN, two of five acquisitions are contended."""
        lines = [f"lock {LOCK} {AIO} ffff888100000000 {ios} 0 0"]
        for lun in range(self.luns if self.path == "legacy" else 0):
            taken = 2 * ios // self.luns
            contended = taken * 2 // 5 if jobs == 2 and self.luns == 1 else 0
            irq = taken if self.row.endswith("_timer") else 0
            lines += [f"lock {LOCK} {SUBMIT} {QUEUES + 64 * lun:x} {taken} {contended} 0",
                      f"lock {LOCK} {COMPLETE} {QUEUES + 64 * lun:x} {taken} {contended} {irq}"]
        return lines

    def measure(self, key, warmup, _, *words):
        """Runs a program of the plan: adds a line for each of its runs."""
        jobs, counts = int(words[words.index("--jobs") + 1]), [
            int(word) for word in words[words.index("--count") + 1].split(",")]
        for count in counts:
            ios = count * jobs
            cost = 10 if self.wrong == "idle" else \
                KERNEL[self.path] + 1500 * self.row.endswith("_timer")
            kernel, user, number = cost * ios, USER * ios + FIXED, len(self.out) + 1
            ns = (kernel + user) * (2 if self.wrong == "clock" else 1)
            if self.plugin:
                (self.folder / f"hist.{number}").write_text("".join(f"{line}\n" for line in (
                    f"block 401000 1 {user} 0 0", f"block {AIO} 10 {kernel // 10} 0 0",
                    *([] if self.wrong == "up" else self.locks(ios, jobs)))), encoding="ascii")
                self.out.append(f"run={number} symbols=1 wall_ms=1 insns={kernel + user} irq=0 "
                                "slips=0 overflow=0\n")
            else:
                ns = 10 ** 9 * count // (IOPS[self.path] +
                                         2000 * self.repeat * (self.path == "legacy"))
            self.lines.append(f"run {key} " + json.dumps(
                {"count": count, "ns": ns, "jobs": jobs, "warmup": int(warmup), "devices": []}))
        if self.wrong == "lock_stat" and self.plugin:
            issued = (int(warmup) + sum(counts)) * jobs
            for one in LOCK_STAT[self.path == "mq":]:
                taken, contended, name = one.split(" ", 2)
                self.lines.append(f"lock_stat {key} {int(taken) * issued} {contended} {name}")


@pytest.fixture(name="old")
def fixture_old(tmp_path, monkeypatch):
    """Returns a function that measures on OldGuest, whose @wrong is its first argument; and returns
    the figures and the table."""
    bench = program("legacy-kernel")
    monkeypatch.setattr(bench.boot, "Boot", OldGuest)
    monkeypatch.setattr(bench.guest, "build", lambda job, *_: job)
    monkeypatch.setattr(bench.guest, "Modules", Mock())

    def measured(wrong, *arguments):
        monkeypatch.setattr(OldGuest, "wrong", wrong)
        monkeypatch.setattr(sys, "argv", ["legacy-kernel", "--workloads", "aio-4k-qd32", "--repeat",
                                          "1", *arguments, "image"])
        options, taken = bench.parse(), figures.FigureSet()
        for number, (one, cpus) in enumerate(bench.boots(options)):
            found, how = bench.measure_boot(
                options, bench.guest.Job(one, False, options.queues), cpus,
                tmp_path / str(number), {"command": "tools/bench/legacy-kernel", "note": ""})
            taken.merge(found)
        # The lines of both tables, each split into its cells.
        return taken, [[cell.strip() for cell in line.split("  ") if cell.strip()]
                       for line in bench.report.table(taken, how)
                       if line.startswith(("libaio", "SG_IO"))]
    return measured


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


def test_figures_of_both_paths(old):
    """Figures are differences of two runs, so a run's fixed costs are not in them."""
    found, table = old("")
    assert [line[3:8] for line in table] == [["7000", "5000", "1.40", "5.00", "1.00"],
                                             ["8500", "6500", "1.31", "5.00", "1.00"]]
    assert both_paths(found) == {"insn": (8000, 6000), "insn_kernel": (7000, 5000),
                                 "locks": (5, 1), "waits": (0, 0)}
    assert both_paths(found, "_timer")["locks"] == (5, 1)


def test_figures_of_two_cpus_and_ten_luns(old):
    """The contended locks, I/O per second, and their ratio, which is calculated for each round."""
    found, table = old("", "--cpus", "2", "--luns", "10", "--rounds", "7")
    assert [line[1:3] for line in table] == [["1", "1"], ["1", "2"], ["10", "1"], ["10", "2"]] * 2
    # I/Os per second of the rounds: 30000, 32000, ... 42000, each divided by 40000. The interval of
    # the median is that of order statistics: of seven values all, of eight without the outer two.
    assert [line[-3:] for line in table] == [
        [f"{jobs * 36000}", f"{jobs * 40000}", "0.90 [0.75-1.05]"] for jobs in (1, 2)] * 4
    # On one LUN with two CPUs, two of five acquisitions are contended: 1.6 of four per command.
    assert [line[-5] for line in table] == ["0.00", "1.60", "0.00", "0.00"] * 2
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


def test_locks_are_read_from_lock_stat(old):
    """If the kernel has /proc/lock_stat, the tool reads locks from it: the plugin would also count
    the locks of lockdep."""
    found, table = old("lock_stat")
    locks, = found.find(metric="locks", row="kernel_legacy")
    assert locks.value == 5
    assert locks.parts["lock"] == {"&(&q->__queue_lock)->rlock": 4,
                                   "&(&ctx->completion_lock)->rlock": 1}
    # Nor is there a ratio: it would be that of lockdep's instructions.
    assert [line[5:8] for line in table] == [["5.00", "1.00", "4.00"]] * 2


def test_uncounted_locks_are_not_printed_as_0(old):
    """Without symbols and without lock_stat the tool has not counted locks."""
    found, table = old("none")
    assert [len(line) for line in table] == [6, 6] and not found.find(metric="locks")


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
    ("clock", "instructions by the plugin"),
    ("idle", "fewer than 1000: these were not SCSI commands"),
    ("depth", "kernel_legacy: sd0's queue_depth is 64, must be 128 on both paths"),
    ("up", "0.00 locks per I/O by symbols, at least 0.2 are taken: is the kernel built with "),
])
def test_figures_of_something_else_are_refused(old, wrong, message):
    with pytest.raises(BenchError, match=message):
        old(wrong)
