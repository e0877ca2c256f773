# SPDX-License-Identifier: GPL-2.0
"""Pairs of rows to compare with each other, and a table's conclusion in one line."""

from collections.abc import Sequence

from . import matrix
from .figures import METRICS, Figure, FigureSet

# Our figure counts as worse if the difference exceeds a limit: WORSE times the peer's figure, or
# LEAST for its unit if that is more, plus half the sum of both spreads. A smaller difference may be
# chance.
WORSE = 0.01
LEAST = {"%": 1.0, "locks/IO": 0.05, "lines/IO": 0.05, "doorbells/IO": 0.01,
         "interrupts/IO": 0.01}

# ours, the peer, what is compared
PEERS = [
    ("smq_ram_null", "scsi_debug", "neither moves data, both complete inside queuecommand"),
    ("smq_ram", "scsi_debug", "smq_ram moves data, scsi_debug does not"),
    ("smq_ram_1q", "smq_ram", "one hardware queue completes through softirq"),
    ("smq_ram_timer_batch", "smq_ram_timer", "the policy batch where a doorbell is free"),
    ("smq_ram_doorbell_batch", "smq_ram_doorbell", "the policy batch where a doorbell costs 5 us"),
    ("smq_ram_batch", "smq_ram", "the policy batch where the device takes no time"),
    *((f"smq_lio_{store}", f"tcm_loop_{store}", "LIO's own fabric over the same backstore")
      for store in ("rd", "file", "block")),
    ("smq_virtio", "virtio_scsi", "the same device with each driver; smq_virtio uses no indirect "
                                  "descriptors, so its ring holds fewer commands"),
    *((f"smq_ram_{us}us_batch", f"smq_ram_{us}us", f"the policy batch, a device of {us} us")
      for us in (20, 100)),
    *((f"smq_ram_{us}us_doorbell_batch", f"smq_ram_{us}us_doorbell",
       "the policy batch, and a doorbell costs 5 us") for us in (20, 100)),
]
NO_COST = ("own_transfers", "lock_share", "wait_share", "against_block", "against_block_bare",
           "against_mq")
MORE_IS_BETTER = {"iops", "iops_cpu", "mb_s"}


def worse(taken: FigureSet) -> list[list[str]]:
    """Rows for a table: our figures that are worse than their peer's."""
    rows = []
    for ours, peer, _ in PEERS:
        for mine in taken.find(row=ours):
            theirs = [one for one in taken.find(row=peer)
                      if one.key == (mine.key[0], peer, *mine.key[2:])]
            if not theirs or mine.metric in NO_COST:
                continue
            more = mine.value - theirs[0].value
            more = -more if mine.metric in MORE_IS_BETTER else more
            chance = max(WORSE * abs(theirs[0].value), LEAST.get(mine.unit, 0))
            if more > chance + (mine.spread + theirs[0].spread) / 2:
                rows.append([mine.label, theirs[0].label, mine.workload, mine.unit,
                             matrix.text_of(mine), matrix.text_of(theirs[0])])
    return rows


def _extremes(figures: Sequence[Figure], column: str) -> str:
    """Says which rows have the best and the worst figure of a column."""
    found = sorted((one for one in figures if one.workload == column), key=lambda one: one.value)
    more = figures[0].metric in MORE_IS_BETTER
    best, worst = (found[-1], found[0]) if more else (found[0], found[-1])
    words = f"{best.label} has the {'most' if more else 'least'}, {matrix.number(best.value)}"
    if len(found) == 1:
        return f"{best.label}: {matrix.number(best.value)}"
    if best.value == worst.value:
        return f"all have {matrix.number(best.value)}"
    words += f"; {worst.label} the {'least' if more else 'most'}, {matrix.number(worst.value)}"
    least, most = found[0].value, found[-1].value
    return words + (f", {matrix.number(most / least)} times" if least > 0 else "")


def conclusion(figures: Sequence[Figure]) -> str:
    """A conclusion from a table of one metric, in a sentence or two: the best and the worst figure
    of its first column, and our rows in it as multiples of their peers."""
    column = matrix.columns_of(figures)[0]
    by_row = {one.row: one for one in figures if one.workload == column}
    words = f"{matrix.short_names(figures)[column]}: {_extremes(figures, column)}."
    beside = [f"{by_row[ours].label} {matrix.number(by_row[ours].value / by_row[peer].value)} "
              f"times {by_row[peer].label}"
              for ours, peer, _ in PEERS
              if ours in by_row and peer in by_row and by_row[peer].value > 0]
    unit = METRICS[figures[0].metric][0]
    return words + (f" Compared with their peers, {unit}: {'; '.join(beside)}."
                    if beside and unit else "")
