// SPDX-License-Identifier: GPL-2.0
/*
 * Straight issue: a request goes to the driver from where it is submitted.
 */
#include <linux/blk-mq.h>
#include <linux/sbitmap.h>
#include <scsi/scsi_cmnd.h>
#include <scsi/scsi_device.h>
#include <scsi/scsi_host.h>
#include <smq/compat.h>

#include "direct.h"

/**
 * smqsg_direct_suits() - whether straight issue suits commands that come in batches
 * @sdev: their device
 *
 * Return: false if the driver has commit_rqs: it rings one doorbell for all commands of a plug, so
 * its commands stay in the plug. Any context.
 */
bool smqsg_direct_suits(const struct scsi_device *sdev)
{
	return SMQ_CAN_HOLD && !sdev->host->hostt->commit_rqs;
}

/*
 * Takes a token of the device's budget, which enforces its queue depth: @token if it is free. When
 * a bit of a sbitmap is given back, it is set in a second word, which the next search reads; the
 * context that clears it there gets the token.
 */
static __always_inline int smqsg_direct_budget(struct request_queue *q, unsigned int token)
{
	struct scsi_device *sdev = q->queuedata;
	struct sbitmap *map = &sdev->budget_map;

	/*
	 * The token is below 0 if the slot had none, or not below the depth if that was lowered
	 * since. Only get_budget() unblocks a blocked device.
	 */
	if (likely(token < READ_ONCE(map->depth) && !atomic_read(&sdev->device_blocked) &&
		   test_and_clear_bit(token & (BIT(map->shift) - 1),
				      &map->map[token >> map->shift].cleared)))
		return token;
	return q->mq_ops->get_budget(q);
}

/*
 * Does what a plug's flush does, for one command, which has a doorbell of its own. @fresh: the
 * request has never been dispatched. A constant.
 */
static __always_inline bool smqsg_direct_send(struct request *rq, int *last_token, bool fresh)
{
	struct blk_mq_queue_data bd = { .rq = rq, .last = true };
	struct blk_mq_hw_ctx *hctx = rq->mq_hctx;
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	struct request_queue *q = rq->q;
	blk_status_t status = BLK_STS_RESOURCE;
	int token;

	/*
	 * A driver with BLK_MQ_F_BLOCKING may sleep, and its queue is quiesced by SRCU rather than
	 * by RCU. Under an elevator the request gets its tag when it is dispatched; a change of the
	 * elevator waits for all requests, so this one still goes by the present elevator.
	 */
	if ((hctx->flags & BLK_MQ_F_BLOCKING) || q->elevator)
		return false;
	/* A context that quiesces or stops the queue waits for RCU readers that began before. */
	rcu_read_lock();
	if (blk_queue_quiesced(q) || test_bit(BLK_MQ_S_STOPPED, &hctx->state) ||
	    !list_empty_careful(&hctx->dispatch))
		goto out;
	token = smqsg_direct_budget(q, *last_token);
	if (token < 0)
		goto out;
	*last_token = token;
	if (fresh)
		smq_rq_has_tag(rq);
	scmd->budget_token = token;
	status = q->mq_ops->queue_rq(hctx, &bd);
	/* queue_rq() gave the budget back, if it did not take the request. */
	switch (status) {
	case BLK_STS_OK:
		break;
	case BLK_STS_RESOURCE:
	case BLK_STS_DEV_RESOURCE:
		/* As the block layer does before it inserts a request that was started. */
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

/**
 * smqsg_direct_issue() - gives a held request to the driver at once
 * @rq: the request, armed
 * @last_token: the token in the device's budget that the last straight issue got, or below 0; gets
 *	that of this one
 *
 * Return: false: not now, send it as usual. Process context.
 */
bool smqsg_direct_issue(struct request *rq, int *last_token)
{
	return smqsg_direct_send(rq, last_token, false);
}

/**
 * smqsg_direct_issue_fresh() - gives a new request to the driver at once
 * @rq: the request, armed
 * @last_token: as for smqsg_direct_issue()
 *
 * Return: false: not now, send it as usual. Process context.
 */
bool smqsg_direct_issue_fresh(struct request *rq, int *last_token)
{
	return smqsg_direct_send(rq, last_token, true);
}
