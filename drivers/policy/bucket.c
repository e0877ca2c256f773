// SPDX-License-Identifier: GPL-2.0
/*
 * The policy "bucket": many CPUs, one hardware queue. One CPU at a time has the right to dispatch
 * for the queue: the dispatcher. It gives its own commands to the LLD, and also those that other
 * CPUs have put into their buckets. So the other CPUs do not wait for the LLD's lock or doorbell.
 * bucket_choice.h has the protocol.
 */
#include <linux/preempt.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/smp.h>

#include "bucket_choice.h"
#include "builtin.h"

/**
 * struct bucket_knobs - a host's settings
 * @budget: commands of other CPUs that a dispatcher gives the LLD before it leaves the rest to
 *	workers
 * @share: the policy is effective if at least one command in @share is dispatched by another
 *	CPU than the one that queued it; 0: always
 *
 * Read with READ_ONCE: settings take effect on the commands that follow.
 */
struct bucket_knobs {
	unsigned int budget;
	unsigned int share;
};

struct bucket_hwq;

/**
 * struct bucket - commands of one or more CPUs that wait for the dispatcher
 * @hold: the commands, in the order in which they came. A CPU takes the list's lock to add a
 *	command; the dispatcher and error handling take it to remove commands
 * @queue: the hardware queue that the bucket belongs to
 * @contended: how often a CPU found the lock taken when it added a command; under that lock
 *
 * A bucket has cache lines of its own: see bucket_init_hwq().
 */
struct bucket {
	struct smq_hold hold;
	struct bucket_hwq *queue;
	unsigned long contended;
} ____cacheline_aligned_in_smp;

/**
 * struct bucket_hwq - a hardware queue
 * @choice: which CPU dispatches
 * @nr: number of buckets; 0 for a poll queue, whose commands all go to the LLD at once
 * @buckets: array of @nr buckets; CPU n has bucket n % @nr
 * @handovers: how often a dispatcher left the rest to workers. Not exact, because it is changed
 *	without a lock, after the dispatcher has given back its right: only shown to users
 * @taken: commands that the dispatcher has taken from buckets and has not given to the LLD yet;
 *	only the dispatcher uses the list
 * @hwq: the hardware queue
 * @knobs: the host's settings
 */
struct bucket_hwq {
	struct smq_bucket choice;
	unsigned int nr;
	struct bucket *buckets;
	unsigned long handovers;
	struct list_head taken;
	struct smq_hwq *hwq;
	const struct bucket_knobs *knobs;
};

/**
 * struct bucket_host - state of the check whether the policy pays
 * @all: sum of smq_bucket.all of all hardware queues at the last check
 * @by_other: sum of smq_bucket.by_other at the last check
 * @since: time of the last check, in jiffies
 * @pays: result of the last check: whether the policy paid
 *
 * Under the host's policy lock.
 */
struct bucket_host {
	unsigned int all;
	unsigned int by_other;
	unsigned long since;
	bool pays;
};

static bool smq_bucket_is_empty(struct smq_bucket *choice, unsigned int i)
{
	struct bucket_hwq *q = container_of(choice, struct bucket_hwq, choice);

	return !READ_ONCE(q->buckets[i].hold.nr);
}

static void smq_bucket_add(struct smq_bucket *choice, unsigned int i, struct smq_cmd *cmd)
{
	struct bucket_hwq *q = container_of(choice, struct bucket_hwq, choice);
	struct bucket *bucket = &q->buckets[i];
	struct smq_hold *hold = &bucket->hold;
	unsigned long flags;

	if (!spin_trylock_irqsave(&hold->lock, flags)) {
		spin_lock_irqsave(&hold->lock, flags);
		bucket->contended++;
	}
	smq_hold_add(hold, cmd, false);
	spin_unlock_irqrestore(&hold->lock, flags);
}

static unsigned int smq_bucket_take(struct smq_bucket *choice, unsigned int i, unsigned int most)
{
	struct bucket_hwq *q = container_of(choice, struct bucket_hwq, choice);
	struct smq_hold *hold = &q->buckets[i].hold;
	unsigned long flags;
	unsigned int nr;

	if (!READ_ONCE(hold->nr))
		return 0;
	spin_lock_irqsave(&hold->lock, flags);
	nr = smq_hold_take(hold, &q->taken, most);
	spin_unlock_irqrestore(&hold->lock, flags);
	return nr;
}

static void smq_bucket_issue(struct smq_bucket *choice, bool commit)
{
	struct bucket_hwq *q = container_of(choice, struct bucket_hwq, choice);

	if (!list_empty(&q->taken))
		smq_policy_issue(q->hwq, &q->taken, true);
	/* No doorbell while the host is frozen: smq_reset_begin() rings all doorbells. */
	else if (commit && !READ_ONCE(q->hwq->host->frozen))
		smq_policy_commit(q->hwq);
}

static void smq_bucket_kick(struct smq_bucket *choice, unsigned int buckets)
{
	struct bucket_hwq *q = container_of(choice, struct bucket_hwq, choice);
	unsigned int i;

	WRITE_ONCE(q->handovers, q->handovers + 1);
	for (i = 0; i < q->nr; i++) {
		if (buckets & 1U << i)
			smq_hold_kick(&q->buckets[i].hold);
	}
}

