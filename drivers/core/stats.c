// SPDX-License-Identifier: GPL-2.0
/*
 * Statistics of a host, read-only: sums in /sys/class/scsi_host/hostN/smq/, and all counters
 * in debugfs smq/hostN/stats, in lines of "key=value" words. The first word of a line names the
 * object that the line describes.
 */
#include <linux/debugfs.h>
#include <linux/minmax.h>
#include <linux/seq_file.h>
#include <linux/sysfs.h>

#include "core.h"
#include "smq.h"

static struct dentry *smq_debugfs;

/*
 * Sums the counters of all CPUs. The CPUs may count meanwhile, so a sum is exact only when the host
 * is quiet. Reads the counters "done" first and "queued" last, so that queued - done is never
 * negative.
 */
/* Commands of a hardware queue of an attached host that have not ended. */
static unsigned int smq_attached_inflight(const struct smq_hwq *hwq)
{
	const struct smq_attached *attached = hwq->host->attached;
	const struct smq_attached_cmd *cmds = attached->hwqs[hwq->index].cmds;
	unsigned int tag, inflight = 0;

	for (tag = 0; tag < hwq->host->shost->tag_set.queue_depth; tag++) {
		/* data_race: a statistic. Another hardware queue may have the same tags. */
		if (data_race(cmds[tag].cmd.hwq) == hwq)
			inflight += atomic_read(&cmds[tag].cmd.state) != SMQ_FREE;
	}
	return inflight;
}

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
		sum->held_full += READ_ONCE(s->held_full);
		sum->commits += READ_ONCE(s->commits);
		sum->dispatches += READ_ONCE(s->dispatches);
		sum->dispatched += READ_ONCE(s->dispatched);
		sum->busy_hwq += READ_ONCE(s->busy_hwq);
		sum->busy_host += READ_ONCE(s->busy_host);
		sum->busy_device += READ_ONCE(s->busy_device);
		sum->busy_target += READ_ONCE(s->busy_target);
	}
	/* Pairs with no barrier: it only keeps the two loops in this order. */
	smp_rmb();
	for_each_possible_cpu(cpu)
		sum->queued += READ_ONCE(per_cpu_ptr(hwq->stats, cpu)->queued);
	/* An attached host does not count this, to save instructions. */
	if (hwq->host->attached)
		sum->done = sum->queued - min_t(u64, sum->queued, smq_attached_inflight(hwq));
}

static struct smq_stats smq_sum_host(const struct smq_host *host)
{
	struct smq_stats sum = {};
	unsigned int i;

	for (i = 0; i < host->nr_hwqs; i++)
		smq_sum_hwq(host->hwq[i], &sum);
	return sum;
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
SMQ_SUM_ATTR(held_full, sum.held_full);
SMQ_SUM_ATTR(inflight, sum.queued - sum.done);

#define SMQ_EH_ATTR(_name)							\
static ssize_t _name##_show(struct device *dev, struct device_attribute *attr,	\
			    char *buf)						\
{										\
	return sysfs_emit(buf, "%d\n",						\
			  atomic_read(&smq_dev_to_host(dev)->core->eh._name));	\
}										\
static DEVICE_ATTR_RO(_name)

SMQ_EH_ATTR(timeouts);
SMQ_EH_ATTR(aborts);
SMQ_EH_ATTR(lun_resets);
SMQ_EH_ATTR(target_resets);
SMQ_EH_ATTR(host_resets);
SMQ_EH_ATTR(reset_cmds);

/* How many commands are held now. */
static ssize_t held_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", smq_hold_sum(smq_dev_to_host(dev)));
}
static DEVICE_ATTR_RO(held);

/* How many commands the layer gives to the device of each LUN: a line for each LUN. */
static ssize_t inner_depth_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct smq_host *host = smq_dev_to_host(dev);
	const struct smq_lun_core *lun;
	struct scsi_device *sdev;
	int len = 0;

	/* The lock keeps the layer's parts of the LUNs from being freed. */
	mutex_lock(&host->core->choice.lock);
	shost_for_each_device(sdev, host->shost) {
		lun = smq_host_lun(host, sdev);
		if (lun)
			len += sysfs_emit_at(buf, len, "%u:%u:%llu %d\n", sdev->channel, sdev->id,
					     sdev->lun, smq_depth_now(&lun->depth));
	}
	mutex_unlock(&host->core->choice.lock);
	return len;
}
static DEVICE_ATTR_RO(inner_depth);

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
	&dev_attr_held_full.attr,
	&dev_attr_timeouts.attr,
	&dev_attr_aborts.attr,
	&dev_attr_lun_resets.attr,
	&dev_attr_target_resets.attr,
	&dev_attr_host_resets.attr,
	&dev_attr_reset_cmds.attr,
	&dev_attr_inner_depth.attr,
	NULL
};

static const struct attribute_group smq_host_group = {
	.name = "smq",
	.attrs = smq_host_attrs,
};

