// SPDX-License-Identifier: GPL-2.0
/* Dispatch policies of a host: which one it has, and the change from one to another. */
#define pr_fmt(fmt) "smq: " fmt

#include <linux/blk-mq.h>
#include <linux/delay.h>
#include <linux/export.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "hold.h"
#include "legacy.h"
#include "policy.h"
#include "smq.h"

/* How often a change looks whether it may go on, and for how long it waits. */
#define SMQ_POLICY_POLL_MS	10
#define SMQ_POLICY_DRAIN_MS	2000

/*
 * "direct" is the path of smq_queue_one() and no policy: straight to the LLD's
 * queue_cmd, commit after the last of a batch.
 */
static const struct smq_policy smq_policies[] = {
	{ .name = "direct", .id = SMQ_POLICY_DIRECT },
	{ .name = "batch", .id = SMQ_POLICY_BATCH, .holds = true },
	{ .name = "legacy-model", .id = SMQ_POLICY_LEGACY },
};

/*
 * A command on its way to the LLD, of a host that has a policy. The policy may be
 * gone by now: the section in which the caller saw it began before it went.
 */
enum smq_verdict smq_policy_queue(struct smq_hwq *hwq, struct smq_cmd *cmd, bool last)
{
	const struct smq_policy *policy = rcu_dereference(hwq->host->policy);

	cmd->flags = 0;
	cmd->since = 0;
	if (!policy)
		return SMQ_PASS;
	switch (policy->id) {
	case SMQ_POLICY_BATCH:
		return smq_batch_queue(hwq, cmd, last);
	case SMQ_POLICY_LEGACY:
		smq_legacy_queue(hwq, cmd, last);
		return SMQ_PASS;
	default:
		return SMQ_PASS;
	}
}
EXPORT_SYMBOL_GPL(smq_policy_queue);

/* A command went by that was not the last of its batch, and is not committed yet. */
void smq_policy_passed(struct smq_hwq *hwq)
{
	/* Release: who takes the mark over commits what was queued before it. */
	atomic_set_release(&hwq->hold->passed, 1);
}
EXPORT_SYMBOL_GPL(smq_policy_passed);

/* The last of a batch is held: whether some that went by are to be committed. */
bool smq_policy_ring(struct smq_hwq *hwq)
{
	return atomic_read(&hwq->hold->passed) && atomic_xchg(&hwq->hold->passed, 0);
}
EXPORT_SYMBOL_GPL(smq_policy_ring);

/* The block layer's batch ended early: no last command is coming. */
void smq_policy_last(struct smq_hwq *hwq)
{
	rcu_read_lock();
	smq_batch_last(hwq);
	rcu_read_unlock();
}
EXPORT_SYMBOL_GPL(smq_policy_last);

/* Context: inside an RCU read-side section. */
static bool smq_host_may_hold(struct smq_host *host)
{
	const struct smq_policy *policy = rcu_dereference(host->policy);

	return policy && policy->holds;
}

/* The LLD did not take a command: true if the policy keeps it. */
bool smq_policy_refused(struct smq_cmd *cmd)
{
	if (cmd->flags & SMQ_CMD_MODELLED) {
		cmd->flags &= ~SMQ_CMD_MODELLED;
		smq_legacy_done(cmd);
	}
	if (!(cmd->flags & SMQ_CMD_COUNTED) && !smq_host_may_hold(cmd->hwq->host))
		return false;
	smq_hold_refused(cmd);
	return true;
}
EXPORT_SYMBOL_GPL(smq_policy_refused);

/*
 * A command with flags has ended; its caller owns it. True: it is held again.
 * Context: any, inside an RCU read-side section.
 */
bool smq_policy_done(struct smq_cmd *cmd)
{
	u8 flags = cmd->flags;

	cmd->flags = 0;
	if (flags & SMQ_CMD_MODELLED)
		smq_legacy_done(cmd);
	return flags & SMQ_CMD_COUNTED && smq_hold_done(cmd, flags);
}
EXPORT_SYMBOL_GPL(smq_policy_done);

/*
 * TASK SET FULL for a command that was not counted; its caller owns it. True: it is held
 * now. Context: any, inside an RCU read-side section.
 */
bool smq_policy_full(struct smq_cmd *cmd)
{
	/* The error handler's own commands are no policy's. */
	return smq_host_may_hold(cmd->hwq->host) && !smq_cmd_in_eh(cmd) && smq_hold_full(cmd, 0);
}
EXPORT_SYMBOL_GPL(smq_policy_full);

/* Error handling has taken a command from the LLD or from its policy. */
void smq_policy_taken(struct smq_cmd *cmd)
{
	u8 flags = cmd->flags;

	cmd->flags = 0;
	if (flags & SMQ_CMD_MODELLED)
		smq_legacy_done(cmd);
	if (flags & SMQ_CMD_COUNTED)
		smq_hold_taken(cmd, flags);
}

