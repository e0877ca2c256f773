# SPDX-License-Identifier: GPL-2.0
"""sg_io replay needs less than 64 bytes of memory for a command, beside the data."""

import pytest
from sg_io_build import COMMAND_FILE, part, run


@pytest.mark.parametrize("mode,commands,devices", [
    ("time", 200_000, 1), ("load", 1_000_000, 64), ("depend", 4_000_000, 64)])
def test_bytes_of_a_command(mode, commands, devices):
    """The file's data would not fit into the memory allowed for it: it is made when it is sent.
    What finds conflicts, before the first command is sent, takes 32 MiB in a large file."""
    program = part("sg_io_memory_main", "replay/lane.c", "replay/plan.c", "replay/flight.c",
                   "replay/level.c",
                   "issue/workers/worker.c", "issue/workers/slowest.c", "issue/workers/outcome.c",
                   "issue/workers/log_ring.c", *COMMAND_FILE,
                   libsmq=("outcome.c", "device.c", "strerror.c"), sanitize=())
    done = run(program, mode, str(commands), str(devices))
    assert done.returncode == 0, done.stderr
    count, each, most, _ = map(float, done.stdout.split())
    assert count == commands and 48 < each < 64
    assert commands <= 1_000_000 or most < 64 + (32 << 20) / commands
