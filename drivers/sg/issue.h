/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Makes a request from a slot: the code that every run executes.
 */
#ifndef SMQSG_ISSUE_H
#define SMQSG_ISSUE_H

#include <linux/blkdev.h>

#include "bioless.h"
#include "direct.h"
#include "end.h"
#include "held.h"
#include "reserve.h"

int smqsg_held_issue_first(struct smqsg_io *io, struct smqsg_fd *fd, struct smqsg_slot *slot,
			   blk_mq_req_flags_t flags);
int smqsg_slot_issue_plugged(struct smqsg_io *io, struct smqsg_fd *fd, blk_mq_req_flags_t flags,
			     blk_opf_t polled);
int smqsg_slot_issue_direct(struct smqsg_io *io, struct smqsg_fd *fd, struct smqsg_slot *slot,
			    u32 number, u32 varied, blk_mq_req_flags_t flags);
struct request *smqsg_request_take_spare(struct smqsg_fd *fd, blk_opf_t opf, struct request *error);
void smqsg_slot_apply_run(struct smqsg_io *io, struct request *rq);
void smqsg_held_vary(struct smqsg_io *io, struct smqsg_held *held, struct request *rq);

static __always_inline void smqsg_slot_arm(struct bio *bio, struct request *rq,
					   struct smqsg_slot *slot)
{
	if (likely(!slot->in_pieces))
		smqsg_io_arm(bio, rq, &slot->data.one, 0, slot->data.length, slot->segments);
	else
		smqsg_io_arm(bio, rq, slot->data.bvec, slot->data.skip, slot->data.length,
			     slot->segments);
}

/*
 * Allocates a request, without sleeping. In grant(), where @flags is 0, the dispatcher's spare
 * request is used if there is no other. Process context.
 */
static __always_inline struct request *smqsg_request(struct smqsg_fd *fd, blk_opf_t opf,
						     blk_mq_req_flags_t flags)
{
	struct request *rq = scsi_alloc_request(fd->q, opf, flags | BLK_MQ_REQ_NOWAIT);

	if (IS_ERR(rq) && !(flags & BLK_MQ_REQ_NOWAIT))
		rq = smqsg_request_take_spare(fd, opf, rq);
	return rq;
}

/* Fills a new request with a slot's command. @varied: the run's SMQ_SG_RUN_*. */
static __always_inline void smqsg_slot_fill_request(struct smqsg_io *io, struct request *rq,
						    struct smqsg_slot *slot, struct bio *bio,
						    u32 varied)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);

	memcpy(scmd->cmnd, slot->cdb, sizeof(slot->cdb));
	scmd->cmd_len = slot->cdb_len;
	if (likely(slot->bioless) && smqsg_bioless_tag(rq)) {
		smqsg_bioless_prepare(io->fd, rq, slot->direction, slot);
	} else {
		scmd->allowed = 0;
		/* The tag's last command has left its own results here. */
		scmd->result = 0;
		scmd->resid_len = 0;
		if (slot->data.length)
			smqsg_slot_arm(bio, rq, slot);
	}
	if (unlikely(varied))
		smqsg_slot_apply_run(io, rq);
	rq->timeout = slot->timeout;
	rq->end_io_data = io;
}

static __always_inline struct request *smqsg_slot_request(struct smqsg_fd *fd,
							  struct smqsg_slot *slot,
							  blk_opf_t polled,
							  blk_mq_req_flags_t flags)
{
	return smqsg_request(fd, (slot->direction == SMQ_SG_OUT ? REQ_OP_DRV_OUT :
				  REQ_OP_DRV_IN) | polled, flags);
}

/* Sends a slot's command with a new request, which is freed when the command ends. */
static __always_inline void smqsg_slot_execute(struct smqsg_io *io, struct request *rq,
					       struct smqsg_slot *slot, u32 varied)
{
	smqsg_slot_fill_request(io, rq, slot, &io->bio, varied);
	io->held = NULL;
	rq->end_io = smqsg_slot_end;
	if (SMQ_CAN_HOLD && smqsg_direct_issue_fresh(rq, &io->token))
		return;
	blk_execute_rq_nowait(rq, false);
}

/* Does the work of smqsg_slot_issue() for a slot that keeps no request. */
static __always_inline int smqsg_slot_send(struct smqsg_io *io, struct smqsg_fd *fd,
					   struct smqsg_slot *slot, u32 varied,
					   blk_mq_req_flags_t flags, blk_opf_t polled,
					   struct io_uring_cmd *ioucmd)
{
	struct request *rq = smqsg_slot_request(fd, slot, polled, flags);

	if (IS_ERR(rq))
		return PTR_ERR(rq);
	if (polled && unlikely(!smqsg_poll_on(&fd->polled, ioucmd, rq))) {
		blk_mq_free_request(rq);
		return -EOPNOTSUPP;
	}
	smqsg_slot_execute(io, rq, slot, varied);
	return 0;
}

/* Restores the size of the bio, which each run counts down to 0. */
static __always_inline void smqsg_held_arm(struct smqsg_held *held, struct request *rq)
{
	held->bio.bi_iter.bi_size = held->length;
	smqsg_bio_skip_endio(&held->bio);
	rq->bio = held->data;
	rq->__data_len = held->length;
}

