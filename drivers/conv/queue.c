// SPDX-License-Identifier: GPL-2.0
/*
 * smq_conv's LLD: for each command it sends a passthrough request to the lower device. The request
 * uses the scatterlist of the command: data is not copied, and there is no bio.
 */
#include <linux/blk-mq.h>
#include <linux/jiffies.h>
#include <linux/scatterlist.h>
#include <linux/sched.h>
#include <scsi/scsi_cmnd.h>
#include <smq/straight.h>

#include "kept.h"

/* Flags that are copied to the lower request. All else that matters to the device is in the CDB. */
#define CONV_FLAGS	(REQ_FAILFAST_MASK | REQ_SYNC | REQ_META | REQ_PRIO)

/*
 * Sets the result of a command whose lower request did not end with GOOD. Return: true if the lower
 * request timed out, and so the command has to time out as well.
 */
static noinline bool conv_failed(struct scsi_cmnd *scmd, const struct conv_cmd *cc,
				 struct request *rq, blk_status_t error)
{
	const struct conv_lun *cl = ((const struct conv_upper *)smq_lun_priv(scmd->device))->cl;
	const struct scsi_cmnd *lower = blk_mq_rq_to_pdu(rq);

	/* The lower mid-layer did not dispatch this command, so it is not in iorequest_cnt. */
	if (!test_bit(SCMD_STATE_COMPLETE, &lower->state))
		this_cpu_dec(*cl->sent);
	/*
	 * Leave out the bits that the lower mid-layer sets for itself: the upper one sets its own.
	 */
	scmd->result = lower->result & 0xff00ff;
	/* An error without a result: the request did not reach the lower mid-layer. */
	if (!lower->result && error)
		scmd->result = DID_ERROR << 16;
	memcpy(scmd->sense_buffer, lower->sense_buffer, SCSI_SENSE_BUFFERSIZE);
	/*
	 * If the lower error handler ended the command, the result is the one that the lower driver
	 * set meanwhile, or DID_TIME_OUT. Without smq_conv the mid-layer would retry block I/O with
	 * either result.
	 */
	if (scmd->result != DID_TIME_OUT << 16 &&
	    (!(rq->rq_flags & RQF_TIMED_OUT) || scmd->result & 0xff ||
	     (blk_rq_is_passthrough(scsi_cmd_to_rq(scmd)) && !READ_ONCE(cc->reset))))
		return false;
	/* With DID_RESET the mid-layer retries block I/O; passthrough gets it as an error. */
	if (READ_ONCE(cc->reset))
		scmd->result = DID_RESET << 16;
	/* The upper error handler has timers of its own for commands that it sends. */
	if (READ_ONCE(cc->reset) || scmd->submitter != SUBMITTED_BY_BLOCK_LAYER)
		return false;
	/*
	 * If the flags tell that the command was aborted before, lower error handling has done the
	 * next steps. Without the flags the upper mid-layer aborts the command once more, rather
	 * than stop the upper host to do these steps again.
	 */
	scmd->eh_eflags = 0;
	return true;
}

/* Ends a command whose lower request has ended. Context: any. */
static __always_inline void conv_ended(struct request *rq, struct scsi_cmnd *lower,
				       blk_status_t error)
{
	struct smq_cmd *cmd = rq->end_io_data;
	struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);
	struct conv_upper *cu = smq_lun_priv(scmd->device);
	struct conv_cmd *cc = smq_cmd_priv(cmd);
	bool timed_out = false;

	/*
	 * One RCU read-side section up to smq_cmd_done(): if error handling finds no lower request,
	 * it waits for the end of this section.
	 */
	rcu_read_lock();
	scmd->result = 0;
	if (unlikely(lower->result || error))
		timed_out = conv_failed(scmd, cc, rq, error);
	scsi_set_resid(scmd, lower->resid_len);
	if (unlikely(lower->sdb.length != scmd->sdb.length))
		conv_limits_mend(lower, scmd);
	if (unlikely(cu->cl->depth != READ_ONCE(cu->cl->lower->queue_depth)))
		schedule_work(&cu->cl->follow);
	/* Release: if error handling reads NULL in cc->rq, it also sees the result. */
	smp_store_release(&cc->rq, NULL);
	/* Before the command ends, so that the next command finds the request, or a lower tag. */
	conv_kept_end(cc, rq, !lower->result && !error);
	/*
	 * If the lower request timed out, make the upper one time out as well: the upper mid-layer
	 * then ends or retries the command. If the upper mid-layer got only the result, it would
	 * stop the whole upper host to run the error handler. (If the upper timer expires by itself
	 * at this moment, it starts once more.)
	 */
	if (unlikely(timed_out))
		blk_abort_request(scsi_cmd_to_rq(scmd));
	else
		smq_cmd_done(cmd);
	rcu_read_unlock();
}

