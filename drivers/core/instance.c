// SPDX-License-Identifier: GPL-2.0
/*
 * The instance of a policy for a host: exists from the host's choice of the policy to the end of
 * the last command that the policy has seen.
 */
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/wait_bit.h>

#include "core.h"

static void smq_policy_free_hwqs(struct smq_policy *policy)
{
	unsigned int i;

	for (i = 0; policy->hwqs && i < policy->host->nr_hwqs && policy->hwqs[i]; i++) {
		if (policy->ops->exit_hwq)
			policy->ops->exit_hwq(policy, policy->host->hwq[i]);
		kfree(policy->hwqs[i]);
	}
	kfree(policy->hwqs);
}

static int smq_policy_alloc_hwqs(struct smq_policy *policy)
{
	const struct smq_policy_ops *ops = policy->ops;
	struct smq_host *host = policy->host;
	struct smq_policy_hwq *area;
	unsigned int i;
	int err;

	policy->hwqs = kcalloc(host->nr_hwqs, sizeof(*policy->hwqs), GFP_KERNEL);
	if (!policy->hwqs)
		return -ENOMEM;
	for (i = 0; i < host->nr_hwqs; i++) {
		/* kmalloc() aligns 2^n bytes to 2^n, so the area shares no cache line. */
		area = kzalloc(roundup_pow_of_two(max_t(size_t, SMP_CACHE_BYTES,
							sizeof(*area) + ops->hwq_size)),
			       GFP_KERNEL);
		if (!area)
			return -ENOMEM;
		policy->hwqs[i] = area;
		err = ops->init_hwq ? ops->init_hwq(policy, host->hwq[i]) : 0;
		if (err) {
			policy->hwqs[i] = NULL;
			kfree(area);
			return err;
		}
	}
	return 0;
}

static void smq_policy_free_lun(struct smq_policy *policy, struct smq_policy_lun *lun)
{
	if (policy->ops->exit_lun)
		policy->ops->exit_lun(lun);
	kfree(lun);
}

/* Also called after an error in smq_policy_make(): frees the areas that were allocated. */
static void smq_policy_free_areas(struct smq_policy *policy)
{
	struct smq_policy_lun *lun, *next;

	list_for_each_entry_safe(lun, next, &policy->luns, node)
		smq_policy_free_lun(policy, lun);
	smq_policy_free_hwqs(policy);
	if (policy->ops->exit)
		policy->ops->exit(policy);
	kvfree(policy->cmds);
	percpu_ref_exit(&policy->refs);
	module_put(policy->ops->owner);
	kfree(policy);
}

/*
 * Called once a grace period has passed since the last command ended: until then error handling may
 * read the policy's part of that command.
 */
static void smq_policy_free(struct work_struct *work)
{
	struct smq_policy *policy = container_of(to_rcu_work(work), struct smq_policy, free);
	struct smq_choice *choice = &policy->host->core->choice;

	smq_policy_free_areas(policy);
	if (atomic_dec_and_test(&choice->live))
		wake_up_var(&choice->live);
}

static void smq_policy_unused(struct percpu_ref *refs)
{
	struct smq_policy *policy = container_of(refs, struct smq_policy, refs);

	queue_rcu_work(policy->host->core->hold.wq, &policy->free);
}

static struct smq_policy *smq_policy_make(struct smq_host *host, const struct smq_policy_ops *ops)
{
	struct smq_policy *policy = kzalloc(sizeof(*policy) + ops->host_size, GFP_KERNEL);
	int err = -ENOMEM;

