// SPDX-License-Identifier: GPL-2.0
/*
 * Whether the chosen policy is effective. What a policy costs each command is spent while
 * it has something to do; otherwise the host runs as "direct". Then no code samples
 * doorbells, nor counts commands, so two things bring the policy back: a device that is
 * full, which "direct" meets in its cold branches, and a look every few seconds.
 */
#include <linux/export.h>
#include <linux/percpu.h>

#include "core.h"

/* How soon raising is tried again while the device has commands that were not counted. */
#define SMQ_USE_RETRY	msecs_to_jiffies(10)

static u64 smq_use_queued(const struct smq_host *host)
{
	unsigned int i;
	u64 sum = 0;
	int cpu;

	for (i = 0; i < host->nr_hwqs; i++) {
		for_each_possible_cpu(cpu)
			sum += READ_ONCE(per_cpu_ptr(host->hwq[i]->stats, cpu)->queued);
	}
	return sum;
}

/*
 * Commits what went to the LLD by another policy than the last command of its batch.
 * Context: may sleep.
 */
static void smq_use_commit_all(struct smq_host *host)
{
	unsigned int i;

	for (i = 0; i < host->nr_hwqs; i++) {
		rcu_read_lock();
		/* A reset ends them all. */
		if (!READ_ONCE(host->frozen))
			smq_policy_commit(host->hwq[i]);
		rcu_read_unlock();
	}
}

/*
 * Makes @policy, or with NULL "direct", the one that commands pass. After the call all
 * commands that passed the one before are with the LLD, held, or have ended.
 * Context: policy lock; may sleep.
 */
void smq_use_swap(struct smq_host *host, struct smq_policy *policy)
{
	unsigned int i;

	lockdep_assert_held(&host->core->choice.lock);
	rcu_assign_pointer(host->policy, policy);
	/* Whoever sees only one of the two passes "direct", and is waited for. */
	for (i = 0; i < host->nr_hwqs; i++)
		assign_bit(SMQ_DETOUR_POLICY, &host->hwq[i]->detour, policy);
	synchronize_rcu();
	smq_use_commit_all(host);
}

/* Whether the policy has something to hold or to order: now, or a short while ago. */
static bool smq_use_is_there(struct smq_host *host, struct smq_policy *policy)
{
	if (!policy->ops->has_use)
		return true;
	if (policy->ops->holds &&
	    (time_before(jiffies, READ_ONCE(host->core->choice.kept_at) + SMQ_POLICY_IDLE) ||
	     smq_depth_is_reduced(host)))
		return true;
	return policy->ops->has_use(policy);
}

/* The policy has use. Returns when to look again, in jiffies. */
static unsigned long smq_use_some(struct smq_host *host, struct smq_policy *policy)
{
	struct smq_choice *choice = &host->core->choice;

	choice->looking = false;
	WRITE_ONCE(choice->in_use, true);
	if (!rcu_access_pointer(host->policy))
		smq_use_swap(host, policy);
	if (policy->ops->holds && !host->core->raised && !smq_depth_raise(host)) {
		/* The time without use begins when there could be some. */
		WRITE_ONCE(choice->kept_at, jiffies);
		return SMQ_USE_RETRY;
	}
	return SMQ_POLICY_IDLE;
}

/* The policy has no use, as far as is known. Returns when to look again, in jiffies. */
static unsigned long smq_use_none(struct smq_host *host, struct smq_policy *policy)
{
	struct smq_choice *choice = &host->core->choice;
	u64 queued = smq_use_queued(host);

	if (!rcu_access_pointer(host->policy)) {
		if (queued == choice->looked_at)
			return SMQ_POLICY_IDLE;
		choice->looking = true;
		choice->look_end = jiffies + SMQ_POLICY_LOOK;
		if (policy->ops->look)
			policy->ops->look(policy);
		smq_use_swap(host, policy);
		return SMQ_POLICY_LOOK;
	}
	if (choice->looking && time_before(jiffies, choice->look_end))
		return choice->look_end - jiffies;
	choice->looking = false;
	choice->looked_at = queued;
	if (host->core->raised && !smq_depth_lower(host)) {
		/* Commands beyond the depth are left: they go on being counted. */
		return SMQ_USE_RETRY;
	}
	smq_use_swap(host, NULL);
	smq_hold_kick_all(host);
	WRITE_ONCE(choice->in_use, false);
	/* Pairs with smq_policy_found_use(): one of the two sees what came now. */
	smp_mb();
	return smq_use_is_there(host, policy) ? 0 : SMQ_POLICY_IDLE;
}

static void smq_use_work(struct work_struct *work)
{
	struct smq_host_core *core = container_of(to_delayed_work(work), struct smq_host_core,
						  choice.use);
	struct smq_choice *choice = &core->choice;
	struct smq_host *host = core->host;
	struct smq_policy *policy;
	unsigned long again;

	mutex_lock(&choice->lock);
	policy = smq_choice_policy(choice);
	if (policy && !READ_ONCE(core->eh.removing)) {
		if (smq_use_is_there(host, policy))
			again = smq_use_some(host, policy);
		else
			again = smq_use_none(host, policy);
		queue_delayed_work(core->hold.wq, &choice->use, again);
	}
	mutex_unlock(&choice->lock);
}

/**
 * smq_policy_found_use() - the policy has something to do
 * @host: a host that has chosen it
 *
 * Has the layer ask the policy's has_use soon, and make it effective. Cheap if that is
 * known.
 *
 * Context: any; a command of the host keeps it.
 */
void smq_policy_found_use(struct smq_host *host)
{
	struct smq_host_core *core = host->core;

	/* Pairs with smq_use_none(): its use first, then whether that is known. */
	smp_mb();
	if (!READ_ONCE(core->choice.in_use))
		mod_delayed_work(core->hold.wq, &core->choice.use, 0);
}
EXPORT_SYMBOL_GPL(smq_policy_found_use);

/* A policy is chosen that holds commands, or says when it has use. Context: policy lock. */
void smq_use_begin(struct smq_host *host)
{
	struct smq_choice *choice = &host->core->choice;

	lockdep_assert_held(&choice->lock);
	choice->kept_at = jiffies - SMQ_POLICY_IDLE;
	choice->looked_at = U64_MAX;
	choice->looking = false;
	WRITE_ONCE(choice->in_use, false);
	mod_delayed_work(host->core->hold.wq, &choice->use, 0);
}

/*
 * The effective policy goes: the device then has no more than its depth, unless lowering
 * timed out. Context: policy lock; may sleep.
 */
void smq_use_end(struct smq_host *host)
{
	lockdep_assert_held(&host->core->choice.lock);
	if (host->core->raised)
		smq_depth_lower(host);
	if (rcu_access_pointer(host->policy))
		smq_use_swap(host, NULL);
}

void smq_use_init_host(struct smq_host *host)
{
	INIT_DELAYED_WORK(&host->core->choice.use, smq_use_work);
}
