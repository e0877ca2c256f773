# SPDX-License-Identifier: GPL-2.0
"""tools/bench/native: the figures that it reads from a guest's output, and a whole run on emulated
CPUs, on which times mean nothing."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from program import program
from smqbench import bars, figures, instrument, show
from smqbench.errors import BenchError
from smqbench.plan import Workload, parse
from wallclock import programs, results

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "bench" / "native"

LIMIT = 900
READ = "in_kernel:read:512:32:1:1:1"
QD1 = "in_kernel:read:512:1:1:1:1"
TWO = "in_kernel:read:512:32:1:1:2"
USER = {"smq": 700.0, "smq_batch": 500.0, "io_uring_fixed": 800.0, "io_uring": 900.0}


def line(kind, **content):
    """A line of the guest's output."""
    return {"kind": kind, **content}


def look(group, slowdown):
    """The line in which the guest reports a look at the machine. @slowdown: how much two CPUs slow
    each other down."""
    return line("spin", group=group, alone=[[1000.0] * 50] * 2,
                together=[[1000.0] * 50, [1000.0 * slowdown] * 50])


def guest(rows, keys, repeats=3, looks=(1.0,), delay=5000.0, end=True):
    """A guest's output. @rows: ns per command by row. @looks: the slowdowns that the looks at the
    machine find; the last one is repeated. @delay: ns that the doorbell of 5000 ns takes."""
    lines = [line("kernel", release="7.2", cmdline="x")]
    lines += [line("row", row=row, setting={"device": row, "queue": "q"}) for row in rows]
    lines.append(line("delay", wanted=5000, setting=5000, took=900.0))
    lines.append(line("delay", wanted=5000, setting=27000, took=delay))
    for group, key in enumerate(keys):
        jobs, seen = int(key[-1]), [*looks, *[looks[-1]] * repeats]
        for repeat in range(1, repeats + 1):
            lines += [look(group, seen[repeat - 1])] if jobs > 1 else []
            for row, value in rows.items():
                chunks = [value + 10 * n for n in range(10)] + [value * 50]
                lines.append(line("run", group=group, row=row, workload=key, repeat=repeat,
                                  chunks=[chunks] * jobs))
        lines += [look(group, seen[repeats])] if jobs > 1 else []
    return lines + ([line("end")] if end else [])


def read(tmp_path, lines, repeats=3):
    """Writes lines to a file; returns the results that are read from it."""
    path = tmp_path / "results"
    path.write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="ascii")
    return results.read(path, repeats)


def test_times_have_p10_and_median(tmp_path):
    """If one chunk in eleven takes 50 times as long, neither p10 nor the median changes."""
    found = read(tmp_path, guest({"smq_ram": 1000.0}, [READ]))
    figure, = results.figures(found, "tools/bench/native", 2, {1: ""})
    assert (figure.metric, figure.value, figure.p10, figure.median) == ("time", 1050, 1010, 1050)
    assert figure.spread == 0 and figure.values == [1050] * 3
    assert (figure.qd, figure.batch, figure.jobs, figure.kernel) == (32, 1, 1, "7.2")


def judge(found, rows):
    """The verdicts on a guest's results."""
    taken = figures.FigureSet()
    for one in results.figures(found, "tools/bench/native", 2, {}):
        taken.add(one)
    return bars.judged("native", taken, rows)


def test_bars_have_an_interval(tmp_path):
    """With six or more repeats a bar has an interval, which follows from the scatter of repeats."""
    rows = {"smq_ram": 1000.0, "smq_ram_batch": 1000.0}
    assert "too few" in judge(read(tmp_path, guest(rows, [READ])), list(rows))[0].text
    lines = guest(rows, [READ], repeats=9)
    for one in lines:
        if one["kind"] == "run" and one["row"] == "smq_ram_batch":
            one["chunks"] = [[1010.0 * (1 + (one["repeat"] - 5) / 100)] * 10]
    # The interval leaves out the least and the greatest of the nine ratios.
    assert judge(read(tmp_path, lines, 9), list(rows))[0].text == "1.000 [0.971-1.031]"


