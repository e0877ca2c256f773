// SPDX-License-Identifier: GPL-2.0
/*
 * SMQ_SG_URING_BATCH, and SMQ_SG_RUN: a batch whose caller waits for its end.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/file.h>
#include <linux/freezer.h>
#include <linux/uaccess.h>
#include <smq/uring.h>

#include "batch.h"
#include "module.h"

/* After a signal that does not end the wait, pending signals are checked at this interval. */
#define SMQSG_SIGNAL		max(HZ / 20, 1)

/* Cleans up a batch whose caller was interrupted. */
static void smqsg_batch_orphan(struct work_struct *work)
{
	struct smqsg_batch *batch = container_of(work, struct smqsg_batch, caller.work);
	struct file *file = batch->caller.file;

	smqsg_batch_recycle(batch);
	smqsg_batch_put(batch);
	fput(file);
}

/* Sleeps until the batch has ended or a signal has come. Returns true if the batch has ended. */
static bool smqsg_batch_sleep(struct smqsg_batch *batch)
{
	long ret = !wait_for_completion_interruptible(&batch->caller.done);

	while (!ret && !smqsg_signalled()) {
		ret = wait_for_completion_killable_timeout(&batch->caller.done, SMQSG_SIGNAL);
		try_to_freeze();
	}
	return ret > 0;
}

/* Waits for the batch's end. Returns false if the caller has left. */
static bool smqsg_batch_wait(struct smqsg_batch *batch)
{
	if (smqsg_batch_sleep(batch))
		return true;
	/* No more commands are sent; smqsg_batch_orphan() cleans up after those in flight. */
	WRITE_ONCE(batch->cancelled, true);
	if (smqsg_unwait(&batch->waiter)) {
		smqsg_batch_refuse_rest(batch, -ECANCELED);
		smqsg_batch_drop_remaining(batch, batch->unsent + 1);
	}
	return !smqsg_caller_leave(&batch->caller, batch->fd->file);
}

/*
 * Runs a batch, and waits for its end. Returns 0, and @failed is the number of commands that
 * failed; or an errno. If that is -EINTR, @failed may be set as well.
 */
static int smqsg_batch_run_wait(struct smqsg_fd *fd, const struct smq_sg_batch *arg, u32 *failed)
{
	struct smqsg_batch *batch = smqsg_batch_get(fd);
	bool is_timed = arg->flags & SMQ_SG_BATCH_TIMED;
	int ret;

	if (!batch)
		return -ENOMEM;
	batch->ioucmd = NULL;
	batch->polled = 0;
	batch->cancelled = false;
	smqsg_caller_init(&batch->caller, smqsg_batch_orphan);
	ret = smqsg_batch_start(batch, arg);
	if (ret) {
		smqsg_batch_put(batch);
		return ret;
	}
	if (is_timed)
		smqsg_timed_begin(batch);
	else
		smqsg_batch_begin(batch);
	if (!smqsg_batch_wait(batch))
		return -EINTR;
	*failed = atomic_read(&batch->failed);
	if (is_timed)
		ret = smqsg_timed_finish(batch);
	if (batch->cancelled)
		ret = -EINTR;
	smqsg_batch_recycle(batch);
	smqsg_batch_put(batch);
	return ret;
}

/**
 * smqsg_ioctl_run() - SMQ_SG_RUN
 * @fd: the file
 * @user: struct smq_sg_run_batch
 *
 * Sleeps until the commands have ended, or until the caller gets a signal that kills it or that it
 * handles.
 *
 * Return: see struct smq_sg_run_batch.
 */
long smqsg_ioctl_run(struct smqsg_fd *fd, void __user *user)
{
	struct smq_sg_run_batch __user *out = user;
	struct smq_sg_run_batch arg;
	int ret;

	if (copy_from_user(&arg, user, sizeof(arg)) || put_user(SMQ_SG_FIELD_NONE, &out->field))
		return -EFAULT;
	arg.field = SMQ_SG_FIELD_NONE;
	if (memchr_inv(arg.reserved, 0, sizeof(arg.reserved)))
		ret = smqsg_refuse(&arg.field, RESERVED, -EINVAL, "run: reserved must be 0");
	else
		ret = smqsg_batch_check(fd, &arg.batch, &arg.field);
	if (ret)
		return put_user(arg.field, &out->field) ? -EFAULT : ret;
	ret = smqsg_batch_run_wait(fd, &arg.batch, &arg.failed);
	return put_user(arg.failed, &out->failed) ? -EFAULT : ret;
}

/* SMQ_SG_URING_BATCH of a timed batch. Returns as smqsg_batch_run(). */
static noinline int smqsg_batch_run_timed(struct smqsg_fd *fd, struct io_uring_cmd *ioucmd,
					  const struct smq_sg_batch *arg, unsigned int issue_flags)
{
	u32 failed;
	int ret;

	if (issue_flags & IO_URING_F_IOPOLL)
		return -EOPNOTSUPP;
	/* io_uring calls again, from a worker that may sleep. */
	if (issue_flags & IO_URING_F_NONBLOCK)
		return -EAGAIN;
	ret = smqsg_batch_run_wait(fd, arg, &failed);
	smq_uring_done(ioucmd, ret ?: failed, issue_flags);
	return -EIOCBQUEUED;
}

/**
 * smqsg_batch_run() - SMQ_SG_URING_BATCH
 * @fd: the file
 * @ioucmd: the SQE, with struct smq_sg_batch
 * @issue_flags: io_uring's
 *
 * Return: -EIOCBQUEUED, or an errno: -EAGAIN, if io_uring has to call again from a worker. Process
 * context.
 */
int smqsg_batch_run(struct smqsg_fd *fd, struct io_uring_cmd *ioucmd, unsigned int issue_flags)
{
	const struct smq_sg_batch *sqe = smq_uring_payload(ioucmd);
	/* Each field is read only once: another thread may be writing it. */
	const struct smq_sg_batch arg = {
		.list = READ_ONCE(sqe->list),
		.count = READ_ONCE(sqe->count),
		.flags = READ_ONCE(sqe->flags),
	};
	struct smqsg_batch *batch;
	u32 field;
	int ret;

	ret = smqsg_batch_check(fd, &arg, &field);
	if (unlikely(ret))
		return ret;
	if (unlikely(!smqsg_sqe_unused(ioucmd, sizeof(arg), issue_flags)))
		return -EINVAL;
	if (unlikely(arg.flags & SMQ_SG_BATCH_TIMED))
		return smqsg_batch_run_timed(fd, ioucmd, &arg, issue_flags);
	batch = smqsg_batch_get(fd);
	if (unlikely(!batch))
		return -ENOMEM;
	batch->ioucmd = ioucmd;
	batch->polled = issue_flags & IO_URING_F_IOPOLL ? REQ_POLLED : 0;
	batch->cancelled = false;
	*(struct smqsg_batch **)ioucmd->pdu = batch;
	ret = smqsg_batch_start(batch, &arg);
	if (unlikely(ret)) {
		smqsg_batch_put(batch);
		return ret;
	}
	smqsg_batch_begin(batch);
	return -EIOCBQUEUED;
}
