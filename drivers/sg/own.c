// SPDX-License-Identifier: GPL-2.0
/*
 * A node's own request queue: its operations and its life.
 */
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/delay.h>
#include <scsi/scsi_cmnd.h>
#include <scsi/scsi_device.h>
#include <scsi/scsi_host.h>
#include <smq/straight.h>

#include "io.h"
#include "module.h"
#include "own.h"
#include "place.h"
#include "sg.h"

/* How long a queue stays after the last file was closed. */
#define SMQSG_OWN_STAYS		(5 * HZ)
/* How long a command that the mid-layer retries waits after it was refused, in ms. */
#define SMQSG_OWN_RETRY		3
/* How long SMQ_SG_SETUP and SMQ_SG_PREPARE wait until the queue is created. */
#define SMQSG_OWN_WAIT		HZ
/* How long block I/O may wait for commands in flight, so that the queue can be created or end. */
#define SMQSG_OWN_FREEZE	msecs_to_jiffies(5)
/* If that is too short, the queue is created later: after MIN, then twice that, at most MAX. */
#define SMQSG_OWN_AGAIN_MIN	(HZ / 4)
#define SMQSG_OWN_AGAIN_MAX	(16 * HZ)
/* While the module is unloaded, a freeze is tried once a second, this many times at most. */
#define SMQSG_OWN_REMOVE	30

static const struct smqsg_dev_own *smqsg_own_of(const struct request_queue *q)
{
	return container_of(q->mq_ops, struct smqsg_dev_own, ops);
}

/*
 * Only commands that the mid-layer retries are dispatched from the queue. When a reason to refuse
 * them has passed, the mid-layer runs the device's queue, but not this one: try again later.
 */
static blk_status_t smqsg_own_queue_rq(struct blk_mq_hw_ctx *hctx,
				       const struct blk_mq_queue_data *bd)
{
	blk_status_t status = smqsg_own_of(hctx->queue)->lower->queue_rq(hctx, bd);

	/* For BLK_STS_RESOURCE the block layer runs the queue again after 3 ms. */
	return status == BLK_STS_DEV_RESOURCE ? BLK_STS_RESOURCE : status;
}

/* As smqsg_own_queue_rq(): a place in the budget is free later. */
static int smqsg_own_get_budget(struct request_queue *q)
{
	int token = smqsg_own_of(q)->lower->get_budget(q);

	if (token < 0)
		blk_mq_delay_run_hw_queues(q, SMQSG_OWN_RETRY);
	return token;
}

/* The mid-layer completes a command, and perhaps puts it back into this queue. */
static noinline void smqsg_own_complete_slowly(struct request *rq)
{
	const struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	struct request_queue *q = rq->q;
	bool retried = scmd->result;

	if (retried)
		percpu_ref_get(&q->q_usage_counter);
	smqsg_own_of(q)->lower->complete(rq);
	if (!retried)
		return;
	/* During error handling the mid-layer does not run the queue for a retry. */
	if (!list_empty_careful(&q->requeue_list))
		blk_mq_delay_kick_requeue_list(q, SMQSG_OWN_RETRY);
	percpu_ref_put(&q->q_usage_counter);
}

static void smqsg_own_complete(struct request *rq)
{
	struct smqsg_io *io = rq->end_io_data;

	if (unlikely(!smq_straight_completes(rq))) {
		smqsg_own_complete_slowly(rq);
		return;
	}
	smqsg_count_ended(io->fd);
	/* Has the barrier before smqsg_kick_waiting(). */
	smq_straight_completed(rq);
	io->origin->good(io, rq);
}

/*
 * Makes the counter of the queue's users atomic: a freeze need not wait for a grace period of RCU
 * then. Returns whether smqsg_own_counts_per_cpu() is due. May sleep.
 */
static bool smqsg_own_counts_atomically(struct request_queue *q)
{
	struct percpu_ref *ref = &q->q_usage_counter;

	/* Atomic already: the queue is frozen, or is not in sysfs yet. */
	if (READ_ONCE(ref->percpu_count_ptr) & __PERCPU_REF_ATOMIC_DEAD)
		return false;
	percpu_ref_switch_to_atomic_sync(ref);
	return true;
}

static void smqsg_own_counts_per_cpu(struct request_queue *q)
{
	percpu_ref_switch_to_percpu(&q->q_usage_counter);
}

