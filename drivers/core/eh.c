// SPDX-License-Identifier: GPL-2.0
/*
 * Error handling: what the mid-layer asks of a host whose command took too long.
 *
 * The LLD's operations only promise that commands are no longer touched; who
 * ends them is decided here, by smq_cmd_claim(), for all LLDs alike.
 */
#include <linux/blk-mq.h>
#include <linux/export.h>
#include <linux/rcupdate.h>

#include "core.h"
#include "smq.h"
#include "trace.h"
#include "wait.h"

/*
 * The block timer ran out. A polled command may be finished and only wait for a
 * poller that has gone away; looking costs nothing. Whether the command has
 * completed is then the mid-layer's to see: NOT_HANDLED makes it look.
 */
smq_timeout_t smq_eh_timed_out(struct scsi_cmnd *scmd)
{
	struct smq_host *host = smq_sdev_to_host(scmd->device);
	struct smq_cmd *cmd = smq_scmd_to_cmd(scmd);

	/* Held, or held for long: not the device's fault, and its time is not over. */
	if (smq_hold_timed_out(cmd))
		return SCSI_EH_RESET_TIMER;
	/* Not so what fault injection keeps, which the LLD does not have. */
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

/* Ends the layer's part of a command that error handling has taken. */
static void smq_cmd_taken(struct smq_cmd *cmd)
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
	trace_smq_taken(cmd);
}

/*
 * An abort that failed leaves a command where it was, with the worker: the reset
 * that follows flushes that before the LLD is asked to let go of what it has. A
 * reset under way may have flushed already; it ends the command itself.
 */
static void smq_cmd_defer_again(struct smq_host *host, struct smq_cmd *cmd)
{
	mutex_lock(&host->core->eh.lock);
	if (atomic_read(&cmd->state) == SMQ_OWNED)
		queue_work(host->core->wq, &cmd->work);
	mutex_unlock(&host->core->eh.lock);
}

/* Has the LLD take a command back. What fault injection keeps the LLD does not have. */
static int smq_lld_abort(struct smq_host *host, struct smq_cmd *cmd)
{
	int state = atomic_read(&cmd->state);

	if (state != SMQ_OWNED && state != SMQ_FAULTED)
		return 0;
	if (smq_fault_take(&smq_host_fault(host)->fail_abort))
		return -EIO;
	if (state == SMQ_FAULTED)
		return 0;
	return host->lld->abort ? host->lld->abort(cmd->hwq, cmd) : -EOPNOTSUPP;
}

static int smq_abort_cmd(struct smq_host *host, struct smq_cmd *cmd)
{
	bool deferred, held;
	int err;

	/*
	 * The timer runs from before queuecommand: let a queue_cmd under way end.
	 * The mid-layer has marked the command: from then on no policy gives it
	 * to the LLD, nor holds it again.
	 */
	synchronize_rcu();
	rcu_read_lock();
	held = smq_hold_claim(cmd, SMQ_FREE);
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

	if (smq_cmd_claim(cmd) || smq_fault_claim(cmd)) {
		smq_cmd_taken(cmd);
	} else {
		/*
		 * It was completed. The mid-layer uses the command anew once we
		 * return: wait until smq_cmd_done() has let go of it, or
		 * take from the worker what smq_scsi_done() left to it.
		 */
		synchronize_rcu();
		cancel_work_sync(&cmd->work);
		/* Or fault injection has kept what the LLD has completed. */
		if (smq_fault_claim(cmd))
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

/* Which commands a reset ends: those of a LUN, of a target, or all. */
struct smq_reset {
	struct smq_host *host;
	bool keeps;		/* the LLD keeps what it has, only held ones end */
	struct scsi_device *sdev;
	struct scsi_target *starget;
};

static bool smq_reset_one(struct request *rq, void *data)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	struct smq_cmd *cmd = smq_scmd_to_cmd(scmd);
	const struct smq_reset *reset = data;

	if (reset->sdev && scmd->device != reset->sdev)
		return true;
	if (reset->starget && scsi_target(scmd->device) != reset->starget)
		return true;

	/* From claim to done one section, as in smq_cmd_done(). */
	rcu_read_lock();
	if (smq_hold_claim(cmd, SMQ_FREE) ||
	    (!reset->keeps && (smq_cmd_claim(cmd) || smq_fault_claim(cmd)))) {
		smq_cmd_taken(cmd);
		atomic_inc(&reset->host->core->eh.reset_cmds);
		/*
		 * Block I/O is tried again, passthrough learns of it. One that
		 * has timed out is error handling's own to end, with the result
		 * that gives it; done means nothing to it. One that the error
		 * handler has sent itself was not answered: it sends it again.
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
 * host_lock protects the word that the mid-layer keeps its own bit in beside this
 * one. The mid-layer runs the queues when the recovery or the ioctl ends.
 */
static void smq_block_host(struct smq_host *host, bool on)
{
	spin_lock_irq(host->shost->host_lock);
	host->shost->host_self_blocked = on;
	spin_unlock_irq(host->shost->host_lock);
}

/*
 * From here to smq_reset_end() no new command reaches the LLD. The mid-layer's own
 * means would do for one reset at a time; two ioctls unblock each other. It looks at
 * the block inside the RCU read-side section in which it calls queuecommand: after
 * the grace period nobody is on the way. The error handler does not look when it
 * sends a command: that one is kept back by "frozen". (Handler and ioctl meet where a
 * command fails while an ioctl's reset runs.)
 *
 * False when the host is being removed: an ioctl holds no request, so that
 * removal would not wait for it. Removal may still need the error handler.
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
	return true;
}

static int smq_reset_end(struct smq_reset *reset, struct scsi_cmnd *scmd, const char *step,
			 int err)
{
	blk_mq_tagset_busy_iter(&reset->host->shost->tag_set, smq_reset_one, reset);
	/* As after an abort: completions under way let go first. */
	synchronize_rcu();
	if (!reset->keeps)
		flush_workqueue(reset->host->core->wq);
	WRITE_ONCE(reset->host->frozen, false);
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
	/* An ioctl may come for a LUN that has gone: it has no commands. */
	lun = smq_sdev_to_lun(scmd->device);
	if (!lun || !lun->core->probed)
		err = 0;
	else if (smq_fault_take(&smq_host_fault(host)->fail_lun_reset))
		err = -EIO;
	else if (host->lld->lun_reset)
		err = host->lld->lun_reset(host, scmd->device);
	reset.keeps = err;
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
	if (smq_fault_take(&smq_host_fault(host)->fail_target_reset))
		err = -EIO;
	else if (host->lld->target_reset)
		err = host->lld->target_reset(host, reset.starget);
	reset.keeps = err;
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
	 * Whatever it said: there is nobody left to ask, and the mid-layer ends all that
	 * has timed out. What stayed with the LLD could be completed a second time.
	 */
	return smq_reset_end(&reset, scmd, "host_reset", err);
}
EXPORT_SYMBOL_GPL(smq_eh_host_reset);
