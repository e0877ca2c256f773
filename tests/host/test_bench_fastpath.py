# SPDX-License-Identifier: GPL-2.0
"""tools/bench/fastpath: each bar is measured, and each missed bar is named."""

from argparse import Namespace

import pytest
from smqbench import bars, instrument, measure
from smqbench.figures import PATHS, FigureSet
from smqbench.plan import parse
from smqbench.tomls import table

ROWS = ["scsi_debug", "scsi_debug_deadline", "scsi_debug_bfq", "scsi_debug_kyber", "smq_ram_null"]


def taken(values=None):
    """What --short --bars measures in ROWS: 900 for each command, except @values, which are by row
    and key."""
    made, options = FigureSet(), Namespace(short=True, bars=True, bsg_uring=False)
    boot = table("instruments")["fastpath"]["boot"][0]
    for row in ROWS:
        for workload in measure.workloads(boot, row, options):
            value = (values or {}).get((row, workload.key), 900.0)
            made.add(instrument.figure(
                instrument="fastpath", row=row, kernel="6.1", command="tools/bench/fastpath",
                parameters={}, **instrument.fields(workload, [value], "insn")))
    return made


def missed(found, rows):
    """The bars that are missed."""
    return [one for one in bars.judged("fastpath", found, rows) if not one.ok]


def test_the_short_run_measures_all_bars():
    """With --short --bars no bar is reported as not measured, and no workload is there twice."""
    assert not missed(taken(), ROWS)


@pytest.mark.parametrize("row,key,least", [
    ("scsi_debug", "smq:read:512:32:16:1:1", 1520),
    ("scsi_debug", "smq_batch:read:512:128:128:1:1", 920),
    ("scsi_debug", "smq_timed:read:512:1024:1024:1:1", 980),
    ("scsi_debug", "smq_sg_io:tur:0:1:1:1:1", 900),
    ("scsi_debug", "smq:read:512:32:16:10:1", 960),
    ("scsi_debug", "smq_lba:read:512:32:16:1:1", 960),
    ("scsi_debug_bfq", "smq_batch:read:512:32:16:1:1", 910),
    ("smq_ram_null", "smq_batch:read:512:32:16:1:1", 1040),
])
def test_a_missed_bar_is_named(row, key, least):
    """A value at the bar passes; one more is a missed bar with that path's name."""
    values = {(row, key): least}
    if key == "smq:read:512:32:16:1:1" and row == "scsi_debug":
        # What is compared with this path is not to be the fault.
        values |= {(other, key): least for other in ROWS[1:4]}
    assert not missed(taken(values), ROWS)
    values[row, key] += 1
    one, = missed(taken(values), ROWS)
    assert PATHS[parse(key).path] in one.what and one.word == "MISSED"


def test_rows_without_own_bars_need_none():
    """Rows that are not measured have no bars, and a missing figure of a row with bars is named."""
    assert not missed(FigureSet(), ["scsi_debug_no_sd"])
    found = missed(FigureSet(), ["scsi_debug"])
    assert {one.word for one in found} == {"not measured"}
    assert any("batch 1024" in one.what for one in found)
