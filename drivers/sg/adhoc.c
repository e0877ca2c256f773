// SPDX-License-Identifier: GPL-2.0
/*
 * Ad hoc commands: the SQE contains the whole command, in the format of /dev/bsg since Linux 7.1.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/blkdev.h>
#include <linux/bsg.h>
#include <linux/compat.h>
#include <linux/uio.h>
#include <scsi/sg.h>
#include <smq/uring.h>

#include "issue.h"
#include "owner.h"

static_assert(sizeof(struct smq_sg_uring_cmd) == 80);

/* The operation of a command's request. */
static blk_opf_t smqsg_adhoc_op(const struct smqsg_io *io)
{
	return (io->adhoc.out ? REQ_OP_DRV_OUT : REQ_OP_DRV_IN) |
	       (smq_uring_polled(io->ioucmd) ? REQ_POLLED : 0);
}

/* Reads the SQE, each field only once, because another thread may be writing it. */
static int smqsg_adhoc_read(struct smqsg_io *io)
{
	struct smqsg_adhoc *adhoc = &io->adhoc;
	const struct smq_sg_uring_cmd *sqe = smq_uring_payload(io->ioucmd);
	u64 request = READ_ONCE(sqe->request);
	u32 request_len = READ_ONCE(sqe->request_len);
	u32 out = READ_ONCE(sqe->dout_xfer_len);
	u32 in = READ_ONCE(sqe->din_xfer_len);
	u8 cdb[SMQ_SG_MAX_CDB] = { };

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
	adhoc->timeout = smqsg_timeout(READ_ONCE(sqe->timeout_ms));
	adhoc->cdb_len = request_len;
	/* On the stack the check of the kernel whether this memory may be copied to is cheap. */
	if (copy_from_user(cdb, u64_to_user_ptr(request), request_len))
		return -EFAULT;
	memcpy(adhoc->cdb, cdb, sizeof(cdb));
	if (!smqsg_cmd_allowed(io->fd->sdev->type, adhoc->cdb, adhoc->length, adhoc->out,
			       io->ioucmd->file->f_mode & FMODE_WRITE))
		return -EPERM;
	adhoc->response = READ_ONCE(sqe->response);
	adhoc->response_len = READ_ONCE(sqe->max_response_len);
	return 0;
}

/*
 * Maps data to a request without a tag, which is on the stack: other commands do not need it. The
 * data is in a registered buffer (@iter), or in the submitter's memory (@iter is NULL).
 */
static noinline int smqsg_adhoc_map_slowly(struct smqsg_io *io, struct iov_iter *iter)
{
	const struct smqsg_adhoc *adhoc = &io->adhoc;
	struct request rq = {
		.q = io->fd->q,
		.cmd_flags = smqsg_adhoc_op(io),
	};
	int ret;

	if (iter)
		ret = blk_rq_map_user_iov(rq.q, &rq, NULL, iter, GFP_KERNEL_ACCOUNT);
	else
		ret = blk_rq_map_user_io(&rq, NULL, u64_to_user_ptr(adhoc->address), adhoc->length,
					 GFP_KERNEL_ACCOUNT, adhoc->iovecs, adhoc->iovecs,
					 adhoc->iovecs, adhoc->out ? WRITE : READ);
	if (!ret)
		smqsg_data_mapped(&io->data, &rq);
	/* The caller takes -EAGAIN to mean that the command may not wait. */
	return ret == -EAGAIN ? -EIO : ret;
}

