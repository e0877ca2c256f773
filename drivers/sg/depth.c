// SPDX-License-Identifier: GPL-2.0
/*
 * Queue depth: how many commands may be in flight, which commands wait, and which one is next.
 *
 * Places are counted against the device's queue_depth, which is read anew each time. While no
 * command waits, a command with a token of the device's budget is sent, and one without a token
 * reserves a place if there is one. Otherwise the command goes into its file's queue, and the
 * dispatcher grants places to one file after the other, so that files get equal shares.
 *
 * Block I/O of the same device is queued by the block layer. If block I/O waits for a place, the
 * mid-layer raises sdev->restarts. (It also does so for a command of this module: if others have
 * too many places, if the device is blocked, or if a submitter took a token while a place was
 * granted. The budget holds the depth, but then one command more is on the device's queue.) This
 * module then leaves the device's last place free for a while; with a depth of 1, block I/O
 * and this module take turns.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/jiffies.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "depth.h"
#include "module.h"
#include "sg.h"

/* How long a place is left free for block I/O after block I/O was last seen to wait for one. */
#define SMQSG_YIELD		max(HZ / 100, 2)
/* How often the dispatcher runs while commands wait, because limits change without notice. */
#define SMQSG_LOOK		max(HZ / 100, 1)
/* How many files one call of smqsg_share() looks at: this bounds the time that it takes. */
#define SMQSG_SHARERS		16

/* How many commands of this module the device may have in flight now. */
static unsigned int smqsg_limit(struct smqsg_dev *sg, struct scsi_device *sdev)
{
	unsigned int depth = max_t(unsigned int, READ_ONCE(sdev->queue_depth), 1);

	if (likely(!READ_ONCE(sg->depth.yield)))
		return depth;
	if (time_after_eq(jiffies, READ_ONCE(sg->depth.yield_until))) {
		WRITE_ONCE(sg->depth.yield, false);
		return depth;
	}
	if (depth > 1)
		return depth - 1;
	/* Once the device has been sent another command, block I/O has had its turn. */
	return atomic_read(&sdev->iorequest_cnt) != READ_ONCE(sg->depth.yield_seen);
}

/**
 * smqsg_inflight() - how many commands of a device are in flight, with places that are reserved
 * @sg: the node
 *
 * Return: their number; not exact while commands are sent or end. Any context.
 */
unsigned int smqsg_inflight(const struct smqsg_dev *sg)
{
	unsigned int places = atomic_read(&sg->depth.places);

	/* A place that becomes a token meanwhile counts twice rather than not at all. */
	smp_rmb();
	return places + smqsg_inflight_own(sg);
}

/**
 * smqsg_inflight_of() - how many commands of a file are in flight, with places that are reserved
 * @fd: the file
 *
 * Return: their number; not exact while commands are sent or end, and then perhaps below 0. Any
 * context.
 */
int smqsg_inflight_of(const struct smqsg_fd *fd)
{
	int sum = 0;
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(*per_cpu_ptr(fd->depth.inflight, cpu));
	return sum;
}

/* Reserves up to @want places. Returns how many. */
static unsigned int smqsg_reserve_some(struct smqsg_fd *fd, unsigned int want)
{
	struct smqsg_dev *sg = fd->sg;
	int got, left, old;

	do {
		old = atomic_read(&sg->depth.places);
		/* See smqsg_inflight(). */
		smp_rmb();
		left = smqsg_limit(sg, fd->sdev) - smqsg_inflight_own(sg) - old;
		if (left <= 0)
			return 0;
		got = min_t(int, want, left);
	} while (!atomic_try_cmpxchg(&sg->depth.places, &old, old + got));
	this_cpu_add(*fd->depth.inflight, got);
	return got;
}

/* Sets whether a file is one of those that share the depth; smqsg_dev.lock is held. */
void smqsg_set_shares(struct smqsg_fd *fd, bool shares)
{
	lockdep_assert_held(&fd->sg->lock);
	fd->sg->wait.nr_sharers += shares - fd->wait.shares;
	fd->wait.shares = shares;
}

