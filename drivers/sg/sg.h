/* SPDX-License-Identifier: GPL-2.0 */
/*
 * smq_sg: nodes and their open files, whose structs embed the data of each subject.
 *
 * Each scsi_device has a node (struct smqsg_dev), each open file a struct smqsg_fd. A command is
 * in flight from when it gets a token of the device's budget, or a place (place.h), until it ends.
 * One without either waits in its file's queue, until the dispatcher reserves a place for it and
 * calls smqsg_waiter.grant, or until its waiting ends: its deadline has passed, it is cancelled,
 * its task ends, or its device is removed or claimed.
 */
#ifndef SMQSG_H
#define SMQSG_H

#include <linux/atomic.h>
#include <linux/bio.h>
#include <linux/cdev.h>
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/poll.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <scsi/scsi_cmnd.h>
#include <scsi/scsi_device.h>
#include <smq/compat.h>
#include <uapi/scsi/smq_sg.h>

#include "buffer.h"
#include "compat_cmd.h"
#include "depth.h"
#include "order.h"
#include "own.h"
#include "owner.h"
#include "poll.h"
#include "pool.h"
#include "slot.h"

/* The timeout of a command whose user gives none, as with sg. */
#define SMQSG_TIMEOUT		(60 * HZ)

struct smqsg_fd;

/**
 * struct smqsg_dev - the node of a SCSI device
 * @dev: its device in class smq_sg. Each open file has a reference to it, which keeps the node's
 *	memory
 * @cdev: its character device
 * @sdev: the SCSI device; NULL once its removal has begun, under @lock. Each open file has a
 *	reference to it. The node has none, because that would keep the LLD's module loaded
 * @index: N of smqsgN
 * @node: in the list of nodes
 * @exclusive: a file is open with O_EXCL; under @lock
 * @stats_off: the queue's statistics were turned off by the node's attribute; under @lock
 * @closed: opens that wait for files to be closed; woken when a file is closed or @sdev is removed
 * @depth: commands in flight
 * @lock: protects @files, @sdev, and the fields of embedded structs that are described as under it,
 *	such as the queues of all files. Taken in process context only: open, close, waiters, work
 *	items; never by a command's end
 * @files: open files, struct smqsg_fd.sibling
 * @wait: commands of all files that wait for places
 * @watch: polls while commands of watched files are in flight: the task that should poll may be
 *	stopped or frozen while others need the places. A work item of its own, because the
 *	dispatcher sleeps for tags
 * @pool: idle requests of all files
 * @own: its own request queue
 *
 * Lives from smqsg_add(), when a scsi_device is added, until the last reference to @dev is dropped:
 * by smqsg_remove(), or by the release of the last file.
 */
struct smqsg_dev {
	struct device dev;
	struct cdev cdev;
	struct scsi_device *sdev;
	unsigned int index;
	struct list_head node;
	bool exclusive;
	bool stats_off;
	wait_queue_head_t closed;

	struct smqsg_dev_depth depth ____cacheline_aligned_in_smp;

	spinlock_t lock ____cacheline_aligned_in_smp;
	struct list_head files;
	struct smqsg_dev_wait wait;
	struct delayed_work watch;
	struct smqsg_dev_pool pool;
	struct smqsg_dev_own own;
};

struct smqsg_pools;

/**
 * struct smqsg_fd - an open file
 * @sg: the node, referenced
 * @sdev: the SCSI device, referenced
 * @q: the device's request queue
 * @own: the node's own request queue, or NULL as long as it has none. Set once
 * @plain: smq_straight_is_plain(): commands may go straight to the LLD
 * @file: its struct file, not referenced
 * @slots: its prepared commands
 * @owner: owner of the slots
 * @pools: unused commands and batches of each CPU
 * @depth: commands in flight
 * @buffers: struct smqsg_buffer by index, referenced. Changed under @setup; runs look buffers up
 *	under the lock of the xarray
 * @setup: serializes SMQ_SG_SETUP, SMQ_SG_BUFFER and SMQ_SG_PREPARE
 * @pool: its idle requests
 * @polled: its polled commands, in a cache line that the end of each of them writes
 * @wait: its waiting commands
 * @v3: its commands of interface 3
 * @order: order of its timed batches
 * @sibling: in smqsg_dev.files
 *
 * Lives from open() to release(). Descriptors and commands of io_uring hold references to the file,
 * and so does a command that outlives its caller. So when release() is called, no command of the
 * file is in flight or waits.
 */
struct smqsg_fd {
	struct smqsg_dev *sg;
	struct scsi_device *sdev;
	struct request_queue *q;
	struct request_queue *own;
	bool plain;
	struct file *file;
	struct smqsg_fd_slots slots;
	struct smqsg_fd_owner owner;
	struct smqsg_pools __percpu *pools;
	struct smqsg_fd_depth depth;
	struct xarray buffers;
	struct mutex setup; /* see above */

	struct smqsg_fd_pool pool;

	struct smqsg_fd_polled polled ____cacheline_aligned_in_smp;

	struct smqsg_fd_wait wait ____cacheline_aligned_in_smp;
	struct smqsg_v3 v3;
	struct smqsg_fd_order order;
	struct list_head sibling;
};

#if defined(CONFIG_SMP) && L1_CACHE_BYTES >= 64
/* A run reads two cache lines, and one more for idle requests. */
static_assert(offsetofend(struct smqsg_fd, depth) <= 2 * L1_CACHE_BYTES);
/* What each command of the node reads is in one cache line, with nothing else. */
static_assert(sizeof(struct smqsg_dev_depth) <= L1_CACHE_BYTES);
#endif

/*
 * Returns a timeout in jiffies that a program gives in ms. All ones means "no timeout". At most
 * INT_MAX, because a request's timeout is an int.
 */
static inline unsigned int smqsg_timeout(u32 ms)
{
	return ms ? min_t(unsigned long, msecs_to_jiffies(ms), INT_MAX) : SMQSG_TIMEOUT;
}

extern const struct file_operations smqsg_fops;

/* run.c */

int smqsg_uring_cmd(struct io_uring_cmd *ioucmd, unsigned int issue_flags);
int smqsg_uring_iopoll(struct io_uring_cmd *ioucmd, struct io_comp_batch *iob,
		       unsigned int poll_flags);

#endif /* SMQSG_H */
