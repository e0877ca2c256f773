// SPDX-License-Identifier: GPL-2.0
/*
 * SMQ_SG_RUN: a batch whose caller waits for its end.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/file.h>
#include <linux/freezer.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "batch.h"
#include "io.h"
#include "refuse.h"

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

/*
 * Returns whether the caller has a pending signal that kills it or that it handles. The caller also
 * wakes up for signals that only stop or continue it, a debugger, a freezer, and task work of its
 * own io_uring. Those do not count: smqsg_batch_sleep() handles the freezers of the system and of
 * cgroup v1, and the caller handles the others when it returns to user space.
 */
static bool smqsg_signalled(void)
{
	/* A task's own sighand is not freed while the task runs. */
	struct sighand_struct *sighand = rcu_dereference_protected(current->sighand, true);
	static const int stops[] = { SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT };
	sigset_t pending;
	int i;

	if (!task_sigpending(current))
		return false;
	spin_lock_irq(&sighand->siglock);
	sigorsets(&pending, &current->pending.signal, &current->signal->shared_pending.signal);
	sigandnsets(&pending, &pending, &current->blocked);
	for (i = 0; i < ARRAY_SIZE(stops); i++)
		if (sighand->action[stops[i] - 1].sa.sa_handler == SIG_DFL)
			sigdelset(&pending, stops[i]);
	spin_unlock_irq(&sighand->siglock);
	return !sigisemptyset(&pending);
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
	struct smqsg_batch *batch;
	u32 failed;
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
	batch = smqsg_batch_get(fd);
	if (!batch)
		return -ENOMEM;
	batch->ioucmd = NULL;
	batch->polled = 0;
	batch->cancelled = false;
	smqsg_caller_init(&batch->caller, smqsg_batch_orphan);
	ret = smqsg_batch_start(batch, &arg.batch);
	if (ret) {
		smqsg_batch_put(batch);
		return ret;
	}
	smqsg_batch_begin(batch);
	if (!smqsg_batch_wait(batch))
		return -EINTR;
	failed = atomic_read(&batch->failed);
	ret = batch->cancelled ? -EINTR : 0;
	smqsg_batch_recycle(batch);
	smqsg_batch_put(batch);
	if (put_user(failed, &out->failed))
		return -EFAULT;
	return ret;
}
