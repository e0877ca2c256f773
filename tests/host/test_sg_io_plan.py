# SPDX-License-Identifier: GPL-2.0
"""sg_io replay holds a command exactly while an earlier one that it must wait for has not ended:
one that uses the same blocks; with --mode depend one that had ended before it. With --mode load it
admits commands in order."""

import pytest
from sg_io_build import part, run

PARTS = ("replay/plan.c", "replay/stream.c", "replay/flight.c", "replay/level.c",
         "issue/cmdfile/cdb.c", "util.c")


def program():
    return part("sg_io_plan_main", *PARTS)


def counts(*args):
    done = run(program(), *map(str, args))
    assert done.returncode == 0, done.stderr
    words = done.stdout.split()
    return dict(zip(words[::2], map(int, words[1::2])))


@pytest.mark.parametrize("mode,speed", [("max", 1), ("time", 1), ("time", 4), ("load", 1),
                                        ("depend", 1)])
@pytest.mark.parametrize("lanes", [1, 2, 5])
@pytest.mark.parametrize("blocks,devices", [(1, 1), (40, 1), (5000, 1), (40, 3), (1, 64)])
def test_random_recordings(blocks, devices, lanes, mode, speed):
    """In random interleavings each answer is that of a comparison with all earlier commands."""
    for seed in range(2):
        assert counts(seed, 500, lanes, blocks, mode, speed, devices) == {
            "wrong": 0, "left": 0, "needless": 0}


@pytest.mark.parametrize("mode,speed", [("max", 1), ("time", 1), ("time", 4), ("load", 1),
                                        ("depend", 1)])
@pytest.mark.parametrize("lanes", [1, 2, 5])
@pytest.mark.parametrize("blocks,devices", [(1, 1), (40, 1), (5000, 1), (40, 3), (1, 64)])
def test_what_is_told_in_advance(blocks, devices, lanes, mode, speed):
    """A command that waits for what it was told to wait for, behind all of its lane, has waited for
    all that it must wait for, and for nothing else."""
    for seed, commands in ((0, 500), (1, 500), (2, 20_000)):
        assert counts(seed, commands, lanes, blocks, mode, speed, devices, "stream") == {
            "wrong": 0, "left": 0, "needless": 0}


@pytest.mark.parametrize("nr,held", [(2000, "1 0 0"), (4095, "1 0 0"), (4096, "1 1 0")])
def test_a_lane_far_ahead(nr, held):
    """A check looks at 4096 commands. With more, a command waits until the first has ended."""
    done = run(program(), "far", str(nr))
    assert done.stdout.split() == held.split()


@pytest.mark.parametrize("nr", [1, 2, 3])
def test_short_files(nr):
    for seed in range(10):
        assert counts(seed, nr, 2, 3, "time", 2, 1) == {"wrong": 0, "left": 0, "needless": 0}
