# SPDX-License-Identifier: GPL-2.0
"""The bench's claims: each answer follows from the figures, whatever they are."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from program import program

BENCH = Path(__file__).resolve().parents[2] / "tools" / "bench"
sys.path.insert(0, str(BENCH))

from smqbench import attached, claims, figures, groups, peers  # noqa: E402
from smqbench.acquisitions import HOST_LOCK, QUEUE_LOCK, REAL_QUEUE_LOCK  # noqa: E402
from smqbench.errors import BenchError  # noqa: E402
from smqbench.figures import METRICS, Figure, FigureSet  # noqa: E402
from smqbench.rows import ROWS  # noqa: E402


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


def locks(row, queue, host, **more):
    """A figure of locks, with the two locks of the legacy path."""
    return figure("locks", row, "locks", queue + host, parts={
        "lock": {QUEUE_LOCK: queue, HOST_LOCK: host}, "group": {groups.SCSI: 0.0}}, **more)


def both_of_virtio():
    """The figures of tools/bench/insn --virtio. Our driver rings the doorbell slightly more often
    than virtio_scsi."""
    for row, lld, bells in (("virtio_scsi", 1280.0, 0.061), ("smq_virtio", 736.0, 0.062)):
        parts = {"group": dict.fromkeys(groups.ORDER, 0.0) | {groups.LLD: lld}}
        for qd, rung in ((32, bells), (128, bells * bells * 17)):
            for metric, value in (("insn_lld", lld + qd), ("doorbells", rung)):
                yield replace(figure("insn", row, metric, value, qd=qd, parts=parts), spread=0.0,
                              values=[lld + qd if metric == "insn_lld" else rung] * 2,
                              command="tools/bench/insn --virtio --repeat 5")
        yield figure("lines", row, "own_transfers", 2.5, jobs=2, cpus=2,
                     parts={"function": {"read virtqueue_add_split [virtio_ring]": 0.77}})
        yield figure("lines", row, "transfers", 7.25, jobs=2, cpus=2, parts={"function": {}})


def everything():
    """All figures that the claims need, with values like those of the papers."""
    taken = FigureSet()
    pair = {"jobs": 2, "cpus": 2}
    for one in (
            figure("locks", "legacy_2013", "lock_share", 38.0, luns=10, **pair),
            figure("locks", "smq_ram", "lock_share", 0.4, luns=10, **pair),
            figure("locks", "legacy_2013", "contended", 30.0, luns=10, **pair,
                   parts={"lock": {HOST_LOCK: 61.0, QUEUE_LOCK: 12.0}}),
            figure("locks", "null_blk", "insn", 5000.0, luns=2, **pair),
            figure("locks", "legacy_2013", "contended", 30.0, **pair,
                   parts={"lock": {HOST_LOCK: 5.0, QUEUE_LOCK: 42.0}}),
            figure("locks", "legacy_2013", "insn", 18000.0, **pair),
            figure("locks", "smq_ram", "insn", 6500.0, **pair),
            figure("locks", "legacy_419", "contended", 35.0, **pair,
                   parts={"lock": {QUEUE_LOCK: 41.0}}),
            figure("locks", "legacy_419", "contended", 0.1, luns=2, **pair,
                   parts={"lock": {QUEUE_LOCK: 0.2}}),
            figure("lines", "legacy_419", "transfers", 6.0, **pair),
            figure("lines", "smq_ram_1q", "transfers", 3.5, **pair),
            locks("legacy_2013", 5.1, 3.0), locks("legacy_419", 4.06, 0.0),
            locks("legacy_419", 5.0, 0.0, qd=1), locks("legacy_419", 5.0, 0.0, qd=1, path="sg_io"),
            locks("legacy_419", 6.0, 0.0, qd=1, path="sd_sg_io"),
            locks("scsi_debug", 0.0, 0.0), locks("smq_ram", 0.0, 0.0),
            insn("smq_ram_1q", 7000, bs=4096), insn("legacy_419", 8262, bs=4096),
            insn("smq_ram_1q", 7000, bs=4096, qd=1), insn("legacy_419", 10539, bs=4096, qd=1),
            insn("smq_ram_1q", 7000, path="sd_sg_io", qd=1),
            insn("legacy_419", 11035, path="sd_sg_io", qd=1),
            insn("smq_ram", 8000, user=0.0, scsi=2000.0, lld=600.0, qd=1),
            insn("smq_ram_timer", 8000, batch=1), insn("smq_ram_timer_batch", 10000, batch=1),
            insn("smq_ram_doorbell", 13000, batch=1),
            insn("smq_ram_doorbell_batch", 8000, batch=1),
            figure("insn", "smq_ram_doorbell", "doorbells", 1.0, batch=1),
            figure("insn", "smq_ram_doorbell_batch", "doorbells", 0.07, batch=1)):
        taken.add(one)
    for one in both_of_virtio():
        taken.add(one)
    for row, value in (("smq_ram_20us", 800.0), ("smq_ram_20us_batch", 1000.0),
                       ("smq_ram_100us_doorbell", 6000.0),
                       ("smq_ram_100us_doorbell_batch", 1500.0)):
        taken.add(figure("native", row, "time", value, path="in_kernel", batch=1, p10=value - 50,
                         median=value))
    for jobs, path in ((1, "smq"), (2, "smq"), (2, "io_uring_fixed")):
        taken.add(figure("native", "scsi_debug", "time", 700.0, path=path, jobs=jobs, luns=jobs,
                         p10=650.0, median=700.0))
    given = [("kernel_legacy", 7256, 32, "libaio", 4096), ("kernel_mq", 5994, 32, "libaio", 4096),
             ("kernel_legacy", 9651, 1, "libaio", 4096), ("kernel_mq", 6112, 1, "libaio", 4096),
             ("kernel_legacy", 9158, 1, "sd_sg_io", 512), ("kernel_mq", 5123, 1, "sd_sg_io", 512),
             ("kernel_legacy_timer", 8392, 32, "libaio", 4096),
             ("kernel_mq_timer", 6868, 32, "libaio", 4096),
             ("kernel_legacy_timer", 11752, 1, "libaio", 4096),
             ("kernel_mq_timer", 10685, 1, "libaio", 4096),
             ("kernel_legacy_timer", 9900, 1, "sd_sg_io", 512),
             ("kernel_mq_timer", 9183, 1, "sd_sg_io", 512)]
    for row, value, qd, path, bs in given:
        taken.add(figure("legacy-kernel", row, "insn_kernel", value, qd=qd, path=path, bs=bs))
    for one in interrupting():
        taken.add(one)
    return taken


def interrupting():
    """Figures of the model's legacy and multiqueue paths, with completion by an interrupt, and
    figures of a given kernel's locks."""
    for more, value in (({"bs": 4096}, 1524), ({"bs": 4096, "qd": 1}, 1067),
                        ({"path": "sd_sg_io", "qd": 1}, 717)):
        yield insn("smq_ram_1q_timer", 7000, **more)
        yield insn("legacy_419_timer", 7000 + value, **more)
    for metric, value, more in (("locks", 4.06, {}), ("waits", 1.63, {"jobs": 2, "cpus": 2})):
        yield figure("legacy-kernel", "kernel_legacy", metric, value + 1, path="libaio", bs=4096,
                     parts={"lock": {REAL_QUEUE_LOCK: value, "of aio_complete": 1}}, **more)
    for path, value, more in (("sd_sg_io", 6.0, {"bs": 512}), ("sg_io", 5.0, {"bs": 512}),
                              ("libaio", 5.0, {"bs": 4096})):
        yield figure("legacy-kernel", "kernel_legacy", "locks", value + 3, path=path, qd=1,
                     parts={"lock": {"&(&q->__queue_lock)->rlock": value, "of sg_open": 3.0}},
                     **more)
    yield figure("legacy-kernel", "kernel_mq", "locks", 1.08, path="libaio", bs=4096,
                 parts={"lock": {"of aio_complete": 1.08}})
    pair = {"path": "libaio", "bs": 4096, "jobs": 2, "cpus": 2}
    yield figure("legacy-kernel", "kernel_legacy", "waits", 0.0, luns=10, parts={"lock": {}},
                 **pair)
    rounds = [0.5, 0.52, 0.6, 0.62, 0.7, 0.74]
    yield replace(figure("legacy-kernel", "kernel_legacy", "against_mq", 0.61, **pair),
                  values=rounds, repeats=len(rounds))


