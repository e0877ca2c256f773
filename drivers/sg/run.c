// SPDX-License-Identifier: GPL-2.0
/*
 * SQEs: a slot run alone, here; batches and ad hoc commands are handed on.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/blkdev.h>
#include <linux/nospec.h>
#include <smq/uring.h>

#include "adhoc.h"
#include "batch.h"
#include "claim.h"
#include "end.h"
#include "issue.h"
#include "refuse.h"
#include "run.h"

/* Sends one where there is no plug: its own spares the way through the hctx's list. */
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

/* smqsg_waiter.grant of a slot that waited. */
static void smqsg_slot_grant(struct smqsg_waiter *waiter, int got)
{
	struct smqsg_io *io = container_of(waiter, struct smqsg_io, waiter);
	bool polled = smq_uring_polled(io->ioucmd);
	int ret = got;

	if (got > 0) {
		ret = smqsg_slot_issue_plugged(io, io->fd, 0, polled ? REQ_POLLED : 0);
		if (!ret)
			return;
		smqsg_unclaim(io->fd, 1);
		if (ret == -EAGAIN)
			ret = smqsg_wait_first(io->fd, waiter);
		if (!ret)
			return;
	}
	smqsg_slot_end_unsent(io, ret);
}

static noinline int smqsg_slot_wait(struct smqsg_io *io)
{
	struct smqsg_fd *fd = io->fd;

	io->waiter.task = smq_uring_task(io->ioucmd);
	io->waiter.waited = false;
	io->waiter.left = false;
	io->waiter.slot = io->slot;
	io->waiter.want = 1;
	io->waiter.deadline = jiffies + fd->slots.array[io->slot].timeout;
	io->waiter.grant = smqsg_slot_grant;
	return smqsg_wait(fd, &io->waiter);
}

/* Ends a run that was not sent and has no slot. Returns as smqsg_slot_run(). */
static noinline int smqsg_slot_unsent(struct smqsg_io *io, int error, unsigned int issue_flags)
{
	struct io_uring_cmd *ioucmd = io->ioucmd;

	smqsg_io_put(io);
	if (error != -EAGAIN)
		return error;
	smq_uring_done(ioucmd, error, issue_flags);
	return -EIOCBQUEUED;
}

/* Has a run wait for its turn, for want of a place or a tag. Returns as smqsg_slot_run(). */
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
 * Sends a slot's command past the plug. If it ends before this function does, the CQE is posted
 * here, without task work. Returns as smqsg_slot_run(), or -EAGAIN.
 */
static noinline int smqsg_slot_start_direct(struct smqsg_io *io, struct smqsg_fd *fd,
					    struct smqsg_slot *slot, u32 number, u32 varied,
					    unsigned int issue_flags)
{
	struct io_uring_cmd *ioucmd = io->ioucmd;
	int ret;

	atomic_set(&io->meet, SMQSG_MEET_OPEN);
	ret = smqsg_slot_issue_as(io, fd, slot, number, varied, BLK_MQ_REQ_NOWAIT, true, 0, NULL);
	if (unlikely(ret)) {
		atomic_set(&io->meet, SMQSG_MEET_NOT);
		return ret;
	}
	if (atomic_xchg(&io->meet, SMQSG_MEET_SUBMITTER) == SMQSG_MEET_OPEN)
		return -EIOCBQUEUED;
	atomic_set(&io->meet, SMQSG_MEET_NOT);
	ret = io->result;
	smqsg_slot_let_go(io);
	smqsg_io_put(io);
	/* io_uring takes this as the result of its handler. */
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
	smqsg_unclaim(fd, 1);
	return smqsg_slot_later(io, ret, issue_flags);
}

