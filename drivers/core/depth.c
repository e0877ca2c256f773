// SPDX-License-Identifier: GPL-2.0
/*
 * The inner depth of LUNs. The mid-layer never queues a command past queue_depth. So for a
 * policy that holds commands the layer advertises more than the device takes. The mid-layer's
 * queue_depth then limits held commands too, and the layer enforces the device's own depth.
 */
#include <linux/blk-mq.h>
#include <linux/delay.h>
#include <linux/export.h>
#include <linux/ktime.h>
#include <linux/sbitmap.h>

#include "core.h"

/* How often smq_depth_lower() checks whether it is done, and how long it waits, in ms. */
#define SMQ_DEPTH_POLL_MS	10
#define SMQ_DEPTH_DRAIN_MS	2000

/* A device is fast if it serves as many commands as it takes in this time, in ns. */
#define SMQ_DEPTH_FAST_NS	(5 * NSEC_PER_MSEC)
/* How many commands complete between two looks at how fast it is. */
#define SMQ_DEPTH_PACE		128
/* How many complete until it is no longer fast, if they take many times as long. */
#define SMQ_DEPTH_PACE_SLOW	16
#define SMQ_DEPTH_SLOWER	16

/* Sets up a new LUN's depth. The mid-layer has set queue_depth to the host's cmd_per_lun. */
void smq_depth_init(struct smq_depth *depth, struct scsi_device *sdev)
{
	spin_lock_init(&depth->lock);
	depth->max = sdev->queue_depth;
	depth->depth = sdev->queue_depth;
	depth->limit = SMQ_DEPTH_UNLIMITED;
	atomic64_set(&depth->done, 0);
}

/* The most commands that a LUN may have: the host's tags, up to SMQ_MAX_DEPTH. */
static unsigned int smq_depth_most(const struct smq_host *host)
{
	return min_t(unsigned int, host->depth + host->extra, SMQ_MAX_DEPTH);
}

/* The queue_depth to advertise for a LUN whose device takes @max. Context: policy lock. */
static int smq_depth_raised(const struct smq_host *host, const struct scsi_device *sdev,
			    const struct smq_depth *depth, unsigned int max)
{
	unsigned int most = smq_depth_most(host);

	lockdep_assert_held(&host->core->choice.lock);
	/*
	 * If the maps differ, the mid-layer made the LUN's map, for the can_queue of that time,
	 * which may have been only host->depth.
	 */
	if (sdev->budget_map.map != depth->map)
		most = min_t(unsigned int, host->depth, SMQ_MAX_DEPTH);
	return min(max + host->extra, most);
}

/* Replaces a LUN's budget map by one that has room for the most that may be advertised. */
static int smq_depth_new_map(struct smq_host *host, struct scsi_device *sdev,
			     struct smq_depth *depth, unsigned int shift)
{
	struct sbitmap old = sdev->budget_map, wide;
	unsigned int flags;
	int err;

	err = sbitmap_init_node(&wide, smq_depth_most(host), shift, GFP_KERNEL,
				sdev->request_queue->node, false, true);
	if (err)
		return err;
	sbitmap_resize(&wide, sdev->queue_depth);
	/* Freeze, as the mid-layer does: code that still runs the queue may use the old map. */
	flags = smq_queue_freeze(sdev->request_queue);
	sdev->budget_map = wide;
	smq_queue_unfreeze(sdev->request_queue, flags);
	depth->map = wide.map;
	sbitmap_free(&old);
	return 0;
}

/*
 * Sizes a new LUN's budget map for the most that may be advertised. The mid-layer has sized it for
 * can_queue, which is host->depth unless a holding policy is effective. If the host advertises more
 * now, so does the LUN.
 *
 * Context: policy lock; may sleep.
 */
int smq_depth_widen(struct smq_host *host, struct scsi_device *sdev, struct smq_depth *depth)
{
	int err;

	lockdep_assert_held(&host->core->choice.lock);
	if (!host->extra || !sdev->budget_map.map)
		return 0;
	err = smq_depth_new_map(host, sdev, depth, sdev->budget_map.shift);
	if (err)
		return err;
	if (host->core->raised)
		scsi_change_queue_depth(sdev, smq_depth_raised(host, sdev, depth, depth->max));
	return 0;
}