static bool smq_is_uncounted(struct request *rq, void *data)
{
	struct smq_cmd *cmd = smq_scmd_to_cmd(blk_mq_rq_to_pdu(rq));
	bool *found = data;

	/* Looks only: one that ends meanwhile is looked for once more. */
	if (atomic_read(&cmd->state) == SMQ_OWNED && !data_race(cmd->flags & SMQ_CMD_COUNTED))
		*found = true;
	return !*found;
}

/*
 * The mid-layer does not count commands beyond a queue_depth that was lowered, and
 * takes as many again. While there are some the inner depth is to be kept.
 */
static bool smq_is_beyond(struct request *rq, void *data)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	bool *found = data;

	/* Looks only: one that ends meanwhile is looked for once more. */
	if (scmd->budget_token >= (int)READ_ONCE(scmd->device->queue_depth))
		*found = true;
	return !*found;
}

/*
 * The device gets as much as before, by the policy there is, until that is all there
 * is. False: it takes its time.
 */
static bool smq_policy_lower(struct smq_host *host)
{
	unsigned int waited;
	bool beyond = true;

	host->raised = false;
	smq_luns_lower(host);
	for (waited = 0; waited < SMQ_POLICY_DRAIN_MS && beyond; waited += SMQ_POLICY_POLL_MS) {
		beyond = false;
		blk_mq_tagset_busy_iter(&host->shost->tag_set, smq_is_beyond, &beyond);
		if (beyond)
			msleep(SMQ_POLICY_POLL_MS);
	}
	return !beyond;
}

/*
 * Counts commands, and advertises more than the device takes as soon as all that it has
 * are counted: until then the mid-layer keeps its depth.
 */
static void smq_policy_raise(struct smq_host *host)
{
	bool uncounted = false;

	if (host->passes) {
		WRITE_ONCE(host->passes, false);
		/* One that was queued before this is with the LLD, or has ended. */
		synchronize_rcu();
		smq_hold_commit_all(host);
	}
	blk_mq_tagset_busy_iter(&host->shost->tag_set, smq_is_uncounted, &uncounted);
	if (uncounted) {
		/* The time without use begins when there could be some. */
		WRITE_ONCE(host->kept_at, jiffies);
		return;
	}
	host->raised = true;
	smq_luns_raise(host);
}

/* Whether a holding policy has something to hold: now, or a short while ago. */
static bool smq_policy_has_use(struct smq_host *host)
{
	struct scsi_device *sdev;
	bool smaller = false;
	unsigned int i;

	if (time_before(jiffies, READ_ONCE(host->kept_at) + SMQ_POLICY_IDLE))
		return true;
	for (i = 0; i < host->nr_hwqs; i++) {
		/* data_race: who comes too late is looked for once more. */
		if (data_race(host->hwq[i]->hold->batch.dear))
			return true;
	}
	shost_for_each_device(sdev, host->shost) {
		struct smq_lun *lun = smq_sdev_to_lun(sdev);

		if (lun && READ_ONCE(lun->depth) < READ_ONCE(lun->max))
			smaller = true;
	}
	return smaller;
}

/*
 * Counting costs each command two atomics, so it is done while it is of use: a doorbell
 * is dear, or a device was full. Otherwise the mid-layer's depth is the device's.
 */
static void smq_policy_adapt(struct work_struct *work)
{
	struct smq_host *host = container_of(to_delayed_work(work), struct smq_host, adapt);
	unsigned long again = SMQ_POLICY_IDLE;

	mutex_lock(&host->policy_lock);
	if (smq_host_holds(host) && !READ_ONCE(host->removing)) {
		if (!smq_policy_has_use(host)) {
			if (!host->passes && smq_policy_lower(host))
				WRITE_ONCE(host->passes, true);
			/* Pairs with smq_policy_holds(): one of the two sees what came now. */
			smp_mb();
			if (smq_policy_has_use(host))
				schedule_delayed_work(&host->adapt, 0);
		} else if (!host->raised) {
			smq_policy_raise(host);
			if (!host->raised)
				again = msecs_to_jiffies(SMQ_POLICY_POLL_MS);
		}
		if (!host->passes)
			schedule_delayed_work(&host->adapt, again);
	}
	mutex_unlock(&host->policy_lock);
}

/* The policy has something to hold. Context: any; the caller's command keeps the host. */
void smq_policy_holds(struct smq_host *host)
{
	/* Pairs with smq_policy_adapt(): its use first, then whether anybody looks for it. */
	smp_mb();
	if (READ_ONCE(host->passes))
		schedule_delayed_work(&host->adapt, 0);
}

static bool smq_host_has_held(struct smq_host *host)
{
	unsigned int i;

	for (i = 0; i < host->nr_hwqs; i++) {
		if (READ_ONCE(host->hwq[i]->hold->nr))
			return true;
	}
	return false;
}

/*
 * What the old policy holds goes to the LLD. A device that is full takes its time:
 * after a while it is left to its completions, which go on dispatching.
 */
