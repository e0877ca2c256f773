/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The life of a command: a slot is taken for a run, which may have an LBA or a buffer of its own; a
 * request is made from it and sent; the request ends. The code that every run executes.
 */
#ifndef SMQSG_ISSUE_H
#define SMQSG_ISSUE_H

#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/nospec.h>
#include <smq/compat.h>
#include <smq/uring.h>

#include "cdb.h"
#include "data.h"
#include "io.h"
#include "place.h"

/* A bit beside SMQ_SG_RUN_*: the run has a value without the flag for it. */
#define SMQSG_RUN_BAD		BIT(31)

/**
 * struct smqsg_send - how a command is sent
 * @opf: the request's operation, with REQ_POLLED for a poll queue
 * @ioucmd: with REQ_POLLED: the SQE of the command or of its batch
 * @slot: its slot, unless it is not in one
 * @varied: the run's SMQ_SG_RUN_*
 * @flags: BLK_MQ_REQ_NOWAIT; 0 in grant()
 *
 * Only inline functions take it, so the compiler keeps its fields in registers.
 */
struct smqsg_send {
	blk_opf_t opf;
	struct io_uring_cmd *ioucmd;
	struct smqsg_slot *slot;
	u32 varied;
	blk_mq_req_flags_t flags;
};

u32 smqsg_run_vary_more(struct smqsg_io *io, u64 lba, u16 buffer, u16 flags);
int smqsg_slot_vary(struct smqsg_io *io, u32 varied);
void smqsg_slot_set_error(struct smqsg_fd *fd, u32 number, int error);
void smqsg_slot_drop(struct smqsg_io *io, int error);
void smqsg_slot_refused(struct smqsg_fd *fd, u32 number, int error);
int smqsg_slot_send_slowly(struct smqsg_io *io, blk_mq_req_flags_t flags, blk_opf_t polled,
			   struct io_uring_cmd *ioucmd);
int smqsg_slot_send_placed(struct smqsg_io *io, blk_opf_t polled, struct io_uring_cmd *ioucmd);
int smqsg_slot_send_alone(struct smqsg_io *io, struct smqsg_fd *fd, struct smqsg_slot *slot,
			  u32 varied);
int smqsg_io_wait(struct smqsg_io *io, struct task_struct *task, u32 slot, unsigned long timeout,
		  void (*grant)(struct smqsg_waiter *waiter, int got));
int smqsg_io_granted(struct smqsg_io *io, int got, int (*issue)(struct smqsg_io *io));
void smqsg_own_unsent(struct smqsg_io *io, struct smqsg_fd *fd, struct request *rq);
struct request *smqsg_request_take_spare(struct smqsg_fd *fd, blk_opf_t opf, struct request *error);
void smqsg_slot_apply_buffer(struct smqsg_io *io, struct request *rq);
void smqsg_slot_fill_mapped(struct request *rq, struct smqsg_slot *slot, struct bio *bio);
void smqsg_slot_good(struct smqsg_io *io, struct request *rq);
SMQ_END_IO(smqsg_slot_end, rq, error);
void smqsg_slot_end_unsent(struct smqsg_io *io, int error);

static inline struct smq_sg_status *smqsg_status(struct smqsg_fd *fd, u32 number)
{
	return fd->slots.status + (size_t)number * fd->slots.status_stride;
}

/*
 * Stores a run's own LBA and buffer, which smqsg_slot_take() will check. Returns SMQ_SG_RUN_* and
 * SMQSG_RUN_BAD.
 */
static __always_inline u32 smqsg_run_vary(struct smqsg_io *io, u64 lba, u16 buffer, u16 flags)
{
	if (unlikely(flags != SMQ_SG_RUN_LBA || buffer))
		return smqsg_run_vary_more(io, lba, buffer, flags);
	io->lba = lba;
	return SMQ_SG_RUN_LBA;
}

/**
 * smqsg_slot_find() - finds a slot by its number
 * @fd: the file
 * @number: the number, which comes from a program. If the slot is found, this is in range on
 *	return, also under speculation
 *
 * Return: the slot, or NULL if there is no slot with that number. Any context.
 */
