// SPDX-License-Identifier: GPL-2.0
/*
 * The inner depth of LUNs. The mid-layer never queues a command past queue_depth, so a
 * policy that holds commands has the layer advertise more than the device takes; the
 * mid-layer's queue_depth then counts held commands too, and the layer keeps the depth
 * of the device itself.
 */
#include <linux/blk-mq.h>
#include <linux/delay.h>
#include <linux/export.h>
#include <linux/sbitmap.h>

#include "core.h"

/* The least that the mid-layer's own map of a LUN's commands has room for (drivers/scsi/scsi.c). */
#define SMQ_DEPTH_MAP_LEAST	1024

/* How often lowering looks whether it is done, and for how long it waits. */
#define SMQ_DEPTH_POLL_MS	10
#define SMQ_DEPTH_DRAIN_MS	2000

/* A new LUN: the mid-layer has set its queue_depth, to what the LLD says a LUN takes. */
void smq_depth_init(struct smq_depth *depth, struct scsi_device *sdev)
{
	spin_lock_init(&depth->lock);
	depth->max = sdev->queue_depth;
	depth->depth = sdev->queue_depth;
}

/* The commands that the host has tags for, as far as a LUN may have them. */
static unsigned int smq_depth_most(const struct smq_host *host)
{
	return min_t(unsigned int, host->depth + host->extra, SMQ_MAX_DEPTH);
}

/* What is advertised for a LUN whose device takes @max. Context: policy lock. */
static int smq_depth_raised(const struct smq_host *host, const struct scsi_device *sdev,
			    const struct smq_depth *depth, unsigned int max)
{
	unsigned int most = smq_depth_most(host);

	lockdep_assert_held(&host->core->choice.lock);
	if (sdev->budget_map.map != depth->map)
		most = max_t(unsigned int, host->depth, SMQ_DEPTH_MAP_LEAST);
	return min(max + host->extra, most);
}

/*
 * Sizes a new LUN's map of commands for all that may be advertised: the mid-layer has
 * sized it by can_queue, which without a holding policy is what the device takes. No
 * command has used it yet. A LUN of a host that advertises more gets its extra here.
 *
 * Context: policy lock; may sleep.
 */
int smq_depth_widen(struct smq_host *host, struct scsi_device *sdev, struct smq_depth *depth)
{
	struct sbitmap old = sdev->budget_map, wide;
	int err;

	lockdep_assert_held(&host->core->choice.lock);
	if (!host->extra || !old.map)
		return 0;
	err = sbitmap_init_node(&wide, smq_depth_most(host), old.shift, GFP_KERNEL,
				sdev->request_queue->node, false, true);
	if (err)
		return err;
	sbitmap_resize(&wide, sdev->queue_depth);
	sdev->budget_map = wide;
	depth->map = wide.map;
	sbitmap_free(&old);
	if (host->core->raised)
		scsi_change_queue_depth(sdev, smq_depth_raised(host, sdev, depth, depth->max));
	return 0;
}

/* The device refuses a command, and perhaps has for a while. Context: any. */
void smq_depth_refused(struct smq_depth *depth)
{
	if (!READ_ONCE(depth->refusing_since))
		WRITE_ONCE(depth->refusing_since, jiffies | 1);
}

/*
 * TASK SET FULL: what is in flight now is what the device takes; not less than half
 * of what it was said to, for others may have completed together with this one.
 * Context: any.
 */
void smq_depth_full(struct smq_depth *depth, unsigned int inflight)
{
	unsigned int now = max(inflight, 1U);
	unsigned long flags;

	smq_depth_refused(depth);
	spin_lock_irqsave(&depth->lock, flags);
	now = max(now, depth->depth / 2);
	depth->last_full = jiffies;
	if (now < depth->depth)
		WRITE_ONCE(depth->depth, now);
	spin_unlock_irqrestore(&depth->lock, flags);
}

