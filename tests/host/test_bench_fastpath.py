# SPDX-License-Identifier: GPL-2.0
"""tools/bench/fastpath: each bar is measured, and each missed bar is named."""

import pytest
from program import program
from smqbench import instrument
from smqbench.figures import FigureSet
from smqbench.plan import parse

ROWS = ["scsi_debug", "scsi_debug_deadline", "scsi_debug_bfq", "scsi_debug_kyber", "smq_ram_null"]


@pytest.fixture(name="fastpath", scope="module")
def fixture_fastpath():
    """The program as a module."""
    return program("fastpath")


def taken(fastpath, values=None):
    """What --short --bars measures in ROWS: 900 for each command, except @values, which are by row
    and key."""
    made = FigureSet()
    for row in ROWS:
        for workload in fastpath.workloads(row, fastpath.RINGS, short=True, bars=True):
            value = (values or {}).get((row, workload.key), 900.0)
            made.add(instrument.figure(
                instrument="fastpath", row=row, kernel="6.1", command="tools/bench/fastpath",
                parameters={}, **instrument.fields(workload, [value], "insn")))
    return made


def test_the_short_run_measures_all_bars(fastpath):
    """With --short --bars no bar is reported as not measured, and no workload is there twice."""
    assert not list(fastpath.missed_bars(taken(fastpath), ROWS))


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
def test_a_missed_bar_is_named(fastpath, row, key, least):
    """A value at the bar passes; one more is a missed bar with that path's name."""
    values = {(row, key): least}
    if key == "smq:read:512:32:16:1:1" and row == "scsi_debug":
        # What is compared with this path is not to be the fault.
        values |= {(other, key): least for other in ROWS[1:4]}
    assert not list(fastpath.missed_bars(taken(fastpath, values), ROWS))
    values[row, key] += 1
    missed = list(fastpath.missed_bars(taken(fastpath, values), ROWS))
    assert len(missed) == 1 and parse(key).path in missed[0] and str(least + 1) in missed[0]


def test_rows_without_own_bars_need_none(fastpath):
    """Rows that are not measured have no bars, and a missing figure of a row with bars is named."""
    assert not list(fastpath.missed_bars(FigureSet(), ["scsi_debug_no_sd"]))
    assert any("smq_batch, 1024 per SQE: not measured" in text
               for text in fastpath.missed_bars(FigureSet(), ["scsi_debug"]))