/*
 * Keeps a new LUN's budget map large enough after the LLD may have changed its queue_depth. If the
 * new depth needs another word size in the map, the mid-layer is about to replace the map by one
 * that has no room for more than can_queue. This function first gives the LUN a map with that word
 * size, so that the mid-layer keeps the map.
 *
 * Context: lun_configure has been called; may sleep.
 */
int smq_depth_configured(struct smq_host *host, struct scsi_device *sdev, struct smq_depth *depth)
{
	unsigned int shift;
	int err = 0;

	mutex_lock(&host->core->choice.lock);
	shift = sbitmap_calculate_shift(sdev->queue_depth);
	if (host->extra && depth->map && shift != sdev->budget_map.shift)
		err = smq_depth_new_map(host, sdev, depth, shift);
	mutex_unlock(&host->core->choice.lock);
	return err;
}

/*
 * Called for TASK SET FULL: the device takes as many commands as are in flight now. Lowers the
 * depth to that, but by half at most, because other commands may have completed together with this
 * one. @inflight: commands that the device still has. Context: any.
 */
void smq_depth_full(struct smq_depth *depth, unsigned int inflight)
{
	unsigned int now = max(inflight, 1U);
	unsigned long flags;

	if (!READ_ONCE(depth->full_since))
		WRITE_ONCE(depth->full_since, jiffies | 1);
	spin_lock_irqsave(&depth->lock, flags);
	now = max(now, depth->depth / 2);
	depth->last_full = jiffies;
	if (now < depth->depth)
		WRITE_ONCE(depth->depth, now);
	spin_unlock_irqrestore(&depth->lock, flags);
}

/* Raises the depth by one per queue_ramp_up_period, up to @max, as the mid-layer does. */
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

/* Called when the device completed a command with GOOD. Context: any. */
void smq_depth_good(struct smq_depth *depth, struct scsi_device *sdev)
{
	if (unlikely(READ_ONCE(depth->full_since)))
		WRITE_ONCE(depth->full_since, 0);
	if (unlikely(READ_ONCE(depth->depth) < READ_ONCE(depth->max)))
		smq_depth_grow(depth, sdev);
}

/*
 * Called when a command leaves a list. The mid-layer stops retrying a command some time after
 * jiffies_at_alloc. The time for which the policy held the command must not count, so this function
 * moves that field forward by that time. Time in which the device answered TASK SET FULL does
 * count. Context: any; the caller owns the command.
 */
void smq_depth_credit(struct smq_depth *depth, struct smq_cmd *cmd)
{
	unsigned long began = cmd->seen->held_at, until = jiffies;
	unsigned long full = READ_ONCE(depth->full_since);

	if (full && time_before(full, until))
		until = full;
	if (time_after(until, began))
		smq_cmd_to_scmd(cmd)->jiffies_at_alloc += until - began;
}

/*
 * Starts to learn a LUN's depth, if the policy wants that. Context: policy lock; no command of the
 * LUN goes through the policy yet.
 */
void smq_depth_learn_begin(struct smq_depth *depth, const struct smq_policy *policy)
{
	const struct smq_learn_bounds bounds = { .least = 1, .most = READ_ONCE(depth->max) };
	unsigned long flags;

	spin_lock_irqsave(&depth->lock, flags);
	depth->fast = false;
	depth->pace_at = 0;
	smq_learn_init(&depth->learn, &bounds, atomic64_read(&depth->done));
	WRITE_ONCE(depth->limit, policy->ops->learns ? depth->learn.limit : SMQ_DEPTH_UNLIMITED);
	spin_unlock_irqrestore(&depth->lock, flags);
}

/*
 * Measures how fast the device is. If it serves all commands that it takes within
 * SMQ_DEPTH_FAST_NS, no command waits for long in it, and holding commands would cost more than it
 * gains. Returns whether the device was just found to be fast.
 */