/* Maps data in a registered buffer: uses the buffer's own array of pages if the device can. */
static int smqsg_adhoc_map_fixed(struct smqsg_io *io, unsigned int issue_flags)
{
	const struct smqsg_adhoc *adhoc = &io->adhoc;
	struct request_queue *q = io->fd->q;
	struct iov_iter iter;
	int segments, ret;

	ret = smq_uring_import_fixed(adhoc->address, adhoc->length, adhoc->out ? WRITE : READ,
				     &iter, io->ioucmd, issue_flags);
	if (ret < 0)
		return ret;
	if (adhoc->length > (u64)queue_max_hw_sectors(q) << SECTOR_SHIFT)
		return -EINVAL;
	if (!blk_rq_aligned(q, iter.bvec->bv_offset + iter.iov_offset, adhoc->length))
		return smqsg_adhoc_map_slowly(io, &iter);
	segments = smqsg_segments(q, iter.bvec, iter.iov_offset, adhoc->length);
	if (segments <= 0)
		return smqsg_adhoc_map_slowly(io, &iter);
	smqsg_bio_arm(&io->bio, (struct bio_vec *)iter.bvec, iter.iov_offset, adhoc->length);
	io->data.mapped = smq_rq_data_of_bio(&io->bio, segments);
	return 0;
}

/* Maps or copies the data, while the command has neither a place nor a tag: see data.h. */
static __always_inline int smqsg_adhoc_map(struct smqsg_io *io, unsigned int issue_flags)
{
	const struct smqsg_adhoc *adhoc = &io->adhoc;

	if (!adhoc->length)
		return 0;
	if (adhoc->fixed)
		return smqsg_adhoc_map_fixed(io, issue_flags);
	if (smqsg_data_is_small(io->fd, adhoc->length, adhoc->iovecs))
		return smqsg_data_copy(io, adhoc->address, adhoc->length, adhoc->out);
	/*
	 * The kernel's import goes by the current system call: if that is one of a 32-bit program,
	 * it expects that program's smaller iovecs.
	 */
	if (adhoc->iovecs && smq_uring_compat(io->ioucmd) != in_compat_syscall()) {
		pr_debug("ad hoc: iovecs of a 32-bit program, from a thread of io_uring\n");
		return -EOPNOTSUPP;
	}
	return smqsg_adhoc_map_slowly(io, NULL);
}

/* Copies sense to the submitter's memory. Returns how many bytes were copied, or -EFAULT. */
static int smqsg_adhoc_sense(struct smqsg_io *io)
{
	const struct smqsg_adhoc *adhoc = &io->adhoc;
	u32 length = min(adhoc->response_len, adhoc->sense_len);

	if (!adhoc->response || !length)
		return 0;
	return !smqsg_has_caller() ||
	       copy_to_user(u64_to_user_ptr(adhoc->response), adhoc->sense, length) ?
	       -EFAULT : length;
}

/* Unmaps the data. Returns 0 or an errno. Process context. */
static int smqsg_adhoc_unmap(struct smqsg_io *io)
{
	int ret = smqsg_data_unmap(&io->data);

	if (unlikely(io->adhoc.owner))
		smqsg_unlock_pages(io->adhoc.pages, io->adhoc.owner);
	return ret;
}

static void smqsg_adhoc_post_cqe(struct io_uring_cmd *ioucmd, unsigned int issue_flags);
SMQ_URING_TASK_FN(smqsg_adhoc_task_work, smqsg_adhoc_post_cqe)

/* Unmaps the data and posts the CQE, in the submitter or as smqsg_adhoc_polled() says. */
static void smqsg_adhoc_post_cqe(struct io_uring_cmd *ioucmd, unsigned int issue_flags)
{
	struct smqsg_io *io = *(struct smqsg_io **)ioucmd->pdu;
	int sense, unmapped = smqsg_adhoc_unmap(io);
	int result = io->result ?: unmapped;
	u64 result2 = io->adhoc.result2;

	if (unlikely(io->adhoc.sense_len)) {
		sense = smqsg_adhoc_sense(io);
		if (sense >= 0)
			result2 |= (u64)sense << 24;
		else
			result = result ?: sense;
	}
	smqsg_io_put(io);
	smq_uring_done32(ioucmd, result, result2, issue_flags);
}

/**
 * smqsg_adhoc_polled() - an ad hoc command of a polled ring has ended
 * @ioucmd: its SQE
 *
 * Data and sense may have to be copied to the submitter's memory, to which a poller of the same
 * process has access. When the ring is torn down, a kernel thread polls it, which has no access to
 * that memory and posts the CQE without the copy. A poller of another process leaves the CQE to the
 * task that submitted the command.
 *
 * Process context, with the ring's lock held.
 */
