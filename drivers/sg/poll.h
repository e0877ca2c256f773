/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Commands of rings with IORING_SETUP_IOPOLL: the poll queues on which they are, and the lists in
 * which a poller finds those that have ended.
 */
#ifndef SMQSG_POLL_H
#define SMQSG_POLL_H

#include <linux/blk-mq.h>
#include <linux/llist.h>
#include <linux/workqueue.h>
#include <smq/uring.h>

struct smqsg_dev;
struct smqsg_fd;

/**
 * enum smqsg_pollable - whether a file's commands can be polled for
 * @SMQSG_POLL_NOT: no: the device's host has no poll queues
 * @SMQSG_POLL_CAN: yes
 * @SMQSG_POLL_WATCHED: yes; some may be in flight, and smqsg_dev.watch polls for them too
 */
enum smqsg_pollable {
	SMQSG_POLL_NOT,
	SMQSG_POLL_CAN,
	SMQSG_POLL_WATCHED,
};

/**
 * struct smqsg_fd_polled - polled commands of a file
 * @ended: slots and batches that have ended and whose CQEs are not posted, by struct
 *	smqsg_polled.ended. Lockless: commands end in any context, a poller takes the whole list
 * @ended_adhoc: the same for ad hoc commands. A poller puts commands of other rings back
 * @state: enum smqsg_pollable. Written without a lock: a stale value only makes the watch run once
 *	more, or once less
 *
 * Lives in the file. A command in one of the lists keeps its file open.
 */
struct smqsg_fd_polled {
	struct llist_head ended;
	struct llist_head ended_adhoc;
	u8 state;
};

/**
 * struct smqsg_polled - private area of the SQE of a polled command or batch
 * @what: the command's struct smqsg_io, or the batch's struct smqsg_batch. The private area of
 *	every SQE begins with such a pointer
 * @ended: in smqsg_fd_polled.ended or ended_adhoc
 * @hctx: the poll queue that its requests are on; NULL before its first request, SMQSG_POLL_ALL if
 *	they are on several. Written by the submitter, read by pollers, without a lock: a poller
 *	that reads an old value polls in vain once
 */
struct smqsg_polled {
	void *what;
	struct llist_node ended;
	struct blk_mq_hw_ctx *hctx;
};

#define SMQSG_POLL_ALL	((struct blk_mq_hw_ctx *)1)

static_assert(sizeof(struct smqsg_polled) <= sizeof_field(struct io_uring_cmd, pdu));

void smqsg_poll_queues(struct request_queue *q, struct blk_mq_hw_ctx *hctx,
		       struct io_comp_batch *iob);
void smqsg_poll_watch(struct smqsg_fd_polled *file);
void smqsg_poll_open(struct smqsg_fd *fd);
void smqsg_poll_init(struct smqsg_dev *sg);
void smqsg_poll_dead(struct smqsg_dev *sg);

static inline struct smqsg_polled *smqsg_polled(struct io_uring_cmd *ioucmd)
{
	return (struct smqsg_polled *)ioucmd->pdu;
}

/**
 * smqsg_poll_ended() - makes the next poller post the CQE of an ended polled command or batch
 * @list: smqsg_fd_polled.ended or ended_adhoc of the command's file
 * @ioucmd: the command's SQE
 *
 * The next poll for any command of the file, or of the ring for ad hoc commands, posts the CQE.
 * Any context. The command, and with it the file, may be gone on return.
 */
static inline void smqsg_poll_ended(struct llist_head *list, struct io_uring_cmd *ioucmd)
{
	llist_add(&smqsg_polled(ioucmd)->ended, list);
}

/**
 * smqsg_poll_on() - notes where a command has to be polled for, and starts the watch
 * @file: polled commands of its file, with this one counted as in flight: the watch ends when no
 *	command is in flight
 * @ioucmd: the SQE of the command or of its batch
 * @rq: the command's request, not issued yet
 *
 * Return: false if the request is not on a poll queue. Process context, one caller at a time for
 * an SQE.
 */
static __always_inline bool smqsg_poll_on(struct smqsg_fd_polled *file,
					  struct io_uring_cmd *ioucmd, struct request *rq)
{
	struct smqsg_polled *polled = smqsg_polled(ioucmd);
	struct blk_mq_hw_ctx *hctx = rq->mq_hctx;

	if (unlikely(hctx->type != HCTX_TYPE_POLL))
		return false;
	if (unlikely(READ_ONCE(file->state) != SMQSG_POLL_WATCHED))
		smqsg_poll_watch(file);
	if (likely(polled->hctx != hctx))
		WRITE_ONCE(polled->hctx, likely(!polled->hctx) ? hctx : SMQSG_POLL_ALL);
	return true;
}

#endif /* SMQSG_POLL_H */
