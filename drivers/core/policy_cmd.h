/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Commands that a policy has seen. From smq_seen_begin() to smq_seen_end() such a command has a
 * struct smq_policy_cmd, and a reference to the policy.
 */
#ifndef SMQ_CORE_POLICY_CMD_H
#define SMQ_CORE_POLICY_CMD_H

#include <smq/policy.h>

#include "core.h"

static inline void smq_seen_set(struct smq_policy *policy, struct smq_policy_lun *lun,
				struct smq_cmd *cmd)
{
	struct request *rq = scsi_cmd_to_rq(smq_cmd_to_scmd(cmd));
	unsigned int at = rq->mq_hctx->queue_num * policy->tag_step + rq->tag;
	struct smq_policy_cmd *seen = policy->cmds + at * policy->cmd_stride;

	percpu_ref_get(&policy->refs);
	seen->policy = policy;
	seen->lun = lun;
	seen->held_in = NULL;
	seen->held_since = 0;
	seen->flags = 0;
	WRITE_ONCE(cmd->seen, seen);
}

/*
 * Sets up the policy's part of a command. Returns false if the LUN has no part of this policy:
 * there was no memory for it, or the LUN was found while the policy was being changed.
 *
 * Context: inside an RCU read-side section; the caller owns the command.
 */
static inline bool smq_seen_begin(struct smq_policy *policy, struct smq_cmd *cmd)
{
	struct smq_policy_lun *lun = rcu_dereference(smq_cmd_lun(cmd)->policy);

	if (unlikely(!lun || lun->policy != policy))
		return false;
	smq_seen_set(policy, lun, cmd);
	return true;
}

/*
 * As smq_seen_begin(), for a command that the layer holds without a policy. Returns false if the
 * host is still being added, or if there was no memory for no_policy.
 */
static inline bool smq_seen_begin_no_policy(struct smq_cmd *cmd)
{
	/* Acquire: pairs with smq_no_policy_add(). */
	struct smq_policy *no_policy = smp_load_acquire(&cmd->hwq->host->core->no_policy);

	if (no_policy)
		smq_seen_set(no_policy, NULL, cmd);
	return no_policy;
}

/* Called when a command ends or is returned to the mid-layer. Context: as smq_seen_begin(). */
static inline void smq_seen_end(struct smq_cmd *cmd)
{
	struct smq_policy *policy = cmd->seen->policy;

	if (unlikely(cmd->seen->flags & SMQ_SEEN_MOVED))
		smq_move_end(cmd);
	WRITE_ONCE(cmd->seen, NULL);
	percpu_ref_put(&policy->refs);
}

/* Asks the policy where a command goes. Returns NULL if the command is held. Not the hot path. */
static inline struct smq_hwq *smq_seen_queue(struct smq_cmd *cmd, bool last)
{
	struct smq_policy *policy = cmd->seen->policy;

	/* Do not ask a policy that is no longer effective. */
	if (rcu_access_pointer(policy->host->policy) != policy)
		return cmd->hwq;
	cmd->seen->flags |= SMQ_SEEN_QUEUED;
	return policy->ops->queue(policy, cmd->hwq, cmd, last);
}

/* Calls ops->done() for a command for which ops->queue() was called. Not on the hot path. */
static inline void smq_seen_done(struct smq_cmd *cmd)
{
	struct smq_policy *policy = cmd->seen->policy;

	if (cmd->seen->flags & SMQ_SEEN_QUEUED && policy->ops->done)
		policy->ops->done(policy, cmd);
	cmd->seen->flags &= ~SMQ_SEEN_QUEUED;
}

static inline void smq_count_refusal(struct smq_hwq *hwq, enum smq_status st)
{
	if (st == SMQ_HWQ_BUSY)
		this_cpu_inc(hwq->stats->busy_hwq);
	else if (st == SMQ_DEVICE_BUSY)
		this_cpu_inc(hwq->stats->busy_device);
	else if (st == SMQ_TARGET_BUSY)
		this_cpu_inc(hwq->stats->busy_target);
	else
		this_cpu_inc(hwq->stats->busy_host);
}

/* The policy that a host has chosen. Context: inside an RCU read-side section. */
static inline struct smq_policy *smq_host_chosen_policy(struct smq_host *host)
{
	return rcu_dereference(host->core->choice.policy);
}

/* Whether commands that the LLD refuses are held, rather than returned to the mid-layer. */
static inline bool smq_host_holds(struct smq_host *host)
{
	const struct smq_policy *policy = smq_host_chosen_policy(host);

	return policy && policy->ops->holds;
}

#endif /* SMQ_CORE_POLICY_CMD_H */