/*
 * Makes the tags of a host with one LUN shared, as the block layer does when a second queue is
 * added. But the block layer freezes the device's queue @lower until the last command in flight has
 * ended, which may be one that formats the device, and keeps all others out meanwhile: this
 * function gives up after SMQSG_OWN_FREEZE. While the queue is frozen it takes no lock, because the
 * lock's holder may wait for I/O of the queue, and allocates no memory, which may need such I/O. If
 * no queue is added then, the tags stay shared. Returns whether they are. May sleep.
 */
static bool smqsg_own_share_tags(struct blk_mq_tag_set *set, struct request_queue *lower)
{
	bool shared, atomic;
	struct blk_mq_hw_ctx *hctx;
	unsigned int flags;
	unsigned long i;

	if (set->flags & BLK_MQ_F_TAG_QUEUE_SHARED)
		return true;
	atomic = smqsg_own_counts_atomically(lower);
	mutex_lock(&set->tag_list_lock);
	shared = set->flags & BLK_MQ_F_TAG_QUEUE_SHARED;
	if (!shared && smq_queue_try_freeze(lower, SMQSG_OWN_FREEZE, &flags)) {
		set->flags |= BLK_MQ_F_TAG_QUEUE_SHARED;
		queue_for_each_hw_ctx(lower, hctx, i)
			hctx->flags |= BLK_MQ_F_TAG_QUEUE_SHARED;
		smq_queue_unfreeze(lower, flags);
		shared = true;
	}
	mutex_unlock(&set->tag_list_lock);
	if (atomic)
		smqsg_own_counts_per_cpu(lower);
	return shared;
}

/*
 * Prepares the device's queue @lower for the end of the own queue @own. If the tags are no longer
 * shared then, the block layer freezes @lower: see smqsg_own_share_tags(). So this function freezes
 * it before, for a moment: only a slow command that is sent after that would delay others. None
 * comes from the node, which cannot be opened then. Returns false if one is in flight now; else
 * *@atomic says whether smqsg_own_counts_per_cpu() is due when @own has ended. May sleep.
 */
static bool smqsg_own_may_end(struct request_queue *own, struct request_queue *lower, bool *atomic)
{
	struct blk_mq_tag_set *set = own->tag_set;
	const struct list_head *list = &set->tag_list;
	unsigned int flags;
	bool two;

	*atomic = false;
	mutex_lock(&set->tag_list_lock);
	two = !list_is_singular(list) && list->next->next == list->prev;
	mutex_unlock(&set->tag_list_lock);
	if (!two)
		return true;
	*atomic = smqsg_own_counts_atomically(lower);
	if (smq_queue_try_freeze(lower, SMQSG_OWN_FREEZE, &flags)) {
		smq_queue_unfreeze(lower, flags);
		return true;
	}
	if (*atomic)
		smqsg_own_counts_per_cpu(lower);
	return false;
}

/* Creates the queue as the block layer does for sd, but without a disk. */
static struct request_queue *smqsg_own_create(struct smqsg_dev_own *own, struct scsi_device *sdev)
{
	struct request_queue *lower = sdev->request_queue;
	struct request_queue *q;

	q = smq_queue_alloc(&sdev->host->tag_set, sdev);
	if (IS_ERR(q))
		return NULL;
	own->lower = lower->mq_ops;
	own->ops = *own->lower;
	own->ops.queue_rq = smqsg_own_queue_rq;
	own->ops.get_budget = smqsg_own_get_budget;
	own->ops.complete = smqsg_own_complete;
	q->mq_ops = &own->ops;
	blk_queue_rq_timeout(q, lower->rq_timeout);
	smq_queue_copy_limits(q, lower);
	/* The block layer does this for a queue that it registers in sysfs. */
	percpu_ref_switch_to_percpu(&q->q_usage_counter);
	return q;
}

/* Makes the queue known to all files. A file that is opened later takes it in smqsg_attach(). */
static void smqsg_own_publish(struct smqsg_dev *sg, struct request_queue *q)
{
	struct smqsg_fd *fd;

	spin_lock(&sg->lock);
	sg->own.q = q;
	list_for_each_entry(fd, &sg->files, sibling)
		/* A reader of the pointer sees the queue as it was set up. */
		smp_store_release(&fd->own, q);
	spin_unlock(&sg->lock);
}

/* Whether the device and its host are in a state in which their queues can be frozen at once. */
static bool smqsg_own_can_freeze(const struct scsi_device *sdev)
{
	return READ_ONCE(sdev->sdev_state) == SDEV_RUNNING && !scsi_host_in_recovery(sdev->host);
}

