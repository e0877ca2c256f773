// SPDX-License-Identifier: GPL-2.0
/*
 * Handles SQEs: runs a single slot; passes batches and ad hoc commands to batch_run.c and adhoc.c.
 * Pollers: post the CQEs of rings with IORING_SETUP_IOPOLL.
 *
 * io_uring calls smqsg_uring_iopoll() with the ring's lock, for one command after the other until
 * a CQE is posted. A command's end, in any context, only adds the command to a list of its file;
 * the next poll for any of the file's commands empties the list and posts all CQEs. So it does not
 * matter where a command ends: in this ring's poll, in another ring's, in queuecommand, in error
 * handling, or when its waiting is ended.
 *
 * An ad hoc command, whose data may have to be copied to its submitter's memory, is left to the
 * poll of its own ring. Task work cannot be used instead: while a ring is being closed, io_uring
 * polls until its last command has ended, and runs no task work.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/blkdev.h>
#include <smq/uring.h>

#include "batch.h"
#include "issue.h"
#include "module.h"

static int smqsg_slot_send_granted(struct smqsg_io *io)
{
	return smqsg_slot_send_placed(io, smq_uring_polled(io->ioucmd) ? REQ_POLLED : 0,
				      io->ioucmd);
}

/* smqsg_waiter.grant of a slot that waited. */
static void smqsg_slot_grant(struct smqsg_waiter *waiter, int got)
{
	struct smqsg_io *io = container_of(waiter, struct smqsg_io, waiter);
	int ret = smqsg_io_granted(io, got, smqsg_slot_send_granted);

	if (ret)
		smqsg_slot_end_unsent(io, ret);
}

/*
 * Ends a run that was not sent, or, if there was no place or tag, makes it wait. Returns as
 * smqsg_slot_run().
 */
static noinline int smqsg_slot_unsent(struct smqsg_io *io, int error, unsigned int issue_flags)
{
	struct io_uring_cmd *ioucmd = io->ioucmd;

	if (error == -EAGAIN) {
		error = smqsg_io_wait(io, smq_uring_task(io->ioucmd), io->slot,
				      io->fd->slots.array[io->slot].timeout, smqsg_slot_grant);
		if (!error)
			return -EIOCBQUEUED;
		smqsg_slot_drop(io, error);
	}
	smqsg_io_put(io);
	if (error != -EAGAIN)
		return error;
	smq_uring_done(ioucmd, error, issue_flags);
	return -EIOCBQUEUED;
}

/* Completes the SQE of a run that ended while it was being sent. Returns as smqsg_slot_run(). */
static __always_inline int smqsg_slot_complete_inline(struct smqsg_io *io, unsigned int issue_flags)
{
	struct io_uring_cmd *ioucmd = io->ioucmd;
	int result = io->result;

	smqsg_slot_put_buffer(io);
	smqsg_io_put(io);
	/* io_uring posts a CQE with the returned value. */
	if (likely(!result))
		return 0;
	smq_uring_done(ioucmd, result, issue_flags);
	return -EIOCBQUEUED;
}

/*
 * Stores what an SQE asks for beside its slot. Reads each field once, because another thread may be
 * writing the SQE. Returns as smqsg_run_vary(); SMQSG_RUN_BAD also for bytes that must be 0.
 */
static noinline u32 smqsg_sqe_vary(struct smqsg_io *io, const struct smq_sg_run *sqe,
				   unsigned int issue_flags)
{
	if (unlikely(!smqsg_sqe_unused(io->ioucmd, sizeof(*sqe), issue_flags)))
		return SMQSG_RUN_BAD;
	return smqsg_run_vary(io, READ_ONCE(sqe->lba), READ_ONCE(sqe->buffer),
			      READ_ONCE(sqe->flags));
}

/* The fields buffer and flags of an SQE, as one word. */
static __always_inline u32 smqsg_sqe_word(const struct smq_sg_run *sqe)
{
	BUILD_BUG_ON(offsetof(struct smq_sg_run, buffer) % sizeof(u32) ||
		     offsetof(struct smq_sg_run, flags) != offsetof(struct smq_sg_run, buffer) + 2);
	return READ_ONCE(*(const u32 *)&sqe->buffer);
}

/* That word of a run with another LBA. */
#ifdef __LITTLE_ENDIAN
#define SMQSG_LBA_WORD		(SMQ_SG_RUN_LBA << 16)
#else
#define SMQSG_LBA_WORD		SMQ_SG_RUN_LBA
#endif

/*
 * Whether an SQE asks for more than to run its slot. The functions that handle this read each field
 * again, because another thread may be writing the SQE.
 */