static __always_inline struct smqsg_slot *smqsg_slot_find(struct smqsg_fd *fd, u32 *number)
{
	u32 slots = smqsg_slots(&fd->slots);

	if (unlikely(*number >= slots))
		return NULL;
	*number = array_index_nospec(*number, slots);
	return &fd->slots.array[*number];
}

/**
 * smqsg_slot_take() - takes a slot for a run
 * @io: the run, filled by smqsg_run_vary() if @varied is not 0
 * @fd: the file
 * @slot: the slot
 * @number: its number
 * @varied: what smqsg_run_vary() returned; 0: the run has no LBA or buffer of its own
 *
 * Return: 0: the caller then calls smqsg_slot_send() or smqsg_slot_drop(); else an errno as
 * described at struct smq_sg_run. Process context.
 */
static __always_inline int smqsg_slot_take(struct smqsg_io *io, struct smqsg_fd *fd,
					   struct smqsg_slot *slot, u32 number, u32 varied)
{
	int ret;

	if (unlikely(!smqsg_slot_try(&fd->slots, number)))
		return -EBUSY;
	io->slot = number;
	io->flags = 0;
	if (likely(slot->cdb_len && !varied))
		return 0;
	if (unlikely(!slot->cdb_len)) {
		ret = -ENODATA;
	} else if (likely(varied == SMQ_SG_RUN_LBA)) {
		ret = smqsg_lba_fits(slot->lba_bits, io->lba);
		io->flags = SMQ_SG_RUN_LBA;
	} else {
		ret = smqsg_slot_vary(io, varied);
	}
	if (unlikely(ret)) {
		smqsg_slot_set_error(fd, number, ret);
		smqsg_slot_give_back(&fd->slots, number);
	}
	return ret;
}

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

/* Tells whether a request has to be mapped by the block layer: see smqsg_own_limits_match(). */
static __always_inline bool smqsg_send_maps(const struct smqsg_send *send)
{
	return !send->slot || unlikely(!send->slot->bioless);
}

/*
 * Sends a command on the node's own queue. @placed: a place is reserved for it, and given back if
 * it is sent; a compile-time constant. Returns false if there is no token or no request for it, or
 * if the device takes no command now. Process context.
 */
static __always_inline bool smqsg_send_own(struct smqsg_io *io, struct smqsg_fd *fd,
					   const struct smqsg_origin *origin,
					   const struct smqsg_send *send, bool placed)
{
	struct request_queue *own = READ_ONCE(fd->own);
	struct request *rq;
	int token;

	if (unlikely(!own))
		return false;
	if (smqsg_send_maps(send) && unlikely(!smqsg_own_limits_match(own, fd->q)))
		return false;
	/*
	 * Before it has a token: whoever finds no token sees why, and does not reserve a place.
	 * And before a new request starts the scan, which then goes on until the command has ended.
	 */
	smqsg_count_sent(fd);
	rq = smqsg_own_request(io, fd, own, send->opf);
	if (unlikely(!rq))
		goto out_count;
	token = smqsg_token_take(fd->sdev, io->token);
	if (unlikely(token < 0))
		goto out_request;
	io->token = token;
	/* Before the command can end: its end finds no other place taken that is free. */
	if (placed) {
		/* Pairs with smqsg_inflight(): the command counts twice rather than not at all. */
		smp_mb__before_atomic();
		smqsg_count_places(fd, -1);
	}
	io->origin = origin;
	origin->fill(io, rq, send);
	rq->end_io = origin->end;
	if ((send->opf & REQ_POLLED) && unlikely(!smqsg_poll_on(&fd->polled, send->ioucmd, rq)))
		smqsg_token_put(fd->sdev, token);
	else if (likely(smqsg_straight_issue(fd, rq, token)))
		return true;
	if (placed) {
		smqsg_count_places(fd, 1);
		/* As above. */
		smp_mb__after_atomic();
	}
out_request:
	smqsg_own_unsent(io, fd, rq);
out_count:
	this_cpu_inc(fd->depth.own->sent_slowly);
	smqsg_count_out(fd);
	return false;
}

