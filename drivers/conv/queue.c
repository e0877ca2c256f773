// SPDX-License-Identifier: GPL-2.0
/*
 * The LLD: each command becomes a passthrough request of the lower device, which has the
 * scatterlist of the command for its own. Data is not copied, and no bio is made.
 */
#include <linux/blk-mq.h>
#include <linux/scatterlist.h>
#include <linux/sched.h>
#include <scsi/scsi_cmnd.h>

#include "conv.h"

/* What a request says of its way to the device; all else is said by its CDB. */
#define CONV_FLAGS	(REQ_FAILFAST_MASK | REQ_SYNC | REQ_META | REQ_PRIO)

/*
 * The result of a command that did not end with GOOD. Return: whether it timed out, and so is to
 * time out above as well.
 */
static noinline bool conv_failed(struct scsi_cmnd *scmd, const struct conv_cmd *cc,
				 const struct scsi_cmnd *lower, blk_status_t error)
{
	/* Without what the lower mid-layer notes for itself; the upper one does the same again. */
	scmd->result = lower->result & 0xff00ff;
	/* A request that did not get as far as the mid-layer. */
	if (!lower->result && error)
		scmd->result = DID_ERROR << 16;
	memcpy(scmd->sense_buffer, lower->sense_buffer, SCSI_SENSE_BUFFERSIZE);
	if (scmd->result != DID_TIME_OUT << 16)
		return false;
	/* Block I/O is tried again, passthrough learns of it. */
	if (READ_ONCE(cc->reset))
		scmd->result = DID_RESET << 16;
	/* The upper error handler has a timer of its own for its commands. */
	return !READ_ONCE(cc->reset) && scmd->submitter == SUBMITTED_BY_BLOCK_LAYER;
}

/* The end of a lower request: any context. */
SMQ_END_IO(conv_end_io, rq, error)
{
	struct smq_cmd *cmd = rq->end_io_data;
	struct scsi_cmnd *lower = blk_mq_rq_to_pdu(rq);
	struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);
	struct conv_upper *cu = smq_lun_priv(scmd->device);
	struct conv_cmd *cc = smq_cmd_priv(cmd);
	bool timed_out = false;

	/* One section to the end: error handling that sees no lower request waits for it. */
	rcu_read_lock();
	scmd->result = 0;
	if (unlikely(lower->result || error))
		timed_out = conv_failed(scmd, cc, lower, error);
	scsi_set_resid(scmd, lower->resid_len);
	if (unlikely(cu->cl->depth != READ_ONCE(cu->cl->lower->queue_depth)))
		schedule_work(&cu->cl->follow);
	/* Release: error handling that sees none finds the result there. */
	smp_store_release(&cc->rq, NULL);
	/* Before the command ends: the next one finds a tag below. */
	blk_mq_free_request(rq);
	/*
	 * What has timed out below does so above: the mid-layer then ends it, or tries again, and
	 * does not stop the host for its error handler, as it would for that result. (If the
	 * upper timer runs out in this very moment it begins anew once more.)
	 */
	if (unlikely(timed_out))
		blk_abort_request(scsi_cmd_to_rq(scmd));
	else
		smq_cmd_done(cmd);
	rcu_read_unlock();
	return RQ_END_IO_NONE;
}

/*
 * Does what scsi_prepare_cmd() does, so that the mid-layer leaves that out (RQF_DONTPREP): it
 * would build a scatterlist, from bios. What it sets and does not export the upper command has,
 * which was prepared by the same code.
 */
static __always_inline void conv_prepare(struct scsi_cmnd *lower, struct scsi_cmnd *scmd,
					 struct scsi_device *sdev)
{
	lower->device = sdev;
	INIT_LIST_HEAD(&lower->eh_entry);
	/* A tag's first command. The work is idle when a command ends. */
	if (unlikely(lower->abort_work.work.func != scmd->abort_work.work.func))
		INIT_DELAYED_WORK(&lower->abort_work, scmd->abort_work.work.func);
	lower->eh_eflags = 0;
	/* The upper mid-layer is the one that retries. */
	lower->allowed = 0;
	lower->prot_op = SCSI_PROT_NORMAL;
	lower->prot_type = 0;
	lower->prot_flags = 0;
	lower->cmd_len = scmd->cmd_len;
	lower->sc_data_direction = scmd->sc_data_direction;
	memcpy(lower->cmnd, scmd->cmnd, sizeof(lower->cmnd));
	lower->sdb.table.sgl = scmd->sdb.table.sgl;
	lower->sdb.table.nents = scmd->sdb.table.nents;
	/* What was allocated for it: nothing that the lower mid-layer would free. */
	lower->sdb.table.orig_nents = 0;
	lower->sdb.length = scmd->sdb.length;
	if (lower->prot_sdb)
		memset(lower->prot_sdb, 0, sizeof(*lower->prot_sdb));
	lower->underflow = scmd->underflow;
	lower->transfersize = scmd->transfersize;
	lower->resid_len = 0;
	lower->state = 0;
	lower->extra_len = 0;
	lower->host_scribble = NULL;
	lower->result = 0;
}

