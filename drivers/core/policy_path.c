// SPDX-License-Identifier: GPL-2.0
/*
 * Calls the operations of the effective policy for a command on its way between the mid-layer and
 * the LLD. For the policies of this module, the operations ring, queue and done are direct calls.
 */
#include <linux/export.h>
#include <linux/indirect_call_wrapper.h>
#include <linux/rcupdate.h>

#include "../policy/builtin.h"
#include "policy_cmd.h"
#include "smq.h"
#include "wait.h"

/*
 * Returns the policy if it only rings doorbells, else NULL. If the result is not NULL, the caller
 * gives the command to the LLD and then calls smq_policy_ring(), inside the same RCU read-side
 * section.
 */
struct smq_policy *smq_policy_rings(struct smq_hwq *hwq)
{
	struct smq_policy *policy = rcu_dereference(hwq->host->policy);

	return likely(policy && policy->ops->ring && !smq_hwq_is_full(hwq)) ? policy : NULL;
}
EXPORT_SYMBOL_GPL(smq_policy_rings);

/* The LLD has got the last command of a batch. Context: as queue_cmd. */
void smq_policy_ring(struct smq_policy *policy, struct smq_hwq *hwq)
{
	INDIRECT_CALL_1(policy->ops->ring, smq_bucket_has_command, policy, hwq);
}
EXPORT_SYMBOL_GPL(smq_policy_ring);

/*
 * Called for each command on its way to the LLD if the host has an effective policy or the hardware
 * queue is full. Returns the hardware queue that the command goes to, or NULL if the command is
 * held. If the host has dropped the policy since the caller checked, host->policy is NULL here.
 */
struct smq_hwq *smq_policy_queue(struct smq_hwq *hwq, struct smq_cmd *cmd, bool last)
{
	struct smq_policy *policy = rcu_dereference(hwq->host->policy);
	struct smq_hwq *to;

	if (unlikely(!policy || policy->ops->ring || !smq_seen_begin(policy, cmd)))
		return smq_wait_behind_no_policy(cmd) ? NULL : hwq;
	if (policy->ops->holds ? !smq_wait_enter(cmd) : !smq_wait_follow(cmd)) {
		if (last && policy->ops->last)
			policy->ops->last(policy, hwq);
		return NULL;
	}
	cmd->seen->flags |= SMQ_SEEN_QUEUED;
	to = INDIRECT_CALL_3(policy->ops->queue, smq_batch_queue, smq_prio_queue, smq_steer_queue,
			     policy, hwq, cmd, last);
	if (unlikely(to && to != hwq))
		smq_move(cmd, to);
	return to;
}
EXPORT_SYMBOL_GPL(smq_policy_queue);

/*
 * Called when the LLD refused a command that was moved. Returns true if the other hardware queue
 * had no room: then the caller issues the command to @hwq, its own. Context: as queue_cmd, inside
 * an RCU read-side section.
 */
bool smq_policy_fall_back(struct smq_hwq *hwq, struct smq_cmd *cmd, enum smq_status st)
{
	struct smq_policy *policy = cmd->seen->policy;

	if (st != SMQ_HWQ_BUSY && st != SMQ_HOST_BUSY)
		return false;
	smq_count_refusal(cmd->hwq, st);
	if (policy->ops->refused)
		policy->ops->refused(policy, hwq, cmd);
	smq_move(cmd, hwq);
	return true;
}
EXPORT_SYMBOL_GPL(smq_policy_fall_back);

/* Marks @hwq as uncommitted: the LLD got a command that was not the last of its batch. */
void smq_policy_uncommitted(struct smq_hwq *hwq)
{
	struct smq_policy *policy = rcu_dereference(hwq->host->policy);

	/* Release: the CPU that clears the mark commits all commands queued before this. */
	if (policy)
		atomic_set_release(&policy->hwqs[hwq->index]->uncommitted, 1);
}
EXPORT_SYMBOL_GPL(smq_policy_uncommitted);

bool smq_policy_take_uncommitted(struct smq_hwq *hwq)
{
	struct smq_policy *policy = rcu_dereference(hwq->host->policy);
	atomic_t *uncommitted;

	/* No policy, or one that sets no mark: commit in any case. */
	if (!policy || policy->ops->ring)
		return true;
	uncommitted = &policy->hwqs[hwq->index]->uncommitted;
	return atomic_read(uncommitted) && atomic_xchg(uncommitted, 0);
}
EXPORT_SYMBOL_GPL(smq_policy_take_uncommitted);

/* Called when the block layer's batch ended early: no last command will follow. */
void smq_policy_last(struct smq_hwq *hwq)
{
	struct smq_policy *policy;

	rcu_read_lock();
	policy = rcu_dereference(hwq->host->policy);
	if (policy && policy->ops->last)
		policy->ops->last(policy, hwq);
	rcu_read_unlock();
}
EXPORT_SYMBOL_GPL(smq_policy_last);

