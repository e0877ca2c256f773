// SPDX-License-Identifier: GPL-2.0
/*
 * Queue depth: who may have a command in flight, who waits, and whose turn it is.
 *
 * A claim is a place among the device's queue_depth, which is read anew each
 * time. Claims are made where a command is submitted, while nobody waits; else
 * everybody goes through his file's queue, and the dispatcher deals places one
 * file after the other, so that files get equal shares.
 *
 * Block I/O of the same device is not ours to queue. That it waits for a place
 * shows in sdev->restarts, which the mid-layer raises when it finds none; since we
 * never take more than the depth, somebody else needs one. The device's last place
 * is then left free for a while; with a depth of 1 the two take turns.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/jiffies.h>
#include <linux/sched/signal.h>

#include "depth.h"
#include "work.h"

/* How long block I/O is left a place since it was last seen without one. */
#define SMQSG_YIELD		max(HZ / 100, 2)
/* Limits move without telling: how often those who wait are looked at. */
#define SMQSG_LOOK		max(HZ / 100, 1)
/* How late a waiter may learn that its time is over. */
#define SMQSG_EXPIRE		max(HZ / 10, 1)
/* How many of these are taken at a time: all others are looked at for each such lot. */
#define SMQSG_EXPIRED		64

/* How many commands of ours the device may have now. */
static unsigned int smqsg_limit(struct smqsg_dev *sg, struct scsi_device *sdev)
{
	unsigned int depth = max_t(unsigned int, READ_ONCE(sdev->queue_depth), 1);

	if (likely(!READ_ONCE(sg->yield)))
		return depth;
	if (time_after_eq(jiffies, READ_ONCE(sg->yield_until))) {
		WRITE_ONCE(sg->yield, false);
		return depth;
	}
	if (depth > 1)
		return depth - 1;
	/* Whoever had no place has had one when the device got another command. */
	return atomic_read(&sdev->iorequest_cnt) != READ_ONCE(sg->yield_seen);
}

static void smqsg_yield(struct smqsg_dev *sg, struct scsi_device *sdev)
{
	WRITE_ONCE(sg->yield_until, jiffies + SMQSG_YIELD);
	WRITE_ONCE(sg->yield_seen, atomic_read(&sdev->iorequest_cnt));
	WRITE_ONCE(sg->yield, true);
}

static unsigned int smqsg_take(struct smqsg_fd *fd, unsigned int want)
{
	struct smqsg_dev *sg = fd->sg;
	unsigned int limit = smqsg_limit(sg, fd->sdev);
	int old = atomic_read(&sg->inflight);
	unsigned int got;

	do {
		if (old >= (int)limit)
			return 0;
		got = min_t(unsigned int, want, limit - old);
	} while (!atomic_try_cmpxchg(&sg->inflight, &old, old + got));
	atomic_add(got, &fd->inflight);
	return got;
}

/**
 * smqsg_claim_turn() - claims a place for who has waited for it
 * @fd: whose
 *
 * Return: 1, or 0 if there is none. Any context.
 */
unsigned int smqsg_claim_turn(struct smqsg_fd *fd)
{
	return smqsg_take(fd, 1);
}

/* The claim where block I/O may need a place, or there is not room for all. */
unsigned int smqsg_claim_slowly(struct smqsg_fd *fd, unsigned int want)
{
	return atomic_read(&fd->sg->waiting) ? 0 : smqsg_take(fd, want);
}

/* A command's end found somebody without a place. Any context. */
void smqsg_contended(struct smqsg_fd *fd)
{
	struct smqsg_dev *sg = fd->sg;
	int restarts = atomic_read(&fd->sdev->restarts);

	/* Of a target that serves one LUN at a time nobody takes it back: one more is news. */
	if (scsi_target(fd->sdev)->single_lun && READ_ONCE(sg->restarts) == restarts)
		return;
	WRITE_ONCE(sg->restarts, restarts);
	smqsg_yield(sg, fd->sdev);
}

/* A command's end found somebody waiting. Any context. */
void smqsg_kick(struct smqsg_dev *sg)
{
	mod_delayed_work(smqsg_wq, &sg->dispatch, 0);
}

/**
 * smqsg_share() - how many places each file has while several want them
 * @sg: the node, with its lock held
 * @sdev: its device
 *
 * Return: the depth divided by the files that wait or have commands in flight.
 */
unsigned int smqsg_share(struct smqsg_dev *sg, struct scsi_device *sdev)
{
	unsigned int depth = READ_ONCE(sdev->queue_depth);
	struct smqsg_fd *fd;
	unsigned int busy = 0;

	lockdep_assert_held(&sg->lock);
	list_for_each_entry(fd, &sg->files, sibling)
		if (fd->queued || atomic_read(&fd->inflight))
			busy++;
	return max(depth / max(busy, 1U), 1U);
}

/* Takes a waiter out of its queue. The lock is held. */
static void smqsg_dequeue(struct smqsg_waiter *waiter)
{
	list_del_init(&waiter->entry);
	waiter->fd->queued--;
	atomic_dec(&waiter->fd->sg->waiting);
}

