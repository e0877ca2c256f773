// SPDX-License-Identifier: GPL-2.0
/*
 * Ends the waiting of commands whose deadline has passed, whose task or device is gone, or that
 * SMQ_SG_CANCEL cancels.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/nospec.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "module.h"
#include "sg.h"

/* How many waiters one scan of a file's queue takes at most. Each scan begins at the head. */
#define SMQSG_EXPIRED		64

/**
 * struct smqsg_expired - a waiter whose waiting ends
 * @waiter: the waiter, already out of its queue
 * @error: the errno that its grant() gets
 */
struct smqsg_expired {
	struct smqsg_waiter *waiter;
	int error;
};

/* Dequeues a file's waiters whose waiting is over, SMQSG_EXPIRED at most. Returns how many. */
static unsigned int smqsg_take_expired(struct smqsg_fd *fd, struct smqsg_expired *expired)
{
	struct smqsg_waiter *waiter, *next;
	unsigned int nr = 0;
	int error;

	lockdep_assert_held(&fd->sg->lock);
	list_for_each_entry_safe(waiter, next, &fd->wait.queue, entry) {
		error = smqsg_wait_error(fd->sg, waiter);
		if (!error)
			continue;
		smqsg_dequeue(waiter);
		expired[nr++] = (struct smqsg_expired){ waiter, error };
		if (nr == SMQSG_EXPIRED)
			break;
	}
	return nr;
}

/* Calls grant() of the waiters that were taken. Their file may be gone on return. */
static void smqsg_grant_expired(const struct smqsg_expired *expired, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++)
		expired[i].waiter->grant(expired[i].waiter, expired[i].error);
	cond_resched();
}

/* Ends the waiting of all waiters of a file whose waiting is over. */
static void smqsg_end_waiting_of(struct smqsg_fd *fd)
{
	struct smqsg_expired expired[SMQSG_EXPIRED];
	unsigned int nr;

	do {
		spin_lock(&fd->sg->lock);
		nr = smqsg_take_expired(fd, expired);
		spin_unlock(&fd->sg->lock);
		smqsg_grant_expired(expired, nr);
	} while (nr == SMQSG_EXPIRED);
}

/*
 * As smqsg_end_waiting_of(), for all files of a node. Holds the lock for one file at a time: so a
 * submitter waits at most for the scan of one file. Sorting the waiters by deadline would save
 * nothing, because the task of each waiter must be checked.
 */
static void smqsg_end_waiting(struct smqsg_dev *sg)
{
	struct smqsg_expired expired[SMQSG_EXPIRED];
	unsigned int nr, left, again = 0;
	struct smqsg_fd *fd;

	spin_lock(&sg->lock);
	left = sg->wait.nr_files;
	while (left && !list_empty(&sg->wait.scans)) {
		fd = list_first_entry(&sg->wait.scans, struct smqsg_fd, wait.scan);
		nr = smqsg_take_expired(fd, expired);
		/*
		 * Go on to the next file after as many scans as a full queue needs: the next run of
		 * this work finds waiters that came later.
		 */
		if (nr < SMQSG_EXPIRED || again++ == SMQSG_MOST_WAITING / SMQSG_EXPIRED) {
			if (fd->wait.queued)
				list_move_tail(&fd->wait.scan, &sg->wait.scans);
			again = 0;
			left--;
		}
		spin_unlock(&sg->lock);
		smqsg_grant_expired(expired, nr);
		spin_lock(&sg->lock);
	}
	spin_unlock(&sg->lock);
}

static void smqsg_expire(struct work_struct *work)
{
	struct smqsg_dev *sg = container_of(work, struct smqsg_dev, wait.expire.work);

	smqsg_end_waiting(sg);
	if (atomic_read(&sg->depth.waiting))
		queue_delayed_work(smqsg_wq, &sg->wait.expire, SMQSG_EXPIRE);
}

/* Marks a slot's waiting run as cancelled. Returns 1 if there was one. */
static unsigned int smqsg_cancel_slot(struct smqsg_fd *fd, u32 slot)
{
	struct smqsg_waiter *waiter;

	lockdep_assert_held(&fd->sg->lock);
	list_for_each_entry(waiter, &fd->wait.queue, entry) {
		if (waiter->slot == slot) {
			waiter->stopped = true;
			return 1;
		}
	}
	/* The run's turn may just have come. If it then gets no request, it must not wait again. */
	if (fd->wait.turn == slot)
		fd->wait.turn = SMQSG_NO_SLOT;
	return 0;
}

