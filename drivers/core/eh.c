// SPDX-License-Identifier: GPL-2.0
/*
 * Error handling: timeout, abort and resets.
 *
 * The LLD's operations only promise that the LLD no longer touches a command. This file then
 * ends the command, for all LLDs, if smq_cmd_own() makes it the owner.
 */
#include <linux/blk-mq.h>
#include <linux/export.h>
#include <linux/rcupdate.h>

#include "core.h"
#include "smq.h"
#include "trace.h"
#include "wait.h"

/*
 * Called when the block timer of a command expired. A polled command may be finished, but not
 * found yet because its poller has gone away: poll once more. After SCSI_EH_NOT_HANDLED the
 * mid-layer itself checks whether the command has completed.
 */
smq_timeout_t smq_eh_timed_out(struct scsi_cmnd *scmd)
{
	struct smq_host *host = smq_sdev_to_host(scmd->device);
	struct smq_cmd *cmd = smq_scmd_to_cmd(scmd);

	/*
	 * If the command is held, or was held for long, the device has not had the whole timeout
	 * yet.
	 */
	if (smq_hold_timed_out(cmd))
		return SCSI_EH_RESET_TIMER;
	/* Do not ask about a command that fault injection withholds: the LLD does not have it. */
	if (host->lld->timed_out && smq_cmd_is_with_lld(cmd) &&
	    host->lld->timed_out(cmd->hwq, cmd))
		return SCSI_EH_RESET_TIMER;
	atomic_inc(&host->core->eh.timeouts);
	trace_smq_eh(scmd, "timeout", 0);
	if (atomic_read(&cmd->state) == SMQ_OWNED && cmd->hwq->type == HCTX_TYPE_POLL)
		host->lld->poll(cmd->hwq);
	return SCSI_EH_NOT_HANDLED;
}
EXPORT_SYMBOL_GPL(smq_eh_timed_out);

/*
 * Ends the layer's part of a command that error handling has taken. The command may have ended for
 * the mid-layer, so this uses none of the mid-layer's part of it.
 */
void smq_cmd_forget(struct smq_cmd *cmd)
{
	if (cmd->fault)
		smq_fault_forget(cmd);
	if (cmd->seen) {
		rcu_read_lock();
		smq_policy_taken(cmd);
		rcu_read_unlock();
	} else {
		smq_wait_room(cmd->hwq);
	}
	this_cpu_inc(cmd->hwq->stats->done);
	this_cpu_inc(cmd->hwq->stats->errors);
}

/* As smq_cmd_forget(), for a command that the mid-layer ends after the call. */
void smq_cmd_taken(struct smq_cmd *cmd)
{
	smq_cmd_forget(cmd);
	trace_smq_taken(cmd);
}

/*
 * Called when an abort failed: gives the command back to the worker. The reset that follows flushes
 * the worker before it calls the LLD. A reset that is already under way may have flushed the worker
 * before this, and may end the command: taking the lock waits for that reset.
 */
static void smq_cmd_defer_again(struct smq_host *host, struct smq_cmd *cmd)
{
	mutex_lock(&host->core->eh.lock);
	if (atomic_read(&cmd->state) == SMQ_OWNED)
		queue_work(host->core->wq, &cmd->work);
	mutex_unlock(&host->core->eh.lock);
}

/* Calls the LLD's abort, unless the LLD does not have the command. */
static int smq_lld_abort(struct smq_host *host, struct smq_cmd *cmd)
{
	int state = atomic_read(&cmd->state);

	if (state != SMQ_OWNED && state != SMQ_WITHHELD)
		return 0;
	if (smq_fault_count_down(&smq_host_fault(host)->fail_abort))
		return -EIO;
	if (state == SMQ_WITHHELD)
		return 0;
	return host->lld->abort ? host->lld->abort(cmd->hwq, cmd) : -EOPNOTSUPP;
}

