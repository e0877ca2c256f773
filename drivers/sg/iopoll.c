// SPDX-License-Identifier: GPL-2.0
/*
 * Pollers: posting the CQEs of rings with IORING_SETUP_IOPOLL.
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
#include "adhoc.h"
#include "batch.h"
#include "end.h"
#include "poll.h"

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
