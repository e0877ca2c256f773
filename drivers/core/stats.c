// SPDX-License-Identifier: GPL-2.0
/*
 * What a host counts, read-only: sums in /sys/class/scsi_host/hostN/smq/, a line
 * per hardware queue in debugfs smq/hostN/hwqs; what policies hold in holds, and
 * the inner depth of each LUN in depths.
 */
#include <linux/debugfs.h>
#include <linux/seq_file.h>
#include <linux/sysfs.h>

#include "hold.h"
#include "legacy.h"
#include "policy.h"
#include "smq.h"

static struct dentry *smq_debugfs;

/*
 * A sum over CPUs while they count: each counter is exact when the host is
 * quiet. done is read before queued, so the difference never goes below zero
 * for what completed in between.
 */
static void smq_sum_hwq(const struct smq_hwq *hwq, struct smq_stats *sum)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		const struct smq_stats *s = per_cpu_ptr(hwq->stats, cpu);

		sum->done += READ_ONCE(s->done);
		sum->errors += READ_ONCE(s->errors);
		sum->busy += READ_ONCE(s->busy);
		sum->deferred += READ_ONCE(s->deferred);
		sum->polled += READ_ONCE(s->polled);
		sum->kept += READ_ONCE(s->kept);
	}
	/* Pairs with nothing: only keeps the two loops in this order. */
	smp_rmb();
	for_each_possible_cpu(cpu)
		sum->queued += READ_ONCE(per_cpu_ptr(hwq->stats, cpu)->queued);
}

static struct smq_stats smq_sum_host(const struct smq_host *host)
{
	struct smq_stats sum = {};
	unsigned int i;

	for (i = 0; i < host->nr_hwqs; i++)
		smq_sum_hwq(host->hwq[i], &sum);
	return sum;
}

static struct smq_host *smq_dev_to_host(struct device *dev)
{
	return smq_shost_to_host(class_to_shost(dev));
}

#define SMQ_SUM_ATTR(_name, _expr)						\
static ssize_t _name##_show(struct device *dev, struct device_attribute *attr,	\
			    char *buf)						\
{										\
	struct smq_stats sum = smq_sum_host(smq_dev_to_host(dev));		\
										\
	return sysfs_emit(buf, "%llu\n", _expr);				\
}										\
static DEVICE_ATTR_RO(_name)

SMQ_SUM_ATTR(queued, sum.queued);
SMQ_SUM_ATTR(done, sum.done);
SMQ_SUM_ATTR(errors, sum.errors);
SMQ_SUM_ATTR(busy, sum.busy);
SMQ_SUM_ATTR(deferred, sum.deferred);
SMQ_SUM_ATTR(polled, sum.polled);
SMQ_SUM_ATTR(kept, sum.kept);
SMQ_SUM_ATTR(inflight, sum.queued - sum.done);

#define SMQ_EH_ATTR(_name)							\
static ssize_t _name##_show(struct device *dev, struct device_attribute *attr,	\
			    char *buf)						\
{										\
	return sysfs_emit(buf, "%d\n",						\
			  atomic_read(&smq_dev_to_host(dev)->eh._name));	\
}										\
static DEVICE_ATTR_RO(_name)

SMQ_EH_ATTR(timeouts);
SMQ_EH_ATTR(aborts);
SMQ_EH_ATTR(lun_resets);
SMQ_EH_ATTR(target_resets);
SMQ_EH_ATTR(host_resets);
SMQ_EH_ATTR(reset_cmds);

/* What the policy holds now. */
static ssize_t held_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	const struct smq_host *host = smq_dev_to_host(dev);
	unsigned int i, held = 0;

	for (i = 0; i < host->nr_hwqs; i++)
		held += READ_ONCE(host->hwq[i]->hold->nr);
	return sysfs_emit(buf, "%u\n", held);
}
static DEVICE_ATTR_RO(held);

static ssize_t hw_queues_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	const struct smq_host *host = smq_dev_to_host(dev);

	return sysfs_emit(buf, "%u\n", host->nr_hwqs - host->nr_poll);
}
static DEVICE_ATTR_RO(hw_queues);

static ssize_t poll_queues_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", smq_dev_to_host(dev)->nr_poll);
}
static DEVICE_ATTR_RO(poll_queues);