/* rq->end_io of a lower request that the lower mid-layer has completed. Context: any. */
SMQ_END_IO(conv_end_io, rq, error)
{
	conv_ended(rq, blk_mq_rq_to_pdu(rq), error);
	return RQ_END_IO_NONE;
}

/*
 * Fills the lower request with the command and its scatterlist. The mid-layer does not export the
 * function of abort_work. So the function is copied from the upper command, which the same
 * mid-layer has prepared.
 */
static __always_inline void conv_prepare(struct scsi_cmnd *lower, struct scsi_cmnd *scmd,
					 struct scsi_device *sdev)
{
	/*
	 * Only for the first command of a tag. (Between two commands of a tag the work item is
	 * idle.)
	 */
	if (unlikely(lower->abort_work.work.func != scmd->abort_work.work.func))
		INIT_DELAYED_WORK(&lower->abort_work, scmd->abort_work.work.func);
	/* The lower mid-layer neither frees the scatterlist nor retries: the upper one does. */
	smq_prepare_cmd(lower, sdev, scmd->sc_data_direction, scmd->sdb.table.sgl,
			scmd->sdb.table.nents, 0, scmd->sdb.length);
	/* If the command was aborted before, lower error handling goes on with a LUN reset. */
	lower->eh_eflags = scmd->eh_eflags;
	if (lower->prot_sdb)
		memset(lower->prot_sdb, 0, sizeof(*lower->prot_sdb));
	lower->underflow = scmd->underflow;
	lower->transfersize = scmd->transfersize;
	lower->cmd_len = scmd->cmd_len;
	memcpy(lower->cmnd, scmd->cmnd, sizeof(lower->cmnd));
}

/*
 * Called for each command. For the first command of a batch it makes the block layer allocate at
 * once as many lower requests as the batch probably needs. The block layer keeps them in the
 * submitter's plug, which is being flushed, and frees unused ones when the flush ends. If LUNs
 * share their tags, it allocates requests one by one all the same.
 */
static __always_inline void conv_expect_batch(struct conv_hwq *ch, const struct scsi_cmnd *scmd)
{
	struct blk_plug *plug = current->plug;

	if (plug && !(scmd->flags & SCMD_LAST) && llist_empty(&ch->ready))
		plug->nr_ios = max(READ_ONCE(ch->batch), 1U);
}

/*
 * Allocates a lower request, or takes the spare one. Only a command that lives as long as the upper
 * host may keep it: the requests for flushes, and those of an elevator, are freed before.
 */
static noinline struct request *conv_new_request(struct conv_lun *cl, struct conv_cmd *cc,
						 struct conv_hwq *ch, const struct scsi_cmnd *scmd,
						 blk_opf_t opf)
{
	const struct request *from = scsi_cmd_to_rq((struct scsi_cmnd *)scmd);
	struct request *rq = NULL;

	WRITE_ONCE(cc->keeper, NULL);
	cc->straight = false;
	cc->token = -1;
	if (unlikely(READ_ONCE(cl->spare)))
		rq = conv_room_take_spare(cl, opf);
	if (rq)
		return rq;
	conv_expect_batch(ch, scmd);
	rq = scsi_alloc_request(cl->lower->request_queue, opf, BLK_MQ_REQ_NOWAIT |
				(from->rq_flags & RQF_PM ? BLK_MQ_REQ_PM : 0));
	if (!SMQ_CAN_OWN || IS_ERR(rq) || rq->tag < 0 || from->rq_flags & RQF_PM)
		return rq;
	smq_rq_has_tag(rq);
	cc->straight = true;
	if (from->internal_tag < 0 && req_op(from) != REQ_OP_FLUSH)
		conv_kept_enter(cl, cc, rq);
	return rq;
}

