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


def test_printed_load_is_a_command_file(bench, tmp_path):
    bench.write_load(tmp_path / "load", options())
    lines = (tmp_path / "load").read_text(encoding="ascii").splitlines()
    at = [int(line.split("at=")[1].split()[0]) for line in lines]
    assert len(lines) == 3000 and at == sorted(at) and 2.5e6 < at[-1] < 3.5e6
    assert {line.split("cpu=")[1] for line in lines} == {"0", "1"}
    done = run(binary(), "replay", "/dev/null", tmp_path / "load")
    assert (done.returncode, "not a node of a SCSI device" in done.stderr) == (3, True)
