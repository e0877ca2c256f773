# SPDX-License-Identifier: GPL-2.0
"""The bench's comparisons: of two runs, and of a row with its peer; and a run that is resumed."""

import subprocess
import sys
from pathlib import Path

import pytest
from program import program
from smqbench import claims, groups, peers
from smqbench.errors import BenchError
from smqbench.figures import METRICS, Figure, FigureSet
from smqbench.rows import ROWS

BENCH = Path(__file__).resolve().parents[2] / "tools" / "bench"


def figure(instrument, row, metric, value, **more):
    """A figure as the instruments write it."""
    content = {"path": "io_uring", "op": "read", "bs": 512, "qd": 32, "luns": 1, "jobs": 1} | more
    content.setdefault("batch", min(content["qd"], 16))
    return Figure(instrument=instrument, row=row, metric=metric, unit=METRICS[metric][0],
                  value=value, spread=2.0, repeats=2, kernel="6.1.0", model=ROWS[row].model,
                  command=f"tools/bench/{instrument} --rows {row} --repeat 2",
                  parameters={"modules": [f"modprobe {row}"]}, **content)


def insn(row, value, user=1000.0, scsi=1000.0, lld=100.0, **more):
    """A figure of instructions, with its groups."""
    split = dict.fromkeys(groups.ORDER, 0.0) | {
        groups.PROGRAM: user, groups.SCSI: scsi, groups.LLD: lld,
        groups.BLOCK: value - user - scsi - lld}
    return figure("insn", row, "insn", value, parts={"group": split}, **more)


def test_differences_within_the_spread_are_not_worse():
    """A row is worse only if the difference exceeds the spread and 1 %. The metric determines which
    direction is worse."""
    taken = FigureSet([insn("smq_ram_null", 6400), insn("scsi_debug", 6300)])
    assert [row[0] for row in peers.worse(taken)] == ["smq_ram null"]
    assert not peers.worse(FigureSet([insn("smq_ram_null", 6350), insn("scsi_debug", 6300)]))
    assert not peers.worse(FigureSet([insn("smq_ram_null", 6200), insn("scsi_debug", 6300)]))
    faster = [figure("native", row, "iops", value) for row, value in
              (("smq_ram_null", 900.0), ("scsi_debug", 500.0))]
    assert not peers.worse(FigureSet(faster))


def test_resume_repeats_only_unfinished_instruments(tmp_path, monkeypatch):
    """--resume runs only instruments that failed or did not end. It refuses other options or
    sources than those of the run that it continues."""
    bench = program("run")
    asked, bad = [], ["lines"]

    def take(step, _options, _folder):
        asked.append(step.name)
        if step.name in bad:
            return FigureSet(failed={step.name: "broke"})
        return FigureSet([figure(step.name, "smq_ram", "insn", 6500.0)])

    monkeypatch.setattr(bench, "take", take)
    monkeypatch.setattr(bench, "sources", lambda: "one")
    words = ["run", "--out", str(tmp_path), "--only", "insn,locks,lines"]
    monkeypatch.setattr(sys, "argv", words)
    first = bench.measure(bench.parse())
    assert asked == ["insn", "locks", "lines"] and "lines" in first.failed
    bad.clear()
    monkeypatch.setattr(sys, "argv", [*words, "--resume"])
    second = bench.measure(bench.parse())
    assert asked[3:] == ["lines"] and not second.failed
    assert len(second.figures) > len(first.figures) > 0
    monkeypatch.setattr(sys, "argv", [*words, "--resume", "--repeat", "2"])
    with pytest.raises(BenchError, match="has other repeat"):
        bench.measure(bench.parse())
    monkeypatch.setattr(bench, "sources", lambda: "two")
    monkeypatch.setattr(sys, "argv", [*words, "--resume"])
    with pytest.raises(BenchError, match="has other sources"):
        bench.measure(bench.parse())
    monkeypatch.setattr(sys, "argv", words)
    assert bench.measure(bench.parse()).figures and asked[4:] == ["insn", "locks", "lines"]
    monkeypatch.setattr(sys, "argv", ["run", "--out", str(tmp_path / "new"), "--resume"])
    with pytest.raises(BenchError, match="no run to continue"):
        bench.measure(bench.parse())


def compare(tmp_path, old, new, *words):
    """Runs tools/bench/compare on two sets."""
    for name, one in (("old", old), ("new", new)):
        one.write(tmp_path / name)
    return subprocess.run([BENCH / "compare", *words, tmp_path / "old", tmp_path / "new"],
                          capture_output=True, text=True, timeout=60, check=False)


def test_compare_reports_differences_beyond_the_spread(tmp_path):
    """tools/bench/compare reports each difference beyond the spread as better or worse. It counts
    figures that only one file has."""
    old = FigureSet([insn("smq_ram", 6500), insn("null_blk", 5000),
                     figure("native", "smq_ram", "iops", 900.0)])
    same = compare(tmp_path, old, old)
    assert (same.returncode, same.stdout) == (
        0, "3 compared: 0 better, 0 worse, 0 other, 3 the same; only in OLD 0, only in NEW 0\n")
    new = FigureSet([insn("smq_ram", 6600), insn("scsi_debug", 5000),
                     figure("native", "smq_ram", "iops", 1800.0)])
    done = compare(tmp_path, old, new)
    assert done.returncode == 1
    assert "+1.5 %" in done.stdout and "+100.0 %" in done.stdout
    assert done.stdout.endswith(
        "2 compared: 1 better, 1 worse, 0 other, 0 the same; only in OLD 1, only in NEW 1\n")
    assert compare(tmp_path, old, new, "--least", "3").returncode == 0


def test_claims_are_answered_by_figures():
    """A claim is reproduced within its limit. Without its figure the answer says why."""
    text = "4.19: legacy against scsi-mq, 4k QD32, model"

    def answer(value, **more):
        taken = FigureSet([insn("smq_ram_1q", 7000, bs=4096),
                           *([insn("legacy_419", value, bs=4096)] if value else [])], **more)
        found, = [one for one in claims.answers(taken) if one[0] == text]
        return found
    assert answer(8262)[2:4] == ["1262", "reproduced"]
    assert answer(7500)[3] == "in part" and answer(7050)[3] == "not reproduced"
    assert answer(0, skipped={"insn legacy_419": "refused"})[3:] == ["not measured", "refused"]
