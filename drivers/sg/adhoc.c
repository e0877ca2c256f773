// SPDX-License-Identifier: GPL-2.0
/*
 * Ad hoc commands: a whole one in an SQE, as for /dev/bsg of Linux 7.1.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/blkdev.h>
#include <linux/bsg.h>
#include <linux/compat.h>
#include <linux/hrtimer.h>
#include <linux/slab.h>
#include <linux/uio.h>
#include <scsi/sg.h>
#include <smq/uring.h>

#include "adhoc.h"
#include "claim.h"
#include "issue.h"

/* How long a request is kept for a task that does not run. */
#define SMQSG_KEEP		(25 * NSEC_PER_MSEC)

static_assert(sizeof(struct smq_sg_uring_cmd) == 80);

/**
 * struct smqsg_adhoc - an ad hoc command, as read from its SQE
 * @cdb: the CDB
 * @cdb_len: its bytes
 * @iovecs: elements of the array of struct iovec at @address; 0: the data itself
 * @address: of the data
 * @length: its bytes
 * @timeout: jiffies
 * @out: to the device
 * @fixed: @address lies in a registered buffer
 */
struct smqsg_adhoc {
	u8 cdb[SMQ_SG_MAX_CDB];
	u32 cdb_len;
	u32 iovecs;
	u64 address;
	u32 length;
	u32 timeout;
	bool out;
	bool fixed;
};

/**
 * struct smqsg_adhoc_late - an ad hoc command that waits
 *
 * Lives from when there was no place or no tag until the task that submitted sends or ends the
 * command. That task, which maps the data, must not sleep for a tag: it has its ring's lock,
 * for which a worker with the last tag may wait, and the ends of other drivers' commands, which
 * give tags back, may wait for it. So the dispatcher sleeps, and when it grants the turn it keeps
 * place and request for the task. A timer gives them back if the task does not come: others need
 * them.
 *
 * @io: the command, which has this in smqsg_io.adhoc
 * @command: what was in its SQE
 * @kept: the request, and with it a place; NULL for none. Written by the dispatcher, before it
 *	starts the timer and calls the task; then by the timer; when that is over by the task
 * @take_back: the timer: has run, or is cancelled, before the task looks at @kept. The task
 *	alone frees this
 */
struct smqsg_adhoc_late {
	struct smqsg_io *io;
	struct smqsg_adhoc command;
	struct request *kept;
	struct hrtimer take_back;
};

/* Reads the SQE, every field once: another thread may be writing it. */
static int smqsg_adhoc_read(struct smqsg_io *io, struct smqsg_adhoc *adhoc)
{
	const struct smq_sg_uring_cmd *sqe = smq_uring_payload(io->ioucmd);
	u64 request = READ_ONCE(sqe->request);
	u32 request_len = READ_ONCE(sqe->request_len);
	u32 out = READ_ONCE(sqe->dout_xfer_len);
	u32 in = READ_ONCE(sqe->din_xfer_len);
	u32 timeout = READ_ONCE(sqe->timeout_ms);

	if (READ_ONCE(sqe->protocol) != BSG_PROTOCOL_SCSI ||
	    READ_ONCE(sqe->subprotocol) != BSG_SUB_PROTOCOL_SCSI_CMD)
		return -EINVAL;
	if (!request || !request_len || request_len > sizeof(adhoc->cdb))
		return -EINVAL;
	if (out && in)
		return -EOPNOTSUPP;
	adhoc->out = out;
	adhoc->length = out ?: in;
	adhoc->address = out ? READ_ONCE(sqe->dout_xferp) : READ_ONCE(sqe->din_xferp);
	adhoc->iovecs = out ? READ_ONCE(sqe->dout_iovec_count) : READ_ONCE(sqe->din_iovec_count);
	adhoc->fixed = adhoc->length && (io->ioucmd->flags & IORING_URING_CMD_FIXED);
	if (adhoc->fixed && adhoc->iovecs)
		return -EOPNOTSUPP;
	if (adhoc->iovecs > UIO_MAXIOV)
		return -EINVAL;
	adhoc->timeout = timeout ? min_t(unsigned long, msecs_to_jiffies(timeout), INT_MAX) :
				   SMQSG_TIMEOUT;
	adhoc->cdb_len = request_len;
	memset(adhoc->cdb, 0, sizeof(adhoc->cdb));
	if (copy_from_user(adhoc->cdb, u64_to_user_ptr(request), request_len))
		return -EFAULT;
	if (!smqsg_cmd_allowed(adhoc->cdb, adhoc->length, adhoc->out,
			       io->ioucmd->file->f_mode & FMODE_WRITE))
		return -EPERM;
	io->response = READ_ONCE(sqe->response);
	io->response_len = READ_ONCE(sqe->max_response_len);
	return 0;
}

