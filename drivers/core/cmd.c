// SPDX-License-Identifier: GPL-2.0
/* Commands: their preparation, their completion, and the worker for slow ones. */
#include <linux/export.h>

#include "core.h"
#include "seen.h"
#include "smq.h"
#include "trace.h"
#include "wait.h"

/*
 * Runs once per tag, when the mid-layer sets up its tag set. Having it also
 * tells the mid-layer not to clear the private area for every command.
 */
int smq_init_cmd_priv(struct Scsi_Host *shost, struct scsi_cmnd *scmd)
{
	const struct smq_lld *lld = smq_shost_to_host(shost)->lld;
	struct smq_cmd *cmd = smq_scmd_to_cmd(scmd);

	memset(cmd, 0, shost->hostt->cmd_size);
	INIT_WORK(&cmd->work, smq_cmd_work);
	INIT_LIST_HEAD(&cmd->node);
	if (lld->init_cmd)
		lld->init_cmd(cmd);
	return 0;
}
EXPORT_SYMBOL_GPL(smq_init_cmd_priv);

/*
 * Takes the right to end a command. Fully ordered: what its last owner wrote is
 * seen by the new one, and nobody gets it twice.
 */
bool smq_cmd_claim(struct smq_cmd *cmd)
{
	return atomic_cmpxchg(&cmd->state, SMQ_OWNED, SMQ_FREE) == SMQ_OWNED;
}

/* Leaves a command that is being submitted to its submitter. Fully ordered. */
static bool smq_cmd_leave_ended(struct smq_cmd *cmd)
{
	return atomic_cmpxchg(&cmd->state, SMQ_SUBMITTING, SMQ_ENDED) == SMQ_SUBMITTING;
}

/* Counts a command that ends. False: a policy keeps it, for it met a full device. */
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
 * The LLD says that a command is finished: takes and counts it if it still is the LLD's.
 * True: it is to be completed; a policy keeps one that met a full device, a submitter one
 * that it has not returned from, fault injection one that is lost or late.
 */
static __always_inline bool smq_cmd_finish(struct smq_cmd *cmd, bool *mine)
{
	*mine = smq_cmd_claim(cmd);
	while (unlikely(!*mine)) {
		int state = atomic_read(&cmd->state);

		/* SMQ_OWNED: the submitter has returned since the claim failed. */
		if (state != SMQ_SUBMITTING && state != SMQ_OWNED)
			return false;
		*mine = smq_cmd_leave_ended(cmd);
		if (*mine)
			return false;
		/* The submitter has returned meanwhile. */
		*mine = smq_cmd_claim(cmd);
	}
	if (static_branch_unlikely(&smq_faults) && cmd->fault && smq_fault_after(cmd))
		return false;
	return smq_cmd_count_end(cmd);
}

/**
 * smq_cmd_done() - completes a command the LLD said SMQ_QUEUED for
 * @cmd: its result and, where less was transferred, its residual are set
 *
 * Context: any, interrupts included; takes no lock. A command that error
 * handling has taken back meanwhile is left alone, so a late completion does no
 * harm as long as the LLD's abort and resets keep their promise: the tag is not
 * used again before they return.
 *
 * Return: whether the command was still the LLD's.
 */
bool smq_cmd_done(struct smq_cmd *cmd)
{
	bool mine;

	/*
	 * One RCU read-side section from the claim to the mid-layer's done:
	 * smq_eh_abort() waits for it before it lets the command be used anew.
	 */
	rcu_read_lock();
	if (smq_cmd_finish(cmd, &mine))
		scsi_done(smq_cmd_to_scmd(cmd));
	rcu_read_unlock();
	return mine;
}
EXPORT_SYMBOL_GPL(smq_cmd_done);

/* Ends a command that the caller owns. Context: any, inside an RCU read-side section. */
void smq_cmd_end(struct smq_cmd *cmd)
{
	if (smq_cmd_count_end(cmd))
		scsi_done(smq_cmd_to_scmd(cmd));
}

/*
 * May the mid-layer's done find host_lock held by this CPU and want it too? It only
 * raises its softirq for a host with one queue, unless that queue serves a single
 * CPU: then blk-mq completes at once, and what the mid-layer does for a host in
 * recovery takes host_lock. Somebody else's hold looks the same and costs a detour.
 */
static bool smq_host_lock_in_the_way(struct smq_host *host, struct scsi_cmnd *scmd)
{
	unsigned long flags;

	if (scsi_cmd_to_rq(scmd)->mq_hctx->nr_ctx > 1)
		return false;
	/* Only a try: what is free for a moment is not held by this CPU. */
	if (!spin_trylock_irqsave(host->shost->host_lock, flags))
		return true;
	spin_unlock_irqrestore(host->shost->host_lock, flags);
	return false;
}

/**
 * smq_scsi_done() - what an LLD with queuecommand_lck calls where it called scsi_done()
 * @scmd: a command it was given; its result and residual are set
 *
 * Context: any, with host_lock held or without: in queuecommand_lck for this command
 * or another, beside it on another CPU if it has dropped host_lock, in interrupts, in
 * abort and reset handlers. As with smq_cmd_done() a command that error handling has
 * taken back is left alone.
 */
void smq_scsi_done(struct scsi_cmnd *scmd)
{
	struct smq_host *host = smq_sdev_to_host(scmd->device);
	struct smq_cmd *cmd = smq_scmd_to_cmd(scmd);
	bool mine;

	if (smq_cmd_leave_ended(cmd))
		return;
	if (!smq_host_lock_in_the_way(host, scmd)) {
		smq_cmd_done(cmd);
		return;
	}
	/*
	 * Claimed now, for the LLD has let go of it; done comes from the worker. Error
	 * handling waits for that before the tag is used anew: the section is for
	 * its grace period, after which it looks for the work.
	 */
	rcu_read_lock();
	if (smq_cmd_finish(cmd, &mine))
		queue_work(host->core->wq, &cmd->work);
	rcu_read_unlock();
}
EXPORT_SYMBOL_GPL(smq_scsi_done);

/*
 * The LLD did not take a command: a policy holds it, or it goes back to the mid-layer,
 * which counts on it being untouched.
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

/**
 * smq_cmd_defer() - has a command run by the LLD's work() in process context
 * @cmd: an owned command; belongs to the worker from here on
 *
 * For what queue_cmd may not do because it would sleep. Runs on the submitting
 * CPU unless that one goes offline. Nothing is allocated.
 *
 * Context: any that queue_cmd has. Return: SMQ_QUEUED, for queue_cmd to return.
 */
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
