// SPDX-License-Identifier: GPL-2.0
/*
 * Running slots: from a slot to a request, and from its end to the status.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/blk-mq.h>
#include <linux/nospec.h>
#include <scsi/scsi_common.h>
#include <scsi/scsi_eh.h>
#include <smq/uring.h>

#include "batch.h"
#include "cdb.h"
#include "issue.h"

static struct smq_sg_status *smqsg_status(struct smqsg_fd *fd, u32 number)
{
	return fd->status + (size_t)number * fd->status_stride;
}

/* What a run asks for beside its slot. The slot is held. Process context. */
int smqsg_slot_vary(struct smqsg_io *io, const struct smq_sg_run *run)
{
	struct smqsg_fd *fd = io->fd;
	struct smqsg_slot *slot = &fd->slots[io->slot];
	bool many;
	int ret;

	if (run->flags & ~(SMQ_SG_RUN_LBA | SMQ_SG_RUN_BUFFER))
		return -EINVAL;
	if (run->flags & SMQ_SG_RUN_LBA) {
		ret = smqsg_lba_fits(fd->sdev, slot->cdb, run->lba);
		if (ret)
			return ret;
		io->lba = run->lba;
	}
	if (!(run->flags & SMQ_SG_RUN_BUFFER)) {
		io->flags = run->flags;
		return 0;
	}
	if (!slot->data.length)
		return -EINVAL;
	io->buffer = smqsg_buffer_get(&fd->buffers, run->buffer);
	if (!io->buffer)
		return -ENOENT;
	ret = -EINVAL;
	if (!io->buffer->readonly || slot->direction == SMQ_SG_OUT)
		ret = smqsg_buffer_extent(fd->q, io->buffer, slot->offset, slot->data.length,
					  &io->other.data, &many);
	if (ret < 0) {
		smqsg_buffer_put(io->buffer);
		return ret;
	}
	io->other.segments = ret;
	io->other.many = many;
	io->flags = run->flags;
	return 0;
}

/**
 * smqsg_slot_note() - notes in its status why a slot was not run
 * @fd: the file
 * @number: the slot, with its bit in @fd->busy held by the caller
 * @error: an errno, below 0
 *
 * Process context.
 */
void smqsg_slot_note(struct smqsg_fd *fd, u32 number, int error)
{
	struct smq_sg_status *status = smqsg_status(fd, number);

	*status = (struct smq_sg_status) { .result = error, .runs = status->runs };
}

/**
 * smqsg_slot_drop() - gives back a slot that was not issued
 * @io: one that smqsg_slot_take() filled
 * @error: an errno, below 0, for its status; 0 if it is to be sent yet
 *
 * Process context.
 */
void smqsg_slot_drop(struct smqsg_io *io, int error)
{
	smqsg_slot_let_go(io);
	if (error)
		smqsg_slot_note(io->fd, io->slot, error);
	clear_bit_unlock(io->slot, io->fd->busy);
}

/**
 * smqsg_slot_refused() - notes that a slot could not be run, which was never taken for it
 * @fd: the file
 * @number: the slot
 * @error: an errno, below 0
 *
 * A slot that does not exist has no status, and that of one in flight is still to
 * come: both are left alone. Process context.
 */
void smqsg_slot_refused(struct smqsg_fd *fd, u32 number, int error)
{
	u32 slots = smqsg_slots(fd);

	/* With EBUSY it was in flight, be it so no longer. */
	if (number >= slots || error == -EBUSY)
		return;
	number = array_index_nospec(number, slots);
	if (test_and_set_bit_lock(number, fd->busy))
		return;
	smqsg_slot_note(fd, number, error);
	clear_bit_unlock(number, fd->busy);
}

/* Sense and what went wrong: everything but GOOD. */
static noinline int smqsg_slot_failed(struct smqsg_io *io, struct smq_sg_status *status,
				      struct scsi_cmnd *scmd, blk_status_t error)
{
	struct scsi_sense_hdr sense;
	int result;

