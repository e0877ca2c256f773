// SPDX-License-Identifier: GPL-2.0
/*
 * The policy "bucket": many CPUs, one hardware queue. Each CPU gives its commands to the LLD, but
 * one CPU at a time rings the doorbell, also for the commands of CPUs that come meanwhile.
 * bucket_choice.h has the protocol.
 */
#include <linux/seq_file.h>

#include "bucket_choice.h"
#include "builtin.h"

/**
 * struct bucket_knobs - a host's settings
 * @budget: doorbells that a CPU rings before it leaves them to the next CPU
 * @share: the policy is effective if at least one doorbell in @share is rung for other CPUs;
 *	0: always
 *
 * Read with READ_ONCE: settings take effect on the doorbells that follow.
 */
struct bucket_knobs {
	unsigned int budget;
	unsigned int share;
};

/**
 * struct bucket_hwq - a hardware queue
 * @choice: which CPU rings
 * @hwq: the hardware queue
 * @knobs: the host's settings
 *
 * The layer gives each hardware queue cache lines of its own.
 */
struct bucket_hwq {
	struct smq_bucket choice;
	struct smq_hwq *hwq;
	const struct bucket_knobs *knobs;
};

/**
 * struct bucket_host - a host
 * @rung: smq_bucket.rung of all hardware queues when the policy last judged whether it pays
 * @shared: the same of smq_bucket.shared
 * @since: when that was, in jiffies
 * @pays: the result
 *
 * All under the host's policy lock.
 */
struct bucket_host {
	unsigned int rung;
	unsigned int shared;
	unsigned long since;
	bool pays;
};

static void smq_bucket_doorbell(struct smq_bucket *b)
{
	smq_policy_commit(container_of(b, struct bucket_hwq, choice)->hwq);
}

void smq_bucket_has_command(struct smq_policy *policy, struct smq_hwq *hwq)
{
	struct bucket_hwq *q = smq_policy_hwq_priv(policy, hwq);

	smq_bucket_ring(&q->choice, READ_ONCE(q->knobs->budget));
}

/* The counters only grow; a sum that is a little too low does no harm. */
static void bucket_sum(struct smq_policy *policy, unsigned int *rung, unsigned int *shared)
{
	unsigned int i;

	*rung = 0;
	*shared = 0;
	for (i = 0; i < policy->host->nr_hwqs; i++) {
		struct bucket_hwq *q = smq_policy_hwq_priv(policy, policy->host->hwq[i]);

		*rung += READ_ONCE(q->choice.rung);
		*shared += READ_ONCE(q->choice.shared);
	}
}

static bool bucket_has_use(struct smq_policy *policy)
{
	const struct bucket_knobs *knobs = policy->knobs;
	struct bucket_host *host = smq_policy_priv(policy);
	unsigned int rung, shared;

	bucket_sum(policy, &rung, &shared);
	host->pays = smq_bucket_pays(rung - host->rung, shared - host->shared,
				     READ_ONCE(knobs->share), host->pays);
	if (rung - host->rung < SMQ_BUCKET_ENOUGH) {
		if (time_before(jiffies, host->since + SMQ_POLICY_LOOK))
			return host->pays;
		/* Too few doorbells in the time of a look: no policy could gain anything. */
		host->pays = !READ_ONCE(knobs->share);
	}
	host->rung = rung;
	host->shared = shared;
	host->since = jiffies;
	return host->pays;
}

static void bucket_look(struct smq_policy *policy)
{
	struct bucket_host *host = smq_policy_priv(policy);

	bucket_sum(policy, &host->rung, &host->shared);
	host->since = jiffies;
	host->pays = false;
}

static int bucket_init_hwq(struct smq_policy *policy, struct smq_hwq *hwq)
{
	struct bucket_hwq *q = smq_policy_hwq_priv(policy, hwq);

	q->hwq = hwq;
	q->knobs = policy->knobs;
	return 0;
}

static void bucket_show(struct seq_file *m, struct smq_policy *policy, struct smq_hwq *hwq)
{
	struct bucket_hwq *q = smq_policy_hwq_priv(policy, hwq);

	seq_printf(m, " rung=%u shared=%u", READ_ONCE(q->choice.rung), READ_ONCE(q->choice.shared));
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
	.ring		= smq_bucket_has_command,
	.has_use	= bucket_has_use,
	.look		= bucket_look,
	.show		= bucket_show,
};