static struct device_attribute dev_attr_policy =
	__ATTR(policy, 0644, smq_policy_show, smq_policy_store);

static struct attribute *smq_host_attrs[] = {
	&dev_attr_policy.attr,
	&dev_attr_hw_queues.attr,
	&dev_attr_poll_queues.attr,
	&dev_attr_queued.attr,
	&dev_attr_done.attr,
	&dev_attr_inflight.attr,
	&dev_attr_errors.attr,
	&dev_attr_busy.attr,
	&dev_attr_deferred.attr,
	&dev_attr_polled.attr,
	&dev_attr_held.attr,
	&dev_attr_kept.attr,
	&dev_attr_timeouts.attr,
	&dev_attr_aborts.attr,
	&dev_attr_lun_resets.attr,
	&dev_attr_target_resets.attr,
	&dev_attr_host_resets.attr,
	&dev_attr_reset_cmds.attr,
	NULL
};

static const struct attribute_group smq_host_group = {
	.name = "smq",
	.attrs = smq_host_attrs,
};

const struct attribute_group *smq_host_groups[] = {
	&smq_host_group,
	&smq_batch_group,
	&smq_legacy_group,
	NULL
};
EXPORT_SYMBOL_GPL(smq_host_groups);

static int hwqs_show(struct seq_file *m, void *v)
{
	const struct smq_host *host = m->private;
	unsigned int i;

	seq_puts(m, "hwq type queued done inflight errors busy deferred polled\n");
	for (i = 0; i < host->nr_hwqs; i++) {
		const struct smq_hwq *hwq = host->hwq[i];
		struct smq_stats sum = {};

		smq_sum_hwq(hwq, &sum);
		seq_printf(m, "%u %s %llu %llu %llu %llu %llu %llu %llu\n", i,
			   hwq->type == HCTX_TYPE_POLL ? "poll" : "default", sum.queued,
			   sum.done, sum.queued - sum.done, sum.errors, sum.busy,
			   sum.deferred, sum.polled);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(hwqs);

static int holds_show(struct seq_file *m, void *v)
{
	const struct smq_host *host = m->private;
	unsigned int i;

	seq_puts(m, "hwq held bytes inflight full doorbell_ns dear\n");
	for (i = 0; i < host->nr_hwqs; i++) {
		struct smq_hold *hold = host->hwq[i]->hold;

		spin_lock_irq(&hold->lock);
		seq_printf(m, "%u %u %u %d %d %u %d\n", i, hold->nr, hold->bytes,
			   atomic_read(&hold->inflight), hold->full,
			   smq_batch_cost(&hold->batch), hold->batch.dear);
		spin_unlock_irq(&hold->lock);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(holds);

static int depths_show(struct seq_file *m, void *v)
{
	struct smq_host *host = m->private;
	struct scsi_device *sdev;

	seq_puts(m, "lun queue_depth depth max inflight waiting\n");
	/* Keeps the LUNs' parts of the layer. */
	mutex_lock(&host->policy_lock);
	shost_for_each_device(sdev, host->shost) {
		struct smq_lun *lun = smq_sdev_to_lun(sdev);

		if (!lun)
			continue;
		seq_printf(m, "%u:%u:%llu %d %u %u %d %d\n", sdev->channel, sdev->id, sdev->lun,
			   sdev->queue_depth, READ_ONCE(lun->depth), READ_ONCE(lun->max),
			   atomic_read(&lun->inflight), atomic_read(&lun->waiting));
	}
	mutex_unlock(&host->policy_lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(depths);

void smq_stats_add_host(struct smq_host *host)
{
	host->debugfs = debugfs_create_dir(dev_name(&host->shost->shost_gendev), smq_debugfs);
	debugfs_create_file("hwqs", 0444, host->debugfs, host, &hwqs_fops);
	debugfs_create_file("holds", 0444, host->debugfs, host, &holds_fops);
	debugfs_create_file("depths", 0444, host->debugfs, host, &depths_fops);
}

void smq_stats_remove_host(struct smq_host *host)
{
	/* Waits for readers; without debugfs there is nothing to remove. */
	debugfs_remove_recursive(host->debugfs);
}

void smq_stats_init(void)
{
	smq_debugfs = debugfs_create_dir("smq", NULL);
}

void smq_stats_exit(void)
{
	debugfs_remove_recursive(smq_debugfs);
}