	/* The mid-layer had no chance to say anything. */
	if (!scmd->result)
		return blk_status_to_errno(error);
	result = (scmd->result & 0xff) | host_byte(scmd->result) << 8;
	/* A driver's own bits are not told, but it is not GOOD. */
	if (!result)
		return -EIO;
	if (scmd->resid_len)
		result |= SMQ_SG_RESULT_SHORT;
	if (!scmd->sense_len)
		return result;
	result |= SMQ_SG_RESULT_SENSE;
	if (scsi_normalize_sense(scmd->sense_buffer, scmd->sense_len, &sense)) {
		status->sense_key = sense.sense_key;
		status->asc = sense.asc;
		status->ascq = sense.ascq;
	}
	status->sense_len = min(scmd->sense_len, io->fd->sense_size);
	memcpy(status->sense, scmd->sense_buffer, status->sense_len);
	return result;
}

SMQ_URING_TASK_FN(smqsg_slot_told, smqsg_slot_tell)

/* The end of a straight issue: true if its submitter is still there, to tell. */
static inline bool smqsg_slot_met(struct smqsg_io *io)
{
	if (atomic_xchg(&io->meet, SMQSG_MEET_END) == SMQSG_MEET_NOBODY)
		return true;
	atomic_set(&io->meet, SMQSG_MEET_NOT);
	return false;
}

/*
 * The rest of an end: the slot may be run again, then whoever waits is told. What is needed is read
 * before anything is written, which for the compiler may be the same memory.
 */
static __always_inline void smqsg_slot_let_run(struct smqsg_io *io, struct smqsg_fd *fd,
					       struct smqsg_batch *batch, u32 slot, int result,
					       bool polled, bool direct)
{
	clear_bit_unlock(slot, fd->busy);

	smqsg_release(fd, 1);
	if (batch) {
		smqsg_batch_end(batch, io, result);
	} else {
		io->result = result;
		if (unlikely(polled))
			smqsg_poll_ended(&fd->polled.ended, io->ioucmd);
		else if (!direct || likely(!atomic_read(&io->meet) || !smqsg_slot_met(io)))
			io_uring_cmd_complete_in_task(io->ioucmd, smqsg_slot_told);
	}
}

static __always_inline void smqsg_slot_result(struct smq_sg_status *status, int result, u32 resid)
{
	status->runs++;
	status->result = result;
	status->resid = resid;
}

/* The end of a command that did not end with GOOD. */
static noinline enum rq_end_io_ret smqsg_slot_ended_badly(struct smqsg_io *io, struct request *rq,
							  blk_status_t error)
{
	struct smq_sg_status *status = smqsg_status(io->fd, io->slot);
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	int result = smqsg_slot_failed(io, status, scmd, error);

	smqsg_slot_result(status, result, scmd->resid_len);
	smqsg_slot_let_run(io, io->fd, io->batch, io->slot, result, rq->cmd_flags & REQ_POLLED,
			   true);
	return RQ_END_IO_FREE;
}

/* Of a held slot's: error handling may have changed the request in ways that nobody knows. */
static noinline enum rq_end_io_ret smqsg_held_ended_badly(struct smqsg_io *io, struct request *rq,
							  blk_status_t error)
{
	smqsg_held_release(io->fd, io->held);
	return smqsg_slot_ended_badly(io, rq, error);
}

/* And of one whose request somebody may want, with GOOD. */
static noinline enum rq_end_io_ret smqsg_held_ended_wanted(struct smqsg_io *io, struct request *rq)
{
	struct smqsg_fd *fd = io->fd;
	struct smqsg_held *held = io->held;
	bool kept = !READ_ONCE(fd->held_over) &&
		    !smqsg_held_wanted(rq->q, held->hctx, held->asleep);

	if (kept)
		smqsg_held_keep(held, rq);
	else
		smqsg_held_release(fd, held);
	smqsg_slot_let_run(io, fd, io->batch, io->slot, 0, false, true);
	return kept ? RQ_END_IO_NONE : RQ_END_IO_FREE;
}

/*
 * The end of a slot's command: any context. @hold: the slot may keep the request. @direct: its
 * submitter may be about to tell.
 */
