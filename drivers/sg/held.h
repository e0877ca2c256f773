/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Held requests: what a slot keeps from one run to the next.
 *
 * A held request has its tag, its reference to the queue, and what the mid-layer prepared: the
 * scatterlist. Idle, it keeps others from all that. So each command's end, and a work item every
 * 20 ms, look whether others need it.
 */
#ifndef SMQSG_HELD_H
#define SMQSG_HELD_H

#include <linux/blk-mq.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <smq/compat.h>

struct smqsg_dev;
struct smqsg_fd;
struct smqsg_slot;

/* smqsg_held.slot of a free entry. */
#define SMQSG_HELD_FREE		U32_MAX
/* What the mid-layer has room for in the command itself: its SCSI_INLINE_SG_CNT. */
#define SMQSG_HELD_SEGMENTS	2

/**
 * struct smqsg_held - an entry: a slot's place for its request
 * @rq: the request, idle between two runs; NULL while the slot runs. Taken out by exchange (full
 *	barrier), put in by the run's end (release): one context at a time has it
 * @slot: the slot that has the entry, or SMQSG_HELD_FREE. Written with smqsg_fd_held.lock held, of
 *	an entry with a request by the context that has taken the request out
 * @cpu: where the request was allocated: elsewhere it would go to another CPU's hctx
 * @hctx: of the request; NULL before that is given back. An hctx may go while the queue is frozen,
 *	so it is looked at with a reference to the queue
 * @asleep: counts tasks that sleep for a tag of @hctx
 * @data: @bio, or NULL of a slot without data
 * @length: bytes of data
 * @keep_flags: rq_flags for the next run: @tag_flags, and RQF_DONTPREP if what the mid-layer
 *	prepared is as the slot has it
 * @tag_flags: what of rq_flags belongs to the tag: it is the same as long as the queue cannot be
 *	frozen. Set at the first end
 * @inlined: what it prepares for this slot lies in the command itself: set at the first end
 * @clean: CDB and data in the request are as the slot has them
 * @next: in the list of free entries, under smqsg_fd_held.lock
 * @token: place in the device's budget that the last straight issue had, or below 0
 * @bio: the slot's data. Of what a run reads the block layer changes but the size
 *
 * A slot has its entry while it runs, or while a request is in it. The context that takes a request
 * out and does not run it frees both: so an entry of a slot without a request belongs to a run.
 * In cache lines of its own: CPUs run different slots of a file.
 */
struct smqsg_held {
	struct request *rq;
	u32 slot;
	u32 cpu;
	struct blk_mq_hw_ctx *hctx;
	atomic_t *asleep;
	struct bio *data;
	u32 length;
	req_flags_t keep_flags;
	req_flags_t tag_flags;
	bool inlined;
	bool clean;
	u32 next;
	int token;
	struct bio bio;
} ____cacheline_aligned_in_smp;

/**
 * struct smqsg_dev_held - held requests of a node
 * @files: files with entries, struct smqsg_fd_held.sibling; under smqsg_dev.lock
 * @share: percent of the depth that held slots of all files may keep; under smqsg_dev.lock
 * @look: gives back held requests that others need, or whose slots do not run; scheduled while a
 *	file has entries in use. On a workqueue of its own: the dispatcher sleeps for the very tags
 *	that it gives back
 *
 * Lives in the node, from smqsg_held_init() to smqsg_held_exit().
 */
struct smqsg_dev_held {
	struct list_head files;
	unsigned int share;
	struct delayed_work look;
};

/**
 * struct smqsg_fd_held - held requests of a file
 * @entries: @nr of them behind the first, which no slot gets; or NULL. Written by SMQ_SG_SETUP,
 *	before smqsg_fd_slots.nr, and by the file's release; others look at it under smqsg_dev.lock
 * @nr: their number; under smqsg_dev.lock
 * @share: percent of the depth that they may keep
 * @limit: how many entries slots may have now; under smqsg_dev.lock
 * @over: they have more. Read without a lock by each run's end: one request more or less for a
 *	moment does no harm
 * @lock: protects @free, @used and which slot has an entry: taken by runs that had none, by ends
 *	that do not keep a request, and by smqsg_dev_held.look. Ends come in any context: taken
 *	with interrupts off
 * @free: the first free entry, by smqsg_held.next; 0 for none
 * @used: how many are not free
 * @sibling: in smqsg_dev_held.files while there are entries
 *
 * Lives in the file. Entries are allocated by smqsg_held_setup() and freed by smqsg_held_close().
 * What each run reads is in another cache line than what changes with entries.
 */
