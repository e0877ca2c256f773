// SPDX-License-Identifier: GPL-2.0
/*
 * Runs batches: which slots of the list are sent when; SMQ_SG_URING_BATCH; and SMQ_SG_RUN, whose
 * caller waits for the end.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/blkdev.h>
#include <linux/file.h>
#include <linux/freezer.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <smq/uring.h>

#include "batch.h"
#include "issue.h"
#include "module.h"

/* How many requests a plug allocates at a time. */
#define SMQSG_PLUG		32
/* After this many refused elements the task calls cond_resched(). */
#define SMQSG_COURTESY		256
/* After a signal that does not end the wait, pending signals are checked at this interval. */
#define SMQSG_SIGNAL		max(HZ / 20, 1)

static size_t smqsg_element(u32 flags)
{
	return flags & SMQ_SG_BATCH_RUNS ? sizeof(struct smq_sg_run) : sizeof(u32);
}

/**
 * smqsg_batch_check() - checks a caller's request for a batch
 * @fd: the file
 * @arg: the request, in memory that only the kernel writes
 * @field: gets the field at fault, enum smq_sg_field
 *
 * Return: 0, or an errno as described at struct smq_sg_batch. Process context.
 */
static int smqsg_batch_check(struct smqsg_fd *fd, const struct smq_sg_batch *arg, u32 *field)
{
	u32 slots = smqsg_slots(&fd->slots);
	u32 most = arg->flags & SMQ_SG_BATCH_TIMED ? SMQ_SG_MAX_TIMED : SMQ_SG_MAX_BATCH;

	if (arg->flags & ~(SMQ_SG_BATCH_RANGE | SMQ_SG_BATCH_RUNS | SMQ_SG_BATCH_TIMED) ||
	    arg->flags & (arg->flags - 1))
		return smqsg_refuse(field, FLAGS, -EINVAL,
				    "batch flags %#x: SMQ_SG_BATCH_RANGE, _RUNS, _TIMED or 0",
				    arg->flags);
	if (!arg->count || arg->count > most)
		return smqsg_refuse(field, COUNT, -EINVAL, "batch count %u: 1 to %u", arg->count,
				    most);
	if ((arg->flags & SMQ_SG_BATCH_RANGE) && arg->count > slots)
		return smqsg_refuse(field, COUNT, -EINVAL,
				    "batch count %u: the file has %u slots", arg->count, slots);
	if ((arg->flags & SMQ_SG_BATCH_RANGE) && arg->list > slots - arg->count)
		return smqsg_refuse(field, LIST, -EINVAL,
				    "batch list %llu, count %u: the file has %u slots",
				    arg->list, arg->count, slots);
	return smqsg_may_run(&fd->owner) ? 0 : -EPERM;
}

/**
 * smqsg_batch_start() - fills a batch from its caller's request, and copies the list
 * @batch: the batch
 * @arg: the request, for which smqsg_batch_check() has returned 0
 *
 * The caller may change its list after the system call, and to read it may take long, because of
 * page faults: so no command has a place yet.
 *
 * Return: 0, -EFAULT, -ENOMEM, or as smqsg_timed_start(). Process context.
 */
static int smqsg_batch_start(struct smqsg_batch *batch, const struct smq_sg_batch *arg)
{
	size_t size = (size_t)arg->count * smqsg_element(arg->flags);

	atomic_set(&batch->remaining, arg->count + 1);
	atomic_set(&batch->failed, 0);
	batch->list = arg->list;
	batch->count = arg->count;
	batch->flags = arg->flags;
	batch->at = 0;
	batch->unsent = 0;
	batch->tracked = false;
	batch->waiter.waited = false;
	batch->waiter.stopped = false;
	batch->waiter.slot = SMQSG_NO_SLOT;
	if (arg->flags & SMQ_SG_BATCH_RANGE)
		return 0;
	if (arg->flags & SMQ_SG_BATCH_TIMED)
		return smqsg_timed_start(batch, arg);
	if (size > sizeof(batch->few)) {
		batch->elements = kvmalloc(size, GFP_KERNEL_ACCOUNT);
		if (!batch->elements)
			return -ENOMEM;
	}
	return copy_from_user(batch->elements, u64_to_user_ptr(arg->list), size) ? -EFAULT : 0;
}

/* The number of the slot of an element of the list, as the caller gave it. */
static __always_inline u32 smqsg_batch_slot(const struct smqsg_batch *batch, u32 at)
{
	if (batch->flags & SMQ_SG_BATCH_RANGE)
		return batch->list + at;
	if (unlikely(batch->flags & SMQ_SG_BATCH_RUNS))
		return ((const struct smq_sg_run *)batch->elements)[at].slot;
	return ((const u32 *)batch->elements)[at];
}