static __always_inline enum rq_end_io_ret smqsg_slot_ended(struct request *rq, blk_status_t error,
							   bool hold, bool direct)
{
	struct smqsg_io *io = rq->end_io_data;
	struct smqsg_fd *fd = io->fd;
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	struct smqsg_batch *batch = io->batch;
	u32 resid = scmd->resid_len;
	u32 slot = io->slot;
	struct smq_sg_status *status = smqsg_status(fd, slot);
	int failed = scmd->result | (__force int)error;

	/* Key, code, qualifier and length of the sense: one word. */
	*(u32 *)&status->sense_key = 0;
	if (unlikely(failed))
		return hold ? smqsg_held_ended_badly(io, rq, error) :
			smqsg_slot_ended_badly(io, rq, error);
	smqsg_slot_result(status, 0, resid);
	if (hold) {
		/* The mid-layer may refuse the next run before it sets this. */
		if (unlikely(resid))
			scmd->resid_len = 0;
		if (!smqsg_held_may_keep(fd, io->held, rq))
			return smqsg_held_ended_wanted(io, rq);
		/* Before the slot can be run again. */
		smqsg_held_keep(io->held, rq);
	}
	smqsg_slot_let_run(io, fd, batch, slot, 0, !hold && (rq->cmd_flags & REQ_POLLED), direct);
	return hold ? RQ_END_IO_NONE : RQ_END_IO_FREE;
}

SMQ_END_IO(smqsg_slot_end, rq, error)
{
	return smqsg_slot_ended(rq, error, false, true);
}

SMQ_END_IO(smqsg_held_end, rq, error)
{
	return smqsg_slot_ended(rq, error, true, false);
}

SMQ_END_IO(smqsg_direct_end, rq, error)
{
	return smqsg_slot_ended(rq, error, true, true);
}

/* What a run wants otherwise than its slot has it. Process context. */
void smqsg_slot_varied(struct smqsg_io *io, struct request *rq)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);

	if (io->flags & SMQ_SG_RUN_LBA)
		smqsg_lba_set(scmd->cmnd, io->lba);
	if (io->flags & SMQ_SG_RUN_BUFFER)
		smqsg_slot_arm(&io->bio, rq, &io->other);
}

/* Sends one without a plug around: one of its own spares the detour by the hctx's list. */
static noinline int smqsg_slot_issue_plugged(struct smqsg_io *io, struct smqsg_fd *fd,
					     blk_mq_req_flags_t flags, blk_opf_t polled)
{
	struct blk_plug plug;
	int ret;

	blk_start_plug(&plug);
	ret = smqsg_slot_issue(io, fd, flags, polled, io->ioucmd);
	blk_finish_plug(&plug);
	return ret;
}

/* A slot's turn has come, or will not come. */
static void smqsg_slot_grant(struct smqsg_waiter *waiter, int got)
{
	struct smqsg_io *io = container_of(waiter, struct smqsg_io, waiter);
	bool polled = smq_uring_polled(io->ioucmd);
	int ret = got;

	if (got > 0) {
		ret = smqsg_slot_issue_plugged(io, io->fd, 0, polled ? REQ_POLLED : 0);
		if (!ret)
			return;
		smqsg_release(io->fd, 1);
	}
	io->result = ret;
	smqsg_slot_drop(io, ret);
	if (polled)
		smqsg_poll_ended(&io->fd->polled.ended, io->ioucmd);
	else
		io_uring_cmd_complete_in_task(io->ioucmd, smqsg_slot_told);
}

static noinline int smqsg_slot_wait(struct smqsg_io *io)
{
	struct smqsg_fd *fd = io->fd;

	io->waiter.owner = NULL;
	io->waiter.front = false;
	io->waiter.want = 1;
	io->waiter.deadline = jiffies + fd->slots[io->slot].timeout;
	io->waiter.grant = smqsg_slot_grant;
	return smqsg_wait(fd, &io->waiter);
}

/* It was not sent, and holds no slot. Returns as smqsg_slot_run(). */
static noinline int smqsg_slot_unsent(struct smqsg_io *io, int error, unsigned int issue_flags)
{
	struct io_uring_cmd *ioucmd = io->ioucmd;

	smqsg_io_put(io);
	if (error != -EAGAIN)
		return error;
	smq_uring_done(ioucmd, error, issue_flags);
	return -EIOCBQUEUED;
}

