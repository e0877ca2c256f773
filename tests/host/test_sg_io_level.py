# SPDX-License-Identifier: GPL-2.0
"""With --mode load as many commands are in flight in the mean as in the recording, within 2 %, or
3 % if it has only 400: in simulated time, with the code of sg_io for both paces. The simulation has
the devices' times and the delays of the CPU; the mean is measured here."""

import heapq
import random

import pytest
from sg_io_build import COMMAND_FILE, part, run

GROUP = 64
MS = 1_000_000


def poisson(rng, nr, each_second=4000):
    """Commands at random times, whose ends come singly."""
    at, found = 0.0, []
    for _ in range(nr):
        at += rng.expovariate(each_second) * 1e9
        found.append((at, at + rng.uniform(0.5, 3.5) * MS))
    return found


def bursts(rng, nr):
    """16 commands at once, which take 0.5 to 3.5 ms."""
    at, found = 0.0, []
    while len(found) < nr:
        at += rng.expovariate(250) * 1e9
        found += [(at + 1000 * n, at + 1000 * n + rng.uniform(0.5, 3.5) * MS) for n in range(16)]
    return found[:nr]


def ends_in_bursts(rng, nr):
    """Always 12 in flight, whose ends come in bursts: one interrupt tells of those of 0.5 ms."""
    now, running, found = 0.0, [], []
    for _ in range(nr):
        if len(running) == 12:
            now = running[0]
        while running and running[0] <= now:
            heapq.heappop(running)
        end = (int((now + rng.uniform(0.5, 3.5) * MS) / (MS / 2)) + 1) * MS / 2
        heapq.heappush(running, end)
        found.append((now, end))
    return found


def serial(rng, nr):
    """Bursts of 8 to a device that takes 0.1 ms for each command, one after the other."""
    at = free = 0.0
    found = []
    while len(found) < nr:
        at += rng.expovariate(670) * 1e9
        for n in range(8):
            free = max(free, at) + MS / 10
            found.append((at + 1000 * n, free))
    return found[:nr]


RECORDINGS = [poisson, bursts, ends_in_bursts, serial]


def means(commands):
    """For each group of commands the mean in flight while any is: @commands are (start, end)."""
    groups = max(len(commands) // GROUP, 1)
    stop = min(end for _, end in commands if end > commands[-1][0])
    events = sorted([(end, 0) for _, end in commands] + [(start, 1) for start, _ in commands])
    area, busy = [0.0] * groups, [0.0] * groups
    now = issued = last = 0
    for at, begins in events:
        if at > stop:
            break
        group = min(max(issued - 1, 0) // GROUP, groups - 1)
        area[group] += now * (at - last)
        busy[group] += bool(now) * (at - last)
        last = at
        now += 1 if begins else -1
        issued += begins
    return [a / b for a, b in zip(area, busy)]


def most(commands):
    now, found = 0, 0
    for _, begins in sorted([(end, 0) for _, end in commands] +
                            [(start, 1) for start, _ in commands]):
        now += 1 if begins else -1
        found = max(found, now)
    return found


def replayed(pace, recording, *args):
    program = part("sg_io_level_main", "replay/timed/build.c", "replay/timed/chunk.c",
                   "replay/timed/collect.c",
                   "replay/lane.c", "replay/plan.c", "replay/stream.c", "replay/flight.c",
                   "replay/level.c",
                   "issue/workers/worker.c", "issue/workers/slowest.c", "issue/workers/outcome.c",
                   "issue/workers/log_ring.c", "issue/workers/hist.c", *COMMAND_FILE,
                   libsmq=("outcome.c", "strerror.c"),
                   # The program leaves its memory to the system.
                   sanitize=("-fsanitize=undefined", "-fno-sanitize-recover=all"))
    text = "".join(f"{start / 1000:.0f} {end - start:.0f}\n" for start, end in recording)
    done = run(program, pace, *args, stdin=text.encode())
    assert done.returncode == 0, done.stderr
    got = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    assert len(got) == len(recording)
    return got


def mean(commands):
    found = means(commands)
    return sum(found) / len(found)


# The device's commands take the same as the recording's, a fifth, or five times as long.
@pytest.mark.parametrize("device,took", [
    ("fixed", 2000), ("random", 2000), ("serial", 2000), ("fixed", 400), ("random", 400),
    ("serial", 400), ("fixed", 10_000), ("random", 10_000)])
@pytest.mark.parametrize("delay", [0, 10])
@pytest.mark.parametrize("nr", [400, 4000])
@pytest.mark.parametrize("original", RECORDINGS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("pace", ["user", "kernel"])
def test_load_is_that_of_the_recording(pace, original, nr, delay, device, took):
    recording = [(round(start, -3), round(start, -3) + end - start)
                 for start, end in original(random.Random(1), nr)]
    got = replayed(pace, recording, device, str(took), str(delay))
    assert mean(got) == pytest.approx(mean(recording), rel=0.02 if nr > 1000 else 0.03)
    assert most(got) <= most(recording) * 5 // 4 + 1
