// SPDX-License-Identifier: GPL-2.0
/*
 * Makes a request from a slot: the code for the less frequent cases.
 */
#include <smq/uring.h>

#include "issue.h"

static void smqsg_slot_arm(struct bio *bio, struct request *rq, struct smqsg_slot *slot)
{
	struct smq_rq_data data;

	if (likely(!slot->in_pieces))
		smqsg_bio_arm(bio, &slot->data.one, 0, slot->data.length);
	else
		smqsg_bio_arm(bio, slot->data.bvec, slot->data.skip, slot->data.length);
	data = smq_rq_data_of_bio(bio, slot->segments);
	smq_rq_set_data(rq, &data);
}

/**
 * smqsg_slot_apply_buffer() - puts a run's own buffer into a request
 * @io: the run
 * @rq: the request, filled from the slot
 *
 * Process context.
 */
void smqsg_slot_apply_buffer(struct smqsg_io *io, struct request *rq)
{
	struct smqsg_slot *slot = &io->fd->slots.array[io->slot];

	if ((rq->rq_flags & RQF_DONTPREP) && slot->bioless &&
	    smqsg_bioless_fits(&io->buffer_slot)) {
		smqsg_bioless_prepare(io->fd, rq, slot->direction, &io->buffer_slot);
		return;
	}
	/* Makes the mid-layer prepare a scatterlist for this buffer. */
	rq->rq_flags &= ~RQF_DONTPREP;
	smqsg_slot_arm(&io->bio, rq, &io->buffer_slot);
}

/**
 * smqsg_slot_fill_mapped() - gives a request a slot's data, for the mid-layer to prepare
 * @rq: the request
 * @slot: the slot
 * @bio: the run's
 *
 * Process context.
 */
void smqsg_slot_fill_mapped(struct request *rq, struct smqsg_slot *slot, struct bio *bio)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);

	scmd->allowed = 0;
	/* The tag's last command has left its own results here. */
	scmd->result = 0;
	scmd->resid_len = 0;
	rq->nr_phys_segments = 0;
	rq->__data_len = 0;
	if (slot->data.length)
		smqsg_slot_arm(bio, rq, slot);
}

/**
 * smqsg_io_wait() - makes a command wait for a place or a tag
 * @io: the command
 * @task: its waiting ends if this task ends; or NULL
 * @slot: its slot, or SMQSG_NO_SLOT
 * @timeout: how long it may wait, in jiffies
 * @grant: called when its turn has come; calls smqsg_io_granted()
 *
 * Return: as smqsg_wait(). Process context.
 */
int smqsg_io_wait(struct smqsg_io *io, struct task_struct *task, u32 slot, unsigned long timeout,
		  void (*grant)(struct smqsg_waiter *waiter, int got))
{
	io->waiter.task = task;
	io->waiter.waited = false;
	io->waiter.stopped = false;
	io->waiter.slot = slot;
	io->waiter.want = 1;
	io->waiter.deadline = jiffies + timeout;
	io->waiter.grant = grant;
	return smqsg_wait(io->fd, &io->waiter);
}

/**
 * smqsg_io_granted() - sends a command that has waited
 * @io: the command
 * @got: as for smqsg_waiter.grant
 * @issue: sends it; returns 0, -EAGAIN if there is no tag, or another errno
 *
 * Return: 0: it was sent, or waits for a tag; an errno: its waiting has ended, and the caller ends
 * it. Process context.
 */
int smqsg_io_granted(struct smqsg_io *io, int got, int (*issue)(struct smqsg_io *io))
{
	int ret;

	if (got < 0)
		return got;
	ret = issue(io);
	if (!ret)
		return 0;
	smqsg_unreserve(io->fd, 1);
	return ret == -EAGAIN ? smqsg_wait_first(io->fd, &io->waiter) : ret;
}

/**
 * smqsg_own_unsent() - takes back a request of the own queue that was not sent
 * @io: the command
 * @fd: the file
 * @rq: its request, whose data the caller keeps
 *
 * Process context.
 */
void smqsg_own_unsent(struct smqsg_io *io, struct smqsg_fd *fd, struct request *rq)
{
	rq->bio = NULL;
	if (smqsg_idle_keep(&io->idle, &fd->pool, rq))
		return;
	smqsg_idle_forget(&io->idle, fd, rq);
	blk_mq_free_request(rq);
}