/* Data in a registered buffer: its own array of pages, if the device takes that. */
static int smqsg_adhoc_map_fixed(struct smqsg_io *io, struct request *rq,
				 const struct smqsg_adhoc *adhoc, unsigned int issue_flags)
{
	struct request_queue *q = rq->q;
	struct iov_iter iter;
	int segments, ret;

	ret = smq_uring_import_fixed(adhoc->address, adhoc->length, adhoc->out ? WRITE : READ,
				     &iter, io->ioucmd, issue_flags);
	if (ret < 0)
		return ret;
	if (adhoc->length > (u64)queue_max_hw_sectors(q) << SECTOR_SHIFT)
		return -EINVAL;
	if (blk_rq_aligned(q, iter.bvec->bv_offset + iter.iov_offset, adhoc->length)) {
		segments = smqsg_segments(q, iter.bvec, iter.iov_offset, adhoc->length);
		if (segments > 0) {
			smqsg_io_arm(&io->bio, rq, (struct bio_vec *)iter.bvec, iter.iov_offset,
				     adhoc->length, segments);
			return 0;
		}
	}
	ret = blk_rq_map_user_iov(q, rq, NULL, &iter, GFP_KERNEL);
	if (!ret)
		io->user_bio = rq->bio;
	return ret;
}

static int smqsg_adhoc_map(struct smqsg_io *io, struct request *rq,
			   const struct smqsg_adhoc *adhoc, unsigned int issue_flags)
{
	int ret;

	if (adhoc->fixed)
		return smqsg_adhoc_map_fixed(io, rq, adhoc, issue_flags);
	/* Of what size iovecs are the kernel's import takes from the system call that is made. */
	if (adhoc->iovecs && smq_uring_compat(io->ioucmd) != in_compat_syscall()) {
		pr_debug("ad hoc: iovecs of a 32-bit program whose command had to wait\n");
		return -EOPNOTSUPP;
	}
	ret = blk_rq_map_user_io(rq, NULL, u64_to_user_ptr(adhoc->address), adhoc->length,
				 GFP_KERNEL, adhoc->iovecs, adhoc->iovecs, adhoc->iovecs,
				 adhoc->out ? WRITE : READ);
	if (!ret)
		io->user_bio = rq->bio;
	return ret;
}

/* Whether task work runs in a task that still has the submitter's memory. */
static bool smqsg_adhoc_has_caller(void)
{
	return current->mm && !(current->flags & (PF_EXITING | PF_KTHREAD));
}

/* Copies sense to the caller; returns how many bytes that were, or -EFAULT. */
static int smqsg_adhoc_sense(struct smqsg_io *io)
{
	u32 length = min(io->response_len, io->sense_len);

	if (!io->response || !length)
		return 0;
	return !smqsg_adhoc_has_caller() ||
	       copy_to_user(u64_to_user_ptr(io->response), io->sense, length) ? -EFAULT : length;
}

static void smqsg_adhoc_tell(struct io_uring_cmd *ioucmd, unsigned int issue_flags);
SMQ_URING_TASK_FN(smqsg_adhoc_told, smqsg_adhoc_tell)