/* Below the most: grows by one per queue_ramp_up_period, as the mid-layer's does. */
static void smq_depth_grow(struct smq_depth *depth, struct scsi_device *sdev)
{
	unsigned long period, flags;

	period = READ_ONCE(sdev->queue_ramp_up_period);
	spin_lock_irqsave(&depth->lock, flags);
	if (depth->depth < depth->max && time_after_eq(jiffies, depth->last_full + period) &&
	    time_after_eq(jiffies, depth->last_ramp + period)) {
		WRITE_ONCE(depth->depth, depth->depth + 1);
		depth->last_ramp = jiffies;
	}
	spin_unlock_irqrestore(&depth->lock, flags);
}

/* The device has answered a command with GOOD. Context: any. */
void smq_depth_good(struct smq_depth *depth, struct scsi_device *sdev)
{
	if (unlikely(READ_ONCE(depth->refusing_since)))
		WRITE_ONCE(depth->refusing_since, 0);
	if (unlikely(READ_ONCE(depth->depth) < READ_ONCE(depth->max)))
		smq_depth_grow(depth, sdev);
}

/*
 * A command leaves a list. The mid-layer counts from jiffies_at_alloc how long it goes on
 * retrying: time held for the policy's reasons is not to count, time in which the device
 * refused commands is. Context: any; the caller owns the command.
 */
void smq_depth_credit(struct smq_depth *depth, struct smq_cmd *cmd)
{
	unsigned long began = cmd->seen->held_at, until = jiffies;
	unsigned long refusing = READ_ONCE(depth->refusing_since);

	if (refusing && time_before(refusing, until))
		until = refusing;
	if (time_after(until, began))
		smq_cmd_to_scmd(cmd)->jiffies_at_alloc += until - began;
}

/*
 * A holding policy is chosen: the depth that was advertised becomes the inner one.
 * Context: policy lock; may sleep. So are the next three.
 */
void smq_depth_begin(struct smq_host *host)
{
	struct scsi_device *sdev;

	lockdep_assert_held(&host->core->choice.lock);
	shost_for_each_device(sdev, host->shost) {
		struct smq_depth *depth;

		if (!sdev->hostdata)
			continue;
		depth = &smq_sdev_to_core(sdev)->depth;
		spin_lock_irq(&depth->lock);
		depth->max = clamp_t(unsigned int, sdev->max_queue_depth, sdev->queue_depth,
				     max_t(unsigned int, host->depth, sdev->queue_depth));
		WRITE_ONCE(depth->depth, sdev->queue_depth);
		spin_unlock_irq(&depth->lock);
	}
}

static bool smq_depth_is_uncounted(struct request *rq, void *data)
{
	struct smq_cmd *cmd = smq_scmd_to_cmd(blk_mq_rq_to_pdu(rq));
	const struct smq_policy_cmd *seen;
	bool *found = data;

	rcu_read_lock();
	seen = READ_ONCE(cmd->seen);
	/* Looks only: one that ends meanwhile is looked for once more. */
	if (smq_cmd_is_with_lld(cmd) && !(seen && data_race(seen->flags) & SMQ_SEEN_COUNTED))
		*found = true;
	rcu_read_unlock();
	return !*found;
}

/*
 * Advertises more than the device takes as soon as all that it has are counted. Returns
 * false while it has others: until then the mid-layer keeps its depth.
 */
bool smq_depth_raise(struct smq_host *host)
{
	struct scsi_device *sdev;
	bool uncounted = false;

	lockdep_assert_held(&host->core->choice.lock);
	blk_mq_tagset_busy_iter(&host->shost->tag_set, smq_depth_is_uncounted, &uncounted);
	if (uncounted)
		return false;
	host->core->raised = true;
	host->shost->can_queue = host->depth + host->extra;
	shost_for_each_device(sdev, host->shost) {
		const struct smq_depth *depth;

		if (!sdev->hostdata)
			continue;
		depth = &smq_sdev_to_core(sdev)->depth;
		scsi_change_queue_depth(sdev, smq_depth_raised(host, sdev, depth,
							       READ_ONCE(depth->max)));
	}
	return true;
}

