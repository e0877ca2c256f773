# SPDX-License-Identifier: GPL-2.0
"""Figures of the bench: what is no figure is refused by name, files come back as they went."""

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "tools" / "bench"
sys.path.insert(0, str(BENCH))

from smqbench import figures, rows, timing  # noqa: E402
from smqbench.errors import BenchError  # noqa: E402
from smqbench.figures import Figure, FigureSet  # noqa: E402


def figure(**changes):
    """A good figure but for the changes."""
    fields = {"instrument": "insn", "row": "smq_ram", "path": "io_uring", "op": "read", "bs": 512,
              "qd": 32, "batch": 16, "luns": 1, "jobs": 1, "metric": "insn", "unit": "insn/IO",
              "value": 6455.0, "spread": 1.5, "repeats": 3, "kernel": "6.1.0-56-amd64",
              "command": "tools/bench/insn --repeat 3",
              "parameters": {"modules": ["modprobe smq_ram"]}}
    return Figure(**fields | changes)


def time(**changes):
    """The same for a time."""
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
    ({"bs": 0}, "bs is 0, must be 0 for tur and call alone"),
    ({"op": "tur"}, "bs is 512, must be 0 for tur and call alone"),
    ({"qd": 0, "batch": 1}, "qd is 0, must be at least 1"),
    ({"batch": 33}, r"batch is 33, must be at most qd \(32\)"),
    ({"value": float("nan")}, "value is nan, must be a finite number"),
    ({"value": True}, "value is True, must be of type float"),
    ({"value": None}, "value is None, must be of type float"),
    ({"spread": -0.1}, "spread is -0.1"),
    ({"repeats": 0}, "repeats is 0"),
    ({"values": [1.0]}, "values is .*must be 3 finite numbers"),
    ({"p10": 1.0}, "p10 is 1.0, must be given for time alone"),
    ({"model": True}, "model is True, must be False for row smq_ram"),
    ({"row": "legacy_2013"}, "model is False, must be True for row legacy_2013"),
    ({"command": "perf stat"}, "command is 'perf stat'"),
    ({"kernel": ""}, "kernel is ''"),
    ({"parameters": None}, "parameters is None, must be of type dict"),
    ({"parts": {"group": {"LLD": "much"}}}, r"parts\[group\]\[LLD\] is 'much'"),
])
def test_no_figure(changes, message):
    """The field and its limit are named."""
    with pytest.raises(BenchError, match=message):
        figure(**changes)


@pytest.mark.parametrize("repeats, left_out", [(6, 0), (8, 0), (9, 1), (12, 2), (24, 6), (50, 17)])
def test_interval_of_a_median(repeats, left_out):
    """As the tables of the sign test have it; too few repeats say nothing."""
    assert timing.interval(list(range(repeats, 0, -1))) == (1 + left_out, repeats - left_out)
    assert timing.interval([1.0] * 5) is None and timing.interval([]) is None


def test_a_time_needs_both():
    """p10 and median stand beside a time's value."""
    assert time().median == 440
    with pytest.raises(BenchError, match="p10 is None"):
        time(p10=None)


def test_there_and_back(tmp_path):
    """Written and read it is the same."""
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
    (lambda content: content["figures"].append(7), "figure 1: is no object"),
])
def test_damaged_file(tmp_path, damage, message):
    """What was changed by hand is noticed."""
    path = tmp_path / "f.json"
    FigureSet([figure()]).write(path)
    content = json.loads(path.read_text())
    damage(content)
    path.write_text(json.dumps(content))
    with pytest.raises(BenchError, match=message):
        figures.read(path)


def test_no_file(tmp_path):
    """Both ways."""
    with pytest.raises(BenchError, match="No such file"):
        figures.read(tmp_path / "none.json")
    with pytest.raises(BenchError, match="No such file"):
        FigureSet().write(tmp_path / "none" / "f.json")


def test_merge_and_find():
    """All of all; the same figure twice is a mistake."""
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


def test_words():
    """What people read."""
    assert figure().workload == "io_uring read 512 QD32 batch 16"
    assert figure(op="tur", bs=0, path="sg_io", qd=1, batch=1, luns=4, jobs=2).workload == \
        "SG_IO tur QD1 4 LUNs 2 jobs"
    assert figures.size(4096) == "4k"
    for row in rows.ROWS.values():
        assert ("model" in row.label) == row.model, "a model says that it is one"


def test_rows_of_an_option():
    """In the order of the report, unknown ones refused."""
    assert rows.chosen(None, ["null_blk", "smq_ram"]) == ["null_blk", "smq_ram"]
    assert rows.chosen("smq_ram,null_blk", ["null_blk", "smq_ram"]) == ["null_blk", "smq_ram"]
    with pytest.raises(BenchError, match="no row 'nvme', only null_blk"):
        rows.chosen("nvme", ["null_blk"])


def test_every_field_is_written():
    """Nothing of a figure stays behind."""
    assert asdict(figure()).keys() == figure().__dataclass_fields__.keys()


def test_turns():
    """Forth and back."""
    assert list(timing.turns("ab", 3)) == [(1, "a"), (1, "b"), (2, "b"), (2, "a"), (3, "a"),
                                           (3, "b")]


@pytest.mark.parametrize("values, percent, expected", [
    ([5], 10, 5), ([1, 2, 3], 50, 2), ([3, 1, 2, 4], 50, 2.5), (range(11), 10, 1),
    (range(11), 100, 10), ([2, 1], 0, 1),
])
def test_percentile(values, percent, expected):
    """Also of few values."""
    assert timing.percentile(list(values), percent) == expected


def test_summary():
    """A repeat with an outlier moves neither."""
    made = timing.summary([[10, 11, 12], [10, 11, 900], [12, 13, 14]])
    assert (made.median, made.spread, made.repeats) == (11, 2, 3)
    assert made.p10 == 10
    with pytest.raises(ValueError):
        timing.percentile([], 10)


def test_ratio():
    """Repeat by repeat: a drift that meets both sides is no difference."""
    assert timing.ratios([10, 20, 40], [20, 40, 100]) == [0.5, 0.5, 0.4]
    with pytest.raises(ValueError, match="2 repeats against 1"):
        timing.ratios([1, 2], [1])