/*
 * Ends the waiting of the run of @slot; SMQSG_NO_SLOT: of all waiting commands of the file. A
 * command that is being sent at this moment does not wait again. Returns how many commands waited.
 * The grant() of each is called with -ECANCELED, perhaps by another context. Process context,
 * without locks, because grant() may sleep.
 */
static unsigned int smqsg_cancel(struct smqsg_fd *fd, u32 slot)
{
	struct smqsg_dev *sg = fd->sg;
	unsigned int found;

	spin_lock(&sg->lock);
	if (slot == SMQSG_NO_SLOT) {
		fd->wait.cancels++;
		found = fd->wait.queued + fd->order.runs;
	} else {
		found = smqsg_cancel_slot(fd, slot);
	}
	spin_unlock(&sg->lock);
	if (found)
		smqsg_end_waiting_of(fd);
	return found;
}

static int smqsg_cancel_check(struct smqsg_fd *fd, struct smq_sg_cancel *arg)
{
	u32 slots = smqsg_slots(&fd->slots);
	u32 *field = &arg->field;

	*field = SMQ_SG_FIELD_NONE;
	if (memchr_inv(arg->reserved, 0, sizeof(arg->reserved)))
		return smqsg_refuse(field, RESERVED, -EINVAL, "cancel: reserved must be 0");
	if (arg->flags & ~SMQ_SG_CANCEL_SLOT)
		return smqsg_refuse(field, FLAGS, -EINVAL,
				    "cancel flags %#x: SMQ_SG_CANCEL_SLOT or 0", arg->flags);
	if (!arg->flags && arg->slot)
		return smqsg_refuse(field, SLOT, -EINVAL,
				    "cancel slot %u: must be 0 without SMQ_SG_CANCEL_SLOT",
				    arg->slot);
	if (arg->flags && arg->slot >= slots)
		return smqsg_refuse(field, SLOT, -EINVAL, "cancel slot %u: the file has %u slots",
				    arg->slot, slots);
	/*
	 * Only the slots' owner may cancel. Without an owner the file has only ad hoc commands,
	 * which any user of the file may cancel.
	 */
	return READ_ONCE(fd->owner.cred) && !smqsg_may_run(&fd->owner) ? -EPERM : 0;
}

static int smqsg_cancel_one(struct smqsg_fd *fd, struct smq_sg_cancel *arg)
{
	u32 slot = array_index_nospec(arg->slot, smqsg_slots(&fd->slots));

	arg->cancelled = smqsg_cancel(fd, slot);
	if (arg->cancelled)
		return 0;
	return READ_ONCE(fd->slots.busy[slot]) ? -EALREADY : -ENOENT;
}

/**
 * smqsg_ioctl_cancel() - SMQ_SG_CANCEL
 * @fd: the file
 * @user: struct smq_sg_cancel
 *
 * Return: see struct smq_sg_cancel. May sleep.
 */
long smqsg_ioctl_cancel(struct smqsg_fd *fd, void __user *user)
{
	struct smq_sg_cancel __user *out = user;
	struct smq_sg_cancel arg;
	long ret;

	if (copy_from_user(&arg, user, sizeof(arg)))
		return -EFAULT;
	arg.cancelled = 0;
	ret = smqsg_cancel_check(fd, &arg);
	if (!ret && arg.flags)
		ret = smqsg_cancel_one(fd, &arg);
	else if (!ret)
		arg.cancelled = smqsg_cancel(fd, SMQSG_NO_SLOT);
	if (put_user(arg.cancelled, &out->cancelled) || (ret && put_user(arg.field, &out->field)))
		return -EFAULT;
	return ret;
}

/**
 * smqsg_expire_soon() - starts, without delay, the scan for waiters that must stop waiting
 * @sg: the node; its device was removed or claimed, or a task with waiting commands may be ending
 *
 * Any context. Does not wait.
 */
void smqsg_expire_soon(struct smqsg_dev *sg)
{
	mod_delayed_work(smqsg_wq, &sg->wait.expire, 0);
}

/**
 * smqsg_expire_init() - sets up the expiry of a node
 * @sg: the node
 */
void smqsg_expire_init(struct smqsg_dev *sg)
{
	INIT_DELAYED_WORK(&sg->wait.expire, smqsg_expire);
}
