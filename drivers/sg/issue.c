// SPDX-License-Identifier: GPL-2.0
/*
 * Makes a request from a slot: the code for the less frequent cases.
 */
#include "cdb.h"
#include "issue.h"

/**
 * smqsg_slot_apply_run() - puts a run's own LBA or buffer into a request
 * @io: the run
 * @rq: the request, filled from the slot
 *
 * Process context.
 */
void smqsg_slot_apply_run(struct smqsg_io *io, struct request *rq)
{
	struct smqsg_slot *slot = &io->fd->slots.array[io->slot];
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);

	if (io->flags & SMQ_SG_RUN_LBA)
		smqsg_lba_set(scmd->cmnd, io->lba);
	if (!(io->flags & SMQ_SG_RUN_BUFFER))
		return;
	if ((rq->rq_flags & RQF_DONTPREP) && slot->bioless &&
	    smqsg_bioless_fits(&io->buffer_slot)) {
		smqsg_bioless_prepare(io->fd, rq, slot->direction, &io->buffer_slot);
		return;
	}
	/* Makes the mid-layer prepare a scatterlist for this buffer. */
	rq->rq_flags &= ~RQF_DONTPREP;
	smqsg_slot_arm(&io->bio, rq, &io->buffer_slot);
}

/* The end of a held request's first run: notes whether later runs can use what was prepared. */
static SMQ_END_IO(smqsg_held_first_end, rq, error)
{
	struct smqsg_io *io = rq->end_io_data;
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	struct smqsg_held *held = io->held;

	/*
	 * Later runs are prepared anew in three cases: the scatterlist is chained, and the
	 * mid-layer frees it when the command ends; padding was added, which fits one length only;
	 * or there is a separate scatterlist of protection data.
	 */
	held->inlined = scmd->sdb.table.orig_nents <= SMQSG_HELD_SEGMENTS &&
			!scmd->extra_len && !scsi_prot_sg_count(scmd);
	held->as_slot &= held->inlined;
	held->tag_flags = rq->rq_flags & SMQ_RQF_OF_TAG;
	held->keep_flags = held->tag_flags | (held->inlined && held->as_slot ? RQF_DONTPREP : 0);
	rq->end_io = smqsg_slot_end;
	return SMQ_CALL_END_IO(rq, error);
}

/**
 * smqsg_held_vary() - fills a held request for a run that differs from the last one
 * @io: the run
 * @held: the entry
 * @rq: the request
 *
 * Process context.
 */
void smqsg_held_vary(struct smqsg_io *io, struct smqsg_held *held, struct request *rq)
{
	struct smqsg_slot *slot = &io->fd->slots.array[io->slot];
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);

	memcpy(scmd->cmnd, slot->cdb, sizeof(slot->cdb));
	held->keep_flags = held->tag_flags;
	if (slot->bioless) {
		rq->bio = NULL;
		held->data = NULL;
		smqsg_bioless_prepare(io->fd, rq, slot->direction, slot);
	} else if (slot->data.length) {
		smqsg_slot_arm(&held->bio, rq, slot);
	}
	if (io->flags)
		smqsg_slot_apply_run(io, rq);
	held->as_slot = !io->flags;
	/* A run's own buffer leaves another scatterlist behind: the next run is prepared anew. */
	if ((held->inlined || slot->bioless) && !(io->flags & SMQ_SG_RUN_BUFFER))
		held->keep_flags |= RQF_DONTPREP;
}

/**
 * smqsg_held_issue_first() - issues a slot that may hold a request and has none
 * @io: the run
 * @fd: the file
 * @slot: the slot
 * @flags: BLK_MQ_REQ_NOWAIT; 0 in grant()
 *
 * Return: as smqsg_slot_issue(). Process context.
 */
