// SPDX-License-Identifier: GPL-2.0
/* The rings: descriptors of commands for the device, and their results. */
#include <linux/dma-mapping.h>
#include <linux/smp.h>

#include "pvscsi.h"

/* Describes the data; if it has several pieces, fills the slot's scatterlist. */
static void pv_describe_data(struct pv_req *req, struct pv_slot *slot, struct scsi_cmnd *scmd,
			     int nsg)
{
	u32 flags = PV_REQ_NO_DATA;
	struct scatterlist *sg;
	int i;

	if (scmd->sc_data_direction == DMA_TO_DEVICE)
		flags = PV_REQ_TO_DEVICE;
	else if (scmd->sc_data_direction == DMA_FROM_DEVICE)
		flags = PV_REQ_TO_HOST;
	else if (scmd->sc_data_direction == DMA_BIDIRECTIONAL)
		flags = 0;

	req->data = 0;
	if (nsg == 1) {
		req->data = cpu_to_le64(sg_dma_address(scsi_sglist(scmd)));
	} else if (nsg > 1) {
		scsi_for_each_sg(scmd, sg, nsg, i) {
			slot->sg[i].addr = cpu_to_le64(sg_dma_address(sg));
			slot->sg[i].len = cpu_to_le32(sg_dma_len(sg));
			slot->sg[i].flags = 0;
		}
		req->data = cpu_to_le64(slot->sg_dma);
		flags |= PV_REQ_SG_LIST;
	}
	req->data_len = cpu_to_le64(scsi_bufflen(scmd));
	req->flags = cpu_to_le32(flags);
}

static void pv_describe(struct pv_req *req, struct pv_slot *slot, struct scsi_cmnd *scmd, int nsg)
{
	struct scsi_lun lun;

	req->context = cpu_to_le64(pv_tag(scmd) + 1);
	pv_describe_data(req, slot, scmd, nsg);
	req->sense = cpu_to_le64(slot->sense_dma);
	req->sense_len = cpu_to_le32(PV_SENSE);
	memcpy(req->cdb, scmd->cmnd, scmd->cmd_len);
	req->cdb_len = scmd->cmd_len;
	int_to_scsilun(scmd->device->lun, &lun);
	memcpy(req->lun, &lun, sizeof(req->lun));
	req->tag = 0x20;
	req->bus = scmd->device->channel;
	req->target = scmd->device->id;
	req->vcpu_hint = raw_smp_processor_id();
}

/*
 * Puts a command on the ring; the caller rings the doorbell. Return: 0; -EBUSY if there is no
 * room or no mapping, or a reset is under way; -ENODEV if the device is gone. Context: any.
 */
int pv_ring_put(struct pv_dev *pv, struct pv_slot *slot, struct scsi_cmnd *scmd)
{
	int nsg = scsi_dma_map(scmd);
	unsigned long flags;

	if (nsg < 0)
		return -EBUSY;
	spin_lock_irqsave(&pv->req_lock, flags);
	if (unlikely(pv->stopped ||
		     pv->req_prod - le32_to_cpu(READ_ONCE(pv->state->req_cons)) >=
		     PV_REQ_ENTRIES)) {
		spin_unlock_irqrestore(&pv->req_lock, flags);
		scsi_dma_unmap(scmd);
		return READ_ONCE(pv->gone) ? -ENODEV : -EBUSY;
	}
	pv_describe(&pv->req[pv->req_prod % PV_REQ_ENTRIES], slot, scmd, nsg);
	slot->scmd = scmd;
	WRITE_ONCE(pv->slot[pv_tag(scmd)], slot);
	/* The device may read the index at any time: write slot and descriptor before the index. */
	dma_wmb();
	WRITE_ONCE(pv->state->req_prod, cpu_to_le32(++pv->req_prod));
	spin_unlock_irqrestore(&pv->req_lock, flags);
	return 0;
}

/*
 * The result of a command that moved less data than the buffer holds: an error only if it moved
 * less than scmd->underflow.
 */
static int pv_short_result(struct scsi_cmnd *scmd, const struct pv_cmp *cmp)
{
	u64 moved = min_t(u64, le64_to_cpu(cmp->data_len), scsi_bufflen(scmd));

	/* With QEMU, which does not report how much data was moved, @moved is 0. */
	scsi_set_resid(scmd, scsi_bufflen(scmd) - moved);
	if (moved < scmd->underflow)
		return DID_ERROR << 16;
	return le16_to_cpu(cmp->scsi_status);
}

