/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Makes a request from a slot: the code that every run executes.
 */
#ifndef SMQSG_ISSUE_H
#define SMQSG_ISSUE_H

#include <linux/blkdev.h>

#include "bioless.h"
#include "cdb.h"
#include "direct.h"
#include "end.h"
#include "reserve.h"

int smqsg_slot_issue_plain(struct smqsg_io *io, struct smqsg_fd *fd, blk_mq_req_flags_t flags,
			   blk_opf_t polled, struct io_uring_cmd *ioucmd);
int smqsg_slot_issue_alone(struct smqsg_io *io, struct smqsg_fd *fd, struct smqsg_slot *slot,
			   u32 varied, blk_mq_req_flags_t flags);
int smqsg_io_wait(struct smqsg_io *io, u32 slot, unsigned long timeout,
		  void (*grant)(struct smqsg_waiter *waiter, int got));
int smqsg_io_granted(struct smqsg_io *io, int got, int (*issue)(struct smqsg_io *io));
void smqsg_own_unsent(struct smqsg_io *io, struct smqsg_fd *fd, struct request *rq);
struct request *smqsg_request_take_spare(struct smqsg_fd *fd, blk_opf_t opf, struct request *error);
void smqsg_slot_apply_buffer(struct smqsg_io *io, struct request *rq);
void smqsg_slot_fill_mapped(struct request *rq, struct smqsg_slot *slot, struct bio *bio);

/*
 * Allocates a request of the device's queue, without sleeping. In grant(), where @flags is 0, the
 * dispatcher's spare request is used if there is no other. Process context.
 */
static inline struct request *smqsg_request(struct smqsg_fd *fd, blk_opf_t opf,
					    blk_mq_req_flags_t flags)
{
	struct request *rq = scsi_alloc_request(fd->q, opf, flags | BLK_MQ_REQ_NOWAIT);

	if (IS_ERR(rq) && !(flags & BLK_MQ_REQ_NOWAIT))
		rq = smqsg_request_take_spare(fd, opf, rq);
	return rq;
}

/*
 * Returns a request of the node's own queue @own: the command's idle one, or a new one; NULL if
 * there is none. Process context.
 */
static __always_inline struct request *smqsg_own_request(struct smqsg_io *io, struct smqsg_fd *fd,
							 struct request_queue *own, blk_opf_t opf)
{
	struct request *rq = smqsg_idle_take(&io->idle, fd, opf);

	return likely(rq) ? rq : smqsg_idle_new(&io->idle, fd, own, opf);
}

/* Fills a request with a command that is not in a slot; its data is given to the request apart. */
static __always_inline void smqsg_fill_request(struct request *rq, const u8 *cdb, u8 cdb_len,
					       unsigned int timeout, void *end_io_data)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);

	memcpy(scmd->cmnd, cdb, sizeof(scmd->cmnd));
	scmd->cmd_len = cdb_len;
	scmd->allowed = 0;
	scmd->result = 0;
	scmd->resid_len = 0;
	rq->timeout = timeout;
	rq->end_io_data = end_io_data;
}

/* Fills a request with a slot's command. @varied: the run's SMQ_SG_RUN_*. */
static __always_inline void smqsg_slot_fill_request(struct smqsg_io *io, struct request *rq,
						    struct smqsg_slot *slot, u32 varied)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);

	memcpy(scmd->cmnd, slot->cdb, sizeof(slot->cdb));
	scmd->cmd_len = slot->cdb_len;
	if (likely(slot->bioless) && smqsg_bioless_tag(rq))
		smqsg_bioless_prepare(io->fd, rq, slot->direction, slot);
	else
		smqsg_slot_fill_mapped(rq, slot, &io->bio);
	if (varied & SMQ_SG_RUN_LBA)
		smqsg_lba_set(scmd->cmnd, slot->lba_bits, io->lba);
	if (unlikely(varied & SMQ_SG_RUN_BUFFER))
		smqsg_slot_apply_buffer(io, rq);
	rq->timeout = slot->timeout;
	rq->end_io_data = io;
}

static __always_inline blk_opf_t smqsg_slot_op(const struct smqsg_slot *slot)
{
	return slot->direction == SMQ_SG_OUT ? REQ_OP_DRV_OUT : REQ_OP_DRV_IN;
}

/*
 * Sends a slot's command on the node's own queue. Returns false if that has no request for it, or
 * if the device takes no command now.
 */
static __always_inline bool smqsg_slot_issue_own(struct smqsg_io *io, struct smqsg_fd *fd,
						 struct smqsg_slot *slot, u32 varied,
						 blk_opf_t polled, struct io_uring_cmd *ioucmd)
{
	struct request_queue *own = READ_ONCE(fd->own);
	struct request *rq;

	if (unlikely(!own))
		return false;
	if (unlikely(!slot->bioless) && !smqsg_own_limits_match(own, fd->q))
		return false;
	rq = smqsg_own_request(io, fd, own, smqsg_slot_op(slot) | polled);
	if (unlikely(!rq))
		return false;
	smqsg_slot_fill_request(io, rq, slot, varied);
	rq->end_io = smqsg_slot_end_own;
	if (polled && unlikely(!smqsg_poll_on(&fd->polled, ioucmd, rq)))
		goto unsent;
	if (likely(smqsg_direct_issue(fd, rq, &io->token)))
		return true;
unsent:
	smqsg_own_unsent(io, fd, rq);
	return false;
}

/*
 * smqsg_slot_issue() for a caller that has the slot and SMQ_SG_RUN_* at hand.
 */
static __always_inline int smqsg_slot_issue_as(struct smqsg_io *io, struct smqsg_fd *fd,
					       struct smqsg_slot *slot, u32 varied,
					       blk_mq_req_flags_t flags, blk_opf_t polled,
					       struct io_uring_cmd *ioucmd)
{
	if (likely(smqsg_slot_issue_own(io, fd, slot, varied, polled, ioucmd)))
		return 0;
	return smqsg_slot_issue_plain(io, fd, flags, polled, ioucmd);
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
static inline int smqsg_slot_issue(struct smqsg_io *io, struct smqsg_fd *fd,
				   blk_mq_req_flags_t flags, blk_opf_t polled,
				   struct io_uring_cmd *ioucmd)
{
	struct smqsg_slot *slot = &fd->slots.array[io->slot];

	return smqsg_slot_issue_as(io, fd, slot, io->flags, flags, polled, ioucmd);
}

/**
 * smqsg_slot_start() - takes a slot and sends its command
 * @io: the run
 * @fd: the file
 * @slot: the slot, from smqsg_slot_find()
 * @number: its number
 * @varied: what smqsg_run_vary() returned; 0: the run asks for nothing else
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
					    u32 varied, blk_mq_req_flags_t flags, blk_opf_t polled,
					    struct io_uring_cmd *ioucmd, bool alone)
{
	int ret = smqsg_slot_take(io, fd, slot, number, varied);

	if (unlikely(ret))
		return ret;
	if (alone && unlikely(!smqsg_reserve(fd, 1)))
		return -EAGAIN;
	if (alone && !polled)
		ret = smqsg_slot_issue_alone(io, fd, slot, varied, flags);
	else
		ret = smqsg_slot_issue_as(io, fd, slot, varied, flags, polled, ioucmd);
	if (likely(ret >= 0))
		return ret;
	if (alone)
		smqsg_unreserve(fd, 1);
	if (ret != -EAGAIN)
		smqsg_slot_drop(io, ret);
	return ret;
}

#endif /* SMQSG_ISSUE_H */