/* Whether a command may be held: the block layer sent it, and error handling does not have it. */
static bool smq_policy_may_hold(struct smq_cmd *cmd)
{
	return !smq_cmd_in_eh(cmd) &&
	       smq_cmd_to_scmd(cmd)->submitter == SUBMITTED_BY_BLOCK_LAYER;
}

/*
 * Whether a refused command is to be held. If so, the command gets a struct smq_policy_cmd, of the
 * policy or of smq_host_core.no_policy.
 */
static bool smq_policy_begin_refused(struct smq_cmd *cmd, enum smq_status st)
{
	struct smq_host *host = cmd->hwq->host;
	bool holds = smq_host_holds(host);

	if (!smq_policy_may_hold(cmd) || !(holds || st == SMQ_HWQ_BUSY))
		return false;
	return cmd->seen || (holds && smq_seen_begin(smq_host_chosen_policy(host), cmd)) ||
	       (st == SMQ_HWQ_BUSY && smq_seen_begin_no_policy(cmd));
}

/*
 * Called when the LLD refused a command. Returns true if the command is held, false if the caller
 * must return it to the mid-layer. Context: as queue_cmd, inside an RCU read-side section.
 */
bool smq_policy_refused(struct smq_cmd *cmd, enum smq_status st)
{
	struct smq_hwq *hwq = cmd->hwq;
	LIST_HEAD(one);

	if (!smq_policy_begin_refused(cmd, st)) {
		if (cmd->seen)
			smq_wait_leave(cmd);
		return false;
	}
	list_add(&cmd->node, &one);
	smq_wait_refused(hwq, &one, st);
	return true;
}

/*
 * Called for TASK SET FULL if the command is not counted in the inner depth; the caller owns the
 * command. Returns true if it is held. Context: any, inside an RCU read-side section.
 */
bool smq_policy_full(struct smq_cmd *cmd)
{
	if (cmd->hwq->host->attached || !smq_host_holds(cmd->hwq->host) ||
	    !smq_policy_may_hold(cmd) ||
	    (!cmd->seen && !smq_seen_begin(smq_host_chosen_policy(cmd->hwq->host), cmd)))
		return false;
	/*
	 * The mid-layer counts the commands that the layer does not count: use the mid-layer's
	 * number, less this command.
	 */
	smq_depth_full(&smq_cmd_lun(cmd)->depth,
		       scsi_device_busy(smq_cmd_to_scmd(cmd)->device) - 1);
	if (smq_wait_full(cmd))
		return true;
	smq_seen_end(cmd);
	return false;
}
EXPORT_SYMBOL_GPL(smq_policy_full);

/* The part of smq_policy_done() for a command that is counted in the inner depth. */
static bool smq_policy_done_counted(struct smq_cmd *cmd)
{
	struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);
	struct smq_depth *depth = &smq_cmd_lun(cmd)->depth;
	struct smq_policy_cmd *seen = cmd->seen;

	if (likely(!scmd->result)) {
		smq_depth_good(depth, scmd->device);
		if (seen->policy->ops->learns &&
		    smq_depth_completed(depth, seen->policy, scsi_bufflen(scmd)))
			smq_use_fast(seen->policy->host);
	} else if (scmd->result == SAM_STAT_TASK_SET_FULL && smq_host_holds(cmd->hwq->host)) {
		seen->flags &= ~SMQ_SEEN_COUNTED;
		smq_depth_full(depth, atomic_dec_return(&depth->inflight));
		/* The mid-layer repeats the command of an attached host. */
		if (!cmd->hwq->host->attached && smq_wait_full(cmd))
			return true;
		if (smq_depth_has_waiting(depth))
			smq_hold_kick(&depth->wait);
		return false;
	}
	smq_depth_put(depth);
	return false;
}

/*
 * Called when the LLD has completed a command that a policy has seen; the caller owns the command.
 * Returns true if it is held again. Context: any, inside an RCU read-side section.
 */
bool smq_policy_done(struct smq_cmd *cmd)
{
	struct smq_policy_cmd *seen = cmd->seen;
	struct smq_policy *policy = seen->policy;

	if (seen->flags & SMQ_SEEN_QUEUED) {
		seen->flags &= ~SMQ_SEEN_QUEUED;
		if (policy->ops->done)
			INDIRECT_CALL_2(policy->ops->done, smq_batch_done, smq_steer_done, policy,
					cmd);
	}
	if (seen->flags & SMQ_SEEN_COUNTED && smq_policy_done_counted(cmd))
		return true;
	smq_seen_end(cmd);
	return false;
}
EXPORT_SYMBOL_GPL(smq_policy_done);

/*
 * Called when error handling has taken a command from the LLD or from a list, and owns it.
 * Context: any, inside an RCU read-side section.
 */
void smq_policy_taken(struct smq_cmd *cmd)
{
	smq_wait_leave(cmd);
}