/* A run with flags, an LBA or a buffer, or with bytes set that must be 0. */
static noinline int smqsg_slot_run_varied(struct smqsg_io *io, struct smqsg_fd *fd,
					  const struct smq_sg_run *sqe, unsigned int issue_flags)
{
	const struct smq_sg_run run = {
		.slot = READ_ONCE(sqe->slot),
		.buffer = READ_ONCE(sqe->buffer),
		.flags = READ_ONCE(sqe->flags),
		.lba = READ_ONCE(sqe->lba),
	};
	int ret;

	if (!smqsg_sqe_unused(io->ioucmd, sizeof(run), issue_flags)) {
		smqsg_slot_refused(fd, run.slot, -EINVAL);
		return smqsg_slot_unsent(io, -EINVAL, issue_flags);
	}
	ret = smqsg_slot_take(io, fd, run.slot, smqsg_run_plain(&run) ? NULL : &run);
	return ret ? smqsg_slot_unsent(io, ret, issue_flags) :
		     smqsg_slot_start(io, fd, &fd->slots.array[io->slot], io->slot, io->flags,
				      issue_flags);
}

/*
 * Whether an SQE is one for smqsg_slot_run_varied(), which reads each field again: another thread
 * may be writing it.
 */
static __always_inline bool smqsg_slot_runs_varied(const struct io_uring_cmd *ioucmd,
						   const struct smq_sg_run *sqe,
						   unsigned int issue_flags)
{
	/* buffer and flags are one word. */
	u32 varied = READ_ONCE(*(const u32 *)&sqe->buffer);

	BUILD_BUG_ON(offsetof(struct smq_sg_run, buffer) % sizeof(u32) ||
		     offsetof(struct smq_sg_run, flags) != offsetof(struct smq_sg_run, buffer) + 2);
	return varied | READ_ONCE(sqe->lba) | (ioucmd->flags & SMQ_URING_CMD_FLAGS) |
	       (issue_flags & IO_URING_F_SQE128);
}

/*
 * SMQ_SG_URING_RUN. Returns -EIOCBQUEUED, 0, or an errno but -EAGAIN, after which io_uring would
 * try again by itself: -EAGAIN goes straight into the CQE.
 */
static __always_inline int smqsg_slot_run(struct smqsg_fd *fd, struct io_uring_cmd *ioucmd,
					  unsigned int issue_flags)
{
	const struct smq_sg_run *sqe = smq_uring_payload(ioucmd);
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
	if (unlikely(smqsg_slot_runs_varied(ioucmd, sqe, issue_flags)))
		return smqsg_slot_run_varied(io, fd, sqe, issue_flags);
	number = READ_ONCE(sqe->slot);
	slots = smqsg_slots(&fd->slots);
	if (unlikely(number >= slots))
		return smqsg_slot_unsent(io, -EINVAL, issue_flags);
	number = array_index_nospec(number, slots);
	slot = &fd->slots.array[number];
	ret = smqsg_slot_take_valid(io, fd, slot, number, NULL);
	if (unlikely(ret))
		return smqsg_slot_unsent(io, ret, issue_flags);
	return smqsg_slot_start(io, fd, slot, number, 0, issue_flags);
}

/*
 * Any SQE. Compiled once for polled rings and once for others, so that neither costs the other more
 * than a branch.
 */
static __always_inline int smqsg_uring_cmd_of(struct smqsg_fd *fd, struct io_uring_cmd *ioucmd,
					      unsigned int issue_flags)
{
	if (likely(ioucmd->cmd_op == SMQ_SG_URING_RUN))
		return smqsg_slot_run(fd, ioucmd, issue_flags);
	if (ioucmd->cmd_op == SMQ_SG_URING_BATCH)
		return smqsg_batch_run(fd, ioucmd, issue_flags);
	/* Of a newer header, and not to be taken for a command of bsg. */
	if (unlikely(_IOC_TYPE(ioucmd->cmd_op) == SMQ_SG_IOC))
		return -EOPNOTSUPP;
	return smqsg_adhoc_run(fd, ioucmd, issue_flags);
}

static noinline notrace int smqsg_uring_cmd_plain(struct io_uring_cmd *ioucmd,
						  unsigned int issue_flags)
{
	/* Tells the compiler, without an instruction. */
	if (issue_flags & IO_URING_F_IOPOLL)
		__builtin_unreachable();
	return smqsg_uring_cmd_of(ioucmd->file->private_data, ioucmd, issue_flags);
}

/* Refuses an SQE of a polled ring, and says why. */
static noinline int smqsg_poll_refuse(struct smqsg_fd *fd)
{
	pr_debug("%s: a ring with IORING_SETUP_IOPOLL, but its host has no poll queues\n",
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
 * @ioucmd: the SQE
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