def test_doorbell_of_another_cost_is_not_judged(tmp_path):
    """If a doorbell takes a third longer than it should, the bars of rows with this doorbell are
    not judged."""
    rows = {"smq_ram_100us_doorbell": 6000.0, "smq_ram_100us_doorbell_batch": 1000.0,
            "smq_ram_100us": 1000.0, "smq_ram_100us_batch": 1000.0}
    found = read(tmp_path, guest(rows, [READ], delay=6700.0))
    assert "takes 5000 ns; with the last one tried it takes 6700" in found.delay_warning()
    assert [one.word for one in judge(found, list(rows))][:2] == ["not judged", "PASS"]
    found = read(tmp_path, guest(rows, [READ], delay=5100.0))
    assert not found.delay_warning()


def user(row="scsi_debug", jobs=2, repeats=3, calls=200.0):
    """A guest's lines of a load from user space, in which the second repeat took twice as long."""
    lines = guest({row: 1.0}, [], repeats, end=False)
    keys = {Workload(path, "read", 512, 32, 16, jobs, jobs).key: value
            for path, value in USER.items()}
    if calls:
        keys[Workload("io_uring", "call", 0, 32, 16, jobs, jobs).key] = calls
    for repeat in range(1, repeats + 1):
        lines.append(look(0, 1.0))
        lines += [line("run", group=0, row=row, workload=key, repeat=repeat,
                       chunks=[[value * (1 + (repeat == 2))] * 20] * jobs)
                  for key, value in keys.items()]
    return lines + [look(0, 1.0), line("end")]


def test_ratios_are_formed_within_a_repeat(tmp_path):
    """A repeat that took twice as long changes the times, but not the ratios."""
    found = read(tmp_path, user())
    taken = figures.FigureSet()
    for figure in results.figures(found, "tools/bench/native", 2, {2: "forced: busy"}):
        taken.add(figure)
    assert taken.one(path="smq", metric="time").spread == 700
    for path, ratio, bare in (("smq", 0.875, 500 / 600), ("smq_batch", 0.625, 0.5),
                              ("io_uring_fixed", 1, 1), ("io_uring", 1.125, 700 / 600)):
        for metric, value in (("against_block", ratio), ("against_block_bare", bare)):
            one = taken.one(path=path, metric=metric)
            assert one.value == pytest.approx(value, abs=1e-4) and one.spread < 1e-4
            assert (one.jobs, one.luns, one.unit, one.op) == (2, 2, "x", "read")
    assert [one.metric for one in taken.find(op="call")] == ["time"]
    assert {one.parameters["wait"] for one in taken.figures} == {"io_uring_enter"}
    assert "load in the kernel" not in "".join(show.text(taken, "native"))


@pytest.mark.parametrize("row, calls", [("smq_ram_20us", 200.0), ("scsi_debug", 0)])
def test_time_of_calls_is_not_subtracted(tmp_path, row, calls):
    """The time of the system calls is not subtracted if the load waits for the device meanwhile, or
    if this time was not measured."""
    found = read(tmp_path, user(row, calls=calls))
    metrics = {figure.metric for figure in results.figures(found, "tools/bench/native", 2, {})}
    assert metrics == {"time", "against_block"}


@pytest.mark.parametrize("script, chunks, message", [
    ("""echo '{"chunks": [[[250, 500], [100, 300]], [[200, 100]]]}'""",
     [[2.0, 3.0], [0.5]], None),
    ("""echo '{"chunks": [[[0, 500]]]}'""", None, "cannot be read"),
    ("echo oops", None, "cannot be read.*oops"),
    ("echo no such disk >&2; exit 3", None, "status 3: no such disk"),
])
def test_program_output_is_converted_or_refused(tmp_path, monkeypatch, script, chunks, message):
    """The output becomes nanoseconds per command, or an error that has the program's message."""
    (tmp_path / "uring").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "uring").chmod(0o755)
    monkeypatch.setattr(programs, "PROGRAMS", tmp_path)

    def run():
        return programs.run(Workload("io_uring", "read", 512, 32, 16), ["/dev/null"], count=1000,
                            warmup=10, seconds=5)
    if message:
        with pytest.raises(BenchError, match=message):
            run()
    else:
        assert run() == chunks


@pytest.fixture(name="native")
def fixture_native():
    """Imports tools/bench/native as a module."""
    return program("native")