/**
 * smqsg_reserve() - reserves a place for a command
 * @fd: the file
 *
 * Return: true: the command's end on the device's queue gives the place back by smqsg_release(),
 * and the caller by smqsg_unreserve() if the command is not sent. false: there is no place, or a
 * command waits already: see smqsg_wait(). Process context.
 */
bool smqsg_reserve(struct smqsg_fd *fd)
{
	/* If the device is claimed by smq_conv, smqsg_wait() then refuses the command. */
	return !READ_ONCE(fd->sg->depth.claimed) && !atomic_read(&fd->sg->depth.waiting) &&
	       smqsg_reserve_some(fd, 1);
}

/**
 * smqsg_contended() - leaves a place free for block I/O that waits for one
 * @fd: the file
 *
 * Called when a command ends and sdev->restarts is not 0. Any context.
 */
void smqsg_contended(struct smqsg_fd *fd)
{
	struct smqsg_dev *sg = fd->sg;
	int restarts = atomic_read(&fd->sdev->restarts);

	/*
	 * For a target that serves one LUN at a time the mid-layer does not lower sdev->restarts
	 * again. So there only a change shows that block I/O waits.
	 */
	if (scsi_target(fd->sdev)->single_lun && READ_ONCE(sg->depth.restarts) == restarts)
		return;
	WRITE_ONCE(sg->depth.restarts, restarts);
	WRITE_ONCE(sg->depth.yield_until, jiffies + SMQSG_YIELD);
	WRITE_ONCE(sg->depth.yield_seen, atomic_read(&fd->sdev->iorequest_cnt));
	WRITE_ONCE(sg->depth.yield, true);
}

/**
 * smqsg_kick() - starts the dispatcher at once
 * @sg: the node
 *
 * Called when places become free while commands wait. Any context.
 */
void smqsg_kick(struct smqsg_dev *sg)
{
	mod_delayed_work(smqsg_send_wq, &sg->wait.dispatch, 0);
}

/**
 * smqsg_share() - how many places each file gets while several files want them
 * @sg: the node, with smqsg_dev.lock held
 * @sdev: its device
 *
 * Each call looks at some of the open files only, and later calls at the others: so each dispatched
 * command costs the same, however many files are open.
 *
 * Return: the depth divided by the number of sharers, at least 1. Sharers are the files with
 * commands waiting or in flight. If more than SMQSG_SHARERS files are open, a file whose commands
 * are in flight counts, or no longer counts, once a call has looked at it.
 */
unsigned int smqsg_share(struct smqsg_dev *sg, struct scsi_device *sdev)
{
	struct smqsg_fd *fd, *first = NULL;
	unsigned int i;

	lockdep_assert_held(&sg->lock);
	for (i = 0; i < SMQSG_SHARERS; i++) {
		fd = list_first_entry_or_null(&sg->files, struct smqsg_fd, sibling);
		if (!fd || fd == first)
			break;
		first = first ?: fd;
		smqsg_set_shares(fd, fd->wait.queued || smqsg_inflight_of(fd));
		list_move_tail(&fd->sibling, &sg->files);
	}
	return max(READ_ONCE(sdev->queue_depth) / max(sg->wait.nr_sharers, 1U), 1U);
}

/* Queues a waiter. @first: before its file's other waiters, and its file before the other files. */
static void smqsg_enqueue(struct smqsg_fd *fd, struct smqsg_waiter *waiter, bool first)
{
	struct smqsg_dev *sg = fd->sg;

	lockdep_assert_held(&sg->lock);
	list_add(&waiter->entry, first ? &fd->wait.queue : fd->wait.queue.prev);
	if (!waiter->waited)
		waiter->cancels = fd->wait.cancels;
	waiter->waited = true;
	WRITE_ONCE(fd->wait.queued, fd->wait.queued + 1);
	if (fd->wait.queued == 1) {
		list_add_tail(&fd->wait.sibling, &sg->wait.files);
		list_add_tail(&fd->wait.scan, &sg->wait.scans);
		sg->wait.nr_files++;
	}
	if (first)
		list_move(&fd->wait.sibling, &sg->wait.files);
	smqsg_set_shares(fd, true);
	atomic_inc(&sg->depth.waiting);
}

