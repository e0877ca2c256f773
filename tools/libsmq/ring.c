// SPDX-License-Identifier: GPL-2.0
/* Runs, batches and whole commands through an io_uring. */
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device.h"

#define MAX_ENTRIES	32768	/* io_uring's own limit */
#define FREE		UINT64_MAX

/**
 * struct smq_ring - a ring and the devices it knows
 * @uring: the ring
 * @commands: made with SMQ_RING_COMMANDS
 * @poll: made with SMQ_RING_POLL
 * @has_table: io_uring has a table of files
 * @known: which file is in each place of that table: smq_device.id, or the number of a plain file;
 *	FREE for a free place. Ids are not reused, so that a device that was closed before it was
 *	removed from the ring is not mistaken for a later one
 * @nr: the highest place that has been used, plus one
 * @last: the place that the last successful look-up found
 */
struct smq_ring {
	struct io_uring uring;
	bool commands;
	bool poll;
	bool has_table;
	uint64_t known[SMQ_RING_DEVICES];
	unsigned int nr;
	unsigned int last;
};

int smq_ring_new(unsigned int entries, unsigned int flags, struct smq_ring **ring)
{
	unsigned int setup = (flags & SMQ_RING_COMMANDS ?
			      IORING_SETUP_SQE128 | IORING_SETUP_CQE32 : 0) |
			     (flags & SMQ_RING_POLL ? IORING_SETUP_IOPOLL : 0);
	struct smq_ring *r;
	int ret;

	if (!entries || entries > MAX_ENTRIES || (flags & ~(SMQ_RING_COMMANDS | SMQ_RING_POLL)))
		return -EINVAL;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	/*
	 * With COOP_TASKRUN the kernel does not interrupt the thread to post completions. It posts
	 * them when the thread next enters the kernel. With TASKRUN_FLAG a flag in the ring shows
	 * that there are completions to post.
	 */
	ret = io_uring_queue_init(entries, &r->uring, setup | IORING_SETUP_COOP_TASKRUN |
				  IORING_SETUP_TASKRUN_FLAG);
	if (ret) {
		free(r);
		return ret;
	}
	r->commands = flags & SMQ_RING_COMMANDS;
	r->poll = flags & SMQ_RING_POLL;
	memset(r->known, 0xff, sizeof(r->known));
	*ring = r;
	return 0;
}

void smq_ring_free(struct smq_ring *ring)
{
	if (!ring)
		return;
	io_uring_queue_exit(&ring->uring);
	free(ring);
}

/* The place of a file in the table; -1 if the file is not registered. */
static int place_of(struct smq_ring *ring, uint64_t key)
{
	unsigned int i;

	if (ring->known[ring->last] == key)
		return ring->last;
	for (i = 0; i < ring->nr; i++)
		if (ring->known[i] == key)
			return ring->last = i;
	return -1;
}

static int update_table(struct smq_ring *ring, unsigned int place, int fd)
{
	int ret = io_uring_register_files_update(&ring->uring, place, &fd, 1);

	return ret < 0 ? ret : 0;
}

static int add(struct smq_ring *ring, uint64_t key, int fd)
{
	unsigned int i;
	int ret;

	if (place_of(ring, key) >= 0)
		return -EEXIST;
	for (i = 0; i < SMQ_RING_DEVICES && ring->known[i] != FREE; i++)
		;
	if (i == SMQ_RING_DEVICES)
		return -ENOSPC;
	if (!ring->has_table) {
		ret = io_uring_register_files_sparse(&ring->uring, SMQ_RING_DEVICES);
		if (ret)
			return ret;
		ring->has_table = true;
	}
	ret = update_table(ring, i, fd);
	if (ret)
		return ret;
	ring->known[i] = key;
	if (i >= ring->nr)
		ring->nr = i + 1;
	return 0;
}

static int drop(struct smq_ring *ring, uint64_t key)
{
	int place = place_of(ring, key), ret;

	if (place < 0)
		return -ENOENT;
	/* Queued entries refer to the place: submit them before another file can get it. */
	while (io_uring_sq_ready(&ring->uring)) {
		ret = io_uring_submit(&ring->uring);
		if (ret < 0)
			return ret;
	}
	ret = update_table(ring, place, -1);
	if (!ret)
		ring->known[place] = FREE;
	return ret;
}

int smq_ring_add(struct smq_ring *ring, struct smq_device *dev)
{
	return add(ring, dev->id, dev->fd);
}

int smq_ring_remove(struct smq_ring *ring, struct smq_device *dev)
{
	return drop(ring, dev->id);
}

int smq_ring_add_fd(struct smq_ring *ring, int fd)
{
	return fd < 0 ? -EBADF : add(ring, fd, fd);
}

int smq_ring_remove_fd(struct smq_ring *ring, int fd)
{
	return fd < 0 ? -EBADF : drop(ring, fd);
}

/*
 * Gets an entry for a uring_cmd, and sets everything but file and payload. Clears the entry first,
 * because payload bytes that a run does not use must be 0. NULL if the ring is full.
 */
static struct io_uring_sqe *get_entry(struct smq_ring *ring, unsigned int cmd_op, uint64_t tag)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->uring);

	if (!sqe)
		return NULL;
	memset(sqe, 0, ring->commands ? 2 * sizeof(*sqe) : sizeof(*sqe));
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->cmd_op = cmd_op;
	sqe->user_data = tag;
	return sqe;
}

static void set_file(struct smq_ring *ring, struct io_uring_sqe *sqe, uint64_t key, int fd)
{
	int place = place_of(ring, key);

	sqe->fd = place < 0 ? fd : place;
	sqe->flags = place < 0 ? 0 : IOSQE_FIXED_FILE;
}

