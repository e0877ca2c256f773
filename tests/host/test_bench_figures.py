# SPDX-License-Identifier: GPL-2.0
"""Figures of the bench: an error names the wrong field, and a file is read as it was written."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "tools" / "bench"
sys.path.insert(0, str(BENCH))

from smqbench import figures, rows, timing  # noqa: E402
from smqbench.errors import BenchError  # noqa: E402
from smqbench.figures import Figure, FigureSet  # noqa: E402


def figure(**changes):
    """A valid figure with some fields changed."""
    fields = {"instrument": "insn", "row": "smq_ram", "path": "io_uring", "op": "read", "bs": 512,
              "qd": 32, "batch": 16, "luns": 1, "jobs": 1, "metric": "insn", "unit": "insn/IO",
              "value": 6455.0, "spread": 1.5, "repeats": 3, "kernel": "6.1.0-56-amd64",
              "command": "tools/bench/insn --repeat 3",
              "parameters": {"modules": ["modprobe smq_ram"]}}
    return Figure(**fields | changes)


def time(**changes):
    """A valid figure of a time with some fields changed."""
    return figure(**{"instrument": "native", "metric": "time", "unit": "ns/IO", "p10": 400.0,
                     "median": 440.0} | changes)


@pytest.mark.parametrize("changes, message", [
    ({"instrument": "stopwatch"}, "instrument is 'stopwatch', must be one of insn, fastpath"),
    ({"row": "nvme"}, "row is 'nvme', must be one of null_blk"),
    ({"path": "usb"}, "path is 'usb'"),
    ({"op": "trim"}, "op is 'trim'"),
    ({"metric": "joules"}, "metric is 'joules'"),
    ({"unit": "ns/IO"}, "unit is 'ns/IO', must be insn/IO for insn"),
    ({"bs": -1}, "bs is -1, must be at least 0"),
    ({"bs": "512"}, "bs is '512', must be of type int"),
    ({"bs": 0}, "bs is 0, must be 0 for tur and call, and only for these"),
    ({"op": "tur"}, "bs is 512, must be 0 for tur and call, and only for these"),
    ({"qd": 0, "batch": 1}, "qd is 0, must be at least 1"),
    ({"batch": 33}, r"batch is 33, must be at most qd \(32\)"),
    ({"value": float("nan")}, "value is nan, must be a finite number"),
    ({"value": True}, "value is True, must be of type float"),
    ({"value": None}, "value is None, must be of type float"),
    ({"spread": -0.1}, "spread is -0.1"),
    ({"repeats": 0}, "repeats is 0"),
    ({"values": [1.0]}, "values is .*must be 3 finite numbers"),
    ({"p10": 1.0}, "p10 is 1.0, must be given only for time"),
    ({"model": True}, "model is True, must be False for row smq_ram"),
    ({"row": "legacy_2013"}, "model is False, must be True for row legacy_2013"),
    ({"command": "perf stat"}, "command is 'perf stat'"),
    ({"kernel": ""}, "kernel is ''"),
    ({"parameters": None}, "parameters is None, must be of type dict"),
    ({"parts": {"group": {"LLD": "much"}}}, r"parts\[group\]\[LLD\] is 'much'"),
])
def test_wrong_field_is_refused(changes, message):
    """The error names the field and its limit."""
    with pytest.raises(BenchError, match=message):
        figure(**changes)


@pytest.mark.parametrize("repeats, left_out", [(6, 0), (8, 0), (9, 1), (12, 2), (24, 6), (50, 17)])
def test_median_interval_matches_sign_test_tables(repeats, left_out):
    """The interval of a median is the one that tables for the sign test have. Fewer than six
    repeats have no interval."""
    assert timing.interval(list(range(repeats, 0, -1))) == (1 + left_out, repeats - left_out)
    assert timing.interval([1.0] * 5) is None and timing.interval([]) is None


def test_a_time_needs_p10_and_median():
    """A time without p10 and median is refused."""
    assert time().median == 440
    with pytest.raises(BenchError, match="p10 is None"):
        time(p10=None)


def test_read_returns_what_write_wrote(tmp_path):
    """read() returns the set that write() wrote."""
    taken = FigureSet([figure(parts={"group": {"LLD": 71.5}}, values=[1, 2, 3]), time(),
                       figure(row="legacy_419", model=True)],
                      {"insn legacy_2013": "the policy is refused"}, {"lines": "no QEMU"})
    taken.write(tmp_path / "f.json")
    back = figures.read(tmp_path / "f.json")
    assert back == taken
    assert [path.name for path in tmp_path.iterdir()] == ["f.json"]


@pytest.mark.parametrize("damage, message", [
    (lambda content: content.update(format="other"), "format is not 'smq-figures 1'"),
    (lambda content: content.pop("figures"), "'figures' is missing"),
    (lambda content: content.pop("skipped"), "'skipped' is missing"),
    (lambda content: content["figures"][0].update(colour="red"), "figure 0: unknown field colour"),
    (lambda content: content["figures"][0].pop("qd"), "figure 0: .*'qd'"),
    (lambda content: content["figures"][0].update(qd=0), "figure 0: .*qd is 0"),
    (lambda content: content["figures"].append(content["figures"][0]), "there are two of insn"),
    (lambda content: content["figures"].append(7), "figure 1: is not an object"),
])
def test_damaged_file_is_refused(tmp_path, damage, message):
    """A damaged file is refused, with the reason."""
    path = tmp_path / "f.json"
    FigureSet([figure()]).write(path)
    content = json.loads(path.read_text())
    damage(content)
    path.write_text(json.dumps(content))
    with pytest.raises(BenchError, match=message):
        figures.read(path)


def test_missing_file_is_reported(tmp_path):
    """read() reports a missing file, and write() reports a missing folder."""
    with pytest.raises(BenchError, match="No such file"):
        figures.read(tmp_path / "none.json")
    with pytest.raises(BenchError, match="No such file"):
        FigureSet().write(tmp_path / "none" / "f.json")


def test_merged_set_has_all_figures():
    """A merged set has all figures and reasons; the same figure twice is an error."""
    one, other = figure(), time()
    both = figures.merged([FigureSet([one], {"a": "x"}), FigureSet([other], {"b": "y"})])
    assert both.figures == [one, other]
    assert both.skipped == {"a": "x", "b": "y"}
    assert both.one(instrument="native") == other
    assert both.one(row="null_blk") is None
    assert both.find(row="smq_ram") == [one, other]
    with pytest.raises(BenchError, match="2 fit"):
        both.one(row="smq_ram")
    with pytest.raises(BenchError, match="there are two"):
        both.merge(FigureSet([replace(one, value=1.0)]))


def test_report_names_workloads_sizes_and_rows():
    """A report names workloads, sizes and rows in words; a model's name has the word "model"."""
    assert figure().workload == "io_uring read 512 QD32 batch 16"
    assert figure(op="tur", bs=0, path="sg_io", qd=1, batch=1, luns=4, jobs=2).workload == \
        "SG_IO tur QD1 4 LUNs 2 jobs"
    assert figures.size(4096) == "4k"
    for row in rows.ROWS.values():
        assert ("model" in row.label) == row.model, "only models have the word model"