static __always_inline enum smq_status conv_queue_cmd(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);
	struct conv_lun *cl = ((const struct conv_upper *)smq_lun_priv(scmd->device))->cl;
	struct scsi_device *sdev = cl->lower;
	struct request *from = scsi_cmd_to_rq(scmd);
	struct conv_hwq *ch = smq_hwq_priv(hwq);
	struct conv_cmd *cc = smq_cmd_priv(cmd);
	blk_opf_t opf = from->cmd_flags & CONV_FLAGS;
	unsigned int excess = 0;
	struct request *rq;

	/*
	 * The lower device is blocked. Its queue would take a request, but then the command would
	 * be in flight on the upper host, whose error handler begins when none is. As on a bare
	 * device the time does not count towards the limit that the mid-layer sets for retries.
	 */
	if (unlikely(blk_queue_quiesced(sdev->request_queue))) {
		scmd->jiffies_at_alloc = jiffies;
		return SMQ_DEVICE_BUSY;
	}
	if (unlikely(conv_limits_changed(&cl->limits, &sdev->request_queue->limits)) &&
	    !conv_limits_check(cl, scmd, &excess)) {
		scmd->result = DID_ERROR << 16;
		return SMQ_DONE;
	}
	opf |= scmd->sc_data_direction == DMA_TO_DEVICE ? REQ_OP_DRV_OUT : REQ_OP_DRV_IN;
	rq = conv_kept_take(cl, cc, from, opf);
	if (unlikely(!rq))
		rq = conv_new_request(cl, cc, ch, scmd, opf);
	if (IS_ERR(rq)) {
		/* There is no tag, or the lower queue is frozen. */
		if (PTR_ERR(rq) != -ENODEV) {
			conv_room_wait(cl);
			return SMQ_DEVICE_BUSY;
		}
		scmd->result = DID_NO_CONNECT << 16;
		return SMQ_DONE;
	}
	this_cpu_inc(*cl->sent);
	conv_prepare(blk_mq_rq_to_pdu(rq), scmd, sdev);
	if (unlikely(excess))
		conv_limits_cut(blk_mq_rq_to_pdu(rq), scmd, excess);
	rq->timeout = from->timeout;
	rq->rq_flags |= RQF_QUIET;
	rq->end_io = conv_end_io;
	rq->end_io_data = cmd;
	smq_rq_copy_priority(rq, from);
	WRITE_ONCE(cc->rq, rq);
	WRITE_ONCE(cc->reset, false);
	llist_add(&cc->node, &ch->ready);
	return SMQ_QUEUED;
}

/*
 * blk_mq_ops.complete of a claimed queue: a short end for our requests that ended with GOOD.
 * Context: any.
 */
void conv_complete(struct request *rq)
{
	struct scsi_cmnd *lower = blk_mq_rq_to_pdu(rq);
	const struct conv_lun *cl = container_of(rq->q->mq_ops, struct conv_lun, ops);

	if (rq->end_io == conv_end_io && likely(smq_straight_completes(rq))) {
		atomic_inc(&lower->device->iodone_cnt);
		smq_straight_completed(rq);
		conv_ended(rq, lower, BLK_STS_OK);
	} else {
		cl->mid_layer->complete(rq);
	}
}

