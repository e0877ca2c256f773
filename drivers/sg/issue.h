/* SPDX-License-Identifier: GPL-2.0 */
/*
 * From a slot to a request: what each run does.
 */
#ifndef SMQSG_ISSUE_H
#define SMQSG_ISSUE_H

#include <linux/blkdev.h>

#include "claim.h"
#include "end.h"
#include "held.h"

int smqsg_held_issue_first(struct smqsg_io *io, struct smqsg_fd *fd, struct smqsg_slot *slot,
			   blk_mq_req_flags_t flags);
int smqsg_slot_issue_plugged(struct smqsg_io *io, struct smqsg_fd *fd, blk_mq_req_flags_t flags,
			     blk_opf_t polled);
int smqsg_slot_issue_direct(struct smqsg_io *io, struct smqsg_fd *fd, struct smqsg_slot *slot,
			    u32 number, u32 varied, blk_mq_req_flags_t flags);
struct request *smqsg_request_spare(struct smqsg_fd *fd, blk_opf_t opf, struct request *error);
void smqsg_slot_varied(struct smqsg_io *io, struct request *rq);
void smqsg_held_vary(struct smqsg_io *io, struct smqsg_held *held, struct request *rq);

static __always_inline void smqsg_slot_arm(struct bio *bio, struct request *rq,
					   struct smqsg_slot *slot)
{
	if (likely(!slot->many))
		smqsg_io_arm(bio, rq, &slot->data.one, 0, slot->data.length, slot->segments);
	else
		smqsg_io_arm(bio, rq, slot->data.bvec, slot->data.skip, slot->data.length,
			     slot->segments);
}

/*
 * A new request, if there is one at once. In grant(), where @flags is 0, the dispatcher's spare
 * one serves as well. Process context.
 */
static __always_inline struct request *smqsg_request(struct smqsg_fd *fd, blk_opf_t opf,
						     blk_mq_req_flags_t flags)
{
	struct request *rq = scsi_alloc_request(fd->q, opf, flags | BLK_MQ_REQ_NOWAIT);

	if (IS_ERR(rq) && !(flags & BLK_MQ_REQ_NOWAIT))
		rq = smqsg_request_spare(fd, opf, rq);
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
	scmd->allowed = 0;
	/* What the tag's last user left is not what became of this one. */
	scmd->result = 0;
	scmd->resid_len = 0;
	if (slot->data.length)
		smqsg_slot_arm(bio, rq, slot);
	if (unlikely(varied))
		smqsg_slot_varied(io, rq);
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

/* Sends a slot's command with a new request, which is given back at its end. */
static __always_inline void smqsg_slot_execute(struct smqsg_io *io, struct request *rq,
					       struct smqsg_slot *slot, u32 varied)
{
	smqsg_slot_fill_request(io, rq, slot, &io->bio, varied);
	io->held = NULL;
	rq->end_io = smqsg_slot_end;
	blk_execute_rq_nowait(rq, false);
}

/* As smqsg_slot_issue(), of a slot that keeps nothing. */
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

/*
 * Issues a slot with SMQ_SG_SLOT_HELD. What an allocation and the mid-layer's preparation set is
 * set again where a run that ended with GOOD changed it; a CDB that a driver changed it takes
 * again, as when the mid-layer sends a command once more. As smqsg_slot_issue().
 */
static __always_inline int smqsg_held_issue(struct smqsg_io *io, struct smqsg_fd *fd,
					    struct smqsg_slot *slot, u32 number, u32 varied,
					    blk_mq_req_flags_t flags)
{
	struct smqsg_held *held = &fd->held.entries[slot->held];
	u32 length = held->length;
	struct request *rq = NULL;
	struct scsi_cmnd *scmd;

	if (likely(slot->held))
		rq = smqsg_held_take(fd, held, number);
	if (unlikely(!rq))
		return smqsg_held_issue_first(io, fd, slot, flags);
	scmd = blk_mq_rq_to_pdu(rq);
	scmd->host_scribble = NULL;
	scmd->jiffies_at_alloc = jiffies;
	held->bio.bi_iter.bi_size = length;
	smqsg_bio_keep(&held->bio);
	rq->bio = held->data;
	rq->__data_len = length;
	rq->end_io_data = io;
	io->held = held;
	if (unlikely(varied || !held->clean))
		smqsg_held_vary(io, held, rq);
	if (slot->direct && smqsg_direct_issue(held, rq))
		return 0;
	blk_execute_rq_nowait(rq, false);
	return 0;
}

/*
 * smqsg_slot_issue() of a slot, its number and SMQ_SG_RUN_* that the caller has at hand. What a
 * slot holds is a request of another queue than those that are polled.
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
 * @io: one that smqsg_slot_take() filled, with a claim made for it
 * @fd: the file
 * @flags: BLK_MQ_REQ_NOWAIT; 0 in grant()
 * @polled: REQ_POLLED for a poll queue, else 0
 * @ioucmd: with it: the SQE, or that of its batch
 *
 * Return: 0, and the command may have ended already; else there was no request:
 * -EAGAIN: no tag, or the queue is frozen; -ENODEV; -EOPNOTSUPP: no poll queue. Process
 * context.
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
 * @ioucmd: with it: the SQE, or that of its batch
 * @alone: the submitter runs one slot, and claims its place here. Without it, for a batch, the
 *	caller has claimed a place and started a plug. A constant
 *
 * The one way by which a submitter's commands are sent, compiled into each of its callers.
 *
 * Return: 0: sent, and the command may have ended already. 1, if @alone: sent and ended, and the
 * caller posts the CQE. -EAGAIN: no place or no tag, and the slot is still taken. Another errno as
 * told at struct smq_sg_run: the slot is not taken, and its status tells. On an error a claim that
 * was made here is given back. Process context.
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
	if (alone && unlikely(!smqsg_claim(fd, 1)))
		return -EAGAIN;
	if (alone && !polled && unlikely(slot->direct))
		ret = smqsg_slot_issue_direct(io, fd, slot, number, varied, flags);
	else if (alone && unlikely(!current->plug))
		ret = smqsg_slot_issue_plugged(io, fd, flags, polled);
	else
		ret = smqsg_slot_issue_as(io, fd, slot, number, varied, flags, polled, ioucmd);
	if (likely(ret >= 0))
		return ret;
	if (alone)
		smqsg_unclaim(fd, 1);
	if (ret != -EAGAIN)
		smqsg_slot_drop(io, ret);
	return ret;
}

#endif /* SMQSG_ISSUE_H */
