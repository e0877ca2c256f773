// SPDX-License-Identifier: GPL-2.0
/* Commands: preparation, completion, and the worker for commands that have to sleep. */
#include <linux/export.h>

#include "core.h"
#include "policy_cmd.h"
#include "smq.h"
#include "trace.h"
#include "wait.h"

/*
 * Runs once per tag, when the mid-layer sets up its tag set. Because the template has this
 * operation, the mid-layer does not clear the private area for every command.
 */
int smq_init_cmd_priv(struct Scsi_Host *shost, struct scsi_cmnd *scmd)
{
	const struct smq_lld *lld = smq_shost_to_host(shost)->lld;
	struct smq_cmd *cmd = smq_scmd_to_cmd(scmd);

	memset(cmd, 0, shost->hostt->cmd_size);
	INIT_WORK(&cmd->work, smq_cmd_work);
	INIT_LIST_HEAD(&cmd->node);
	cmd->scmd = scmd;
	if (lld->init_cmd)
		lld->init_cmd(cmd);
	return 0;
}
EXPORT_SYMBOL_GPL(smq_init_cmd_priv);

/*
 * Makes the caller the owner of a command. If several CPUs try, only one gets true. Fully ordered:
 * the new owner sees what the last owner wrote.
 */
bool smq_cmd_own(struct smq_cmd *cmd)
{
	return atomic_cmpxchg(&cmd->state, SMQ_OWNED, SMQ_FREE) == SMQ_OWNED;
}

/*
 * If the command is between smq_cmd_enter() and smq_cmd_leave(), leaves its end to the submitter
 * and returns true. Fully ordered.
 */
static bool smq_cmd_leave_ended(struct smq_cmd *cmd)
{
	return atomic_cmpxchg(&cmd->state, SMQ_SUBMITTING, SMQ_ENDED) == SMQ_SUBMITTING;
}

/* Counts a command that ends. Returns false if it is held again because the device was full. */
static __always_inline bool smq_cmd_count_end(struct smq_cmd *cmd)
{
	smq_wait_room(cmd->hwq);
	if (unlikely(cmd->seen) && smq_policy_done(cmd))
		return false;
	if (unlikely(smq_cmd_to_scmd(cmd)->result)) {
		if (smq_cmd_to_scmd(cmd)->result == SAM_STAT_TASK_SET_FULL && smq_policy_full(cmd))
			return false;
		this_cpu_inc(cmd->hwq->stats->errors);
	}
	this_cpu_inc(cmd->hwq->stats->done);
	if (trace_smq_done_enabled())
		trace_smq_done(cmd);
	return true;
}

/*
 * Called when the LLD reports that a command is finished. Becomes the owner of the command, if the
 * LLD still owned it, and counts it. Sets *@mine to whether the LLD owned it. Returns true if the
 * caller has to complete the command. Returns false if the command is held again because the device
 * was full, if its submitter will complete it, if fault injection withholds it, or if the LLD no
 * longer owned it.
 */
static __always_inline bool smq_cmd_finish(struct smq_cmd *cmd, bool *mine)
{
	*mine = smq_cmd_own(cmd);
	while (unlikely(!*mine)) {
		int state = atomic_read(&cmd->state);

		/* SMQ_OWNED: smq_cmd_leave() was called since smq_cmd_own() failed; retry. */
		if (state != SMQ_SUBMITTING && state != SMQ_OWNED)
			return false;
		*mine = smq_cmd_leave_ended(cmd);
		if (*mine)
			return false;
		/* The submitter has called smq_cmd_leave() meanwhile. */
		*mine = smq_cmd_own(cmd);
	}
	if (static_branch_unlikely(&smq_faults) && cmd->fault && smq_fault_after(cmd))
		return false;
	return smq_cmd_count_end(cmd);
}

bool smq_cmd_done(struct smq_cmd *cmd)
{
	bool mine;

	/*
	 * One RCU read-side section from taking the command to the end of scsi_done():
	 * smq_eh_abort() waits for it before the mid-layer may use the command again.
	 */
	rcu_read_lock();
	if (smq_cmd_finish(cmd, &mine))
		scsi_done(smq_cmd_to_scmd(cmd));
	rcu_read_unlock();
	return mine;
}
EXPORT_SYMBOL_GPL(smq_cmd_done);

