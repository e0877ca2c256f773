// SPDX-License-Identifier: GPL-2.0
/*
 * Ad hoc commands: the SQE contains the whole command, in the format of /dev/bsg since Linux 7.1.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/blkdev.h>
#include <linux/bsg.h>
#include <linux/compat.h>
#include <linux/slab.h>
#include <linux/uio.h>
#include <scsi/sg.h>
#include <smq/uring.h>

#include "adhoc.h"
#include "reserve.h"
#include "issue.h"
#include "locked.h"

static_assert(sizeof(struct smq_sg_uring_cmd) == 80);

/**
 * struct smqsg_adhoc - an ad hoc command, as read from its SQE
 * @cdb: the CDB
 * @cdb_len: bytes of @cdb
 * @iovecs: elements of the array of struct iovec at @address; 0 if the data itself is at @address
 * @address: address of the data
 * @length: bytes of data
 * @timeout: jiffies
 * @out: the data goes to the device
 * @fixed: @address lies in a registered buffer
 * @small: the data was copied to smqsg_io.small
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
	bool small;
};

/**
 * struct smqsg_adhoc_waiting - an ad hoc command that waits
 * @command: what was in its SQE
 * @data: a request to which its data is mapped, because the block layer maps memory only to a
 *	request. It has no tag and is never sent: the request that is sent takes the data over
 * @owner: a reference to the credentials of the user whose locked memory includes the data; NULL if
 *	no page is counted. Data is counted because a program may have many more commands waiting
 *	than there are tags
 * @pages: how many pages are counted
 *
 * Exists from when the command finds no place or no tag, until its data is unpinned. The dispatcher
 * sends the command later, from another address space, and the submitter may be stopped or gone by
 * then. So the submitter maps the data before the command waits, to a request of its own if the
 * data is in its memory: see smqsg_adhoc_map_user().
 */
struct smqsg_adhoc_waiting {
	struct smqsg_adhoc command;
	struct request data;
	const struct cred *owner;
	unsigned long pages;
};

static blk_opf_t smqsg_adhoc_op(const struct smqsg_adhoc *adhoc)
{
	return adhoc->out ? REQ_OP_DRV_OUT : REQ_OP_DRV_IN;
}

/* Reads the SQE, each field only once, because another thread may be writing it. */
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
	adhoc->small = false;
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
	if (!smqsg_cmd_allowed(io->fd->sdev->type, adhoc->cdb, adhoc->length, adhoc->out,
			       io->ioucmd->file->f_mode & FMODE_WRITE))
		return -EPERM;
	io->response = READ_ONCE(sqe->response);
	io->response_len = READ_ONCE(sqe->max_response_len);
	return 0;
}

/*
 * Whether a command's data is copied through a page of its struct: it is one piece in the
 * submitter's memory, and the device takes that much.
 */
static bool smqsg_adhoc_is_small(const struct smqsg_fd *fd, const struct smqsg_adhoc *adhoc)
{
	return adhoc->length <= SMQSG_SMALL && !adhoc->iovecs && fd->slots.list &&
	       adhoc->length <= queue_max_hw_sectors(fd->q) << SECTOR_SHIFT;
}

/*
 * Fills a command's page from the submitter's memory, also for data-in: so bytes that the device
 * does not write keep the submitter's values.
 */
static int smqsg_adhoc_copy(struct smqsg_io *io, struct smqsg_adhoc *adhoc)
{
	if (unlikely(!io->small))
		io->small = (void *)__get_free_page(GFP_KERNEL_ACCOUNT);
	if (unlikely(!io->small))
		return -ENOMEM;
	if (copy_from_user(io->small, u64_to_user_ptr(adhoc->address), adhoc->length))
		return -EFAULT;
	adhoc->small = true;
	io->back = adhoc->out ? 0 : adhoc->address;
	io->back_len = adhoc->length;
	return 0;
}

/* Gives a request the data in the command's page. */
static void smqsg_adhoc_give_small(struct smqsg_io *io, struct request *rq, u32 length)
{
	struct bio_vec *bvec = &io->buffer_slot.data.one;

	if (likely(smqsg_bioless_may(io->fd, rq))) {
		smqsg_bioless_prepare_one(io->fd, rq, virt_to_page(io->small), 0, length);
		return;
	}
	*bvec = (struct bio_vec) { .bv_page = virt_to_page(io->small), .bv_len = length };
	smqsg_io_arm(&io->bio, rq, bvec, 0, length, 1);
}

/*
 * Maps data in a registered buffer: uses the buffer's own array of pages if the device can take
 * that.
 */
