// SPDX-License-Identifier: GPL-2.0
/* Finds the upper device of a claim. Counts the lower device's commands from other sources. */
#include <linux/minmax.h>
#include <linux/percpu.h>

#include "conv.h"

/*
 * Returns the upper device of a claim, with a reference for put_device(); NULL if there is none.
 * scsi_device_lookup() would fail while this module is being unloaded, because it takes a reference
 * to the module.
 */
struct scsi_device *conv_lun_upper(struct conv_lun *cl)
{
	struct Scsi_Host *shost = cl->host->smq->shost;
	const struct scsi_device *lower = cl->lower;
	struct scsi_device *upper;

	spin_lock_irq(shost->host_lock);
	upper = __scsi_device_lookup(shost, lower->channel, lower->id, lower->lun);
	if (upper && !get_device(&upper->sdev_gendev))
		upper = NULL;
	spin_unlock_irq(shost->host_lock);
	return upper;
}

/*
 * Returns how many commands the lower device has got since the claim from other sources than the
 * upper device: from sg, bsg and the mid-layer itself. If the lower mid-layer retries a command of
 * the upper device, each retry counts, too.
 */
unsigned int conv_lun_others(const struct conv_lun *cl)
{
	int others = atomic_read(&cl->lower->iorequest_cnt) - cl->cmds_before_claim;
	int cpu;

	/* Not exact under load: a command that is counted as sent may not be dispatched yet. */
	for_each_possible_cpu(cpu)
		others -= READ_ONCE(*per_cpu_ptr(cl->sent, cpu));
	return max(others, 0);
}
