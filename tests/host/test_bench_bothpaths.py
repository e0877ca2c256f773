# SPDX-License-Identifier: GPL-2.0
"""The figures of the legacy path beside those of scsi-mq, and of the trace of 2013: ratios and
shares, each of the kernel or model on which it was measured."""

from smqbench import bothpaths, groups, trace
from smqbench.figures import FigureSet
from table import LINUX_4_19
from test_bench_compare import figure, insn


def test_recorded_figures_are_those_of_the_demo():
    """The bench and the demo have the same figures of 4.19.304."""
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


def test_driver_of_a_given_kernel_is_counted_separately():
    """If a given kernel has symbols, the driver on its legacy path is counted separately."""
    split = dict.fromkeys(groups.ORDER, 0.0) | {groups.LLD: 200.0, groups.BLOCK: 7800.0}
    taken = FigureSet([figure("legacy-kernel", "kernel_legacy", "insn", 8000.0, path="libaio",
                              bs=4096, qd=1, parts={"group": split})])
    assert trace.columns(taken)[2].cell(trace.DRIVER) == "200 (2.5 %)"