static __always_inline int smqsg_adhoc_map_fixed(struct smqsg_io *io, struct request *rq,
						 const struct smqsg_adhoc *adhoc, gfp_t gfp,
						 unsigned int issue_flags)
{
	struct request_queue *q = rq->q;
	struct iov_iter iter;
	int segments, ret;

	if (!adhoc->fixed)
		return 0;

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
	ret = blk_rq_map_user_iov(q, rq, NULL, &iter, gfp);
	if (!ret)
		io->user_bio = rq->bio;
	/* The caller takes -EAGAIN to mean that there is no tag. */
	return ret == -EAGAIN ? -EIO : ret;
}

/*
 * Maps data in the submitter's memory to a request without a tag, from which the request that is
 * sent takes it over. The memory may be slow to come, or never come: a user decides that, by
 * userfaultfd or a file of FUSE. So this is called while the command has neither a place nor a tag.
 */
static __always_inline int smqsg_adhoc_map_user(struct smqsg_io *io, struct request *rq,
						const struct smqsg_adhoc *adhoc)
{
	int ret;

	/*
	 * The kernel's import goes by the current system call: if that is one of a 32-bit program,
	 * it expects that program's smaller iovecs.
	 */
	if (adhoc->iovecs && smq_uring_compat(io->ioucmd) != in_compat_syscall()) {
		pr_debug("ad hoc: iovecs of a 32-bit program, from a thread of io_uring\n");
		return -EOPNOTSUPP;
	}
	ret = blk_rq_map_user_io(rq, NULL, u64_to_user_ptr(adhoc->address), adhoc->length,
				 GFP_KERNEL_ACCOUNT, adhoc->iovecs, adhoc->iovecs, adhoc->iovecs,
				 adhoc->out ? WRITE : READ);
	if (ret)
		return ret;
	smq_rq_of_no_queue(rq);
	io->user_bio = rq->bio;
	return 0;
}

/*
 * Whether the current task has a user's address space: task work may also run in a kernel thread,
 * or in a task that exits.
 */
static bool smqsg_adhoc_has_caller(void)
{
	return current->mm && !(current->flags & (PF_EXITING | PF_KTHREAD));
}

/* Copies sense to the submitter's memory. Returns how many bytes were copied, or -EFAULT. */
static int smqsg_adhoc_sense(struct smqsg_io *io)
{
	u32 length = min(io->response_len, io->sense_len);

	if (!io->response || !length)
		return 0;
	return !smqsg_adhoc_has_caller() ||
	       copy_to_user(u64_to_user_ptr(io->response), io->sense, length) ? -EFAULT : length;
}

/* Frees what a command needed while it waited. Its data is already unpinned. Process context. */
static void smqsg_adhoc_waited(struct smqsg_adhoc_waiting *waiting)
{
	smqsg_unlock_pages(waiting->pages, waiting->owner);
	kfree(waiting);
}

static void smqsg_adhoc_post_cqe(struct io_uring_cmd *ioucmd, unsigned int issue_flags);
SMQ_URING_TASK_FN(smqsg_adhoc_task_work, smqsg_adhoc_post_cqe)

/* Unmaps the data and posts the CQE, in the submitter or as smqsg_adhoc_polled() says. */
static void smqsg_adhoc_post_cqe(struct io_uring_cmd *ioucmd, unsigned int issue_flags)
{
	struct smqsg_io *io = *(struct smqsg_io **)ioucmd->pdu;
	int sense, unmapped, result = io->result;
	u64 result2 = io->result2;

	if (io->user_bio) {
		unmapped = blk_rq_unmap_user(io->user_bio);
		result = result ?: unmapped;
	}
	if (io->back && smqsg_adhoc_has_caller() &&
	    copy_to_user(u64_to_user_ptr(io->back), io->small, io->back_len))
		result = result ?: -EFAULT;
	if (unlikely(io->adhoc))
		smqsg_adhoc_waited(io->adhoc);
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

	if (current != task && smqsg_adhoc_has_caller() && current->mm != READ_ONCE(task->mm))
		io_uring_cmd_complete_in_task(ioucmd, smqsg_adhoc_task_work);
	else
		smqsg_adhoc_post_cqe(ioucmd, 0);
}

/* Stores result and sense of a command that did not end with GOOD. */
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

/* Makes the end of a command that was not sent copy nothing to the submitter. */
static void smqsg_adhoc_unsent(struct smqsg_io *io)
{
	smqsg_bio_unsent(io->user_bio);
	io->back = 0;
}