const struct attribute_group *smq_host_groups[] = {
	&smq_host_group,
	&smq_fault_group,
	NULL
};
EXPORT_SYMBOL_GPL(smq_host_groups);

static void smq_show_host(struct seq_file *m, struct smq_host *host,
			  const struct smq_policy *policy)
{
	const struct smq_choice *choice = &host->core->choice;
	const struct smq_host_eh *eh = &host->core->eh;

	seq_printf(m, "host=%u lld=%s policy=%s effective=%s compared=%d slower=%d depth=%u extra=%u raised=%d held=%u faults=%d",
		   host->shost->host_no, host->lld->name, policy ? policy->ops->name : "direct",
		   rcu_access_pointer(host->policy) ? policy->ops->name : "direct",
		   choice->compare.window == SMQ_COMPARE_WINDOWS, choice->slower, host->depth,
		   host->extra, host->core->raised, smq_hold_sum(host),
		   READ_ONCE(host->core->faults.on));
	seq_printf(m, " timeouts=%d aborts=%d lun_resets=%d target_resets=%d host_resets=%d reset_cmds=%d\n",
		   atomic_read(&eh->timeouts), atomic_read(&eh->aborts),
		   atomic_read(&eh->lun_resets), atomic_read(&eh->target_resets),
		   atomic_read(&eh->host_resets), atomic_read(&eh->reset_cmds));
}

static void smq_show_hwq(struct seq_file *m, struct smq_hwq *hwq)
{
	struct smq_stats sum = {};

	smq_sum_hwq(hwq, &sum);
	seq_printf(m, "hwq=%u type=%s queued=%llu done=%llu inflight=%llu errors=%llu busy=%llu",
		   hwq->index, hwq->type == HCTX_TYPE_POLL ? "poll" : "default", sum.queued,
		   sum.done, sum.queued - sum.done, sum.errors, sum.busy);
	seq_printf(m, " busy_hwq=%llu busy_host=%llu busy_device=%llu busy_target=%llu",
		   sum.busy_hwq, sum.busy_host, sum.busy_device, sum.busy_target);
	seq_printf(m, " deferred=%llu polled=%llu", sum.deferred, sum.polled);
	seq_printf(m, " held_full=%llu commits=%llu dispatches=%llu dispatched=%llu refused=%u foreign=%d\n",
		   sum.held_full, sum.commits, sum.dispatches, sum.dispatched,
		   READ_ONCE(hwq->core->refused.nr), atomic_read(&hwq->core->move.foreign));
}

static void smq_show_lun(struct seq_file *m, const struct smq_lun_core *lun)
{
	const struct scsi_device *sdev = lun->sdev;

	seq_printf(m, "lun=%u:%u:%llu queue_depth=%d depth=%u max=%u inflight=%d waiting=%u learned=%d\n",
		   sdev->channel, sdev->id, sdev->lun, sdev->queue_depth,
		   READ_ONCE(lun->depth.depth), READ_ONCE(lun->depth.max),
		   atomic_read(&lun->depth.inflight), READ_ONCE(lun->depth.wait.nr),
		   smq_depth_now(&lun->depth));
}

static int stats_show(struct seq_file *m, void *v)
{
	struct smq_host *host = m->private;
	struct smq_policy *policy;
	struct smq_lun_core *lun;
	struct scsi_device *sdev;
	unsigned int i;

	/* The lock keeps the policy and the layer's parts of the LUNs from being freed. */
	mutex_lock(&host->core->choice.lock);
	policy = smq_choice_policy(&host->core->choice);
	seq_puts(m, "version=1\n");
	smq_show_host(m, host, policy);
	for (i = 0; i < host->nr_hwqs; i++)
		smq_show_hwq(m, host->hwq[i]);
	shost_for_each_device(sdev, host->shost) {
		lun = smq_host_lun(host, sdev);
		if (lun)
			smq_show_lun(m, lun);
	}
	for (i = 0; policy && policy->ops->show && i < host->nr_hwqs; i++) {
		seq_printf(m, "policy=%s hwq=%u", policy->ops->name, i);
		policy->ops->show(m, policy, host->hwq[i]);
		seq_putc(m, '\n');
	}
	mutex_unlock(&host->core->choice.lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(stats);

void smq_stats_add_host(struct smq_host *host)
{
	host->core->debugfs = debugfs_create_dir(dev_name(&host->shost->shost_gendev),
						 smq_debugfs);
	debugfs_create_file("stats", 0444, host->core->debugfs, host, &stats_fops);
}

void smq_stats_remove_host(struct smq_host *host)
{
	/* Waits for readers; without debugfs there is nothing to remove. */
	debugfs_remove_recursive(host->core->debugfs);
}

void smq_stats_init(void)
{
	smq_debugfs = debugfs_create_dir("smq", NULL);
}

void smq_stats_exit(void)
{
	debugfs_remove_recursive(smq_debugfs);
}
