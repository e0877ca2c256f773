// SPDX-License-Identifier: GPL-2.0
/*
 * Polls an LLD's poll queues, for which no interrupt comes. The watch is a work item that polls for
 * a ring whose own task does not poll.
 */
#include <linux/jiffies.h>
#include <linux/module.h>

#include "module.h"
#include "poll.h"
#include "sg.h"

/* How often the watch polls. */
#define SMQSG_WATCH		max(HZ / 10, 1)
/*
 * How often it polls once the device is gone: the mid-layer's removal of the device waits for the
 * commands.
 */
#define SMQSG_WATCH_DEAD	max(HZ / 100, 1)

/**
 * smqsg_poll_queues() - looks for ended commands on poll queues
 * @q: the device's queue
 * @hctx: the poll queue; NULL or SMQSG_POLL_ALL for all of them
 * @iob: where an LLD may leave requests for the caller to complete, or NULL
 *
 * The hctxs live as long as the queue, and the caller's file or reference to the device keeps the
 * queue. The reference taken here keeps the LLD ready for polls. If percpu_ref_tryget() fails, the
 * queue has nothing in flight. Process context.
 */
void smqsg_poll_queues(struct request_queue *q, struct blk_mq_hw_ctx *hctx,
		       struct io_comp_batch *iob)
{
	unsigned long i;

	if (unlikely(!percpu_ref_tryget(&q->q_usage_counter)))
		return;
	if (likely(hctx && hctx != SMQSG_POLL_ALL)) {
		q->mq_ops->poll(hctx, iob);
	} else {
		queue_for_each_hw_ctx(q, hctx, i)
			if (hctx->type == HCTX_TYPE_POLL)
				q->mq_ops->poll(hctx, iob);
	}
	percpu_ref_put(&q->q_usage_counter);
}

/*
 * Polls all poll queues of a node's device. Returns false if the device has none, or if the node
 * has no file.
 */
static bool smqsg_poll_for_others(struct smqsg_dev *sg)
{
	struct scsi_device *sdev = NULL;
	struct module *lld = NULL;
	struct smqsg_fd *fd;

	spin_lock(&sg->lock);
	fd = list_first_entry_or_null(&sg->files, struct smqsg_fd, sibling);
	if (fd && fd->polled.state) {
		/* The file references its device as long as the file is in the list. */
		sdev = fd->sdev;
		lld = sdev->host->hostt->module;
		__module_get(lld);
		get_device(&sdev->sdev_gendev);
	}
	spin_unlock(&sg->lock);
	if (!sdev)
		return false;
	smqsg_poll_queues(sdev->request_queue, NULL, NULL);
	put_device(&sdev->sdev_gendev);
	/* Last, as in scsi_device_put(): the device's release reads the LLD's template. */
	module_put(lld);
	return true;
}

/**
 * smqsg_poll_watch() - makes the watch poll for a file's commands
 * @file: polled commands of the file
 *
 * Any context.
 */
void smqsg_poll_watch(struct smqsg_fd_polled *file)
{
	struct smqsg_fd *fd = container_of(file, struct smqsg_fd, polled);

	WRITE_ONCE(file->state, SMQSG_POLL_WATCHED);
	queue_delayed_work(smqsg_wq, &fd->sg->watch, SMQSG_WATCH);
}

/*
 * Ends the watch for all files; the next polled command of a file starts it again. Returns whether
 * any file was watched. If so, the caller runs the watch once more: just before, a submitter may
 * have seen that its file was watched, and so may not have started the watch.
 */
static bool smqsg_poll_unwatch(struct smqsg_dev *sg)
{
	struct smqsg_fd *fd;
	bool any = false;

	spin_lock(&sg->lock);
	list_for_each_entry(fd, &sg->files, sibling) {
		if (fd->polled.state != SMQSG_POLL_WATCHED)
			continue;
		WRITE_ONCE(fd->polled.state, SMQSG_POLL_CAN);
		any = true;
	}
	spin_unlock(&sg->lock);
	return any;
}

static void smqsg_poll_look(struct work_struct *work)
{
	struct smqsg_dev *sg = container_of(work, struct smqsg_dev, watch.work);
	bool again;

	/*
	 * Ended commands for which no task polls keep places that block I/O may want as well. They
	 * also delay a freeze of the queue and the removal of the device.
	 */
	if (smqsg_inflight(sg))
		again = smqsg_poll_for_others(sg);
	else
		again = smqsg_poll_unwatch(sg);
	if (again)
		queue_delayed_work(smqsg_wq, &sg->watch,
				   READ_ONCE(sg->sdev) ? SMQSG_WATCH : SMQSG_WATCH_DEAD);
}

/**
 * smqsg_poll_open() - sets polling up for a file
 * @fd: the file, with @fd->sdev and @fd->q set
 *
 * Any context.
 */
void smqsg_poll_open(struct smqsg_fd *fd)
{
	const struct blk_mq_tag_set *set = fd->q->tag_set;

	init_llist_head(&fd->polled.ended);
	init_llist_head(&fd->polled.ended_adhoc);
	if (set->nr_maps > HCTX_TYPE_POLL && set->map[HCTX_TYPE_POLL].nr_queues)
		fd->polled.state = SMQSG_POLL_CAN;
	else
		fd->polled.state = SMQSG_POLL_NOT;
}

/**
 * smqsg_poll_init() - sets polling up for a node
 * @sg: the node
 */
void smqsg_poll_init(struct smqsg_dev *sg)
{
	INIT_DELAYED_WORK(&sg->watch, smqsg_poll_look);
}

/**
 * smqsg_poll_dead() - makes the watch poll at once, because the device is gone
 * @sg: the device's node
 *
 * Any context. Does not wait.
 */
void smqsg_poll_dead(struct smqsg_dev *sg)
{
	mod_delayed_work(smqsg_wq, &sg->watch, 0);
}
