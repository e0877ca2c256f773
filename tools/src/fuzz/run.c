// SPDX-License-Identifier: GPL-2.0
/* Prepared commands: one per SQE, batches by SQE and by ioctl, and SMQ_SG_CANCEL. */
#include <string.h>
#include <sys/ioctl.h>

#include "process.h"
#include "ring.h"
#include "slot.h"
#include "steps.h"
#include "tally.h"

#define MOST_RUNS	40	/* SQEs of one step */
#define MOST_BATCH	512
#define LONG_BATCH	4096
#define STEP_NS		100000	/* at most, from one timed entry to the next */

/*
 * Static, because a worker of io_uring may copy a list after the step has returned.
 */
static uint32_t list[LONG_BATCH];
static struct smq_sg_run runs[LONG_BATCH];
static struct smq_sg_timed timed;
static struct smq_sg_timed_entry entries[SLOTS];
static struct smq_sg_timed_result results[SLOTS];

static struct smq_sg_run run_random(struct rnd *r)
{
	struct smq_sg_run run = { .slot = rnd(r, SLOTS) };

	if (once_in(r, 3))
		run.flags |= SMQ_SG_RUN_LBA;
	if (once_in(r, 3))
		run.flags |= SMQ_SG_RUN_BUFFER;
	if (run.flags & SMQ_SG_RUN_LBA)
		run.lba = shared_lba(r);
	if (run.flags & SMQ_SG_RUN_BUFFER)
		run.buffer = rnd(r, BUFFERS + 1);
	switch (rnd(r, 100)) {
	case 0:
		run.slot = rnd64(r) >> rnd(r, 64);
		break;
	case 1:
		run.flags = rnd64(r) & ~SMQ_SG_RUN_LBA;
		break;
	case 2:
		run.buffer = rnd64(r);
		break;
	}
	return run;
}

/*
 * In an SQE of 128 bytes the bytes behind @arg must be 0. Once in 100 calls this function sets one
 * of them to 1.
 */
static void push(struct task *task, struct ring *ring, enum op op, unsigned int cmd_op,
		 const void *arg, struct rnd *r)
{
	unsigned char cmd[80] = { 0 };
	struct ring_command command = { op, cmd_op, cmd, 16, once_in(r, 300) };

	memcpy(cmd, arg, 16);
	if (ring->big && once_in(r, 100)) {
		cmd[16 + rnd(r, 64)] = 1;
		command.size = sizeof(cmd);
	}
	ring_push(task, ring, task->fd, &command, r);
}

void step_run(struct task *task, struct rnd *r)
{
	struct ring *ring = &task->rings[rnd(r, RINGS)];
	unsigned int count = 1 + rnd(r, MOST_RUNS);
	unsigned int op = SMQ_SG_URING_RUN;

	if (once_in(r, 200))
		op = _IOW(SMQ_SG_IOC, 0x90, struct smq_sg_run);		/* unknown */
	while (count--) {
		struct smq_sg_run run = run_random(r);

		push(task, ring, OP_RUN, op, &run, r);
	}
	ring_submit(ring);
}

static unsigned int batch_count(struct rnd *r)
{
	return 1 + rnd(r, once_in(r, 20) ? LONG_BATCH : once_in(r, 3) ? MOST_BATCH : SLOTS);
}

/* Some field of some entry, or of the batch itself, gets any value. It may then wait for ever. */
static void timed_spoil(unsigned int count, struct rnd *r)
{
	uint32_t *words = once_in(r, 2) ? (uint32_t *)&timed : (uint32_t *)&entries[rnd(r, count)];

	words[rnd(r, sizeof(*entries) / sizeof(*words))] = rnd64(r) >> rnd(r, 64);
}

/*
 * A timed batch of @count entries that are due within a few milliseconds, and wait only for entries
 * before them.
 */