/* How a slot's command is sent that is taken already. */
static __always_inline struct smqsg_send smqsg_slot_how(struct smqsg_slot *slot, u32 varied,
							blk_mq_req_flags_t flags, blk_opf_t polled,
							struct io_uring_cmd *ioucmd)
{
	return (struct smqsg_send) {
		.opf = smqsg_slot_op(slot) | polled,
		.ioucmd = ioucmd,
		.slot = slot,
		.varied = varied,
		.flags = flags,
	};
}

/**
 * smqsg_slot_send_slowly() - smqsg_slot_send() of a command that waits, or needs the device's queue
 * @io: the run
 * @flags: see struct smqsg_send
 * @polled: REQ_POLLED or 0
 * @ioucmd: see struct smqsg_send
 *
 * Return: as smqsg_send_slowly(). Process context.
 */
int smqsg_slot_send_slowly(struct smqsg_io *io, blk_mq_req_flags_t flags, blk_opf_t polled,
			   struct io_uring_cmd *ioucmd)
{
	struct smqsg_slot *slot = &io->fd->slots.array[io->slot];
	const struct smqsg_send send = smqsg_slot_how(slot, io->flags, flags, polled, ioucmd);

	return smqsg_send_slowly(io, io->fd, &smqsg_slot_origin, &send);
}

/**
 * smqsg_slot_send_placed() - sends the command of a slot that has waited, and has a place
 * @io: the run
 * @polled: REQ_POLLED or 0
 * @ioucmd: see struct smqsg_send
 *
 * Return: as smqsg_send_placed(). Process context.
 */
int smqsg_slot_send_placed(struct smqsg_io *io, blk_opf_t polled, struct io_uring_cmd *ioucmd)
{
	struct smqsg_slot *slot = &io->fd->slots.array[io->slot];
	const struct smqsg_send send = smqsg_slot_how(slot, io->flags, 0, polled, ioucmd);

	return smqsg_send_placed(io, io->fd, &smqsg_slot_origin, &send);
}

/**
 * smqsg_slot_send_alone() - smqsg_slot_send() for a run that is neither polled nor part of a batch
 * @io: the run
 * @fd: the file
 * @slot: the slot
 * @varied: the run's SMQ_SG_RUN_*
 *
 * Return: as smqsg_slot_send(), or 1: the command ended before this function returned, and the
 * caller posts its CQE, without task work. Process context.
 */
int smqsg_slot_send_alone(struct smqsg_io *io, struct smqsg_fd *fd, struct smqsg_slot *slot,
			  u32 varied)
{
	const struct smqsg_send send = smqsg_slot_how(slot, varied, BLK_MQ_REQ_NOWAIT, 0, NULL);
	/*
	 * The command's task work runs in this task: so @io lives as long as the task is here. If a
	 * thread of io_uring sends the command for the task, it does not.
	 */
	bool by_task = smq_uring_task(io->ioucmd) == current;
	int ret;

	WRITE_ONCE(io->submitter, by_task ? current : NULL);
	ret = smqsg_slot_send(io, fd, &send);
	if (!by_task)
		return ret;
	if (!ret && !io->submitter)
		return 1;
	WRITE_ONCE(io->submitter, NULL);
	return ret;
}

/**
 * smqsg_request_take_spare() - gives grant() the request for which the dispatcher slept
 * @fd: the file
 * @opf: the request's operation
 * @error: why grant() could not allocate a request
 *
 * Return: the request; or @error. If @error is -EAGAIN and grant() then calls smqsg_wait_first(),
 * the dispatcher sleeps for a request when grant() has returned. Process context.
 */
struct request *smqsg_request_take_spare(struct smqsg_fd *fd, blk_opf_t opf, struct request *error)
{
	struct smqsg_dev_wait *wait = &fd->sg->wait;
	struct request *rq = wait->spare;

	if (PTR_ERR(error) != -EAGAIN)
		return error;
	wait->wanted_opf = opf;
	if (!rq)
		return error;
	wait->spare = NULL;
	/*
	 * The spare request may be on a poll queue although this command needs another queue, or
	 * the reverse.
	 */
	if ((rq->cmd_flags ^ opf) & REQ_POLLED) {
		blk_mq_free_request(rq);
		return error;
	}
	rq->cmd_flags = opf;
	return rq;
}
