/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Held requests: a slot keeps its request from one run to the next.
 *
 * A held request keeps its tag, its reference to the queue, and the scatterlist that the mid-layer
 * prepared. While it is idle, other commands cannot use its tag, and the queue cannot be frozen. So
 * the end of each command, and a work item every 20 ms, check whether others need the request.
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
/* Scatterlist entries that fit into the command itself: the mid-layer's SCSI_INLINE_SG_CNT. */
#define SMQSG_HELD_SEGMENTS	2

/**
 * struct smqsg_held - an entry: a slot's place for its request
 * @rq: the request, idle between two runs; NULL while the slot runs. Taken out by exchange (full
 *	barrier), put in by the run's end (release): one context at a time has it
 * @slot: the slot that has the entry, or SMQSG_HELD_FREE. Written with smqsg_fd_held.lock held; if
 *	the entry had a request, only by the context that has taken the request out
 * @cpu: the CPU on which the request was allocated. Only this CPU runs it again: on another one it
 *	would still go to this CPU's hctx
 * @hctx: the request's hctx; set to NULL before the request is given back. An hctx may be freed
 *	while the queue is frozen, so it is read only with a reference to the queue
 * @tag_sleepers: counter of the tasks that sleep for a tag of @hctx
 * @data: @bio, or NULL if the slot's request has no bio
 * @length: bytes of data
 * @keep_flags: rq_flags for the next run: @tag_flags, and RQF_DONTPREP if the next run can use what
 *	was prepared for the last one
 * @tag_flags: the flags in rq_flags that belong to the tag. They stay the same as long as the queue
 *	cannot be frozen. Set at the end of the first run
 * @inlined: all that the mid-layer prepares for this slot lies in the command itself. Set at the
 *	end of the first run
 * @as_slot: the request has the CDB and data of its slot, not those of a run with another LBA or
 *	buffer
 * @next: in a free entry: index of the next free one, or 0; under smqsg_fd_held.lock
 * @token: the token in the device's budget that the last straight issue (see direct.h) got,
 *	or below 0
 * @bio: the slot's data. Of the fields that a run reads, the block layer changes only the size
 *
 * A slot has an entry while it runs, and while its request lies in the entry. Code that takes the
 * request out and does not run it frees both the request and the entry. So an entry that a slot
 * has, and in which no request lies, belongs to a run. An entry has cache lines of its own, because
 * CPUs run different slots of a file at the same time.
 */
struct smqsg_held {
	struct request *rq;
	u32 slot;
	u32 cpu;
	struct blk_mq_hw_ctx *hctx;
	atomic_t *tag_sleepers;
	struct bio *data;
	u32 length;
	req_flags_t keep_flags;
	req_flags_t tag_flags;
	bool inlined;
	bool as_slot;
	u32 next;
	int token;
	struct bio bio;
} ____cacheline_aligned_in_smp;

/**
 * struct smqsg_dev_held - held requests of a node
 * @files: files with entries, struct smqsg_fd_held.sibling; under smqsg_dev.lock
 * @share: percent of the depth that held slots of all files may keep; under smqsg_dev.lock
 * @look: gives back held requests that others need, or whose slots do not run; scheduled while a
 *	file has entries in use. It does not share a workqueue with the dispatcher of depth.h, which
 *	sleeps for tags that this work gives back
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
 * @entries: an array of @nr + 1 entries, of which no slot gets the first; or NULL. Written by
 *	SMQ_SG_SETUP, before smqsg_fd_slots.nr, and by the file's release; the look and other files
 *	read it under smqsg_dev.lock
 * @nr: the number of entries that slots may get; under smqsg_dev.lock
 * @share: percent of the device's depth that the file's held requests may keep
 * @limit: how many entries slots may have now; under smqsg_dev.lock
 * @over_limit: slots have more entries than @limit. The end of each run reads it without a lock:
 *	one request more or less for a moment does no harm
 * @lock: protects @free, @used and smqsg_held.slot. Taken by runs of slots that have no entry, by
 *	the end of a run that does not keep its request, and by smqsg_dev_held.look; with
 *	interrupts off, because runs end in any context
 * @free: index of the first free entry; smqsg_held.next links the others. 0 for none
 * @used: how many entries are not free
 * @scan: when the look next reads all entries, in jiffies; under smqsg_dev.lock
 * @offline: which hctxs were inactive when it last did so; under smqsg_dev.lock
 * @sibling: in smqsg_dev_held.files while there are entries
 *
 * Lives in the file. Entries are allocated by smqsg_held_setup() and freed by smqsg_held_close().
 * The fields that each run reads are in another cache line than those that change when a slot gets
 * or frees an entry.
 */