def test_paths_to_a_device_are_measured_in_turns(native):
    """All paths to a device are measured in turns. --bars measures only the rows of the bars."""
    def groups(*arguments, cpus=2):
        return native.groups(instrument.parse("native", native.more_options, arguments), cpus)
    one, two = groups("--load", "user-space")
    assert {parse(key).jobs for _, key in one} == {1} and {parse(key).luns for _, key in two} == {2}
    for group in (one, two):
        assert {row for row, _ in group} == {"scsi_debug", "smq_ram_null", "smq_ram_20us"}
        for row in native.USER_ROWS:
            mine = [parse(key) for of, key in group if of == row]
            assert [one.path for one in mine if one.op == "read"] == native.USER_PATHS
            assert [one.path for one in mine if one.op == "call"] == ["io_uring"]
    assert len(groups("--load", "user-space", cpus=1)) == 1
    every = groups()
    assert every[-2:] == [one, two]
    assert all(len({key for _, key in group}) == 1 for group in every[:-2])
    assert len(groups("--load", "in-kernel")) == len(every) - 2
    wanted = [cell for group in groups("--bars") for cell in group]
    assert len(wanted) == len(set(wanted)) == 20
    assert ("smq_ram", QD1) in wanted and ("smq_ram_100us_doorbell_batch", READ) in wanted
    old = {parse(key).path for group in groups("--kernel-vm", "6.1") for _, key in group}
    assert "smq_adhoc_fixed" in old and "bsg_uring" not in old


def judged(native, found, *arguments):
    """Judges the rounds of a guest's results; returns the groups that were skipped, and why."""
    taken = figures.FigureSet()
    native.judge_two_cpus(instrument.parse("native", native.more_options, arguments), found, taken)
    return taken.skipped


@pytest.mark.parametrize("looks, dropped", [
    ([1.0] * 9, []),
    ([1.0] * 4 + [1.14] + [1.0] * 4, []),
    # The first and the last look affect one round, the others the rounds before and after them.
    ([1.3] + [1.0] * 8, [1]),
    ([1.0] * 8 + [1.3], [8]),
    ([1.0] * 4 + [1.3] + [1.0] * 4, [4, 5]),
    ([1.0] * 3 + [2.4, 8.2, 1.9] + [1.0] * 3, [3, 4, 5, 6]),
    ([1.0, 1.3, 1.0, 1.0, 1.0, 1.0, 1.0, 1.3, 1.0], [1, 2, 7, 8]),
])
def test_disturbed_rounds_are_dropped(tmp_path, native, looks, dropped):
    """A disturbed round is dropped in all rows that are compared with each other."""
    lines = guest({"smq_ram": 1000.0, "scsi_debug": 2000.0}, [READ, TWO], 8, looks)
    for one in lines:
        if one["kind"] == "run":
            one["chunks"] = [[value * one["repeat"] for value in job] for job in one["chunks"]]
    found = read(tmp_path, lines, 8)
    assert not judged(native, found)
    kept = [number for number in range(1, 9) if number not in dropped]
    taken = list(results.figures(found, "tools/bench/native", 2, {}))
    for row, value in (("smq_ram", 1050.0), ("scsi_debug", 2050.0)):
        one, two = [figure for figure in taken if figure.row == row and figure.metric == "time"]
        assert one.values == [value * number for number in range(1, 9)], "one CPU needs no look"
        assert two.values == [value * number for number in kept]
        assert two.repeats == len(kept)


@pytest.mark.parametrize("repeats, busy, left", [
    (8, 4, True), (8, 5, False), (9, 4, True), (9, 5, False), (5, 2, True), (5, 3, False),
    (3, 1, False), (2, 1, False), (1, 1, False), (4, 1, True), (4, 2, False)])
def test_too_few_rounds_give_no_result(tmp_path, native, repeats, busy, left):
    """At least half of the rounds must remain, and at least three. If fewer than three are asked
    for, all must remain."""
    looks = [1.3] * busy + [1.0] * (repeats + 1 - busy)
    found = read(tmp_path, guest({"smq_ram": 1000.0}, [READ, TWO], repeats, looks), repeats)
    skipped = judged(native, found)
    assert {key for _, key in found.cells} == ({READ, TWO} if left else {READ})
    assert set(skipped) == (set() if left else {f"native, two CPUs, {TWO}"})


