/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The end of a slot's command.
 */
#ifndef SMQSG_END_H
#define SMQSG_END_H

#include <linux/blk-mq.h>
#include <smq/compat.h>
#include <smq/uring.h>

#include "place.h"
#include "take.h"

void smqsg_slot_good(struct smqsg_io *io, struct request *rq);
SMQ_END_IO(smqsg_slot_end, rq, error);
void smqsg_slot_end_unsent(struct smqsg_io *io, int error);

/*
 * The first part of smqsg_origin.good: keeps the request, or frees it. Called before the command's
 * struct can be used again. Any context.
 */
static __always_inline void smqsg_request_good(struct smqsg_io *io, struct smqsg_fd *fd,
					       struct request *rq)
{
	smqsg_straight_ended(fd);
	if (unlikely(!smqsg_idle_keep(&io->idle, &fd->pool, rq))) {
		smqsg_idle_forget(&io->idle, fd, rq);
		blk_mq_free_request(rq);
	}
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

#endif /* SMQSG_END_H */