/**
 * smqsg_batch_refuse_rest() - ends the remaining elements of the list with an error
 * @batch: the batch; the caller drops @batch->unsent
 * @error: an errno, below 0
 *
 * Process context.
 */
static void smqsg_batch_refuse_rest(struct smqsg_batch *batch, int error)
{
	for (; batch->at < batch->count; batch->at++) {
		smqsg_slot_refused(batch->fd, smqsg_batch_slot(batch, batch->at), error);
		atomic_inc(&batch->failed);
		if (!(++batch->unsent % SMQSG_COURTESY))
			cond_resched();
	}
}

/*
 * Ends an element that was not sent, or leaves it in the list if it has to wait. Returns whether
 * the element has ended. @io: the element's command; NULL if there was no memory.
 */
static noinline bool smqsg_batch_unsent(struct smqsg_batch *batch, struct smqsg_io *io, u32 at,
					int error)
{
	if (!io)
		smqsg_slot_refused(batch->fd, smqsg_batch_slot(batch, at), error);
	else if (error == -EAGAIN)
		smqsg_slot_drop(io, 0);
	if (io && batch->count > SMQSG_BATCH_SHORT)
		smqsg_io_put(io);
	if (error == -EAGAIN)
		return false;
	batch->unsent++;
	atomic_inc(&batch->failed);
	return true;
}

/*
 * Returns a struct smqsg_io for the next command of a long batch; NULL if there is no memory. First
 * uses up @again, a list of structs whose commands have already ended: with straight issue each
 * command may have ended before the next one is sent.
 */
static __always_inline struct smqsg_io *smqsg_batch_io(struct smqsg_batch *batch,
						       struct llist_node **again)
{
	struct smqsg_io *io;

	if (!*again && !llist_empty(&batch->ended))
		*again = llist_del_all(&batch->ended);
	if (*again) {
		io = llist_entry(*again, struct smqsg_io, ended);
		*again = (*again)->next;
		smqsg_slot_put_buffer(io);
		return io;
	}
	io = smqsg_io_get(batch->fd);
	if (likely(io))
		io->batch = batch;
	return io;
}

/*
 * Sends an element of the list that is polled, varied, or has a place reserved for it (@placed).
 * Returns as smqsg_batch_send_one().
 */
static noinline int smqsg_batch_send_any(struct smqsg_batch *batch, struct smqsg_io *io, u32 at,
					 bool placed)
{
	u32 number = smqsg_batch_slot(batch, at);
	struct smqsg_fd *fd = batch->fd;
	struct smqsg_send send = {
		.opf = batch->polled,
		.ioucmd = batch->ioucmd,
		.slot = smqsg_slot_find(fd, &number),
		.flags = BLK_MQ_REQ_NOWAIT,
	};
	int ret;

	if (!send.slot)
		return -EINVAL;
	if (batch->flags & SMQ_SG_BATCH_RUNS) {
		const struct smq_sg_run *run = (const struct smq_sg_run *)batch->elements + at;

		send.varied = smqsg_run_vary(io, run->lba, run->buffer, run->flags);
	}
	if (!placed)
		return smqsg_slot_start(io, fd, number, &send, false);
	ret = smqsg_slot_take(io, fd, send.slot, number, send.varied);
	if (ret)
		return ret;
	ret = smqsg_slot_send_placed(io, batch->polled, batch->ioucmd);
	if (ret && ret != -EAGAIN)
		smqsg_slot_drop(io, ret);
	return ret;
}

/*
 * Sends an element of the list. Returns 0: sent; -EAGAIN: it has to wait, and its slot is still
 * taken; or another errno, and the element has ended.
 */
static __always_inline int smqsg_batch_send_one(struct smqsg_batch *batch, struct smqsg_io *io,
						u32 at)
{
	u32 number = smqsg_batch_slot(batch, at);
	struct smqsg_send send = {
		.slot = smqsg_slot_find(batch->fd, &number),
		.flags = BLK_MQ_REQ_NOWAIT,
	};

	if (unlikely(!send.slot))
		return -EINVAL;
	return smqsg_slot_start(io, batch->fd, number, &send, false);
}

/*
 * Makes the current plug allocate its next requests of the device's queue in one go. This is the
 * batch's own plug, or the submitter's if the submitter had started one. Asks for no more than the
 * device takes: when the plug ends it frees those that are left, and until then no one else gets
 * their tags.
 */
static void smqsg_batch_arm(const struct smqsg_batch *batch)
{
	struct blk_plug *plug = current->plug;
	u32 most = min_t(u32, READ_ONCE(batch->fd->sdev->queue_depth), SMQSG_PLUG);

	plug->nr_ios = clamp_t(u32, batch->count - batch->at, plug->nr_ios, most);
}

