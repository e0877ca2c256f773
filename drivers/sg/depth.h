/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Queue depth: commands in flight, and waiting for places. place.h has what each command does.
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

/* How many entries a file's queue of waiting commands has at most; a batch is one entry. */
#define SMQSG_MOST_WAITING	1024
/* A command stops waiting at most this long after its deadline. */
#define SMQSG_EXPIRE		max(HZ / 10, 1)
/* smqsg_waiter.slot of a waiter that is not the run of a single slot; no slot has this number. */
#define SMQSG_NO_SLOT		U32_MAX

/**
 * struct smqsg_own_count - commands of a node that were sent on its own queue, and ended, on a CPU
 * @sent: how many were sent on this CPU, modulo 2^32
 * @ended: how many ended on this CPU, or were not sent after all
 * @sent_slowly: how many of @sent do not count for sdev->iorequest_cnt: the mid-layer has counted
 *	them, or they were not sent after all
 * @ended_slowly: likewise, of @ended, for sdev->iodone_cnt
 *
 * A command may end on another CPU, so only the sums over all CPUs mean something.
 */
struct smqsg_own_count {
	unsigned int sent;
	unsigned int ended;
	unsigned int sent_slowly;
	unsigned int ended_slowly;
};

/**
 * struct smqsg_dev_depth - commands of a device in flight
 * @places: commands of all files on the device's queue, and places that were reserved for commands
 *	to be sent. Atomic: any CPU reserves and releases
 * @waiting: number of entries in all files' queues. Atomic: the end of a command reads it without
 *	smqsg_dev.lock
 * @slow_path: @waiting, @yield and @claimed as one word. While it is not 0, each command reserves a
 *	place
 * @yield: not 0 while a place is left free for block I/O, see depth.c. Written without a lock: a
 *	stale value costs a command its turn once
 * @claimed: not 0 while smq_conv has claimed the device: commands of the node are refused; see
 *	device.c
 * @yield_until: the jiffies at which @yield expires
 * @yield_seen: the value of sdev->iorequest_cnt when @yield was last set
 * @restarts: the last value of sdev->restarts that was not 0. Written without a lock, as @yield
 * @own: commands on the node's own queue
 * @requests: how many of them have been added to sdev->iorequest_cnt; under smqsg_dev.lock
 * @done: likewise, to sdev->iodone_cnt
 *
 * Lives in the node, in a cache line of its own, which each command reads.
 */
struct smqsg_dev_depth {
	atomic_t places;
	union {
		struct {
			atomic_t waiting;
			u16 yield;
			u16 claimed;
		};
		u64 slow_path;
	};
	unsigned long yield_until;
	unsigned int yield_seen;
	int restarts;
	struct smqsg_own_count __percpu *own;
	unsigned int requests;
	unsigned int done;
};

/**
 * struct smqsg_fd_depth - commands of a file in flight
 * @own: as smqsg_dev_depth.own of its node
 * @inflight: for each CPU: commands that were sent there, less those that ended there, with places
 *	that were reserved
 *
 * Lives in the file. A command in flight keeps its file open.
 */
struct smqsg_fd_depth {
	struct smqsg_own_count __percpu *own;
	int __percpu *inflight;
};

/**
 * struct smqsg_dev_wait - waiting for a device's places
 * @files: files with waiting commands, by struct smqsg_fd_wait.sibling. The file whose turn is next
 *	comes first. Under smqsg_dev.lock
 * @scans: the same files, by struct smqsg_fd_wait.scan. The file that @expire scans next comes
 *	first. Under smqsg_dev.lock
 * @nr_files: the number of files in @files; under smqsg_dev.lock
 * @nr_sharers: the number of files with smqsg_fd_wait.shares; under smqsg_dev.lock
 * @refused: how many commands have been refused with EAGAIN. Atomic: written without a lock
 * @spare: the request that @dispatch has slept for, or NULL. The next grant() that cannot allocate
 *	a request takes it. Only @dispatch, and each grant() that it calls, use @spare,
 *	@wanted_opf and @sleep
 * @wanted_opf: the operation of the request that a grant() last failed to allocate
 * @sleep: a waiter waits again because there was no request: @dispatch is to sleep for one
 * @dispatch: the dispatcher: reserves places for waiters
 * @expire: ends the waiting of commands whose deadline has passed, or whose task or device is gone.
 *	A work item of its own, because @dispatch sleeps for tags
 *
 * Lives in the node, from smqsg_depth_init() to smqsg_depth_exit().
 */
