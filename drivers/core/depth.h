/* SPDX-License-Identifier: GPL-2.0 */
/* The inner depth: how many commands a LUN's device takes while the host advertises more. */
#ifndef SMQ_CORE_DEPTH_H
#define SMQ_CORE_DEPTH_H

#include <linux/atomic.h>
#include <linux/blk_types.h>
#include <linux/limits.h>
#include <linux/minmax.h>
#include <linux/spinlock.h>
#include <smq/policy.h>

#include "depth_choice.h"

/* No limit is learned. */
#define SMQ_DEPTH_UNLIMITED	UINT_MAX

/**
 * struct smq_depth - the inner depth of a LUN
 * @depth: how many commands the device takes at once
 * @max: what @depth may grow to
 * @last_full: when the device last said TASK SET FULL, in jiffies
 * @last_ramp: when @depth last grew, in jiffies
 * @full_since: when the device began to answer TASK SET FULL, in jiffies | 1; 0 once it has
 *	completed a command with GOOD. Written without a lock: a race makes the time wrong by at
 *	most one command
 * @lock: protects changes of the first four fields, and @learn: completions on all CPUs change them
 * @map: the budget map that the layer made for the LUN. It is only compared with the LUN's
 *	map, which may be one that the mid-layer made
 * @inflight: commands that have room, counted while a holding policy is effective;
 *	atomic because all CPUs queue and complete
 * @wait: commands that wait for room. A policy may have lists of its own for them; then
 *	@wait has only commands that the LLD or the device refused, which go first
 * @listed: the policy may have commands in lists of its own. Atomic: the CPU that adds a command
 *	sets it; a dispatcher clears it before it asks the policy for the next command
 *
 * @limit: how many commands the device may have by what was learned; written under @lock, read
 *	without it
 * @done: commands completed, and their sectors, as depth_choice.h has them; atomic because
 *	completions on all CPUs add to it
 * @learn: what was learned. @learn.due is read without @lock, @learn.spare and lacked are written
 *	without it: at worst a window is too short, or counts although it should not
 * @pace_at: when @pace_from was taken, in ns; under @lock
 * @pace_from: the number of completed commands, to find out how fast the device is; under @lock
 * @fast: the device is so fast that nothing has to be learned; under @lock
 *
 * Lives in the LUN's smq_lun_core.
 */
struct smq_depth {
	unsigned int depth;
	unsigned int max;
	unsigned long last_full;
	unsigned long last_ramp;
	unsigned long full_since;
	spinlock_t lock;	/* protects the first four fields */
	const struct sbitmap_word *map;
	atomic_t inflight;
	struct smq_hold wait;
	atomic_t listed;
	unsigned int limit;
	atomic64_t done;
	struct smq_learn learn;
	u64 pace_at;
	unsigned int pace_from;
	bool fast;
};

/* How many commands the device may have now. */
static inline int smq_depth_now(const struct smq_depth *depth)
{
	return min(READ_ONCE(depth->depth), READ_ONCE(depth->limit));
}

/* Whether commands may be waiting for room. */
static inline bool smq_depth_has_waiting(const struct smq_depth *depth)
{
	return READ_ONCE(depth->wait.nr) || atomic_read(&depth->listed);
}

/*
 * Takes room for one more command in the inner depth. Returns false if there is none.
 * Context: any.
 */
static inline bool smq_depth_get(struct smq_depth *depth)
{
	int limit = smq_depth_now(depth);
	int old = atomic_read(&depth->inflight);

	do {
		if (old >= limit)
			return false;
	} while (!atomic_try_cmpxchg(&depth->inflight, &old, old + 1));
	return true;
}

/*
 * Gives room back, and starts the dispatch of waiting commands. Fully ordered: either this CPU
 * sees that a command waits, or the CPU that adds that command sees the room. Context: any.
 */
static inline void smq_depth_put(struct smq_depth *depth)
{
	int left = atomic_dec_return(&depth->inflight);

	if (unlikely(smq_depth_has_waiting(depth)))
		smq_hold_kick(&depth->wait);
	else if (left < (int)READ_ONCE(depth->learn.depth) &&
		 READ_ONCE(depth->learn.spare) < (left ? SMQ_LEARN_SPARE : SMQ_LEARN_EMPTY) &&
		 left < (int)READ_ONCE(depth->limit))
		WRITE_ONCE(depth->learn.spare, left ? SMQ_LEARN_SPARE : SMQ_LEARN_EMPTY);
}

/* Notes that a command had to wait for room. Context: any. */
static inline void smq_depth_lacked(struct smq_depth *depth)
{
	if (!READ_ONCE(depth->learn.lacked))
		WRITE_ONCE(depth->learn.lacked, true);
}

void smq_depth_init(struct smq_depth *depth, struct scsi_device *sdev);
int smq_depth_widen(struct smq_host *host, struct scsi_device *sdev, struct smq_depth *depth);
int smq_depth_configured(struct smq_host *host, struct scsi_device *sdev, struct smq_depth *depth);
void smq_depth_full(struct smq_depth *depth, unsigned int inflight);
void smq_depth_good(struct smq_depth *depth, struct scsi_device *sdev);
void smq_depth_credit(struct smq_depth *depth, struct smq_cmd *cmd);
void smq_depth_learn_begin(struct smq_depth *depth, const struct smq_policy *policy);
bool smq_depth_learn(struct smq_depth *depth, struct smq_policy *policy, u64 done);

/*
 * Counts a completed command. Called before smq_depth_put(). Returns whether the device was just
 * found to be fast. Context: any.
 */
static inline bool smq_depth_completed(struct smq_depth *depth, struct smq_policy *policy,
				       unsigned int bytes)
{
	u64 done = atomic64_add_return(SMQ_LEARN_ONE + (bytes >> SECTOR_SHIFT), &depth->done);

	return unlikely(smq_learn_is_due(done, READ_ONCE(depth->learn.due))) &&
	       smq_depth_learn(depth, policy, done);
}

unsigned int smq_depth_inner(int depth);
bool smq_depth_may_hold(struct smq_host *host);
void smq_depth_begin(struct smq_host *host);
bool smq_depth_raise(struct smq_host *host);
bool smq_depth_lower(struct smq_host *host);
bool smq_depth_is_reduced(struct smq_host *host);

#endif /* SMQ_CORE_DEPTH_H */