/* Posts the completion; in the task that submitted. */
static void smqsg_adhoc_tell(struct io_uring_cmd *ioucmd, unsigned int issue_flags)
{
	struct smqsg_io *io = *(struct smqsg_io **)ioucmd->pdu;
	int sense, unmapped, result = io->result;
	u64 result2 = io->result2;

	if (io->user_bio) {
		unmapped = blk_rq_unmap_user(io->user_bio);
		result = result ?: unmapped;
	}
	if (unlikely(io->sense_len)) {
		sense = smqsg_adhoc_sense(io);
		if (sense >= 0)
			result2 |= (u64)sense << 24;
		else
			result = result ?: sense;
	}
	smqsg_io_put(io);
	smq_uring_done32(ioucmd, result, result2, issue_flags);
}

/* Everything but GOOD. */
static noinline void smqsg_adhoc_failed(struct smqsg_io *io, struct scsi_cmnd *scmd,
					blk_status_t error)
{
	io->result = scmd->result ? 0 : blk_status_to_errno(error);
	io->result2 |= (u64)host_byte(scmd->result) << 16 | (scmd->result & 0xff);
	if (!scsi_status_is_check_condition(scmd->result))
		return;
	io->result2 |= DRIVER_SENSE << 8;
	io->sense_len = min_t(u32, scmd->sense_len, sizeof(io->sense));
	memcpy(io->sense, scmd->sense_buffer, io->sense_len);
}

/* The end of an ad hoc command: any context. */
static SMQ_END_IO(smqsg_adhoc_end, rq, error)
{
	struct smqsg_io *io = rq->end_io_data;
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);

	io->result2 = (u64)scmd->resid_len << 32;
	if (unlikely(scmd->result || error))
		smqsg_adhoc_failed(io, scmd, error);
	smqsg_release(io->fd, 1);
	if (unlikely(rq->cmd_flags & REQ_POLLED))
		smqsg_poll_ended(&io->fd->polled.ended_adhoc, io->ioucmd);
	else
		io_uring_cmd_complete_in_task(io->ioucmd, smqsg_adhoc_told);
	return RQ_END_IO_FREE;
}

static struct request *smqsg_adhoc_request(struct smqsg_io *io, const struct smqsg_adhoc *adhoc,
					   blk_mq_req_flags_t flags)
{
	blk_opf_t opf = adhoc->out ? REQ_OP_DRV_OUT : REQ_OP_DRV_IN;
	struct request *rq;

	if (likely(!smq_uring_polled(io->ioucmd)))
		return smqsg_request(io->fd, opf, flags);
	rq = smqsg_request(io->fd, opf | REQ_POLLED, flags);
	if (!IS_ERR(rq) && !smqsg_poll_on(&io->fd->polled, io->ioucmd, rq)) {
		blk_mq_free_request(rq);
		return ERR_PTR(-EOPNOTSUPP);
	}
	return rq;
}

/* Sends a command for which a place has been claimed; the request is gone if it cannot be. */
static int smqsg_adhoc_issue(struct smqsg_io *io, const struct smqsg_adhoc *adhoc,
			     struct request *rq, unsigned int issue_flags)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	int ret;

	memcpy(scmd->cmnd, adhoc->cdb, sizeof(adhoc->cdb));
	scmd->cmd_len = adhoc->cdb_len;
	scmd->allowed = 0;
	scmd->result = 0;
	scmd->resid_len = 0;
	if (adhoc->length) {
		ret = smqsg_adhoc_map(io, rq, adhoc, issue_flags);
		if (ret) {
			blk_mq_free_request(rq);
			/* Whatever it is, it is not for want of a tag. */
			return ret == -EAGAIN ? -EIO : ret;
		}
	}
	rq->timeout = adhoc->timeout;
	rq->end_io = smqsg_adhoc_end;
	rq->end_io_data = io;
	blk_execute_rq_nowait(rq, false);
	return 0;
}

/* Gives back what is kept. For the timer, and when that is over for the task. Any context. */
static void smqsg_adhoc_unkeep(struct smqsg_adhoc_late *late)
{
	struct request *rq = late->kept;

	if (!rq)
		return;
	late->kept = NULL;
	blk_mq_free_request(rq);
	smqsg_unclaim(late->io->fd, 1);
}

/* The task has not come for its request: others may have the tag and the place. */
static enum hrtimer_restart smqsg_adhoc_take_back(struct hrtimer *timer)
{
	smqsg_adhoc_unkeep(container_of(timer, struct smqsg_adhoc_late, take_back));
	return HRTIMER_NORESTART;
}

