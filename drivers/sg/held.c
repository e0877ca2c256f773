// SPDX-License-Identifier: GPL-2.0
/*
 * Held requests: which slots may keep one, and when it is given back.
 *
 * An idle request delays a freeze of the queue (a change of nr_requests or of the elevator,
 * suspend, removal), a CPU that goes offline, and tasks that sleep for a tag. None of these can
 * notify this module, so a periodic work item, the look, checks for them: smqsg_held_look().
 */
#include <linux/hash.h>
#include <linux/slab.h>

#include "held.h"
#include "io.h"
#include "sg.h"

/* How much of a device's depth the held slots of all files may keep by default, in percent. */
#define SMQSG_HELD_SHARE	50
/* The time between two looks. Others wait for an idle request at most twice as long. */
#define SMQSG_HELD_LOOK		max(HZ / 50, 1)
/* How long a request is kept for a slot that does not run. */
#define SMQSG_HELD_IDLE		HZ
/*
 * How often the look reads all entries to find requests of slots that do not run. Not more often,
 * because each read takes cache lines away from the CPUs that run slots.
 */
#define SMQSG_HELD_SCAN		max(HZ / 2, 1)

/* See smqsg_dev_held.look. */
static struct workqueue_struct *smqsg_held_wq;

static void smqsg_held_look_later(struct smqsg_dev *sg)
{
	queue_delayed_work(smqsg_held_wq, &sg->held.look, SMQSG_HELD_LOOK);
}

/* Sets a file's limit. Writes only what changes, because each run reads this cache line. */
static void smqsg_held_limit(struct smqsg_fd *fd, unsigned int limit)
{
	bool over = READ_ONCE(fd->held.used) > limit;

	if (fd->held.limit != limit)
		WRITE_ONCE(fd->held.limit, limit);
	if (fd->held.over_limit != over)
		WRITE_ONCE(fd->held.over_limit, over);
}

/* Sets how many entries each file may use. */
static void smqsg_held_set_limits(struct smqsg_dev *sg)
{
	unsigned int depth = sg->sdev ? READ_ONCE(sg->sdev->queue_depth) : 0;
	unsigned int files = 0, most;
	struct smqsg_fd *fd;

	lockdep_assert_held(&sg->lock);
	list_for_each_entry(fd, &sg->held.files, held.sibling)
		files++;
	list_for_each_entry(fd, &sg->held.files, held.sibling) {
		most = min(depth * sg->held.share / 100 / files, depth * fd->held.share / 100);
		smqsg_held_limit(fd, min(most, fd->held.nr));
	}
}

/**
 * smqsg_held_attach() - gives a slot an entry
 * @fd: the file
 * @slot: the slot, taken
 * @number: its number
 *
 * Return: the entry; NULL: no entry is free, or the file's limit is reached. Process context.
 */
struct smqsg_held *smqsg_held_attach(struct smqsg_fd *fd, struct smqsg_slot *slot, u32 number)
{
	struct smqsg_held *held = NULL;
	unsigned long flags;

	slot->held = 0;
	if (READ_ONCE(fd->held.used) >= READ_ONCE(fd->held.limit)) {
		/*
		 * While no entry is in use, the look is not scheduled; start it, because it reads
		 * the queue depth anew.
		 */
		if (!READ_ONCE(fd->held.used) && !delayed_work_pending(&fd->sg->held.look))
			smqsg_held_look_later(fd->sg);
		return NULL;
	}
	spin_lock_irqsave(&fd->held.lock, flags);
	if (fd->held.free && fd->held.used < READ_ONCE(fd->held.limit)) {
		slot->held = fd->held.free;
		held = &fd->held.entries[slot->held];
		fd->held.free = held->next;
		WRITE_ONCE(fd->held.used, fd->held.used + 1);
		WRITE_ONCE(held->slot, number);
	}
	spin_unlock_irqrestore(&fd->held.lock, flags);
	if (held)
		smqsg_held_look_later(fd->sg);
	return held;
}

/**
 * smqsg_held_release() - frees an entry
 * @fd: the file
 * @held: the entry; if it had a request, the caller has taken the request out and frees it later
 *
 * Any context.
 */