/**
 * smqsg_wait() - waits for a turn, without sleeping
 * @fd: whose queue
 * @waiter: filled but for @entry
 *
 * Return: 0, and waiter->grant() will be called, once, perhaps before this returns.
 * -EAGAIN: the file's queue is full. -ENODEV: the device is gone. -ECANCELED: smqsg_unwait() or
 * smqsg_give_up() was called since it last waited. Process context.
 */
int smqsg_wait(struct smqsg_fd *fd, struct smqsg_waiter *waiter)
{
	struct smqsg_dev *sg = fd->sg;
	/* Who has been granted some places and waits for more is not refused. */
	bool fresh = !waiter->owner;
	int ret = 0;

	waiter->fd = fd;
	if (fresh)
		waiter->owner = current->files;
	spin_lock(&sg->lock);
	if (!sg->sdev) {
		ret = -ENODEV;
	} else if (waiter->left || (!fresh && waiter->owner == fd->given_up)) {
		ret = -ECANCELED;
	} else if (fresh && fd->queued >= SMQSG_MOST_WAITING) {
		atomic_inc(&sg->refused);
		ret = -EAGAIN;
	} else {
		if (waiter->front && !fresh)
			list_add(&waiter->entry, &fd->queue);
		else
			list_add_tail(&waiter->entry, &fd->queue);
		fd->queued++;
		atomic_inc(&sg->waiting);
		/* Pairs with smqsg_release(): the last place may have come free meanwhile. */
		smp_mb__after_atomic();
		/* Under the lock: once it is dropped the waiter's end may close the file. */
		if (atomic_read(&sg->inflight) < (int)smqsg_limit(sg, fd->sdev))
			mod_delayed_work(smqsg_wq, &sg->dispatch, 0);
		else
			queue_delayed_work(smqsg_wq, &sg->dispatch, SMQSG_LOOK);
		queue_delayed_work(smqsg_wq, &sg->expire, SMQSG_EXPIRE);
	}
	spin_unlock(&sg->lock);
	return ret;
}

/**
 * smqsg_unwait() - stops waiting
 * @waiter: one that was given to smqsg_wait()
 *
 * Return: true if it waited, and grant() will not be called; false if grant() was or is
 * being called, from where it cannot wait again. Process context.
 */
bool smqsg_unwait(struct smqsg_waiter *waiter)
{
	struct smqsg_dev *sg = waiter->fd->sg;
	bool waited;

	spin_lock(&sg->lock);
	waited = !list_empty(&waiter->entry);
	if (waited)
		smqsg_dequeue(waiter);
	waiter->left = true;
	spin_unlock(&sg->lock);
	return waited;
}

struct smqsg_sleeper {
	struct smqsg_waiter waiter;
	struct completion done;
	int got;
};

static void smqsg_wake(struct smqsg_waiter *waiter, int got)
{
	struct smqsg_sleeper *sleeper = container_of(waiter, struct smqsg_sleeper, waiter);

	sleeper->got = got;
	complete(&sleeper->done);
}

/**
 * smqsg_claim_wait() - claims a place for one command, sleeping
 * @fd: whose
 * @timeout: jiffies that it may take
 *
 * Return: 0; -EAGAIN, -ENODEV as smqsg_wait(); -ETIMEDOUT; -EINTR when killed.
 */
int smqsg_claim_wait(struct smqsg_fd *fd, unsigned long timeout)
{
	struct smqsg_sleeper sleeper = {
		.waiter.deadline = jiffies + timeout,
		.waiter.want = 1,
		.waiter.grant = smqsg_wake,
	};
	int ret;

	if (smqsg_claim(fd, 1))
		return 0;
	init_completion(&sleeper.done);
	ret = smqsg_wait(fd, &sleeper.waiter);
	if (ret)
		return ret;
	if (wait_for_completion_killable(&sleeper.done)) {
		if (smqsg_unwait(&sleeper.waiter))
			return -EINTR;
		/* On its way: grant() wakes us without waiting for anything. */
		wait_for_completion(&sleeper.done);
		if (sleeper.got > 0)
			smqsg_release(fd, sleeper.got);
		return -EINTR;
	}
	return sleeper.got < 0 ? sleeper.got : 0;
}

/*
 * The file whose turn it is: the next one that waits and has less than its share,
 * else the next that waits. The lock is held.
 */
static struct smqsg_fd *smqsg_next(struct smqsg_dev *sg, unsigned int share)
{
	struct smqsg_fd *fd, *any = NULL;
	bool wrapped = !sg->next;

	fd = sg->next ?: list_first_entry_or_null(&sg->files, struct smqsg_fd, sibling);
	if (!fd)
		return NULL;
	list_for_each_entry_from(fd, &sg->files, sibling) {
		if (!fd->queued)
			continue;
		if (atomic_read(&fd->inflight) < (int)share)
			return fd;
		any = any ?: fd;
	}
	if (wrapped)
		return any;
	list_for_each_entry(fd, &sg->files, sibling) {
		if (fd == sg->next)
			break;
		if (!fd->queued)
			continue;
		if (atomic_read(&fd->inflight) < (int)share)
			return fd;
		any = any ?: fd;
	}
	return any;
}