static bool smq_depth_pace(struct smq_depth *depth, unsigned int cmds, u64 now)
{
	unsigned int nr = cmds - depth->pace_from;
	u64 ns = now - depth->pace_at;
	u64 fast_ns = nr * SMQ_DEPTH_FAST_NS, all_ns = ns * READ_ONCE(depth->max);
	bool first = !depth->pace_at;

	lockdep_assert_held(&depth->lock);
	if (!first && nr < SMQ_DEPTH_PACE &&
	    (!depth->fast || all_ns < SMQ_DEPTH_SLOWER * fast_ns))
		return false;
	depth->pace_at = now;
	depth->pace_from = cmds;
	if (first)
		return false;
	depth->fast = all_ns < fast_ns;
	return depth->fast;
}

/*
 * Called for a completed command if smq_learn_is_due(). If another CPU has the lock, one of the
 * next commands does this. @policy: what the command went through, perhaps no longer the LUN's.
 * @done: commands completed so far. Returns whether the device was just found to be fast. Context:
 * any, inside an RCU read-side section.
 */
bool smq_depth_learn(struct smq_depth *depth, struct smq_policy *policy, u64 done)
{
	struct smq_lun_core *core = container_of(depth, struct smq_lun_core, depth);
	const struct smq_policy_lun *lun;
	struct smq_learn_bounds bounds;
	bool fast = false, was_fast;
	unsigned long flags;
	unsigned int limit;
	u64 now;

	if (!spin_trylock_irqsave(&depth->lock, flags))
		return false;
	/* Under the lock: smq_depth_learn_begin() comes after the LUN has lost its old policy. */
	lun = rcu_dereference(core->policy);
	if (!lun || lun->policy != policy || !smq_learn_is_due(done, depth->learn.due))
		goto out;
	now = ktime_get_ns();
	was_fast = depth->fast;
	fast = smq_depth_pace(depth, smq_learn_cmds(done), now);
	if (depth->fast || !policy->ops->learns(policy, &bounds.least, &bounds.most)) {
		WRITE_ONCE(depth->learn.due, smq_learn_cmds(done) + SMQ_DEPTH_PACE_SLOW);
		limit = SMQ_DEPTH_UNLIMITED;
	} else {
		bounds.most = clamp(bounds.most, 1U, max(READ_ONCE(depth->depth), 1U));
		bounds.least = clamp(bounds.least, 1U, bounds.most);
		if (was_fast)
			smq_learn_init(&depth->learn, &bounds, done);
		else
			smq_learn_step(&depth->learn, &bounds, done,
				       atomic_read(&depth->inflight), now);
		limit = depth->learn.limit;
	}
	/* smq_depth_put(), which follows, orders this before its look for waiting commands. */
	if (limit != depth->limit)
		WRITE_ONCE(depth->limit, limit);
out:
	spin_unlock_irqrestore(&depth->lock, flags);
	return fast;
}

/*
 * Called when a holding policy is chosen: the advertised depth becomes the inner depth.
 * Context: policy lock; may sleep. smq_depth_raise(), smq_depth_lower() and smq_depth_is_reduced()
 * have the same context.
 */
