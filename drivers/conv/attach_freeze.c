// SPDX-License-Identifier: GPL-2.0
/*
 * Freezes all LUNs of a host at once, for a moment in which none has a command. A LUN whose
 * commands take long must not stop the others: the freeze begins only while no command is old, it
 * begins with the LUNs whose commands take longest, and it gives up soon.
 */
#include <linux/blkdev.h>
#include <linux/delay.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "attach.h"

/* How long conv_freeze() tries, in jiffies. */
#define CONV_FREEZE_TIMEOUT	(20 * HZ)
/* The longest time for which a LUN is frozen, unless it is slow. */
#define CONV_FREEZE_MOST	max(HZ / 12, 1)
/* The same for a slow LUN. No freeze begins while a command is older than that. */
#define CONV_FREEZE_SLOW	HZ
/* The times between two tries, in ms. */
#define CONV_FREEZE_PAUSE	10U
#define CONV_FREEZE_PAUSE_MOST	500U

/**
 * struct conv_frozen - a LUN that is frozen, or shall be
 * @node: in a list; among the frozen ones, the last one first
 * @sdev: the LUN, referenced
 * @slow: its commands took longer than CONV_FREEZE_MOST
 * @flags: for smq_queue_unfreeze()
 */
struct conv_frozen {
	struct list_head node;
	struct scsi_device *sdev;
	bool slow;
	unsigned int flags;
};

/* The oldest command in flight. */
struct conv_oldest {
	struct list_head *luns;
	unsigned long age;	/* in jiffies; 0: there is none */
	char text[72];
};

static void conv_frozen_free(struct list_head *luns)
{
	struct conv_frozen *f, *next;

	list_for_each_entry_safe(f, next, luns, node) {
		scsi_device_put(f->sdev);
		kfree(f);
	}
}

/* Unfreezes LUNs, and moves them to another list. */
static void conv_thaw(struct list_head *frozen, struct list_head *luns)
{
	struct conv_frozen *f;

	list_for_each_entry(f, frozen, node)
		smq_queue_unfreeze(f->sdev->request_queue, f->flags);
	list_splice_init(frozen, luns);
}

void conv_unfreeze(struct list_head *frozen)
{
	LIST_HEAD(luns);

	conv_thaw(frozen, &luns);
	conv_frozen_free(&luns);
}

/* Makes a list of a host's LUNs. */
static int conv_frozen_alloc(struct Scsi_Host *shost, struct list_head *luns)
{
	struct scsi_device *sdev;
	struct conv_frozen *f;

	shost_for_each_device(sdev, shost) {
		f = kzalloc(sizeof(*f), GFP_KERNEL);
		if (!f) {
			scsi_device_put(sdev);
			conv_frozen_free(luns);
			return -ENOMEM;
		}
		f->sdev = sdev;
		/* The loop drops its reference. */
		get_device(&sdev->sdev_gendev);
		__module_get(shost->hostt->module);
		list_add_tail(&f->node, luns);
	}
	return 0;
}

static bool conv_find_oldest(struct request *rq, void *data)
{
	const unsigned long age = jiffies - (READ_ONCE(rq->deadline) - READ_ONCE(rq->timeout));
	const struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	struct scsi_device *sdev = scmd->device;
	struct conv_oldest *oldest = data;
	struct conv_frozen *f;

	if (age <= CONV_FREEZE_MOST || (long)age < 0)
		return true;
	list_for_each_entry(f, oldest->luns, node)
		f->slow |= f->sdev == sdev;
	if (age <= oldest->age)
		return true;
	oldest->age = age;
	snprintf(oldest->text, sizeof(oldest->text),
		 "%u:%u:%llu has command %#04x with tag %d for %u ms", sdev->channel, sdev->id,
		 sdev->lun, scmd->cmnd[0], rq->tag, jiffies_to_msecs(age));
	return true;
}

/*
 * Freezes the slow LUNs, or the others. Return: whether they have no command; if not, a LUN that
 * has one is slow.
 */
static bool conv_freeze_some(struct list_head *luns, struct list_head *frozen, bool slow)
{
	const unsigned long end = jiffies + (slow ? CONV_FREEZE_SLOW : CONV_FREEZE_MOST);
	struct conv_frozen *f, *next;

	/* All at once: each freeze waits for a grace period. */
	list_for_each_entry_safe(f, next, luns, node) {
		if (f->slow != slow)
			continue;
		f->flags = smq_queue_freeze_start(f->sdev->request_queue);
		list_move(&f->node, frozen);
	}
	list_for_each_entry(f, frozen, node) {
		if (smq_queue_freeze_wait(f->sdev->request_queue,
					  time_before(jiffies, end) ? end - jiffies : 1))
			continue;
		f->slow = true;
		return false;
	}
	return true;
}

/**
 * conv_freeze() - freezes the queues of all LUNs of a host
 * @shost: the host; the caller holds its scan_mutex, so that no LUN is added or removed
 * @frozen: list for conv_unfreeze(). Until then the caller's task allocates without I/O
 * @why: after an error, the reason, until the next call
 *
 * Context: may sleep; one caller at a time.
 * Return: 0; -EBUSY if commands stay in flight, or -ENOMEM: then no queue is frozen.
 */
int conv_freeze(struct Scsi_Host *shost, struct list_head *frozen, const char **why)
{
	const unsigned long end = jiffies + CONV_FREEZE_TIMEOUT;
	static struct conv_oldest oldest;
	unsigned int pause = CONV_FREEZE_PAUSE;
	LIST_HEAD(luns);
	int err;

	lockdep_assert_held(&shost->scan_mutex);
	*why = "no memory";
	err = conv_frozen_alloc(shost, &luns);
	if (err)
		return err;
	for (;;) {
		oldest.luns = &luns;
		oldest.age = 0;
		blk_mq_tagset_busy_iter(&shost->tag_set, conv_find_oldest, &oldest);
		if (oldest.age <= CONV_FREEZE_SLOW) {
			if (conv_freeze_some(&luns, frozen, true) &&
			    conv_freeze_some(&luns, frozen, false))
				return 0;
			conv_thaw(frozen, &luns);
		}
		if (time_after(jiffies, end))
			break;
		msleep(pause);
		pause = min(2 * pause, CONV_FREEZE_PAUSE_MOST);
	}
	conv_frozen_free(&luns);
	*why = oldest.age ? oldest.text : "its commands do not end";
	return -EBUSY;
}
