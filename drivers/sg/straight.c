// SPDX-License-Identifier: GPL-2.0
/*
 * Straight issue: the context that sends a request calls queue_rq() itself. The plug's flush rings
 * the LLD's doorbell.
 */
#include <linux/blk-mq.h>
#include <linux/slab.h>
#include <scsi/scsi_cmnd.h>
#include <scsi/scsi_device.h>
#include <scsi/scsi_host.h>
#include <smq/compat.h>

#include "io.h"
#include "module.h"
#include "place.h"

/**
 * smqsg_token_find() - smqsg_token_take() if the command's last token is not free
 * @sdev: the device, not blocked
 * @last: below 0: the command had no token yet
 *
 * Return: the token, or below 0 if there is none. Process context.
 */
int smqsg_token_find(struct scsi_device *sdev, int last)
{
	if (last < 0)
		smq_token_spread(&sdev->budget_map);
	return sbitmap_get(&sdev->budget_map);
}

/**
 * smqsg_token_put() - gives back the token of a command that was not sent
 * @sdev: the device
 * @token: the token
 *
 * Any context.
 */
void smqsg_token_put(struct scsi_device *sdev, int token)
{
	sbitmap_put(&sdev->budget_map, token);
	/* Pairs with scsi_mq_get_budget(): it finds the token, or restarts is seen here. */
	smp_mb__after_atomic();
	if (atomic_read(&sdev->restarts))
		smq_straight_run_others(sdev);
}

/* The largest number of doorbells that a CPU keeps. */
#define SMQSG_BELLS_MOST	16

/**
 * struct smqsg_bell - the doorbell that an hctx's commands of a plug still need
 * @cb: the plug's callback; @cb.data is the hctx
 * @work: rings the doorbell if the plug is flushed because its task goes to sleep
 *
 * In use from the first command until the doorbell has rung, with a reference to the queue, which
 * keeps the hctx: the commands may have ended by then. Otherwise in smqsg_bells.
 */
struct smqsg_bell {
	struct blk_plug_cb cb;
	struct work_struct work;
};

/* The stack's pointer to the next one is where the plug's is. */
static_assert(!offsetof(struct smqsg_bell, cb.list.next));
static DEFINE_PER_CPU(struct smqsg_stack, smqsg_bells);

