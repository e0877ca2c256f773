# SPDX-License-Identifier: GPL-2.0
"""tools/bench/policies: the figures that it reads from guests' output, and its bars (the limits
that a figure has to keep)."""

import json
import sqlite3
import subprocess
from collections import Counter
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

import pytest
from make import make
from dispatch import files
from smqbench import bars, figures, guestlog, instrument, policies
from smqbench.acquisitions import Locks
from smqbench.errors import BenchError
from smqbench.figures import FigureSet
from smqbench.plan import Workload
from smqbench.rows import ROWS

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "tools" / "bench"

FSYNC = {"path": "fsync", "op": "write", "bs": 4096, "qd": 1, "batch": 1, "luns": 1, "jobs": 65}
PAIR = Workload("io_uring", "read", 512, 32, 1, 1, 2)
KERNELS_LOAD = Workload("in_kernel", "read", 512, 32, 1, 1, 2)


def figure(row, metric, value, workload=PAIR, cpus=2, **more):
    """A figure of tools/bench/policies."""
    times = {"p10": float(value), "median": float(value)} if metric == "time" else {}
    return instrument.figure(
        instrument="policies", row=row, kernel="6.1", cpus=cpus, note="", parameters={},
        command="tools/bench/policies --only x",
        **instrument.fields(workload, [float(value)], metric), **times, **more)


def taken(*found):
    """A set of these figures."""
    result = FigureSet()
    for one in found:
        result.add(one)
    return result


def judged(found, section, **where):
    """The bar of a section with these fields."""
    one, = [bar for bar in bars.bars(section)
            if all(bar.where.get(name) == value for name, value in where.items())]
    return one.judge(found)


def guest(tmp_path, *lines, end=True):
    """Writes a guest's lines to a file; returns the figures that are read from it."""
    every = [{"kind": "kernel", "release": "7.2", "cpus": 2, "cmdline": "x"}, *lines]
    every += [{"kind": "end"}] if end else []
    path = tmp_path / "results"
    path.write_text("".join(json.dumps(one) + "\n" for one in every), encoding="ascii")
    return policies.read(path, "tools/bench/policies --only prio")


def test_guest_output_becomes_figures(tmp_path):
    line = {"kind": "figure", "row": "prio_full_prio", "metric": "lat_p99",
            "values": [3.0, 1.0, 2.0], "parameters": {"verified": True, "advertised": 132},
            **FSYNC}
    one, = guest(tmp_path, {"kind": "seen", "row": "x"}, line).figures
    assert (one.value, one.spread, one.values, one.unit) == (2.0, 2.0, [3.0, 1.0, 2.0], "ms")
    assert (one.path, one.jobs, one.cpus, one.kernel) == ("fsync", 65, 2, "7.2")
    assert one.parameters["advertised"] == 132 and one.note == ROWS["prio_full_prio"].note


@pytest.mark.parametrize("line, end, words", [
    ({"kind": "figure", "row": "prio_full_prio", "metric": "iops", "values": [1.0],
      "parameters": {"verified": False}, **FSYNC}, True, "is not the data that was written"),
    ({"kind": "error", "why": "no room"}, True, "the guest: no room"),
    ({"kind": "seen"}, False, "did not finish"),
    ({"kind": "unheard"}, True, "unheard"),
    ({"kind": "figure", "row": "prio_full_prio"}, True, "values"),
    ({"kind": "figure", "row": "prio_full_prio", "metric": "iops", "values": [1.0],
      "parameters": {}, **FSYNC, "unheard": 1}, True, "unheard"),
])
def test_wrong_figures_are_refused(tmp_path, line, end, words):
    with pytest.raises(BenchError, match=words):
        guest(tmp_path, line, end=end)


@pytest.mark.parametrize("section, metric, row, load, value, word", [
    ("bucket", "waits", "shared_bucket", PAIR, {"direct": 0.2, "bucket": 0.02}, (0.1, "PASS")),
    ("bucket", "transfers", "shared_bucket", PAIR, {"direct": 10, "bucket": 11.5}, (1.5, "MISSED")),
    ("bucket", "waits", "shared_bucket", replace(PAIR, batch=16), {}, (None, "")),
    # The best of the kernel's own means.
    ("depth", "lat_p99", "depth_place_prio", PAIR,
     {"prio": 600, "wbt": 900, "deadline": 700, "bfq": 600}, (1, "PASS")),
    ("depth", "lat_p99", "depth_place_prio", PAIR,
     {"prio": 610, "wbt": 900, "deadline": 700, "bfq": 600}, (610 / 600, "MISSED")),
    # By how many spreads bucket is slower, where two runs of direct differ by 20.
    ("bucket", "time", "shared_bucket", KERNELS_LOAD,
     {"direct": 1000, "again": 1020, "bucket": 1010}, (-0.5, "PASS")),
    ("bucket", "time", "shared_bucket", KERNELS_LOAD,
     {"direct": 1000, "again": 1020, "bucket": 1100}, (4, "MISSED"))])
def test_each_bar_can_be_missed(section, metric, row, load, value, word):
    batch = {"batch": load.batch} if section == "bucket" else {}
    found = judged(taken(*(figure(f"{row.rpartition('_')[0]}_{name}", metric, one, load)
                           for name, one in value.items())), section, row=row, metric=metric,
                   **batch)
    assert (found.value, found.word) == (word[0] and pytest.approx(word[0]), word[1])
    assert found.ok == (word[1] != "MISSED")


