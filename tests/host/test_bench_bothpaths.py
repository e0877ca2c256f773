# SPDX-License-Identifier: GPL-2.0
"""The figures of the legacy path beside those of scsi-mq, and of the trace of 2013: ratios and
shares, each of the kernel or model on which it was measured."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
BENCH = HERE.parents[1] / "tools" / "bench"
sys.path[:0] = [str(BENCH), str(HERE)]

from smqbench import bothpaths, groups, report, trace  # noqa: E402
from smqbench.acquisitions import REAL_QUEUE_LOCK  # noqa: E402
from smqbench.figures import FigureSet  # noqa: E402
from test_bench_claims import figure, insn, locks  # noqa: E402


def model():
    """Figures of the model of 4.19, on one CPU and on two."""
    pair = {"jobs": 2, "cpus": 2}
    return FigureSet([
        insn("legacy_419", 8300, bs=4096), insn("smq_ram_1q", 7000, bs=4096),
        locks("legacy_419", 4.06, 0.0), locks("smq_ram_1q", 0.0, 0.0),
        figure("locks", "legacy_419", "insn_kernel", 9000.0, **pair),
        figure("locks", "smq_ram_1q", "insn_kernel", 6000.0, **pair),
        figure("locks", "legacy_419", "waits", 1.5, **pair),
        figure("locks", "smq_ram_1q", "waits", 0.01, **pair)])


def test_model_has_its_own_lines():
    """The model has lines of its own, under its name. They do not include the program's
    instructions."""
    found = dict(bothpaths.sources(model(), bothpaths.INLINE))
    assert list(found) == [bothpaths.ELSEWHERE, "the model of 4.19, on today's kernel"]
    lines = bothpaths.cells(found["the model of 4.19, on today's kernel"])
    assert [line[:6] for line in lines] == [
        ["io_uring read 4k QD32 batch 16", "1", "1", "7300", "6000", "1.22"],
        ["io_uring read 512 QD32 batch 16", "1", "1", "", "", ""],
        ["io_uring read 512 QD32 batch 16", "1", "2", "9000", "6000", ""]]
    # The model of 4.19 does not take host_lock: the count of that lock is 0.
    assert lines[1][8] == "4.06 + 0.00" and lines[2][9:11] == ["1.50", "0.01"]
    # The model was not measured with completion by an interrupt.
    assert list(dict(bothpaths.sources(model(), bothpaths.INTERRUPT))) == [bothpaths.ELSEWHERE]


def test_given_kernel_comes_first():
    """Figures of a given kernel come before the recorded ones, with both paths in one line."""
    same = {"path": "libaio", "bs": 4096}
    taken = FigureSet([
        figure("legacy-kernel", "kernel_legacy", "insn_kernel", 7256.0, **same),
        figure("legacy-kernel", "kernel_mq", "insn_kernel", 5994.0, **same),
        figure("legacy-kernel", "kernel_legacy", "locks", 5.06, **same, parts={
            "lock": {REAL_QUEUE_LOCK: 4.06, "of aio_complete": 1.0}}),
        figure("legacy-kernel", "kernel_mq", "locks", 1.0, **same, parts={
            "lock": {"of aio_complete": 1.0}})])
    (label, pairs), *_ = bothpaths.sources(taken, bothpaths.INLINE)
    assert label == "Linux 6.1.0, the kernel that was given"
    assert bothpaths.cells(pairs) == [
        ["libaio read 4k QD32 batch 16", "1", "1", "7256", "5994", "1.21", "5.06", "1.00", "4.06",
         "", "", "", "", ""]]


def test_recorded_figures_are_those_of_the_demo():
    """The bench and the demo have the same figures of 4.19.304."""
    sys.path.insert(0, str(BENCH.parent / "demos"))
    from table import LINUX_4_19
    pairs = [(one.legacy.insn, one.mq.insn) for mode in bothpaths.MODES
             for one in bothpaths.RECORDED[mode]]
    for name, legacy, mq in LINUX_4_19:
        assert (legacy, mq) in pairs or name.startswith("/dev/sg"), name


def test_trace_has_three_columns():
    """The columns are the reported times, 4.19 and ours. The driver has a share of its own, except
    for 4.19. The program's instructions do not count."""
    taken = FigureSet([insn("smq_ram", 8000, user=1000.0, scsi=1400.0, lld=350.0, bs=4096, qd=1)])
    reported, legacy, ours = trace.columns(taken)
    assert [reported.cell(part) for part in trace.PARTS] == [
        "22.1 (52.2 %)", "10.6 (25.1 %)", "3.2 (7.6 %)", "6.4 (15.1 %)"]
    assert legacy.cell(trace.SUBMISSION) == "7835 (81.2 %)"
    assert legacy.cell(trace.DRIVER) == "included above"
    assert ours.total() == 7000
    assert ours.cell(trace.DRIVER) == "350 (5.0 %)"
    text = "\n".join(trace.lines(taken, report.table))
    assert "7.6 % of the path of 2013; 5.0 % in 6.1.0 scsi-mq, smq_ram. For 4.19 it was not " \
        "measured separately: mid-layer and driver together are 19 %" in text


def test_driver_of_a_given_kernel_is_counted_separately():
    """If a given kernel has symbols, the driver on its legacy path is counted separately."""
    split = dict.fromkeys(groups.ORDER, 0.0) | {groups.LLD: 200.0, groups.BLOCK: 7800.0}
    taken = FigureSet([figure("legacy-kernel", "kernel_legacy", "insn", 8000.0, path="libaio",
                              bs=4096, qd=1, parts={"group": split})])
    assert trace.columns(taken)[2].cell(trace.DRIVER) == "200 (2.5 %)"