/**
 * smqsg_dequeue() - takes a waiter out of its file's queue
 * @waiter: the waiter, with smqsg_dev.lock held
 */
void smqsg_dequeue(struct smqsg_waiter *waiter)
{
	struct smqsg_fd *fd = waiter->fd;

	lockdep_assert_held(&fd->sg->lock);
	list_del_init(&waiter->entry);
	WRITE_ONCE(fd->wait.queued, fd->wait.queued - 1);
	if (!fd->wait.queued) {
		list_del(&fd->wait.sibling);
		list_del(&fd->wait.scan);
		fd->sg->wait.nr_files--;
	}
	atomic_dec(&fd->sg->depth.waiting);
}

/* Whether a task exits, is killed, or becomes another program. */
static bool smqsg_task_ends(struct task_struct *task)
{
	struct signal_struct *signal = task->signal;

	return (READ_ONCE(task->flags) & PF_EXITING) || task->in_execve ||
	       (READ_ONCE(signal->flags) & SIGNAL_GROUP_EXIT) ||
	       READ_ONCE(signal->group_exec_task);
}

/**
 * smqsg_wait_error() - whether and why a waiter has to stop waiting
 * @sg: the node, with its lock held
 * @waiter: the waiter
 *
 * Return: an errno as for smqsg_waiter.grant, or 0 if it may go on waiting.
 */
int smqsg_wait_error(const struct smqsg_dev *sg, const struct smqsg_waiter *waiter)
{
	lockdep_assert_held(&sg->lock);
	if (!sg->sdev || READ_ONCE(sg->depth.claimed))
		return -ENODEV;
	if (waiter->stopped || (waiter->waited && waiter->cancels != waiter->fd->wait.cancels))
		return -ECANCELED;
	if (waiter->task && smqsg_task_ends(waiter->task))
		return -ECANCELED;
	return time_before(jiffies, waiter->deadline) ? 0 : -ETIMEDOUT;
}

/**
 * smqsg_wait_refused() - counts a command that gets EAGAIN because it may not wait
 * @fd: the file
 *
 * Return: -EAGAIN, for the command. Any context.
 */
int smqsg_wait_refused(struct smqsg_fd *fd)
{
	atomic_inc(&fd->sg->wait.refused);
	return -EAGAIN;
}

/**
 * smqsg_wait() - queues a waiter for places, without sleeping
 * @waiter: all fields but @entry are set
 * @first: before all others, because no request was free: called by its grant(), which has given
 *	back its places. The dispatcher then sleeps until a request is free. Meanwhile the waiter's
 *	deadline or a cancellation still ends its waiting
 *
 * Return: 0: waiter->grant() will be called once, perhaps before this function returns. On an error
 * grant() will not be called. -EAGAIN: the file's queue is full. -ENODEV: the device is gone, or
 * smq_conv has claimed it. -ECANCELED: smqsg_unwait() or smqsg_cancel() was called since the waiter
 * last waited, or its task ends. -ETIMEDOUT: its deadline has passed. Process context.
 */