/* Makes a poller or task work post the CQE of an ended command. Any context. */
static void smqsg_adhoc_ended(struct smqsg_io *io, bool polled)
{
	if (unlikely(polled))
		smqsg_poll_ended(&io->fd->polled.ended_adhoc, io->ioucmd);
	else
		io_uring_cmd_complete_in_task(io->ioucmd, smqsg_adhoc_task_work);
}

/* Stores the result of a command. Returns whether it did not end with GOOD. */
static __always_inline bool smqsg_adhoc_result(struct smqsg_io *io, struct request *rq,
					       blk_status_t error)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);

	io->result2 = (u64)scmd->resid_len << 32;
	if (likely(!scmd->result && !error))
		return false;
	smqsg_adhoc_failed(io, scmd, error);
	return true;
}

/* rq->end_io of an ad hoc command on the device's queue. Any context. */
static SMQ_END_IO(smqsg_adhoc_end, rq, error)
{
	struct smqsg_io *io = rq->end_io_data;

	smqsg_adhoc_result(io, rq, error);
	smqsg_release(io->fd, 1);
	smqsg_adhoc_ended(io, rq->cmd_flags & REQ_POLLED);
	return RQ_END_IO_FREE;
}

/* rq->end_io of an ad hoc command on the node's own queue. Any context. */
static SMQ_END_IO(smqsg_adhoc_end_own, rq, error)
{
	bool polled = rq->cmd_flags & REQ_POLLED;
	struct smqsg_io *io = rq->end_io_data;
	struct smqsg_fd *fd = io->fd;
	enum rq_end_io_ret ret;

	smqsg_direct_ended(fd);
	ret = smqsg_idle_ended(&io->idle, fd, rq, smqsg_adhoc_result(io, rq, error));
	smqsg_release(fd, 1);
	smqsg_adhoc_ended(io, polled);
	return ret;
}

