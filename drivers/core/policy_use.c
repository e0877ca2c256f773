// SPDX-License-Identifier: GPL-2.0
/*
 * Makes the chosen policy effective only while it has something to do; otherwise the host runs
 * as "direct", and the policy costs nothing. In "direct" the policy sees no command, so it cannot
 * find out that it has something to do again. Two things make it effective again: a full device,
 * which "direct" notices in its cold branches, and a look every few seconds, in which commands go
 * through the policy for 200 ms.
 *
 * A policy that has something to do may still lose: a policy with the operation "pass" is compared
 * with "direct" when it becomes effective, and every few seconds while it is.
 */
#include <linux/export.h>
#include <linux/percpu.h>

#include "core.h"

/* The time before the next try to raise or lower the advertised depth, in jiffies. */
#define SMQ_USE_RETRY	msecs_to_jiffies(10)
/* A window of a comparison, in jiffies: all windows together take as long as a look. */
#define SMQ_USE_WINDOW	(SMQ_POLICY_LOOK / SMQ_COMPARE_WINDOWS)

struct smq_use_sum {
	u64 queued;
	u64 done;
};

/* Sums up how many commands were queued, and how many have ended. */
static struct smq_use_sum smq_use_count(const struct smq_host *host)
{
	struct smq_use_sum sum = {};
	unsigned int i;
	int cpu;

	for (i = 0; i < host->nr_hwqs; i++) {
		for_each_possible_cpu(cpu) {
			const struct smq_stats *stats = per_cpu_ptr(host->hwq[i]->stats, cpu);

			sum.queued += READ_ONCE(stats->queued);
			sum.done += READ_ONCE(stats->done);
		}
	}
	return sum;
}

/*
 * Rings all doorbells: if the effective policy changed during a batch, the LLD may have commands of
 * that batch without a doorbell. Rings none during a reset, unless @reset: the reset's begin rings
 * those that submitters left out because it had set @frozen. Context: may sleep.
 */
void smq_use_commit_all(struct smq_host *host, bool reset)
{
	unsigned int i;

	for (i = 0; i < host->nr_hwqs; i++) {
		rcu_read_lock();
		if (reset || !READ_ONCE(host->frozen))
			smq_policy_commit(host->hwq[i]);
		rcu_read_unlock();
	}
}

/*
 * Makes @policy effective; NULL: "direct". After the call all commands that went through the
 * previous policy are with the LLD, held, or have ended. Context: policy lock; may sleep.
 */
void smq_use_swap(struct smq_host *host, struct smq_policy *policy)
{
	unsigned int i;

	lockdep_assert_held(&host->core->choice.lock);
	rcu_assign_pointer(host->policy, policy);
	/* A submitter that sees only the new pointer or only the new bit runs as "direct": wait. */
	for (i = 0; i < host->nr_hwqs; i++)
		assign_bit(SMQ_DETOUR_POLICY, &host->hwq[i]->detour, policy);
	synchronize_rcu();
	smq_use_commit_all(host, false);
}

/*
 * Whether the policy is to be effective because it learns depths. It is, so that the device does
 * not already have a long queue when it is found to be slow. On a host whose devices are fast it is
 * not, because that would cost instructions.
 */
static bool smq_use_learns(struct smq_host *host, struct smq_policy *policy)
{
	unsigned int least, most;

	return policy->ops->learns && policy->ops->learns(policy, &least, &most) &&
	       time_after_eq(jiffies, READ_ONCE(host->core->choice.last_fast) + SMQ_POLICY_IDLE);
}

/* Whether the policy has something to do now, or had within the last SMQ_POLICY_IDLE. */
static bool smq_use_needed(struct smq_host *host, struct smq_policy *policy)
{
	if (!policy->ops->has_use)
		return true;
	if (policy->ops->holds &&
	    (time_before(jiffies, READ_ONCE(host->core->choice.last_full) + SMQ_POLICY_IDLE) ||
	     smq_depth_is_reduced(host)))
		return true;
	if (smq_use_learns(host, policy))
		return true;
	return !host->core->choice.slower && policy->ops->has_use(policy);
}

/* Begins a window of a comparison. Returns its length, in jiffies. */
static unsigned long smq_use_compare(struct smq_host *host, struct smq_policy *policy)
{
	struct smq_choice *choice = &host->core->choice;

	policy->ops->pass(policy, !smq_compare_with(&choice->compare));
	choice->window_done = smq_use_count(host).done;
	choice->window_start = ktime_get_ns();
	return SMQ_USE_WINDOW;
}

/*
 * Makes the policy effective, raises the advertised depth for a policy that holds commands, and
 * begins a comparison, unless the host got no commands since the last one. Returns the time until
 * the next check, in jiffies.
 */
static unsigned long smq_use_when_needed(struct smq_host *host, struct smq_policy *policy)
{
	struct smq_choice *choice = &host->core->choice;
	u64 queued;

	choice->looking = false;
	WRITE_ONCE(choice->in_use, true);
	if (!rcu_access_pointer(host->policy))
		smq_use_swap(host, policy);
	if (policy->ops->holds && !host->core->raised && !smq_depth_raise(host)) {
		/* Count SMQ_POLICY_IDLE from the time when the depth is raised. */
		WRITE_ONCE(choice->last_full, jiffies);
		return SMQ_USE_RETRY;
	}
	queued = smq_use_count(host).queued;
	if (!policy->ops->pass || queued == choice->queued_at_look)
		return SMQ_POLICY_IDLE;
	choice->queued_at_look = queued;
	choice->compare = (struct smq_compare) {};
	choice->comparing = true;
	return smq_use_compare(host, policy);
}