int smqsg_wait(struct smqsg_waiter *waiter, bool first)
{
	struct smqsg_fd *fd = waiter->fd;
	struct smqsg_dev *sg = fd->sg;
	int ret;

	spin_lock(&sg->lock);
	ret = smqsg_wait_error(sg, waiter);
	if (!ret && first && waiter->slot != fd->wait.turn)
		ret = -ECANCELED;
	/* A waiter that was granted some places and waits for more is not refused. */
	if (!ret && !waiter->waited && fd->wait.queued >= SMQSG_MOST_WAITING)
		ret = smqsg_wait_refused(fd);
	if (!ret) {
		smqsg_enqueue(fd, waiter, first);
		/* Pairs with smqsg_kick_waiting(): the last place may be free meanwhile. */
		smp_mb__after_atomic();
		/*
		 * Done under the lock: once the lock is dropped, the waiter may end and its file be
		 * closed. With @first the caller is the dispatcher: it need not be started.
		 */
		if (first)
			sg->wait.sleep = true;
		if (!first && (int)smqsg_inflight(sg) < (int)smqsg_limit(sg, fd->sdev))
			mod_delayed_work(smqsg_send_wq, &sg->wait.dispatch, 0);
		else
			queue_delayed_work(smqsg_send_wq, &sg->wait.dispatch, SMQSG_LOOK);
		queue_delayed_work(smqsg_wq, &sg->wait.expire, SMQSG_EXPIRE);
	}
	spin_unlock(&sg->lock);
	return ret;
}

/**
 * smqsg_unwait() - takes a waiter out of its queue, if it still waits
 * @waiter: a waiter that was given to smqsg_wait()
 *
 * The waiter cannot wait again.
 *
 * Return: true if it waited: grant() will not be called. False if grant() was called or is being
 * called. Process context.
 */
bool smqsg_unwait(struct smqsg_waiter *waiter)
{
	struct smqsg_dev *sg = waiter->fd->sg;
	bool waited;

	spin_lock(&sg->lock);
	waited = !list_empty(&waiter->entry);
	if (waited)
		smqsg_dequeue(waiter);
	waiter->stopped = true;
	spin_unlock(&sg->lock);
	return waited;
}

/*
 * Returns the file that gets the next place: the first waiting file with less than its share, else
 * the first waiting file.
 */
static struct smqsg_fd *smqsg_next(struct smqsg_dev *sg, unsigned int share)
{
	struct smqsg_fd *fd;

	lockdep_assert_held(&sg->lock);
	list_for_each_entry(fd, &sg->wait.files, wait.sibling)
		if (smqsg_inflight_of(fd) < (int)share)
			return fd;
	return list_first_entry_or_null(&sg->wait.files, struct smqsg_fd, wait.sibling);
}

/*
 * Reserves places for the waiter that is next, or ends its waiting. Returns false if there is no
 * place, or no waiter.
 */
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
		waiter = list_first_entry(&fd->wait.queue, struct smqsg_waiter, entry);
		got = smqsg_wait_error(sg, waiter);
		if (!got) {
			want = max_t(int, share - smqsg_inflight_of(fd), 1);
			got = smqsg_reserve_some(fd, min(want, waiter->want));
		}
	}
	if (got) {
		list_move_tail(&fd->wait.sibling, &sg->wait.files);
		smqsg_dequeue(waiter);
		fd->wait.turn = waiter->slot;
	}
	spin_unlock(&sg->lock);
	if (got)
		waiter->grant(waiter, got);
	return got;
}

/*
 * Sleeps until there is a request for the command whose turn it is. The command waits in its queue
 * meanwhile, so its deadline, its task's end, a cancellation or the device's removal still ends its
 * waiting. Idle requests of this node are given back first, because the commands that keep them may
 * wait behind this one. On other nodes smqsg_pool_scan() gives idle requests back once it sees that
 * a task sleeps for a tag. Returns false if there is no request: the device is being removed.
 */
static bool smqsg_sleep_for_request(struct smqsg_dev *sg, struct scsi_device *sdev)
{
	struct request *rq;

	smqsg_pool_give_back_all(sg);
	rq = scsi_alloc_request(sdev->request_queue, sg->wait.wanted_opf, 0);
	sg->wait.spare = IS_ERR(rq) ? NULL : rq;
	return sg->wait.spare;
}

