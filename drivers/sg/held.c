// SPDX-License-Identifier: GPL-2.0
/*
 * Held requests: who may keep one, and who wants it back.
 *
 * An idle request holds up whoever freezes the queue (a change of nr_requests or of the elevator,
 * suspend, removal), takes its CPU offline, or sleeps for a tag. None of them can call us: we look.
 */
#include <linux/slab.h>

#include "held.h"
#include "io.h"

/* How often idle requests are looked at: nobody waits for one for twice this. */
#define SMQSG_HELD_LOOK		max(HZ / 50, 1)
/* How long a request is kept for a slot that does not run. */
#define SMQSG_HELD_IDLE		HZ

/* By itself: the dispatcher's sleeps for the very tags that the look gives back. */
static struct workqueue_struct *smqsg_held_wq;

static void smqsg_held_look_later(struct smqsg_dev *sg)
{
	queue_delayed_work(smqsg_held_wq, &sg->held_look, SMQSG_HELD_LOOK);
}

static void smqsg_held_limit(struct smqsg_fd *fd, unsigned int limit)
{
	WRITE_ONCE(fd->held_limit, limit);
	WRITE_ONCE(fd->held_over, READ_ONCE(fd->held_used) > limit);
}

/* How many entries each file may use. The node's lock is held. */
static void smqsg_held_deal(struct smqsg_dev *sg)
{
	unsigned int depth = sg->sdev ? READ_ONCE(sg->sdev->queue_depth) : 0;
	unsigned int files = 0, most;
	struct smqsg_fd *fd;

	lockdep_assert_held(&sg->lock);
	list_for_each_entry(fd, &sg->files, sibling)
		files += !!fd->held_nr;
	list_for_each_entry(fd, &sg->files, sibling) {
		if (!fd->held_nr)
			continue;
		most = min(depth * sg->held_share / 100 / files, depth * fd->held_share / 100);
		smqsg_held_limit(fd, min(most, fd->held_nr));
	}
}

/**
 * smqsg_held_attach() - gives a slot an entry
 * @fd: the file
 * @slot: the slot, taken
 * @number: its number
 *
 * Return: the entry; NULL: none is left, or none allowed. Process context.
 */
struct smqsg_held *smqsg_held_attach(struct smqsg_fd *fd, struct smqsg_slot *slot, u32 number)
{
	struct smqsg_held *held = NULL;
	unsigned long flags;

	slot->held = 0;
	if (READ_ONCE(fd->held_used) >= READ_ONCE(fd->held_limit)) {
		/* Nobody looks how deep the queue is now, while nothing is kept. */
		if (!READ_ONCE(fd->held_used) && !delayed_work_pending(&fd->sg->held_look))
			smqsg_held_look_later(fd->sg);
		return NULL;
	}
	spin_lock_irqsave(&fd->held_lock, flags);
	if (fd->held_free && fd->held_used < READ_ONCE(fd->held_limit)) {
		slot->held = fd->held_free;
		held = &fd->held[slot->held];
		fd->held_free = held->next;
		WRITE_ONCE(fd->held_used, fd->held_used + 1);
		WRITE_ONCE(held->slot, number);
	}
	spin_unlock_irqrestore(&fd->held_lock, flags);
	if (held)
		smqsg_held_look_later(fd->sg);
	return held;
}

/**
 * smqsg_held_release() - makes an entry nobody's
 * @fd: the file
 * @held: the entry, without a request; that is the caller's and not given back yet
 *
 * Any context.
 */
void smqsg_held_release(struct smqsg_fd *fd, struct smqsg_held *held)
{
	unsigned long flags;

	WRITE_ONCE(held->hctx, NULL);
	spin_lock_irqsave(&fd->held_lock, flags);
	WRITE_ONCE(held->slot, SMQSG_HELD_FREE);
	held->next = fd->held_free;
	fd->held_free = held - fd->held;
	WRITE_ONCE(fd->held_used, fd->held_used - 1);
	spin_unlock_irqrestore(&fd->held_lock, flags);
}

/**
 * smqsg_held_park() - gives a request and its entry back
 * @fd: the file
 * @held: the entry
 * @rq: the request, taken out of it
 *
 * Any context.
 */
