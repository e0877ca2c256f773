/* SPDX-License-Identifier: GPL-2.0 */
/* Commands that dispatch policies hold, and how they make progress. */
#ifndef SMQ_CORE_HOLD_H
#define SMQ_CORE_HOLD_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <smq/policy.h>

/*
 * The hold bound of a policy without hold_ms: how long a command may be held before it goes back to
 * the mid-layer, in jiffies. A quarter of the command's timeout if that is less.
 */
#define SMQ_HOLD_BOUND	HZ

/* Time until a full device or hardware queue is tried again, if no completion comes first. */
#define SMQ_HOLD_RETRY_NS	(3 * NSEC_PER_MSEC)

/* Time between two scans, in jiffies. */
#define SMQ_HOLD_SCAN	msecs_to_jiffies(20)

/**
 * struct smq_host_holds - all held commands of a host
 * @lock: protects @lists, and a LUN that smq_lun_room() uses from smq_sdev_destroy()
 * @lists: each struct smq_hold of the host
 * @wq: runs the work items of the lists, and @scan; WQ_HIGHPRI, so that these do not wait behind
 *	deferred commands, which may use the CPU for long in its workers of normal priority
 * @scan: returns commands to the mid-layer; runs while any command is held
 *
 * Lives as long as the host.
 */
struct smq_host_holds {
	spinlock_t lock;	/* see above */
	struct list_head lists;
	struct workqueue_struct *wq;
	struct delayed_work scan;
};

int smq_holds_init_host(struct smq_host *host);
void smq_holds_stop_host(struct smq_host *host);
void smq_holds_free_host(struct smq_host *host);
void smq_hold_kick_all(struct smq_host *host);
unsigned int smq_hold_sum(struct smq_host *host);
void smq_hold_del(struct smq_hold *hold, struct smq_cmd *cmd, enum smq_cmd_state state);
bool smq_hold_take_from(struct smq_hold *hold, struct smq_cmd *cmd,
			const struct smq_policy_cmd *seen, enum smq_cmd_state state);
bool smq_hold_take_back(struct smq_cmd *cmd, enum smq_cmd_state state);
bool smq_hold_timed_out(struct smq_cmd *cmd);

/*
 * Whether error handling has a command. Such a command is neither dispatched nor held again. The
 * mid-layer sets the bit before it starts an abort or its error handler, and clears it when it
 * queues the command again.
 */
static inline bool smq_cmd_in_eh(struct smq_cmd *cmd)
{
	return test_bit(SCMD_STATE_COMPLETE, &smq_cmd_to_scmd(cmd)->state);
}

#endif /* SMQ_CORE_HOLD_H */