void smqsg_held_release(struct smqsg_fd *fd, struct smqsg_held *held)
{
	unsigned long flags;

	WRITE_ONCE(held->hctx, NULL);
	spin_lock_irqsave(&fd->held.lock, flags);
	WRITE_ONCE(held->slot, SMQSG_HELD_FREE);
	held->next = fd->held.free;
	fd->held.free = held - fd->held.entries;
	WRITE_ONCE(fd->held.used, fd->held.used - 1);
	spin_unlock_irqrestore(&fd->held.lock, flags);
}

/**
 * smqsg_held_free_request() - gives a request and its entry back
 * @fd: the file
 * @held: the entry
 * @rq: the request, taken out of @held
 *
 * Any context.
 */
void smqsg_held_free_request(struct smqsg_fd *fd, struct smqsg_held *held, struct request *rq)
{
	smqsg_held_release(fd, held);
	blk_mq_free_request(rq);
}

/**
 * smqsg_held_drop() - gives back the request that a slot keeps
 * @fd: the file
 * @slot: the slot, taken
 * @number: its number
 *
 * Any context.
 */
void smqsg_held_drop(struct smqsg_fd *fd, struct smqsg_slot *slot, u32 number)
{
	struct smqsg_held *held = &fd->held.entries[slot->held];
	struct request *rq = smqsg_held_take(fd, held, number);

	if (rq)
		smqsg_held_free_request(fd, held, rq);
}

/**
 * smqsg_held_wanted() - whether others wait for the tag or the queue of an idle request
 * @q: its queue
 * @hctx: its hctx
 * @tag_sleepers: counts tasks that sleep for the hctx's tags
 *
 * If the block layer would run the hctx again when a request is freed, this function runs the hctx.
 *
 * Return: true if others wait. Any context.
 */
bool smqsg_held_wanted(struct request_queue *q, struct blk_mq_hw_ctx *hctx,
		       const atomic_t *tag_sleepers)
{
	if (test_and_clear_bit(BLK_MQ_S_SCHED_RESTART, &hctx->state)) {
		/* The block layer set the bit, and then found no tag: let it look again. */
		smp_mb__after_atomic();
		blk_mq_run_hw_queue(hctx, true);
	}
	return smqsg_held_maybe_wanted(q, hctx, tag_sleepers);
}

/*
 * Whether an idle request must be given back, because others want it or its slot has not run for
 * long. Another context may take the request meanwhile. This is safe: the request's memory lives as
 * long as the host does; hctxs and tags stay while the queue cannot be frozen; a wrong answer does
 * no harm.
 */
static bool smqsg_held_must_return(struct smqsg_fd *fd, struct smqsg_held *held, struct request *rq)
{
	struct blk_mq_hw_ctx *hctx = READ_ONCE(held->hctx);
	const atomic_t *tag_sleepers = READ_ONCE(held->tag_sleepers);
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);

	/* Another context is giving the request back. */
	if (!hctx)
		return false;
	if (smqsg_held_maybe_wanted(fd->q, hctx, tag_sleepers) &&
	    smqsg_held_wanted(fd->q, hctx, tag_sleepers))
		return true;
	return time_after(jiffies, READ_ONCE(scmd->jiffies_at_alloc) + SMQSG_HELD_IDLE);
}

/* Gives back a file's idle requests: all, or those that are wanted or whose slots do not run. */
static void smqsg_held_collect(struct smqsg_fd *fd, bool all)
{
	unsigned int i;

	for (i = 1; i <= fd->held.nr && READ_ONCE(fd->held.used); i++) {
		struct smqsg_held *held = &fd->held.entries[i];
		/* Pairs with smqsg_held_store(): the entry's other fields are seen as well. */
		struct request *rq = smp_load_acquire(&held->rq);

		if (!rq || (!all && !smqsg_held_must_return(fd, held, rq)))
			continue;
		rq = xchg(&held->rq, NULL);
		if (rq)
			smqsg_held_free_request(fd, held, rq);
	}
}

