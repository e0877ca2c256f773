# SPDX-License-Identifier: GPL-2.0
"""sg_io replay needs less than 64 bytes of memory for a command, beside the data."""

import random

import pytest
from sg_io_build import COMMAND_FILE, part, run

COMMANDS = 200_000


@pytest.mark.parametrize("mode", ["time", "load", "depend"])
@pytest.mark.parametrize("devices", [1, 64])
def test_bytes_of_a_command(mode, devices):
    """In a file that no memory for its data would hold: the data is made when it is sent."""
    rng = random.Random(1)
    lines = []
    for n in range(COMMANDS):
        op, rest = rng.choice((("28", "in 1048576"), ("2a", "out 1048576 pattern=lba")))
        lines.append(f"{op}00{rng.randrange(1 << 32):08x}00080000 {rest} at={5 * n} cpu={n % 8} "
                     f"dev={rng.randrange(devices)} took={rng.randrange(1, 200)}.5\n")
    program = part("sg_io_memory", "workers/lane.c", "workers/plan.c", "workers/worker.c",
                   "workers/slowest.c", "workers/outcome.c", "workers/log_ring.c", *COMMAND_FILE,
                   libsmq=("outcome.c", "device.c", "strerror.c"), sanitize=())
    done = run(program, mode, stdin="".join(lines).encode())
    assert done.returncode == 0, done.stderr
    count, each, _ = map(float, done.stdout.split()[:3])
    assert count == COMMANDS and 48 < each < 64