def test_a_disturbance_drops_rounds_of_its_own_group_only(tmp_path, native):
    """A short disturbance affects only the group that was measured at that time. That group loses
    some or all of its rounds."""
    other = TWO.replace("512", "4096")
    lines = guest({"smq_ram": 1000.0}, [READ, TWO], 8, end=False)
    lines += [one | {"group": 2} for one in guest({"smq_ram": 1000.0}, [other], 8, [1.0, 3.0, 1.0])
              if one["kind"] in ("run", "spin")]
    spoilt = [one for one in user(repeats=8) if one["kind"] in ("run", "spin", "row", "end")]
    lines += [look(3, 9.9) if one["kind"] == "spin" else one | {"group": 3} for one in spoilt]
    found = read(tmp_path, lines, 8)
    one, = judged(native, found)
    assert one.startswith("native, two CPUs, smq:read")
    assert {key: len(cell.repeats) for (_, key), cell in found.cells.items()} == {
        READ: 8, TWO: 8, other: 6}


def test_force_keeps_all_rounds(tmp_path, native):
    found = read(tmp_path, guest({"smq_ram": 1000.0}, [READ, TWO], 8, [1.3]), 8)
    assert not judged(native, found, "--force")
    one, two = results.figures(found, "tools/bench/native", 2, {})
    assert one.repeats == two.repeats == 8
    assert "forced" in two.note and "forced" not in one.note


@pytest.mark.parametrize("spoil, message", [
    (lambda lines: lines[:-1], "did not finish"),
    (lambda lines: lines[:-3] + lines[-2:], "2 repeats, 3 wanted"),
    (lambda lines: lines[:-2] + lines[-1:], "3 looks at the machine, 4 wanted"),
    (lambda lines: [line("error", why="smq_load: no")], "the guest: smq_load: no"),
    (lambda lines: lines + [line("what")], "unknown kind what"),
    (lambda lines: [one | {"chunks": [[]]} if one["kind"] == "run" else one for one in lines],
     "no command was measured"),
    (lambda lines: lines + [line("run", row="smq_ram")], "cannot be read"),
])
def test_damaged_results_are_refused(tmp_path, spoil, message):
    with pytest.raises(BenchError, match=message):
        read(tmp_path, spoil(guest({"smq_ram": 1000.0}, [TWO])))


@pytest.mark.skipif(shutil.which("qemu-system-x86_64") is None, reason="needs QEMU")
def test_native_measures_in_a_vm(tmp_path):
    """A whole measurement with every kind of device, on emulated CPUs."""
    done = subprocess.run([
        TOOL, "--kernel-vm", "6.1", "--repeat", "2", "--json", tmp_path / "figures",
        "--rows", "null_blk,scsi_debug,smq_ram,legacy_419,smq_ram_20us_doorbell"],
        capture_output=True, text=True, check=False, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    found = figures.read(tmp_path / "figures")
    # From user space: five paths and the empty calls, two ratios for each path, with one and two
    # jobs.
    rows = {"null_blk": 12, "scsi_debug": 16 + 2 * (5 + 1 + 2 * 5), "smq_ram": 16,
            "smq_ram_20us_doorbell": 3 + 2}
    for row, count in rows.items():
        assert len(found.find(row=row)) == count, row
    assert ("native legacy_419" in found.skipped) != bool(found.find(row="legacy_419"))
    for figure in found.figures:
        assert figure.repeats == 2 and "times mean nothing" in figure.note
        assert figure.kernel.startswith("6.1.")
    # A command with its own doorbell takes at least as long as the doorbell.
    one_by_one = found.one(row="smq_ram_20us_doorbell", metric="time", qd=32, batch=1)
    assert one_by_one.p10 > 4000
    # A read takes at least as long as the system call that fetches its completion.
    call, = found.find(row="scsi_debug", op="call", jobs=1)
    for one in found.find(row="scsi_debug", metric="time", jobs=1, op="read"):
        assert one.path == "in_kernel" or one.p10 > call.p10
    assert "Linux 7.1 and later have it" in done.stderr
    assert "times mean nothing" not in done.stderr
    assert "load average" in done.stdout
