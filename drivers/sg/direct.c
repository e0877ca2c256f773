// SPDX-License-Identifier: GPL-2.0
/*
 * Straight issue: the context that sends a request itself calls queue_rq(), and bypasses the plug.
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
 * Return: false if the LLD has commit_rqs: it rings one doorbell for all commands of a plug, so its
 * commands go through the plug. Also false if this kernel's code was not checked for straight
 * issue. Any context.
 */
bool smqsg_direct_suits(const struct scsi_device *sdev)
{
	return SMQ_CAN_HOLD && !sdev->host->hostt->commit_rqs;
}

/*
 * Takes a token of the device's budget, which enforces the queue depth: @token if that is free.
 * When a bit of an sbitmap is given back, the sbitmap sets it in a second word, "cleared", which
 * its next search reads. The context that clears the bit there gets the token.
 */
static __always_inline int smqsg_direct_budget(struct request_queue *q, unsigned int token)
{
	struct scsi_device *sdev = q->queuedata;
	struct sbitmap *map = &sdev->budget_map;

	/*
	 * The token is out of range if there was none yet (-1), or if the depth was lowered since.
	 * A blocked device needs get_budget(), because only that unblocks it.
	 */
	if (likely(token < READ_ONCE(map->depth) && !atomic_read(&sdev->device_blocked) &&
		   test_and_clear_bit(token & (BIT(map->shift) - 1),
				      &map->map[token >> map->shift].cleared)))
		return token;
	return q->mq_ops->get_budget(q);
}

/*
 * Does what the flush of a plug does, but for one command, which gets a doorbell of its own.
 * @fresh: the request has never been dispatched; a compile-time constant.
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
	 * An LLD with BLK_MQ_F_BLOCKING may sleep, and its queue is quiesced by SRCU rather than by
	 * RCU. Under an elevator a request gets its tag when it is dispatched. A change of the
	 * elevator waits for all requests, so the elevator cannot change before this one ends.
	 */
	if ((hctx->flags & BLK_MQ_F_BLOCKING) || q->elevator)
		return false;
	/* Quiescing waits for RCU readers that began before. Stopping an hctx waits for nothing. */
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
	/* If queue_rq() did not take the request, it has given the budget back. */
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
 * smqsg_direct_issue() - gives a held request to queue_rq() at once
 * @rq: the request, ready to be sent
 * @last_token: in: the token in the device's budget that the last straight issue got, or below 0;
 *	out: the token that this one got
 *
 * Return: true if the request was issued, or ended with an error; false: the caller sends it
 * through the block layer. Process context.
 */
bool smqsg_direct_issue(struct request *rq, int *last_token)
{
	return smqsg_direct_send(rq, last_token, false);
}

/**
 * smqsg_direct_issue_fresh() - gives a new request to queue_rq() at once
 * @rq: the request, ready to be sent
 * @last_token: as for smqsg_direct_issue()
 *
 * Return: as smqsg_direct_issue(). Process context.
 */
bool smqsg_direct_issue_fresh(struct request *rq, int *last_token)
{
	return smqsg_direct_send(rq, last_token, true);
}