/*
 * Takes waiters whose time is over, or any if the device is gone, SMQSG_EXPIRED of them at
 * most. Returns how many. The lock is held.
 */
static unsigned int smqsg_expired(struct smqsg_dev *sg, struct smqsg_waiter **expired)
{
	struct smqsg_waiter *waiter, *next;
	struct smqsg_fd *fd;
	unsigned int nr = 0;

	list_for_each_entry(fd, &sg->files, sibling) {
		list_for_each_entry_safe(waiter, next, &fd->queue, entry) {
			if (sg->sdev && time_before(jiffies, waiter->deadline))
				continue;
			smqsg_dequeue(waiter);
			expired[nr++] = waiter;
			if (nr == SMQSG_EXPIRED)
				return nr;
		}
	}
	return nr;
}

/* Makes a claim for one who waits, if there is a place. */
static bool smqsg_dispatch_one(struct smqsg_dev *sg)
{
	struct smqsg_waiter *waiter;
	struct smqsg_fd *fd = NULL;
	unsigned int share, want;
	int got = 0;

	spin_lock(&sg->lock);
	if (sg->sdev) {
		share = smqsg_share(sg, sg->sdev);
		fd = smqsg_next(sg, share);
	}
	if (fd) {
		waiter = list_first_entry(&fd->queue, struct smqsg_waiter, entry);
		want = max_t(int, share - atomic_read(&fd->inflight), 1);
		got = smqsg_take(fd, min(want, waiter->want));
	}
	if (got) {
		smqsg_dequeue(waiter);
		fd->given_up = NULL;
		sg->next = list_is_last(&fd->sibling, &sg->files) ? NULL :
			   list_next_entry(fd, sibling);
	}
	spin_unlock(&sg->lock);
	if (got)
		waiter->grant(waiter, got);
	return got;
}

static void smqsg_dispatch(struct work_struct *work)
{
	struct smqsg_dev *sg = container_of(work, struct smqsg_dev, dispatch.work);

	while (smqsg_dispatch_one(sg))
		cond_resched();
	if (atomic_read(&sg->waiting))
		queue_delayed_work(smqsg_wq, &sg->dispatch,
				   atomic_read(&sg->inflight) ? SMQSG_LOOK : 1);
}

static void smqsg_expire(struct work_struct *work)
{
	struct smqsg_dev *sg = container_of(work, struct smqsg_dev, expire.work);
	struct smqsg_waiter *expired[SMQSG_EXPIRED];
	unsigned int i, nr;
	int error;

	do {
		spin_lock(&sg->lock);
		error = sg->sdev ? -ETIMEDOUT : -ENODEV;
		nr = smqsg_expired(sg, expired);
		spin_unlock(&sg->lock);
		for (i = 0; i < nr; i++)
			expired[i]->grant(expired[i], error);
		cond_resched();
	} while (nr == SMQSG_EXPIRED);
	if (atomic_read(&sg->waiting))
		queue_delayed_work(smqsg_wq, &sg->expire, SMQSG_EXPIRE);
}

/* Takes the first waiter of an owner. The lock is held. */
static struct smqsg_waiter *smqsg_owned(struct smqsg_fd *fd, fl_owner_t owner)
{
	struct smqsg_waiter *waiter;

	list_for_each_entry(waiter, &fd->queue, entry) {
		if (waiter->owner == owner) {
			smqsg_dequeue(waiter);
			return waiter;
		}
	}
	return NULL;
}

/**
 * smqsg_give_up() - ends the waiting of a process's commands, with -ECANCELED
 * @fd: in whose queue
 * @owner: the process's descriptors, as flush() has them
 *
 * Process context.
 */
void smqsg_give_up(struct smqsg_fd *fd, fl_owner_t owner)
{
	struct smqsg_waiter *waiter;

	for (;;) {
		spin_lock(&fd->sg->lock);
		/* One whose turn it is right now is not in the queue. */
		fd->given_up = owner;
		waiter = smqsg_owned(fd, owner);
		spin_unlock(&fd->sg->lock);
		if (!waiter)
			return;
		waiter->grant(waiter, -ECANCELED);
	}
}

/**
 * smqsg_depth_dead() - the device is gone: ends all waiting soon, with -ENODEV
 * @sg: its node, with @sdev NULL
 *
 * Any context. Does not wait.
 */
void smqsg_depth_dead(struct smqsg_dev *sg)
{
	mod_delayed_work(smqsg_wq, &sg->expire, 0);
}

void smqsg_depth_init(struct smqsg_dev *sg)
{
	INIT_DELAYED_WORK(&sg->dispatch, smqsg_dispatch);
	INIT_DELAYED_WORK(&sg->expire, smqsg_expire);
}

/* The node's end: no file is open. */
void smqsg_depth_exit(struct smqsg_dev *sg)
{
	cancel_delayed_work_sync(&sg->dispatch);
	cancel_delayed_work_sync(&sg->expire);
}