void smqsg_adhoc_polled(struct io_uring_cmd *ioucmd)
{
	struct task_struct *task = smq_uring_task(ioucmd);

	if (current != task && smqsg_has_caller() && current->mm != READ_ONCE(task->mm))
		io_uring_cmd_complete_in_task(ioucmd, smqsg_adhoc_task_work);
	else
		smqsg_adhoc_post_cqe(ioucmd, 0);
}

/* Stores result and sense of a command that did not end with GOOD. */
static noinline void smqsg_adhoc_failed(struct smqsg_io *io, struct scsi_cmnd *scmd,
					blk_status_t error)
{
	struct smqsg_adhoc *adhoc = &io->adhoc;

	io->result = scmd->result ? 0 : blk_status_to_errno(error);
	adhoc->result2 |= (u64)host_byte(scmd->result) << 16 | (scmd->result & 0xff);
	if (!scsi_status_is_check_condition(scmd->result))
		return;
	adhoc->result2 |= DRIVER_SENSE << 8;
	adhoc->sense_len = min_t(u32, scmd->sense_len, sizeof(adhoc->sense));
	memcpy(adhoc->sense, scmd->sense_buffer, adhoc->sense_len);
}

/* Makes a poller or task work post the CQE of an ended command. Any context. */
static void smqsg_adhoc_ended(struct smqsg_io *io, bool polled)
{
	if (unlikely(polled))
		smqsg_poll_ended(&io->fd->polled.ended_adhoc, io->ioucmd);
	else
		io_uring_cmd_complete_in_task(io->ioucmd, smqsg_adhoc_task_work);
}

/* smqsg_origin.good of ad hoc commands. Any context. */
static void smqsg_adhoc_good(struct smqsg_io *io, struct request *rq)
{
	const struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	bool polled = rq->cmd_flags & REQ_POLLED;

	io->adhoc.result2 = (u64)scmd->resid_len << 32;
	smqsg_request_good(io, io->fd, rq);
	smqsg_adhoc_ended(io, polled);
}

/* smqsg_origin.end of ad hoc commands. Any context. */
static SMQ_END_IO(smqsg_adhoc_end, rq, error)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	bool polled = rq->cmd_flags & REQ_POLLED;
	struct smqsg_io *io = rq->end_io_data;
	bool failed = scmd->result || error;
	enum rq_end_io_ret ret;

	io->adhoc.result2 = (u64)scmd->resid_len << 32;
	if (failed)
		smqsg_adhoc_failed(io, scmd, error);
	ret = smqsg_request_ended(io, io->fd, rq, failed);
	smqsg_adhoc_ended(io, polled);
	return ret;
}

static __always_inline void smqsg_adhoc_fill(struct smqsg_io *io, struct request *rq,
					     const struct smqsg_send *send)
{
	smqsg_fill_request(rq, io->adhoc.cdb, io->adhoc.cdb_len, io->adhoc.timeout, io);
	smqsg_data_give(io, rq);
}

static const struct smqsg_origin smqsg_adhoc_origin = {
	.fill = smqsg_adhoc_fill,
	.good = smqsg_adhoc_good,
	.end = smqsg_adhoc_end,
};

static __always_inline struct smqsg_send smqsg_adhoc_how(const struct smqsg_io *io,
							 blk_mq_req_flags_t flags)
{
	return (struct smqsg_send) {
		.opf = smqsg_adhoc_op(io),
		.ioucmd = io->ioucmd,
		.flags = flags,
	};
}

/* Sends a command that has waited; called in grant(). */
static int smqsg_adhoc_send_granted(struct smqsg_io *io)
{
	const struct smqsg_send send = smqsg_adhoc_how(io, 0);

	return smqsg_send_placed(io, io->fd, &smqsg_adhoc_origin, &send);
}

