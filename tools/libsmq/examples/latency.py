#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Prepares READs of one block each, runs them one by one and as one batch, and prints how they
ended and how long they took.

Uses the module smq (Debian: python3-smq), which calls libsmq.
"""
import argparse
import mmap
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

BLOCK, ROOM = 512, 4096

try:
    import smq
except (ImportError, OSError) as missing:
    sys.exit(f"{missing}; without python3-smq and libsmq1: PYTHONPATH=tools/libsmq/python "
             "LD_LIBRARY_PATH=build/tools/libsmq")


def measure(node: str, count: int) -> int:
    memory = mmap.mmap(-1, count * ROOM)
    with smq.Device(node) as dev, smq.Ring(1) as ring:
        dev.setup(count)
        dev.lend(memory)
        dev.prepare([smq.blocks(smq.READ_16, lba, 1, BLOCK, offset=lba * ROOM)
                     for lba in range(count)])

        def microseconds(queue: Callable[[], None]) -> float:
            """The time from queueing one entry to its completion."""
            begun = time.perf_counter_ns()
            queue()
            events = ring.reap(timeout=60)
            if not events:
                sys.exit(f"{node}: no completion within a minute")
            if events[0].result < 0:
                raise smq.Error("run", events[0].result)
            return (time.perf_counter_ns() - begun) / 1000

        def endings() -> str:
            found = Counter(str(dev.outcome(slot)) for slot in range(count))
            return ", ".join(f"{times} x {how}" for how, times in found.items())

        single = [microseconds(partial(ring.queue_run, dev, slot))
                  for slot in range(count)]
        apart = endings()
        print(f"one by one: {apart}; median {statistics.median(single):.1f} us, "
              f"longest {max(single):.1f} us")
        whole = microseconds(lambda: ring.queue_batch(dev, smq.span(0, count)))
        together = endings()
        print(f"as a batch: {together}; {whole:.1f} us, {whole / count:.1f} us each")
    return 0 if apart == together == f"{count} x GOOD" else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("node", metavar="/dev/smqsgN")
    parser.add_argument("count", type=int, nargs="?", default=64)
    options = parser.parse_args()
    if options.count < 1:
        parser.error(f"count: {options.count} is not above 0")
    try:
        return measure(options.node, options.count)
    except OSError as error:
        sys.exit(f"{options.node}: {error.strerror}")


if __name__ == "__main__":
    sys.exit(main())
