// SPDX-License-Identifier: GPL-2.0
/*
 * The life of a command: the code for the less frequent cases, and the end of a slot's command,
 * which sets the slot's status and tells the submitter.
 */
#include <scsi/scsi_common.h>
#include <scsi/scsi_eh.h>

#include "batch.h"
#include "issue.h"

/* smqsg_run_vary() for any flags. */
u32 smqsg_run_vary_more(struct smqsg_io *io, u64 lba, u16 buffer, u16 flags)
{
	io->lba = lba;
	io->buffer_index = buffer;
	if ((lba && !(flags & SMQ_SG_RUN_LBA)) || (buffer && !(flags & SMQ_SG_RUN_BUFFER)))
		return flags | SMQSG_RUN_BAD;
	return flags;
}

/**
 * smqsg_slot_vary() - checks a run's flags, and its own LBA or buffer
 * @io: the run, whose slot is taken; gets the flags and the buffer
 * @varied: what smqsg_run_vary() returned
 *
 * Return: 0, or an errno as described at struct smq_sg_run. Process context.
 */
int smqsg_slot_vary(struct smqsg_io *io, u32 varied)
{
	struct smqsg_fd *fd = io->fd;
	struct smqsg_slot *slot = &fd->slots.array[io->slot];
	int ret;

	if (varied & ~(u32)(SMQ_SG_RUN_LBA | SMQ_SG_RUN_BUFFER))
		return -EINVAL;
	if (varied & SMQ_SG_RUN_LBA) {
		ret = smqsg_lba_fits(slot->lba_bits, io->lba);
		if (ret)
			return ret;
	}
	if (!(varied & SMQ_SG_RUN_BUFFER)) {
		io->flags = varied;
		return 0;
	}
	if (!slot->data.length)
		return -EINVAL;
	io->buffer = smqsg_buffer_get(&fd->buffers, io->buffer_index);
	if (!io->buffer)
		return -ENOENT;
	ret = -EINVAL;
	if (!io->buffer->readonly || slot->direction == SMQ_SG_OUT)
		ret = smqsg_slot_locate(&io->buffer_slot, fd->q, io->buffer, slot->offset,
					slot->data.length);
	if (ret) {
		smqsg_buffer_put(io->buffer);
		return ret;
	}
	io->flags = varied;
	return 0;
}

/**
 * smqsg_slot_set_error() - sets a slot's status to the reason why it was not run
 * @fd: the file
 * @number: the slot, with its byte in @fd->slots.busy set by the caller
 * @error: an errno, below 0
 *
 * Process context.
 */
void smqsg_slot_set_error(struct smqsg_fd *fd, u32 number, int error)
{
	struct smq_sg_status *status = smqsg_status(fd, number);

	*status = (struct smq_sg_status) { .result = error, .runs = status->runs };
}

/**
 * smqsg_slot_drop() - gives back a slot that was not issued
 * @io: a run that smqsg_slot_take() filled
 * @error: an errno, below 0, for its status; 0 if it will be sent later
 *
 * Process context.
 */
void smqsg_slot_drop(struct smqsg_io *io, int error)
{
	smqsg_slot_put_buffer(io);
	if (error)
		smqsg_slot_set_error(io->fd, io->slot, error);
	smqsg_slot_give_back(&io->fd->slots, io->slot);
}

/**
 * smqsg_slot_refused() - sets the status of a slot that could not be taken
 * @fd: the file
 * @number: the slot
 * @error: an errno, below 0
 *
 * Does nothing if the slot does not exist, and so has no status, or if it is in flight: then its
 * command's end sets the status. Process context.
 */
void smqsg_slot_refused(struct smqsg_fd *fd, u32 number, int error)
{
	u32 slots = smqsg_slots(&fd->slots);

	/* With EBUSY the slot was in flight. The command sets the status, or has already set it. */
	if (number >= slots || error == -EBUSY)
		return;
	number = array_index_nospec(number, slots);
	if (!smqsg_slot_try(&fd->slots, number))
		return;
	smqsg_slot_set_error(fd, number, error);
	smqsg_slot_give_back(&fd->slots, number);
}

static void smqsg_slot_arm(struct bio *bio, struct request *rq, struct smqsg_slot *slot)
{
	struct smq_rq_data data;

	if (likely(!slot->in_pieces))
		smqsg_bio_arm(bio, &slot->data.one, 0, slot->data.length);
	else
		smqsg_bio_arm(bio, slot->data.bvec, slot->data.skip, slot->data.length);
	data = smq_rq_data_of_bio(bio, slot->segments);
	smq_rq_set_data(rq, &data);
}

/**
 * smqsg_slot_apply_buffer() - puts a run's own buffer into a request
 * @io: the run
 * @rq: the request, filled from the slot
 *
 * Process context.
 */
void smqsg_slot_apply_buffer(struct smqsg_io *io, struct request *rq)
{
	struct smqsg_slot *slot = &io->fd->slots.array[io->slot];

	if ((rq->rq_flags & RQF_DONTPREP) && slot->bioless &&
	    smqsg_bioless_fits(&io->buffer_slot)) {
		smqsg_bioless_prepare(io->fd, rq, slot->direction, &io->buffer_slot);
		return;
	}
	/* Makes the mid-layer prepare a scatterlist for this buffer. */
	rq->rq_flags &= ~RQF_DONTPREP;
	smqsg_slot_arm(&io->bio, rq, &io->buffer_slot);
}

/**
 * smqsg_slot_fill_mapped() - gives a request a slot's data, for the mid-layer to prepare
 * @rq: the request
 * @slot: the slot
 * @bio: the run's
 *
 * Process context.
 */
