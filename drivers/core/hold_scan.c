// SPDX-License-Identifier: GPL-2.0
/*
 * The scan of held commands, every 20 ms. It returns some of them to the mid-layer, which decides
 * what happens to them. If a policy still holds commands while their request queue is being
 * drained, the scan starts their dispatch.
 */
#include <linux/blk-mq.h>
#include <linux/rcupdate.h>

#include "trace.h"
#include "wait.h"

/* State of one scan of held commands. */
struct smq_hold_scan {
	struct smq_host *host;
	bool recovers;	/* the host is in recovery */
	bool held;	/* the scan has left a command in its list */
};

/*
 * Whether a held command must go back to the mid-layer: it was held for the hold bound, its
 * LUN is being removed or is blocked, or the error handler waits for it.
 */
static bool smq_wait_is_over(struct smq_cmd *cmd, const struct smq_hold_scan *scan)
{
	struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);
	const struct smq_policy_cmd *seen = READ_ONCE(cmd->seen);
	const struct smq_hold *held_in;
	enum scsi_device_state state = READ_ONCE(scmd->device->sdev_state);
	unsigned int ms = seen ? seen->policy->ops->hold_ms : 0;
	unsigned long bound = ms ? msecs_to_jiffies(ms) :
		min_t(unsigned long, SMQ_HOLD_BOUND, scsi_cmd_to_rq(scmd)->timeout / 4);

	if (scan->recovers || (state != SDEV_RUNNING && state != SDEV_QUIESCE &&
			       state != SDEV_CREATED))
		return true;
	/*
	 * The hold bound does not apply to a command that waits for its hardware queue: the
	 * mid-layer has no such bound for a busy host either, and would end a command that it
	 * has repeated for too long.
	 */
	held_in = seen ? READ_ONCE(seen->held_in) : NULL;
	if (!held_in || held_in == &cmd->hwq->core->refused)
		return false;
	return time_after_eq(jiffies, READ_ONCE(seen->held_since) + bound);
}

/* Whether the device has been full for so long that the mid-layer would end this command. */
static bool smq_wait_was_full(struct smq_cmd *cmd)
{
	struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);

	return READ_ONCE(smq_cmd_lun(cmd)->depth.full_since) &&
	       scmd->allowed >= 0 &&	/* -1: no limit */
	       !time_before(jiffies, scmd->jiffies_at_alloc +
			    (scmd->allowed + 1) * scsi_cmd_to_rq(scmd)->timeout);
}

/*
 * Returns a command to the mid-layer, which repeats it without counting a retry. If the device has
 * been full for so long that the mid-layer ends this one, its result is TASK SET FULL, as it would
 * be without a policy.
 */
static void smq_wait_give_back(struct smq_cmd *cmd)
{
	struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);

	smq_depth_credit(&smq_cmd_lun(cmd)->depth, cmd);
	scmd->result = smq_wait_was_full(cmd) ? SAM_STAT_TASK_SET_FULL : DID_REQUEUE << 16;
	smq_wait_leave(cmd);
	this_cpu_inc(cmd->hwq->stats->done);
	this_cpu_inc(cmd->hwq->stats->errors);
	trace_smq_done(cmd);
	atomic_set(&cmd->state, SMQ_FREE);
	scsi_done(scmd);
}

/*
 * Moves a command from a policy's list to its LUN's own list, where it waits for nothing but room
 * in the inner depth.
 */
static void smq_wait_take_from_policy(struct smq_cmd *cmd, const struct smq_policy_cmd *seen)
{
	struct smq_depth *depth = &smq_cmd_lun(cmd)->depth;
	struct smq_hold *from = READ_ONCE(seen->held_in), *hold = &depth->wait;
	unsigned long flags;

	if (!from || from == hold || from == &cmd->hwq->core->refused || smq_cmd_in_eh(cmd) ||
	    !smq_hold_take_from(from, cmd, seen, SMQ_OWNED))
		return;
	smq_depth_credit(depth, cmd);
	spin_lock_irqsave(&hold->lock, flags);
	smq_hold_add(hold, cmd, false);
	spin_unlock_irqrestore(&hold->lock, flags);
	smq_hold_kick(hold);
}

/*
 * Dispatches commands that a policy holds and others wait for: all commands of a LUN whose queue is
 * being drained, and all commands of an hctx whose CPUs go offline.
 */
static void smq_wait_drain(struct smq_cmd *cmd)
{
	const struct request *rq = scsi_cmd_to_rq(smq_cmd_to_scmd(cmd));
	const struct smq_policy_cmd *seen = READ_ONCE(cmd->seen);

	if (!seen || !seen->policy->ops->next)
		return;
	if (smq_wait_must_drain(seen->lun)) {
		atomic_set(&smq_cmd_lun(cmd)->depth.listed, 1);
		smq_hold_kick(&smq_cmd_lun(cmd)->depth.wait);
	} else if (test_bit(BLK_MQ_S_INACTIVE, &rq->mq_hctx->state)) {
		smq_wait_take_from_policy(cmd, seen);
	}
}

static bool smq_hold_scan_at(struct request *rq, void *data)
{
	struct smq_hold_scan *scan = data;
	struct smq_cmd *cmd = smq_rq_to_cmd(scan->host, rq);

	if (atomic_read_acquire(&cmd->state) != SMQ_HELD)
		return true;
	rcu_read_lock();
	/* If error handling has the command, error handling ends it. */
	if (!smq_cmd_in_eh(cmd) && smq_wait_is_over(cmd, scan) &&
	    smq_hold_take_back(cmd, SMQ_RETURNING)) {
		smq_wait_give_back(cmd);
	} else {
		scan->held = true;
		smq_wait_drain(cmd);
	}
	rcu_read_unlock();
	return true;
}

/*
 * Looks at all held commands of a host. This is periodic because nothing notifies the layer when
 * the removal of a LUN begins to wait for the LUN's commands, or when the error handler begins to
 * wait for all commands of the host.
 */
void smq_hold_scan(struct work_struct *work)
{
	struct smq_host_core *core = container_of(to_delayed_work(work), struct smq_host_core,
						  hold.scan);
	struct Scsi_Host *shost = core->host->shost;
	struct smq_hold_scan scan = { .host = core->host };

	/* A reset by ioctl looks like recovery, but ends held commands itself. */
	scan.recovers = scsi_host_in_recovery(shost) && !shost->tmf_in_progress;
	blk_mq_tagset_busy_iter(&shost->tag_set, smq_hold_scan_at, &scan);
	if (scan.held)
		queue_delayed_work(core->hold.wq, &core->hold.scan, SMQ_HOLD_SCAN);
}
