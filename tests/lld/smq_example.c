// SPDX-License-Identifier: GPL-2.0
/*
 * The policy "example" gives commands to the hardware queues in turn. While the queue whose turn it
 * is has "most" commands in flight, a command stays on the queue that the block layer has chosen.
 */
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/sysfs.h>
#include <smq/policy.h>

struct example_knobs {
	unsigned int most;
};

struct example_hwq {
	atomic_t inflight;	/* atomic: any CPU queues and completes */
	unsigned int next;	/* queue to try next, modulo the number of queues; counts up */
};

static struct smq_hwq *example_queue(struct smq_policy *policy, struct smq_hwq *hwq,
				     struct smq_cmd *cmd, bool last)
{
	struct example_hwq *mine = smq_policy_hwq_priv(policy, hwq), *its;
	const struct example_knobs *knobs = policy->knobs;
	struct smq_hwq *to;

	/* data_race: two CPUs may choose the same queue, which does no harm. */
	to = policy->host->hwq[data_race(mine->next++) % policy->host->nr_hwqs];
	its = smq_policy_hwq_priv(policy, to);
	if (!smq_cmd_may_move(cmd) || !smq_hwq_is_open(to) ||
	    atomic_read(&its->inflight) >= READ_ONCE(knobs->most))
		to = hwq;
	its = smq_policy_hwq_priv(policy, to);
	atomic_inc(&its->inflight);
	return to;
}

static void example_done(struct smq_policy *policy, struct smq_cmd *cmd)
{
	struct example_hwq *its = smq_policy_hwq_priv(policy, cmd->hwq);

	atomic_dec(&its->inflight);
}

static void example_refused(struct smq_policy *policy, struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	struct example_hwq *its = smq_policy_hwq_priv(policy, cmd->hwq);
	struct example_hwq *mine = smq_policy_hwq_priv(policy, hwq);

	atomic_dec(&its->inflight);
	atomic_inc(&mine->inflight);
}

static void example_show(struct seq_file *m, struct smq_policy *policy, struct smq_hwq *hwq)
{
	struct example_hwq *its = smq_policy_hwq_priv(policy, hwq);

	seq_printf(m, " inflight=%d", atomic_read(&its->inflight));
}

static void example_init_knobs(void *knobs)
{
	((struct example_knobs *)knobs)->most = 8;
}

static const struct smq_policy_ops example_ops;

static ssize_t most_store(struct device *dev, struct device_attribute *attr, const char *buf,
			  size_t count)
{
	struct example_knobs *knobs = smq_policy_knobs(dev, &example_ops);

	return smq_knob_store_uint(dev, attr, "smq_example", buf, count, &knobs->most, 1, 1024);
}
static DEVICE_ATTR_WO(most);
static struct attribute *example_attrs[] = { &dev_attr_most.attr, NULL };
static const struct attribute_group example_group = { "smq_example", .attrs = example_attrs };
static const struct smq_policy_ops example_ops = {
	.name = "example", .owner = THIS_MODULE, .moves = true,
	.knobs_size = sizeof(struct example_knobs), .hwq_size = sizeof(struct example_hwq),
	.knobs = &example_group, .init_knobs = example_init_knobs, .queue = example_queue,
	.done = example_done, .refused = example_refused, .show = example_show,
};

smq_module_policy(example_ops);

MODULE_ALIAS("smq-policy-example");
MODULE_DESCRIPTION("An example of a dispatch policy, for the tests of smq");
MODULE_LICENSE("GPL");