static void smq_policy_drain(struct smq_host *host)
{
	unsigned int waited;

	for (waited = 0; waited < SMQ_POLICY_DRAIN_MS && smq_host_has_held(host);
	     waited += SMQ_POLICY_POLL_MS) {
		smq_hold_kick_all(host);
		msleep(SMQ_POLICY_POLL_MS);
	}
}

static bool smq_is_modelled(struct request *rq, void *data)
{
	struct smq_cmd *cmd = smq_scmd_to_cmd(blk_mq_rq_to_pdu(rq));
	bool *found = data;

	/* data_race: one that ends meanwhile is looked for once more. */
	if (data_race(cmd->flags & SMQ_CMD_MODELLED))
		*found = true;
	return !*found;
}

/*
 * Waits until no command is left that legacy-model saw; none is added. One that is
 * lost ends through its timeout and error handling, so this does.
 */
static void smq_policy_wait_modelled(struct smq_host *host)
{
	bool found;

	for (;;) {
		found = false;
		blk_mq_tagset_busy_iter(&host->shost->tag_set, smq_is_modelled, &found);
		if (!found)
			break;
		msleep(SMQ_POLICY_POLL_MS);
	}
	/* One that has cleared its flag may still be at work. */
	synchronize_rcu();
}

/* Called with policy_lock held. */
static int smq_policy_change(struct smq_host *host, const struct smq_policy *new)
{
	const struct smq_policy *old = smq_host_policy(host);
	bool held = smq_host_holds(host);
	int err;

	if (new->id == SMQ_POLICY_LEGACY) {
		err = smq_legacy_start(host);
		if (err)
			return err;
	}
	if (new->holds && !held) {
		smq_luns_begin(host);
		host->kept_at = jiffies - SMQ_POLICY_IDLE;
	}
	if (!new->holds && held)
		smq_policy_lower(host);
	rcu_assign_pointer(host->policy, new->id == SMQ_POLICY_DIRECT ? NULL : new);
	if (new->holds != held)
		WRITE_ONCE(host->passes, new->holds);
	/* From here on all commands are queued, and held again, by the new policy. */
	synchronize_rcu();
	smq_policy_drain(host);
	if (old && old->id == SMQ_POLICY_LEGACY) {
		smq_policy_wait_modelled(host);
		smq_legacy_stop(host);
	}
	/* Doorbells may be known to be dear from the last time. */
	if (new->holds)
		schedule_delayed_work(&host->adapt, 0);
	return 0;
}

ssize_t smq_policy_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct smq_host *host = smq_shost_to_host(class_to_shost(dev));
	const struct smq_policy *policy;
	const char *name;

	rcu_read_lock();
	policy = rcu_dereference(host->policy);
	name = policy ? policy->name : smq_policies[0].name;
	rcu_read_unlock();
	return sysfs_emit(buf, "%s\n", name);
}

ssize_t smq_policy_store(struct device *dev, struct device_attribute *attr,
			 const char *buf, size_t count)
{
	struct smq_host *host = smq_shost_to_host(class_to_shost(dev));
	const struct smq_policy *new = NULL;
	unsigned int i;
	int err = 0;

	for (i = 0; i < ARRAY_SIZE(smq_policies); i++) {
		if (sysfs_streq(buf, smq_policies[i].name))
			new = &smq_policies[i];
	}
	if (!new) {
		pr_err_ratelimited("%s: policy '%.*s' is not known; known: direct, batch, legacy-model\n",
				   dev_name(dev),
				   (int)min_t(size_t, strcspn(buf, "\n"), 32), buf);
		return -EINVAL;
	}
	if (mutex_lock_interruptible(&host->policy_lock))
		return -EINTR;
	if (READ_ONCE(host->removing))
		err = -ENODEV;
	else if ((smq_host_policy(host) ?: &smq_policies[0]) != new)
		err = smq_policy_change(host, new);
	mutex_unlock(&host->policy_lock);
	return err ?: count;
}

void smq_policy_init_host(struct smq_host *host)
{
	mutex_init(&host->policy_lock);
	INIT_DELAYED_WORK(&host->adapt, smq_policy_adapt);
	INIT_DELAYED_WORK(&host->recovery, smq_hold_recovery);
	smq_batch_init_host(host);
	host->legacy_era = SMQ_LEGACY_419;
	host->legacy_wrapper = true;
}

/* The host is about to go, and marked as removing: its policy stays what it is. */
void smq_policy_keep(struct smq_host *host)
{
	/* A change under way ends, the next one sees the mark. */
	mutex_lock(&host->policy_lock);
	mutex_unlock(&host->policy_lock);
}

/* No command of the host is left. */
void smq_policy_stop_host(struct smq_host *host)
{
	unsigned int i;

	cancel_delayed_work_sync(&host->adapt);
	cancel_delayed_work_sync(&host->recovery);
	for (i = 0; i < host->nr_hwqs; i++)
		smq_hold_stop(host->hwq[i]->hold);
	smq_legacy_stop(host);
}
