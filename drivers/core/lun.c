// SPDX-License-Identifier: GPL-2.0
/* LUNs: set-up and removal of what the layer, the LLD and the policy keep for a LUN. */
#include <linux/blk-mq.h>
#include <linux/export.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <scsi/scsi_eh.h>
#include <scsi/scsi_proto.h>

#include "core.h"
#include "smq.h"
#include "wait.h"

/* Sets up the layer's and the policy's part of a LUN; no command uses them yet. */
static int smq_lun_init(struct smq_host *host, struct scsi_device *sdev, struct smq_lun *lun)
{
	struct smq_choice *choice = &host->core->choice;
	struct smq_policy *policy;
	int err;

	lun->core->sdev = sdev;
	smq_hold_init(&lun->core->depth.wait, host, smq_wait_dispatch_lun);
	/* A change of policy skips LUNs that have no hostdata yet. */
	mutex_lock(&choice->lock);
	smq_depth_init(&lun->core->depth, sdev);
	err = smq_depth_widen(host, sdev, &lun->core->depth);
	policy = smq_choice_policy(choice);
	if (!err && policy)
		err = smq_policy_add_lun(policy, lun->core);
	sdev->hostdata = lun;
	mutex_unlock(&choice->lock);
	return err;
}

int smq_sdev_init(struct scsi_device *sdev)
{
	struct smq_host *host = smq_sdev_to_host(sdev);
	struct smq_lun *lun;
	int err;

	lun = kzalloc(sizeof(*lun) + host->lld->lun_size, GFP_KERNEL);
	if (!lun)
		return -ENOMEM;
	lun->core = kzalloc(sizeof(*lun->core), GFP_KERNEL);
	if (!lun->core) {
		kfree(lun);
		return -ENOMEM;
	}
	err = smq_lun_init(host, sdev, lun);
	if (!err && host->lld->lun_init)
		err = host->lld->lun_init(host, sdev);
	lun->core->probed = !err;
	return err;
}
EXPORT_SYMBOL_GPL(smq_sdev_init);

SMQ_SDEV_CONFIGURE(smq_sdev_configure)
{
	struct smq_host *host = smq_sdev_to_host(sdev);
	int err = 0;

	if (host->lld->lun_configure)
		err = host->lld->lun_configure(host, sdev, SMQ_SDEV_LIMITS(sdev));
	return err ?: smq_depth_configured(host, sdev, &smq_sdev_to_core(sdev)->depth);
}
EXPORT_SYMBOL_GPL(smq_sdev_configure);

void smq_lun_room(struct scsi_device *sdev)
{
	struct smq_host_holds *holds = &smq_sdev_to_host(sdev)->core->hold;
	struct smq_lun *lun;
	unsigned long flags;

	spin_lock_irqsave(&holds->lock, flags);
	lun = smq_sdev_to_lun(sdev);
	if (lun && smq_depth_has_waiting(&lun->core->depth))
		smq_hold_kick(&lun->core->depth.wait);
	spin_unlock_irqrestore(&holds->lock, flags);
	/*
	 * While a blocked LUN has commands in flight, the mid-layer queues no more to it. So clear
	 * the block, as a completion does.
	 */
	if (atomic_read(&sdev->device_blocked))
		atomic_set(&sdev->device_blocked, 0);
	blk_mq_run_hw_queues(sdev->request_queue, true);
}
EXPORT_SYMBOL_GPL(smq_lun_room);

void smq_lun_absent(struct scsi_cmnd *scmd)
{
	const u8 *cdb = scmd->cmnd;
	u8 data[36] = {
		[0] = 0x7f,		/* qualifier 011b, type 1Fh: no logical unit */
		[2] = 0x07,		/* SPC-5 */
		[3] = 0x02,		/* response data format 2 */
		[4] = sizeof(data) - 5,
	};
	unsigned int n;

	if (cdb[0] != INQUIRY || cdb[1] & 0x03 || scmd->sc_data_direction != DMA_FROM_DEVICE) {
		/* LOGICAL UNIT NOT SUPPORTED */
		scsi_build_sense(scmd, 0, ILLEGAL_REQUEST, 0x25, 0);
		scsi_set_resid(scmd, scsi_bufflen(scmd));
		return;
	}
	memcpy(data + 8, "SMQ     NO LOGICAL UNIT 0001", 28);
	n = min3((unsigned int)sizeof(data), scsi_bufflen(scmd),
		 (unsigned int)get_unaligned_be16(cdb + 3));
	sg_copy_from_buffer(scsi_sglist(scmd), scsi_sg_count(scmd), data, n);
	scsi_set_resid(scmd, scsi_bufflen(scmd) - n);
	scmd->result = SAM_STAT_GOOD;
}
EXPORT_SYMBOL_GPL(smq_lun_absent);

/* The mid-layer also calls this for a LUN whose sdev_init failed. */
void smq_sdev_destroy(struct scsi_device *sdev)
{
	struct smq_host *host = smq_sdev_to_host(sdev);
	struct smq_lun *lun = smq_sdev_to_lun(sdev);
	bool probed;

	if (!lun)
		return;
	/* Wait for a reset by ioctl that is under way; the next one sees that probed is false. */
	mutex_lock(&host->core->eh.lock);
	probed = lun->core->probed;
	lun->core->probed = false;
	mutex_unlock(&host->core->eh.lock);
	if (probed && host->lld->lun_exit)
		host->lld->lun_exit(host, sdev);

	mutex_lock(&host->core->eh.lock);
	mutex_lock(&host->core->choice.lock);
	/*
	 * Code that walks the host's LUNs under choice.lock skips a LUN without hostdata, and so
	 * does smq_lun_room() under the lock of the lists.
	 */
	spin_lock_irq(&host->core->hold.lock);
	sdev->hostdata = NULL;
	spin_unlock_irq(&host->core->hold.lock);
	/* Do this before the policy's part is freed: the list's dispatch uses that part. */
	smq_hold_exit(&lun->core->depth.wait);
	smq_policy_remove_lun(lun->core);
	/* The dispatch of a policy's own list may still read the LUN. */
	if (atomic_read(&host->core->choice.live))
		synchronize_rcu();
	mutex_unlock(&host->core->choice.lock);
	mutex_unlock(&host->core->eh.lock);
	kfree(lun->core);
	kfree(lun);
}
EXPORT_SYMBOL_GPL(smq_sdev_destroy);