static __always_inline bool smqsg_sqe_is_varied(const struct io_uring_cmd *ioucmd,
						const struct smq_sg_run *sqe,
						unsigned int issue_flags)
{
	return smqsg_sqe_word(sqe) | READ_ONCE(sqe->lba) | (ioucmd->flags & SMQ_URING_CMD_FLAGS) |
	       (issue_flags & IO_URING_F_SQE128);
}

/* smqsg_sqe_vary() without a call for most such SQEs: those with another LBA. */
static __always_inline u32 smqsg_sqe_lba(struct smqsg_io *io, const struct io_uring_cmd *ioucmd,
					 const struct smq_sg_run *sqe, unsigned int issue_flags)
{
	if (unlikely(smqsg_sqe_word(sqe) != SMQSG_LBA_WORD ||
		     (ioucmd->flags & SMQ_URING_CMD_FLAGS) || (issue_flags & IO_URING_F_SQE128)))
		return smqsg_sqe_vary(io, sqe, issue_flags);
	io->lba = READ_ONCE(sqe->lba);
	return SMQ_SG_RUN_LBA;
}

/* Runs a slot. Returns as smqsg_slot_run(). */
static __always_inline int smqsg_slot_run_as(struct smqsg_io *io, struct smqsg_fd *fd, u32 number,
					     u32 varied, unsigned int issue_flags)
{
	struct smqsg_send send = {
		.opf = issue_flags & IO_URING_F_IOPOLL ? REQ_POLLED : 0,
		.ioucmd = io->ioucmd,
		.slot = smqsg_slot_find(fd, &number),
		.varied = varied,
		.flags = BLK_MQ_REQ_NOWAIT,
	};
	int ret = -EINVAL;

	if (likely(send.slot))
		ret = smqsg_slot_start(io, fd, number, &send, true);
	if (likely(!ret))
		return -EIOCBQUEUED;
	return ret > 0 ? smqsg_slot_complete_inline(io, issue_flags) :
			 smqsg_slot_unsent(io, ret, issue_flags);
}

/*
 * SMQ_SG_URING_RUN. Returns -EIOCBQUEUED, 0, or an errno other than -EAGAIN: io_uring would repeat
 * the call after -EAGAIN, so this function puts -EAGAIN into the CQE itself.
 */
static __always_inline int smqsg_slot_run(struct smqsg_fd *fd, struct io_uring_cmd *ioucmd,
					  unsigned int issue_flags)
{
	const struct smq_sg_run *sqe = smq_uring_payload(ioucmd);
	struct smqsg_io *io;

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
	if (unlikely(smqsg_sqe_is_varied(ioucmd, sqe, issue_flags)))
		return smqsg_slot_run_as(io, fd, READ_ONCE(sqe->slot),
					 smqsg_sqe_lba(io, ioucmd, sqe, issue_flags), issue_flags);
	return smqsg_slot_run_as(io, fd, READ_ONCE(sqe->slot), 0, issue_flags);
}

/*
 * Runs any SQE. Compiled once for polled rings and once for others, so that having both kinds costs
 * no more than a branch.
 */
static __always_inline int smqsg_uring_cmd_of(struct smqsg_fd *fd, struct io_uring_cmd *ioucmd,
					      unsigned int issue_flags)
{
	if (likely(ioucmd->cmd_op == SMQ_SG_URING_RUN))
		return smqsg_slot_run(fd, ioucmd, issue_flags);
	if (ioucmd->cmd_op == SMQ_SG_URING_BATCH)
		return smqsg_batch_run(fd, ioucmd, issue_flags);
	/* Perhaps an operation of a newer header: it must not be taken for a command of bsg. */
	if (unlikely(_IOC_TYPE(ioucmd->cmd_op) == SMQ_SG_IOC))
		return -EOPNOTSUPP;
	return smqsg_adhoc_run(fd, ioucmd, issue_flags);
}