/* smqsg_waiter.grant of an ad hoc command. */
static void smqsg_adhoc_grant(struct smqsg_waiter *waiter, int got)
{
	struct smqsg_io *io = container_of(waiter, struct smqsg_io, waiter);
	int ret = smqsg_io_granted(io, got, smqsg_adhoc_send_granted);

	if (!ret)
		return;
	io->result = ret;
	io->adhoc.result2 = 0;
	smqsg_data_unsent(&io->data);
	smqsg_adhoc_ended(io, smq_uring_polled(io->ioucmd));
}

/*
 * Returns the most pages that a command's data can pin: each piece of memory may begin and end
 * within a page. A registered buffer counts 0, because io_uring counts its pages.
 */
static unsigned long smqsg_adhoc_pages(const struct smqsg_io *io)
{
	const struct smqsg_adhoc *adhoc = &io->adhoc;

	if (!adhoc->length || adhoc->fixed || io->data.small)
		return 0;
	return adhoc->iovecs ? adhoc->length / PAGE_SIZE + 2ul * adhoc->iovecs :
			       DIV_ROUND_UP(adhoc->length, PAGE_SIZE) + 1;
}

/*
 * Makes a command wait for a place or a tag. Process context, of the submitter, which must not
 * sleep until there is a place: it submits other commands too. The dispatcher sends the command
 * later, from another address space: its data is mapped already.
 */
static noinline int smqsg_adhoc_wait(struct smqsg_io *io)
{
	struct smqsg_adhoc *adhoc = &io->adhoc;

	adhoc->pages = smqsg_adhoc_pages(io);
	if (smqsg_lock_pages(adhoc->pages, &adhoc->owner))
		return smqsg_wait_refused(io->fd);
	return smqsg_io_wait(io, smq_uring_task(io->ioucmd), SMQSG_NO_SLOT, adhoc->timeout,
			     smqsg_adhoc_grant);
}

/* Sends a command that waits or needs the device's queue, or makes it wait. */
static noinline int smqsg_adhoc_send_slowly(struct smqsg_io *io)
{
	const struct smqsg_send send = smqsg_adhoc_how(io, BLK_MQ_REQ_NOWAIT);
	int ret;

	if (!READ_ONCE(io->fd->own))
		smqsg_own_ask(io->fd, SMQSG_OWN_SQE);
	ret = smqsg_send_slowly(io, io->fd, &smqsg_adhoc_origin, &send);
	return ret == -EAGAIN ? smqsg_adhoc_wait(io) : ret;
}

/* Sends a command or makes it wait. */
static __always_inline int smqsg_adhoc_send(struct smqsg_io *io)
{
	const struct smqsg_send send = smqsg_adhoc_how(io, BLK_MQ_REQ_NOWAIT);

	if (smqsg_is_open(io->fd) &&
	    likely(smqsg_send_own(io, io->fd, &smqsg_adhoc_origin, &send, false)))
		return 0;
	return smqsg_adhoc_send_slowly(io);
}

/**
 * smqsg_adhoc_run() - runs an SQE with struct bsg_uring_cmd
 * @fd: the file
 * @ioucmd: the SQE
 * @issue_flags: io_uring's
 *
 * Return: -EIOCBQUEUED, or an errno other than -EAGAIN, as smqsg_slot_run(). Process context.
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
	io->adhoc.sense_len = 0;
	io->adhoc.owner = NULL;
	smqsg_data_init(&io->data);
	*(struct smqsg_io **)ioucmd->pdu = io;
	ret = smqsg_adhoc_read(io);
	if (!ret)
		ret = smqsg_adhoc_map(io, issue_flags);
	if (!ret)
		ret = smqsg_adhoc_send(io);
	if (likely(!ret))
		return -EIOCBQUEUED;
	smqsg_data_unsent(&io->data);
	smqsg_adhoc_unmap(io);
	smqsg_io_put(io);
	if (ret != -EAGAIN)
		return ret;
	smq_uring_done32(ioucmd, ret, 0, issue_flags);
	return -EIOCBQUEUED;
}
