// SPDX-License-Identifier: GPL-2.0
/*
 * Idle requests: how many may be kept, and when they are given back.
 *
 * An idle request delays a freeze of the own queue (removal, a change of the number of hardware
 * queues), a CPU that goes offline, and tasks that sleep for a tag. None of these can notify this
 * module, so a periodic work item, the scan, checks for them.
 */
#include <linux/mutex.h>
#include <linux/slab.h>
#include <scsi/scsi_cmnd.h>
#include <scsi/scsi_device.h>
#include <scsi/scsi_host.h>

#include "io.h"
#include "module.h"
#include "pool.h"
#include "sg.h"

/* How much of a device's depth its idle requests may take by default, in percent. */
#define SMQSG_POOL_SHARE	50
/*
 * How many of a hardware queue's tags all nodes of a host may keep: an eighth is left to a LUN that
 * needs tags at once. The others are given back when it sleeps for them.
 */
#define SMQSG_POOL_TAGS(depth)	((depth) - DIV_ROUND_UP(depth, 8))
/* The time between two scans. Others wait for an idle request at most twice as long. */
#define SMQSG_POOL_SCAN		max(HZ / 50, 1)
/* How long a request is kept that no command uses. */
#define SMQSG_POOL_IDLE		HZ

/**
 * struct smqsg_tags - requests that the nodes of a host keep
 * @node: in smqsg_all_tags
 * @set: the host's tag set, which identifies the host
 * @nodes: the number of nodes; under smqsg_tags_lock
 * @nr: elements of @used
 * @used: for each hardware queue: how many requests are kept. Atomic: commands of all nodes begin
 *	and end on any CPU. Hardware queues that share their tags count as one
 *
 * Lives as long as a node of the host.
 */
struct smqsg_tags {
	struct list_head node;
	struct blk_mq_tag_set *set;
	unsigned int nodes;
	unsigned int nr;
	atomic_t used[];
};

/* Protects smqsg_all_tags, and smqsg_tags.nodes. */
static DEFINE_MUTEX(smqsg_tags_lock);
static LIST_HEAD(smqsg_all_tags);

static void smqsg_pool_scan_later(struct smqsg_dev *sg)
{
	queue_delayed_work(smqsg_wq, &sg->pool.scan, SMQSG_POOL_SCAN);
}

/*
 * Makes sure that the scan will run: it ends when no file keeps a request and no command is in
 * flight on the own queue. Called even if a command may not keep its request, because the scan
 * reads the queue depth anew, and counts commands for the device.
 */
static void smqsg_pool_scan_soon(struct smqsg_dev *sg)
{
	/* Orders smqsg_own_count.sent before the test: the scan sees it, or is scheduled here. */
	smp_mb();
	if (!delayed_work_pending(&sg->pool.scan))
		smqsg_pool_scan_later(sg);
}

/**
 * smqsg_pool_set_limits() - sets how many requests each file of a node may keep
 * @sg: the node; its lock is held
 *
 * Called when a file is opened and by the scan. Writes only what changes: each run reads it.
 */
void smqsg_pool_set_limits(struct smqsg_dev *sg)
{
	unsigned int depth = sg->sdev ? READ_ONCE(sg->sdev->queue_depth) : 0;
	unsigned int files = 0, limit;
	struct smqsg_fd *fd;

	lockdep_assert_held(&sg->lock);
	list_for_each_entry(fd, &sg->files, sibling)
		files += !!atomic_read(&fd->pool.used);
	list_for_each_entry(fd, &sg->files, sibling) {
		/*
		 * A file that keeps none yet may be the next to do so. It may have begun to keep
		 * one since the files were counted.
		 */
		limit = depth * READ_ONCE(sg->pool.share) / 100 /
			max(files + !atomic_read(&fd->pool.used), 1U);
		if (fd->pool.limit != limit)
			WRITE_ONCE(fd->pool.limit, limit);
	}
}

/* Counts a request of hardware queue @hwq for the host. Returns false if there are too many. */
static bool smqsg_tags_count(const struct smqsg_dev *sg, unsigned int hwq)
{
	struct smqsg_tags *tags = sg->pool.tags;
	unsigned int most = SMQSG_POOL_TAGS(tags->set->queue_depth);

	if (hwq >= tags->nr)
		return false;
	if (atomic_inc_return(&tags->used[hwq]) <= (int)most)
		return true;
	atomic_dec(&tags->used[hwq]);
	return false;
}

