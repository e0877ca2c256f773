/* SPDX-License-Identifier: GPL-2.0 */
/* Commands that a dispatch policy holds back, and how they get on. */
#ifndef SMQ_HOLD_H
#define SMQ_HOLD_H

#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <smq/lld.h>

#include "batch_choice.h"

/*
 * How long a command is held before the mid-layer gets it back, far below its
 * timeout: HZ at most, a quarter of the timeout where that is short.
 */
#define SMQ_HOLD_BOUND	HZ

/* When a device that was full with nothing in flight is tried again. */
#define SMQ_HOLD_RETRY_NS	(3 * NSEC_PER_MSEC)

/* How often recovery is looked for that held commands may keep from beginning. */
#define SMQ_RECOVERY_LOOK	msecs_to_jiffies(20)

/**
 * struct smq_hold - what is held for a hardware queue
 * @hwq: the hardware queue
 * @lock: protects all but @inflight, @timer and @work: commands are queued,
 *	dispatched and completed by several CPUs, completed in interrupts: taken
 *	with interrupts off. Held for list work only, never while the LLD or the
 *	mid-layer is called
 * @cmds: held commands, in the order they came; all are SMQ_HELD
 * @nr: of them; also read without the lock, to see whether there are any
 * @bytes: that they move
 * @full: the LLD did not take one: the next completion helps
 * @expired: some have been held for too long
 * @opened: when the first of them came, ktime in ns
 * @passed: commands went to the LLD past the policy and have not been committed;
 *	atomic because CPUs that share the queue take turns at it. Not kept while
 *	&smq_host.passes is set: a last command that is held then has them committed
 * @batch: the choices of the policy "batch"
 * @inflight: held commands that the LLD has been given; atomic because
 *	completion takes no lock
 * @timer: the end of waiting
 * @work: dispatches in process context, for timer and completion
 *
 * Lifetime: that of its hardware queue. Timer and work are stopped when no
 * command of the host is left.
 */
struct smq_hold {
	struct smq_hwq *hwq;
	spinlock_t lock;	/* protects what follows */
	struct list_head cmds;
	unsigned int nr;
	unsigned int bytes;
	bool full;
	bool expired;
	u64 opened;
	struct smq_batch batch;
	atomic_t passed;
	atomic_t inflight;
	struct hrtimer timer;
	struct work_struct work;
};

struct smq_hold *smq_hold_alloc(struct smq_hwq *hwq);
void smq_hold_free(struct smq_hold *hold);
void smq_hold_stop(struct smq_hold *hold);

void smq_hold_add(struct smq_hold *hold, struct smq_cmd *cmd, bool first);
void smq_hold_wait(struct smq_hold *hold, u64 ns);
void smq_hold_dispatch(struct smq_hwq *hwq, bool sample);
void smq_hold_kick(struct smq_hold *hold);
void smq_hold_kick_all(struct smq_host *host);
void smq_hold_commit_all(struct smq_host *host);
bool smq_hold_claim(struct smq_cmd *cmd);
bool smq_hold_timed_out(struct smq_cmd *cmd);
bool smq_hold_done(struct smq_cmd *cmd, u8 flags);
bool smq_hold_full(struct smq_cmd *cmd, u8 flags);
void smq_hold_refused(struct smq_cmd *cmd);
void smq_hold_taken(struct smq_cmd *cmd, u8 flags);
void smq_hold_recovery(struct work_struct *work);
void smq_hold_watch_recovery(struct smq_host *host);

/* lun.c: inner depth */
void smq_lun_full(struct smq_lun *lun, unsigned int inflight);
void smq_lun_grow(struct smq_lun *lun);
void smq_luns_raise(struct smq_host *host);
void smq_luns_lower(struct smq_host *host);
void smq_luns_begin(struct smq_host *host);

/* Room for one more command in the inner depth. Context: any. */
static inline bool smq_lun_get(struct smq_lun *lun)
{
	int limit = READ_ONCE(lun->depth);
	int old = atomic_read(&lun->inflight);

	do {
		if (old >= limit)
			return false;
	} while (!atomic_try_cmpxchg(&lun->inflight, &old, old + 1));
	return true;
}

/* Fully ordered, so that who then looks at lun->waiting misses nobody. */
static inline void smq_lun_put(struct smq_lun *lun)
{
	atomic_dec_return(&lun->inflight);
}

/*
 * Whether error handling has a command: it is not given to the LLD, nor held again.
 * The mid-layer sets this before an abort or its error handler, and clears it when
 * it queues the command anew.
 */
static inline bool smq_cmd_in_eh(struct smq_cmd *cmd)
{
	return test_bit(SCMD_STATE_COMPLETE, &smq_cmd_to_scmd(cmd)->state);
}

static inline struct smq_lun *smq_cmd_lun(struct smq_cmd *cmd)
{
	return smq_sdev_to_lun(smq_cmd_to_scmd(cmd)->device);
}

#endif /* SMQ_HOLD_H */
