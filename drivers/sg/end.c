// SPDX-License-Identifier: GPL-2.0
/*
 * The end of a slot's command: sets the slot's status, and tells the submitter.
 */
#include <scsi/scsi_common.h>
#include <scsi/scsi_eh.h>

#include "batch.h"
#include "straight.h"
#include "reserve.h"
#include "end.h"

/* Returns the result of a command that did not end with GOOD, and stores its sense. */
static noinline int smqsg_slot_failed(struct smqsg_io *io, struct smq_sg_status *status,
				      struct scsi_cmnd *scmd, blk_status_t error)
{
	struct scsi_sense_hdr sense;
	int result;

	/* There is no result if the command did not reach the mid-layer. */
	if (!scmd->result)
		return blk_status_to_errno(error);
	result = (scmd->result & 0xff) | host_byte(scmd->result) << 8;
	/* The LLD has set only bits that the status has no room for: this is a failure, too. */
	if (!result)
		return -EIO;
	if (scmd->resid_len)
		result |= SMQ_SG_RESULT_SHORT;
	if (!scmd->sense_len)
		return result;
	result |= SMQ_SG_RESULT_SENSE;
	if (scsi_normalize_sense(scmd->sense_buffer, scmd->sense_len, &sense)) {
		status->sense_key = sense.sense_key;
		status->asc = sense.asc;
		status->ascq = sense.ascq;
	}
	status->sense_len = min(scmd->sense_len, io->fd->slots.sense_size);
	memcpy(status->sense, scmd->sense_buffer, status->sense_len);
	return result;
}

SMQ_URING_TASK_FN(smqsg_slot_task_work, smqsg_slot_post_cqe)

/* Makes a poller, task work or the submitter post the CQE of a slot that was run alone. */
static __always_inline void smqsg_slot_alone_ended(struct smqsg_io *io, struct smqsg_fd *fd)
{
	int cqe_by = atomic_read(&io->cqe_by);

	if (unlikely(cqe_by == SMQSG_CQE_POLLER))
		smqsg_poll_ended(&fd->polled.ended, io->ioucmd);
	/* If the submitter of a straight issue is still in its call, it posts the CQE. */
	else if (cqe_by == SMQSG_CQE_TASK_WORK ||
		 atomic_xchg(&io->cqe_by, SMQSG_CQE_ENDED) != SMQSG_CQE_UNDECIDED)
		io_uring_cmd_complete_in_task(io->ioucmd, smqsg_slot_task_work);
}

/*
 * The rest of a command's end: lets the slot be run again, then tells the submitter.
 * smqsg_slot_end() copies @fd, @batch and @slot from @io before it writes the status: otherwise the
 * compiler would read them twice, because it cannot know that the status does not overlap @io.
 */
static __always_inline void smqsg_slot_finish(struct smqsg_io *io, struct smqsg_fd *fd,
					      struct smqsg_batch *batch, u32 slot, int result)
{
	clear_bit_unlock(slot, fd->slots.busy);

	smqsg_release(fd, 1);
	if (batch) {
		smqsg_batch_end(batch, io, result);
	} else {
		io->result = result;
		smqsg_slot_alone_ended(io, fd);
	}
}

static __always_inline void smqsg_slot_result(struct smq_sg_status *status, int result, u32 resid)
{
	status->runs++;
	status->result = result;
	status->resid = resid;
}

/* The end of a command that did not end with GOOD. */
static noinline void smqsg_slot_ended_badly(struct smqsg_io *io, struct request *rq,
					    blk_status_t error, bool own)
{
	struct smq_sg_status *status = smqsg_status(io->fd, io->slot);
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	int result = smqsg_slot_failed(io, status, scmd, error);

	if (own)
		smqsg_idle_forget(&io->idle, io->fd, rq);
	smqsg_slot_result(status, result, scmd->resid_len);
	smqsg_slot_finish(io, io->fd, io->batch, io->slot, result);
}

/*
 * The end of a slot's request. @own: it is one of the node's own queue; a compile-time constant.
 */
static __always_inline enum rq_end_io_ret smqsg_slot_end_as(struct request *rq, blk_status_t error,
							    bool own)
{
	struct smqsg_io *io = rq->end_io_data;
	struct smqsg_fd *fd = io->fd;
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	struct smqsg_batch *batch = io->batch;
	u32 resid = scmd->resid_len;
	u32 slot = io->slot;
	struct smq_sg_status *status = smqsg_status(fd, slot);
	int failed = scmd->result | (__force int)error;
	enum rq_end_io_ret ret = RQ_END_IO_FREE;

	if (own)
		smqsg_straight_ended(fd);
	/* Clear key, code, qualifier and length of the sense: they are one word. */
	*(u32 *)&status->sense_key = 0;
	if (unlikely(failed)) {
		smqsg_slot_ended_badly(io, rq, error, own);
		return ret;
	}
	if (own)
		ret = smqsg_idle_ended(&io->idle, fd, rq, false);
	smqsg_slot_result(status, 0, resid);
	smqsg_slot_finish(io, fd, batch, slot, 0);
	return ret;
}

/* rq->end_io of a slot's request of the device's queue. Any context. */
SMQ_END_IO(smqsg_slot_end, rq, error)
{
	return smqsg_slot_end_as(rq, error, false);
}

/* rq->end_io of a slot's request of the node's own queue. Any context. */
SMQ_END_IO(smqsg_slot_end_own, rq, error)
{
	return smqsg_slot_end_as(rq, error, true);
}

/**
 * smqsg_slot_end_unsent() - ends a slot's run that waited and was not sent
 * @io: the run, whose place has been given back
 * @error: an errno, below 0
 *
 * Process context.
 */
void smqsg_slot_end_unsent(struct smqsg_io *io, int error)
{
	io->result = error;
	smqsg_slot_drop(io, error);
	if (smq_uring_polled(io->ioucmd))
		smqsg_poll_ended(&io->fd->polled.ended, io->ioucmd);
	else
		io_uring_cmd_complete_in_task(io->ioucmd, smqsg_slot_task_work);
}