/*
 * Issues a slot with SMQ_SG_SLOT_HELD. A run that ended with GOOD has changed some of the fields
 * that the allocation and the mid-layer's preparation had set: these are set again. The CDB stays
 * as the LLD left it, as it does when the mid-layer retries a command. Returns as
 * smqsg_slot_issue().
 */
static __always_inline int smqsg_held_issue(struct smqsg_io *io, struct smqsg_fd *fd,
					    struct smqsg_slot *slot, u32 number, u32 varied,
					    blk_mq_req_flags_t flags)
{
	struct smqsg_held *held = &fd->held.entries[slot->held];
	struct request *rq = NULL;
	struct scsi_cmnd *scmd;

	if (likely(slot->held))
		rq = smqsg_held_take(fd, held, number);
	if (unlikely(!rq))
		return smqsg_held_issue_first(io, fd, slot, flags);
	scmd = blk_mq_rq_to_pdu(rq);
	scmd->host_scribble = NULL;
	scmd->jiffies_at_alloc = jiffies;
	if (unlikely(held->data))
		smqsg_held_arm(held, rq);
	rq->end_io_data = io;
	io->held = held;
	if (unlikely(varied || !held->as_slot))
		smqsg_held_vary(io, held, rq);
	if (smqsg_direct_issue(rq, &held->token))
		return 0;
	blk_execute_rq_nowait(rq, false);
	return 0;
}

/*
 * smqsg_slot_issue() for a caller that has the slot, its number and SMQ_SG_RUN_* at hand. A polled
 * run does not use the slot's held request, which is not on a poll queue.
 */
static __always_inline int smqsg_slot_issue_as(struct smqsg_io *io, struct smqsg_fd *fd,
					       struct smqsg_slot *slot, u32 number, u32 varied,
					       blk_mq_req_flags_t flags, blk_opf_t polled,
					       struct io_uring_cmd *ioucmd)
{
	if (unlikely(slot->hold) && !polled)
		return smqsg_held_issue(io, fd, slot, number, varied, flags);
	return smqsg_slot_send(io, fd, slot, varied, flags, polled, ioucmd);
}

/**
 * smqsg_slot_issue() - sends a slot's command
 * @io: a run that smqsg_slot_take() filled and for which a place is reserved
 * @fd: the file
 * @flags: BLK_MQ_REQ_NOWAIT; 0 in grant()
 * @polled: REQ_POLLED for a poll queue, else 0
 * @ioucmd: with REQ_POLLED: the SQE of the run or of its batch
 *
 * Return: 0: sent, and the command may have ended already. Else no request could be allocated:
 * -EAGAIN: no tag, or the queue is frozen; -ENODEV; -EOPNOTSUPP: no poll queue. Process context.
 */
static __always_inline int smqsg_slot_issue(struct smqsg_io *io, struct smqsg_fd *fd,
					    blk_mq_req_flags_t flags, blk_opf_t polled,
					    struct io_uring_cmd *ioucmd)
{
	struct smqsg_slot *slot = &fd->slots.array[io->slot];

	return smqsg_slot_issue_as(io, fd, slot, io->slot, io->flags, flags, polled, ioucmd);
}

/**
 * smqsg_slot_start() - takes a slot and sends its command
 * @io: the run
 * @fd: the file
 * @slot: the slot, from smqsg_slot_find()
 * @number: its number
 * @run: what else the run asks for, in memory that only the kernel writes; NULL for nothing
 * @flags: BLK_MQ_REQ_NOWAIT; 0 in grant()
 * @polled: REQ_POLLED for a poll queue, else 0
 * @ioucmd: with REQ_POLLED: the SQE of the run or of its batch
 * @alone: true: the submitter runs one slot, and reserves its place here. False, for a batch: the
 *	caller has reserved a place and started a plug. A compile-time constant
 *
 * Used for every run that has not waited. Compiled into each caller.
 *
 * Return: 0: sent, and the command may have ended already. 1, if @alone: sent and ended, and the
 * caller posts the CQE. -EAGAIN: no place or no tag, and the slot is still taken. Another errno as
 * described at struct smq_sg_run: the slot is not taken, and its status has the error. On an error
 * a place that was reserved here is given back. Process context.
 */
static __always_inline int smqsg_slot_start(struct smqsg_io *io, struct smqsg_fd *fd,
					    struct smqsg_slot *slot, u32 number,
					    const struct smq_sg_run *run, blk_mq_req_flags_t flags,
					    blk_opf_t polled, struct io_uring_cmd *ioucmd,
					    bool alone)
{
	int ret = smqsg_slot_take(io, fd, slot, number, run);
	u32 varied = run ? io->flags : 0;

	if (unlikely(ret))
		return ret;
	if (alone && unlikely(!smqsg_reserve(fd, 1)))
		return -EAGAIN;
	if (SMQ_CAN_HOLD && alone && !polled)
		ret = smqsg_slot_issue_direct(io, fd, slot, number, varied, flags);
	else if (alone && unlikely(!current->plug))
		ret = smqsg_slot_issue_plugged(io, fd, flags, polled);
	else
		ret = smqsg_slot_issue_as(io, fd, slot, number, varied, flags, polled, ioucmd);
	if (likely(ret >= 0))
		return ret;
	if (alone)
		smqsg_unreserve(fd, 1);
	if (ret != -EAGAIN)
		smqsg_slot_drop(io, ret);
	return ret;
}

#endif /* SMQSG_ISSUE_H */