static void smqsg_bell_ring(struct smqsg_bell *bell)
{
	struct blk_mq_hw_ctx *hctx = bell->cb.data;
	struct request_queue *q = hctx->queue;

	/*
	 * LLDs may rely on the section in which the block layer calls commit_rqs. The reference,
	 * and then the section, keep this module loaded.
	 */
	rcu_read_lock();
	q->mq_ops->commit_rqs(hctx);
	if (unlikely(!smqsg_stack_push(&smqsg_bells, bell, SMQSG_BELLS_MOST)))
		kfree(bell);
	percpu_ref_put(&q->q_usage_counter);
	rcu_read_unlock();
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

static bool smqsg_bell_is(const struct blk_plug_cb *cb, const struct request *rq)
{
	return cb->callback == smqsg_bell_unplug && cb->data == rq->mq_hctx;
}

/* smqsg_bell_is_due() for the first command of a plug, or if the plug has other callbacks. */
static noinline bool smqsg_bell_find(struct blk_plug *plug, struct request *rq)
{
	struct smqsg_bell *bell;
	struct blk_plug_cb *cb;

	list_for_each_entry(cb, &plug->cb_list, list) {
		if (smqsg_bell_is(cb, rq))
			return true;
	}
	bell = smqsg_stack_pop(&smqsg_bells);
	if (unlikely(!bell)) {
		bell = kmalloc(sizeof(*bell), GFP_ATOMIC);
		if (!bell)
			return false;
		bell->cb.callback = smqsg_bell_unplug;
		INIT_WORK(&bell->work, smqsg_bell_work);
	}
	bell->cb.data = rq->mq_hctx;
	list_add(&bell->cb.list, &plug->cb_list);
	/* @rq has a reference, so there is one to add to. */
	percpu_ref_get(&rq->q->q_usage_counter);
	return true;
}

/*
 * Makes the flush of the plug ring the doorbell of @rq's hctx, as blk_check_plugged(), which would
 * allocate for each plug. Returns false if the command needs a doorbell of its own: there is no
 * plug, or no memory.
 */
static __always_inline bool smqsg_bell_is_due(struct request *rq)
{
	struct blk_plug *plug = current->plug;

	if (unlikely(!plug))
		return false;
	return likely(!list_empty(&plug->cb_list) &&
		      smqsg_bell_is(list_first_entry(&plug->cb_list, struct blk_plug_cb, list),
				    rq)) || smqsg_bell_find(plug, rq);
}

/*
 * Takes a reference to the device's queue for a command, as blk_queue_enter() does: whoever freezes
 * that queue, for a change or before suspend and removal, waits for this command too. Returns false
 * if commands may not be sent now. Called in an RCU section, which quiescing and a change of the
 * device's state wait for.
 */
static __always_inline bool smqsg_straight_enter(struct request_queue *q,
						 struct request_queue *own)
{
	if (unlikely(!percpu_ref_tryget_live_rcu(&q->q_usage_counter)))
		return false;
	if (likely(!blk_queue_pm_only(q) && !blk_queue_quiesced(q) && !blk_queue_quiesced(own)))
		return true;
	percpu_ref_put(&q->q_usage_counter);
	return false;
}

/* Each command reads it: nothing that is written may share its cache line. */
static struct smq_straight_traces smqsg_traces __ro_after_init;

/* Called when the module is loaded. */
void __init smqsg_straight_init(void)
{
	smq_straight_find_traces(&smqsg_traces);
}

/* Sends a request by queue_rq(), which counts the command if it takes it. Called under RCU. */
static noinline blk_status_t smqsg_straight_by_mid_layer(struct smqsg_fd *fd, struct request *rq,
							 bool last)
{
	const struct blk_mq_queue_data bd = { .rq = rq, .last = last };
	/* The command may have ended when queue_rq() returns, and the file may be closed. */
	struct smqsg_own_count __percpu *own = fd->depth.own;
	blk_status_t status;

	this_cpu_inc(own->sent_slowly);
	status = fd->q->mq_ops->queue_rq(rq->mq_hctx, &bd);
	if (status == BLK_STS_RESOURCE || status == BLK_STS_DEV_RESOURCE)
		this_cpu_dec(own->sent_slowly);
	return status;
}

/**
 * smqsg_straight_issue() - sends a request at once
 * @fd: the file
 * @rq: a request of the node's own queue, ready to be sent
 * @token: its token of the device's budget
 *
 * Does what the flush of a plug does, but for one command. If the LLD has a doorbell, it rings when
 * the plug is flushed, once for all commands of the plug.
 *
 * Return: true if the request was sent, or ended with an error: its end, which may have been
 * called already, calls smqsg_straight_ended(). false: it was not sent, because the device or its
 * host takes no command now, and the token was given back: the caller gives the request back, and
 * sends the command on the device's queue, which waits. Process context.
 */
bool smqsg_straight_issue(struct smqsg_fd *fd, struct request *rq, int token)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	struct blk_mq_hw_ctx *hctx = rq->mq_hctx;
	struct request_queue *q = fd->q;
	blk_status_t status;
	bool last = true;

	rcu_read_lock();
	if (unlikely(!smqsg_straight_enter(q, rq->q))) {
		rcu_read_unlock();
		smqsg_token_put(fd->sdev, token);
		return false;
	}
	scmd->budget_token = token;
	if (q->mq_ops->commit_rqs)
		last = !smqsg_bell_is_due(rq);
	if (likely(fd->plain) && smq_straight_may_queue(rq, fd->sdev, &smqsg_traces))
		status = smq_straight_queue(rq, last);
	else
		status = smqsg_straight_by_mid_layer(fd, rq, last);
	/* The LLD may have no room until it knows of the plug's commands before this one. */
	if (unlikely(status != BLK_STS_OK && !last))
		q->mq_ops->commit_rqs(hctx);
	if (likely(status == BLK_STS_OK))
		goto out;
	/* If queue_rq() did not take the request, it has given the token back. */
	if (status != BLK_STS_RESOURCE && status != BLK_STS_DEV_RESOURCE) {
		blk_mq_end_request(rq, status);
		status = BLK_STS_OK;
		goto out;
	}
	/* The mid-layer has not looked whether others wait for the token: see smqsg_token_put(). */
	smp_mb();
	if (atomic_read(&fd->sdev->restarts))
		smq_straight_run_others(fd->sdev);
	/* As the block layer does with a request that was started; also drops what was prepared. */
	WRITE_ONCE(rq->state, MQ_RQ_IDLE);
	rq->rq_flags &= ~RQF_TIMED_OUT;
	blk_mq_cleanup_rq(rq);
	percpu_ref_put(&q->q_usage_counter);
out:
	rcu_read_unlock();
	return status == BLK_STS_OK;
}

/* Called when the module is unloaded, after its last work item. May sleep. */
void smqsg_straight_exit(void)
{
	struct smqsg_bell *bell;

	/* See smqsg_bell_ring(). */
	synchronize_rcu();
	while ((bell = smqsg_stack_pop_any(&smqsg_bells)))
		kfree(bell);
}