void smqsg_held_park(struct smqsg_fd *fd, struct smqsg_held *held, struct request *rq)
{
	smqsg_held_release(fd, held);
	blk_mq_free_request(rq);
}

/**
 * smqsg_held_drop() - gives back what a slot keeps
 * @fd: the file
 * @slot: the slot, taken
 * @number: its number
 *
 * Any context.
 */
void smqsg_held_drop(struct smqsg_fd *fd, struct smqsg_slot *slot, u32 number)
{
	struct smqsg_held *held = &fd->held[slot->held];
	struct request *rq = smqsg_held_take(fd, held, number);

	if (rq)
		smqsg_held_park(fd, held, rq);
}

/**
 * smqsg_held_wanted() - whether anybody waits for what an idle request has
 * @q: its queue
 * @hctx: its hctx
 * @asleep: who sleeps for the hctx's tags
 *
 * An hctx that waits for a request to be given back, only to be run then, is run.
 *
 * Return: true if so. Any context.
 */
bool smqsg_held_wanted(struct request_queue *q, struct blk_mq_hw_ctx *hctx,
		       const atomic_t *asleep)
{
	if (test_and_clear_bit(BLK_MQ_S_SCHED_RESTART, &hctx->state)) {
		/* The bit was set before the hctx looked for requests in vain: it looks again. */
		smp_mb__after_atomic();
		blk_mq_run_hw_queue(hctx, true);
	}
	return smqsg_held_doubtful(q, hctx, asleep);
}

/*
 * Whether an idle request has to go back: it is wanted, or nobody has run its slot for long. It may
 * be taken, and given back, right now: requests stay where they are as long as their host, hctxs
 * and tags as long as the queue cannot be frozen, and what is judged wrongly does no harm.
 */
static bool smqsg_held_over(struct smqsg_fd *fd, struct smqsg_held *held, struct request *rq)
{
	struct blk_mq_hw_ctx *hctx = READ_ONCE(held->hctx);
	const atomic_t *asleep = READ_ONCE(held->asleep);
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);

	/* Somebody gives it back already. */
	if (!hctx)
		return false;
	if (smqsg_held_doubtful(fd->q, hctx, asleep) && smqsg_held_wanted(fd->q, hctx, asleep))
		return true;
	return time_after(jiffies, READ_ONCE(scmd->jiffies_at_alloc) + SMQSG_HELD_IDLE);
}

/* Takes a file's idle requests back, all or those that somebody wants or nobody uses. */
static void smqsg_held_collect(struct smqsg_fd *fd, bool all)
{
	unsigned int i;

	for (i = 1; i <= fd->held_nr && READ_ONCE(fd->held_used); i++) {
		struct smqsg_held *held = &fd->held[i];
		/* Pairs with smqsg_held_keep(): the entry is as it was written before. */
		struct request *rq = smp_load_acquire(&held->rq);

		if (!rq || (!all && !smqsg_held_over(fd, held, rq)))
			continue;
		rq = xchg(&held->rq, NULL);
		if (rq)
			smqsg_held_park(fd, held, rq);
	}
}

/* Looks who wants requests back; returns whether there are any yet. */
static bool smqsg_held_look_all(struct smqsg_dev *sg)
{
	struct smqsg_fd *fd;
	bool all, any = false;

	spin_lock(&sg->lock);
	smqsg_held_deal(sg);
	list_for_each_entry(fd, &sg->files, sibling) {
		if (!fd->held_nr)
			continue;
		/* No hctx goes while the queue cannot be frozen. */
		all = !sg->sdev || percpu_ref_is_dying(&fd->q->q_usage_counter) ||
		      !percpu_ref_tryget(&fd->q->q_usage_counter);
		smqsg_held_collect(fd, all || fd->held_over ||
				   !list_empty_careful(&fd->sdev->host->starved_list));
		smqsg_held_limit(fd, fd->held_limit);
		if (!all)
			percpu_ref_put(&fd->q->q_usage_counter);
		any |= READ_ONCE(fd->held_used);
	}
	spin_unlock(&sg->lock);
	return any;
}

