/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The end of a slot's command.
 */
#ifndef SMQSG_END_H
#define SMQSG_END_H

#include <linux/blk-mq.h>
#include <smq/compat.h>
#include <smq/uring.h>

#include "straight.h"
#include "take.h"

/* rq->end_io of a slot's request: of the device's queue, of the node's own queue. */
SMQ_END_IO(smqsg_slot_end, rq, error);
SMQ_END_IO(smqsg_slot_end_own, rq, error);

void smqsg_slot_end_unsent(struct smqsg_io *io, int error);

/*
 * Keeps the request of a command that has ended, if it ended with GOOD: otherwise error handling
 * may have changed it. Called before the command's struct can be used again. Returns what the
 * request's end_io returns. Any context.
 */
static __always_inline enum rq_end_io_ret smqsg_idle_ended(struct smqsg_idle *idle,
							   struct smqsg_fd *fd, struct request *rq,
							   bool failed)
{
	if (likely(!failed) && likely(smqsg_idle_keep(idle, &fd->pool, rq)))
		return RQ_END_IO_NONE;
	smqsg_idle_forget(idle, fd, rq);
	return RQ_END_IO_FREE;
}

/* Called by the end_io of a request of either queue; returns as smqsg_idle_ended(). Any context. */
static __always_inline enum rq_end_io_ret smqsg_request_ended(struct smqsg_io *io,
							      struct smqsg_fd *fd,
							      struct request *rq, bool failed)
{
	if (rq->q == fd->q)
		return RQ_END_IO_FREE;
	smqsg_straight_ended(fd);
	return smqsg_idle_ended(&io->idle, fd, rq, failed);
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

#endif /* SMQSG_END_H */
