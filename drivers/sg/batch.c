// SPDX-License-Identifier: GPL-2.0
/*
 * Batches: their memory, and their end.
 */
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <smq/uring.h>

#include "batch.h"

/* Most unused batches that a pool keeps. */
#define SMQSG_BATCHES_MOST	16

/* Allocates a batch, with memory for the commands of a short batch. May sleep. */
static noinline struct smqsg_batch *smqsg_batch_new(struct smqsg_fd *fd)
{
	struct smqsg_batch *batch;
	unsigned int i;

	batch = kvzalloc(sizeof(*batch) + SMQSG_BATCH_SHORT * sizeof(*batch->ios),
			 GFP_KERNEL_ACCOUNT);
	if (!batch)
		return NULL;
	batch->ios = (struct smqsg_io *)(batch + 1);
	batch->fd = fd;
	batch->elements = batch->few;
	batch->waiter.fd = fd;
	INIT_LIST_HEAD(&batch->waiter.entry);
	init_llist_head(&batch->ended);
	for (i = 0; i < SMQSG_BATCH_SHORT; i++) {
		smqsg_io_init(&batch->ios[i], fd);
		batch->ios[i].batch = batch;
	}
	return batch;
}

/* Frees a batch that is in no pool. */
static noinline void smqsg_batch_free(struct smqsg_batch *batch)
{
	unsigned int i;

	for (i = 0; i < SMQSG_BATCH_SHORT; i++) {
		smqsg_idle_free(&batch->ios[i].idle, batch->fd);
		bio_uninit(&batch->ios[i].bio);
	}
	kvfree(batch);
}

/**
 * smqsg_batch_pool_exit() - frees a file's pools of batches
 * @fd: the file; none of its batches runs
 */
void smqsg_batch_pool_exit(struct smqsg_fd *fd)
{
	struct smqsg_batch *batch;

	while ((batch = smqsg_stack_pop_any(&fd->pools->batches))) {
		smqsg_batch_free(batch);
		cond_resched();
	}
}

/**
 * smqsg_batch_get() - takes a batch out of the CPU's pool, or allocates one
 * @fd: the file
 *
 * Return: the batch, or NULL if there is no memory. Process context.
 */
struct smqsg_batch *smqsg_batch_get(struct smqsg_fd *fd)
{
	struct smqsg_batch *batch = smqsg_stack_pop(&fd->pools->batches);

	return likely(batch) ? batch : smqsg_batch_new(fd);
}

/**
 * smqsg_batch_put() - puts a batch that has ended into the CPU's pool, or frees it
 * @batch: the batch
 *
 * Process context.
 */
void smqsg_batch_put(struct smqsg_batch *batch)
{
	if (unlikely(batch->elements != batch->few)) {
		while (batch->nr_files)
			fput(batch->files[--batch->nr_files]->file);
		kvfree(batch->elements);
		batch->elements = batch->few;
	}
	if (unlikely(!smqsg_stack_push(&batch->fd->pools->batches, batch, SMQSG_BATCHES_MOST)))
		smqsg_batch_free(batch);
}

/**
 * smqsg_batch_recycle() - gives back what the ended commands of a batch have used
 * @batch: the batch
 *
 * Drops the references to the runs' own buffers, and puts the ended commands of a long batch back
 * into the pool. A short batch must have ended as a whole. Process context.
 */
void smqsg_batch_recycle(struct smqsg_batch *batch)
{
	u32 i;

	if (likely(batch->count <= SMQSG_BATCH_SHORT)) {
		/* Only runs can have a buffer of their own. */
		for (i = 0; (batch->flags & SMQ_SG_BATCH_RUNS) && i < batch->at; i++)
			smqsg_slot_put_buffer(&batch->ios[i]);
		return;
	}
	smqsg_batch_put_back(llist_del_all(&batch->ended));
}

/**
 * smqsg_batch_put_back() - puts commands of a long batch back into the pool
 * @node: smqsg_io.ended of the first command, or NULL
 *
 * Process context.
 */
void smqsg_batch_put_back(struct llist_node *node)
{
	while (node) {
		struct smqsg_io *io = llist_entry(node, struct smqsg_io, ended);

		node = node->next;
		smqsg_slot_put_buffer(io);
		smqsg_io_put(io);
	}
}

SMQ_URING_TASK_FN(smqsg_batch_task_work, smqsg_batch_post_cqe)

/**
 * smqsg_batch_post_cqe() - posts the CQE of a batch that has ended
 * @ioucmd: its SQE
 * @issue_flags: IO_URING_F_*, from io_uring for task work; a poller sets them itself
 *
 * Runs in the task that submitted the SQE, or in a poller of its file.
 */
void smqsg_batch_post_cqe(struct io_uring_cmd *ioucmd, unsigned int issue_flags)
{
	struct smqsg_batch *batch = *(struct smqsg_batch **)ioucmd->pdu;
	int failed = atomic_read(&batch->failed);

	smqsg_batch_recycle(batch);
	smqsg_batch_put(batch);
	smq_uring_done(ioucmd, failed, issue_flags);
}

/**
 * smqsg_batch_ended() - ends a batch whose smqsg_batch.remaining has become 0
 * @batch: the batch
 *
 * Any context.
 */
void smqsg_batch_ended(struct smqsg_batch *batch)
{
	if (unlikely(batch->polled))
		smqsg_poll_ended(&batch->fd->polled.ended, batch->ioucmd);
	else if (batch->ioucmd)
		io_uring_cmd_complete_in_task(batch->ioucmd, smqsg_batch_task_work);
	else
		smqsg_caller_end(&batch->caller);
}

/**
 * smqsg_batch_drop_remaining() - lowers smqsg_batch.remaining, and ends the batch if that becomes 0
 * @batch: the batch; may be gone on return
 * @count: by how much
 *
 * Any context.
 */
void smqsg_batch_drop_remaining(struct smqsg_batch *batch, u32 count)
{
	if (count && atomic_sub_and_test(count, &batch->remaining))
		smqsg_batch_ended(batch);
}