void smq_depth_begin(struct smq_host *host)
{
	struct scsi_device *sdev;

	lockdep_assert_held(&host->core->choice.lock);
	if (host->attached)
		return;
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

/*
 * How many commands a LUN of an attached host gets at once, while the host advertises @depth: a
 * policy that holds commands gets a quarter to choose from.
 */
unsigned int smq_depth_inner(int depth)
{
	return max(depth - max(depth / 4, 1), 1);
}

/* Whether any LUN of an attached host advertises more than its inner depth. Context: may sleep. */
bool smq_depth_may_hold(struct smq_host *host)
{
	struct scsi_device *sdev;
	bool may = false;

	shost_for_each_device(sdev, host->shost)
		may |= smq_depth_inner(sdev->queue_depth) < sdev->queue_depth;
	return may;
}

/* The host whose commands smq_depth_is_uncounted() looks at, and whether it found one. */
struct smq_depth_uncounted {
	struct smq_host *host;
	bool found;
};

static bool smq_depth_is_uncounted(struct request *rq, void *data)
{
	struct smq_depth_uncounted *uncounted = data;
	struct smq_cmd *cmd = smq_rq_to_cmd(uncounted->host, rq);
	const struct smq_policy_cmd *seen;

	rcu_read_lock();
	seen = READ_ONCE(cmd->seen);
	/* Read without a lock: if the command ends meanwhile, the caller checks again later. */
	if (smq_cmd_is_with_lld(cmd) && !(seen && data_race(seen->flags) & SMQ_SEEN_COUNTED))
		uncounted->found = true;
	rcu_read_unlock();
	return !uncounted->found;
}

/*
 * Advertises more than the device takes, if all commands that the device has are counted in the
 * inner depth. Returns false if some are not: then the mid-layer goes on enforcing the depth.
 */
bool smq_depth_raise(struct smq_host *host)
{
	struct scsi_device *sdev;
	struct smq_depth_uncounted uncounted = { .host = host };

	lockdep_assert_held(&host->core->choice.lock);
	blk_mq_tagset_busy_iter(&host->shost->tag_set, smq_depth_is_uncounted, &uncounted);
	if (uncounted.found)
		return false;
	host->core->raised = true;
	host->core->lowering = false;
	/* An attached host advertises what it did before; its inner depth is smaller. */
	if (host->attached)
		return true;
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
 * Finds a command whose budget token is beyond queue_depth. When queue_depth is lowered, the
 * mid-layer no longer counts such commands, and would queue as many new ones. While there are any,
 * the layer must keep enforcing the inner depth.
 */
static bool smq_depth_is_beyond(struct request *rq, void *data)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	bool *found = data;

	/* Read without a lock: if the command ends meanwhile, the caller checks again. */
	if (scmd->budget_token >= (int)READ_ONCE(scmd->device->queue_depth))
		*found = true;
	return !*found;
}

/* Advertises the current inner depth again. */
static void smq_depth_advertise(struct smq_host *host)
{
	struct scsi_device *sdev;

	host->core->raised = false;
	host->core->lowering = true;
	shost_for_each_device(sdev, host->shost) {
		struct smq_depth *depth;

		if (!sdev->hostdata)
			continue;
		depth = &smq_sdev_to_core(sdev)->depth;
		scsi_change_queue_depth(sdev, READ_ONCE(depth->depth));
		/*
		 * A write to queue_depth may have set max_queue_depth to the larger, advertised
		 * depth.
		 */
		sdev->max_queue_depth = READ_ONCE(depth->max);
	}
	host->shost->can_queue = host->depth;
}

/*
 * Advertises the current inner depth again, and waits until no commands are in flight beyond it.
 * Returns false if that took longer than SMQ_DEPTH_DRAIN_MS: then the caller calls this again
 * later, which does not wait.
 */
bool smq_depth_lower(struct smq_host *host)
{
	unsigned int waits = 0;

	lockdep_assert_held(&host->core->choice.lock);
	if (host->attached) {
		host->core->raised = false;
		return true;
	}
	if (host->core->raised) {
		smq_depth_advertise(host);
		/*
		 * smq_depth_is_beyond() sees only commands that have started. The block layer takes
		 * a budget token and starts the command in one RCU section: wait for sections that
		 * may have taken a token of the larger depth.
		 */
		synchronize_rcu();
		waits = SMQ_DEPTH_DRAIN_MS / SMQ_DEPTH_POLL_MS;
	}
	while (host->core->lowering) {
		bool beyond = false;

		blk_mq_tagset_busy_iter(&host->shost->tag_set, smq_depth_is_beyond, &beyond);
		host->core->lowering = beyond;
		if (!beyond)
			break;
		if (!waits--)
			return false;
		msleep(SMQ_DEPTH_POLL_MS);
	}
	return true;
}

/* Whether the inner depth of any LUN is below its maximum. */
bool smq_depth_is_reduced(struct smq_host *host)
{
	struct scsi_device *sdev;
	bool reduced = false;

	lockdep_assert_held(&host->core->choice.lock);
	shost_for_each_device(sdev, host->shost) {
		const struct smq_lun_core *lun = smq_host_lun(host, sdev);

		if (lun && READ_ONCE(lun->depth.depth) < READ_ONCE(lun->depth.max))
			reduced = true;
	}
	return reduced;
}

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
	/*
	 * The mid-layer sets max_queue_depth only after this call; until then a completion could
	 * ramp queue_depth up past the new depth.
	 */
	sdev->max_queue_depth = depth;
	ret = scsi_change_queue_depth(sdev, depth);
	mutex_unlock(&choice->lock);
	return ret;
}
EXPORT_SYMBOL_GPL(smq_change_queue_depth);
