#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Prepares READs of one block each, runs them one by one and as one batch, and prints how they
ended and how long they took.

Calls libsmq from Python through cffi (Debian: python3-cffi).
"""
import argparse
import mmap
import statistics
import sys
import time
from collections import Counter

import cffi

ffi = cffi.FFI()
# The declarations of <libsmq.h> and <scsi/smq_sg.h> that this program uses.
ffi.cdef("""
struct smq_sg_slot {
    uint8_t cdb[32]; uint8_t cdb_len; uint8_t direction; uint16_t buffer; uint32_t length;
    uint64_t offset; uint32_t timeout_ms; uint32_t flags; uint64_t reserved;
};
struct smq_sg_batch { uint64_t list; uint32_t count; uint32_t flags; };
struct smq_event { uint64_t tag; int32_t result; uint32_t reserved; uint64_t more; };
struct smq_outcome {
    int error; uint8_t status; uint8_t host; uint8_t key; uint8_t asc; uint8_t ascq;
    uint8_t sense_len; uint32_t resid; const uint8_t *sense;
};
int smq_open(const char *node, struct smq_device **dev);
void smq_close(struct smq_device *dev);
int smq_setup(struct smq_device *dev, uint32_t slots, uint32_t sense_size);
int smq_lend(struct smq_device *dev, uint32_t index, const void *memory, size_t length,
             uint32_t flags);
int smq_cdb_blocks(uint8_t *cdb, uint8_t opcode, uint64_t lba, uint32_t blocks);
int smq_prepare(struct smq_device *dev, uint32_t first, const struct smq_sg_slot *slots,
                uint32_t count, uint32_t *done, uint32_t *field);
int smq_ring_new(unsigned int entries, unsigned int flags, struct smq_ring **ring);
void smq_ring_free(struct smq_ring *ring);
int smq_queue_run(struct smq_ring *ring, struct smq_device *dev, uint32_t slot, uint64_t tag);
int smq_queue_batch(struct smq_ring *ring, struct smq_device *dev, struct smq_sg_batch batch,
                    uint64_t tag);
int smq_reap(struct smq_ring *ring, struct smq_event *events, unsigned int most,
             unsigned int least, int64_t wait_ns);
void smq_slot_outcome(const struct smq_device *dev, uint32_t slot, struct smq_outcome *outcome);
const char *smq_outcome_text(const struct smq_outcome *outcome, char *text, size_t size);
const char *smq_strerror(unsigned int call, int error);
""")
OPEN, SETUP, LEND, PREPARE, RING, QUEUE, RUN = range(7)  # enum smq_call
IN, RANGE, READ_16, BLOCK, ROOM = 1, 1, 0x88, 512, 4096


def main(node: str, count: int) -> int:
    try:
        lib = ffi.dlopen("libsmq.so.1")
    except OSError:
        sys.exit("libsmq.so.1 is not installed; LD_LIBRARY_PATH=build/tools/libsmq finds one that "
                 "was only built")

    def check(call: int, result: int) -> int:
        if result < 0:
            sys.exit(f"{node}: {ffi.string(lib.smq_strerror(call, result)).decode()}")
        return result

    handle, ring_handle = ffi.new("struct smq_device **"), ffi.new("struct smq_ring **")
    check(OPEN, lib.smq_open(node.encode(), handle))
    check(RING, lib.smq_ring_new(1, 0, ring_handle))
    dev, ring, event = handle[0], ring_handle[0], ffi.new("struct smq_event *")
    memory = mmap.mmap(-1, count * ROOM)
    slots = ffi.new("struct smq_sg_slot[]", count)
    for lba, slot in enumerate(slots):
        slot.cdb_len = check(PREPARE, lib.smq_cdb_blocks(slot.cdb, READ_16, lba, 1))
        slot.direction, slot.length, slot.offset = IN, BLOCK, lba * ROOM
    check(SETUP, lib.smq_setup(dev, count, 96))
    check(LEND, lib.smq_lend(dev, 0, ffi.from_buffer(memory), count * ROOM, 0))
    check(PREPARE, lib.smq_prepare(dev, 0, slots, count, ffi.NULL, ffi.NULL))

    def microseconds(queue, *what) -> float:
        """The time from queueing one entry to its completion."""
        begun = time.perf_counter_ns()
        check(QUEUE, queue(ring, dev, *what, 0))
        if check(RUN, lib.smq_reap(ring, event, 1, 1, 60 * 10**9)) == 0:
            sys.exit(f"{node}: no completion within a minute")
        return (time.perf_counter_ns() - begun) / 1000

    def endings() -> str:
        outcome, text = ffi.new("struct smq_outcome *"), ffi.new("char[512]")
        found = Counter()
        for slot in range(count):
            lib.smq_slot_outcome(dev, slot, outcome)
            found[ffi.string(lib.smq_outcome_text(outcome, text, 512)).decode()] += 1
        return ", ".join(f"{times} x {how}" for how, times in found.items())

    single = [microseconds(lib.smq_queue_run, slot) for slot in range(count)]
    apart = endings()
    print(f"one by one: {apart}; median {statistics.median(single):.1f} us, "
          f"longest {max(single):.1f} us")
    batch = ffi.new("struct smq_sg_batch *", (0, count, RANGE))
    whole = microseconds(lib.smq_queue_batch, batch[0])
    check(RUN, event.result)
    print(f"as a batch: {endings()}; {whole:.1f} us, {whole / count:.1f} us each")
    lib.smq_ring_free(ring)
    lib.smq_close(dev)
    return 1 if event.result or apart != f"{count} x GOOD" else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("node", metavar="/dev/smqsgN")
    parser.add_argument("count", type=int, nargs="?", default=64)
    options = parser.parse_args()
    if options.count < 1:
        parser.error(f"count: {options.count} is not above 0")
    sys.exit(main(options.node, options.count))