def verdicts(taken):
    """The answers, by claim."""
    return {answer.claim: answer for answer in claims.answers(taken)}


def change(taken, wanted, **fields):
    """A copy of the set with one figure changed."""
    found = taken.find(**wanted)
    assert len(found) == 1
    return FigureSet([replace(one, **fields) if one is found[0] else one
                      for one in taken.figures])


def test_figures_of_the_papers_reproduce_every_claim():
    """Figures like those of the papers reproduce every claim."""
    for answer in verdicts(everything()).values():
        assert answer.verdict == claims.REPRODUCED, answer
        assert answer.here and answer.why


@pytest.mark.parametrize("wanted, fields, claim, verdict, says", [
    ({"row": "legacy_2013", "metric": "lock_share"}, {"value": 20.0}, "2013: 10 LUNs",
     claims.IN_PART, "20 % of the instructions"),
    ({"row": "legacy_2013", "metric": "lock_share"}, {"value": 1.0}, "2013: 10 LUNs",
     claims.NOT, "1 % of the instructions"),
    ({"row": "legacy_2013", "metric": "insn", "instrument": "locks"}, {"value": 6400.0},
     "2013: one LUN", claims.NOT, "0.78 of null_blk"),
    ({"row": "legacy_2013", "metric": "locks"},
     {"parts": {"lock": {HOST_LOCK: 2.0, QUEUE_LOCK: 5.1}}}, "2013: host_lock", claims.NOT, "2.00"),
    ({"row": "legacy_419", "metric": "locks", "qd": 32},
     {"parts": {"lock": {HOST_LOCK: 0.5, QUEUE_LOCK: 4.06}}}, "4.19: host_lock", claims.NOT,
     "0.50"),
    ({"row": "smq_ram", "metric": "locks"}, {"parts": {"group": {groups.LLD: 1.0}}}, "scsi-mq",
     claims.NOT, "smq_ram 1.00"),
    ({"row": "legacy_419", "metric": "contended", "luns": 2},
     {"parts": {"lock": {QUEUE_LOCK: 30.0}}}, "4.19: queue_lock is not contended",
     claims.IN_PART, "30.0 %"),
    ({"row": "kernel_legacy", "qd": 32, "metric": "insn_kernel"}, {"value": 6000.0},
     "4.19: legacy against scsi-mq, 4k QD32, a given", claims.IN_PART, "1.00 (6000 against 5994)"),
    ({"row": "kernel_legacy", "metric": "against_mq"}, {"value": 0.9, "values": [0.9] * 6},
     "4.19: I/O per second, legacy", claims.IN_PART, "0.90 [0.90-0.90]"),
    ({"row": "kernel_mq", "metric": "locks"}, {"parts": {"lock": {REAL_QUEUE_LOCK: 1.0}}},
     "4.19: queue_lock per command on scsi-mq", claims.IN_PART, "1.00 per I/O"),
    ({"row": "smq_ram_doorbell_batch", "metric": "insn"}, {"value": 12900.0},
     "2020 (i10): batching gains where doorbells dominate", claims.NOT, "+1 %"),
    ({"row": "smq_ram_20us_batch", "instrument": "native"}, {"p10": 740.0},
     "2020 (i10): batching loses on a fast local device, native speed", claims.NOT, "+1 %"),
    ({"row": "smq_ram_timer_batch", "instrument": "insn"}, {"value": 8080.0},
     "2020 (i10): batching loses on a fast local device", claims.NOT, "1.0 % fewer"),
])
def test_answers_follow_figures(wanted, fields, claim, verdict, says):
    """If a figure changes, the answer to its claim changes."""
    found = [answer for text, answer in verdicts(change(everything(), wanted, **fields)).items()
             if text == claim or text.startswith(claim) and not claim.startswith("2020")]
    assert [answer.verdict for answer in found] == [verdict]
    assert says in found[0].here