	if (!policy)
		goto put_module;
	policy->ops = ops;
	policy->host = host;
	policy->knobs = smq_registry_knobs(host, ops);
	policy->tag_step = smq_host_tag_step(host);
	policy->cmd_stride = ALIGN(sizeof(struct smq_policy_cmd) + ops->cmd_size, 8);
	INIT_LIST_HEAD(&policy->luns);
	INIT_RCU_WORK(&policy->free, smq_policy_free);
	policy->cmds = kvcalloc(smq_host_nr_cmds(host), policy->cmd_stride, GFP_KERNEL);
	if (!policy->cmds || percpu_ref_init(&policy->refs, smq_policy_unused, 0, GFP_KERNEL))
		goto free_policy;
	err = ops->moves ? smq_move_begin_host(host) : 0;
	if (!err && ops->init)
		err = ops->init(policy);
	if (err)
		goto exit_refs;
	err = smq_policy_alloc_hwqs(policy);
	if (err) {
		smq_policy_free_areas(policy);
		return ERR_PTR(err);
	}
	return policy;

exit_refs:
	percpu_ref_exit(&policy->refs);
free_policy:
	kvfree(policy->cmds);
	kfree(policy);
put_module:
	module_put(ops->owner);
	return ERR_PTR(err);
}

/*
 * Allocates a host's instance of a policy. The caller holds a reference to the module of @ops. The
 * reference is dropped when the instance is freed, or here after an error. Return: the instance or
 * an ERR_PTR. Context: the host's policy lock; may sleep.
 */
struct smq_policy *smq_policy_alloc(struct smq_host *host, const struct smq_policy_ops *ops)
{
	struct smq_policy *policy = smq_policy_make(host, ops);

	if (!IS_ERR(policy))
		atomic_inc(&host->core->choice.live);
	return policy;
}

/* For smq_host_core.no_policy, the instance for held commands that no policy has seen. */
static const struct smq_policy_ops smq_no_policy_ops = {
	.name	= "direct",
	.owner	= THIS_MODULE,
};

/*
 * Called when the host has its tags, and perhaps already has commands. If there is no memory for
 * the instance, a command that finds its hardware queue full is returned to the mid-layer.
 * Context: may sleep.
 */
void smq_no_policy_add(struct smq_host *host)
{
	struct smq_policy *no_policy;

	__module_get(THIS_MODULE);
	mutex_lock(&host->core->choice.lock);
	no_policy = smq_policy_make(host, &smq_no_policy_ops);
	if (!IS_ERR(no_policy)) {
		/* Release: pairs with smq_seen_begin_no_policy(). */
		smp_store_release(&host->core->no_policy, no_policy);
	}
	mutex_unlock(&host->core->choice.lock);
}

/* Called when a grace period has passed since the host's last command. Context: may sleep. */
void smq_no_policy_remove(struct smq_host *host)
{
	if (host->core->no_policy)
		smq_policy_free_areas(host->core->no_policy);
	host->core->no_policy = NULL;
}

/*
 * Called when the host no longer has the policy. The policy is freed after the last command that it
 * has seen ends. Context: any.
 */
void smq_policy_retire(struct smq_policy *policy)
{
	percpu_ref_kill(&policy->refs);
}

/* Gives a LUN its part of the policy. Context: the host's policy lock; may sleep. */
int smq_policy_add_lun(struct smq_policy *policy, struct smq_lun_core *lun)
{
	struct smq_policy_lun *area;

	lockdep_assert_held(&policy->host->core->choice.lock);
	area = kzalloc(sizeof(*area) + policy->ops->lun_size, GFP_KERNEL);
	if (!area)
		return -ENOMEM;
	area->policy = policy;
	area->lun = lun;
	if (policy->ops->init_lun)
		policy->ops->init_lun(area);
	smq_depth_learn_begin(&lun->depth, policy);
	list_add_tail(&area->node, &policy->luns);
	rcu_assign_pointer(lun->policy, area);
	return 0;
}

/* Frees the policy's part of a LUN that has no commands. Context: the host's policy lock. */
void smq_policy_remove_lun(struct smq_lun_core *lun)
{
	struct smq_policy_lun *area = rcu_dereference_protected(lun->policy, true);

	/* The part of a retired policy is freed with that policy. */
	if (!area || area->policy != smq_choice_policy(&lun->depth.wait.host->core->choice))
		return;
	RCU_INIT_POINTER(lun->policy, NULL);
	list_del(&area->node);
	smq_policy_free_lun(area->policy, area);
}