/*
 * Counts a command of an attached host that the LLD has completed; the caller owns it. Context: as
 * smq_cmd_end().
 */
void smq_cmd_count_attached(struct smq_cmd *cmd)
{
	if (cmd->fault)
		smq_fault_after(cmd);
	smq_cmd_count_end(cmd);
}

/* Ends a command that the caller owns. Context: any, inside an RCU read-side section. */
void smq_cmd_end(struct smq_cmd *cmd)
{
	if (smq_cmd_count_end(cmd))
		scsi_done(smq_cmd_to_scmd(cmd));
}

/*
 * Whether scsi_done() could deadlock because this CPU may hold host_lock. For a host
 * with one queue scsi_done() only raises the softirq, unless that queue serves a single CPU:
 * then blk-mq completes the command at once, and the mid-layer takes host_lock if the host
 * is in recovery. Also returns true if another CPU holds the lock: then the worker completes a
 * command that this CPU could have completed.
 */
static bool smq_done_may_deadlock(struct smq_host *host, struct scsi_cmnd *scmd)
{
	unsigned long flags;

	if (scsi_cmd_to_rq(scmd)->mq_hctx->nr_ctx > 1)
		return false;
	/* If the try succeeds, this CPU did not hold the lock. */
	if (!spin_trylock_irqsave(host->shost->host_lock, flags))
		return true;
	spin_unlock_irqrestore(host->shost->host_lock, flags);
	return false;
}

void smq_scsi_done(struct scsi_cmnd *scmd)
{
	struct smq_host *host = smq_sdev_to_host(scmd->device);
	struct smq_cmd *cmd = smq_scmd_to_cmd(scmd);
	bool mine;

	if (smq_cmd_leave_ended(cmd))
		return;
	if (!smq_done_may_deadlock(host, scmd)) {
		smq_cmd_done(cmd);
		return;
	}
	/*
	 * Become the owner now, because the LLD has released the command; the worker calls
	 * scsi_done(). Error handling waits for the worker before the tag is used again: its
	 * grace period ends after this section, and then it cancels or flushes the work.
	 */
	rcu_read_lock();
	if (smq_cmd_finish(cmd, &mine))
		queue_work(host->core->wq, &cmd->work);
	rcu_read_unlock();
}
EXPORT_SYMBOL_GPL(smq_scsi_done);

/*
 * Called when the LLD refused a command: holds it, or returns it to the mid-layer, which relies on
 * the command being unchanged.
 */
smq_qc_t smq_cmd_refused(struct smq_cmd *cmd, enum smq_status st)
{
	struct smq_hwq *hwq = cmd->hwq;

	smq_count_refusal(hwq, st);
	if (smq_policy_refused(cmd, st))
		return (smq_qc_t)0;
	this_cpu_dec(hwq->stats->queued);
	this_cpu_inc(hwq->stats->busy);
	trace_smq_busy(cmd);
	atomic_set(&cmd->state, SMQ_FREE);

	switch (st) {
	case SMQ_DEVICE_BUSY:
		return SCSI_MLQUEUE_DEVICE_BUSY;
	case SMQ_TARGET_BUSY:
		return SCSI_MLQUEUE_TARGET_BUSY;
	default:
		return SCSI_MLQUEUE_HOST_BUSY;
	}
}
EXPORT_SYMBOL_GPL(smq_cmd_refused);

enum smq_status smq_cmd_defer(struct smq_cmd *cmd)
{
	struct smq_hwq *hwq = cmd->hwq;

	this_cpu_inc(hwq->stats->deferred);
	queue_work(hwq->host->core->wq, &cmd->work);
	return SMQ_QUEUED;
}
EXPORT_SYMBOL_GPL(smq_cmd_defer);

void smq_cmd_work(struct work_struct *work)
{
	struct smq_cmd *cmd = container_of(work, struct smq_cmd, work);
	struct smq_hwq *hwq = cmd->hwq;

	if (hwq->host->lld->queuecommand_lck)
		scsi_done(smq_cmd_to_scmd(cmd));
	else if (hwq->host->lld->work(hwq, cmd) == SMQ_DONE)
		smq_cmd_done(cmd);
}