struct smqsg_fd_held {
	struct smqsg_held *entries;
	unsigned int nr;
	unsigned int share;
	unsigned int limit;
	bool over_limit;

	spinlock_t lock ____cacheline_aligned_in_smp; /* see above */
	u32 free;
	u32 used;
	unsigned long scan;
	u64 offline;
	struct list_head sibling;
};

struct smqsg_held *smqsg_held_attach(struct smqsg_fd *fd, struct smqsg_slot *slot, u32 number);
void smqsg_held_release(struct smqsg_fd *fd, struct smqsg_held *held);
void smqsg_held_free_request(struct smqsg_fd *fd, struct smqsg_held *held, struct request *rq);
void smqsg_held_drop(struct smqsg_fd *fd, struct smqsg_slot *slot, u32 number);
bool smqsg_held_wanted(struct request_queue *q, struct blk_mq_hw_ctx *hctx,
		       const atomic_t *tag_sleepers);
void smqsg_held_give_back_all(struct smqsg_dev *sg);
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

/*
 * Whether others may want an idle request of this hctx. If so, smqsg_held_wanted() decides.
 * @tag_sleepers counts tasks that sleep for the hctx's tags. Any context.
 */
static __always_inline bool smqsg_held_maybe_wanted(struct request_queue *q,
						    struct blk_mq_hw_ctx *hctx,
						    const atomic_t *tag_sleepers)
{
	/* The hctx's CPUs go offline, or commands wait until a freed request restarts the hctx. */
	const unsigned long states = BIT(BLK_MQ_S_INACTIVE) | BIT(BLK_MQ_S_SCHED_RESTART);

	return percpu_ref_is_dying(&q->q_usage_counter) || atomic_read(tag_sleepers) ||
	       (READ_ONCE(hctx->state) & states);
}

/**
 * smqsg_held_take() - takes a slot's request for a run
 * @fd: the file
 * @held: the last entry that the slot had
 * @number: the slot's number
 *
 * Return: the request, or NULL if there is none. Any context.
 */
static __always_inline struct request *smqsg_held_take(struct smqsg_fd *fd,
						       struct smqsg_held *held, u32 number)
{
	struct request *rq;

	/*
	 * Another slot may have got the entry after this slot's last run. Its request stays: if
	 * slots took requests from each other, each of their runs would need a new one.
	 */
	if (unlikely(READ_ONCE(held->slot) != number))
		return NULL;
	rq = xchg(&held->rq, NULL);
	if (unlikely(!rq))
		return NULL;
	/*
	 * Another slot may have got the entry before the exchange. Also, the block layer's scan for
	 * timeouts may still have a reference from the last run: it has seen the request in flight,
	 * and would apply the old run's deadline to the new run, or write the request's flags. The
	 * exchange is a full barrier: rq->ref is read after the write of rq->state at the end of
	 * the last run.
	 */
	if (likely(held->slot == number && held->cpu == raw_smp_processor_id() &&
		   atomic_read(&rq->ref) == 1)) {
		/* Drop all other flags, as freeing the request and allocating it again would. */
		rq->rq_flags = held->keep_flags;
		return rq;
	}
	smqsg_held_free_request(fd, held, rq);
	return NULL;
}

/**
 * smqsg_held_may_store() - whether a slot keeps its request after a run that ended with GOOD
 * @file: held requests of the file
 * @held: the slot's entry
 * @rq: the request
 *
 * Return: true if it does; false if smqsg_held_ended_wanted() has to decide. Any context.
 */
static __always_inline bool smqsg_held_may_store(const struct smqsg_fd_held *file,
						 const struct smqsg_held *held,
						 struct request *rq)
{
	return likely(!READ_ONCE(file->over_limit) &&
		      !smqsg_held_maybe_wanted(rq->q, held->hctx, held->tag_sleepers));
}

/**
 * smqsg_held_store() - keeps a request for its slot's next run
 * @held: the slot's entry
 * @rq: the request; the caller no longer uses it
 *
 * Any context.
 */
static __always_inline void smqsg_held_store(struct smqsg_held *held, struct request *rq)
{
	/* A walk over all tags skips requests that are not started. */
	WRITE_ONCE(rq->state, MQ_RQ_IDLE);
	/* Pairs with the exchange in smqsg_held_take(): its CPU then sees all of the above. */
	smp_store_release(&held->rq, rq);
}

#endif /* SMQSG_HELD_H */