/* Makes the lower LLD ring its doorbell for commands that were not the last of a batch. */
static noinline void conv_ring(struct blk_mq_hw_ctx *hctx)
{
	const struct blk_mq_ops *ops = hctx->queue->mq_ops;

	if (ops->commit_rqs)
		ops->commit_rqs(hctx);
}

/*
 * Sends a lower request at once, in place of the block layer. Returns false if it was not sent: the
 * block layer sends it then, and waits if the device or its host takes no command now.
 */
static __always_inline bool conv_send(struct request *rq, struct conv_cmd *cc, bool last)
{
	struct blk_mq_queue_data bd = { .rq = rq, .last = last };
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	struct scsi_device *sdev = scmd->device;
	struct blk_mq_hw_ctx *hctx = rq->mq_hctx;
	struct request_queue *q = rq->q;
	blk_status_t status;
	int token;

	if (unlikely(!cc->straight || blk_queue_quiesced(q) || atomic_read(&sdev->restarts) ||
		     test_bit(BLK_MQ_S_STOPPED, &hctx->state) ||
		     !list_empty_careful(&hctx->dispatch)))
		return false;
	token = smq_straight_budget(sdev, cc->token);
	if (unlikely(token < 0))
		return false;
	cc->token = token;
	scmd->budget_token = token;
	/* The mid-layer's function checks the state of device and host. */
	status = q->mq_ops->queue_rq(hctx, &bd);
	if (likely(status == BLK_STS_OK))
		return true;
	/* If queue_rq() did not take the request, it has given the budget back. */
	if (status != BLK_STS_RESOURCE && status != BLK_STS_DEV_RESOURCE) {
		/* For the commands before this one. */
		if (last)
			conv_ring(hctx);
		blk_mq_end_request(rq, status);
		return true;
	}
	/* As the block layer does with a request that was started. */
	WRITE_ONCE(rq->state, MQ_RQ_IDLE);
	rq->rq_flags &= ~RQF_TIMED_OUT;
	return false;
}

/**
 * conv_issue() - issues the lower requests that a hardware queue has collected
 * @hwq: the hardware queue
 *
 * Sends them straight to the lower mid-layer, as one batch with one doorbell. Those that it does
 * not take go to the block layer, under a plug of our own. In the submitter's plug they would not
 * form a batch: it is being flushed, and until the flush ends the block layer sends each request
 * that is added to it alone.
 *
 * Context: as queue_cmd.
 */
void conv_issue(struct smq_hwq *hwq)
{
	struct conv_hwq *ch = smq_hwq_priv(hwq);
	struct llist_node *first = llist_del_all(&ch->ready);
	struct blk_plug plug, *outer = current->plug;
	struct blk_mq_hw_ctx *ring = NULL;
	struct conv_cmd *cc, *next;
	unsigned int count = 0;
	bool plugged = false;

	if (!first)
		return;
	/* The list begins with the request that was added last. */
	if ((SMQ_CAN_OWN || SMQ_PLUG_IN_ORDER) && first->next)
		first = llist_reverse_order(first);
	llist_for_each_entry_safe(cc, next, first, node) {
		struct request *rq = cc->rq;
		struct blk_mq_hw_ctx *hctx = rq->mq_hctx;
		/* The doorbell of another hctx is not rung by the commands that follow. */
		bool last = !cc->node.next || next->rq->mq_hctx != hctx;

		count++;
		if (SMQ_CAN_OWN && likely(conv_send(rq, cc, last))) {
			ring = last ? NULL : hctx;
			continue;
		}
		if (ring)
			conv_ring(ring);
		ring = NULL;
		if (!plugged) {
			current->plug = NULL;
			blk_start_plug(&plug);
			plugged = true;
		}
		blk_execute_rq_nowait(rq, false);
	}
	WRITE_ONCE(ch->batch, min(count, CONV_MAX_BATCH));
	if (!plugged)
		return;
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

/* Allocates the layer's part of an upper host. The caller sets its limits. */
struct smq_host *conv_smq_alloc(const struct smq_host_config *cfg)
{
	return smq_host_alloc(&conv_lld, &conv_template, cfg);
}