def test_rows_come_in_report_order():
    """The rows of --rows come in the order of the report; unknown rows are refused."""
    assert rows.chosen(None, ["null_blk", "smq_ram"]) == ["null_blk", "smq_ram"]
    assert rows.chosen("smq_ram,null_blk", ["null_blk", "smq_ram"]) == ["null_blk", "smq_ram"]
    with pytest.raises(BenchError, match="no row 'nvme', only null_blk"):
        rows.chosen("nvme", ["null_blk"])


def test_every_second_turn_is_reversed():
    """Every second turn takes the devices in reverse order."""
    assert list(timing.turns("ab", 3)) == [(1, "a"), (1, "b"), (2, "b"), (2, "a"), (3, "a"),
                                           (3, "b")]


@pytest.mark.parametrize("values, percent, expected", [
    ([5], 10, 5), ([1, 2, 3], 50, 2), ([3, 1, 2, 4], 50, 2.5), (range(11), 10, 1),
    (range(11), 100, 10), ([2, 1], 0, 1),
])
def test_percentile_is_right_for_few_values(values, percent, expected):
    """Percentiles are right even for few values."""
    assert timing.percentile(list(values), percent) == expected


def test_outlier_does_not_move_the_summary():
    """An outlier in one repeat moves neither the median nor the spread."""
    made = timing.summary([[10, 11, 12], [10, 11, 900], [12, 13, 14]])
    assert (made.median, made.spread, made.repeats) == (11, 2, 3)
    assert made.p10 == 10
    with pytest.raises(ValueError):
        timing.percentile([], 10)


def test_ratios_are_taken_for_each_repeat():
    """A ratio is taken for each repeat, so a drift that both sides share does not change it."""
    assert timing.ratios([10, 20, 40], [20, 40, 100]) == [0.5, 0.5, 0.4]
    with pytest.raises(ValueError, match="2 repeats against 1"):
        timing.ratios([1, 2], [1])
