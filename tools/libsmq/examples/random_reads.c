// SPDX-License-Identifier: GPL-2.0
/* random_reads /dev/smqsgN BLOCKS [COUNT]: READs of single random blocks, in batches of 16. */
#include <err.h>
#include <libsmq.h>
#include <stdio.h>
#include <stdlib.h>

#define BATCH	16
#define BLOCK	512	/* bytes of a logical block of the device */
#define PLACE	4096	/* bytes from one command's data to the next */

int main(int argc, char **argv)
{
	unsigned int count = argc > 3 ? strtoul(argv[3], NULL, 0) : 4096, sent = 0, bad = 0;
	unsigned long blocks = argc > 2 ? strtoul(argv[2], NULL, 0) : 0;
	struct smq_sg_slot *slots = calloc(count, sizeof(*slots));
	void *memory = aligned_alloc(4096, BATCH * PLACE);
	struct smq_device *dev;
	struct smq_event event;
	struct smq_ring *ring;
	uint32_t done = 0, field = 0;
	int ret;

	if (!slots || !memory || !blocks || !count || count % BATCH)
		errx(2, "usage: random_reads /dev/smqsgN BLOCKS [COUNT, a multiple of %d]", BATCH);
	ret = smq_open(argv[1], &dev);
	if (ret)
		errx(1, "%s: %s", argv[1], smq_strerror(SMQ_CALL_OPEN, ret));
	for (unsigned int i = 0; i < count; i++) {
		slots[i].cdb_len = smq_cdb_blocks(slots[i].cdb, 0x88, random() % blocks, 1);
		slots[i].direction = SMQ_SG_IN;
		slots[i].length = BLOCK;
		slots[i].offset = i % BATCH * PLACE;
	}
	if (smq_setup(dev, count, 0) || smq_lend(dev, 0, memory, BATCH * PLACE, 0))
		errx(1, "%s: no memory for %u slots", argv[1], count);
	ret = smq_prepare(dev, 0, slots, count, &done, &field);
	if (ret)
		errx(1, "slot %u, %s: %s", done, smq_field_name(field) ?: "no field",
		     smq_strerror(SMQ_CALL_PREPARE, ret));
	ret = smq_ring_new(8, 0, &ring);
	if (ret)
		errx(1, "io_uring: %s", smq_strerror(SMQ_CALL_RING, ret));

	/* All commands are prepared: from here on a batch costs one entry of the ring. */
	while (sent < count) {
		smq_queue_batch(ring, dev, smq_range(sent, BATCH), sent);
		sent += BATCH;
		if (smq_reap(ring, &event, 1, 1, -1) != 1)
			errx(1, "io_uring gave no completion");
		if (event.result < 0)
			errx(1, "batch: %s", smq_strerror(SMQ_CALL_RUN, event.result));
		bad += event.result;
	}
	printf("%u reads, %u of them not good\n", sent, bad);
	smq_ring_free(ring);
	smq_close(dev);
	return bad ? 1 : 0;
}