/*
 * Creates a node's own queue, if it has none. Without a queue commands go to the device's queue. So
 * it is no error if none can be created: no memory, error handling is under way, or the device is
 * blocked or removed. Returns false if it should be tried again: commands are in flight for too
 * long now, or there is no memory.
 */
static bool smqsg_own_make(struct smqsg_dev *sg)
{
	struct scsi_device *sdev = NULL;
	struct request_queue *q = NULL;
	bool done = true;

	mutex_lock(&sg->own.lock);
	if (sg->own.gone || sg->own.q)
		goto out;
	spin_lock(&sg->lock);
	/* Whoever asked for the queue may no longer want it. */
	if (sg->sdev && !list_empty(&sg->files) && !READ_ONCE(sg->depth.claimed) &&
	    READ_ONCE(sg->own.mode) != SMQSG_OWN_OFF && !scsi_device_get(sg->sdev))
		sdev = sg->sdev;
	spin_unlock(&sg->lock);
	if (!sdev)
		goto out;
	if (smqsg_own_can_freeze(sdev)) {
		if (smqsg_own_share_tags(&sdev->host->tag_set, sdev->request_queue))
			q = smqsg_own_create(&sg->own, sdev);
		if (q)
			smqsg_own_publish(sg, q);
		done = !!q;
	}
	scsi_device_put(sdev);
out:
	mutex_unlock(&sg->own.lock);
	return done;
}

static void smqsg_own_create_work(struct work_struct *work)
{
	struct smqsg_dev *sg = container_of(work, struct smqsg_dev, own.create.work);
	struct smqsg_dev_own *own = &sg->own;

	if (smqsg_own_make(sg)) {
		WRITE_ONCE(own->again, 0);
	} else {
		WRITE_ONCE(own->again,
			   clamp(2 * own->again, SMQSG_OWN_AGAIN_MIN, SMQSG_OWN_AGAIN_MAX));
		/* smqsg_own_ask() may have queued it meanwhile, to run at once. */
		mod_delayed_work(smqsg_send_wq, &own->create, own->again);
	}
	WRITE_ONCE(own->runs, own->runs + 1);
	wake_up_all(&own->made);
	/* The last file may have been closed meanwhile. */
	smqsg_own_closed(sg);
}

/**
 * smqsg_own_ask() - asks for a queue for a file whose node has none
 * @fd: the file
 * @reason: why
 *
 * A work item creates the queue. For SMQSG_OWN_SETUP this function waits for its first try. Process
 * context.
 */
void smqsg_own_ask(struct smqsg_fd *fd, enum smqsg_own_reason reason)
{
	const struct blk_mq_tag_set *set = &fd->sdev->host->tag_set;
	struct smqsg_dev *sg = fd->sg;
	u8 mode = READ_ONCE(sg->own.mode);
	unsigned int runs;

	/*
	 * An LLD that may sleep must not be called under RCU, as straight.c does. For a target that
	 * serves one LUN at a time the mid-layer does not lower sdev->restarts: straight.c would
	 * see for ever that block I/O waits.
	 */
	if (!smqsg_can_own() || (set->flags & BLK_MQ_F_BLOCKING) ||
	    scsi_target(fd->sdev)->single_lun || mode == SMQSG_OWN_OFF ||
	    !smqsg_own_can_freeze(fd->sdev))
		return;
	if (mode != SMQSG_OWN_ON && reason != SMQSG_OWN_SETUP &&
	    (reason != SMQSG_OWN_SQE || !(set->flags & BLK_MQ_F_TAG_QUEUE_SHARED)))
		return;
	/* It could not be created: it is tried again in a while, because each try delays I/O. */
	if (READ_ONCE(sg->own.again))
		return;
	runs = READ_ONCE(sg->own.runs);
	queue_delayed_work(smqsg_send_wq, &sg->own.create, 0);
	if (reason != SMQSG_OWN_SETUP)
		return;
	wait_event_killable_timeout(sg->own.made, READ_ONCE(sg->own.runs) != runs, SMQSG_OWN_WAIT);
}

/* Lets the node be opened again. */
static void smqsg_own_ended(struct smqsg_dev *sg)
{
	spin_lock(&sg->lock);
	sg->own.ends = false;
	spin_unlock(&sg->lock);
	wake_up_all(&sg->closed);
}

