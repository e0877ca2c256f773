// SPDX-License-Identifier: GPL-2.0
/*
 * The policy "batch": one doorbell for several commands, where doorbells are
 * dear. batch_choice.h chooses; where they are cheap commands pass by.
 */
#define pr_fmt(fmt) "smq: " fmt

#include <linux/ktime.h>
#include <linux/sysfs.h>

#include "hold.h"
#include "policy.h"
#include "smq.h"

/* Holds a command, then dispatches all that are held if the choice is to. */
static void smq_batch_hold(struct smq_hwq *hwq, struct smq_cmd *cmd, bool last, bool sample)
{
	const struct smq_batch_limits *limits = &hwq->host->limits;
	struct smq_hold *hold = hwq->hold;
	enum smq_batch_choice choice;
	struct smq_batch_now now;
	unsigned long flags;

	spin_lock_irqsave(&hold->lock, flags);
	smq_hold_add(hold, cmd, false);
	now.held = hold->nr;
	now.bytes = hold->bytes;
	now.inflight = atomic_read(&hold->inflight);
	now.last = last;
	choice = smq_batch_choose(&hold->batch, READ_ONCE(limits->requests),
				  READ_ONCE(limits->bytes), &now);
	if (choice == SMQ_BATCH_GO && hold->full && now.inflight)
		choice = SMQ_BATCH_WAIT;	/* a completion dispatches */
	if (choice == SMQ_BATCH_GO) {
		if (hold->batch.dear)
			sample = smq_batch_sample_due(&hold->batch);
	} else if (hold->nr == 1 || !hrtimer_is_queued(&hold->timer)) {
		/* The one look at the clock for a batch. */
		hold->opened = ktime_get_ns();
		smq_hold_wait(hold, READ_ONCE(limits->usecs) * (u64)NSEC_PER_USEC);
	}
	spin_unlock_irqrestore(&hold->lock, flags);

	if (choice == SMQ_BATCH_GO) {
		smq_hold_dispatch(hwq, sample);
		return;
	}
	/*
	 * The last in flight may have completed before it could see this one
	 * held: with the full barrier one of the two sees the other.
	 */
	smp_mb();
	if (last && !atomic_read(&hold->inflight))
		smq_hold_dispatch(hwq, false);
}

/* Whether a command that is to be counted may pass: not before those that wait for room. */
static bool smq_batch_counted(struct smq_cmd *cmd)
{
	struct smq_lun *lun = smq_cmd_lun(cmd);

	if (atomic_read(&lun->waiting) || !smq_lun_get(lun))
		return false;
	cmd->flags = SMQ_CMD_COUNTED;
	return true;
}

enum smq_verdict smq_batch_queue(struct smq_hwq *hwq, struct smq_cmd *cmd, bool last)
{
	unsigned int requests = READ_ONCE(hwq->host->limits.requests);
	struct smq_hold *hold = hwq->hold;
	bool sample = false;

	/* data_race: who errs holds a command for nothing, or passes one by. */
	if (data_race(smq_batch_passes(&hold->batch, requests, last)) && !READ_ONCE(hold->nr)) {
		/* A poller waits for its command: it is not made to wait more. */
		if (last && hwq->host->lld->commit && hwq->type != HCTX_TYPE_POLL)
			/* Two CPUs may both count, or both sample. */
			sample = data_race(smq_batch_sample_due(&hold->batch));
		if (!sample && (READ_ONCE(hwq->host->passes) || smq_batch_counted(cmd)))
			return SMQ_PASS;
	}
	smq_batch_hold(hwq, cmd, last, sample);
	return SMQ_HOLD;
}

/* The batch of the block layer is over, though no command was the last of it. */
void smq_batch_last(struct smq_hwq *hwq)
{
	/* data_race: at worst one batch more or less passes. */
	data_race(hwq->hold->batch.run = 0);
	if (READ_ONCE(hwq->hold->nr))
		smq_hold_dispatch(hwq, false);
}

void smq_batch_init_host(struct smq_host *host)
{
	host->limits.requests = 16;
	host->limits.bytes = SZ_64K;
	host->limits.usecs = 50;
}

/* A limit of a host; refused outside @_min to @_max. */
#define SMQ_BATCH_ATTR(_name, _min, _max)						\
static ssize_t _name##_show(struct device *dev, struct device_attribute *attr,		\
			    char *buf)							\
{											\
	struct smq_host *host = smq_shost_to_host(class_to_shost(dev));			\
											\
	return sysfs_emit(buf, "%u\n", READ_ONCE(host->limits._name));			\
}											\
											\
static ssize_t _name##_store(struct device *dev, struct device_attribute *attr,		\
			     const char *buf, size_t count)				\
{											\
	struct smq_host *host = smq_shost_to_host(class_to_shost(dev));			\
	unsigned int value;								\
	int err = kstrtouint(buf, 0, &value);						\
											\
	if (err || value < (_min) || value > (_max)) {					\
		pr_err_ratelimited("%s: smq_batch/" #_name "=%.*s is outside %u..%u\n",	\
				   dev_name(dev), (int)min_t(size_t, strcspn(buf, "\n"), 32), \
				   buf, _min, _max);					\
		return err ?: -EINVAL;							\
	}										\
	WRITE_ONCE(host->limits._name, value);						\
	return count;									\
}											\
static DEVICE_ATTR_RW(_name)

SMQ_BATCH_ATTR(requests, 1U, (unsigned int)SMQ_MAX_DEPTH);
SMQ_BATCH_ATTR(bytes, 512U, (unsigned int)SZ_16M);
SMQ_BATCH_ATTR(usecs, 1U, 10000U);

static struct attribute *smq_batch_attrs[] = {
	&dev_attr_requests.attr,
	&dev_attr_bytes.attr,
	&dev_attr_usecs.attr,
	NULL
};

const struct attribute_group smq_batch_group = {
	.name = "smq_batch",
	.attrs = smq_batch_attrs,
};