/* For which hardware queue a request counts. */
static unsigned int smqsg_tags_hwq(const struct smqsg_dev *sg, const struct request *rq)
{
	return sg->pool.tags->set->flags & BLK_MQ_F_TAG_HCTX_SHARED ? 0 : rq->mq_hctx->queue_num;
}

/* Takes a command out of its file's list. Without the file's lock it may be freed on return. */
static void smqsg_idle_unlist(struct smqsg_fd_pool *pool, struct smqsg_idle *idle)
{
	lockdep_assert_held(&pool->lock);
	pool->listed--;
	/* Pairs with smqsg_idle_free(). */
	list_del_init_careful(&idle->entry);
}

/*
 * Adds a command that keeps a request to its file's list, which the scan walks. Commands that no
 * longer keep one stay in the list, because a command may end where the lock must not be taken.
 * They are removed when the list has about twice as many elements as the file keeps requests.
 */
static void smqsg_idle_list(struct smqsg_fd_pool *pool, struct smqsg_idle *idle)
{
	struct smqsg_idle *each, *next;

	spin_lock(&pool->lock);
	if (pool->listed >= 2 * atomic_read(&pool->used)) {
		list_for_each_entry_safe(each, next, &pool->idle, entry)
			if (!READ_ONCE(each->keeps))
				smqsg_idle_unlist(pool, each);
	}
	WRITE_ONCE(idle->keeps, true);
	if (list_empty(&idle->entry)) {
		list_add(&idle->entry, &pool->idle);
		pool->listed++;
	}
	spin_unlock(&pool->lock);
}

/* Lets a command keep the request that it has just allocated, if not too many are kept already. */
static void smqsg_idle_enter(struct smqsg_idle *idle, struct smqsg_fd *fd, struct request *rq)
{
	struct smqsg_dev *sg = fd->sg;

	WRITE_ONCE(idle->keeps, false);
	if (atomic_read(&fd->pool.used) >= (int)READ_ONCE(fd->pool.limit) ||
	    !smqsg_tags_count(sg, smqsg_tags_hwq(sg, rq))) {
		smqsg_pool_scan_soon(sg);
		return;
	}
	atomic_inc(&fd->pool.used);
	smqsg_pool_scan_soon(sg);
	idle->cpu = raw_smp_processor_id();
	WRITE_ONCE(idle->hctx, rq->mq_hctx);
	WRITE_ONCE(idle->tag_sleepers, &rq->mq_hctx->tags->bitmap_tags.ws_active);
	smqsg_idle_list(&fd->pool, idle);
}

/**
 * smqsg_idle_new() - allocates a request for a command that has no idle one, without sleeping
 * @idle: the command's
 * @fd: the file
 * @own: the node's own queue
 * @opf: the operation
 *
 * Return: the request, or NULL if there is none. Process context.
 */
struct request *smqsg_idle_new(struct smqsg_idle *idle, struct smqsg_fd *fd,
			       struct request_queue *own, blk_opf_t opf)
{
	struct request *rq = scsi_alloc_request(own, opf, BLK_MQ_REQ_NOWAIT);

	if (IS_ERR(rq))
		return NULL;
	smq_straight_new(rq);
	smqsg_idle_enter(idle, fd, rq);
	return rq;
}

static void smqsg_idle_uncount(struct smqsg_fd *fd, const struct request *rq)
{
	atomic_dec(&fd->sg->pool.tags->used[smqsg_tags_hwq(fd->sg, rq)]);
	atomic_dec(&fd->pool.used);
}

/**
 * smqsg_idle_forget() - a command does not keep its request
 * @idle: the command's
 * @fd: the file
 * @rq: the request, with which the command has ended or which was not sent
 *
 * Any context.
 */
void smqsg_idle_forget(struct smqsg_idle *idle, struct smqsg_fd *fd, struct request *rq)
{
	if (!idle->keeps)
		return;
	WRITE_ONCE(idle->keeps, false);
	smqsg_idle_uncount(fd, rq);
}

/**
 * smqsg_idle_drop() - gives an idle request back
 * @fd: the file
 * @rq: the request, taken out of a struct smqsg_idle
 *
 * Any context.
 */