struct smqsg_fd_held {
	struct smqsg_held *entries;
	unsigned int nr;
	unsigned int share;
	unsigned int limit;
	bool over;

	spinlock_t lock ____cacheline_aligned_in_smp; /* see above */
	u32 free;
	u32 used;
	struct list_head sibling;
};

struct smqsg_held *smqsg_held_attach(struct smqsg_fd *fd, struct smqsg_slot *slot, u32 number);
void smqsg_held_release(struct smqsg_fd *fd, struct smqsg_held *held);
void smqsg_held_park(struct smqsg_fd *fd, struct smqsg_held *held, struct request *rq);
void smqsg_held_drop(struct smqsg_fd *fd, struct smqsg_slot *slot, u32 number);
bool smqsg_held_wanted(struct request_queue *q, struct blk_mq_hw_ctx *hctx,
		       const atomic_t *asleep);
void smqsg_held_spare(struct smqsg_dev *sg);
void smqsg_held_give_back(struct smqsg_dev *sg);
int smqsg_held_set_share(struct smqsg_dev *sg, unsigned int percent);
unsigned int smqsg_held_idle(struct smqsg_dev *sg);
void smqsg_held_open(struct smqsg_fd *fd);
int smqsg_held_setup(struct smqsg_fd *fd, u32 slots, u32 share);
void smqsg_held_close(struct smqsg_fd *fd);
void smqsg_held_init(struct smqsg_dev *sg);
void smqsg_held_exit(struct smqsg_dev *sg);
int smqsg_held_start(void);
void smqsg_held_stop(void);

/* direct.c */

bool smqsg_direct_issue(struct smqsg_held *held, struct request *rq);

/*
 * Whether an idle request of this hctx has to be judged by smqsg_held_wanted(). @asleep: counts
 * tasks that sleep for its tags. Any context.
 */
static __always_inline bool smqsg_held_doubtful(struct request_queue *q, struct blk_mq_hw_ctx *hctx,
						const atomic_t *asleep)
{
	/* Its CPUs go, or others' commands wait for the restart that a free would bring. */
	const unsigned long states = BIT(BLK_MQ_S_INACTIVE) | BIT(BLK_MQ_S_SCHED_RESTART);

	return percpu_ref_is_dying(&q->q_usage_counter) || atomic_read(asleep) ||
	       (READ_ONCE(hctx->state) & states);
}

/**
 * smqsg_held_take() - takes a slot's request for a run
 * @fd: the file
 * @held: the slot's last entry
 * @number: the slot's number
 *
 * Return: the request, or NULL if there is none. Any context.
 */
static __always_inline struct request *smqsg_held_take(struct smqsg_fd *fd,
						       struct smqsg_held *held, u32 number)
{
	struct request *rq = xchg(&held->rq, NULL);

	if (unlikely(!rq))
		return NULL;
	/*
	 * The entry may have become another slot's since. And the block layer's look for
	 * timeouts may have a reference since the last run: it has seen the request in flight, and
	 * would judge the new run by the old one's time, or write its flags. The exchange orders
	 * this look behind the state that the end wrote.
	 */
	if (likely(held->slot == number && held->cpu == raw_smp_processor_id() &&
		   atomic_read(&rq->ref) == 1)) {
		/* No other flag survives a free, either. */
		rq->rq_flags = held->keep_flags;
		return rq;
	}
	smqsg_held_park(fd, held, rq);
	return NULL;
}

/**
 * smqsg_held_may_keep() - whether the slot of a run with a good end keeps the request
 * @file: held requests of the file
 * @held: the slot's entry
 * @rq: the request
 *
 * Return: true if so; false if that is not sure: see smqsg_held_wanted(). Any context.
 */
static __always_inline bool smqsg_held_may_keep(const struct smqsg_fd_held *file,
						const struct smqsg_held *held,
						struct request *rq)
{
	return likely(!READ_ONCE(file->over) &&
		      !smqsg_held_doubtful(rq->q, held->hctx, held->asleep));
}

/**
 * smqsg_held_keep() - keeps a request for its slot's next run
 * @held: the slot's entry
 * @rq: the request, which the caller gives away
 *
 * Any context.
 */
static __always_inline void smqsg_held_keep(struct smqsg_held *held, struct request *rq)
{
	/* A walk over all tags skips requests that are not started. */
	WRITE_ONCE(rq->state, MQ_RQ_IDLE);
	/* Pairs with the exchange in smqsg_held_take(), after which all of the above is seen. */
	smp_store_release(&held->rq, rq);
}

#endif /* SMQSG_HELD_H */