static noinline notrace int smqsg_uring_cmd_plain(struct io_uring_cmd *ioucmd,
						  unsigned int issue_flags)
{
	/* Tells the compiler that the flag is not set, without an instruction. */
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
 * smqsg_uring_cmd() - handles an SQE
 * @ioucmd: the SQE
 * @issue_flags: IO_URING_F_*
 *
 * Only jumps to one of two functions, so that neither kind of ring saves registers for the other
 * kind's code.
 *
 * Return: -EIOCBQUEUED; 0 if the run of a slot has ended with GOOD already; or an errno. Process
 * context: the submitter or, without IO_URING_F_NONBLOCK, a worker of io_uring.
 */
int smqsg_uring_cmd(struct io_uring_cmd *ioucmd, unsigned int issue_flags)
{
	if (unlikely(issue_flags & IO_URING_F_IOPOLL))
		return smqsg_uring_cmd_polled(ioucmd, issue_flags);
	return smqsg_uring_cmd_plain(ioucmd, issue_flags);
}

/*
 * Posts the CQE of a slot or batch. The caller holds the lock of @ring, which need not be the
 * command's ring.
 */
static __always_inline void smqsg_poll_post_cqe(struct io_uring_cmd *ioucmd, const void *ring)
{
	unsigned int issue_flags = likely(smq_uring_ring(ioucmd) == ring) ? 0 : IO_URING_F_UNLOCKED;

	if (likely(ioucmd->cmd_op == SMQ_SG_URING_RUN))
		smqsg_slot_post_cqe(ioucmd, issue_flags);
	else
		smqsg_batch_post_cqe(ioucmd, issue_flags);
}

static __always_inline struct io_uring_cmd *smqsg_poll_cmd(struct smqsg_polled *polled)
{
	return container_of((void *)polled, struct io_uring_cmd, pdu);
}

/*
 * Posts the CQEs of a file's slots and batches that have ended, whichever ring they belong to. The
 * caller holds the lock of @ring.
 */
static __always_inline void smqsg_poll_post_cqes(struct smqsg_fd *fd, const void *ring)
{
	struct smqsg_polled *polled, *next;

	/* The file stays open: io_uring reaps no command of a ring that is locked. */
	llist_for_each_entry_safe(polled, next, llist_del_all(&fd->polled.ended), ended)
		smqsg_poll_post_cqe(smqsg_poll_cmd(polled), ring);
}

/*
 * Posts the CQEs of a file's ad hoc commands that have ended and belong to @ring. Returns whether a
 * CQE was posted or will be posted soon.
 */
static noinline bool smqsg_poll_adhoc(struct smqsg_fd *fd, const void *ring)
{
	struct llist_head *list = &fd->polled.ended_adhoc;
	struct smqsg_polled *polled, *next;
	bool posted = false;

	llist_for_each_entry_safe(polled, next, llist_del_all(list), ended) {
		struct io_uring_cmd *ioucmd = smqsg_poll_cmd(polled);

		if (smq_uring_ring(ioucmd) == ring) {
			smqsg_adhoc_polled(ioucmd);
			posted = true;
		} else {
			smqsg_poll_ended(list, ioucmd);
		}
	}
	return posted;
}

/*
 * Called when no slot or batch has ended: checks ad hoc commands, and polls all queues if commands
 * wait. Returns whether a CQE was posted, or will be posted soon.
 */
static noinline bool smqsg_poll_more(struct smqsg_fd *fd, const void *ring,
				     struct io_comp_batch *iob)
{
	bool posted = !llist_empty(&fd->polled.ended_adhoc) && smqsg_poll_adhoc(fd, ring);

	if (posted || !atomic_read(&fd->sg->depth.waiting))
		return posted;
	smqsg_poll_queues(fd->q, NULL, iob);
	posted = !llist_empty(&fd->polled.ended);
	smqsg_poll_post_cqes(fd, ring);
	return posted;
}

/**
 * smqsg_uring_iopoll() - polls for a command of a polled ring
 * @ioucmd: its SQE, whose CQE is not posted yet
 * @iob: where an LLD may leave requests for the caller to complete
 * @poll_flags: BLK_POLL_*; ignored: this function polls once, and io_uring calls it again
 *
 * A command that waits for a place, or a batch with waiting commands, cannot be polled for yet. It
 * gets places when other commands end, but perhaps no task polls for those. So while any command
 * waits, this function polls all queues.
 *
 * Return: 1 if CQEs of some of the file's commands have been posted, else 0. Process context, with
 * the ring's lock.
 */
int smqsg_uring_iopoll(struct io_uring_cmd *ioucmd, struct io_comp_batch *iob,
		       unsigned int poll_flags)
{
	struct smqsg_fd *fd = ioucmd->file->private_data;
	const void *ring = smq_uring_ring(ioucmd);

	if (llist_empty(&fd->polled.ended)) {
		smqsg_poll_queues(fd->q, READ_ONCE(smqsg_polled(ioucmd)->hctx), iob);
		if (llist_empty(&fd->polled.ended))
			return smqsg_poll_more(fd, ring, iob);
	}
	smqsg_poll_post_cqes(fd, ring);
	if (unlikely(!llist_empty(&fd->polled.ended_adhoc)))
		smqsg_poll_adhoc(fd, ring);
	return 1;
}
