// SPDX-License-Identifier: GPL-2.0
/*
 * Stage 0, the driver before its conversion. DEF_SCSI_QCMD() calls queuecommand under host_lock.
 * For each command queuecommand allocates a slot and rings the doorbell. There is one queue. Stage
 * 1 uses pv_old_queue() unchanged.
 */
#include "pvscsi.h"

smq_qc_t pv_old_queue(struct pv_dev *pv, struct scsi_cmnd *scmd)
{
	struct pv_slot *slot = pv_old_slot_alloc(pv, scmd);
	int err;

	if (!slot)
		return SCSI_MLQUEUE_HOST_BUSY;
	err = pv_ring_put(pv, slot, scmd);
	if (err) {
		pv_old_slot_free(pv, slot);
		if (err == -EBUSY)
			return SCSI_MLQUEUE_HOST_BUSY;
		scmd->result = DID_NO_CONNECT << 16;
		pv_done(pv, scmd);
		return 0;
	}
	pv_doorbell(pv);
	return 0;
}

static struct pv_dev *pv_old_dev(struct scsi_device *sdev)
{
	return *(struct pv_dev **)shost_priv(sdev->host);
}

static smq_qc_t pv_old_queuecommand_lck(struct scsi_cmnd *scmd)
{
	return pv_old_queue(pv_old_dev(scmd->device), scmd);
}

static DEF_SCSI_QCMD(pv_old_queuecommand)

static int pv_old_abort(struct scsi_cmnd *scmd)
{
	return pv_abort(pv_old_dev(scmd->device), scmd) ? FAILED : SUCCESS;
}

static int pv_old_device_reset(struct scsi_cmnd *scmd)
{
	return pv_reset_lun(pv_old_dev(scmd->device), scmd->device) ? FAILED : SUCCESS;
}

static int pv_old_bus_reset(struct scsi_cmnd *scmd)
{
	return pv_reset_bus(pv_old_dev(scmd->device)) ? FAILED : SUCCESS;
}

static int pv_old_host_reset(struct scsi_cmnd *scmd)
{
	return pv_reset_host(pv_old_dev(scmd->device)) ? FAILED : SUCCESS;
}

static struct scsi_host_template pv_old_template = {
	.module			= THIS_MODULE,
	.name			= "smq_pvscsi",
	.proc_name		= "smq_pvscsi",
	.queuecommand		= pv_old_queuecommand,
	.eh_abort_handler	= pv_old_abort,
	.eh_device_reset_handler = pv_old_device_reset,
	.eh_bus_reset_handler	= pv_old_bus_reset,
	.eh_host_reset_handler	= pv_old_host_reset,
	.change_queue_depth	= scsi_change_queue_depth,
	.track_queue_depth	= 1,
	.skip_settle_delay	= 1,
	.can_queue		= PV_DEPTH,
	.cmd_per_lun		= PV_DEPTH,
	.sg_tablesize		= PV_SG,
	.max_sectors		= 0xffff,
	.this_id		= -1,
};

struct Scsi_Host *pv_old_alloc(struct pv_dev *pv)
{
	struct Scsi_Host *shost = scsi_host_alloc(&pv_old_template, sizeof(pv));

	if (!shost)
		return NULL;
	*(struct pv_dev **)shost_priv(shost) = pv;
	shost->max_id = PV_MAX_ID;
	shost->max_lun = 1;
	shost->max_cmd_len = 16;
	return shost;
}
