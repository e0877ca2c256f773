# SPDX-License-Identifier: GPL-2.0
"""sg_io replay on a path that does not take all commands at the time when they are due."""

import pytest
from sg_io_build import COMMAND_FILE, part, run


@pytest.mark.parametrize("targets,passes", [(1, 1), (3, 1), (64, 1), (3, 4)])
@pytest.mark.parametrize("commands,depth,room", [(1, 1, 1), (500, 32, 40), (500, 32, 31),
                                                 (500, 32, 5), (500, 32, 1), (500, 600, 60)])
def test_refused_commands_are_sent_again(commands, depth, room, targets, passes):
    """Each command ends exactly once in each pass, on its device, and counts as overtaken at most
    once."""
    program = part("sg_io_lane_main", "replay/lane.c", "replay/plan.c", "replay/flight.c",
                   "replay/level.c",
                   "issue/workers/worker.c", "issue/workers/slowest.c", "issue/workers/outcome.c",
                   "issue/workers/log_ring.c",
                   *COMMAND_FILE,
                   libsmq=("outcome.c", "device.c", "strerror.c"))
    done = run(program, str(commands), str(depth), str(room), str(targets), str(passes))
    assert done.returncode == 0, done.stderr
    words = done.stdout.split()
    assert words[:5] == ["good", str(commands * passes), "wrong", "0", "overtaken"]
    # Not all are overtaken: the first command finds room.
    assert int(words[5]) < commands * passes