/* Keeps a place for the task, and a request; -EAGAIN: there is none. In grant(). */
static int smqsg_adhoc_keep(struct smqsg_adhoc_late *late)
{
	struct request *rq = smqsg_adhoc_request(late->io, &late->command, 0);

	if (IS_ERR(rq)) {
		smqsg_unclaim(late->io->fd, 1);
		return PTR_ERR(rq);
	}
	late->kept = rq;
	hrtimer_start(&late->take_back, ns_to_ktime(SMQSG_KEEP), HRTIMER_MODE_REL_SOFT);
	return 0;
}

/* Claims a place, and allocates a request; -EAGAIN: there is none at once. */
static struct request *smqsg_adhoc_now(struct smqsg_adhoc_late *late)
{
	struct smqsg_fd *fd = late->io->fd;
	struct request *rq;

	if (!smqsg_claim_turn(fd))
		return ERR_PTR(-EAGAIN);
	rq = smqsg_adhoc_request(late->io, &late->command, BLK_MQ_REQ_NOWAIT);
	if (IS_ERR(rq))
		smqsg_unclaim(fd, 1);
	return rq;
}

static bool smqsg_adhoc_turn(struct io_uring_cmd *ioucmd, unsigned int issue_flags);
SMQ_URING_TASK_FN(smqsg_adhoc_turned, smqsg_adhoc_turn)

/* Sends one that waited, if its time has not run out and nothing else ended it. */
static int smqsg_adhoc_try(struct smqsg_adhoc_late *late, unsigned int issue_flags)
{
	struct smqsg_io *io = late->io;
	struct request *rq;
	int ret;

	hrtimer_cancel(&late->take_back);
	if (io->result)
		return io->result;
	/* Without the caller's memory there is nothing to map. */
	if (!smqsg_adhoc_has_caller()) {
		smqsg_adhoc_unkeep(late);
		return -ECANCELED;
	}
	rq = late->kept ?: smqsg_adhoc_now(late);
	if (IS_ERR(rq))
		return PTR_ERR(rq);
	late->kept = NULL;
	/* It does not wait any longer, and may end at once. */
	io->adhoc = NULL;
	ret = smqsg_adhoc_issue(io, &late->command, rq, issue_flags);
	if (ret)
		smqsg_unclaim(io->fd, 1);
	return ret;
}

/*
 * The turn of one that waited has come, or will not: in the task that submitted, or by its poller.
 * Returns whether it has ended, unsent.
 */
static bool smqsg_adhoc_turn(struct io_uring_cmd *ioucmd, unsigned int issue_flags)
{
	struct smqsg_io *io = *(struct smqsg_io **)ioucmd->pdu;
	struct smqsg_adhoc_late *late = io->adhoc;
	int ret = smqsg_adhoc_try(late, issue_flags);

	/* The task came late, and others were faster: it waits again, at the front of the queue. */
	if (ret == -EAGAIN) {
		ret = smqsg_wait(io->fd, &io->waiter);
		if (!ret)
			return false;
	}
	kfree(late);
	if (!ret)
		return false;
	smqsg_io_put(io);
	smq_uring_done32(ioucmd, ret, 0, issue_flags);
	return true;
}

/**
 * smqsg_adhoc_polled() - an ad hoc command of a polled ring has ended, or its turn has come
 * @ioucmd: its SQE
 *
 * A poller of the submitter's process has the memory that the command needs. The ring's last
 * poller, a kernel thread, ends the command without it. A poller of another process leaves the
 * command to the task that submitted it.
 *
 * Return: whether it was told. Process context, with its ring's lock.
 */
bool smqsg_adhoc_polled(struct io_uring_cmd *ioucmd)
{
	struct smqsg_io *io = *(struct smqsg_io **)ioucmd->pdu;
	struct task_struct *task = smq_uring_task(ioucmd);

	if (current != task && smqsg_adhoc_has_caller() && current->mm != READ_ONCE(task->mm)) {
		io_uring_cmd_complete_in_task(ioucmd, io->adhoc ? smqsg_adhoc_turned :
					      smqsg_adhoc_told);
		return true;
	}
	if (io->adhoc)
		return smqsg_adhoc_turn(ioucmd, 0);
	smqsg_adhoc_tell(ioucmd, 0);
	return true;
}

