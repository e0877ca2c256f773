// SPDX-License-Identifier: GPL-2.0
/* Commands: their preparation, their completion, and the worker for slow ones. */
#include <linux/export.h>
#include <linux/preempt.h>

#include "smq.h"
#include "trace.h"

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
	struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);
	bool mine;

	/*
	 * One RCU read-side section from the claim to the mid-layer's done:
	 * smq_eh_abort() waits for it before it lets the command be used anew.
	 */
	rcu_read_lock();
	mine = smq_cmd_claim(cmd);
	if (mine) {
		this_cpu_inc(cmd->hwq->stats->done);
		if (unlikely(scmd->result))
			this_cpu_inc(cmd->hwq->stats->errors);
		if (trace_smq_done_enabled())
			trace_smq_done(cmd);
		scsi_done(scmd);
	}
	rcu_read_unlock();
	return mine;
}
EXPORT_SYMBOL_GPL(smq_cmd_done);

/* Not taken: back to the mid-layer, which counts on it being untouched. */
smq_qc_t smq_cmd_refused(struct smq_cmd *cmd, enum smq_status st)
{
	this_cpu_dec(cmd->hwq->stats->queued);
	this_cpu_inc(cmd->hwq->stats->busy);
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
	queue_work(hwq->host->wq, &cmd->work);
	return SMQ_QUEUED;
}
EXPORT_SYMBOL_GPL(smq_cmd_defer);

void smq_cmd_work(struct work_struct *work)
{
	struct smq_cmd *cmd = container_of(work, struct smq_cmd, work);
	struct smq_hwq *hwq = cmd->hwq;

	if (hwq->host->lld->work(hwq, cmd) == SMQ_DONE)
		smq_cmd_done(cmd);
}