static int pv_result(struct scsi_cmnd *scmd, const struct pv_cmp *cmp)
{
	u64 moved = le64_to_cpu(cmp->data_len);
	int status = le16_to_cpu(cmp->scsi_status);

	switch (le16_to_cpu(cmp->host_status)) {
	case PV_HS_OK:
	case PV_HS_LINKED_OK:
	case PV_HS_LINKED_FLAG_OK:
		/* 0 may also mean that the device does not count bytes. */
		if (moved && moved < scsi_bufflen(scmd))
			scsi_set_resid(scmd, scsi_bufflen(scmd) - moved);
		return status;
	case PV_HS_UNDERRUN:
	case PV_HS_DATA_RUN:
		if (status != SAM_STAT_GOOD) {
			scsi_set_resid(scmd, scsi_bufflen(scmd) - min_t(u64, moved,
									scsi_bufflen(scmd)));
			return status;
		}
		return pv_short_result(scmd, cmp);
	case PV_HS_NO_DEVICE:
	case PV_HS_LUN_MISMATCH:
	case PV_HS_BAD_PARAMETER:
		return DID_BAD_TARGET << 16;
	case PV_HS_SENT_RESET:
	case PV_HS_RECEIVED_RESET:
	case PV_HS_BUS_RESET:
		return DID_RESET << 16;
	case PV_HS_ABORTED:
		return DID_ABORT << 16;
	default:
		return DID_ERROR << 16;
	}
}

/* Completes a command by the function that fits the driver's stage of conversion. */
void pv_done(struct pv_dev *pv, struct scsi_cmnd *scmd)
{
	if (pv->stage == PV_OLD)
		scsi_done(scmd);
	else if (pv->stage == PV_LCK)
		smq_scsi_done(scmd);
	else
		smq_cmd_done(smq_scmd_to_cmd(scmd));
}

/* Takes a command from slot[]: the device no longer has it. */
static struct scsi_cmnd *pv_take(struct pv_dev *pv, unsigned int tag, u32 sense_len)
{
	struct pv_slot *slot = pv->slot[tag];
	struct scsi_cmnd *scmd = slot->scmd;

	lockdep_assert_held(&pv->cmp_lock);
	slot->scmd = NULL;
	WRITE_ONCE(pv->slot[tag], NULL);
	scsi_dma_unmap(scmd);
	if (pv->stage < PV_PREALLOC)
		pv_old_slot_free(pv, slot);
	else if (sense_len)
		memcpy(scmd->sense_buffer, slot->sense, min_t(u32, sense_len, PV_SENSE));
	return scmd;
}

static void pv_complete(struct pv_dev *pv, const struct pv_cmp *cmp)
{
	u64 tag = le64_to_cpu(cmp->context) - 1;
	struct scsi_cmnd *scmd;

	if (unlikely(tag >= PV_DEPTH || !pv->slot[tag])) {
		dev_warn_ratelimited(&pv->pdev->dev, "completion for tag %llu, which is not in flight\n",
				     tag);
		return;
	}
	scmd = pv_take(pv, tag, le16_to_cpu(cmp->scsi_status) == SAM_STAT_CHECK_CONDITION ?
				le32_to_cpu(cmp->sense_len) : 0);
	scmd->result = pv_result(scmd, cmp);
	pv_done(pv, scmd);
}

void pv_ring_complete_locked(struct pv_dev *pv)
{
	u32 mask = PV_CMP_PAGES * 4096 / sizeof(*pv->cmp) - 1;
	u32 prod;

	lockdep_assert_held(&pv->cmp_lock);
	while ((prod = le32_to_cpu(READ_ONCE(pv->state->cmp_prod))) != pv->cmp_cons) {
		/* Read descriptors after the index that announces them. */
		dma_rmb();
		while (pv->cmp_cons != prod)
			pv_complete(pv, &pv->cmp[pv->cmp_cons++ & mask]);
		/* Read the descriptors before writing the index that lets the device reuse them. */
		dma_mb();
		WRITE_ONCE(pv->state->cmp_cons, cpu_to_le32(pv->cmp_cons));
	}
}

/* Completes the commands that the device has finished. Context: any. */
void pv_ring_complete(struct pv_dev *pv)
{
	unsigned long flags;

	spin_lock_irqsave(&pv->cmp_lock, flags);
	pv_ring_complete_locked(pv);
	spin_unlock_irqrestore(&pv->cmp_lock, flags);
}

/* Ends all commands of a device that was reset or is gone. */
void pv_fail_all(struct pv_dev *pv, int result)
{
	unsigned int tag;

	lockdep_assert_held(&pv->cmp_lock);
	for (tag = 0; tag < PV_DEPTH; tag++) {
		if (pv->slot[tag]) {
			struct scsi_cmnd *scmd = pv_take(pv, tag, 0);

			scmd->result = result;
			pv_done(pv, scmd);
		}
	}
}
