/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Prepares a SCSI command in place of the mid-layer. A passthrough request then needs no bio if its
 * data is already in a scatterlist.
 */
#ifndef SMQ_PREPARE_H
#define SMQ_PREPARE_H

#include <linux/blk-mq.h>
#include <linux/list.h>
#include <linux/scatterlist.h>
#include <linux/string.h>
#include <scsi/scsi_cmnd.h>
#include <scsi/scsi_host.h>

/* Scatterlist entries that fit into the command itself: the mid-layer's SCSI_INLINE_SG_CNT. */
#define SMQ_INLINE_SEGMENTS	2

/*
 * Whether an LLD reads a command's data from the request's bio rather than from the scatterlist.
 * Of the kernel's LLDs only aha1542 does.
 */
static inline bool smq_lld_reads_bio(const struct Scsi_Host *shost)
{
	const char *name = shost->hostt->proc_name;

	return name && !strcmp(name, "aha1542");
}

/**
 * smq_prepare_cmd() - prepares a command as scsi_prepare_cmd() does
 * @scmd: the command of a passthrough request that scsi_alloc_request() returned. If the request
 *	has a bio, @sgl is the bio's data. Its abort_work must be set up already: the function for
 *	that is not exported
 * @sdev: the device
 * @direction: of the data; DMA_NONE without data
 * @sgl: the data, or NULL
 * @nents: elements of @sgl
 * @orig_nents: number of elements that the mid-layer takes as allocated when it frees the list. Up
 *	to SCSI_INLINE_SG_CNT (2) it frees nothing
 * @length: bytes of data
 *
 * The caller sets CDB and cmd_len. This function sets RQF_DONTPREP: the mid-layer then skips its
 * own preparation, also when it dispatches the command again. Without a bio the block layer ends
 * the request as a whole, so the mid-layer never prepares the rest of a command that has data
 * (scsi_mq_requeue_cmd()). Not for hosts with protection information, whose prot_sdb the caller
 * would have to set up. Any context.
 */
static __always_inline void smq_prepare_cmd(struct scsi_cmnd *scmd, struct scsi_device *sdev,
					    enum dma_data_direction direction,
					    struct scatterlist *sgl, unsigned int nents,
					    unsigned int orig_nents, unsigned int length)
{
	struct request *rq = scsi_cmd_to_rq(scmd);

	scmd->device = sdev;
	INIT_LIST_HEAD(&scmd->eh_entry);
	scmd->eh_eflags = 0;
	scmd->allowed = 0;
	scmd->prot_op = SCSI_PROT_NORMAL;
	scmd->prot_type = 0;
	scmd->prot_flags = 0;
	scmd->sc_data_direction = direction;
	scmd->sdb.table.sgl = sgl;
	scmd->sdb.table.nents = nents;
	scmd->sdb.table.orig_nents = orig_nents;
	scmd->sdb.length = length;
	scmd->underflow = 0;
	scmd->transfersize = length;
	scmd->resid_len = 0;
	/* scsi_queue_rq() sets SCMD_STATE_INFLIGHT later. */
	scmd->state = 0;
	scmd->extra_len = 0;
	scmd->host_scribble = NULL;
	scmd->result = 0;
#ifdef SMQ_PREPARE_CLEARS
	if (!sdev->host->hostt->init_cmd_priv)
		memset(scmd + 1, 0, sdev->host->hostt->cmd_size);
#endif
	rq->__data_len = length;
	rq->rq_flags |= RQF_DONTPREP;
}

#endif /* SMQ_PREPARE_H */