/*
 * Returns the node's device, referenced; NULL if it is being removed. The file that waits has a
 * reference, too, but may be closed while the dispatcher sleeps.
 */
static struct scsi_device *smqsg_dispatch_device(struct smqsg_dev *sg)
{
	struct scsi_device *sdev;

	spin_lock(&sg->lock);
	sdev = sg->sdev;
	if (sdev && scsi_device_get(sdev))
		sdev = NULL;
	spin_unlock(&sg->lock);
	return sdev;
}

/* Grants places until there is no place or no waiter. Returns false if the device is removed. */
static bool smqsg_dispatch_all(struct smqsg_dev *sg, struct scsi_device **sdev)
{
	while (smqsg_dispatch_one(sg)) {
		cond_resched();
		if (!sg->wait.sleep)
			continue;
		sg->wait.sleep = false;
		*sdev = *sdev ?: smqsg_dispatch_device(sg);
		if (!*sdev || !smqsg_sleep_for_request(sg, *sdev))
			return false;
	}
	return true;
}

static void smqsg_dispatch(struct work_struct *work)
{
	struct smqsg_dev *sg = container_of(work, struct smqsg_dev, wait.dispatch.work);
	struct scsi_device *sdev = NULL;
	bool all = smqsg_dispatch_all(sg, &sdev);

	if (sg->wait.spare)
		blk_mq_free_request(sg->wait.spare);
	sg->wait.spare = NULL;
	/* Run again later, not at once: no request will be free, because the device is removed. */
	if (!all)
		mod_delayed_work(smqsg_send_wq, &sg->wait.dispatch, SMQSG_LOOK);
	else if (atomic_read(&sg->depth.waiting))
		queue_delayed_work(smqsg_send_wq, &sg->wait.dispatch,
				   smqsg_inflight(sg) ? SMQSG_LOOK : 1);
	/* Last: this may drop the last reference to the device. */
	if (sdev)
		scsi_device_put(sdev);
}

/**
 * smqsg_depth_open() - sets up the depth of a file, and its queue of waiting commands
 * @fd: the file
 *
 * Return: 0 or -ENOMEM. May sleep.
 */
int smqsg_depth_open(struct smqsg_fd *fd)
{
	INIT_LIST_HEAD(&fd->wait.queue);
	fd->wait.turn = SMQSG_NO_SLOT;
	fd->depth.own = fd->sg->depth.own;
	fd->depth.inflight = alloc_percpu_gfp(int, GFP_KERNEL_ACCOUNT);
	return fd->depth.inflight ? 0 : -ENOMEM;
}

/**
 * smqsg_depth_close() - frees what smqsg_depth_open() allocated
 * @fd: the file
 */
void smqsg_depth_close(struct smqsg_fd *fd)
{
	free_percpu(fd->depth.inflight);
}

/**
 * smqsg_depth_init() - sets up the depth of a node and its queues, without their expiry
 * @sg: the node
 *
 * Return: 0 or -ENOMEM. May sleep.
 */
int smqsg_depth_init(struct smqsg_dev *sg)
{
	INIT_LIST_HEAD(&sg->wait.files);
	INIT_LIST_HEAD(&sg->wait.scans);
	INIT_DELAYED_WORK(&sg->wait.dispatch, smqsg_dispatch);
	sg->depth.own = alloc_percpu(struct smqsg_own_count);
	return sg->depth.own ? 0 : -ENOMEM;
}

/**
 * smqsg_depth_exit() - stops the node's dispatcher and frees its counters, when the node is freed
 * @sg: the node; no file is open
 *
 * May sleep as long as the dispatcher sleeps for a tag. The removal of the request queue waits for
 * that as well.
 */
void smqsg_depth_exit(struct smqsg_dev *sg)
{
	cancel_delayed_work_sync(&sg->wait.dispatch);
	free_percpu(sg->depth.own);
}
