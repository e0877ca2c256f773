/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A node's own request queue, on the tags of its host, beside the device's queue.
 *
 * It belongs to this module: it has no elevator, no statistics and no disk, and its commands that
 * end with GOOD skip what the mid-layer does only for block I/O. Commands do not wait on it: if one
 * cannot be sent at once (straight.h), it goes to the device's queue. Only the mid-layer itself
 * puts commands back into it, for a retry.
 */
#ifndef SMQSG_OWN_H
#define SMQSG_OWN_H

#include <linux/blk-mq.h>
#include <linux/mutex.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <smq/compat.h>

struct smqsg_dev;
struct smqsg_fd;

/**
 * enum smqsg_own_mode - when a node gets a queue of its own
 * @SMQSG_OWN_AUTO: for SMQ_SG_SETUP and SMQ_SG_PREPARE; if the host's tags are shared already,
 *	because it has several LUNs, also for the first command of io_uring. Otherwise the queue
 *	makes the tags shared, which costs block I/O something
 * @SMQSG_OWN_ON: for the first command of any kind
 * @SMQSG_OWN_OFF: never
 */
enum smqsg_own_mode {
	SMQSG_OWN_AUTO,
	SMQSG_OWN_ON,
	SMQSG_OWN_OFF,
};

/* Why a file asks for the queue. */
enum smqsg_own_reason {
	SMQSG_OWN_SETUP,	/* SMQ_SG_SETUP or SMQ_SG_PREPARE, which wait a moment for it */
	SMQSG_OWN_SQE,		/* a command of io_uring */
	SMQSG_OWN_HEADER,	/* SG_IO or write(), which a program may use once in a while */
};

/**
 * struct smqsg_dev_own - a node's own queue
 * @lock: serializes the queue's creation and its end
 * @q: the queue, or NULL. Written with @lock and smqsg_dev.lock held. Set to NULL only while no
 *	file is open; so smqsg_fd.own, a copy, stays valid as long as its file. When the device is
 *	removed the queue is destroyed, but its memory stays until the node is freed
 * @ops: operations of @q
 * @lower: the mid-layer's operations, from which @ops was made
 * @mode: enum smqsg_own_mode. Written without a lock: a stale value creates a queue too many, or
 *	none until the next file asks
 * @gone: the device is being removed: no queue may be created; under @lock
 * @ends: the queue is being destroyed, @q is NULL already: no file may be opened; under
 *	smqsg_dev.lock
 * @create: creates the queue; only this work item does
 * @again: after how many jiffies @create runs again, because it could not create the queue; 0: it
 *	does not. Only @create writes it
 * @runs: how often @create has run. Only @create writes it
 * @made: woken when @create has run
 * @end: destroys the queue some seconds after the last file was closed
 *
 * Lives in the node, from smqsg_own_init() to smqsg_own_exit().
 */
struct smqsg_dev_own {
	struct mutex lock; /* see above */
	struct request_queue *q;
	struct blk_mq_ops ops;
	const struct blk_mq_ops *lower;
	u8 mode;
	bool gone;
	bool ends;
	struct delayed_work create;
	unsigned long again;
	unsigned int runs;
	wait_queue_head_t made;
	struct delayed_work end;
};

void smqsg_own_ask(struct smqsg_fd *fd, enum smqsg_own_reason reason);
void smqsg_own_closed(struct smqsg_dev *sg);
void smqsg_own_remove(struct smqsg_dev *sg);
void smqsg_own_init(struct smqsg_dev *sg);
void smqsg_own_exit(struct smqsg_dev *sg);

/*
 * Whether a command's data can be mapped by the own queue's limits: its segments were counted by
 * those of the device's queue, of which the own queue has a copy. They change in rare cases only.
 */
static inline bool smqsg_own_limits_match(const struct request_queue *own,
					  const struct request_queue *q)
{
	return queue_max_segment_size(own) == queue_max_segment_size(q) &&
	       queue_segment_boundary(own) == queue_segment_boundary(q) &&
	       queue_virt_boundary(own) == queue_virt_boundary(q) &&
	       smq_queue_pad_mask(own) == smq_queue_pad_mask(q);
}

#endif /* SMQSG_OWN_H */
