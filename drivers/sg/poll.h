/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Commands of rings with IORING_SETUP_IOPOLL.
 */
#ifndef SMQSG_POLL_H
#define SMQSG_POLL_H

#include <linux/blk-mq.h>
#include <linux/llist.h>
#include <smq/uring.h>

#include "depth.h"

/**
 * struct smqsg_polled - a polled command's, or batch's, private area of its SQE
 * @what: its struct smqsg_io or struct smqsg_batch, as of any other
 * @ended: in smqsg_fd.ended or ended_adhoc
 * @hctx: the poll queue that its requests are on; NULL before the first, SMQSG_POLL_ALL if
 *	there are several. Written by the one who issues, read by pollers, without a lock: who
 *	reads an old one polls in vain once
 */
struct smqsg_polled {
	void *what;
	struct llist_node ended;
	struct blk_mq_hw_ctx *hctx;
};

#define SMQSG_POLL_ALL	((struct blk_mq_hw_ctx *)1)

static_assert(sizeof(struct smqsg_polled) <= sizeof_field(struct io_uring_cmd, pdu));

static inline struct smqsg_polled *smqsg_polled(struct io_uring_cmd *ioucmd)
{
	return (struct smqsg_polled *)ioucmd->pdu;
}

/**
 * smqsg_poll_ended() - a command, or batch, of a polled ring has ended
 * @list: its file's, smqsg_fd.ended or ended_adhoc
 * @ioucmd: its SQE
 *
 * Whoever polls next for any of the file's commands, or of its ring's, tells it. Any context. The
 * command, and with it the file, may be gone on return.
 */
static inline void smqsg_poll_ended(struct llist_head *list, struct io_uring_cmd *ioucmd)
{
	llist_add(&smqsg_polled(ioucmd)->ended, list);
}

/**
 * smqsg_poll_on() - notes where a command has to be polled for, and has that watched
 * @fd: its file, with a claim made for it: the watch ends when there is none
 * @ioucmd: its SQE, or that of its batch
 * @rq: its request, not issued yet
 *
 * Return: false if that is no poll queue. Process context, one at a time for an SQE.
 */
static __always_inline bool smqsg_poll_on(struct smqsg_fd *fd, struct io_uring_cmd *ioucmd,
					  struct request *rq)
{
	struct smqsg_polled *polled = smqsg_polled(ioucmd);
	struct blk_mq_hw_ctx *hctx = rq->mq_hctx;

	if (unlikely(hctx->type != HCTX_TYPE_POLL))
		return false;
	if (unlikely(READ_ONCE(fd->pollable) != SMQSG_POLL_WATCHED))
		smqsg_watch(fd);
	if (likely(polled->hctx != hctx))
		WRITE_ONCE(polled->hctx, likely(!polled->hctx) ? hctx : SMQSG_POLL_ALL);
	return true;
}

bool smqsg_has_poll_queue(struct request_queue *q);
int smqsg_poll_refuse(struct smqsg_fd *fd);
int smqsg_uring_iopoll(struct io_uring_cmd *ioucmd, struct io_comp_batch *iob,
		       unsigned int poll_flags);
bool smqsg_poll_for_others(struct smqsg_dev *sg);

#endif /* SMQSG_POLL_H */