void smqsg_idle_drop(struct smqsg_fd *fd, struct request *rq)
{
	smqsg_idle_uncount(fd, rq);
	blk_mq_free_request(rq);
}

/**
 * smqsg_idle_free() - gives back the request of a command that is about to be freed
 * @idle: the command's
 * @fd: the file
 *
 * Process context.
 */
void smqsg_idle_free(struct smqsg_idle *idle, struct smqsg_fd *fd)
{
	struct request *rq;

	/* Pairs with smqsg_idle_unlist(): then the scan no longer accesses the command. */
	if (list_empty_careful(&idle->entry))
		return;
	spin_lock(&fd->pool.lock);
	if (!list_empty(&idle->entry))
		smqsg_idle_unlist(&fd->pool, idle);
	spin_unlock(&fd->pool.lock);
	rq = xchg(&idle->rq, NULL);
	if (rq)
		smqsg_idle_drop(fd, rq);
}

/*
 * Whether an idle request must be given back, because others want it or no command has used it for
 * a while. The caller references the queue, which keeps the hctx.
 */
static bool smqsg_idle_must_return(const struct smqsg_idle *idle, struct request *rq)
{
	const struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);

	return (READ_ONCE(READ_ONCE(idle->hctx)->state) & BIT(BLK_MQ_S_INACTIVE)) ||
	       atomic_read(READ_ONCE(idle->tag_sleepers)) ||
	       time_after(jiffies, READ_ONCE(scmd->jiffies_at_alloc) + SMQSG_POOL_IDLE);
}

/* Gives back a file's idle requests: all, or those that are wanted or not used. */
static void smqsg_pool_collect(struct smqsg_fd *fd, bool all)
{
	struct smqsg_idle *idle, *next;

	spin_lock(&fd->pool.lock);
	list_for_each_entry_safe(idle, next, &fd->pool.idle, entry) {
		/* Pairs with smqsg_idle_keep(): the request is seen as its last run left it. */
		struct request *rq = smp_load_acquire(&idle->rq);

		if (!rq || (!all && !smqsg_idle_must_return(idle, rq)))
			continue;
		rq = xchg(&idle->rq, NULL);
		if (!rq)
			continue;
		/* If its next run has begun, that waits for the lock before it keeps a request. */
		smqsg_idle_unlist(&fd->pool, idle);
		smqsg_idle_drop(fd, rq);
	}
	spin_unlock(&fd->pool.lock);
}

/* Gives back a file's idle requests where needed. */
static void smqsg_pool_scan_file(struct smqsg_dev *sg, struct smqsg_fd *fd)
{
	struct request_queue *q = READ_ONCE(fd->own);
	bool over = atomic_read(&fd->pool.used) > (int)fd->pool.limit;

	/* The reference keeps the queue from being frozen: so no hctx is freed. */
	if (!sg->sdev || !q || !percpu_ref_tryget_live(&q->q_usage_counter)) {
		smqsg_pool_collect(fd, true);
		return;
	}
	if (over || !list_empty_careful(&fd->sdev->host->starved_list))
		smqsg_pool_collect(fd, true);
	else if (smq_kept_scan_due(&fd->pool.scan, q))
		smqsg_pool_collect(fd, false);
	percpu_ref_put(&q->q_usage_counter);
}

/**
 * smqsg_pool_give_back() - gives back the idle requests of a node that others need
 * @sg: the node; once its device is removed, no request may be kept
 *
 * Return: whether any file keeps requests. Process context. Does not wait.
 */
bool smqsg_pool_give_back(struct smqsg_dev *sg)
{
	struct smqsg_fd *fd;
	bool any = false;

	spin_lock(&sg->lock);
	smqsg_pool_set_limits(sg);
	list_for_each_entry(fd, &sg->files, sibling) {
		if (!atomic_read(&fd->pool.used))
			continue;
		smqsg_pool_scan_file(sg, fd);
		any |= atomic_read(&fd->pool.used);
	}
	spin_unlock(&sg->lock);
	return any;
}

static void smqsg_pool_scan(struct work_struct *work)
{
	struct smqsg_dev *sg = container_of(work, struct smqsg_dev, pool.scan.work);
	bool more = smqsg_pool_give_back(sg);

	spin_lock(&sg->lock);
	more |= smqsg_count_for_device(sg);
	spin_unlock(&sg->lock);
	if (more)
		smqsg_pool_scan_later(sg);
}