static int smq_abort_cmd(struct smq_host *host, struct smq_cmd *cmd)
{
	bool deferred, held;
	int err;

	/*
	 * The timer starts before queuecommand: wait for a queue_cmd that is under way. The
	 * mid-layer has marked the command, so after this no policy gives it to the LLD or
	 * holds it again.
	 */
	synchronize_rcu();
	rcu_read_lock();
	held = smq_hold_take_back(cmd, SMQ_FREE);
	rcu_read_unlock();
	if (held) {
		smq_cmd_taken(cmd);
		return 0;
	}
	deferred = cancel_work_sync(&cmd->work);
	err = smq_lld_abort(host, cmd);
	if (err) {
		if (deferred)
			smq_cmd_defer_again(host, cmd);
		return err;
	}

	if (smq_cmd_own(cmd) || smq_fault_take_back(cmd)) {
		smq_cmd_taken(cmd);
	} else {
		/*
		 * The command was completed. The mid-layer may use it again once this
		 * function returns: wait until smq_cmd_done() no longer uses it, and
		 * cancel the work that smq_scsi_done() may have queued.
		 */
		synchronize_rcu();
		cancel_work_sync(&cmd->work);
		/* If the LLD completed the command, fault injection may withhold it. */
		if (smq_fault_take_back(cmd))
			smq_cmd_taken(cmd);
	}
	return 0;
}

int smq_eh_abort(struct scsi_cmnd *scmd)
{
	struct smq_host *host = smq_sdev_to_host(scmd->device);
	int err = smq_abort_cmd(host, smq_scmd_to_cmd(scmd));

	atomic_inc(&host->core->eh.aborts);
	trace_smq_eh(scmd, "abort", err);
	return err ? FAILED : SUCCESS;
}
EXPORT_SYMBOL_GPL(smq_eh_abort);

/* Which commands a reset ends: those of a LUN (@sdev), of a target (@starget), or all. */
struct smq_reset {
	struct smq_host *host;
	bool held_only;		/* the LLD's reset failed: only held commands end */
	struct scsi_device *sdev;
	struct scsi_target *starget;
};

static bool smq_reset_one(struct request *rq, void *data)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	const struct smq_reset *reset = data;
	struct smq_cmd *cmd = smq_rq_to_cmd(reset->host, rq);

	if (reset->sdev && scmd->device != reset->sdev)
		return true;
	if (reset->starget && scsi_target(scmd->device) != reset->starget)
		return true;

	/*
	 * One RCU read-side section from taking the command to scsi_done(), as in smq_cmd_done().
	 */
	rcu_read_lock();
	if (smq_hold_take_back(cmd, SMQ_FREE) ||
	    (!reset->held_only && (smq_cmd_own(cmd) || smq_fault_take_back(cmd)))) {
		smq_cmd_taken(cmd);
		atomic_inc(&reset->host->core->eh.reset_cmds);
		/*
		 * With DID_RESET the mid-layer repeats block I/O, and passthrough gets the error. A
		 * command that has timed out needs no result: the error handler itself ends it. A
		 * command that the error handler has sent gets BUSY, so that the error handler
		 * repeats it.
		 */
		if (scmd->submitter == SUBMITTED_BY_SCSI_ERROR_HANDLER)
			scmd->result = SAM_STAT_BUSY;
		else if (!test_bit(SCMD_STATE_COMPLETE, &scmd->state))
			scmd->result = DID_RESET << 16;
		scsi_done(scmd);
	}
	rcu_read_unlock();
	return true;
}

/*
 * Sets whether the mid-layer refuses new commands for the host. Takes host_lock, because the
 * mid-layer changes another bit of the same word. The mid-layer itself runs the queues when the
 * recovery or the ioctl ends.
 */
static void smq_block_host(struct smq_host *host, bool on)
{
	spin_lock_irq(host->shost->host_lock);
	host->shost->host_self_blocked = on;
	spin_unlock_irq(host->shost->host_lock);
}

/*
 * From here to smq_reset_end() no new command reaches the LLD. The mid-layer's own bit,
 * tmf_in_progress, serves one reset at a time: of two ioctls, the one that ends first would unblock
 * the host. The mid-layer checks host_self_blocked inside the RCU read-side section in which it
 * calls queuecommand, so after the grace period no submitter is on its way to the LLD. The error
 * handler does not check host_self_blocked for commands of its own: "frozen" stops those. (The
 * error handler can run during an ioctl's reset, if a command fails meanwhile.)
 *
 * Returns false if the host is being removed and the reset comes from an ioctl: an ioctl holds no
 * request, so removal would not wait for it. Removal may still need resets by the error handler.
 */