/*
 * Sends elements of the list until its end, until one has to wait, or until the next tick: each
 * command may end before queue_rq() returns, so without a bound this could take minutes. @places:
 * if above 0, so many places are reserved, no more elements are sent, and the places that are not
 * used are given back.
 */
static void smqsg_batch_send(struct smqsg_batch *batch, u32 places)
{
	bool is_short = batch->count <= SMQSG_BATCH_SHORT, placed = places;
	bool any = placed || batch->polled || batch->flags & SMQ_SG_BATCH_RUNS;
	u32 at, count = batch->count;
	struct llist_node *again = NULL;
	unsigned long tick = jiffies;
	struct smqsg_io *io;
	struct blk_plug plug;
	int ret;

	blk_start_plug(&plug);
	if (unlikely(!READ_ONCE(batch->fd->own)))
		smqsg_batch_arm(batch);
	for (at = batch->at; at < count && (!placed || places); at++) {
		io = is_short ? &batch->ios[at] : smqsg_batch_io(batch, &again);
		if (unlikely(!io))
			ret = -ENOMEM;
		else if (unlikely(any))
			ret = smqsg_batch_send_any(batch, io, at, placed);
		else
			ret = smqsg_batch_send_one(batch, io, at);
		if (unlikely(ret) && !smqsg_batch_unsent(batch, io, at, ret))
			break;
		places -= placed && !ret;
		if (unlikely(time_after(jiffies, tick))) {
			at++;
			break;
		}
	}
	batch->at = at;
	if (!is_short)
		smqsg_batch_put_back(again);
	if (unlikely(places))
		smqsg_unreserve(batch->fd, places);
	blk_finish_plug(&plug);
}

static void smqsg_batch_grant(struct smqsg_waiter *waiter, int got);

/* Waits for more places. Returns 0, and the batch may be gone; or an errno. */
static int smqsg_batch_wait_more(struct smqsg_batch *batch, bool moved)
{
	if (READ_ONCE(batch->cancelled))
		return -ECANCELED;
	smqsg_batch_drop_remaining(batch, batch->unsent);
	batch->unsent = 0;
	batch->waiter.want = batch->count - batch->at;
	if (moved)
		batch->waiter.deadline = jiffies + SMQSG_TIMEOUT;
	batch->waiter.task = batch->ioucmd ? smq_uring_task(batch->ioucmd) : NULL;
	batch->waiter.grant = smqsg_batch_grant;
	return smqsg_wait(&batch->waiter, !moved);
}

/*
 * Called after sending: waits for more places or, at the end of the list, drops the one count of
 * @remaining that stands for the walk of the list. @moved: false if no element was sent or ended,
 * because there was no tag. The batch may be gone on return.
 */
static void smqsg_batch_wait_or_end(struct smqsg_batch *batch, bool moved)
{
	int ret;

	if (batch->at < batch->count) {
		ret = smqsg_batch_wait_more(batch, moved);
		if (!ret)
			return;
		smqsg_batch_refuse_rest(batch, ret);
	}
	smqsg_batch_drop_remaining(batch, batch->unsent + 1);
}

static void smqsg_batch_grant(struct smqsg_waiter *waiter, int got)
{
	struct smqsg_batch *batch = container_of(waiter, struct smqsg_batch, waiter);
	u32 at = batch->at;

	if (batch->count > SMQSG_BATCH_SHORT)
		smqsg_batch_recycle(batch);
	if (got > 0 && READ_ONCE(batch->cancelled)) {
		smqsg_unreserve(batch->fd, got);
		got = -ECANCELED;
	}
	if (got > 0)
		smqsg_batch_send(batch, got);
	else
		smqsg_batch_refuse_rest(batch, got);
	smqsg_batch_wait_or_end(batch, batch->at != at);
}

/* Whether the submitter has to stop sending: it is killed or, of an ioctl, gets a signal. */
static bool smqsg_batch_stops(struct smqsg_batch *batch)
{
	if (batch->ioucmd)
		return fatal_signal_pending(current);
	if (smqsg_caller_stops())
		batch->cancelled = true;
	return batch->cancelled;
}

/**
 * smqsg_batch_begin() - sends the commands for which there are places; the rest waits
 * @batch: filled by smqsg_batch_start(); may be gone on return
 *
 * Process context.
 */
static void smqsg_batch_begin(struct smqsg_batch *batch)
{
	u32 at;

	/* Repeated: after a tick, and when commands that were sent may have freed their places. */
	do {
		at = batch->at;
		smqsg_batch_send(batch, 0);
		if (likely(batch->at == batch->count))
			break;
		if (batch->count > SMQSG_BATCH_SHORT)
			smqsg_batch_recycle(batch);
		cond_resched();
	} while (batch->at > at && !smqsg_batch_stops(batch));
	smqsg_batch_wait_or_end(batch, true);
}

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