/**
 * smqsg_pool_give_back_all() - gives back all idle requests of a node
 * @sg: the node
 *
 * Called when a command needs a tag. Process context.
 */
void smqsg_pool_give_back_all(struct smqsg_dev *sg)
{
	struct smqsg_fd *fd;

	spin_lock(&sg->lock);
	list_for_each_entry(fd, &sg->files, sibling)
		smqsg_pool_collect(fd, true);
	spin_unlock(&sg->lock);
}

/**
 * smqsg_pool_idle_of() - how many requests of a file are idle
 * @fd: the file
 *
 * Return: their number, at this moment. Process context.
 */
unsigned int smqsg_pool_idle_of(struct smqsg_fd *fd)
{
	struct smqsg_idle *idle;
	unsigned int count = 0;

	spin_lock(&fd->pool.lock);
	list_for_each_entry(idle, &fd->pool.idle, entry)
		count += !!READ_ONCE(idle->rq);
	spin_unlock(&fd->pool.lock);
	return count;
}

/**
 * smqsg_pool_idle() - how many requests are idle
 * @sg: the node, with its lock held
 *
 * Return: their number, at this moment.
 */
unsigned int smqsg_pool_idle(struct smqsg_dev *sg)
{
	unsigned int count = 0;
	struct smqsg_fd *fd;

	lockdep_assert_held(&sg->lock);
	list_for_each_entry(fd, &sg->files, sibling)
		count += smqsg_pool_idle_of(fd);
	return count;
}

/**
 * smqsg_pool_limit() - how many requests a file may keep
 * @fd: the file
 *
 * Return: their number, at this moment. Process context.
 */
unsigned int smqsg_pool_limit(struct smqsg_fd *fd)
{
	struct smqsg_dev *sg = fd->sg;

	spin_lock(&sg->lock);
	smqsg_pool_set_limits(sg);
	spin_unlock(&sg->lock);
	return READ_ONCE(fd->pool.limit);
}

/**
 * smqsg_pool_open() - sets up idle requests of a file
 * @fd: the file
 */
void smqsg_pool_open(struct smqsg_fd *fd)
{
	spin_lock_init(&fd->pool.lock);
	INIT_LIST_HEAD(&fd->pool.idle);
}

/* Finds or makes the counters of a host. */
static struct smqsg_tags *smqsg_tags_get(struct blk_mq_tag_set *set)
{
	struct smqsg_tags *tags;

	lockdep_assert_held(&smqsg_tags_lock);
	list_for_each_entry(tags, &smqsg_all_tags, node) {
		if (tags->set == set) {
			tags->nodes++;
			return tags;
		}
	}
	tags = kzalloc(struct_size(tags, used, set->nr_hw_queues), GFP_KERNEL);
	if (!tags)
		return NULL;
	tags->set = set;
	tags->nodes = 1;
	tags->nr = set->nr_hw_queues;
	list_add(&tags->node, &smqsg_all_tags);
	return tags;
}

/**
 * smqsg_pool_init() - sets up idle requests of a node
 * @sg: the node
 * @sdev: its device
 *
 * Return: 0 or -ENOMEM. May sleep.
 */
int smqsg_pool_init(struct smqsg_dev *sg, struct scsi_device *sdev)
{
	sg->pool.share = smqsg_can_own() ? SMQSG_POOL_SHARE : 0;
	INIT_DELAYED_WORK(&sg->pool.scan, smqsg_pool_scan);
	mutex_lock(&smqsg_tags_lock);
	sg->pool.tags = smqsg_tags_get(&sdev->host->tag_set);
	mutex_unlock(&smqsg_tags_lock);
	return sg->pool.tags ? 0 : -ENOMEM;
}

/**
 * smqsg_pool_exit() - stops the scan, when the node is freed
 * @sg: the node; no file is open
 *
 * May sleep.
 */
void smqsg_pool_exit(struct smqsg_dev *sg)
{
	struct smqsg_tags *tags = sg->pool.tags;

	if (!tags)
		return;
	cancel_delayed_work_sync(&sg->pool.scan);
	mutex_lock(&smqsg_tags_lock);
	if (!--tags->nodes) {
		list_del(&tags->node);
		kfree(tags);
	}
	mutex_unlock(&smqsg_tags_lock);
}