def test_unrecognised_locks_give_no_answer():
    """If no lock was recognised, the claim has no answer: 0 acquisitions would be wrong."""
    taken = change(everything(), {"row": "legacy_419", "metric": "locks", "qd": 32},
                   parts={"lock": {"of smq_submit": 4.06}})
    found = verdicts(taken)["4.19: host_lock is gone from the fast path"]
    assert found.verdict == claims.UNKNOWN
    assert "were not recognised" in found.why


def test_model_reproduces_a_difference_within_15_percent():
    """The model reproduces the difference of +1262 if its own difference is within 15 % of it."""
    for value, verdict in ((8262 + 180, claims.REPRODUCED), (8262 + 200, claims.IN_PART),
                           (7010, claims.NOT)):
        taken = change(everything(), {"instrument": "insn", "row": "legacy_419", "bs": 4096,
                                      "qd": 32}, value=float(value))
        assert verdicts(taken)["4.19: legacy against scsi-mq, 4k QD32, model"].verdict == verdict


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


def run(*arguments, **environment):
    """Runs tools/bench/run with arguments for which it boots no VM."""
    return subprocess.run([BENCH / "run", *arguments], capture_output=True, text=True, timeout=60,
                          check=False, env={"PATH": "/usr/bin:/bin"} | environment)