/* Frees a queue that no file uses. Waits until its last request is free. */
static void smqsg_own_destroy(struct smqsg_dev_own *own, struct request_queue *q)
{
	blk_mq_destroy_queue(q);
	/* The memory of @own->ops may be freed before that of @q. */
	q->mq_ops = own->lower;
}

static void smqsg_own_end(struct work_struct *work)
{
	struct smqsg_dev *sg = container_of(work, struct smqsg_dev, own.end.work);
	struct request_queue *lower, *q = NULL;
	bool later, atomic;

	mutex_lock(&sg->own.lock);
	spin_lock(&sg->lock);
	lower = sg->sdev && sg->own.q && list_empty(&sg->files) ? sg->sdev->request_queue : NULL;
	later = lower && (!smqsg_own_can_freeze(sg->sdev) || !blk_get_queue(lower));
	spin_unlock(&sg->lock);
	if (!lower || later)
		goto out;
	/* Its own grace period should not fall into the freeze either. */
	percpu_ref_switch_to_atomic_sync(&sg->own.q->q_usage_counter);
	later = !smqsg_own_may_end(sg->own.q, lower, &atomic);
	spin_lock(&sg->lock);
	if (!later && list_empty(&sg->files)) {
		q = sg->own.q;
		sg->own.q = NULL;
		sg->own.ends = true;
	}
	spin_unlock(&sg->lock);
	if (q)
		smqsg_own_destroy(&sg->own, q);
	else
		smqsg_own_counts_per_cpu(sg->own.q);
	if (atomic)
		smqsg_own_counts_per_cpu(lower);
	blk_put_queue(lower);
	if (q) {
		blk_put_queue(q);
		smqsg_own_ended(sg);
	}
out:
	mutex_unlock(&sg->own.lock);
	if (later)
		queue_delayed_work(smqsg_send_wq, &sg->own.end, SMQSG_OWN_STAYS);
}

/**
 * smqsg_own_closed() - a file was closed: if it was the last one, the queue ends some time later
 * @sg: the node
 *
 * Any context.
 */
void smqsg_own_closed(struct smqsg_dev *sg)
{
	bool off = READ_ONCE(sg->own.mode) == SMQSG_OWN_OFF;

	if (READ_ONCE(sg->own.q) && !READ_ONCE(sg->own.gone))
		mod_delayed_work(smqsg_send_wq, &sg->own.end, off ? 0 : SMQSG_OWN_STAYS);
}

/**
 * smqsg_own_remove() - ends the queue of a device that is being removed
 * @sg: the node, with @sg->sdev set to NULL already
 *
 * Waits for the commands on the queue, as the removal of the device's queue does next. Files may
 * still have the pointer to the queue; they get no request from it any more. May sleep.
 */
void smqsg_own_remove(struct smqsg_dev *sg)
{
	struct smqsg_dev_own *own = &sg->own;
	struct scsi_device *sdev;
	bool atomic = false;
	int tries;

	mutex_lock(&own->lock);
	WRITE_ONCE(own->gone, true);
	if (!own->q)
		goto out;
	sdev = own->q->queuedata;
	/* If only the module is unloaded, others go on using the device. */
	for (tries = 0; tries < SMQSG_OWN_REMOVE && smqsg_own_can_freeze(sdev); tries++) {
		if (smqsg_own_may_end(own->q, sdev->request_queue, &atomic))
			break;
		msleep(MSEC_PER_SEC);
	}
	smqsg_own_destroy(own, own->q);
	if (atomic)
		smqsg_own_counts_per_cpu(sdev->request_queue);
out:
	mutex_unlock(&own->lock);
}

/**
 * smqsg_own_init() - sets up a node that has no queue of its own yet
 * @sg: the node
 */
void smqsg_own_init(struct smqsg_dev *sg)
{
	mutex_init(&sg->own.lock);
	init_waitqueue_head(&sg->own.made);
	INIT_DELAYED_WORK(&sg->own.create, smqsg_own_create_work);
	INIT_DELAYED_WORK(&sg->own.end, smqsg_own_end);
}

/**
 * smqsg_own_exit() - drops the memory of the queue, when the node is freed
 * @sg: the node; no file is open
 *
 * May sleep.
 */
void smqsg_own_exit(struct smqsg_dev *sg)
{
	cancel_delayed_work_sync(&sg->own.create);
	cancel_delayed_work_sync(&sg->own.end);
	if (sg->own.q)
		blk_put_queue(sg->own.q);
}