int smq_queue_run_with(struct smq_ring *ring, struct smq_device *dev,
		       const struct smq_sg_run *run, uint64_t tag)
{
	struct io_uring_sqe *sqe = get_entry(ring, SMQ_SG_URING_RUN, tag);

	if (!sqe)
		return -EAGAIN;
	set_file(ring, sqe, dev->id, dev->fd);
	memcpy(sqe->cmd, run, sizeof(*run));
	return 0;
}

int smq_queue_run(struct smq_ring *ring, struct smq_device *dev, uint32_t slot, uint64_t tag)
{
	struct smq_sg_run run = { .slot = slot };

	return smq_queue_run_with(ring, dev, &run, tag);
}

int smq_queue_batch(struct smq_ring *ring, struct smq_device *dev, struct smq_sg_batch batch,
		    uint64_t tag)
{
	struct io_uring_sqe *sqe = get_entry(ring, SMQ_SG_URING_BATCH, tag);

	if (!sqe)
		return -EAGAIN;
	set_file(ring, sqe, dev->id, dev->fd);
	memcpy(sqe->cmd, &batch, sizeof(batch));
	return 0;
}

static int queue_command(struct smq_ring *ring, uint64_t key, int fd,
			 const struct smq_sg_uring_cmd *command, uint64_t tag)
{
	struct io_uring_sqe *sqe;

	/* A large entry has a payload of 80 bytes, a small one has 16. */
	_Static_assert(sizeof(*command) == 80, "the payload of a large entry");
	if (!ring->commands)
		return -EOPNOTSUPP;
	/* bsg ignores cmd_op. For smq_sg, cmd_op 0 is a command without a slot. */
	sqe = get_entry(ring, 0, tag);
	if (!sqe)
		return -EAGAIN;
	set_file(ring, sqe, key, fd);
	memcpy(sqe->cmd, command, sizeof(*command));
	return 0;
}

int smq_queue_command(struct smq_ring *ring, struct smq_device *dev,
		      const struct smq_sg_uring_cmd *command, uint64_t tag)
{
	return queue_command(ring, dev->id, dev->fd, command, tag);
}

int smq_queue_command_fd(struct smq_ring *ring, int fd, const struct smq_sg_uring_cmd *command,
			 uint64_t tag)
{
	return fd < 0 ? -EBADF : queue_command(ring, fd, fd, command, tag);
}

int smq_submit(struct smq_ring *ring)
{
	return io_uring_submit(&ring->uring);
}

static unsigned int fetch(struct smq_ring *ring, struct smq_event *events, unsigned int most)
{
	struct io_uring_cqe *cqe;
	unsigned int head, n = 0;

	io_uring_for_each_cqe(&ring->uring, head, cqe) {
		if (n == most)
			break;
		events[n++] = (struct smq_event){
			.tag = cqe->user_data,
			.result = cqe->res,
			.more = ring->commands ? cqe->big_cqe[0] : 0,
		};
	}
	io_uring_cq_advance(&ring->uring, n);
	return n;
}

/* Submits queued entries and posts completions, without waiting. */
static int submit_now(struct smq_ring *ring)
{
	if (!io_uring_sq_ready(&ring->uring) && io_uring_cq_ready(&ring->uring))
		return 0;
	return io_uring_submit_and_get_events(&ring->uring);
}

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

/*
 * Submits queued entries and polls until there are @least completions or @wait_ns have passed. Each
 * system call makes the kernel poll only once, because a polling wait in the kernel has no time
 * limit. The kernel does not poll while the ring has completions, so each round fetches them.
 */
static int poll_for(struct smq_ring *ring, struct smq_event *events, unsigned int most,
		    unsigned int least, int64_t wait_ns, unsigned int *n)
{
	int64_t began = now_ns();
	int ret;

	do {
		ret = io_uring_submit_and_get_events(&ring->uring);
		*n += fetch(ring, events + *n, most - *n);
	} while (ret >= 0 && *n < least && (wait_ns < 0 || now_ns() - began < wait_ns));
	return ret;
}

/*
 * Submits queued entries and waits for @least completions, or until a signal comes. If a signal
 * ends a call that has also submitted entries, the call returns their number, not -EINTR. Then
 * io_uring_submit_and_wait_timeout() without a limit would wait again, io_uring_submit_and_wait()
 * returns.
 */
static int wait_for(struct smq_ring *ring, unsigned int least)
{
	int ret;

	do
		ret = io_uring_submit_and_wait(&ring->uring, least);
	while (ret > 0 && io_uring_sq_ready(&ring->uring));
	return ret;
}

int smq_reap(struct smq_ring *ring, struct smq_event *events, unsigned int most,
	     unsigned int least, int64_t wait_ns)
{
	struct __kernel_timespec ts = {
		.tv_sec = wait_ns / 1000000000, .tv_nsec = wait_ns % 1000000000,
	};
	struct io_uring_cqe *cqe;
	unsigned int n = 0;
	int ret = 0;

	if (!most || least > most)
		return -EINVAL;
	/* Do not call the kernel's wait: even a wait of 0 ns would start a timer. */
	if (!least || !wait_ns)
		ret = submit_now(ring);
	else if (!io_uring_sq_ready(&ring->uring) && io_uring_cq_ready(&ring->uring) >= least)
		ret = 0;
	else if (ring->poll)
		ret = poll_for(ring, events, most, least, wait_ns, &n);
	else if (wait_ns < 0)
		ret = wait_for(ring, least);
	else
		ret = io_uring_submit_and_wait_timeout(&ring->uring, &cqe, least, &ts, NULL);
	n += fetch(ring, events + n, most - n);
	if (n || ret >= 0 || ret == -ETIME || ret == -EINTR)
		return n;
	return ret;
}