struct smqsg_dev_wait {
	struct list_head files;
	struct list_head scans;
	unsigned int nr_files;
	unsigned int nr_sharers;
	atomic_t refused;
	struct request *spare;
	blk_opf_t wanted_opf;
	bool sleep;
	struct delayed_work dispatch;
	struct delayed_work expire;
};

/**
 * struct smqsg_fd_wait - a file's queue of waiting commands
 * @queue: the waiting commands, by struct smqsg_waiter.entry
 * @queued: number of entries in @queue
 * @cancels: how often all commands of the queue were cancelled, modulo 2^32
 * @turn: the slot whose run was granted last, unless that run has been cancelled since; or
 *	SMQSG_NO_SLOT
 * @sibling: in smqsg_dev_wait.files while @queued is not 0
 * @scan: in smqsg_dev_wait.scans likewise
 * @shares: the file has commands waiting, or had commands in flight when smqsg_share() last looked
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
	bool shares;
};

/**
 * struct smqsg_waiter - a command or batch that waits for places
 * @entry: in smqsg_fd_wait.queue, under smqsg_dev.lock; empty when it does not wait
 * @fd: its file
 * @deadline: jiffies at which its waiting ends
 * @task: the task that submitted it. The command stops waiting when the task ends. io_uring keeps
 *	the task until the SQE is completed. NULL if the submitter sleeps until @grant is called:
 *	such a task notices its signals itself
 * @waited: it has waited before. Such a waiter is not refused if the queue is full
 * @stopped: smqsg_unwait() or smqsg_cancel() was called: it must not wait again; under
 *	smqsg_dev.lock
 * @cancels: value of smqsg_fd_wait.cancels when it began to wait; under smqsg_dev.lock
 * @slot: the slot whose run it is, or SMQSG_NO_SLOT
 * @want: how many places it needs, at least 1; fewer may be granted
 * @grant: called with @got places reserved on its behalf, 1 to @want, or with an errno in @got:
 *	-ENODEV, -ETIMEDOUT, -ECANCELED. The waiter no longer waits when @grant is called; @grant
 *	may make it wait again. May sleep; process context: a work item, or a caller of
 *	smqsg_cancel()
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
	bool stopped;
	unsigned int cancels;
	u32 slot;
	unsigned int want;
	void (*grant)(struct smqsg_waiter *waiter, int got);
};

unsigned int smqsg_inflight(const struct smqsg_dev *sg);
int smqsg_inflight_of(const struct smqsg_fd *fd);
bool smqsg_reserve(struct smqsg_fd *fd);
void smqsg_contended(struct smqsg_fd *fd);
void smqsg_kick(struct smqsg_dev *sg);
int smqsg_wait_refused(struct smqsg_fd *fd);
int smqsg_wait(struct smqsg_waiter *waiter, bool first);
bool smqsg_unwait(struct smqsg_waiter *waiter);
void smqsg_dequeue(struct smqsg_waiter *waiter);
int smqsg_wait_error(const struct smqsg_dev *sg, const struct smqsg_waiter *waiter);
void smqsg_set_shares(struct smqsg_fd *fd, bool shares);
unsigned int smqsg_share(struct smqsg_dev *sg, struct scsi_device *sdev);
int smqsg_depth_open(struct smqsg_fd *fd);
void smqsg_depth_close(struct smqsg_fd *fd);
int smqsg_depth_init(struct smqsg_dev *sg);
void smqsg_depth_exit(struct smqsg_dev *sg);

/* count.c */

unsigned int smqsg_inflight_own(const struct smqsg_dev *sg);
bool smqsg_count_for_device(struct smqsg_dev *sg);

/* expire.c */

long smqsg_ioctl_cancel(struct smqsg_fd *fd, void __user *user);
void smqsg_expire_init(struct smqsg_dev *sg);
void smqsg_expire_soon(struct smqsg_dev *sg);

#endif /* SMQSG_DEPTH_H */
