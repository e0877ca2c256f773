// SPDX-License-Identifier: GPL-2.0
/*
 * LUNs: their private area, and the inner depth that the layer keeps for them
 * while a policy holds commands: the mid-layer's queue_depth then counts held
 * commands too.
 */
#include <linux/blk-mq.h>
#include <linux/export.h>
#include <linux/sbitmap.h>
#include <linux/slab.h>

#include "hold.h"
#include "legacy.h"
#include "policy.h"
#include "smq.h"

/*
 * The mid-layer has sized the LUN's map of commands by can_queue, which without
 * a holding policy is what the device takes. No command has used it yet, and no
 * change of policy knows the LUN.
 */
static int smq_lun_widen_map(struct smq_host *host, struct scsi_device *sdev)
{
	unsigned int most = min_t(unsigned int, host->depth + host->extra, SMQ_MAX_DEPTH);
	struct sbitmap old = sdev->budget_map, wide;
	int err;

	if (!host->extra || !old.map)
		return 0;
	err = sbitmap_init_node(&wide, most, old.shift, GFP_KERNEL, sdev->request_queue->node,
				false, true);
	if (err)
		return err;
	sbitmap_resize(&wide, sdev->queue_depth);
	sdev->budget_map = wide;
	sbitmap_free(&old);
	return 0;
}

int smq_sdev_init(struct scsi_device *sdev)
{
	struct smq_host *host = smq_sdev_to_host(sdev);
	struct smq_lun *lun;
	int err = 0;

	lun = kzalloc(sizeof(*lun) + host->lld->lun_size, GFP_KERNEL);
	if (!lun)
		return -ENOMEM;
	spin_lock_init(&lun->lock);
	lun->sdev = sdev;
	lun->max = min_t(unsigned int, host->depth, SMQ_MAX_DEPTH);
	lun->depth = lun->max;
	/* A change of policy passes by LUNs that have no hostdata yet. */
	mutex_lock(&host->policy_lock);
	if (rcu_access_pointer(host->legacy))
		err = smq_legacy_add_lun(lun);
	if (!err)
		err = smq_lun_widen_map(host, sdev);
	sdev->hostdata = lun;
	mutex_unlock(&host->policy_lock);
	if (!err && host->lld->lun_init)
		err = host->lld->lun_init(host, sdev);
	lun->probed = !err;
	return err;
}
EXPORT_SYMBOL_GPL(smq_sdev_init);

/* The mid-layer calls it also for a LUN whose sdev_init failed. */
void smq_sdev_destroy(struct scsi_device *sdev)
{
	struct smq_host *host = smq_sdev_to_host(sdev);
	struct smq_lun *lun = smq_sdev_to_lun(sdev);

	if (!lun)
		return;
	if (lun->probed && host->lld->lun_exit)
		host->lld->lun_exit(host, sdev);
	/* Nobody who walks the host's LUNs under the lock uses this one any more. */
	mutex_lock(&host->policy_lock);
	sdev->hostdata = NULL;
	mutex_unlock(&host->policy_lock);
	kfree(lun->legacy);
	kfree(lun);
}
EXPORT_SYMBOL_GPL(smq_sdev_destroy);

/*
 * TASK SET FULL: what is in flight now is what the device takes; not less than half
 * of what it was said to, for others may have completed together with this one.
 * Context: any.
 */
void smq_lun_full(struct smq_lun *lun, unsigned int inflight)
{
	unsigned int now = max(inflight, 1U);
	unsigned long flags;

	spin_lock_irqsave(&lun->lock, flags);
	now = max(now, lun->depth / 2);
	lun->last_full = jiffies;
	if (now < lun->depth)
		WRITE_ONCE(lun->depth, now);
	spin_unlock_irqrestore(&lun->lock, flags);
}

/* A GOOD status below the most: grows by one per queue_ramp_up_period, as the mid-layer's does. */
void smq_lun_grow(struct smq_lun *lun)
{
	unsigned long period, flags;

	period = READ_ONCE(lun->sdev->queue_ramp_up_period);
	spin_lock_irqsave(&lun->lock, flags);
	if (lun->depth < lun->max && time_after_eq(jiffies, lun->last_full + period) &&
	    time_after_eq(jiffies, lun->last_ramp + period)) {
		WRITE_ONCE(lun->depth, lun->depth + 1);
		lun->last_ramp = jiffies;
	}
	spin_unlock_irqrestore(&lun->lock, flags);
}

/* A holding policy begins: the depth that was advertised becomes the inner one. */
void smq_luns_begin(struct smq_host *host)
{
	struct scsi_device *sdev;

	shost_for_each_device(sdev, host->shost) {
		struct smq_lun *lun = smq_sdev_to_lun(sdev);

		if (!lun)
			continue;
		spin_lock_irq(&lun->lock);
		lun->max = clamp_t(unsigned int, sdev->max_queue_depth, sdev->queue_depth,
				   max_t(unsigned int, host->depth, sdev->queue_depth));
		WRITE_ONCE(lun->depth, sdev->queue_depth);
		spin_unlock_irq(&lun->lock);
	}
}

/* More is advertised than the device takes. */
void smq_luns_raise(struct smq_host *host)
{
	struct scsi_device *sdev;

	host->shost->can_queue = host->depth + host->extra;
	shost_for_each_device(sdev, host->shost) {
		struct smq_lun *lun = smq_sdev_to_lun(sdev);

		if (lun)
			scsi_change_queue_depth(sdev, READ_ONCE(lun->max) + host->extra);
	}
}

/* What is advertised is the inner depth again, wherever it has got to. */
void smq_luns_lower(struct smq_host *host)
{
	struct scsi_device *sdev;

	shost_for_each_device(sdev, host->shost) {
		struct smq_lun *lun = smq_sdev_to_lun(sdev);

		if (!lun)
			continue;
		scsi_change_queue_depth(sdev, READ_ONCE(lun->depth));
		/* A write to queue_depth has left what was advertised there. */
		sdev->max_queue_depth = READ_ONCE(lun->max);
	}
	host->shost->can_queue = host->depth;
}

/*
 * sysfs queue_depth: what the device is to have at most. With a holding policy
 * that is the inner depth, and what the mid-layer has lies above it.
 */
int smq_change_queue_depth(struct scsi_device *sdev, int depth)
{
	struct smq_host *host = smq_sdev_to_host(sdev);
	struct smq_lun *lun = smq_sdev_to_lun(sdev);
	int ret;

	mutex_lock(&host->policy_lock);
	depth = min_t(int, depth, host->depth);
	if (smq_host_holds(host)) {
		spin_lock_irq(&lun->lock);
		lun->max = depth;
		WRITE_ONCE(lun->depth, depth);
		spin_unlock_irq(&lun->lock);
		depth += host->raised ? host->extra : 0;
	}
	ret = scsi_change_queue_depth(sdev, depth);
	mutex_unlock(&host->policy_lock);
	return ret;
}
EXPORT_SYMBOL_GPL(smq_change_queue_depth);