/*
 * Whether others want an idle request of any of the queue's hctxs. The caller references @q. Sets
 * @offline to a value that differs if other hctxs are inactive: the hctxs' hashes, added up.
 */
static bool smqsg_held_any_wanted(struct request_queue *q, u64 *offline)
{
	struct blk_mq_hw_ctx *hctx;
	bool wanted = false;
	unsigned long i;

	*offline = 0;
	queue_for_each_hw_ctx(q, hctx, i) {
		if (READ_ONCE(hctx->state) & BIT(BLK_MQ_S_INACTIVE))
			*offline += hash_64(i + 1, 64);
		else if (hctx->tags &&
			 smqsg_held_maybe_wanted(q, hctx, &hctx->tags->bitmap_tags.ws_active))
			wanted = true;
	}
	return wanted;
}

/*
 * Whether the look has to read all entries of a file, whose queue the caller references. An hctx is
 * inactive as long as its CPUs are offline, but it only has idle requests when it becomes inactive.
 */
static bool smqsg_held_scan_due(struct smqsg_fd *fd)
{
	u64 offline;
	bool wanted = smqsg_held_any_wanted(fd->q, &offline);
	bool changed = offline != fd->held.offline;

	if (!wanted && !changed && time_before(jiffies, fd->held.scan))
		return false;
	fd->held.offline = offline;
	/* A command that ended just before the change may keep its request just after this scan. */
	fd->held.scan = jiffies + (changed ? 0 : SMQSG_HELD_SCAN);
	return true;
}

/* Gives back idle requests of all files where needed. Returns whether any entry is in use. */
static bool smqsg_held_look_all(struct smqsg_dev *sg)
{
	bool all, every, any = false;
	struct smqsg_fd *fd;

	spin_lock(&sg->lock);
	smqsg_held_set_limits(sg);
	list_for_each_entry(fd, &sg->held.files, held.sibling) {
		/* The reference keeps the queue from being frozen: so no hctx is freed. */
		all = !sg->sdev || percpu_ref_is_dying(&fd->q->q_usage_counter) ||
		      !percpu_ref_tryget(&fd->q->q_usage_counter);
		every = all || fd->held.over_limit ||
			!list_empty_careful(&fd->sdev->host->starved_list);
		if (every || smqsg_held_scan_due(fd))
			smqsg_held_collect(fd, every);
		smqsg_held_limit(fd, fd->held.limit);
		if (!all)
			percpu_ref_put(&fd->q->q_usage_counter);
		any |= READ_ONCE(fd->held.used);
	}
	spin_unlock(&sg->lock);
	return any;
}

static void smqsg_held_look(struct work_struct *work)
{
	struct smqsg_dev *sg = container_of(work, struct smqsg_dev, held.look.work);

	if (smqsg_held_look_all(sg))
		smqsg_held_look_later(sg);
}

/**
 * smqsg_held_give_back() - gives back the idle requests of files over their limits
 * @sg: the node; once its device is removed, no request may be kept
 *
 * Also gives back what the look would. Process context. Does not wait.
 */
void smqsg_held_give_back(struct smqsg_dev *sg)
{
	smqsg_held_look_all(sg);
}

/**
 * smqsg_held_give_back_all() - gives back all idle requests of a node
 * @sg: the node
 *
 * Called when a command needs a tag. Process context.
 */
void smqsg_held_give_back_all(struct smqsg_dev *sg)
{
	struct smqsg_fd *fd;

	spin_lock(&sg->lock);
	list_for_each_entry(fd, &sg->held.files, held.sibling)
		smqsg_held_collect(fd, true);
	spin_unlock(&sg->lock);
}

/**
 * smqsg_held_set_share() - sets how many requests all files of a node together may keep
 * @sg: the node
 * @percent: of the queue depth, 0 to 100
 *
 * Return: 0; -EOPNOTSUPP: this kernel's code was not checked for held requests. Process context.
 */
int smqsg_held_set_share(struct smqsg_dev *sg, unsigned int percent)
{
	if (!SMQ_CAN_HOLD && percent)
		return -EOPNOTSUPP;
	spin_lock(&sg->lock);
	WRITE_ONCE(sg->held.share, percent);
	spin_unlock(&sg->lock);
	smqsg_held_give_back(sg);
	return 0;
}