/*
 * The dispatcher must not be preempted: a task of higher priority on its CPU might wait for a
 * command that waits for the dispatcher. With PREEMPT_RT it may be preempted, because there the
 * LLD's locks may sleep.
 */
static void bucket_begin(void)
{
	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		preempt_disable();
}

static void bucket_end(void)
{
	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		preempt_enable();
}

/*
 * smq_hold.dispatch: a dispatcher has used up its budget, or the layer dispatches all held
 * commands.
 */
static void bucket_dispatch(struct smq_hold *hold)
{
	struct bucket *bucket = container_of(hold, struct bucket, hold);
	struct bucket_hwq *q = bucket->queue;

	bucket_begin();
	smq_bucket_work(&q->choice, bucket - q->buckets, READ_ONCE(q->knobs->budget));
	bucket_end();
}

/*
 * Whether a command may wait for a dispatcher, and so be overtaken by commands of other CPUs. False
 * for a command on a poll queue, because a poller waits for its own command; for flushes and
 * reserved commands, which must not wait; for commands to zoned disks and to devices other than
 * disks, because their order matters; and for commands to a device without tagged commands, which
 * takes one at a time.
 */
static bool bucket_may_wait(const struct bucket_hwq *q, struct smq_cmd *cmd)
{
	const struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);
	struct request *rq = scsi_cmd_to_rq(smq_cmd_to_scmd(cmd));

	return q->nr && scmd->flags & SCMD_TAGGED && scmd->device->type == TYPE_DISK &&
	       !(rq->cmd_flags & REQ_PREFLUSH) && req_op(rq) != REQ_OP_FLUSH &&
	       !(rq->rq_flags & RQF_FLUSH_SEQ) && !blk_mq_is_reserved_rq(rq) &&
	       !blk_queue_is_zoned(rq->q);
}

/* A batch of the block layer is over: dispatches its commands that are in buckets. */
static void bucket_last(struct smq_policy *policy, struct smq_hwq *hwq)
{
	struct bucket_hwq *q = smq_policy_hwq_priv(policy, hwq);

	bucket_begin();
	smq_bucket_end(&q->choice, READ_ONCE(q->knobs->budget));
	bucket_end();
}

/*
 * Uses raw_smp_processor_id(): with PREEMPT_RT the task may move to another CPU after the call, but
 * any bucket will do.
 */
static unsigned int bucket_own(const struct bucket_hwq *q)
{
	unsigned int cpu = raw_smp_processor_id();

	return likely(cpu < q->nr) ? cpu : cpu % q->nr;
}

/*
 * Whether a command passes: it goes to the LLD at once, because no CPU is dispatching. Then this
 * CPU has the right to dispatch until smq_bucket_has_passed(). Also called for commands for which
 * bucket_may_wait() is false: no other command overtakes one that passes.
 */
struct smq_policy *smq_bucket_passes(struct smq_policy *policy, struct smq_hwq *hwq)
{
	struct bucket_hwq *q = smq_policy_hwq_priv(policy, hwq);

	bucket_begin();
	if (likely(q->nr) && smq_bucket_try_pass(&q->choice, bucket_own(q)))
		return policy;
	bucket_end();
	return NULL;
}

void smq_bucket_has_passed(struct smq_policy *policy, struct smq_hwq *hwq)
{
	struct bucket_hwq *q = smq_policy_hwq_priv(policy, hwq);

	smq_bucket_end_pass(&q->choice, READ_ONCE(q->knobs->budget));
	bucket_end();
}

struct smq_hwq *smq_bucket_queue(struct smq_policy *policy, struct smq_hwq *hwq,
				 struct smq_cmd *cmd, bool last)
{
	struct bucket_hwq *q = smq_policy_hwq_priv(policy, hwq);

	if (!bucket_may_wait(q, cmd)) {
		if (last)
			bucket_last(policy, hwq);
		return hwq;
	}
	bucket_begin();
	/*
	 * The dispatcher also commits the batch's earlier commands, so this CPU need not wait for
	 * the LLD.
	 */
	smq_bucket_submit(&q->choice, bucket_own(q), cmd, last,
			  last && smq_policy_take_uncommitted(hwq), READ_ONCE(q->knobs->budget));
	bucket_end();
	return NULL;
}

/* Sums up the commands that were dispatched so far on all hardware queues. */
static void bucket_sum(struct smq_policy *policy, unsigned int *all, unsigned int *by_other)
{
	unsigned int i;

	*all = 0;
	*by_other = 0;
	for (i = 0; i < policy->host->nr_hwqs; i++) {
		struct bucket_hwq *q = smq_policy_hwq_priv(policy, policy->host->hwq[i]);

		*all += READ_ONCE(q->choice.all);
		*by_other += READ_ONCE(q->choice.by_other);
	}
}

