/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Held requests: what a slot keeps from one run to the next.
 *
 * A held request has its tag, its reference to the queue, and what the mid-layer prepared: the
 * scatterlist. Idle, it keeps others from all that, so that who needs it must be seen:
 * by each command's end, and by a work item that looks every 20 ms.
 */
#ifndef SMQSG_HELD_H
#define SMQSG_HELD_H

#include <linux/blk-mq.h>
#include <linux/jiffies.h>
#include <linux/smp.h>

#include "sg.h"

/* smqsg_held.slot of an entry that is nobody's. */
#define SMQSG_HELD_FREE		U32_MAX
/* What the mid-layer has room for in the command itself: its SCSI_INLINE_SG_CNT. */
#define SMQSG_HELD_SEGMENTS	2

/**
 * struct smqsg_held - an entry: a slot's place for its request
 * @rq: the request, idle between two runs; NULL while the slot runs. Exchanged (full barrier) by
 *	whoever takes it out, released by the end that puts it in: whoever has it alone uses it
 * @slot: whose entry it is, SMQSG_HELD_FREE for nobody's. Written with smqsg_fd.held_lock held,
 *	of an entry with a request by who has taken that out
 * @cpu: where the request was allocated: elsewhere it would go to another CPU's hctx
 * @hctx: of the request; NULL before that is given back. An hctx may go while the queue is frozen,
 *	so it is looked at with a reference to the queue
 * @asleep: counts who sleeps for a tag of @hctx
 * @data: @bio, or NULL of a slot without data
 * @length: bytes of data
 * @keep_flags: rq_flags for the next run: @tag_flags, and RQF_DONTPREP if what the mid-layer
 *	prepared is as the slot has it
 * @tag_flags: what of rq_flags belongs to the tag: it is the same as long as the queue cannot be
 *	frozen. Set at the first end
 * @inlined: what it prepares for this slot lies in the command itself: set at the first end
 * @clean: CDB and data in the request are as the slot has them
 * @next: in the list of free entries, under smqsg_fd.held_lock
 * @token: place in the device's budget that the last straight issue had, or below 0
 * @bio: the slot's data. Of what a run reads the block layer changes but the size
 *
 * A slot has its entry while it runs, or while a request is in it. Whoever takes a request out and
 * does not run it frees both: so an entry without a request that is a slot's belongs to a run.
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

struct smqsg_held *smqsg_held_attach(struct smqsg_fd *fd, struct smqsg_slot *slot, u32 number);
void smqsg_held_spare(struct smqsg_dev *sg);
void smqsg_held_release(struct smqsg_fd *fd, struct smqsg_held *held);
void smqsg_held_park(struct smqsg_fd *fd, struct smqsg_held *held, struct request *rq);
void smqsg_held_drop(struct smqsg_fd *fd, struct smqsg_slot *slot, u32 number);
bool smqsg_held_wanted(struct request_queue *q, struct blk_mq_hw_ctx *hctx,
		       const atomic_t *asleep);
int smqsg_held_setup(struct smqsg_fd *fd, u32 slots, u32 share);

/* direct.c */
bool smqsg_direct_issue(struct smqsg_held *held, struct request *rq);

/*
 * Whether an idle request of this hctx has to be judged by smqsg_held_wanted(); @asleep: who sleeps
 * for its tags. Any context.
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
 * @held: what was the slot's last entry
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
	 * timeouts may have a reference since the last run, having seen it in flight, and would
	 * judge the new run by the old one's time, or write its flags. The exchange orders
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
 * smqsg_held_may_keep() - at the good end of a run: whether its slot keeps the request
 * @fd: the file
 * @held: the slot's entry
 * @rq: the request
 *
 * Return: true if so; false if that is not sure: see smqsg_held_wanted(). Any context.
 */
static __always_inline bool smqsg_held_may_keep(struct smqsg_fd *fd, struct smqsg_held *held,
						struct request *rq)
{
	return likely(!READ_ONCE(fd->held_over) &&
		      !smqsg_held_doubtful(rq->q, held->hctx, held->asleep));
}

/**
 * smqsg_held_keep() - keeps a request for its slot's next run
 * @held: the slot's entry
 * @rq: the request, which is no longer the caller's
 *
 * Any context.
 */
static __always_inline void smqsg_held_keep(struct smqsg_held *held, struct request *rq)
{
	/* Those who look through all tags pass by requests that are not started. */
	WRITE_ONCE(rq->state, MQ_RQ_IDLE);
	/* Pairs with the exchange of who takes it out: he sees all of the above. */
	smp_store_release(&held->rq, rq);
}

#endif /* SMQSG_HELD_H */
