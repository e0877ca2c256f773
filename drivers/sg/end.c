// SPDX-License-Identifier: GPL-2.0
/*
 * The end of a slot's command: sets the slot's status, and tells the submitter.
 */
#include <scsi/scsi_common.h>
#include <scsi/scsi_eh.h>

#include "batch.h"
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
	*(u32 *)&status->sense_key = 0;
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

/* Makes a poller, the submitter or task work post the CQE of a slot that was run alone. */
static __always_inline void smqsg_slot_alone_ended(struct smqsg_io *io, struct smqsg_fd *fd,
						   bool polled)
{
	if (unlikely(polled))
		smqsg_poll_ended(&fd->polled.ended, io->ioucmd);
	/* This is the submitter, which is sending the command at this moment. */
	else if (READ_ONCE(io->submitter) == current && in_task())
		WRITE_ONCE(io->submitter, NULL);
	else
		io_uring_cmd_complete_in_task(io->ioucmd, smqsg_slot_task_work);
}

/*
 * The rest of a command's end: sets the status, lets the slot be run again, then tells the
 * submitter.
 */
static __always_inline void smqsg_slot_finish(struct smqsg_io *io, struct smqsg_fd *fd, int result,
					      u32 resid, bool polled)
{
	struct smqsg_batch *batch = io->batch;
	u32 slot = io->slot;
	struct smq_sg_status *status = smqsg_status(fd, slot);

	/* Without sense: key, code, qualifier and length are one word. */
	if (!(result & SMQ_SG_RESULT_SENSE) || result < 0)
		*(u32 *)&status->sense_key = 0;
	status->runs++;
	status->result = result;
	status->resid = resid;
	smqsg_slot_give_back(&fd->slots, slot);
	if (batch) {
		smqsg_batch_end(batch, io, result);
	} else {
		io->result = result;
		smqsg_slot_alone_ended(io, fd, polled);
	}
}

/* smqsg_origin.good of slots. Any context. */
void smqsg_slot_good(struct smqsg_io *io, struct request *rq)
{
	const struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	bool polled = rq->cmd_flags & REQ_POLLED;
	struct smqsg_fd *fd = io->fd;
	u32 resid = scmd->resid_len;

	smqsg_request_good(io, fd, rq);
	smqsg_slot_finish(io, fd, 0, resid, polled);
}

/* smqsg_origin.end of slots. Any context. */
SMQ_END_IO(smqsg_slot_end, rq, error)
{
	struct smqsg_io *io = rq->end_io_data;
	struct smqsg_fd *fd = io->fd;
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	bool polled = rq->cmd_flags & REQ_POLLED;
	u32 resid = scmd->resid_len;
	enum rq_end_io_ret ret;
	int result = 0;

	if (scmd->result || error)
		result = smqsg_slot_failed(io, smqsg_status(fd, io->slot), scmd, error);
	ret = smqsg_request_ended(io, fd, rq, result);
	smqsg_slot_finish(io, fd, result, resid, polled);
	return ret;
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