static struct request *smqsg_adhoc_request(struct smqsg_io *io, const struct smqsg_adhoc *adhoc,
					   blk_mq_req_flags_t flags)
{
	blk_opf_t opf = smqsg_adhoc_op(adhoc);
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

/* Returns a request of the node's own queue for a command; NULL if the command cannot have one. */
static __always_inline struct request *smqsg_adhoc_own_request(struct smqsg_io *io,
							       const struct smqsg_adhoc *adhoc)
{
	blk_opf_t polled = smq_uring_polled(io->ioucmd) ? REQ_POLLED : 0;
	struct request_queue *own = READ_ONCE(io->fd->own);
	struct request *rq;

	if (unlikely(!own)) {
		smqsg_own_ask(io->fd, SMQSG_OWN_SQE);
		return NULL;
	}
	if (unlikely(!smqsg_own_limits_match(own, io->fd->q)))
		return NULL;
	rq = smqsg_own_request(io, io->fd, own, smqsg_adhoc_op(adhoc) | polled);
	if (unlikely(!rq))
		return NULL;
	if (unlikely(polled) && !smqsg_poll_on(&io->fd->polled, io->ioucmd, rq)) {
		smqsg_own_unsent(io, io->fd, rq);
		return NULL;
	}
	/* An idle request has the size of its last command's data. */
	rq->nr_phys_segments = 0;
	rq->__data_len = 0;
	return rq;
}

/* Gives a request its data and the command. @mapped: as for smqsg_adhoc_issue(). */
static __always_inline int smqsg_adhoc_give(struct smqsg_io *io, struct request *rq,
					    const struct smqsg_adhoc *adhoc,
					    const struct request *mapped, unsigned int issue_flags)
{
	int ret;

	smqsg_fill_request(rq, adhoc->cdb, adhoc->cdb_len, adhoc->timeout, io);
	if (adhoc->small) {
		smqsg_adhoc_give_small(io, rq, adhoc->length);
		return 0;
	}
	if (mapped) {
		smq_rq_take_data(rq, mapped);
	} else {
		ret = smqsg_adhoc_map_fixed(io, rq, adhoc, GFP_KERNEL, issue_flags);
		if (unlikely(ret))
			return ret;
	}
	smqsg_bioless_prepare_mapped(io->fd, rq);
	return 0;
}

/* Fills a request and sends it on the device's queue. Returns as smqsg_adhoc_issue(). */
static int smqsg_adhoc_issue_plain(struct smqsg_io *io, const struct smqsg_adhoc *adhoc,
				   const struct request *mapped, unsigned int issue_flags)
{
	struct request *rq = smqsg_adhoc_request(io, adhoc, BLK_MQ_REQ_NOWAIT);
	int ret;

	if (IS_ERR(rq))
		return PTR_ERR(rq);
	ret = smqsg_adhoc_give(io, rq, adhoc, mapped, issue_flags);
	if (unlikely(ret)) {
		blk_mq_free_request(rq);
		return ret;
	}
	rq->end_io = smqsg_adhoc_end;
	blk_execute_rq_nowait(rq, false);
	return 0;
}

/*
 * Sends a command on the device's queue after @rq, a request of the own queue, was not sent. Has a
 * request on its stack, which takes the data over. Returns as smqsg_adhoc_issue().
 */
static noinline int smqsg_adhoc_issue_again(struct smqsg_io *io, const struct smqsg_adhoc *adhoc,
					    struct request *rq, unsigned int issue_flags)
{
	struct request mapped = { };
	int ret;

	/* A small command's data stays in its page. */
	smq_rq_take_data(&mapped, rq);
	smqsg_own_unsent(io, io->fd, rq);
	ret = smqsg_adhoc_issue_plain(io, adhoc, &mapped, issue_flags);
	/* A command that waits maps a registered buffer again. */
	if (ret && adhoc->fixed && io->user_bio) {
		smqsg_adhoc_unsent(io);
		blk_rq_unmap_user(io->user_bio);
		io->user_bio = NULL;
	}
	return ret;
}

/*
 * Sends a command for which a place is reserved. @mapped: the request to which its data is mapped;
 * NULL: it has none, or its data is in a registered buffer. Returns -EAGAIN if there is no tag.
 */
static int smqsg_adhoc_issue(struct smqsg_io *io, const struct smqsg_adhoc *adhoc,
			     const struct request *mapped, unsigned int issue_flags)
{
	struct request *rq = smqsg_adhoc_own_request(io, adhoc);
	int ret;

	if (unlikely(!rq))
		return smqsg_adhoc_issue_plain(io, adhoc, mapped, issue_flags);
	ret = smqsg_adhoc_give(io, rq, adhoc, mapped, issue_flags);
	if (unlikely(ret)) {
		smqsg_own_unsent(io, io->fd, rq);
		return ret;
	}
	rq->end_io = smqsg_adhoc_end_own;
	if (likely(smqsg_direct_issue(io->fd, rq, &io->token)))
		return 0;
	return smqsg_adhoc_issue_again(io, adhoc, rq, issue_flags);
}

/* Sends a command that has waited; called in grant(). Returns as smqsg_adhoc_issue(). */
static int smqsg_adhoc_issue_waiting(struct smqsg_io *io)
{
	struct smqsg_adhoc_waiting *waiting = io->adhoc;
	struct request *rq = smqsg_adhoc_request(io, &waiting->command, 0);

	if (IS_ERR(rq))
		return PTR_ERR(rq);
	/* Cannot fail: the data is mapped. */
	smqsg_adhoc_give(io, rq, &waiting->command, &waiting->data, 0);
	rq->end_io = smqsg_adhoc_end;
	blk_execute_rq_nowait(rq, false);
	return 0;
}

/* smqsg_waiter.grant of an ad hoc command. */
static void smqsg_adhoc_grant(struct smqsg_waiter *waiter, int got)
{
	struct smqsg_io *io = container_of(waiter, struct smqsg_io, waiter);
	int ret = smqsg_io_granted(io, got, smqsg_adhoc_issue_waiting);

	if (!ret)
		return;
	io->result = ret;
	io->result2 = 0;
	smqsg_adhoc_unsent(io);
	smqsg_adhoc_ended(io, smq_uring_polled(io->ioucmd));
}

/*
 * Returns the most pages that a command's data can pin: each piece of memory may begin and end
 * within a page. A registered buffer counts 0, because io_uring counts its pages.
 */
static unsigned long smqsg_adhoc_pages(const struct smqsg_adhoc *adhoc)
{
	if (!adhoc->length || adhoc->fixed || adhoc->small)
		return 0;
	return adhoc->iovecs ? adhoc->length / PAGE_SIZE + 2ul * adhoc->iovecs :
			       DIV_ROUND_UP(adhoc->length, PAGE_SIZE) + 1;
}

/* Gives a command that is about to wait its data. @mapped: as for smqsg_adhoc_issue(). */
static int smqsg_adhoc_map_waiting(struct smqsg_io *io, struct smqsg_adhoc_waiting *waiting,
				   const struct request *mapped, unsigned int issue_flags)
{
	struct request *data = &waiting->data;
	int ret;

	if (waiting->command.small)
		return 0;
	blk_rq_init(io->fd->q, data);
	data->cmd_flags = smqsg_adhoc_op(&waiting->command);
	if (mapped) {
		smq_rq_take_data(data, mapped);
		return 0;
	}
	ret = smqsg_adhoc_map_fixed(io, data, &waiting->command, GFP_KERNEL_ACCOUNT, issue_flags);
	if (!ret)
		smq_rq_of_no_queue(data);
	return ret;
}

/*
 * Makes a command wait for a place or a tag. @mapped: as for smqsg_adhoc_issue(). Process context,
 * of the submitter, which must not sleep until there is a place: it submits other commands too.
 */
static noinline int smqsg_adhoc_wait(struct smqsg_io *io, const struct smqsg_adhoc *adhoc,
				     const struct request *mapped, unsigned int issue_flags)
{
	struct smqsg_adhoc_waiting *waiting;
	int ret;

	if (smqsg_wait_full(io->fd))
		return smqsg_wait_refused(io->fd);
	waiting = kmalloc(sizeof(*waiting), GFP_KERNEL_ACCOUNT);
	if (!waiting)
		return -ENOMEM;
	waiting->command = *adhoc;
	waiting->pages = smqsg_adhoc_pages(adhoc);
	if (smqsg_lock_pages(waiting->pages, &waiting->owner)) {
		kfree(waiting);
		return smqsg_wait_refused(io->fd);
	}
	ret = smqsg_adhoc_map_waiting(io, waiting, mapped, issue_flags);
	if (ret)
		goto out_free;
	io->adhoc = waiting;
	ret = smqsg_io_wait(io, SMQSG_NO_SLOT, adhoc->timeout, smqsg_adhoc_grant);
	if (!ret)
		return 0;
	io->adhoc = NULL;
out_free:
	smqsg_adhoc_waited(waiting);
	return ret;
}

/* Sends a command or makes it wait. @mapped: as for smqsg_adhoc_issue(). */
static __always_inline int smqsg_adhoc_send(struct smqsg_io *io, const struct smqsg_adhoc *adhoc,
					    const struct request *mapped, unsigned int issue_flags)
{
	int ret;

	if (likely(smqsg_reserve(io->fd, 1))) {
		ret = smqsg_adhoc_issue(io, adhoc, mapped, issue_flags);
		if (likely(!ret))
			return 0;
		smqsg_unreserve(io->fd, 1);
		if (ret != -EAGAIN)
			return ret;
	}
	return smqsg_adhoc_wait(io, adhoc, mapped, issue_flags);
}

/*
 * Sends a command with data in the submitter's memory. Has a request on its stack: other commands
 * do not need it.
 */
static noinline int smqsg_adhoc_send_user(struct smqsg_io *io, const struct smqsg_adhoc *adhoc,
					  unsigned int issue_flags)
{
	struct request mapped = {
		.q = io->fd->q,
		.cmd_flags = smqsg_adhoc_op(adhoc) |
			     (smq_uring_polled(io->ioucmd) ? REQ_POLLED : 0),
	};
	int ret = smqsg_adhoc_map_user(io, &mapped, adhoc);

	/* The caller takes -EAGAIN to mean that the command may not wait. */
	if (unlikely(ret))
		return ret == -EAGAIN ? -EIO : ret;
	return smqsg_adhoc_send(io, adhoc, &mapped, issue_flags);
}

static int smqsg_adhoc_start(struct smqsg_io *io, unsigned int issue_flags)
{
	struct smqsg_adhoc adhoc;
	int ret;

	ret = smqsg_adhoc_read(io, &adhoc);
	if (ret)
		return ret;
	if (!adhoc.length || adhoc.fixed)
		return smqsg_adhoc_send(io, &adhoc, NULL, issue_flags);
	if (!smqsg_adhoc_is_small(io->fd, &adhoc))
		return smqsg_adhoc_send_user(io, &adhoc, issue_flags);
	ret = smqsg_adhoc_copy(io, &adhoc);
	return ret ?: smqsg_adhoc_send(io, &adhoc, NULL, issue_flags);
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
	io->sense_len = 0;
	io->user_bio = NULL;
	io->back = 0;
	io->adhoc = NULL;
	*(struct smqsg_io **)ioucmd->pdu = io;
	ret = smqsg_adhoc_start(io, issue_flags);
	if (likely(!ret))
		return -EIOCBQUEUED;
	if (io->user_bio) {
		smqsg_adhoc_unsent(io);
		blk_rq_unmap_user(io->user_bio);
	}
	smqsg_io_put(io);
	if (ret != -EAGAIN)
		return ret;
	smq_uring_done32(ioucmd, ret, 0, issue_flags);
	return -EIOCBQUEUED;
}
