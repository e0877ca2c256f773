// SPDX-License-Identifier: GPL-2.0
/*
 * Straight issue: the context that sends a request itself calls queue_rq(), and bypasses the plug's
 * list. The plug's flush rings the LLD's doorbell.
 */
#include <linux/blk-mq.h>
#include <linux/sbitmap.h>
#include <linux/slab.h>
#include <scsi/scsi_cmnd.h>
#include <scsi/scsi_device.h>
#include <scsi/scsi_host.h>
#include <smq/compat.h>

#include "direct.h"
#include "work.h"

/**
 * struct smqsg_bell - the doorbell that an hctx's commands of a plug still need
 * @cb: the plug's callback; @cb.data is the hctx
 * @work: rings the doorbell if the plug is flushed because its task goes to sleep
 *
 * Lives from the first command until the doorbell has rung, and has a reference to the queue, which
 * keeps the hctx: the commands may have ended by then.
 */
struct smqsg_bell {
	struct blk_plug_cb cb;
	struct work_struct work;
};

static void smqsg_bell_ring(struct smqsg_bell *bell)
{
	struct blk_mq_hw_ctx *hctx = bell->cb.data;
	struct request_queue *q = hctx->queue;

	/* LLDs may rely on the section in which the block layer calls commit_rqs. */
	rcu_read_lock();
	q->mq_ops->commit_rqs(hctx);
	rcu_read_unlock();
	percpu_ref_put(&q->q_usage_counter);
	kfree(bell);
}

static void smqsg_bell_work(struct work_struct *work)
{
	smqsg_bell_ring(container_of(work, struct smqsg_bell, work));
}

static void smqsg_bell_unplug(struct blk_plug_cb *cb, bool from_schedule)
{
	struct smqsg_bell *bell = container_of(cb, struct smqsg_bell, cb);

	/*
	 * The task is about to sleep, perhaps deep in other code. The block layer does not call an
	 * LLD there either, but leaves its requests to a work item.
	 */
	if (from_schedule)
		queue_work(smqsg_wq, &bell->work);
	else
		smqsg_bell_ring(bell);
}

/*
 * Makes the flush of the plug ring the doorbell of @rq's hctx. Returns false if the command needs a
 * doorbell of its own: there is no plug, or no memory.
 */
static __always_inline bool smqsg_bell_is_due(struct request *rq)
{
	struct smqsg_bell *bell;
	struct blk_plug_cb *cb;

	cb = blk_check_plugged(smqsg_bell_unplug, rq->mq_hctx, sizeof(*bell));
	if (unlikely(!cb))
		return false;
	bell = container_of(cb, struct smqsg_bell, cb);
	if (unlikely(!bell->work.func)) {
		INIT_WORK(&bell->work, smqsg_bell_work);
		/* @rq has a reference, so there is one to add to. */
		percpu_ref_get(&rq->q->q_usage_counter);
	}
	return true;
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
 * Does what the flush of a plug does, but for one command. If the LLD has a doorbell, it rings when
 * the plug is flushed, once for all commands of the plug.
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
	if (q->mq_ops->commit_rqs)
		bd.last = !smqsg_bell_is_due(rq);
	status = q->mq_ops->queue_rq(hctx, &bd);
	/* The LLD may have no room until it knows of the plug's commands before this one. */
	if (unlikely(status != BLK_STS_OK && !bd.last))
		q->mq_ops->commit_rqs(hctx);
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
