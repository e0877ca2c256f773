/* SPDX-License-Identifier: GPL-2.0 */
/* Commands that wait for room: in the inner depth of a LUN, or in a hardware queue. */
#ifndef SMQ_CORE_WAIT_H
#define SMQ_CORE_WAIT_H

#include <linux/workqueue.h>
#include <smq/policy.h>

#include "core.h"

void smq_wait_look(struct work_struct *work);
void smq_wait_for_lun(struct smq_hold *hold);
void smq_wait_for_hwq(struct smq_hold *hold);
bool smq_wait_enter_slow(struct smq_cmd *cmd);
bool smq_wait_follow_slow(struct smq_cmd *cmd);
void smq_wait_refused(struct smq_hwq *hwq, struct list_head *list, enum smq_status st);
bool smq_wait_full(struct smq_cmd *cmd);
void smq_wait_leave(struct smq_cmd *cmd);

/*
 * Takes room in the inner depth for a command. False: there is none, or others wait for
 * it, and the command waits as well.
 *
 * Context: as queue_cmd, inside an RCU read-side section.
 */
static inline bool smq_wait_enter(struct smq_cmd *cmd)
{
	struct smq_depth *depth = &smq_cmd_lun(cmd)->depth;

	if (unlikely(smq_depth_has_waiting(depth) || READ_ONCE(cmd->hwq->core->refused.nr) ||
		     cmd->seen->policy->ops->rated || !smq_depth_get(depth)))
		return smq_wait_enter_slow(cmd);
	cmd->seen->flags |= SMQ_SEEN_COUNTED;
	return true;
}

/*
 * The same for a policy that does not hold what waits for room. False: the hardware queue
 * has refused commands that such a policy issued, and the command waits behind them.
 */
static inline bool smq_wait_follow(struct smq_cmd *cmd)
{
	return likely(!READ_ONCE(cmd->hwq->core->refused.nr)) || smq_wait_follow_slow(cmd);
}

#endif /* SMQ_CORE_WAIT_H */