/*
 * Sends a command on the device's queue, with a place that is reserved for it. Returns 0 or an
 * errno: -EAGAIN: no tag, or the queue is frozen; -ENODEV; -EOPNOTSUPP: no poll queue.
 */
static __always_inline int smqsg_send_plain(struct smqsg_io *io, struct smqsg_fd *fd,
					    const struct smqsg_origin *origin,
					    const struct smqsg_send *send)
{
	struct request *rq = smqsg_request(fd, send->opf, send->flags);

	if (IS_ERR(rq))
		return PTR_ERR(rq);
	if ((send->opf & REQ_POLLED) && !smqsg_poll_on(&fd->polled, send->ioucmd, rq)) {
		blk_mq_free_request(rq);
		return -EOPNOTSUPP;
	}
	origin->fill(io, rq, send);
	rq->end_io = origin->end;
	blk_execute_rq_nowait(rq, false);
	return 0;
}

/*
 * Sends a command for which a place is reserved: with a token instead, or on the device's queue.
 * Returns 0: sent, and the command may have ended already; or as smqsg_send_plain(), and the caller
 * keeps the place.
 */
static __always_inline int smqsg_send_placed(struct smqsg_io *io, struct smqsg_fd *fd,
					     const struct smqsg_origin *origin,
					     const struct smqsg_send *send)
{
	if (smqsg_send_own(io, fd, origin, send, true))
		return 0;
	return smqsg_send_plain(io, fd, origin, send);
}

/*
 * Sends a command that could not be sent with a token alone. Returns as smqsg_send_placed(), or
 * -EAGAIN also if there is no place.
 */
static __always_inline int smqsg_send_slowly(struct smqsg_io *io, struct smqsg_fd *fd,
					     const struct smqsg_origin *origin,
					     const struct smqsg_send *send)
{
	int ret;

	if (!smqsg_reserve(fd))
		return -EAGAIN;
	ret = smqsg_send_placed(io, fd, origin, send);
	if (ret)
		smqsg_unreserve(fd, 1);
	return ret;
}

/* smqsg_origin.fill of slots. */
static __always_inline void smqsg_slot_fill_request(struct smqsg_io *io, struct request *rq,
						    const struct smqsg_send *send)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	struct smqsg_slot *slot = send->slot;

	memcpy(scmd->cmnd, slot->cdb, sizeof(slot->cdb));
	scmd->cmd_len = slot->cdb_len;
	if (likely(slot->bioless) && smqsg_bioless_tag(rq))
		smqsg_bioless_prepare(io->fd, rq, slot->direction, slot);
	else
		smqsg_slot_fill_mapped(rq, slot, &io->bio);
	if (send->varied & SMQ_SG_RUN_LBA)
		smqsg_lba_set(scmd->cmnd, slot->lba_bits, io->lba);
	if (unlikely(send->varied & SMQ_SG_RUN_BUFFER))
		smqsg_slot_apply_buffer(io, rq);
	rq->timeout = slot->timeout;
	rq->end_io_data = io;
}

static const struct smqsg_origin smqsg_slot_origin = {
	.fill = smqsg_slot_fill_request,
	.good = smqsg_slot_good,
	.end = smqsg_slot_end,
};