static void smqsg_held_look(struct work_struct *work)
{
	struct smqsg_dev *sg = container_of(work, struct smqsg_dev, held_look.work);

	if (smqsg_held_look_all(sg))
		smqsg_held_look_later(sg);
}

/**
 * smqsg_held_give_back() - gives back what nobody uses, now that less may be kept
 * @sg: the node
 *
 * Process context. Waits for nobody.
 */
void smqsg_held_give_back(struct smqsg_dev *sg)
{
	smqsg_held_look_all(sg);
}

/**
 * smqsg_held_spare() - gives back all idle requests of a node, for a command that needs a tag
 * @sg: the node
 *
 * Process context.
 */
void smqsg_held_spare(struct smqsg_dev *sg)
{
	struct smqsg_fd *fd;

	spin_lock(&sg->lock);
	list_for_each_entry(fd, &sg->files, sibling)
		smqsg_held_collect(fd, true);
	spin_unlock(&sg->lock);
}

/**
 * smqsg_held_set_share() - how much all files of a node may keep
 * @sg: the node
 * @percent: of the queue depth, 0 to 100
 *
 * Return: 0; -EOPNOTSUPP: holding is not known to work on this kernel. Process context.
 */
int smqsg_held_set_share(struct smqsg_dev *sg, unsigned int percent)
{
	if (!SMQ_CAN_HOLD && percent)
		return -EOPNOTSUPP;
	spin_lock(&sg->lock);
	WRITE_ONCE(sg->held_share, percent);
	spin_unlock(&sg->lock);
	smqsg_held_give_back(sg);
	return 0;
}

/**
 * smqsg_held_idle() - how many requests are kept for slots that do not run
 * @sg: the node, with its lock held
 *
 * Return: their number, at this moment.
 */
unsigned int smqsg_held_idle(struct smqsg_dev *sg)
{
	struct smqsg_fd *fd;
	unsigned int i, idle = 0;

	lockdep_assert_held(&sg->lock);
	list_for_each_entry(fd, &sg->files, sibling)
		for (i = 1; i <= fd->held_nr; i++)
			idle += !!READ_ONCE(fd->held[i].rq);
	return idle;
}

/**
 * smqsg_held_setup() - sets up a file's entries
 * @fd: the file, with its setup lock held
 * @slots: how many it will have
 * @share: percent of the device's queue depth that they may keep
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
	/* There is no more to be kept than the host has tags; slots number entries in 16 bits. */
	nr = min3(slots, (u32)fd->sdev->host->can_queue, (u32)U16_MAX);
	held = kvcalloc(nr + 1, sizeof(*held), GFP_KERNEL_ACCOUNT);
	if (!held)
		return -ENOMEM;
	for (i = 0; i <= nr; i++) {
		held[i].slot = SMQSG_HELD_FREE;
		held[i].next = i && i < nr ? i + 1 : 0;
		smqsg_bio_init(&held[i].bio);
	}
	fd->held_free = 1;
	fd->held_share = share;
	spin_lock(&sg->lock);
	fd->held = held;
	fd->held_nr = nr;
	smqsg_held_deal(sg);
	spin_unlock(&sg->lock);
	return 0;
}

/**
 * smqsg_held_close() - gives back all that a file keeps, and its entries
 * @fd: the file; nothing of it is in flight, nor will be
 *
 * Process context.
 */
void smqsg_held_close(struct smqsg_fd *fd)
{
	struct smqsg_dev *sg = fd->sg;
	struct smqsg_held *held = fd->held;

	if (!held)
		return;
	spin_lock(&sg->lock);
	smqsg_held_collect(fd, true);
	fd->held_nr = 0;
	fd->held = NULL;
	smqsg_held_limit(fd, 0);
	smqsg_held_deal(sg);
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

/* A node's beginning. */
void smqsg_held_init(struct smqsg_dev *sg)
{
	sg->held_share = SMQ_CAN_HOLD ? SMQSG_HELD_SHARE : 0;
	INIT_DELAYED_WORK(&sg->held_look, smqsg_held_look);
}

/* The node's end: no file is open. */
void smqsg_held_exit(struct smqsg_dev *sg)
{
	cancel_delayed_work_sync(&sg->held_look);
}