static bool smq_reset_begin(struct smq_host *host, struct scsi_cmnd *scmd)
{
	mutex_lock(&host->core->eh.lock);
	if (host->core->eh.removing && scmd->submitter == SUBMITTED_BY_SCSI_RESET_IOCTL) {
		mutex_unlock(&host->core->eh.lock);
		return false;
	}
	smq_block_host(host, true);
	WRITE_ONCE(host->frozen, true);
	synchronize_rcu();
	flush_workqueue(host->core->wq);
	/* A device that does not know a command cannot end it. */
	smq_use_commit_all(host, true);
	return true;
}

static int smq_reset_end(struct smq_reset *reset, struct scsi_cmnd *scmd, const char *step,
			 int err)
{
	blk_mq_tagset_busy_iter(&reset->host->shost->tag_set, smq_reset_one, reset);
	WRITE_ONCE(reset->host->frozen, false);
	/*
	 * Wait for completions that are under way, as after an abort. After the grace period a
	 * submitter that finds the host unblocked does not find it frozen: it would leave out the
	 * doorbell.
	 */
	synchronize_rcu();
	if (!reset->held_only)
		flush_workqueue(reset->host->core->wq);
	smq_block_host(reset->host, false);
	smq_hold_kick_all(reset->host);
	mutex_unlock(&reset->host->core->eh.lock);
	trace_smq_eh(scmd, step, err);
	return err ? FAILED : SUCCESS;
}

int smq_eh_lun_reset(struct scsi_cmnd *scmd)
{
	struct smq_host *host = smq_sdev_to_host(scmd->device);
	struct smq_reset reset = { .host = host, .sdev = scmd->device };
	struct smq_lun *lun;
	int err = -EOPNOTSUPP;

	atomic_inc(&host->core->eh.lun_resets);
	if (!smq_reset_begin(host, scmd))
		return FAILED;
	/* An ioctl may reset a LUN that was removed: such a LUN has no commands. */
	lun = smq_sdev_to_lun(scmd->device);
	if (!lun || !lun->core->probed)
		err = 0;
	else if (smq_fault_count_down(&smq_host_fault(host)->fail_lun_reset))
		err = -EIO;
	else if (host->lld->lun_reset)
		err = host->lld->lun_reset(host, scmd->device);
	reset.held_only = err;
	return smq_reset_end(&reset, scmd, "lun_reset", err);
}
EXPORT_SYMBOL_GPL(smq_eh_lun_reset);

int smq_eh_target_reset(struct scsi_cmnd *scmd)
{
	struct smq_host *host = smq_sdev_to_host(scmd->device);
	struct smq_reset reset = { .host = host, .starget = scsi_target(scmd->device) };
	int err = -EOPNOTSUPP;

	atomic_inc(&host->core->eh.target_resets);
	if (!smq_reset_begin(host, scmd))
		return FAILED;
	if (smq_fault_count_down(&smq_host_fault(host)->fail_target_reset))
		err = -EIO;
	else if (host->lld->target_reset)
		err = host->lld->target_reset(host, reset.starget);
	reset.held_only = err;
	return smq_reset_end(&reset, scmd, "target_reset", err);
}
EXPORT_SYMBOL_GPL(smq_eh_target_reset);

int smq_eh_host_reset(struct scsi_cmnd *scmd)
{
	struct smq_host *host = smq_sdev_to_host(scmd->device);
	struct smq_reset reset = { .host = host };
	int err = -EOPNOTSUPP;

	atomic_inc(&host->core->eh.host_resets);
	if (!smq_reset_begin(host, scmd))
		return FAILED;
	if (host->lld->host_reset)
		err = host->lld->host_reset(host);
	/*
	 * End all commands even if the reset failed. There is no further step: the mid-layer now
	 * ends the commands that timed out. The LLD could complete such a command a second time if
	 * it still owned it.
	 */
	return smq_reset_end(&reset, scmd, "host_reset", err);
}
EXPORT_SYMBOL_GPL(smq_eh_host_reset);
