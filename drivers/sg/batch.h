/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Batches: one request of a program runs many slots.
 */
#ifndef SMQSG_BATCH_H
#define SMQSG_BATCH_H

#include <linux/llist.h>
#include <linux/string.h>
#include <smq/uring.h>

#include "caller.h"
#include "io.h"
#include "order.h"

/* A batch of at most this many commands is short: it has a struct smqsg_io for each of them. */
#define SMQSG_BATCH_SHORT	32

/**
 * struct smqsg_batch - a batch that has not ended
 *
 * One context at a time walks the list: the submitter, then the dispatcher each time it grants
 * more places. The walk counts as one in @remaining until it reaches the end of the list. The batch
 * ends when @remaining becomes 0.
 *
 * @next: the next batch in the CPU's pool
 * @fd: the file
 * @ioucmd: the SQE, or NULL for an ioctl
 * @waiter: used while the batch waits for places
 * @remaining: number of commands that have not ended, plus one for the walk of the list. Atomic:
 *	commands end on any CPU
 * @failed: number of commands that did not end with GOOD. Atomic for the same reason
 * @ended: ended commands of a long batch, linked by smqsg_io.ended, until they are put back into
 *	the pool. Lockless: commands end on any CPU
 * @list: as in struct smq_sg_batch
 * @count: likewise; U32_MAX for a timed batch
 * @flags: likewise
 * @polled: REQ_POLLED if the SQE is from a polled ring, else 0
 * @elements: a copy of the caller's list, unless @list is a range; in @few or in memory of its own;
 *	of a timed batch struct smqsg_timed
 * @files: the files of a timed batch, referenced; in @elements
 * @nr_files: number of them
 * @at: number of list elements that were sent or refused
 * @unsent: how many of them ended without being sent and still count in @remaining. Belongs to the
 *	walk
 * @tracked: of a timed batch: its caller wants results, or others may wait for its commands, so
 *	that these fill smqsg_io.timed
 * @cancelled: the ioctl's caller was interrupted: no more commands are sent
 * @caller: of the ioctl, or of a timed batch: also woken when one of its commands has waited
 * @ios: the commands of a short batch, by position in its list, in memory behind this struct
 * @few: memory for the elements of a short batch
 *
 * The submitter takes a batch from the file's pool. The batch is put back after it has ended.
 */
struct smqsg_batch {
	struct smqsg_batch *next;
	struct smqsg_fd *fd;
	struct io_uring_cmd *ioucmd;
	struct smqsg_waiter waiter;
	atomic_t remaining;
	atomic_t failed;
	struct llist_head ended;
	u64 list;
	u32 count;
	u32 flags;
	blk_opf_t polled;
	void *elements;
	struct smqsg_fd **files;
	u32 nr_files;
	u32 at;
	u32 unsent;
	bool tracked;
	bool cancelled;
	struct smqsg_caller caller;
	struct smqsg_io *ios;
	struct smq_sg_run few[SMQSG_BATCH_SHORT];
};

void smqsg_batch_pool_exit(struct smqsg_fd *fd);
struct smqsg_batch *smqsg_batch_get(struct smqsg_fd *fd);
void smqsg_batch_put(struct smqsg_batch *batch);
void smqsg_batch_recycle(struct smqsg_batch *batch);
void smqsg_batch_put_back(struct llist_node *node);
void smqsg_batch_post_cqe(struct io_uring_cmd *ioucmd, unsigned int issue_flags);
void smqsg_batch_drop_remaining(struct smqsg_batch *batch, u32 count);
void smqsg_batch_ended(struct smqsg_batch *batch);

/* timed.c */

int smqsg_timed_start(struct smqsg_batch *batch, const struct smq_sg_batch *arg);
void smqsg_timed_begin(struct smqsg_batch *batch);
int smqsg_timed_finish(struct smqsg_batch *batch);

/* batch_run.c */

long smqsg_ioctl_run(struct smqsg_fd *fd, void __user *arg);
int smqsg_batch_run(struct smqsg_fd *fd, struct io_uring_cmd *ioucmd, unsigned int issue_flags);

/**
 * smqsg_sqe_unused() - whether the unused part of an SQE is 0
 * @ioucmd: the SQE
 * @used: how many bytes of its payload are used
 * @issue_flags: as io_uring passed them to the handler
 *
 * Return: false if a byte behind @used is not 0, or a flag of the command is set. Any context.
 */
static inline bool smqsg_sqe_unused(const struct io_uring_cmd *ioucmd, size_t used,
				    unsigned int issue_flags)
{
	const size_t payload = 2 * sizeof(struct io_uring_sqe) - offsetof(struct io_uring_sqe, cmd);

	if (ioucmd->flags & SMQ_URING_CMD_FLAGS)
		return false;
	return !(issue_flags & IO_URING_F_SQE128) ||
	       !memchr_inv(smq_uring_payload(ioucmd) + used, 0, payload - used);
}

/**
 * smqsg_batch_end() - ends one command of a batch
 * @batch: the batch
 * @io: the command
 * @result: as smq_sg_status.result
 * @resid: as smq_sg_status.resid
 *
 * Any context. The batch, and with it @io, may be gone on return.
 */
static __always_inline void smqsg_batch_end(struct smqsg_batch *batch, struct smqsg_io *io,
					    int result, u32 resid)
{
	if (unlikely(result))
		atomic_inc(&batch->failed);
	if (unlikely(batch->count > SMQSG_BATCH_SHORT)) {
		if (unlikely(batch->tracked))
			smqsg_order_note(&batch->fd->order, &io->timed, result, resid);
		/* A full barrier, which smqsg_order_wake() needs. */
		llist_add(&io->ended, &batch->ended);
		smqsg_order_wake(&batch->fd->order);
	}
	if (unlikely(atomic_dec_and_test(&batch->remaining)))
		smqsg_batch_ended(batch);
}

#endif /* SMQSG_BATCH_H */
