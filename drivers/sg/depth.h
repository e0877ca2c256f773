/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Queue depth: places in flight, and waiting for them. Claims are in claim.h.
 */
#ifndef SMQSG_DEPTH_H
#define SMQSG_DEPTH_H

#include <linux/atomic.h>
#include <linux/blk_types.h>
#include <linux/fs.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/types.h>
#include <linux/workqueue.h>

struct request;
struct scsi_device;
struct smqsg_dev;
struct smqsg_fd;
struct task_struct;

/* Entries of a file's queue of waiting commands; a batch is one. */
#define SMQSG_MOST_WAITING	1024
/* How late after its deadline the waiting of a command ends. */
#define SMQSG_EXPIRE		max(HZ / 10, 1)
/* smqsg_waiter.slot of what is no run of one slot: beyond all slots. */
#define SMQSG_NO_SLOT		U32_MAX

/**
 * struct smqsg_dev_depth - places of a device
 * @inflight: commands of all files in flight. Atomic: any CPU claims and releases
 * @waiting: entries in all files' queues. Atomic: the end of a command reads it without
 *	smqsg_dev.lock
 * @slowly: @waiting and @yield in one: not 0 where a claim has to look twice
 * @yield: block I/O is left a place, see depth.c. Written without a lock: a stale value costs a
 *	command its turn once
 * @yield_until: jiffies until which it is
 * @yield_seen: what sdev->iorequest_cnt had counted at the last end of a command of ours
 * @restarts: what sdev->restarts was when it was last seen not to be 0; written as @yield
 *
 * Lives in the node. Each claim and release writes it: a cache line of its own.
 */
struct smqsg_dev_depth {
	atomic_t inflight;
	union {
		struct {
			atomic_t waiting;
			u32 yield;
		};
		u64 slowly;
	};
	unsigned long yield_until;
	unsigned int yield_seen;
	int restarts;
};

/**
 * struct smqsg_fd_depth - places of a file
 * @inflight: commands of the file in flight. Atomic: any CPU claims and releases
 * @shares: the file is in smqsg_dev_wait.sharers. Written under smqsg_dev.lock; a claim reads it
 *	without, after it has raised @inflight
 *
 * Lives in the file. A command in flight keeps its file open.
 */
struct smqsg_fd_depth {
	atomic_t inflight;
	bool shares;
};

/**
 * struct smqsg_dev_wait - waiting for a device's places
 * @files: files that wait, the one whose turn is next first: struct smqsg_fd_wait.sibling; under
 *	smqsg_dev.lock
 * @scans: the same files, the one that @expire scans next first: struct smqsg_fd_wait.scan; under
 *	smqsg_dev.lock
 * @nr_files: their number; under smqsg_dev.lock
 * @sharers: files that wait, or had commands in flight when smqsg_share() last looked at them, the
 *	one that it looks at next first: struct smqsg_fd_wait.sharer; under smqsg_dev.lock
 * @nr_sharers: their number; under smqsg_dev.lock
 * @refused: commands answered EAGAIN, ever. Atomic: written without a lock
 * @spare: the request that @dispatch slept for: the next grant() that finds none takes it. NULL for
 *	none. Only @dispatch, and grant() called by it, use this and the next two
 * @lack: the operation for which a grant() last found no request
 * @sleep: a waiter waits again for a request: @dispatch is to sleep for one
 * @dispatch: the dispatcher: makes claims for waiters
 * @expire: ends the waiting of those whose time is over, or whose task or device is gone. By
 *	itself, because @dispatch sleeps for tags
 *
 * Lives in the node, from smqsg_depth_init() to smqsg_depth_exit().
 */
struct smqsg_dev_wait {
	struct list_head files;
	struct list_head scans;
	unsigned int nr_files;
	struct list_head sharers;
	unsigned int nr_sharers;
	atomic_t refused;
	struct request *spare;
	blk_opf_t lack;
	bool sleep;
	struct delayed_work dispatch;
	struct delayed_work expire;
};

/**
 * struct smqsg_fd_wait - a file's queue of waiting commands
 * @queue: struct smqsg_waiter.entry
 * @queued: their number. smqsg_wait_full() reads it without the lock
 * @cancels: how often all of them were cancelled, modulo 2^32
 * @turn: the slot whose run was granted last, unless that run has been cancelled since; or
 *	SMQSG_NO_SLOT
 * @sibling: in smqsg_dev_wait.files while @queued is not 0
 * @scan: in smqsg_dev_wait.scans likewise
 * @sharer: in smqsg_dev_wait.sharers while smqsg_fd_depth.shares
 *
 * Under smqsg_dev.lock. Lives in the file; a waiter keeps its file open.
 */
struct smqsg_fd_wait {
	struct list_head queue;
	unsigned int queued;
	unsigned int cancels;
	u32 turn;
	struct list_head sibling;
	struct list_head scan;
	struct list_head sharer;
};

/**
 * struct smqsg_waiter - a command or batch that waits for claims
 * @entry: in smqsg_fd_wait.queue, under smqsg_dev.lock; empty when it does not wait
 * @fd: its file
 * @deadline: jiffies at which its waiting ends
 * @task: the task that submitted it, whose end ends its waiting; io_uring keeps it until the SQE is
 *	completed. NULL: a task that sleeps until @grant is called, and sees its own signals
 * @waited: it has waited before: it has been let in, and is not refused
 * @left: smqsg_unwait() or smqsg_cancel() was called: it must not wait again; under smqsg_dev.lock
 * @cancels: what smqsg_fd_wait.cancels was when it began to wait; under smqsg_dev.lock
 * @slot: the slot whose run it is, or SMQSG_NO_SLOT
 * @want: how many claims it would like, at least 1
 * @grant: called with @got claims made on its behalf, 1 to @want, or with an errno in @got:
 *	-ENODEV, -ETIMEDOUT, -ECANCELED. It no longer waits when it is called, and may wait again
 *	from within. May sleep; process context: a work item, or a caller of smqsg_cancel()
 *
 * Part of its command or batch, which lives until @grant has been called or smqsg_unwait() has
 * returned true.
 */
struct smqsg_waiter {
	struct list_head entry;
	struct smqsg_fd *fd;
	unsigned long deadline;
	struct task_struct *task;
	bool waited;
	bool left;
	unsigned int cancels;
	u32 slot;
	unsigned int want;
	void (*grant)(struct smqsg_waiter *waiter, int got);
};

unsigned int smqsg_claim_slowly(struct smqsg_fd *fd, unsigned int want);
void smqsg_contended(struct smqsg_fd *fd);
void smqsg_kick(struct smqsg_dev *sg);
bool smqsg_wait_full(const struct smqsg_fd *fd);
int smqsg_wait_refused(struct smqsg_fd *fd);
int smqsg_wait(struct smqsg_fd *fd, struct smqsg_waiter *waiter);
int smqsg_wait_first(struct smqsg_fd *fd, struct smqsg_waiter *waiter);
bool smqsg_unwait(struct smqsg_waiter *waiter);
void smqsg_dequeue(struct smqsg_waiter *waiter);
int smqsg_over(const struct smqsg_dev *sg, const struct smqsg_waiter *waiter);
void smqsg_enter(struct smqsg_fd *fd);
void smqsg_leave(struct smqsg_fd *fd);
unsigned int smqsg_share(struct smqsg_dev *sg, struct scsi_device *sdev);
void smqsg_depth_init(struct smqsg_dev *sg);
void smqsg_depth_exit(struct smqsg_dev *sg);

#endif /* SMQSG_DEPTH_H */
