# SPDX-License-Identifier: GPL-2.0
"""The bench's claims and its report: each answer follows from the figures, whatever they are."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from program import program

BENCH = Path(__file__).resolve().parents[2] / "tools" / "bench"
sys.path.insert(0, str(BENCH))

from smqbench import attached, claims, figures, groups, matrix, peers, report  # noqa: E402
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


def test_claims_without_figures_have_no_answer():
    """Without figures no claim has an answer."""
    found = verdicts(FigureSet())
    assert {answer.verdict for answer in found.values()} == {claims.UNKNOWN}
    assert not any(answer.here for answer in found.values())


def test_missing_values_have_a_reason():
    """If a figure is missing, the answer repeats the instrument's reason."""
    taken = FigureSet(skipped={"insn legacy_419": "the policy is refused",
                               "legacy-kernel": "no kernel was given"}, failed={"lines": "no QEMU"})
    taken.add(insn("smq_ram_1q", 7000, bs=4096))
    found = verdicts(taken)
    assert found["4.19: legacy against scsi-mq, 4k QD32, model"].why == "the policy is refused"
    assert found["4.19: legacy against scsi-mq, SG_IO 512, a given kernel"].why == \
        "no kernel was given"
    assert found["4.19: the lock's cache line bounces, two jobs on one LUN"].why == "no QEMU"
    assert "tools/bench/locks took no such figure of legacy 2013 (model)" in \
        found["2013: host_lock per command, QD32"].why


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


def test_report_has_everything():
    """The report has each figure's value and command, the claims and the failures. It marks
    models."""
    taken = everything()
    taken.skipped["insn null_blk"] = "no such module"
    taken.failed["native"] = "ended with status 2: no UML"
    text = report.markdown(taken, [report.Plot("insn.svg", "Instructions")])
    for one in taken.figures:
        if one.metric not in ("own_transfers",):
            assert matrix.number(one.value) in text, one.key
    for word in ("insn null_blk: no such module", "native: ended with status 2: no UML",
                 "![Instructions](insn.svg)", "legacy 2013 (model)", "## What was claimed",
                 "## Where ours costs more", "## Locks", "`modules: modprobe smq_ram`",
                 "Taken by `tools/bench/locks --rows scsi_debug,smq_ram,legacy_2013,legacy_419 "
                 "--repeat 2`"):
        assert word in text, word


def test_every_table_has_its_command():
    """Within a few lines below each table the report has the command that measures it again."""
    lines = report.markdown(everything()).splitlines()
    ends = [at for at, line in enumerate(lines)
            if line.startswith("| ") and not lines[at + 1].startswith("| ")]
    # The table after this heading has no figures.
    last = lines.index("## What the rows are")
    for at in ends:
        if at < last:
            assert any("Taken by `" in line for line in lines[at:at + 8]), lines[at]


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


def test_virtio_has_its_own_table():
    """Figures of virtio-scsi depend on QEMU: they have a section of their own, with bounds."""
    taken = everything()
    for one in both_of_virtio():
        if one.metric == "insn_lld":
            taken.add(replace(one, metric="insn", value=one.value + 5000))
    text = report.markdown(taken, [report.Plot("virtio.svg", "virtio-scsi")])
    before, after = text.split("## QEMU's virtio-scsi")
    after = after.split("\n## ")[0]
    assert "6312" not in before.split("## Instructions per I/O")[1], "virtio is not in this table"
    for words in ("| virtio_scsi | 1312 | 1408 |", "| smq_virtio | 768 | 864 |", "(virtio.svg)",
                  "### What must hold", "| QD32, LLD's instructions / virtio_scsi's | <= 0.6 | "
                  "0.5854 | PASS |", "Taken by `tools/bench/insn --virtio --repeat 5`"):
        assert words in after, words
    assert "read virtqueue_add_split [virtio_ring]" in text.split("### By function, virtio-scsi")[1]
    more = FigureSet([figure("insn", row, "doorbells", value, qd=128) for row, value in
                      (("smq_virtio", 0.11), ("virtio_scsi", 0.045))])
    more.figures = [replace(one, spread=0.0) for one in more.figures]
    assert [row[:4] for row in peers.worse(more)] == [
        ["smq_virtio", "virtio_scsi", "io_uring read 512 QD128 batch 16", "doorbells/IO"]]