static __always_inline blk_opf_t smqsg_slot_op(const struct smqsg_slot *slot)
{
	return slot->direction == SMQ_SG_OUT ? REQ_OP_DRV_OUT : REQ_OP_DRV_IN;
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

/*
 * Sends the command of a slot that is taken. Returns 0: sent, and the command may have ended
 * already; or as smqsg_send_slowly().
 */
static __always_inline int smqsg_slot_send(struct smqsg_io *io, struct smqsg_fd *fd,
					   const struct smqsg_send *send)
{
	if (smqsg_is_open(fd) && likely(smqsg_send_own(io, fd, &smqsg_slot_origin, send, false)))
		return 0;
	return smqsg_slot_send_slowly(io, send->flags, send->opf & REQ_POLLED, send->ioucmd);
}

/**
 * smqsg_slot_start() - takes a slot and sends its command
 * @io: the run
 * @fd: the file
 * @number: the slot's number
 * @send: how it is to be sent, @send->slot from smqsg_slot_find(), @send->varied what
 *	smqsg_run_vary() returned; @send->opf is REQ_POLLED or 0
 * @alone: true: the submitter runs one slot. False: a batch, and the caller has started a plug. A
 *	compile-time constant
 *
 * Used for every run that has not waited. Compiled into each caller.
 *
 * Return: 0: sent, and the command may have ended already. 1, if @alone: sent and ended, and the
 * caller posts the CQE. -EAGAIN: no place or no tag, and the slot is still taken. Another errno as
 * described at struct smq_sg_run: the slot is not taken, and its status has the error. Process
 * context.
 */
static __always_inline int smqsg_slot_start(struct smqsg_io *io, struct smqsg_fd *fd, u32 number,
					    struct smqsg_send *send, bool alone)
{
	int ret = smqsg_slot_take(io, fd, send->slot, number, send->varied);

	if (unlikely(ret))
		return ret;
	if (alone && !send->opf) {
		ret = smqsg_slot_send_alone(io, fd, send->slot, send->varied);
	} else {
		send->opf |= smqsg_slot_op(send->slot);
		ret = smqsg_slot_send(io, fd, send);
	}
	if (unlikely(ret < 0 && ret != -EAGAIN))
		smqsg_slot_drop(io, ret);
	return ret;
}

/* Keeps a request of the own queue that ended with GOOD or was not sent, or frees it. */
static __always_inline void smqsg_request_give_back(struct smqsg_io *io, struct smqsg_fd *fd,
						    struct request *rq)
{
	if (likely(smqsg_idle_keep(&io->idle, &fd->pool, rq)))
		return;
	smqsg_idle_forget(&io->idle, fd, rq);
	blk_mq_free_request(rq);
}

/*
 * The first part of smqsg_origin.good: gives the request back. Called before the command's struct
 * can be used again. Any context.
 */
static __always_inline void smqsg_request_good(struct smqsg_io *io, struct smqsg_fd *fd,
					       struct request *rq)
{
	smqsg_straight_ended(fd);
	smqsg_request_give_back(io, fd, rq);
	smqsg_kick_waiting(fd->sg);
}

/*
 * The first part of smqsg_origin.end: keeps a request of the own queue that ended with GOOD (after
 * an error, error handling may have changed it), and gives back the command's place. Returns what
 * the request's end_io returns. Any context.
 */
static inline enum rq_end_io_ret smqsg_request_ended(struct smqsg_io *io, struct smqsg_fd *fd,
						     struct request *rq, bool failed)
{
	enum rq_end_io_ret ret = RQ_END_IO_NONE;

	if (rq->q == fd->q) {
		smqsg_release(fd);
		return RQ_END_IO_FREE;
	}
	smqsg_straight_ended(fd);
	if (failed || !smqsg_idle_keep(&io->idle, &fd->pool, rq)) {
		smqsg_idle_forget(&io->idle, fd, rq);
		ret = RQ_END_IO_FREE;
	}
	smqsg_count_out(fd);
	return ret;
}

/* Where the SQE that runs a slot stores the pointer to its struct smqsg_io. */
static inline struct smqsg_io **smqsg_slot_pdu(struct io_uring_cmd *ioucmd)
{
	return (struct smqsg_io **)ioucmd->pdu;
}

/**
 * smqsg_slot_post_cqe() - posts the CQE of a slot that was run alone, not in a batch
 * @ioucmd: its SQE
 * @issue_flags: IO_URING_F_*, from io_uring for task work; a poller sets them itself
 *
 * Runs in the task that submitted the SQE, or in a poller of its file.
 */
static inline void smqsg_slot_post_cqe(struct io_uring_cmd *ioucmd, unsigned int issue_flags)
{
	struct smqsg_io *io = *smqsg_slot_pdu(ioucmd);
	int result = io->result;

	smqsg_slot_put_buffer(io);
	smqsg_io_put(io);
	smq_uring_done(ioucmd, result, issue_flags);
}

#endif /* SMQSG_ISSUE_H */
