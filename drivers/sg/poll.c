// SPDX-License-Identifier: GPL-2.0
/*
 * Polling: commands of rings with IORING_SETUP_IOPOLL.
 *
 * They go to the LLD's poll queues, for which no interrupt comes. io_uring asks for their ends,
 * through smqsg_uring_iopoll(): for one command after the other until one has been told, with
 * the lock of their ring. A command's end, in whatever context, only puts it into its file's
 * list; who polls next for any of the file's commands empties that, and tells of all. So it is
 * all the same who found the end: this ring's poll, another's, queuecommand, error handling, or
 * the one who let it wait no longer.
 *
 * An ad hoc command, whose data is in its submitter's memory, is left to its own ring's poll, and
 * so is the turn of one that waited. Neither may be left to task work: io_uring polls for what a
 * ring has as it ends it, until there is none, and runs no task work meanwhile.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>

#include "batch.h"
#include "io.h"
#include "poll.h"

/* Whether a device's host has poll queues. */
bool smqsg_has_poll_queue(struct request_queue *q)
{
	const struct blk_mq_tag_set *set = q->tag_set;

	return set->nr_maps > HCTX_TYPE_POLL && set->map[HCTX_TYPE_POLL].nr_queues;
}

/* Refuses an SQE of a polled ring, and says why. Process context. */
int smqsg_poll_refuse(struct smqsg_fd *fd)
{
	pr_err_ratelimited("%s: a ring with IORING_SETUP_IOPOLL, but its host has no poll queues\n",
			   dev_name(&fd->sg->dev));
	return -EOPNOTSUPP;
}

/*
 * Looks for ends on a poll queue, or on all where that is none. A queue's hctxs live as long as
 * the queue, which the file's device keeps; that the LLD is there for them is what the reference
 * is for. A queue that gives none has nothing in flight.
 */
static void smqsg_poll(struct request_queue *q, struct blk_mq_hw_ctx *hctx,
		       struct io_comp_batch *iob)
{
	unsigned long i;

	if (unlikely(!percpu_ref_tryget(&q->q_usage_counter)))
		return;
	if (likely(hctx && hctx != SMQSG_POLL_ALL)) {
		q->mq_ops->poll(hctx, iob);
	} else {
		queue_for_each_hw_ctx(q, hctx, i)
			if (hctx->type == HCTX_TYPE_POLL)
				q->mq_ops->poll(hctx, iob);
	}
	percpu_ref_put(&q->q_usage_counter);
}

/* Tells of a slot's end, or of a batch's; the lock of @ring, which need not be its own, is held. */
static __always_inline void smqsg_poll_tell_one(struct io_uring_cmd *ioucmd, const void *ring)
{
	unsigned int issue_flags = likely(smq_uring_ring(ioucmd) == ring) ? 0 : IO_URING_F_UNLOCKED;

	if (likely(ioucmd->cmd_op == SMQ_SG_URING_RUN))
		smqsg_slot_tell(ioucmd, issue_flags);
	else
		smqsg_batch_tell(ioucmd, issue_flags);
}

static __always_inline struct io_uring_cmd *smqsg_poll_cmd(struct smqsg_polled *polled)
{
	return container_of((void *)polled, struct io_uring_cmd, pdu);
}

/*
 * Tells of what has ended of a file's slots and batches, whatever their ring; the lock of @ring is
 * held.
 */
static __always_inline void smqsg_poll_tell(struct smqsg_fd *fd, const void *ring)
{
	struct smqsg_polled *polled, *next;

	/* The file stays: its poller's command is not reaped while its ring is locked. */
	llist_for_each_entry_safe(polled, next, llist_del_all(&fd->ended), ended)
		smqsg_poll_tell_one(smqsg_poll_cmd(polled), ring);
}

/* The same of ad hoc commands, but for those of other rings. Returns whether there were any. */
static noinline bool smqsg_poll_adhoc(struct smqsg_fd *fd, const void *ring)
{
	struct smqsg_polled *polled, *next;
	bool told = false;

	llist_for_each_entry_safe(polled, next, llist_del_all(&fd->ended_adhoc), ended) {
		struct io_uring_cmd *ioucmd = smqsg_poll_cmd(polled);

		if (smq_uring_ring(ioucmd) == ring)
			told |= smqsg_adhoc_polled(ioucmd);
		else
			smqsg_poll_ended(&fd->ended_adhoc, ioucmd);
	}
	return told;
}

/* No slot nor batch has ended: looks elsewhere. Returns whether something was told. */
static noinline bool smqsg_poll_more(struct smqsg_fd *fd, const void *ring,
				     struct io_comp_batch *iob)
{
	bool told = !llist_empty(&fd->ended_adhoc) && smqsg_poll_adhoc(fd, ring);

	if (told || !atomic_read(&fd->sg->waiting))
		return told;
	smqsg_poll(fd->q, NULL, iob);
	told = !llist_empty(&fd->ended);
	smqsg_poll_tell(fd, ring);
	return told;
}

/**
 * smqsg_uring_iopoll() - polls for a command of a polled ring
 * @ioucmd: its SQE, of which nothing has been told yet
 * @iob: where an LLD may leave requests for the caller to complete
 * @poll_flags: BLK_POLL_*; it looks once, whatever they say: io_uring asks again
 *
 * A command that waits for a place is on no queue yet, a batch with some of its commands. Whoever
 * has the places may not poll, so all queues are polled while anybody waits.
 *
 * Return: 1 if some of the file's commands have been told of, else 0. Process context, with
 * the ring's lock.
 */
int smqsg_uring_iopoll(struct io_uring_cmd *ioucmd, struct io_comp_batch *iob,
		       unsigned int poll_flags)
{
	struct smqsg_fd *fd = ioucmd->file->private_data;
	const void *ring = smq_uring_ring(ioucmd);

	if (llist_empty(&fd->ended)) {
		smqsg_poll(fd->q, READ_ONCE(smqsg_polled(ioucmd)->hctx), iob);
		if (llist_empty(&fd->ended))
			return smqsg_poll_more(fd, ring, iob);
	}
	smqsg_poll_tell(fd, ring);
	if (unlikely(!llist_empty(&fd->ended_adhoc)))
		smqsg_poll_adhoc(fd, ring);
	return 1;
}

/**
 * smqsg_poll_for_others() - polls for commands whose own ring may not
 * @sg: the node
 *
 * For those who wait for the places that such commands have, and for who removes the device.
 *
 * Return: false if there is nothing to poll. Process context.
 */
bool smqsg_poll_for_others(struct smqsg_dev *sg)
{
	struct scsi_device *sdev = NULL;
	struct module *lld = NULL;
	struct smqsg_fd *fd;

	spin_lock(&sg->lock);
	fd = list_first_entry_or_null(&sg->files, struct smqsg_fd, sibling);
	if (fd && fd->pollable) {
		/* The file has a reference as long as it is in the list. */
		sdev = fd->sdev;
		lld = sdev->host->hostt->module;
		__module_get(lld);
		get_device(&sdev->sdev_gendev);
	}
	spin_unlock(&sg->lock);
	if (!sdev)
		return false;
	smqsg_poll(sdev->request_queue, NULL, NULL);
	put_device(&sdev->sdev_gendev);
	/* Last, as scsi_device_put() has it: the device's release looks at the LLD's template. */
	module_put(lld);
	return true;
}
