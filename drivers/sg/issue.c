// SPDX-License-Identifier: GPL-2.0
/*
 * From a slot to a request: what few runs do.
 */
#include "cdb.h"
#include "issue.h"

/**
 * smqsg_slot_varied() - gives a request what the run has in place of the slot's
 * @io: the run
 * @rq: the request, filled from the slot
 *
 * Process context.
 */
void smqsg_slot_varied(struct smqsg_io *io, struct request *rq)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);

	if (io->flags & SMQ_SG_RUN_LBA)
		smqsg_lba_set(scmd->cmnd, io->lba);
	if (io->flags & SMQ_SG_RUN_BUFFER)
		smqsg_slot_arm(&io->bio, rq, &io->other);
}

/* The end of the first run with a request: whether what the mid-layer prepared may be kept. */
static SMQ_END_IO(smqsg_held_first_end, rq, error)
{
	struct smqsg_io *io = rq->end_io_data;
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	struct smqsg_held *held = io->held;

	/*
	 * A chained scatterlist goes with the command, padding is for one length, and protection
	 * data has a list of its own: all that is prepared anew.
	 */
	held->inlined = scmd->sdb.table.orig_nents <= SMQSG_HELD_SEGMENTS &&
			!scmd->extra_len && !scsi_prot_sg_count(scmd);
	held->tag_flags = rq->rq_flags & SMQ_RQF_OF_TAG;
	held->keep_flags = held->tag_flags | (held->inlined && held->clean ? RQF_DONTPREP : 0);
	rq->end_io = smqsg_slot_end;
	return SMQ_CALL_END_IO(rq, error);
}

/**
 * smqsg_held_vary() - gives a held request what this run wants and the last one did not
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
	if (slot->data.length)
		smqsg_slot_arm(&held->bio, rq, slot);
	if (io->flags)
		smqsg_slot_varied(io, rq);
	held->clean = !io->flags;
	held->keep_flags = held->tag_flags | (held->inlined ? RQF_DONTPREP : 0);
	if (io->flags & SMQ_SG_RUN_BUFFER) {
		/* Another scatterlist, this time and the next. */
		held->keep_flags = held->tag_flags;
		rq->rq_flags &= ~RQF_DONTPREP;
	}
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

	/* With one a request has a tag of the elevator as well, and is inserted anew each time. */
	if (!fd->q->elevator)
		held = smqsg_held_attach(fd, slot, io->slot);
	if (!held)
		return smqsg_slot_send(io, fd, slot, io->flags, flags, 0, NULL);
	rq = smqsg_slot_request(fd, slot, 0, flags);
	if (IS_ERR(rq)) {
		smqsg_held_release(fd, held);
		return PTR_ERR(rq);
	}
	/* An elevator was set meanwhile. It cannot change while there is a request. */
	if (rq->internal_tag >= 0) {
		smqsg_held_release(fd, held);
		smqsg_slot_execute(io, rq, slot, io->flags);
		return 0;
	}
	held->cpu = raw_smp_processor_id();
	held->asleep = &rq->mq_hctx->tags->bitmap_tags.ws_active;
	held->length = slot->data.length;
	held->data = slot->data.length ? &held->bio : NULL;
	held->clean = !io->flags;
	held->token = -1;
	WRITE_ONCE(held->hctx, rq->mq_hctx);
	smqsg_slot_fill_request(io, rq, slot, &held->bio, io->flags);
	io->held = held;
	rq->end_io = smqsg_held_first_end;
	blk_execute_rq_nowait(rq, false);
	return 0;
}

/**
 * smqsg_slot_issue_plugged() - smqsg_slot_issue() where there is no plug
 * @io: the run, of a slot run alone
 * @fd: the file
 * @flags: BLK_MQ_REQ_NOWAIT; 0 in grant()
 * @polled: REQ_POLLED for a poll queue, else 0
 *
 * A plug of its own spares the command the way through the hctx's list.
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
 * @io: the run, of a slot run alone whose held request goes straight to the driver
 * @fd: the file
 * @slot: the slot
 * @number: its number
 * @varied: the run's SMQ_SG_RUN_*
 * @flags: BLK_MQ_REQ_NOWAIT
 *
 * Return: as smqsg_slot_issue(), or 1: the command ended before this function did, and the caller
 * posts its CQE, without task work. Process context.
 */
int smqsg_slot_issue_direct(struct smqsg_io *io, struct smqsg_fd *fd, struct smqsg_slot *slot,
			    u32 number, u32 varied, blk_mq_req_flags_t flags)
{
	int ret;

	atomic_set(&io->meet, SMQSG_MEET_OPEN);
	ret = smqsg_slot_issue_as(io, fd, slot, number, varied, flags, 0, NULL);
	if (unlikely(ret)) {
		atomic_set(&io->meet, SMQSG_MEET_NOT);
		return ret;
	}
	/* If it was still open, the command's end posts the CQE, and @io may be gone. */
	return atomic_xchg(&io->meet, SMQSG_MEET_SUBMITTER) != SMQSG_MEET_OPEN;
}

/**
 * smqsg_request_spare() - gives grant() the request that the dispatcher slept for
 * @fd: the file
 * @opf: the request's operation
 * @error: why grant() found none
 *
 * Return: the request; or @error. If that is -EAGAIN, and smqsg_wait_first() follows, the
 * dispatcher sleeps for a request when grant() has returned. Process context.
 */
struct request *smqsg_request_spare(struct smqsg_fd *fd, blk_opf_t opf, struct request *error)
{
	struct smqsg_dev_wait *wait = &fd->sg->wait;
	struct request *rq = wait->spare;

	if (PTR_ERR(error) != -EAGAIN)
		return error;
	wait->lack = opf;
	if (!rq)
		return error;
	wait->spare = NULL;
	/* It may belong to another kind of queue, polled or not. */
	if ((rq->cmd_flags ^ opf) & REQ_POLLED) {
		blk_mq_free_request(rq);
		return error;
	}
	rq->cmd_flags = opf;
	return rq;
}