/*
 * The mid-layer does not count commands beyond a queue_depth that was lowered, and
 * takes as many again. While there are some the inner depth is to be kept.
 */
static bool smq_depth_is_beyond(struct request *rq, void *data)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	bool *found = data;

	/* Looks only: one that ends meanwhile is looked for once more. */
	if (scmd->budget_token >= (int)READ_ONCE(scmd->device->queue_depth))
		*found = true;
	return !*found;
}

/*
 * What is advertised is the inner depth again, wherever it has got to; commands beyond it
 * are waited for. Returns false if that timed out.
 */
bool smq_depth_lower(struct smq_host *host)
{
	struct scsi_device *sdev;
	unsigned int waited;
	bool beyond = true;

	lockdep_assert_held(&host->core->choice.lock);
	host->core->raised = false;
	shost_for_each_device(sdev, host->shost) {
		struct smq_depth *depth;

		if (!sdev->hostdata)
			continue;
		depth = &smq_sdev_to_core(sdev)->depth;
		scsi_change_queue_depth(sdev, READ_ONCE(depth->depth));
		/* A write to queue_depth has left what was advertised there. */
		sdev->max_queue_depth = READ_ONCE(depth->max);
	}
	host->shost->can_queue = host->depth;
	for (waited = 0; waited < SMQ_DEPTH_DRAIN_MS && beyond; waited += SMQ_DEPTH_POLL_MS) {
		beyond = false;
		blk_mq_tagset_busy_iter(&host->shost->tag_set, smq_depth_is_beyond, &beyond);
		if (beyond)
			msleep(SMQ_DEPTH_POLL_MS);
	}
	return !beyond;
}

/* Whether a LUN takes less than it might. */
bool smq_depth_is_reduced(struct smq_host *host)
{
	struct scsi_device *sdev;
	bool reduced = false;

	lockdep_assert_held(&host->core->choice.lock);
	shost_for_each_device(sdev, host->shost) {
		const struct smq_depth *depth;

		if (!sdev->hostdata)
			continue;
		depth = &smq_sdev_to_core(sdev)->depth;
		if (READ_ONCE(depth->depth) < READ_ONCE(depth->max))
			reduced = true;
	}
	return reduced;
}

/**
 * smq_change_queue_depth() - sets what the device of a LUN is to have at most
 * @sdev: the LUN
 * @depth: commands, at least 1; cut to what the host takes
 *
 * For a write to sysfs, and for an LLD that knows a LUN's depth: from lun_configure, or
 * later. With a holding policy it is the inner depth, and what the mid-layer has lies above
 * it: so scsi_change_queue_depth() is not for LLDs.
 *
 * Context: may sleep. Return: what the mid-layer has now, held commands included.
 */
int smq_change_queue_depth(struct scsi_device *sdev, int depth)
{
	struct smq_host *host = smq_sdev_to_host(sdev);
	struct smq_choice *choice = &host->core->choice;
	const struct smq_policy *policy;
	int ret;

	mutex_lock(&choice->lock);
	depth = min_t(int, depth, host->depth);
	policy = rcu_dereference_protected(choice->policy, lockdep_is_held(&choice->lock));
	if (policy && policy->ops->holds && sdev->hostdata) {
		struct smq_depth *inner = &smq_sdev_to_core(sdev)->depth;

		spin_lock_irq(&inner->lock);
		inner->max = depth;
		WRITE_ONCE(inner->depth, depth);
		spin_unlock_irq(&inner->lock);
		if (host->core->raised)
			depth = smq_depth_raised(host, sdev, inner, depth);
	}
	/* The mid-layer sets it after the call: a completion in between would ramp up. */
	sdev->max_queue_depth = depth;
	ret = scsi_change_queue_depth(sdev, depth);
	mutex_unlock(&choice->lock);
	return ret;
}
EXPORT_SYMBOL_GPL(smq_change_queue_depth);
