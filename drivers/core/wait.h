/* SPDX-License-Identifier: GPL-2.0 */
/* Commands that wait for room: in the inner depth of a LUN, or in a hardware queue. */
#ifndef SMQ_CORE_WAIT_H
#define SMQ_CORE_WAIT_H

#include <linux/workqueue.h>
#include <smq/policy.h>

#include "core.h"

/* hold_scan.c */
void smq_hold_scan(struct work_struct *work);

/* wait.c */
void smq_wait_dispatch_lun(struct smq_hold *hold);
void smq_wait_dispatch_hwq(struct smq_hold *hold);
bool smq_wait_enter_slow(struct smq_cmd *cmd);
bool smq_wait_behind(struct smq_cmd *cmd);
bool smq_wait_behind_no_policy(struct smq_cmd *cmd);
void smq_wait_refused(struct smq_hwq *hwq, struct list_head *list, enum smq_status st);
bool smq_wait_full(struct smq_cmd *cmd);
void smq_wait_leave(struct smq_cmd *cmd);
bool smq_wait_must_drain(const struct smq_policy_lun *lun);

/*
 * Takes room in the inner depth for a command. Returns false if the command is held: there is no
 * room, other commands wait for it, the hardware queue is full, or the policy's rate demands it.
 *
 * Context: as queue_cmd, inside an RCU read-side section.
 */
static inline bool smq_wait_enter(struct smq_cmd *cmd)
{
	struct smq_depth *depth = &smq_cmd_lun(cmd)->depth;

	if (unlikely(smq_depth_has_waiting(depth) || smq_hwq_is_full(cmd->hwq) ||
		     cmd->seen->policy->ops->rated || !smq_depth_get(depth)))
		return smq_wait_enter_slow(cmd);
	cmd->seen->flags |= SMQ_SEEN_COUNTED;
	return true;
}

/*
 * As smq_wait_enter(), for a policy that does not keep the inner depth. Returns false if the
 * hardware queue is full: then the command is held behind others.
 */
static inline bool smq_wait_follow(struct smq_cmd *cmd)
{
	return likely(!smq_hwq_is_full(cmd->hwq)) || !smq_wait_behind(cmd);
}

/* Called when a command has left the LLD: its hardware queue may have room. Context: any. */
static inline void smq_wait_room(struct smq_hwq *hwq)
{
	if (unlikely(smq_hwq_is_full(hwq)))
		smq_hold_kick(&hwq->core->refused);
}

#endif /* SMQ_CORE_WAIT_H */