/* There was no place, or no tag: it waits for its turn. Returns as smqsg_slot_run(). */
static noinline int smqsg_slot_later(struct smqsg_io *io, int error, unsigned int issue_flags)
{
	if (error == -EAGAIN)
		error = smqsg_slot_wait(io);
	if (!error)
		return -EIOCBQUEUED;
	smqsg_slot_drop(io, error);
	return smqsg_slot_unsent(io, error, issue_flags);
}

/*
 * Sends a slot's command past the plug, where it may end before this does: then that is told here,
 * without task work. Returns as smqsg_slot_run(), or -EAGAIN.
 */
static noinline int smqsg_slot_start_direct(struct smqsg_io *io, struct smqsg_fd *fd,
					    struct smqsg_slot *slot, u32 number, u32 varied,
					    unsigned int issue_flags)
{
	struct io_uring_cmd *ioucmd = io->ioucmd;
	int ret;

	atomic_set(&io->meet, SMQSG_MEET_NOBODY);
	ret = smqsg_slot_issue_as(io, fd, slot, number, varied, BLK_MQ_REQ_NOWAIT, true, 0, NULL);
	if (unlikely(ret)) {
		atomic_set(&io->meet, SMQSG_MEET_NOT);
		return ret;
	}
	if (atomic_xchg(&io->meet, SMQSG_MEET_SUBMITTER) == SMQSG_MEET_NOBODY)
		return -EIOCBQUEUED;
	atomic_set(&io->meet, SMQSG_MEET_NOT);
	ret = io->result;
	smqsg_slot_let_go(io);
	smqsg_io_put(io);
	/* What io_uring takes from a handler as a result. */
	if (likely(!ret))
		return 0;
	smq_uring_done(ioucmd, ret, issue_flags);
	return -EIOCBQUEUED;
}

static __always_inline int smqsg_slot_start(struct smqsg_io *io, struct smqsg_fd *fd,
					    struct smqsg_slot *slot, u32 number, u32 varied,
					    unsigned int issue_flags)
{
	blk_opf_t polled = issue_flags & IO_URING_F_IOPOLL ? REQ_POLLED : 0;
	int ret;

	if (unlikely(!smqsg_claim(fd, 1)))
		return smqsg_slot_later(io, -EAGAIN, issue_flags);
	if (!polled && unlikely(slot->direct)) {
		ret = smqsg_slot_start_direct(io, fd, slot, number, varied, issue_flags);
		if (likely(!ret || ret == -EIOCBQUEUED))
			return ret;
	} else {
		ret = likely(current->plug) ?
			smqsg_slot_issue_as(io, fd, slot, number, varied, BLK_MQ_REQ_NOWAIT,
					    false, polled, io->ioucmd) :
			smqsg_slot_issue_plugged(io, fd, BLK_MQ_REQ_NOWAIT, polled);
		if (likely(!ret))
			return -EIOCBQUEUED;
	}
	smqsg_release(fd, 1);
	return smqsg_slot_later(io, ret, issue_flags);
}

/* A run that has something its slot has not. */
static noinline int smqsg_slot_run_varied(struct smqsg_io *io, struct smqsg_fd *fd,
					  const struct smq_sg_run *sqe, u16 flags,
					  unsigned int issue_flags)
{
	const struct smq_sg_run run = {
		.slot = READ_ONCE(sqe->slot),
		.buffer = READ_ONCE(sqe->buffer),
		.flags = flags,
		.lba = READ_ONCE(sqe->lba),
	};
	int ret;

	ret = smqsg_slot_take(io, fd, run.slot, &run);
	return ret ? smqsg_slot_unsent(io, ret, issue_flags) :
		     smqsg_slot_start(io, fd, &fd->slots[io->slot], io->slot, io->flags,
				      issue_flags);
}

/*
 * SMQ_SG_URING_RUN. Returns -EIOCBQUEUED, or an errno but -EAGAIN, with which io_uring
 * would try again by itself: that goes straight into the CQE.
 */
