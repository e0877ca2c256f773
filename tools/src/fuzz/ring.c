// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ring.h"
#include "steps.h"
#include "tally.h"

#define RING_ENDED	255
/* The seconds that commands in flight may take: error handling, then 60 s of waiting for room. */
#define DRAIN_SECONDS	150
#define NAP_USEC	500

/*
 * Flags of the kinds of rings. An SQPOLL thread occupies a CPU until it has been idle for
 * sq_thread_idle: a millisecond, see ring_open().
 */
static const unsigned int kinds[] = {
	0, 0, 0,
	IORING_SETUP_IOPOLL,
	IORING_SETUP_SQPOLL,
	IORING_SETUP_IOPOLL | IORING_SETUP_SQPOLL,
	IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
	IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_IOPOLL,
	IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
};

static void ring_register(struct task *task, struct ring *ring, struct rnd *r)
{
	struct iovec whole = { task->area, AREA_SIZE };
	int ret;

	if (once_in(r, 3)) {
		ret = io_uring_register_files(&ring->uring, &task->fd, 1);
		tally(OP_REGISTER, ret < 0 ? ret : 0);
		ring->fixed_file = !ret;
	}
	if (ring->big && once_in(r, 2)) {
		ret = io_uring_register_buffers(&ring->uring, &whole, 1);
		tally(OP_REGISTER, ret < 0 ? ret : 0);
		ring->fixed_buffer = !ret;
	}
}

void ring_open(struct task *task, struct ring *ring, struct rnd *r)
{
	struct io_uring_params params = { .sq_thread_idle = 1 };
	int ret;

	memset(ring, 0, sizeof(*ring));
	ring->watched = -1;
	params.flags = kinds[rnd(r, sizeof(kinds) / sizeof(kinds[0]))];
	ring->big = once_in(r, 2);
	if (ring->big)
		params.flags |= IORING_SETUP_SQE128 | IORING_SETUP_CQE32;
	ret = io_uring_queue_init_params(RING_ENTRIES, &ring->uring, &params);
	tally(OP_RING, ret);
	if (ret)
		return;
	ring->flags = params.flags;
	ring->open = true;
	if (!once_in(r, 4))
		io_uring_ring_dontfork(&ring->uring);
	ring_register(task, ring, r);
}

void ring_close(struct ring *ring)
{
	if (ring->open)
		io_uring_queue_exit(&ring->uring);
	ring->open = false;
}

/*
 * Does not use IOSQE_IO_DRAIN: on Linux 6.1 a polled ring sometimes never issues the SQEs that it
 * has deferred, even when nothing is in flight any more.
 */
static void push_flags(struct io_uring_sqe *sqe, struct rnd *r)
{
	if (once_in(r, 30))
		sqe->flags |= IOSQE_ASYNC;
	if (once_in(r, 40))
		sqe->flags |= IOSQE_IO_LINK;
}

int ring_push(struct task *task, struct ring *ring, int fd, const struct ring_command *command,
	      struct rnd *r)
{
	struct io_uring_sqe *sqe;

	if (!ring->open || ring->used == RING_MAX_SQES)
		return -1;
	sqe = io_uring_get_sqe(&ring->uring);
	if (!sqe)
		return -1;
	memset(sqe, 0, ring->big ? 2 * sizeof(*sqe) : sizeof(*sqe));
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = fd;
	if (ring->fixed_file && fd == task->fd) {
		sqe->fd = 0;
		sqe->flags = IOSQE_FIXED_FILE;
	}
	sqe->cmd_op = command->cmd_op;
	if (command->fixed)
		sqe->uring_cmd_flags = IORING_URING_CMD_FIXED;
	memcpy(sqe->cmd, command->arg, command->size);
	push_flags(sqe, r);
	sqe->user_data = ring->used;
	ring->state[ring->used] = command->op + 1;
	ring->pending++;
	return ring->used++;
}

void ring_submit(struct ring *ring)
{
	int ret;

	if (!ring->open || !io_uring_sq_ready(&ring->uring))
		return;
	ret = io_uring_submit(&ring->uring);
	tally(OP_ENTER, ret < 0 ? ret : 0);
}

static void take(struct ring *ring, const struct io_uring_cqe *cqe)
{
	unsigned char *state = &ring->state[cqe->user_data % RING_MAX_SQES];

	if (cqe->user_data >= ring->used || *state == RING_ENDED) {
		report("ring %#x: CQE of user_data %llu (of %u SQEs), result %d: unexpected",
		       ring->flags, (unsigned long long)cqe->user_data, ring->used, cqe->res);
		return;
	}
	tally(*state - 1, cqe->res);
	if (ring->watched == (int)cqe->user_data) {
		ring->watched = -1;
		ring->outcome = cqe->res;
		ring->res = cqe->res;
		ring->cqe_flags = cqe->flags;
		if (ring->big)
			memcpy(ring->rest, cqe->big_cqe, sizeof(ring->rest));
		/* big_cqe of an ad hoc command: the SCSI status, driver and host bytes. */
		if (!ring->outcome && ring->big)
			ring->outcome = cqe->big_cqe[0] & 0xffffff;
	}
	*state = RING_ENDED;
	ring->pending--;
}

/* Calls the kernel first: deferred task work, polling and overflowed CQEs need that. */
void ring_reap(struct ring *ring)
{
	struct io_uring_cqe *cqe;

	if (!ring->open)
		return;
	io_uring_get_events(&ring->uring);
	while (!io_uring_peek_cqe(&ring->uring, &cqe)) {
		take(ring, cqe);
		io_uring_cqe_seen(&ring->uring, cqe);
	}
}

int ring_wait(struct task *task, struct ring *ring, int index)
{
	double end = seconds_now() + DRAIN_SECONDS * task->options->time_factor;

	ring->watched = index;
	while (ring->state[index] != RING_ENDED) {
		ring_submit(ring);
		ring_reap(ring);
		if (seconds_now() > end) {
			report("ring %#x: no CQE of user_data %d after %u s", ring->flags, index,
			       DRAIN_SECONDS);
			return -ETIMEDOUT;
		}
		if (ring->state[index] != RING_ENDED)
			usleep(NAP_USEC);
	}
	return ring->outcome;
}

void ring_drain(struct task *task, struct ring *ring)
{
	double end = seconds_now() + DRAIN_SECONDS * task->options->time_factor;

	while (ring->open && ring->pending) {
		ring_submit(ring);
		ring_reap(ring);
		if (ring->pending && seconds_now() > end) {
			report("ring %#x: %u of %u SQEs have no CQE after %u s", ring->flags,
			       ring->pending, ring->used, DRAIN_SECONDS);
			return;
		}
		if (ring->pending)
			usleep(NAP_USEC);
	}
}

void step_reap(struct task *task, struct rnd *r)
{
	ring_reap(&task->rings[rnd(r, RINGS)]);
}

/* Closes a ring, with commands in flight or after draining it, and creates another one. */
void step_ring(struct task *task, struct rnd *r)
{
	struct ring *ring = &task->rings[rnd(r, RINGS)];

	if (once_in(r, 2))
		ring_drain(task, ring);
	ring_close(ring);
	ring_open(task, ring, r);
}