static bool bucket_has_use(struct smq_policy *policy)
{
	const struct bucket_knobs *knobs = policy->knobs;
	struct bucket_host *host = smq_policy_priv(policy);
	unsigned int all, by_other;

	bucket_sum(policy, &all, &by_other);
	host->pays = smq_bucket_pays(all - host->all, by_other - host->by_other,
				     READ_ONCE(knobs->share), host->pays);
	if (all - host->all < SMQ_BUCKET_ENOUGH) {
		if (time_before(jiffies, host->since + SMQ_POLICY_LOOK))
			return host->pays;
		/* Too few commands in the time of a look: no policy could gain anything. */
		host->pays = !READ_ONCE(knobs->share);
	}
	host->all = all;
	host->by_other = by_other;
	host->since = jiffies;
	return host->pays;
}

static void bucket_look(struct smq_policy *policy)
{
	struct bucket_host *host = smq_policy_priv(policy);

	bucket_sum(policy, &host->all, &host->by_other);
	host->since = jiffies;
	host->pays = false;
}

static int bucket_init_hwq(struct smq_policy *policy, struct smq_hwq *hwq)
{
	struct bucket_hwq *q = smq_policy_hwq_priv(policy, hwq);
	unsigned int nr = min_t(unsigned int, nr_cpu_ids, SMQ_BUCKET_MAX);
	unsigned int i;

	q->hwq = hwq;
	q->knobs = policy->knobs;
	INIT_LIST_HEAD(&q->taken);
	if (hwq->type == HCTX_TYPE_POLL)
		return 0;
	/* kmalloc() aligns 2^n bytes to 2^n: each bucket has cache lines of its own. */
	q->buckets = kzalloc(roundup_pow_of_two(nr * sizeof(*q->buckets)), GFP_KERNEL);
	if (!q->buckets)
		return -ENOMEM;
	for (i = 0; i < nr; i++) {
		q->buckets[i].queue = q;
		smq_hold_init(&q->buckets[i].hold, policy->host, bucket_dispatch);
	}
	q->nr = nr;
	return 0;
}

static void bucket_exit_hwq(struct smq_policy *policy, struct smq_hwq *hwq)
{
	struct bucket_hwq *q = smq_policy_hwq_priv(policy, hwq);
	unsigned int i;

	for (i = 0; i < q->nr; i++)
		smq_hold_exit(&q->buckets[i].hold);
	kfree(q->buckets);
}

static void bucket_show(struct seq_file *m, struct smq_policy *policy, struct smq_hwq *hwq)
{
	struct bucket_hwq *q = smq_policy_hwq_priv(policy, hwq);
	unsigned long contended = 0;
	unsigned int i, held = 0;

	for (i = 0; i < q->nr; i++) {
		held += READ_ONCE(q->buckets[i].hold.nr);
		contended += READ_ONCE(q->buckets[i].contended);
	}
	seq_printf(m, " held=%u all=%u by_other=%u handovers=%lu contended=%lu", held,
		   READ_ONCE(q->choice.all), READ_ONCE(q->choice.by_other),
		   READ_ONCE(q->handovers), contended);
}

static void bucket_init_knobs(void *data)
{
	struct bucket_knobs *knobs = data;

	knobs->budget = 64;
	knobs->share = 16;
}

/* A setting of a host, from @_min to @_max; other values are refused. */
#define BUCKET_ATTR(_name, _min, _max)							\
static ssize_t _name##_show(struct device *dev, struct device_attribute *attr,		\
			    char *buf)							\
{											\
	const struct bucket_knobs *knobs = smq_policy_knobs(dev, &smq_bucket_ops);	\
											\
	return sysfs_emit(buf, "%u\n", READ_ONCE(knobs->_name));			\
}											\
											\
static ssize_t _name##_store(struct device *dev, struct device_attribute *attr,		\
			     const char *buf, size_t count)				\
{											\
	struct bucket_knobs *knobs = smq_policy_knobs(dev, &smq_bucket_ops);		\
											\
	return smq_knob_store_uint(dev, attr, "smq_bucket", buf, count, &knobs->_name,	\
				   _min, _max);						\
}											\
static DEVICE_ATTR_RW(_name)

BUCKET_ATTR(budget, 1, SMQ_MAX_DEPTH);
BUCKET_ATTR(share, 0, 1024);

static struct attribute *bucket_attrs[] = {
	&dev_attr_budget.attr,
	&dev_attr_share.attr,
	NULL
};

static const struct attribute_group bucket_group = {
	.name = "smq_bucket",
	.attrs = bucket_attrs,
};

const struct smq_policy_ops smq_bucket_ops = {
	.name		= "bucket",
	.owner		= THIS_MODULE,
	.knobs_size	= sizeof(struct bucket_knobs),
	.host_size	= sizeof(struct bucket_host),
	.hwq_size	= sizeof(struct bucket_hwq),
	.knobs		= &bucket_group,
	.init_knobs	= bucket_init_knobs,
	.init_hwq	= bucket_init_hwq,
	.exit_hwq	= bucket_exit_hwq,
	.passes		= smq_bucket_passes,
	.passed		= smq_bucket_has_passed,
	.queue		= smq_bucket_queue,
	.last		= bucket_last,
	.has_use	= bucket_has_use,
	.look		= bucket_look,
	.show		= bucket_show,
};
