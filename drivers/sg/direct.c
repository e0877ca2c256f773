// SPDX-License-Identifier: GPL-2.0
/*
 * Straight issue: a held request goes to the driver from where it is submitted.
 */
#include <linux/blk-mq.h>
#include <linux/sbitmap.h>
#include <scsi/scsi_cmnd.h>
#include <scsi/scsi_device.h>

#include "held.h"

/*
 * Takes a place in the device's budget, which keeps its queue depth: the one that the slot had
 * last, if it is free. A sbitmap's bit that was given back lies in a word beside until the next
 * search; the context that clears it there has it.
 */
static int smqsg_direct_budget(struct request_queue *q, struct smqsg_held *held)
{
	struct scsi_device *sdev = q->queuedata;
	struct sbitmap *map = &sdev->budget_map;
	unsigned int token = held->token;

	/* Below 0 is none; the depth may be less now; get_budget() unblocks a blocked device. */
	if (likely(token < READ_ONCE(map->depth) && !atomic_read(&sdev->device_blocked) &&
		   test_and_clear_bit(token & (BIT(map->shift) - 1),
				      &map->map[token >> map->shift].cleared)))
		return token;
	return q->mq_ops->get_budget(q);
}

/**
 * smqsg_direct_issue() - gives a held request to the driver at once
 * @held: its entry
 * @rq: the request, armed
 *
 * Does what a plug's flush does, for one command, which has a doorbell of its own.
 *
 * Return: false: not now, send it as usual. Process context.
 */
bool smqsg_direct_issue(struct smqsg_held *held, struct request *rq)
{
	struct blk_mq_queue_data bd = { .rq = rq, .last = true };
	struct blk_mq_hw_ctx *hctx = rq->mq_hctx;
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	struct request_queue *q = rq->q;
	blk_status_t status = BLK_STS_RESOURCE;
	int token;

	/* Such a driver may sleep, and its queue is quiesced by other means than RCU. */
	if (hctx->flags & BLK_MQ_F_BLOCKING)
		return false;
	/* A context that quiesces or stops the queue waits for readers that have not seen it. */
	rcu_read_lock();
	if (blk_queue_quiesced(q) || test_bit(BLK_MQ_S_STOPPED, &hctx->state) || q->elevator ||
	    !list_empty_careful(&hctx->dispatch))
		goto out;
	token = smqsg_direct_budget(q, held);
	if (token < 0)
		goto out;
	held->token = token;
	scmd->budget_token = token;
	status = q->mq_ops->queue_rq(hctx, &bd);
	/* queue_rq() gave the budget back, if it did not take the request. */
	switch (status) {
	case BLK_STS_OK:
		break;
	case BLK_STS_RESOURCE:
	case BLK_STS_DEV_RESOURCE:
		/* As the block layer does before it inserts one that was started. */
		WRITE_ONCE(rq->state, MQ_RQ_IDLE);
		rq->rq_flags &= ~RQF_TIMED_OUT;
		break;
	default:
		blk_mq_end_request(rq, status);
		status = BLK_STS_OK;
	}
out:
	rcu_read_unlock();
	return status == BLK_STS_OK;
}