def test_worst_row_of_steer_is_judged():
    """A time and a rate are compared with direct's; a row whose rows with direct differ by more
    than 2 % is left out."""
    def rows(name, metric, **values):
        return [figure(f"steer_{name}_{word.strip('_')}", metric, value, cpus=4)
                for word, value in values.items()]
    found = taken(*rows("pool", "iops", direct=1000, again=1010, steer=970),
                  *rows("map", "seconds", direct=1, again=1.05, _2=2),
                  *rows("tagset", "seconds", direct=1, again=0.99, _2=1.04, off=0.9))
    worst = judged(found, "steer", row="steer_*", metric="seconds")
    assert (worst.value, worst.word) == (pytest.approx(1.04), "PASS")
    assert judged(found, "steer", row="steer_*", metric="iops").value == pytest.approx(0.97)
    found.add(rows("tagset", "seconds", _98=1.06)[0])
    assert judged(found, "steer", row="steer_*", metric="seconds").word == "MISSED"


def test_files_are_verified(tmp_path, monkeypatch):
    """A round with copy, untar and database in a folder is verified; what is wrong is found."""
    monkeypatch.setattr(files, "FOLDER", tmp_path / "sources")
    monkeypatch.setattr(files, "BEGIN", 0.05)
    place = tmp_path / "disk"
    for folder in (files.FOLDER, place):
        folder.mkdir()
    files.sources(1)
    took, copy, untar = files.load([place])
    assert took and min(*took, copy, untar) > 0
    assert files.verified(place / "database", len(took), place)
    assert not files.verified(place / "database", len(took) + 1, place)
    (place / "tree/0/0").write_bytes(b"x")
    with pytest.raises(BenchError, match="diff -r"):
        files.verified(place / "database", len(took), place)


def test_commits_end_when_the_load_is_over(tmp_path):
    """Each commit is one row, also if the load is over before the first one."""
    with sqlite3.connect(tmp_path / "database", isolation_level=None) as database:
        database.execute("CREATE TABLE rows (data BLOB)")
        left = iter([False, False, True, True])
        assert len(files.commits(database, lambda: next(left))) == 2
        assert files.commits(database, lambda: next(left)) == []
        assert database.execute("SELECT count(*) FROM rows").fetchone() == (2,)


def test_bars_ask_for_rows_and_metrics_that_exist():
    """Each bar asks for rows, paths and metrics that exist; otherwise it could never be judged."""
    for section in bars.SECTIONS:
        for bar in bars.bars(section):
            assert not bar.judge(FigureSet()).value and bar.where["metric"] in figures.METRICS
            assert bar.where.get("path", "io_uring") in figures.PATHS
            for row in bar.rows():
                assert any(fnmatch(name, row) for name in ROWS), row


def test_waits_in_interrupts_are_counted_separately():
    locks = Locks(contended=Counter({("lock", "a", 1, False): 3, ("lock", "a", 1, True): 5}))
    assert locks.waits() == 3


def test_counters_of_policies_are_per_command(tmp_path):
    """Counters are divided by the number of all commands, of both jobs, in warm-up and in runs."""
    run = {"count": 90, "ns": 1, "jobs": 2, "warmup": 10, "devices": ["/dev/sda"]}
    (tmp_path / "log").write_text(
        f"kernel 6.1\nrow shared_bucket 1\nrun {PAIR.key} {json.dumps(run)}\n"
        f"counted {PAIR.key} rung=100 shared=10 / rung=300 shared=60 \nend\n", encoding="ascii")
    (tmp_path / "out").write_text("run=1\n", encoding="ascii")
    assert guestlog.read(tmp_path).counted == {
        ("shared_bucket", PAIR.key): [{"rung": 1.0, "shared": 0.25}]}


def test_a_policy_that_is_not_effective_is_reported(tmp_path):
    """The log has the effective policy: if a row of batch ran as direct, that is an error."""
    run = {"count": 90, "ns": 1, "jobs": 1, "warmup": 10, "devices": ["/dev/sda"]}
    for seen, wrong in (("batch", 0), ("direct", 1)):
        (tmp_path / "log").write_text(
            f"kernel 6.1\nrow smq_ram_doorbell_batch 1\nrun {PAIR.key} {json.dumps(run)}\n"
            f"effective {PAIR.key} {seen}\nend\n", encoding="ascii")
        (tmp_path / "out").write_text("run=1\n", encoding="ascii")
        log = guestlog.read(tmp_path)
        assert log.runs[0].setting["effective"] == seen
        assert len(instrument.without_policy(log, "insn")) == wrong


def test_dirty_verifies_its_data(tmp_path):
    """dirty verifies the data that it has written, here to two files."""
    make(BENCH)
    program = ROOT / "build/tools/bench/dirty"
    nodes = [tmp_path / "async", tmp_path / "sync"]
    for node in nodes:
        node.write_bytes(bytes(1 << 20))
    done = subprocess.run([program, "--writers", "4", "--burst", "2", "--after", "20", "--syncs",
                           "5", *nodes], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["verified"] and len(said["sync_ms"]) == 5