/**
 * smqsg_held_idle() - how many requests are kept for slots that are not running
 * @sg: the node, with its lock held
 *
 * Return: their number, at this moment.
 */
unsigned int smqsg_held_idle(struct smqsg_dev *sg)
{
	struct smqsg_fd *fd;
	unsigned int i, idle = 0;

	lockdep_assert_held(&sg->lock);
	list_for_each_entry(fd, &sg->held.files, held.sibling)
		for (i = 1; i <= fd->held.nr; i++)
			idle += !!READ_ONCE(fd->held.entries[i].rq);
	return idle;
}

/**
 * smqsg_held_open() - sets up held requests of a file, which has no entries yet
 * @fd: the file
 */
void smqsg_held_open(struct smqsg_fd *fd)
{
	spin_lock_init(&fd->held.lock);
}

/**
 * smqsg_held_setup() - sets up a file's entries
 * @fd: the file, with its setup lock held
 * @slots: how many slots the file will have
 * @share: percent of the device's queue depth that the slots may keep
 *
 * Return: 0 or -ENOMEM. May sleep.
 */
int smqsg_held_setup(struct smqsg_fd *fd, u32 slots, u32 share)
{
	struct smqsg_dev *sg = fd->sg;
	struct smqsg_held *held;
	u32 i, nr;

	if (!SMQ_CAN_HOLD || !share)
		return 0;
	/* A device's depth is at most can_queue, and smqsg_slot.held has 16 bits. */
	nr = min3(slots, (u32)fd->sdev->host->can_queue, (u32)U16_MAX);
	held = kvcalloc(nr + 1, sizeof(*held), GFP_KERNEL_ACCOUNT);
	if (!held)
		return -ENOMEM;
	for (i = 0; i <= nr; i++) {
		held[i].slot = SMQSG_HELD_FREE;
		held[i].next = i && i < nr ? i + 1 : 0;
		smqsg_bio_init(&held[i].bio);
	}
	fd->held.free = 1;
	fd->held.share = share;
	fd->held.scan = jiffies + SMQSG_HELD_SCAN;
	spin_lock(&sg->lock);
	fd->held.entries = held;
	fd->held.nr = nr;
	list_add_tail(&fd->held.sibling, &sg->held.files);
	smqsg_held_set_limits(sg);
	spin_unlock(&sg->lock);
	return 0;
}

/**
 * smqsg_held_close() - gives back all requests that a file keeps, and frees its entries
 * @fd: the file; none of its commands is in flight, and no more will be sent
 *
 * Process context.
 */
void smqsg_held_close(struct smqsg_fd *fd)
{
	struct smqsg_dev *sg = fd->sg;
	struct smqsg_held *held = fd->held.entries;

	if (!held)
		return;
	spin_lock(&sg->lock);
	smqsg_held_collect(fd, true);
	fd->held.nr = 0;
	fd->held.entries = NULL;
	smqsg_held_limit(fd, 0);
	list_del(&fd->held.sibling);
	smqsg_held_set_limits(sg);
	spin_unlock(&sg->lock);
	kvfree(held);
}

int smqsg_held_start(void)
{
	smqsg_held_wq = alloc_workqueue("smq_sg_held", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return smqsg_held_wq ? 0 : -ENOMEM;
}

void smqsg_held_stop(void)
{
	destroy_workqueue(smqsg_held_wq);
}

/**
 * smqsg_held_init() - sets up held requests of a node
 * @sg: the node
 */
void smqsg_held_init(struct smqsg_dev *sg)
{
	INIT_LIST_HEAD(&sg->held.files);
	sg->held.share = SMQ_CAN_HOLD ? SMQSG_HELD_SHARE : 0;
	INIT_DELAYED_WORK(&sg->held.look, smqsg_held_look);
}

/**
 * smqsg_held_exit() - stops the look, when the node is freed
 * @sg: the node; no file is open
 *
 * May sleep.
 */
void smqsg_held_exit(struct smqsg_dev *sg)
{
	cancel_delayed_work_sync(&sg->held.look);
}
