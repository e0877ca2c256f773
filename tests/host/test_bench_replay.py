# SPDX-License-Identifier: GPL-2.0
"""tools/bench/replay: its load, its evaluation of sg_io's results, and its verdict."""

import argparse

import pytest
from program import program
from sg_io_build import binary, run


@pytest.fixture(name="bench", scope="module")
def bench_():
    return program("replay")


def options(**changes):
    return argparse.Namespace(**{"rate": 1000, "seconds": 3, "repeat": 3, **changes})


def error(p99):
    return {"issue_error_ns": {"p50": 900, "p99": p99, "p999": 2 * p99, "max": 4 * p99}}


def test_printed_load_is_a_command_file(bench, tmp_path):
    bench.write_load(tmp_path / "load", options())
    lines = (tmp_path / "load").read_text(encoding="ascii").splitlines()
    at = [int(line.split("at=")[1].split()[0]) for line in lines]
    assert len(lines) == 3000 and at == sorted(at) and 2.5e6 < at[-1] < 3.5e6
    assert {line.split("cpu=")[1] for line in lines} == {"0", "1"}
    done = run(binary(), "replay", "/dev/null", tmp_path / "load")
    assert (done.returncode, "not a node of a SCSI device" in done.stderr) == (3, True)


@pytest.mark.parametrize("worst,good", [(50_000, True), (50_001, False)])
def test_the_median_round_is_judged(bench, capsys, worst, good):
    results = {"sg": [error(1_000_000), error(49_000), error(8_000)],
               "smq": [error(9_000), error(worst), error(60_000)]}
    assert bench.show(results, options(), "") is good
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].split()[:3] == ["sg", "0.9", "49.0"] and "8.0..1000.0" in lines[3]
    assert lines[3].endswith("PASS") and lines[4].endswith("PASS" if good else "FAIL")


@pytest.mark.parametrize("kernel,good", [(10_000, True), (10_001, False)])
def test_the_paces_are_compared(bench, capsys, kernel, good):
    results = {"smq": [error(kernel), error(40_000), error(1_000)],
               "smq-user": [error(20_000), error(1_000), error(40_000)]}
    assert bench.show(results, options(), "") is good
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"p99 of smq is 0.50 of that of smq-user, at most 0.5: " \
                   f"{'PASS' if good else 'FAIL'}"
