/* SPDX-License-Identifier: GPL-2.0 */
/* Commands that dispatch policies hold, and how they make progress. */
#ifndef SMQ_CORE_HOLD_H
#define SMQ_CORE_HOLD_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <smq/policy.h>

/*
 * How long a command is held before the mid-layer gets it back, far below its
 * timeout: HZ at most, a quarter of the timeout where that is short.
 */
#define SMQ_HOLD_BOUND	HZ

/* When a device that was full with nothing in flight is tried again. */
#define SMQ_HOLD_RETRY_NS	(3 * NSEC_PER_MSEC)

/* How often held commands are looked at that may have to go back to the mid-layer. */
#define SMQ_HOLD_LOOK	msecs_to_jiffies(20)

/**
 * struct smq_host_holds - all that is held for a host
 * @lock: protects @lists
 * @lists: each struct smq_hold of the host
 * @wq: runs their work, and @look; WQ_HIGHPRI: by other workers of the CPU than those of
 *	deferred commands, which may compute for long
 * @look: gives back what the mid-layer has to have; runs while anything is held
 *
 * Lifetime: that of the host.
 */
struct smq_host_holds {
	spinlock_t lock;	/* protects lists */
	struct list_head lists;
	struct workqueue_struct *wq;
	struct delayed_work look;
};

int smq_holds_init_host(struct smq_host *host);
void smq_holds_stop_host(struct smq_host *host);
void smq_holds_free_host(struct smq_host *host);
void smq_hold_kick_all(struct smq_host *host);
unsigned int smq_hold_sum(struct smq_host *host);
void smq_hold_del(struct smq_hold *hold, struct smq_cmd *cmd, enum smq_cmd_state state);
bool smq_hold_claim(struct smq_cmd *cmd, enum smq_cmd_state state);
bool smq_hold_timed_out(struct smq_cmd *cmd);

/*
 * Whether error handling has a command: it is not given to the LLD, nor held again.
 * The mid-layer sets this before an abort or its error handler, and clears it when
 * it queues the command anew.
 */
static inline bool smq_cmd_in_eh(struct smq_cmd *cmd)
{
	return test_bit(SCMD_STATE_COMPLETE, &smq_cmd_to_scmd(cmd)->state);
}

#endif /* SMQ_CORE_HOLD_H */
