// SPDX-License-Identifier: GPL-2.0
/* A host's choice of a policy, and the change to another one. */
#define pr_fmt(fmt) "smq: " fmt

#include <linux/blk-mq.h>
#include <linux/delay.h>
#include <linux/kmod.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/wait_bit.h>

#include "core.h"

/*
 * How often a change checks whether the old policy still holds commands, and for how long; in ms.
 */
#define SMQ_POLICY_POLL_MS	10
#define SMQ_POLICY_DRAIN_MS	2000

/* The policy whose held commands smq_policy_is_held() looks for, and whether it found one. */
struct smq_policy_held {
	const struct smq_policy *policy;
	bool found;
};

static bool smq_policy_is_held(struct request *rq, void *data)
{
	struct smq_policy_held *held = data;
	struct smq_cmd *cmd = smq_rq_to_cmd(held->policy->host, rq);
	const struct smq_policy_cmd *seen;

	rcu_read_lock();
	seen = READ_ONCE(cmd->seen);
	/*
	 * Read without a lock: if a command becomes held after this read, the caller's next check
	 * finds it.
	 */
	if (seen && data_race(seen->policy) == held->policy &&
	    atomic_read(&cmd->state) == SMQ_HELD)
		held->found = true;
	rcu_read_unlock();
	return !held->found;
}

/* Whether any command is held that the policy has seen. */
static bool smq_policy_has_held(const struct smq_policy *policy)
{
	struct smq_policy_held held = { .policy = policy };

	blk_mq_tagset_busy_iter(&policy->host->shost->tag_set, smq_policy_is_held, &held);
	return held.found;
}

/*
 * Dispatches the commands that the old policy holds, and waits until none is left. If a full device
 * takes longer than SMQ_POLICY_DRAIN_MS, completions dispatch the rest.
 */
static void smq_policy_drain(struct smq_policy *old)
{
	struct smq_host *host = old->host;
	unsigned int waited;

	for (waited = 0; waited < SMQ_POLICY_DRAIN_MS && smq_policy_has_held(old);
	     waited += SMQ_POLICY_POLL_MS) {
		smq_hold_kick_all(host);
		msleep(SMQ_POLICY_POLL_MS);
	}
}

/* Clears each LUN's pointer to its part of the policy, even if the LUN is being removed. */
static void smq_policy_drop_luns(struct smq_host *host)
{
	struct scsi_device *sdev;
	struct smq_lun_core *lun;

	spin_lock_irq(host->shost->host_lock);
	__shost_for_each_device(sdev, host->shost) {
		lun = smq_host_lun(host, sdev);
		if (lun)
			RCU_INIT_POINTER(lun->policy, NULL);
	}
	spin_unlock_irq(host->shost->host_lock);
}

/* Gives each LUN of the host its part of the policy. smq_lun_init() does this for later LUNs. */
static int smq_policy_add_luns(struct smq_policy *policy)
{
	struct scsi_device *sdev;
	struct smq_lun_core *lun;
	int err = 0;

	shost_for_each_device(sdev, policy->host->shost) {
		lun = smq_host_lun(policy->host, sdev);
		if (lun && !err)
			err = smq_policy_add_lun(policy, lun);
	}
	return err;
}

/*
 * Changes the policy of a host. @ops: NULL for "direct"; otherwise the call takes over the caller's
 * reference to the policy's module. Context: policy lock; may sleep.
 */
static int smq_policy_change(struct smq_host *host, const struct smq_policy_ops *ops)
{
	struct smq_choice *choice = &host->core->choice;
	struct smq_policy *old = smq_choice_policy(choice), *new = NULL;
	int err;

	lockdep_assert_held(&choice->lock);
	if (ops) {
		new = smq_policy_alloc(host, ops);
		if (IS_ERR(new))
			return PTR_ERR(new);
	}
	/* From here on the old policy sees no new command, and the inner depth counts none. */
	smq_use_end(host);
	smq_policy_drop_luns(host);
	err = new ? smq_policy_add_luns(new) : 0;
	if (err) {
		/* Out of memory: from now on the host has neither the old nor the new policy. */
		smq_policy_drop_luns(host);
		smq_policy_retire(new);
		new = NULL;
	}
	if (new && new->ops->holds)
		smq_depth_begin(host);
	rcu_assign_pointer(choice->policy, new);
	/* After the grace period only the new policy, if any, holds commands that are refused. */
	synchronize_rcu();
	if (new && !new->ops->has_use)
		smq_use_swap(host, new);
	if (old) {
		smq_policy_drain(old);
		smq_policy_retire(old);
	}
	if (new && (new->ops->has_use || new->ops->holds))
		smq_use_begin(host);
	return err;
}