void smqsg_slot_fill_mapped(struct request *rq, struct smqsg_slot *slot, struct bio *bio)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);

	scmd->allowed = 0;
	/* The tag's last command has left its own results here. */
	scmd->result = 0;
	scmd->resid_len = 0;
	rq->nr_phys_segments = 0;
	rq->__data_len = 0;
	if (slot->data.length)
		smqsg_slot_arm(bio, rq, slot);
}

/**
 * smqsg_io_wait() - makes a command wait for a place or a tag
 * @io: the command
 * @task: its waiting ends if this task ends; or NULL
 * @slot: its slot, or SMQSG_NO_SLOT
 * @timeout: how long it may wait, in jiffies
 * @grant: called when its turn has come; calls smqsg_io_granted()
 *
 * Return: as smqsg_wait(). Process context.
 */
int smqsg_io_wait(struct smqsg_io *io, struct task_struct *task, u32 slot, unsigned long timeout,
		  void (*grant)(struct smqsg_waiter *waiter, int got))
{
	io->waiter.task = task;
	io->waiter.waited = false;
	io->waiter.stopped = false;
	io->waiter.slot = slot;
	io->waiter.want = 1;
	io->waiter.deadline = jiffies + timeout;
	io->waiter.grant = grant;
	return smqsg_wait(&io->waiter, false);
}

/**
 * smqsg_io_granted() - sends a command that has waited
 * @io: the command
 * @got: as for smqsg_waiter.grant
 * @issue: sends it; returns 0, -EAGAIN if there is no tag, or another errno
 *
 * Return: 0: it was sent, or waits for a tag; an errno: its waiting has ended, and the caller ends
 * it. Process context.
 */
int smqsg_io_granted(struct smqsg_io *io, int got, int (*issue)(struct smqsg_io *io))
{
	int ret;

	if (got < 0)
		return got;
	ret = issue(io);
	if (!ret)
		return 0;
	smqsg_unreserve(io->fd, 1);
	return ret == -EAGAIN ? smqsg_wait(&io->waiter, true) : ret;
}

/**
 * smqsg_own_unsent() - takes back a request of the own queue that was not sent
 * @io: the command
 * @fd: the file
 * @rq: its request, whose data the caller keeps
 *
 * Process context.
 */
void smqsg_own_unsent(struct smqsg_io *io, struct smqsg_fd *fd, struct request *rq)
{
	rq->bio = NULL;
	smqsg_request_give_back(io, fd, rq);
}

/**
 * smqsg_slot_send_slowly() - smqsg_slot_send() of a command that waits, or needs the device's queue
 * @io: the run
 * @flags: see struct smqsg_send
 * @polled: REQ_POLLED or 0
 * @ioucmd: see struct smqsg_send
 *
 * Return: as smqsg_send_slowly(). Process context.
 */
int smqsg_slot_send_slowly(struct smqsg_io *io, blk_mq_req_flags_t flags, blk_opf_t polled,
			   struct io_uring_cmd *ioucmd)
{
	struct smqsg_slot *slot = &io->fd->slots.array[io->slot];
	const struct smqsg_send send = smqsg_slot_how(slot, io->flags, flags, polled, ioucmd);

	return smqsg_send_slowly(io, io->fd, &smqsg_slot_origin, &send);
}

/**
 * smqsg_slot_send_placed() - sends the command of a slot that has waited, and has a place
 * @io: the run
 * @polled: REQ_POLLED or 0
 * @ioucmd: see struct smqsg_send
 *
 * Return: as smqsg_send_placed(). Process context.
 */
int smqsg_slot_send_placed(struct smqsg_io *io, blk_opf_t polled, struct io_uring_cmd *ioucmd)
{
	struct smqsg_slot *slot = &io->fd->slots.array[io->slot];
	const struct smqsg_send send = smqsg_slot_how(slot, io->flags, 0, polled, ioucmd);

	return smqsg_send_placed(io, io->fd, &smqsg_slot_origin, &send);
}

/**
 * smqsg_slot_send_alone() - smqsg_slot_send() for a run that is neither polled nor part of a batch
 * @io: the run
 * @fd: the file
 * @slot: the slot
 * @varied: the run's SMQ_SG_RUN_*
 *
 * Return: as smqsg_slot_send(), or 1: the command ended before this function returned, and the
 * caller posts its CQE, without task work. Process context.
 */
int smqsg_slot_send_alone(struct smqsg_io *io, struct smqsg_fd *fd, struct smqsg_slot *slot,
			  u32 varied)
{
	const struct smqsg_send send = smqsg_slot_how(slot, varied, BLK_MQ_REQ_NOWAIT, 0, NULL);
	/*
	 * The command's task work runs in this task: so @io lives as long as the task is here. If a
	 * thread of io_uring sends the command for the task, it does not.
	 */
	bool by_task = smq_uring_task(io->ioucmd) == current;
	int ret;

	WRITE_ONCE(io->submitter, by_task ? current : NULL);
	ret = smqsg_slot_send(io, fd, &send);
	if (!by_task)
		return ret;
	if (!ret && !io->submitter)
		return 1;
	WRITE_ONCE(io->submitter, NULL);
	return ret;
}

/**
 * smqsg_request_take_spare() - gives grant() the request for which the dispatcher slept
 * @fd: the file
 * @opf: the request's operation
 * @error: why grant() could not allocate a request
 *
 * Return: the request; or @error. If @error is -EAGAIN and grant() then calls smqsg_wait(),
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
	/* Here, because the next run of the slot has another status. */
	if (io->batch && io->batch->tracked) {
		io->timed.result.sense_key = status->sense_key;
		io->timed.result.asc = status->asc;
		io->timed.result.ascq = status->ascq;
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
		smqsg_batch_end(batch, io, result, resid);
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
	smqsg_slot_alone_ended(io, io->fd, smq_uring_polled(io->ioucmd));
}