def test_column_heads_are_short():
    """A column's head names only the parameters that differ between columns."""
    found = [insn("smq_ram", 1.0 + n, luns=luns, bs=bs) for n, (luns, bs) in
             enumerate(((1, 512), (10, 512), (1, 4096)))]
    assert matrix.cells(found)[0] == ["device", "read 512 1 LUN", "read 512 10 LUNs",
                                      "read 4k 1 LUN"]
    assert matrix.cells(found[:1])[0] == ["device", "io_uring read 512 QD32 batch 16"]
    assert matrix.text_of(found[0]) == "1 ±1"
    assert [matrix.number(value) for value in (6455.4, 0.0625, 0.34, 3.0, 12.345)] == [
        "6455", "0.062", "0.34", "3", "12.35"]


def run(*arguments, **environment):
    """Runs tools/bench/run with arguments for which it boots no VM."""
    return subprocess.run([BENCH / "run", *arguments], capture_output=True, text=True, timeout=60,
                          check=False, env={"PATH": "/usr/bin:/bin"} | environment)


@pytest.mark.parametrize("arguments, message", [
    (["--only", "stopwatch"], "there is no instrument 'stopwatch', only insn"),
    (["--repeat", "0"], "--repeat 0: from 1 to 50"),
    (["--rows", "smq_ram"], "--rows: needs --only with one instrument"),
    (["--rows", "smq_virtio", "--only", "virtio"], "--rows: virtio always measures all of"),
    (["--again", "--out", "/nonexistent"], "/nonexistent/results.json"),
])
def test_bad_arguments_are_named(arguments, message):
    """tools/bench/run refuses bad arguments, with a line that has the reason."""
    done = run(*arguments)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.parametrize("instrument", ["insn", "locks", "lines"])
@pytest.mark.parametrize("arguments, message", [
    (["--repeat", "51"], "--repeat 51: from 1 to 50"),
    (["--rows", "nvme"], "--rows: there is no row 'nvme', only null_blk"),
    (["--json", "/nonexistent/x"], "no such folder"),
    (["--keep", "/proc"], "--keep /proc: is not empty"),
])
def test_instruments_name_bad_arguments(instrument, arguments, message):
    """Each instrument refuses bad arguments in the same way."""
    done = subprocess.run([BENCH / instrument, *arguments], capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 2
    assert message in done.stderr


def test_a_failed_instrument_does_not_stop_the_others(tmp_path):
    """The report says why the instrument failed, and the exit status is 1."""
    done = run("--only", "insn", "--rows", "nvme", "--out", str(tmp_path))
    assert done.returncode == 1
    assert "insn FAILED: ended with status 2" in done.stderr
    assert "there is no row 'nvme'" in (tmp_path / "report.md").read_text()
    assert "insn" in figures.read(tmp_path / "results.json").failed


def test_again_rebuilds_the_report_from_results(tmp_path):
    """--again makes the report and all pictures from results.json, without a measurement."""
    everything().write(tmp_path / "results.json")
    (tmp_path / "old.svg").write_text("gone")
    done = run("--again", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    drawn = sorted(path.name for path in tmp_path.glob("*.svg"))
    assert drawn == ["doorbells.svg", "insn.svg", "lines.svg", "locks.svg", "native.svg",
                     "native_paths.svg", "split.svg", "virtio.svg"]
    page = (tmp_path / "index.html").read_text()
    for name in drawn:
        assert "<svg" in (tmp_path / name).read_text()
        assert f"({name})" in (tmp_path / "report.md").read_text()
        assert name not in page, "the page refers to another file"
    assert page.count("<svg") == len(drawn)
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids)), "two pictures have the same id"
    assert set(re.findall(r"url\(#([^)]+)\)", page)) <= set(ids)
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)
    assert not re.search(r'(src|href)="(?!#)(?!http://www.w3.org)', page)
    lines = (tmp_path / "results.csv").read_text().splitlines()
    assert len(lines) == 1 + len(everything().figures)
    assert lines[0].startswith("instrument,row,path,op,bs,qd")
    assert done.stdout.count("reproduced") == len(claims.CLAIMS)


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