def test_a_failed_instrument_does_not_stop_the_others(tmp_path):
    """The report says why the instrument failed, and the exit status is 1."""
    done = run("--only", "insn", "--rows", "nvme", "--out", str(tmp_path))
    assert done.returncode == 1
    assert "insn FAILED: ended with status 2" in done.stderr
    assert "there is no row 'nvme'" in (tmp_path / "report.md").read_text()
    assert "insn" in figures.read(tmp_path / "results.json").failed


def test_resume_repeats_only_unfinished_instruments(tmp_path, monkeypatch):
    """--resume runs only instruments that failed or did not end. It refuses other options or
    sources than those of the run that it continues."""
    bench = program("run")
    asked, bad = [], ["lines"]

    def take(step, _options, _folder):
        asked.append(step.name)
        if step.name in bad:
            return FigureSet(failed={step.name: "broke"})
        return FigureSet([one for one in everything().figures if one.instrument == step.name])

    monkeypatch.setattr(bench, "take", take)
    monkeypatch.setattr(bench.Taken, "_sources", lambda self: "one")
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
    monkeypatch.setattr(bench.Taken, "_sources", lambda self: "two")
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
    assert compare(tmp_path, old, new, "--only", "native").returncode == 0
    assert "smq_ram, io_uring read 512" in compare(tmp_path, old, old, "--all").stdout
    (tmp_path / "old").write_text("{}")
    bad = subprocess.run([BENCH / "compare", tmp_path / "old", tmp_path / "new"],
                         capture_output=True, text=True, timeout=60, check=False)
    assert bad.returncode == 2 and "format is not" in bad.stderr


def test_conclusion_names_extremes_and_peers():
    """A conclusion names the rows with the least and the most, and gives our rows as multiples of
    their peers."""
    found = [insn("smq_ram_null", 6000), insn("scsi_debug", 6400), insn("null_blk", 4000)]
    assert peers.conclusion(found) == (
        "io_uring read 512 QD32 batch 16: null_blk has the least, 4000; scsi_debug the most, 6400, "
        "1.60 times. Compared with their peers, insn/IO: smq_ram null 0.94 times scsi_debug.")
    assert peers.conclusion(found[:1]) == (
        "io_uring read 512 QD32 batch 16: smq_ram null: 6000.")
    faster = [figure("native", row, "iops", value) for row, value in
              (("smq_ram_null", 900.0), ("scsi_debug", 500.0))]
    assert "smq_ram null has the most, 900; scsi_debug the least, 500" in peers.conclusion(faster)


def test_bars_of_attached_hosts():
    """An attached host may cost some instructions more, and a detached one none."""
    for more, bad in (({}, []), ({"attach_scsi_debug": 71}, ["attached, direct"]),
                      ({"attach_scsi_debug_prio": 201}, ["attached, prio, not full"]),
                      ({"detached_scsi_debug": 6}, ["attached and detached"])):
        values = {"attach_scsi_debug": 70, "attach_scsi_debug_prio": 200,
                  "detached_scsi_debug": 5} | more
        taken = FigureSet([insn("scsi_debug", 6400), insn("scsi_debug", 6900, luns=4),
                           *(insn(row, 6400 + value) for row, value in values.items())])
        found = attached.verdicts(taken)
        assert len(found) == 3
        assert [one.what for one in found if not one.ok] == [
            f"512 bytes, QD32: {what}, more than bare" for what in bad]
    assert not attached.verdicts(FigureSet([insn("scsi_debug", 6400)]))