static __always_inline int smqsg_slot_run(struct smqsg_fd *fd, struct io_uring_cmd *ioucmd,
					  unsigned int issue_flags)
{
	const struct smq_sg_run *sqe = smq_uring_payload(ioucmd);
	/* Each field once: another thread may be writing it. */
	u16 flags = READ_ONCE(sqe->flags);
	struct smqsg_slot *slot;
	struct smqsg_io *io;
	u32 number, slots;
	int ret;

	if (unlikely(!smqsg_may_run(&fd->owner)))
		return -EPERM;
	io = smqsg_io_get(fd);
	if (unlikely(!io)) {
		smqsg_slot_refused(fd, READ_ONCE(sqe->slot), -ENOMEM);
		return -ENOMEM;
	}
	io->batch = NULL;
	io->ioucmd = ioucmd;
	*smqsg_slot_pdu(ioucmd) = io;
	if (unlikely(flags))
		return smqsg_slot_run_varied(io, fd, sqe, flags, issue_flags);
	number = READ_ONCE(sqe->slot);
	slots = smqsg_slots(fd);
	if (unlikely(number >= slots))
		return smqsg_slot_unsent(io, -EINVAL, issue_flags);
	number = array_index_nospec(number, slots);
	slot = &fd->slots[number];
	ret = smqsg_slot_take_valid(io, fd, slot, number, NULL);
	if (unlikely(ret))
		return smqsg_slot_unsent(io, ret, issue_flags);
	return smqsg_slot_start(io, fd, slot, number, 0, issue_flags);
}

/*
 * Any of them by a ring that is polled, or is not: made once for each, so that neither costs the
 * other more than a branch.
 */
static __always_inline int smqsg_uring_cmd_of(struct smqsg_fd *fd, struct io_uring_cmd *ioucmd,
					      unsigned int issue_flags)
{
	if (likely(ioucmd->cmd_op == SMQ_SG_URING_RUN))
		return smqsg_slot_run(fd, ioucmd, issue_flags);
	if (ioucmd->cmd_op == SMQ_SG_URING_BATCH)
		return smqsg_batch_run(fd, ioucmd, issue_flags);
	return smqsg_adhoc_run(fd, ioucmd, issue_flags);
}

static noinline notrace int smqsg_uring_cmd_plain(struct io_uring_cmd *ioucmd,
						  unsigned int issue_flags)
{
	/* What the compiler has to know, and no instruction is to see to. */
	if (issue_flags & IO_URING_F_IOPOLL)
		__builtin_unreachable();
	return smqsg_uring_cmd_of(ioucmd->file->private_data, ioucmd, issue_flags);
}

/* Refuses an SQE of a polled ring, and says why. */
static noinline int smqsg_poll_refuse(struct smqsg_fd *fd)
{
	pr_err_ratelimited("%s: a ring with IORING_SETUP_IOPOLL, but its host has no poll queues\n",
			   dev_name(&fd->sg->dev));
	return -EOPNOTSUPP;
}

static noinline notrace int smqsg_uring_cmd_polled(struct io_uring_cmd *ioucmd,
						   unsigned int issue_flags)
{
	struct smqsg_fd *fd = ioucmd->file->private_data;

	if (unlikely(READ_ONCE(fd->polled.state) == SMQSG_POLL_NOT))
		return smqsg_poll_refuse(fd);
	smqsg_polled(ioucmd)->hctx = NULL;
	return smqsg_uring_cmd_of(fd, ioucmd, issue_flags | IO_URING_F_IOPOLL);
}

/**
 * smqsg_uring_cmd() - takes an SQE
 * @ioucmd: what it carries
 * @issue_flags: io_uring's
 *
 * Two jumps: neither kind of ring saves registers for the other.
 *
 * Return: -EIOCBQUEUED or an errno. Process context; without IO_URING_F_NONBLOCK a
 * worker of io_uring.
 */
int smqsg_uring_cmd(struct io_uring_cmd *ioucmd, unsigned int issue_flags)
{
	if (unlikely(issue_flags & IO_URING_F_IOPOLL))
		return smqsg_uring_cmd_polled(ioucmd, issue_flags);
	return smqsg_uring_cmd_plain(ioucmd, issue_flags);
}
