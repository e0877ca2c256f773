// SPDX-License-Identifier: GPL-2.0
/* Ad hoc commands: a 128-byte SQE holds a complete command, as with bsg. */
#include <string.h>
#include <sys/uio.h>

#include "ring.h"
#include "steps.h"
#include "tally.h"

#define MOST_AT_ONCE	20
#define CDBS		64
#define SENSE		96
#define PIECES		4

/* Static, because the kernel may read CDBs and iovecs after the step has returned. */
static unsigned char cdbs[CDBS][SMQ_SG_MAX_CDB];
static unsigned char sense[CDBS][SENSE];
static struct iovec pieces[CDBS][PIECES];

static void adhoc_data(struct task *task, struct smq_sg_uring_cmd *io, unsigned int bytes,
		       bool out, unsigned int at, struct rnd *r)
{
	unsigned char *data = task->area + rnd(r, AREA_SIZE - bytes);
	unsigned int count = 0, i;
	uint64_t address = ADDRESS(data);

	if (!once_in(r, 3))
		address &= ~511ULL;
	if (once_in(r, 6)) {
		count = PIECES;
		for (i = 0; i < PIECES; i++)
			pieces[at][i] = (struct iovec){ data + i * bytes / PIECES, bytes / PIECES };
		address = ADDRESS(pieces[at]);
	}
	if (once_in(r, 60))
		address = rnd64(r);
	if (out) {
		io->dout_xferp = address;
		io->dout_xfer_len = bytes;
		io->dout_iovec_count = count;
	} else {
		io->din_xferp = address;
		io->din_xfer_len = bytes;
		io->din_iovec_count = count;
	}
}

static struct smq_sg_uring_cmd adhoc_random(struct task *task, struct rnd *r)
{
	unsigned int at = rnd(r, CDBS), blocks = 1 << rnd(r, 5);
	unsigned int lba = rnd(r, SHARED_BLOCKS - 4 * MOST_BLOCKS);
	bool out = once_in(r, 3);
	struct smq_sg_uring_cmd io = {
		.request = ADDRESS(cdbs[at]), .request_len = 10,
		.response = ADDRESS(sense[at]), .max_response_len = SENSE,
		.timeout_ms = once_in(r, 3) ? 5000 : 0,
	};

	memset(cdbs[at], 0, SMQ_SG_MAX_CDB);
	if (!once_in(r, 8)) {
		cdbs[at][0] = out ? 0x2a : 0x28;
		cdbs[at][4] = lba >> 8;
		cdbs[at][5] = lba;
		cdbs[at][8] = blocks;
		adhoc_data(task, &io, blocks * BLOCK, out, at, r);
	}
	switch (rnd(r, 60)) {
	case 0:
		io.request = rnd(r, 4096);
		break;
	case 1:
		io.request_len = rnd(r, 64);
		break;
	case 2:
		io.protocol = 1;
		break;
	case 3:
		io.response = rnd(r, 4096);
		break;
	case 4:
		adhoc_data(task, &io, BLOCK, !out, at, r);
		break;
	}
	return io;
}

void step_adhoc(struct task *task, struct rnd *r)
{
	struct ring *ring = &task->rings[rnd(r, RINGS)];
	unsigned int count = 1 + rnd(r, MOST_AT_ONCE);

	while (count--) {
		struct smq_sg_uring_cmd io = adhoc_random(task, r);
		struct ring_command command = { OP_ADHOC, 0, &io, sizeof(io) };

		command.fixed = once_in(r, ring->fixed_buffer ? 2 : 50);
		/* A 64-byte SQE has room for 16 bytes of the command: the kernel must refuse it. */
		if (!ring->big)
			command.size = 16;
		ring_push(task, ring, task->fd, &command, r);
	}
	ring_submit(ring);
}