/* Makes the host run as "direct", as a write to sysfs does. Context: may sleep. */
void smq_policy_drop(struct smq_host *host)
{
	mutex_lock(&host->core->choice.lock);
	if (smq_choice_policy(&host->core->choice))
		smq_policy_change(host, NULL);
	mutex_unlock(&host->core->choice.lock);
}

ssize_t smq_policy_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct smq_host *host = smq_dev_to_host(dev);
	const struct smq_policy *policy;
	char name[32];
	int len;

	rcu_read_lock();
	policy = rcu_dereference(host->core->choice.policy);
	strscpy(name, policy ? policy->ops->name : "direct", sizeof(name));
	rcu_read_unlock();
	len = smq_registry_list(buf, PAGE_SIZE - 2, name, " ");
	return len + sysfs_emit_at(buf, len, "\n");
}

/* Finds a policy, and references its module. Loads a module for that name if necessary. */
static const struct smq_policy_ops *smq_policy_find(const char *name)
{
	const struct smq_policy_ops *ops = smq_registry_get(name);

	if (!ops && strlen(name) < 32 && !request_module("smq-policy-%s", name))
		ops = smq_registry_get(name);
	return ops;
}

static void smq_policy_unknown(struct device *dev, const char *name)
{
	char *known = kmalloc(PAGE_SIZE, GFP_KERNEL);

	if (known)
		smq_registry_list(known, PAGE_SIZE, NULL, ", ");
	pr_err_ratelimited("%s: policy '%.32s' is not known; known: %s\n", dev_name(dev), name,
			   known ?: "(no memory)");
	kfree(known);
}

static bool smq_policy_is(struct smq_choice *choice, const struct smq_policy_ops *ops)
{
	const struct smq_policy *policy = smq_choice_policy(choice);

	return (policy ? policy->ops : NULL) == ops;
}

ssize_t smq_policy_store(struct device *dev, struct device_attribute *attr,
			 const char *buf, size_t count)
{
	struct smq_host *host = smq_dev_to_host(dev);
	struct smq_choice *choice = &host->core->choice;
	const struct smq_policy_ops *ops = NULL;
	char name[40];
	int err = 0;

	strscpy(name, buf, sizeof(name));
	name[strcspn(name, "\n")] = '\0';
	if (strcmp(name, "direct")) {
		ops = smq_policy_find(name);
		if (!ops) {
			smq_policy_unknown(dev, name);
			return -EINVAL;
		}
	}
	err = mutex_lock_interruptible(&choice->lock);
	if (err) {
		if (ops)
			module_put(ops->owner);
		return err;
	}
	if (READ_ONCE(host->core->eh.removing))
		err = -ENODEV;
	if (err || smq_policy_is(choice, ops)) {
		if (ops)
			module_put(ops->owner);
	} else if (ops && ops->holds && host->attached && !smq_depth_may_hold(host)) {
		pr_err_ratelimited("%s: '%s' needs a LUN with a queue_depth of 2 or more\n",
				   dev_name(dev), ops->name);
		module_put(ops->owner);
		err = -EOPNOTSUPP;
	} else {
		err = smq_policy_change(host, ops);
	}
	mutex_unlock(&choice->lock);
	return err ?: count;
}

void smq_policy_init_host(struct smq_host *host)
{
	struct smq_choice *choice = &host->core->choice;

	mutex_init(&choice->lock);
	INIT_LIST_HEAD(&choice->knobs);
	atomic_set(&choice->live, 0);
	smq_use_init_host(host);
}

/* The caller has set eh.removing: after this call the host's policy no longer changes. */
void smq_policy_wait_for_change(struct smq_host *host)
{
	/* Wait for a change that is under way; the next one sees eh.removing. */
	mutex_lock(&host->core->choice.lock);
	mutex_unlock(&host->core->choice.lock);
}

/* Frees the policy of a host that has no commands and gets no more. Context: may sleep. */
void smq_policy_stop_host(struct smq_host *host)
{
	struct smq_choice *choice = &host->core->choice;
	struct smq_policy *policy;

	cancel_delayed_work_sync(&choice->use);
	mutex_lock(&choice->lock);
	policy = smq_choice_policy(choice);
	/* No command will come, so SMQ_DETOUR_POLICY may stay set in smq_hwq.detour. */
	RCU_INIT_POINTER(host->policy, NULL);
	RCU_INIT_POINTER(choice->policy, NULL);
	mutex_unlock(&choice->lock);
	synchronize_rcu();
	if (policy)
		smq_policy_retire(policy);
	wait_var_event(&choice->live, !atomic_read(&choice->live));
	smq_no_policy_remove(host);
	smq_move_end_host(host);
}