static uint64_t timed_random(int fd, unsigned int count, bool spoil, struct rnd *r)
{
	static uint32_t number;
	static int32_t files[2];
	uint64_t due = 0;
	unsigned int i;

	files[0] = fd;
	files[1] = fd;
	timed = (struct smq_sg_timed) {
		.entries = ADDRESS(entries),
		.results = once_in(r, 2) ? ADDRESS(results) : 0,
		.spin = once_in(r, 2) ? rnd(r, STEP_NS) : 0,
		.max_past = STEP_NS,
	};
	if (once_in(r, 2)) {
		timed.files = ADDRESS(files);
		timed.nr_files = 2;
	}
	for (i = 0; i < count; i++) {
		struct smq_sg_timed_entry *entry = &entries[i];

		due += rnd(r, STEP_NS);
		*entry = (struct smq_sg_timed_entry) {
			.run = run_random(r), .due = due, .inflight = once_in(r, 4) ? rnd(r, 5) : 0,
			.file = timed.nr_files ? rnd(r, 2) : 0,
		};
		if (once_in(r, 20))
			entry->run = (struct smq_sg_run) { .flags = SMQ_SG_TIMED_NOTHING };
		if (once_in(r, 2))
			continue;
		entry->number = ++number;
		entry->run.flags |= SMQ_SG_TIMED_NUMBER;
		if (i && entries[i - 1].number) {
			entry->after = entries[i - 1].number;
			entry->run.flags |= SMQ_SG_TIMED_AFTER;
		}
	}
	if (spoil && once_in(r, 10))
		timed_spoil(count, r);
	return ADDRESS(&timed);
}

/* @interrupted: signals will end a wait. */
static struct smq_sg_batch batch_random(int fd, bool interrupted, struct rnd *r)
{
	struct smq_sg_batch batch = { .count = batch_count(r) };
	unsigned int i;

	switch (rnd(r, 4)) {
	case 0:
		batch.flags = SMQ_SG_BATCH_RANGE;
		batch.count = 1 + rnd(r, SLOTS);
		batch.list = rnd(r, SLOTS - batch.count + 1);
		break;
	case 1:
		batch.flags = SMQ_SG_BATCH_RUNS;
		for (i = 0; i < batch.count; i++)
			runs[i] = run_random(r);
		batch.list = ADDRESS(runs);
		break;
	case 2:
		batch.flags = SMQ_SG_BATCH_TIMED;
		batch.count = 1 + rnd(r, SLOTS);
		batch.list = timed_random(fd, batch.count, interrupted, r);
		break;
	default:
		for (i = 0; i < batch.count; i++)
			list[i] = rnd(r, SLOTS);
		batch.list = ADDRESS(list);
	}
	return batch;
}

static void batch_spoil(struct smq_sg_batch *batch, struct rnd *r)
{
	switch (rnd(r, 100)) {
	case 0:
		batch->count = rnd64(r);
		break;
	case 1:
		batch->flags = rnd64(r);
		break;
	case 2:
		batch->list = rnd(r, 4096);
		break;
	}
}

void step_batch(struct task *task, struct rnd *r)
{
	struct ring *ring = &task->rings[rnd(r, RINGS)];
	struct smq_sg_batch batch = batch_random(task->fd, false, r);

	batch_spoil(&batch, r);
	push(task, ring, OP_BATCH, SMQ_SG_URING_BATCH, &batch, r);
	ring_submit(ring);
}

void step_run_ioctl(struct task *task, struct rnd *r)
{
	bool interrupt = once_in(r, 3);
	struct smq_sg_run_batch arg = { .batch = batch_random(task->fd, interrupt, r) };
	int ret;

	batch_spoil(&arg.batch, r);
	if (once_in(r, 100))
		arg.reserved[1] = 1;
	if (interrupt)
		interrupt_soon(1 + rnd(r, 20000));
	ret = result_of(ioctl(task->fd, SMQ_SG_RUN, &arg));
	if (interrupt)
		interrupt_no_more();
	tally_field(OP_RUN_IOCTL, ret, arg.field);
	if (!ret && arg.failed > arg.batch.count)
		report("RUN of %u commands: %u failed", arg.batch.count, arg.failed);
}

void step_cancel(struct task *task, struct rnd *r)
{
	struct smq_sg_cancel arg = { 0 };
	int ret;

	if (!once_in(r, 4)) {
		arg.flags = SMQ_SG_CANCEL_SLOT;
		arg.slot = rnd(r, SLOTS);
	}
	switch (rnd(r, 50)) {
	case 0:
		arg.slot = rnd64(r);
		break;
	case 1:
		arg.flags = rnd64(r);
		break;
	case 2:
		arg.reserved[rnd(r, 2)] = 1;
		break;
	}
	ret = result_of(ioctl(task->fd, SMQ_SG_CANCEL, &arg));
	tally_field(OP_CANCEL, ret, arg.field);
}
