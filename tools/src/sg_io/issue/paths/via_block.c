// SPDX-License-Identifier: GPL-2.0
/* --via block: the READs and WRITEs of the file as direct block I/O by io_uring. */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "paths.h"

#define CDB_FUA		0x08

/* The byte with protection, DPO and FUA. A CDB of 6 bytes has no such byte. */
static __u8 option_bits(const struct command *cmd)
{
	if (cmd->cdb_len == 6)
		return 0;
	return cmd->cdb_len == 32 ? cdb_of(cmd)[10] : cdb_of(cmd)[1];
}

static bool check_block(const struct target *target, const struct command *cmd,
			char *why, size_t size)
{
	const struct cdb_op *op = cdb_find(cdb_of(cmd), cmd->cdb_len);
	__u64 blocks, lba, last;

	if (!op || !(op->flags & (CDB_READ | CDB_WRITE))) {
		snprintf(why, size,
			 "%s (opcode %02Xh): block takes only READ and WRITE; --via sg takes all",
			 op ? op->name : "command", cdb_of(cmd)[0]);
		return false;
	}
	if (option_bits(cmd) >> 5) {
		snprintf(why, size,
			 "%s asks for protection information, which block I/O cannot do",
			 op->name);
		return false;
	}
	if ((option_bits(cmd) & CDB_FUA) && (op->flags & CDB_READ)) {
		snprintf(why, size, "%s with FUA: block I/O has no such read", op->name);
		return false;
	}
	blocks = cdb_blocks(op, cdb_of(cmd));
	if (!blocks) {
		snprintf(why, size, "%s of 0 blocks: block I/O has no such read or write",
			 op->name);
		return false;
	}
	if (cmd->bytes != blocks * target->block_size) {
		snprintf(why, size, "BYTES is %u, but %llu blocks of %s are %llu",
			 cmd->bytes, blocks, target->dev->given, blocks * target->block_size);
		return false;
	}
	lba = cdb_lba(op, cdb_of(cmd));
	last = target->dev->blocks;
	if (lba >= last || blocks > last - lba) {
		snprintf(why, size, "LBA %llu, %llu blocks: past the %llu blocks of %s",
			 lba, blocks, last, target->dev->given);
		return false;
	}
	return true;
}

static int open_ring(const struct worker *w, struct io_uring *ring)
{
	unsigned int flags = w->run->poll ? IORING_SETUP_IOPOLL : IORING_SETUP_COOP_TASKRUN;
	int ret = io_uring_queue_init(engine_ring_entries(w), ring, flags);

	/* COOP_TASKRUN avoids interrupts between CPUs; kernels before 5.19 do not have it. */
	if (ret == -EINVAL && !w->run->poll)
		ret = io_uring_queue_init(engine_ring_entries(w), ring, 0);
	if (ret)
		warnx("io_uring: %s", strerror(-ret));
	return ret;
}

static int open_block(struct worker *w)
{
	struct io_uring *ring = calloc(1, sizeof(*ring));
	int ret;

	if (!ring || open_ring(w, ring)) {
		if (!ring)
			warnx("no memory");
		free(ring);
		return -1;
	}
	w->priv = ring;
	ret = io_uring_register_files(ring, w->files, w->nr_files);
	if (ret)
		warnx("io_uring: registering the disks: %s", strerror(-ret));
	return ret;
}

static void close_block(struct worker *w)
{
	io_uring_queue_exit(w->priv);
	free(w->priv);
}

static void queue_block(struct worker *w, struct request *rq)
{
	const struct command *cmd = rq->cmd;
	const struct cdb_op *op = cdb_find(cdb_of(cmd), cmd->cdb_len);
	struct io_uring_sqe *sqe = io_uring_get_sqe(w->priv);
	int file = rq->target - w->targets;
	__u64 at = cdb_lba(op, cdb_of(cmd)) * rq->target->block_size;

	if (!sqe) {
		worker_failed(w, rq, EAGAIN);
		return;
	}
	if (cmd->dir == DIR_OUT) {
		io_uring_prep_write(sqe, file, request_data(w, rq), cmd->bytes, at);
		if (option_bits(cmd) & CDB_FUA)
			sqe->rw_flags = RWF_DSYNC;
	} else {
		io_uring_prep_read(sqe, file, rq->buffer, cmd->bytes, at);
	}
	sqe->flags |= IOSQE_FIXED_FILE;
	io_uring_sqe_set_data(sqe, rq);
}

static void submit_block(struct worker *w)
{
	/* An SQE that is refused now (EAGAIN, EBUSY) is submitted with the next reap. */
	io_uring_submit(w->priv);
}

/* A removed disk has size 0, so the kernel reports each of its blocks as past the end. */
static bool disk_is_gone(const struct worker *w, const struct request *rq)
{
	__u64 bytes;

	return ioctl(request_file(w, rq), BLKGETSIZE64, &bytes) || !bytes;
}

static void reap_block(struct worker *w, unsigned int min, __u64 wait_ns)
{
	struct __kernel_timespec ts = {
		.tv_sec = wait_ns / NS_PER_S, .tv_nsec = wait_ns % NS_PER_S,
	};
	struct io_uring *ring = w->priv;
	struct io_uring_cqe *cqe;
	unsigned int head, done = 0;
	struct request *rq;

	/* Even a wait of 0 ns would start a timer. */
	if (wait_ns)
		io_uring_submit_and_wait_timeout(ring, &cqe, min, &ts, NULL);
	else
		io_uring_submit_and_get_events(ring);
	io_uring_for_each_cqe(ring, head, cqe) {
		rq = io_uring_cqe_get_data(cqe);
		done++;
		/* liburing's own timeout entry, on kernels before 5.11 */
		if (!rq || (void *)rq == (void *)LIBURING_UDATA_TIMEOUT)
			continue;
		if (cqe->res < 0 || (!cqe->res && disk_is_gone(w, rq))) {
			worker_failed(w, rq, cqe->res ? -cqe->res : ENODEV);
			continue;
		}
		rq->out = (struct outcome){ .resid = (__s32)(rq->cmd->bytes - cqe->res) };
		worker_done(w, rq);
	}
	io_uring_cq_advance(ring, done);
}

const struct engine engine_block = {
	.name = "block",
	.node = NODE_BLOCK,
	.flags = O_DIRECT,
	.polls = true,
	.check = check_block,
	.open = open_block,
	.queue = queue_block,
	.submit = submit_block,
	.reap = reap_block,
	.close = close_block,
};