int smqsg_held_issue_first(struct smqsg_io *io, struct smqsg_fd *fd, struct smqsg_slot *slot,
			   blk_mq_req_flags_t flags)
{
	struct smqsg_held *held = NULL;
	struct request *rq;

	/* With an elevator a request has a second tag, and must be inserted again for each run. */
	if (!fd->q->elevator)
		held = smqsg_held_attach(fd, slot, io->slot);
	if (!held)
		return smqsg_slot_send(io, fd, slot, io->flags, flags, 0, NULL);
	rq = smqsg_slot_request(fd, slot, 0, flags);
	if (IS_ERR(rq)) {
		smqsg_held_release(fd, held);
		return PTR_ERR(rq);
	}
	/* True if an elevator was set meanwhile. It cannot change while this request exists. */
	if (rq->internal_tag >= 0) {
		smqsg_held_release(fd, held);
		smqsg_slot_execute(io, rq, slot, io->flags);
		return 0;
	}
	held->cpu = raw_smp_processor_id();
	held->tag_sleepers = &rq->mq_hctx->tags->bitmap_tags.ws_active;
	held->length = slot->data.length;
	held->token = -1;
	WRITE_ONCE(held->hctx, rq->mq_hctx);
	smqsg_slot_fill_request(io, rq, slot, &held->bio, io->flags);
	held->data = rq->bio ? &held->bio : NULL;
	/*
	 * If the mid-layer has not prepared a command with this tag before, this run has a bio
	 * although the slot needs none. The next run has no bio, so the request must be filled
	 * again.
	 */
	held->as_slot = !io->flags && (!slot->bioless || (rq->rq_flags & RQF_DONTPREP));
	io->held = held;
	rq->end_io = smqsg_held_first_end;
	blk_execute_rq_nowait(rq, false);
	return 0;
}

/**
 * smqsg_slot_issue_plugged() - smqsg_slot_issue() in a plug of its own, for a caller without one
 * @io: the run; not part of a batch
 * @fd: the file
 * @flags: BLK_MQ_REQ_NOWAIT; 0 in grant()
 * @polled: REQ_POLLED for a poll queue, else 0
 *
 * Without a plug the block layer would first put the command into a list of the hctx.
 *
 * Return: as smqsg_slot_issue(). Process context.
 */
int smqsg_slot_issue_plugged(struct smqsg_io *io, struct smqsg_fd *fd, blk_mq_req_flags_t flags,
			     blk_opf_t polled)
{
	struct blk_plug plug;
	int ret;

	blk_start_plug(&plug);
	ret = smqsg_slot_issue(io, fd, flags, polled, io->ioucmd);
	blk_finish_plug(&plug);
	return ret;
}

/**
 * smqsg_slot_issue_direct() - smqsg_slot_issue() past the plug
 * @io: the run; not part of a batch
 * @fd: the file
 * @slot: the slot
 * @number: its number
 * @varied: the run's SMQ_SG_RUN_*
 * @flags: BLK_MQ_REQ_NOWAIT
 *
 * Return: as smqsg_slot_issue(), or 1: the command ended before this function returned, and the
 * caller posts its CQE, without task work. Process context.
 */
int smqsg_slot_issue_direct(struct smqsg_io *io, struct smqsg_fd *fd, struct smqsg_slot *slot,
			    u32 number, u32 varied, blk_mq_req_flags_t flags)
{
	int ret;

	atomic_set(&io->cqe_by, SMQSG_CQE_UNDECIDED);
	ret = smqsg_slot_issue_as(io, fd, slot, number, varied, flags, 0, NULL);
	if (unlikely(ret)) {
		atomic_set(&io->cqe_by, SMQSG_CQE_TASK_WORK);
		return ret;
	}
	/* If the command had not ended yet, its end posts the CQE, and @io may be gone already. */
	return atomic_xchg(&io->cqe_by, SMQSG_CQE_SUBMITTED) != SMQSG_CQE_UNDECIDED;
}

/**
 * smqsg_request_take_spare() - gives grant() the request for which the dispatcher slept
 * @fd: the file
 * @opf: the request's operation
 * @error: why grant() could not allocate a request
 *
 * Return: the request; or @error. If @error is -EAGAIN and grant() then calls smqsg_wait_first(),
 * the dispatcher sleeps for a request when grant() has returned. Process context.
 */
struct request *smqsg_request_take_spare(struct smqsg_fd *fd, blk_opf_t opf, struct request *error)
{
	struct smqsg_dev_wait *wait = &fd->sg->wait;
	struct request *rq = wait->spare;

	if (PTR_ERR(error) != -EAGAIN)
		return error;
	wait->wanted_opf = opf;
	if (!rq)
		return error;
	wait->spare = NULL;
	/*
	 * The spare request may be on a poll queue although this command needs another queue, or
	 * the reverse.
	 */
	if ((rq->cmd_flags ^ opf) & REQ_POLLED) {
		blk_mq_free_request(rq);
		return error;
	}
	rq->cmd_flags = opf;
	return rq;
}