/*
 * Called while the policy has nothing to do, as far as the layer knows. If the host runs as
 * "direct", begins a look, unless the host got no commands since the last look. Otherwise makes the
 * host run as "direct", but not before the end of a look. Returns the time until the next check, in
 * jiffies.
 */
static unsigned long smq_use_when_idle(struct smq_host *host, struct smq_policy *policy)
{
	struct smq_choice *choice = &host->core->choice;
	u64 queued = smq_use_count(host).queued;

	if (!rcu_access_pointer(host->policy)) {
		if (queued == choice->queued_at_look)
			return SMQ_POLICY_IDLE;
		choice->looking = true;
		choice->slower = false;
		choice->look_end = jiffies + SMQ_POLICY_LOOK;
		if (policy->ops->look)
			policy->ops->look(policy);
		smq_use_swap(host, policy);
		/* What the policy knows from earlier may be enough to begin a comparison. */
		return smq_use_needed(host, policy) ? 0 : SMQ_POLICY_LOOK;
	}
	if (choice->looking && time_before(jiffies, choice->look_end))
		return choice->look_end - jiffies;
	choice->looking = false;
	choice->queued_at_look = queued;
	/* While more commands than the depth are in flight, the layer keeps counting them. */
	if (!smq_depth_lower(host))
		return SMQ_USE_RETRY;
	smq_use_swap(host, NULL);
	smq_hold_kick_all(host);
	WRITE_ONCE(choice->in_use, false);
	/* Pairs with smq_policy_found_use(): one of the two CPUs sees the other's store. */
	smp_mb();
	return smq_use_needed(host, policy) ? 0 : SMQ_POLICY_IDLE;
}

/*
 * Called when a window of a comparison has ended. Returns the length of the next one, or the time
 * until the next check, in jiffies.
 */
static unsigned long smq_use_compared(struct smq_host *host, struct smq_policy *policy)
{
	struct smq_choice *choice = &host->core->choice;
	u64 done = smq_use_count(host).done - choice->window_done;
	u64 ns = ktime_get_ns() - choice->window_start;

	smq_compare_add(&choice->compare, done, min_t(u64, ns, U32_MAX));
	if (choice->compare.window < SMQ_COMPARE_WINDOWS)
		return smq_use_compare(host, policy);
	choice->comparing = false;
	choice->slower = smq_compare_is_slower(&choice->compare);
	/* If the device is full, a slower policy stays effective, but lets commands pass. */
	policy->ops->pass(policy, choice->slower);
	if (!smq_use_needed(host, policy))
		return smq_use_when_idle(host, policy);
	return SMQ_POLICY_IDLE;
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
		if (choice->comparing)
			again = smq_use_compared(host, policy);
		else if (smq_use_needed(host, policy))
			again = smq_use_when_needed(host, policy);
		else
			again = smq_use_when_idle(host, policy);
		queue_delayed_work(core->hold.wq, &choice->use, again);
	}
	mutex_unlock(&choice->lock);
}

void smq_policy_found_use(struct smq_host *host)
{
	struct smq_host_core *core = host->core;

	/* Pairs with smq_use_when_idle(): orders the caller's store before this read of in_use. */
	smp_mb();
	if (!READ_ONCE(core->choice.in_use))
		mod_delayed_work(core->hold.wq, &core->choice.use, 0);
}
EXPORT_SYMBOL_GPL(smq_policy_found_use);

/* Called when a device was found to be so fast that its depth need not be learned. Context: any. */
void smq_use_fast(struct smq_host *host)
{
	struct smq_choice *choice = &host->core->choice;
	bool again = time_before(jiffies, READ_ONCE(choice->last_fast) + SMQ_POLICY_IDLE);

	WRITE_ONCE(choice->last_fast, jiffies);
	if (!again && READ_ONCE(choice->in_use))
		mod_delayed_work(host->core->hold.wq, &choice->use, 0);
}

/*
 * Starts the periodic checks whether the chosen policy has something to do. Only for a policy that
 * holds commands or has the operation has_use. Context: policy lock.
 */
void smq_use_begin(struct smq_host *host)
{
	struct smq_choice *choice = &host->core->choice;

	lockdep_assert_held(&choice->lock);
	choice->last_full = jiffies - SMQ_POLICY_IDLE;
	choice->last_fast = jiffies - SMQ_POLICY_IDLE;
	choice->queued_at_look = U64_MAX;
	choice->looking = false;
	WRITE_ONCE(choice->in_use, false);
	mod_delayed_work(host->core->hold.wq, &choice->use, 0);
}

/*
 * Makes the host run as "direct". After the call the device has no more commands than its depth,
 * unless smq_depth_lower() timed out. Context: policy lock; may sleep.
 */
void smq_use_end(struct smq_host *host)
{
	struct smq_choice *choice = &host->core->choice;

	lockdep_assert_held(&choice->lock);
	/* The next policy need not have the operation pass. */
	choice->comparing = false;
	choice->slower = false;
	choice->compare = (struct smq_compare) {};
	smq_depth_lower(host);
	host->core->lowering = false;
	if (rcu_access_pointer(host->policy))
		smq_use_swap(host, NULL);
}

void smq_use_init_host(struct smq_host *host)
{
	INIT_DELAYED_WORK(&host->core->choice.use, smq_use_work);
}
