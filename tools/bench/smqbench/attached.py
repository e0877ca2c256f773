# SPDX-License-Identifier: GPL-2.0
"""What a host costs more while smq_conv has attached it: bars on the instructions of an I/O."""

from .bounds import Verdict
from .figures import FigureSet

BARE = "scsi_debug"
# By row: what it shows, and the most instructions per I/O more than bare. Boots and places in
# memory make a difference of a few instructions.
BARS = {"attach_scsi_debug": ("attached, direct", 70),
        "attach_scsi_debug_prio": ("attached, prio, not full", 200),
        "detached_scsi_debug": ("attached and detached", 5)}


def verdicts(taken: FigureSet) -> list[Verdict]:
    """Whether attached hosts keep the bars, for each workload of the rows that were measured."""
    result = []
    for bare in taken.find(row=BARE, metric="insn", luns=1):
        for row, (what, most) in BARS.items():
            one = taken.one(row=row, metric="insn", path=bare.path, bs=bare.bs, qd=bare.qd)
            if one:
                more = one.value - bare.value
                result.append(Verdict(f"{bare.bs} bytes, QD{bare.qd}: {what}, more than bare",
                                      f"<= {most}", more, more <= most))
    return result
