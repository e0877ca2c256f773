/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Idle requests: a struct smqsg_io in a pool keeps the request of its last command for the next.
 *
 * An idle request keeps its tag and its reference to the node's own queue (own.h). While it is
 * idle, others cannot use its tag, and that queue cannot be frozen. So the end of each command, and
 * a work item every 20 ms, check whether others need the request.
 */
#ifndef SMQSG_POOL_H
#define SMQSG_POOL_H

#include <linux/blk-mq.h>
#include <linux/list.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <scsi/scsi_cmnd.h>
#include <smq/kept.h>
#include <smq/straight.h>

struct scsi_device;
struct smqsg_dev;
struct smqsg_fd;
struct smqsg_tags;

/**
 * struct smqsg_idle - a command's place for an idle request
 * @rq: the request, NULL while the command runs. Taken out by exchange (full barrier), put in by
 *	the command's end (release): one context at a time has it
 * @cpu: the CPU on which the request was allocated. Only this CPU uses it again: on another one it
 *	would still go to this CPU's hctx
 * @keeps: the command's present request may be kept, and counts in smqsg_fd_pool.used and in
 *	smqsg_tags.used. Belongs to the context that runs the command, which sets it to true with
 *	smqsg_fd_pool.lock held. A request in @rq always counts: the scan, which takes it out to
 *	free it, does not need @keeps, which the next run may be writing already
 * @hctx: the request's hctx. The scan reads it, with a reference to the queue, while @rq may be
 *	freed and used by another queue
 * @tag_sleepers: counter of the tasks that sleep for a tag of @hctx
 * @entry: in smqsg_fd_pool.idle while the command keeps a request
 *
 * Lives in struct smqsg_io.
 */
struct smqsg_idle {
	struct request *rq;
	u32 cpu;
	bool keeps;
	struct blk_mq_hw_ctx *hctx;
	atomic_t *tag_sleepers;
	struct list_head entry;
};

/**
 * struct smqsg_dev_pool - idle requests of a node
 * @share: percent of the depth that the requests of all files may take
 * @tags: counts the kept requests of all nodes of the host
 * @scan: gives back idle requests that others need, or that were not used for a while, and adds
 *	commands to the device's counters; scheduled while a file keeps requests or has sent a
 *	command. Runs in smqsg_wq, not with the dispatcher of depth.h, which sleeps for tags that
 *	the scan gives back
 *
 * Lives in the node, from smqsg_pool_init() to smqsg_pool_exit().
 */
struct smqsg_dev_pool {
	unsigned int share;
	struct smqsg_tags *tags;
	struct delayed_work scan;
};

/**
 * struct smqsg_fd_pool - idle requests of a file
 * @used: how many requests the file keeps, idle or in flight. Atomic: commands begin and end on any
 *	CPU
 * @limit: the most that it may keep; written under smqsg_dev.lock
 * @lock: protects @idle and @listed. Taken in process context only, by commands that begin to keep
 *	a request, and by the scan
 * @idle: commands that keep a request, or have kept one until recently, by struct smqsg_idle.entry
 * @listed: elements of @idle, about twice @used at most
 * @scan: when the scan next looks at all of them; under smqsg_dev.lock
 *
 * Lives in the file.
 */
struct smqsg_fd_pool {
	atomic_t used;
	unsigned int limit;
	spinlock_t lock; /* see above */
	struct list_head idle;
	unsigned int listed;
	struct smq_kept_scan scan;
};

struct request *smqsg_idle_new(struct smqsg_idle *idle, struct smqsg_fd *fd,
			       struct request_queue *own, blk_opf_t opf);
void smqsg_idle_forget(struct smqsg_idle *idle, struct smqsg_fd *fd, struct request *rq);
void smqsg_idle_drop(struct smqsg_fd *fd, struct request *rq);
void smqsg_idle_free(struct smqsg_idle *idle, struct smqsg_fd *fd);
void smqsg_pool_set_limits(struct smqsg_dev *sg);
void smqsg_pool_give_back_all(struct smqsg_dev *sg);
bool smqsg_pool_give_back(struct smqsg_dev *sg);
unsigned int smqsg_pool_idle(struct smqsg_dev *sg);
unsigned int smqsg_pool_idle_of(struct smqsg_fd *fd);
unsigned int smqsg_pool_limit(struct smqsg_fd *fd);
void smqsg_pool_open(struct smqsg_fd *fd);
int smqsg_pool_init(struct smqsg_dev *sg, struct scsi_device *sdev);
void smqsg_pool_exit(struct smqsg_dev *sg);

/**
 * smqsg_idle_take() - takes a command's idle request
 * @idle: the command's
 * @fd: the file
 * @opf: the operation of the command's next run
 *
 * Return: the request, to be filled as a new one; NULL if there is none. Process context.
 */
static __always_inline struct request *smqsg_idle_take(struct smqsg_idle *idle,
						       struct smqsg_fd *fd, blk_opf_t opf)
{
	struct request *rq = xchg(&idle->rq, NULL);

	if (unlikely(!rq))
		return NULL;
	/*
	 * The block layer's scan for timeouts may still have a reference from the last run: it has
	 * seen the request in flight, and would apply the old run's deadline to the new run, or
	 * write the request's flags. The exchange is a full barrier: rq->ref is read after the
	 * write of rq->state at the end of the last run.
	 */
	if (unlikely(idle->cpu != raw_smp_processor_id() || atomic_read(&rq->ref) != 1 ||
		     ((rq->cmd_flags ^ opf) & REQ_POLLED))) {
		WRITE_ONCE(idle->keeps, false);
		smqsg_idle_drop(fd, rq);
		return NULL;
	}
	smq_rq_use_again(rq, opf);
	return rq;
}

/**
 * smqsg_idle_keep() - keeps the request of a command that ended with GOOD, or was not sent
 * @idle: the command's; @idle->rq is NULL
 * @pool: idle requests of the file
 * @rq: the request, of the node's own queue
 *
 * Return: true: it is kept, and the caller no longer uses it; false: the caller calls
 * smqsg_idle_forget() and frees it. Any context.
 */
static __always_inline bool smqsg_idle_keep(struct smqsg_idle *idle,
					    const struct smqsg_fd_pool *pool, struct request *rq)
{
	/*
	 * Others may need the request: a freeze of the queue, an hctx whose CPUs go offline, a task
	 * that sleeps for a tag. The request has a reference to the queue, so the hctx exists.
	 */
	if (unlikely(!idle->keeps || atomic_read(&pool->used) > (int)READ_ONCE(pool->limit) ||
		     percpu_ref_is_dying(&rq->q->q_usage_counter) ||
		     atomic_read(idle->tag_sleepers) ||
		     (READ_ONCE(idle->hctx->state) & BIT(BLK_MQ_S_INACTIVE))))
		return false;
	/* A walk over all tags skips requests that are not started. */
	WRITE_ONCE(rq->state, MQ_RQ_IDLE);
	/* Pairs with the exchange in smqsg_idle_take(): its CPU then sees all of the above. */
	smp_store_release(&idle->rq, rq);
	return true;
}

#endif /* SMQSG_POOL_H */