static void smqsg_adhoc_grant(struct smqsg_waiter *waiter, int got)
{
	struct smqsg_io *io = container_of(waiter, struct smqsg_io, waiter);

	io->result = got > 0 ? smqsg_adhoc_keep(io->adhoc) : got;
	if (io->result == -EAGAIN) {
		int ret = smqsg_wait_first(io->fd, waiter);

		if (!ret)
			return;
		io->result = ret;
	}
	if (unlikely(smq_uring_polled(io->ioucmd)))
		smqsg_poll_ended(&io->fd->polled.ended_adhoc, io->ioucmd);
	else
		io_uring_cmd_complete_in_task(io->ioucmd, smqsg_adhoc_turned);
}

static int smqsg_adhoc_wait(struct smqsg_io *io, const struct smqsg_adhoc *adhoc)
{
	struct smqsg_adhoc_late *late = kmalloc(sizeof(*late), GFP_KERNEL_ACCOUNT);
	int ret;

	if (!late)
		return -ENOMEM;
	late->io = io;
	late->command = *adhoc;
	late->kept = NULL;
	hrtimer_setup(&late->take_back, smqsg_adhoc_take_back, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_SOFT);
	io->adhoc = late;
	io->waiter.task = smq_uring_task(io->ioucmd);
	io->waiter.waited = false;
	io->waiter.front = true;
	io->waiter.left = false;
	io->waiter.slot = SMQSG_NO_SLOT;
	io->waiter.want = 1;
	io->waiter.deadline = jiffies + adhoc->timeout;
	io->waiter.grant = smqsg_adhoc_grant;
	ret = smqsg_wait(io->fd, &io->waiter);
	if (ret)
		kfree(late);
	return ret;
}

static int smqsg_adhoc_start(struct smqsg_io *io, unsigned int issue_flags)
{
	struct smqsg_adhoc adhoc;
	struct request *rq;
	int ret;

	ret = smqsg_adhoc_read(io, &adhoc);
	if (ret)
		return ret;
	if (likely(smqsg_claim(io->fd, 1))) {
		rq = smqsg_adhoc_request(io, &adhoc, BLK_MQ_REQ_NOWAIT);
		ret = IS_ERR(rq) ? PTR_ERR(rq) :
			smqsg_adhoc_issue(io, &adhoc, rq, issue_flags);
		if (likely(!ret))
			return 0;
		smqsg_unclaim(io->fd, 1);
		if (ret != -EAGAIN)
			return ret;
	}
	return smqsg_adhoc_wait(io, &adhoc);
}

/**
 * smqsg_adhoc_run() - an SQE with struct bsg_uring_cmd
 * @fd: the file
 * @ioucmd: the SQE
 * @issue_flags: io_uring's
 *
 * Return: -EIOCBQUEUED, or an errno but -EAGAIN, as smqsg_slot_run(). Process context.
 */
int smqsg_adhoc_run(struct smqsg_fd *fd, struct io_uring_cmd *ioucmd, unsigned int issue_flags)
{
	struct smqsg_io *io;
	int ret;

	if ((issue_flags & (IO_URING_F_SQE128 | IO_URING_F_CQE32)) !=
	    (IO_URING_F_SQE128 | IO_URING_F_CQE32))
		return -EOPNOTSUPP;
	io = smqsg_io_get(fd);
	if (unlikely(!io))
		return -ENOMEM;
	io->ioucmd = ioucmd;
	io->result = 0;
	io->sense_len = 0;
	io->user_bio = NULL;
	io->adhoc = NULL;
	*(struct smqsg_io **)ioucmd->pdu = io;
	ret = smqsg_adhoc_start(io, issue_flags);
	if (likely(!ret))
		return -EIOCBQUEUED;
	smqsg_io_put(io);
	if (ret != -EAGAIN)
		return ret;
	smq_uring_done32(ioucmd, ret, 0, issue_flags);
	return -EIOCBQUEUED;
}