static __always_inline enum smq_status conv_queue_cmd(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);
	const struct conv_upper *cu = smq_lun_priv(scmd->device);
	struct scsi_device *sdev = cu->cl->lower;
	struct request *from = scsi_cmd_to_rq(scmd);
	struct conv_hwq *ch = smq_hwq_priv(hwq);
	struct conv_cmd *cc = smq_cmd_priv(cmd);
	blk_opf_t opf = from->cmd_flags & CONV_FLAGS;
	struct request *rq;

	opf |= scmd->sc_data_direction == DMA_TO_DEVICE ? REQ_OP_DRV_OUT : REQ_OP_DRV_IN;
	rq = scsi_alloc_request(sdev->request_queue, opf, BLK_MQ_REQ_NOWAIT |
				(from->rq_flags & RQF_PM ? BLK_MQ_REQ_PM : 0));
	if (IS_ERR(rq)) {
		/* No tag, or the lower queue is frozen. */
		if (PTR_ERR(rq) != -ENODEV)
			return SMQ_DEVICE_BUSY;
		scmd->result = DID_NO_CONNECT << 16;
		return SMQ_DONE;
	}
	conv_prepare(blk_mq_rq_to_pdu(rq), scmd, sdev);
	/* With bytes and no bio it ends whole, whatever became of it. */
	rq->__data_len = scmd->sdb.length;
	rq->timeout = from->timeout;
	rq->rq_flags |= RQF_DONTPREP | RQF_QUIET;
	rq->end_io = conv_end_io;
	rq->end_io_data = cmd;
	smq_rq_copy_priority(rq, from);
	WRITE_ONCE(cc->rq, rq);
	WRITE_ONCE(cc->reset, false);
	llist_add(&cc->node, &ch->ready);
	return SMQ_QUEUED;
}

/**
 * conv_issue() - issues the lower requests that a hardware queue has collected
 * @hwq: the hardware queue
 *
 * As one batch: under a plug of its own, for the submitter's is being flushed, and what is
 * added to that is sent by itself.
 *
 * Context: as queue_cmd.
 */
void conv_issue(struct smq_hwq *hwq)
{
	struct conv_hwq *ch = smq_hwq_priv(hwq);
	struct llist_node *first = llist_del_all(&ch->ready);
	struct blk_plug plug, *outer = current->plug;
	struct conv_cmd *cc, *next;

	if (!first)
		return;
	/* The list has the last one first. */
	if (SMQ_PLUG_IN_ORDER)
		first = llist_reverse_order(first);
	current->plug = NULL;
	blk_start_plug(&plug);
	llist_for_each_entry_safe(cc, next, first, node)
		blk_execute_rq_nowait(cc->rq, false);
	blk_finish_plug(&plug);
	current->plug = outer;
}

static const struct smq_lld conv_lld = {
	.name		= "smq_conv",
	.cmd_size	= sizeof(struct conv_cmd),
	.hwq_size	= sizeof(struct conv_hwq),
	.host_size	= sizeof(struct conv_host),
	.lun_size	= sizeof(struct conv_upper),
	.max_cmd_len	= sizeof_field(struct scsi_cmnd, cmnd),
	.sg_tablesize	= SG_ALL,
	.max_sectors	= SCSI_DEFAULT_MAX_SECTORS,
	.any_hwq	= true,
	.queue_cmd	= conv_queue_cmd,
	.commit		= conv_issue,
	.timed_out	= conv_timed_out,
	.abort		= conv_abort,
	.lun_reset	= conv_lun_reset,
	.target_reset	= conv_target_reset,
	.host_reset	= conv_host_reset,
	.lun_init	= conv_lun_init,
	.lun_exit	= conv_lun_exit,
	.lun_configure	= conv_lun_configure,
};

SMQ_LLD_TEMPLATE(conv_template, conv_lld);

/* The layer's part of an upper host, with limits that are still to be set. */
struct smq_host *conv_smq_alloc(const struct smq_host_config *cfg)
{
	return smq_host_alloc(&conv_lld, &conv_template, cfg);
}
