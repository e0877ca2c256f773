// SPDX-License-Identifier: GPL-2.0
/*
 * The functions in the template of an attached host. Each calls the function of the host's driver,
 * the LLD. The mid-layer may have read the template before the host got its own one back, so each
 * of these functions can be called shortly after that, too.
 */
#include <linux/rculist.h>
#include <scsi/scsi_dbg.h>

#include "attach.h"
#include "conv.h"

/* All attached hosts; changed by attach.c under conv_lock, read under conv_lock or RCU. */
LIST_HEAD(conv_attached);
struct workqueue_struct *conv_attach_wq;
/* How often the late commands of a host are checked, in jiffies. */
#define CONV_ATTACH_CHECK	HZ

static smq_qc_t conv_attach_queuecommand(struct Scsi_Host *shost, struct scsi_cmnd *scmd);

bool conv_is_attached(const struct Scsi_Host *shost)
{
	return READ_ONCE(shost->hostt)->queuecommand == conv_attach_queuecommand;
}

/* Context: conv_lock, scan_mutex of the host, or inside a read-side section of RCU or its SRCU. */
static noinline struct conv_attach *conv_attach_find(const struct Scsi_Host *shost)
{
	struct conv_attach *at;

	list_for_each_entry_rcu(at, &conv_attached, node, true) {
		if (at->shost == shost)
			return at;
	}
	return NULL;
}

/* Whether a host is attached, or about to be. Context: conv_lock. */
bool conv_attach_is_listed(const struct Scsi_Host *shost)
{
	lockdep_assert_held(&conv_lock);
	return conv_attach_find(shost);
}

/* As conv_attach_find(), for a host that is attached now or was a moment ago. */
static __always_inline struct conv_attach *conv_attach_of(const struct Scsi_Host *shost)
{
	const struct scsi_host_template *sht = READ_ONCE(shost->hostt);

	if (likely(sht->queuecommand == conv_attach_queuecommand))
		return (struct conv_attach *)container_of(sht, struct conv_attach, sht);
	return conv_attach_find(shost);
}

static struct smq_cmd *conv_attach_cmd(struct conv_attach *at, struct scsi_cmnd *scmd)
{
	return smq_attached_cmd(at->smq->attached, scsi_cmd_to_rq(scmd));
}

static __always_inline enum smq_status conv_attach_give(struct conv_attach *at,
							struct scsi_cmnd *scmd)
{
	switch ((int)at->queuecommand(at->shost, scmd)) {
	case 0:
		return SMQ_QUEUED;
	case SCSI_MLQUEUE_DEVICE_BUSY:
		return SMQ_DEVICE_BUSY;
	case SCSI_MLQUEUE_TARGET_BUSY:
		return SMQ_TARGET_BUSY;
	default:
		return SMQ_HOST_BUSY;
	}
}

static __always_inline enum smq_status conv_attach_queue(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	return conv_attach_give(smq_host_priv(hwq->host), smq_cmd_to_scmd(cmd));
}

/*
 * Whether the mid-layer would queue a command to the LLD now. It has checked this before
 * queuecommand, but a command that was held since must be checked again. The mid-layer quiesces the
 * queue of a LUN that is blocked, and waits for RCU read-side sections.
 */
static bool conv_attach_may_queue(struct Scsi_Host *shost, const struct scsi_cmnd *scmd)
{
	const struct scsi_device *sdev = scmd->device;
	enum scsi_device_state state = READ_ONCE(sdev->sdev_state);

	return state != SDEV_BLOCK && state != SDEV_CREATED_BLOCK &&
	       !blk_queue_quiesced(sdev->request_queue) && !shost->host_self_blocked &&
	       !scsi_host_in_recovery(shost);
}

/* The LLD's entry for commands that were held, and for all commands while any host has faults. */
enum smq_status conv_attach_queue_cmd(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	if (!conv_attach_may_queue(hwq->host->shost, smq_cmd_to_scmd(cmd)))
		return SMQ_DEVICE_BUSY;
	return conv_attach_queue(hwq, cmd);
}

static void conv_attach_commit(struct smq_hwq *hwq)
{
	struct conv_attach *at = smq_host_priv(hwq->host);

	if (at->orig->commit_rqs)
		at->orig->commit_rqs(at->shost, hwq->index);
}

/* How submitters, and the dispatchers of held commands, enter the LLD. */
static const struct smq_lld conv_attach_submit = {
	.queue_cmd	= conv_attach_queue,
	.commit		= conv_attach_commit,
};

static const struct smq_lld conv_attach_held = {
	.queue_cmd	= conv_attach_queue_cmd,
	.commit		= conv_attach_commit,
};

static enum smq_status conv_attach_enter(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	return conv_attach_queue_cmd(hwq, cmd);
}

static enum smq_status conv_attach_dispatch(struct smq_hwq *hwq, struct list_head *cmds,
					    bool commit)
{
	return smq_dispatch_list(&conv_attach_held, hwq, cmds, commit);
}

const struct smq_template conv_attach_tmpl = {
	.enter		= conv_attach_enter,
	.dispatch	= conv_attach_dispatch,
};

/*
 * A command of the error handler goes straight to the LLD; the error handler itself awaits its end.
 */
static noinline smq_qc_t conv_attach_queue_eh(struct conv_attach *at, struct scsi_cmnd *scmd)
{
	smq_qc_t ret;

	rcu_read_lock();
	ret = at->queuecommand(at->shost, scmd);
	rcu_read_unlock();
	return ret;
}

/* Counts a command that the LLD refused in "direct"; the mid-layer repeats it. */
static noinline smq_qc_t conv_attach_refused(struct scsi_cmnd *scmd, smq_qc_t ret)
{
	struct smq_cmd *cmd = conv_attach_cmd(conv_attach_of(scmd->device->host), scmd);

	this_cpu_dec(cmd->hwq->stats->queued);
	this_cpu_inc(cmd->hwq->stats->busy);
	this_cpu_inc(cmd->hwq->stats->busy_host);
	atomic_set(&cmd->state, SMQ_FREE);
	return ret;
}

/*
 * A command that may meet a policy or a fault. The layer decides which command is the last before a
 * doorbell, so the LLD must not ring for this one by itself.
 */
static noinline smq_qc_t conv_attach_queue_detour(struct conv_attach *at, struct smq_hwq *hwq,
						  struct smq_cmd *cmd)
{
	struct scsi_cmnd *scmd = cmd->scmd;
	bool last = scmd->flags & SCMD_LAST;
	struct smq_policy *policy;

	scmd->flags &= ~SCMD_LAST;
	cmd->lun = smq_attached_lun(at->smq, scmd->device);
	if (unlikely(!cmd->lun)) {
		smq_qc_t ret;

		/* The LUN is being removed. */
		if (last)
			scmd->flags |= SCMD_LAST;
		ret = at->queuecommand(at->shost, scmd);
		return ret ? conv_attach_refused(scmd, ret) : ret;
	}
	smq_attached_depth(cmd);
	policy = smq_policy_rings(hwq);
	if (policy)
		return smq_queue_ringing(&conv_attach_submit, hwq, cmd, last, policy);
	return smq_queue_detour(&conv_attach_submit, hwq, cmd, last);
}

/* What conv_attach_queuecommand() leaves out. */
static noinline smq_qc_t conv_attach_queue_slow(struct Scsi_Host *shost, struct scsi_cmnd *scmd)
{
	struct conv_attach *at = conv_attach_of(shost);
	struct smq_cmd *cmd;

	if (scmd->submitter != SUBMITTED_BY_BLOCK_LAYER)
		return conv_attach_queue_eh(at, scmd);
	cmd = conv_attach_cmd(at, scmd);
	smq_attached_used_again(cmd);
	/* cmd->hwq is that of the tag's last command, or the first one. */
	smq_attached_begin(smq_attached_hwq(at->hwqs, scsi_cmd_to_rq(scmd))->hwq, cmd, scmd);
	if (tracepoint_enabled(smq_queue))
		smq_trace_queue(cmd);
	return conv_attach_queue_detour(at, cmd->hwq, cmd);
}

/*
 * The queuecommand of an attached host, for a command that meets neither a policy nor a fault.
 * Calls no other function before the LLD's, so that it needs few registers.
 */
static notrace smq_qc_t conv_attach_queuecommand(struct Scsi_Host *shost, struct scsi_cmnd *scmd)
{
	const struct scsi_host_template *sht = READ_ONCE(shost->hostt);
	struct request *rq = scsi_cmd_to_rq(scmd);
	const struct smq_attached_hwq *ahwq;
	struct conv_attach *at;
	unsigned int detour;
	struct smq_cmd *cmd;
	smq_qc_t ret;

	if (unlikely(sht->queuecommand != conv_attach_queuecommand))
		return conv_attach_queue_slow(shost, scmd);
	at = (struct conv_attach *)container_of(sht, struct conv_attach, sht);
	ahwq = smq_attached_hwq(at->hwqs, rq);
	cmd = &ahwq->cmds[rq->tag].cmd;
	BUILD_BUG_ON(SMQ_FREE || SUBMITTED_BY_BLOCK_LAYER);
	/* data_race: code that depends on a change waits for submitters that saw the old value. */
	detour = data_race(ahwq->hwq->detour);
	/* One test for three conditions. */
	if (unlikely(atomic_read(&cmd->state) | scmd->submitter | detour) ||
	    static_branch_unlikely(&smq_faults) || tracepoint_enabled(smq_queue))
		return conv_attach_queue_slow(shost, scmd);
	smq_attached_begin(ahwq->hwq, cmd, scmd);
	ret = at->queuecommand(shost, scmd);
	return unlikely(ret) ? conv_attach_refused(scmd, ret) : ret;
}

/*
 * The probe of the tracepoint in scsi_done(): called for the commands of all hosts when their LLD
 * completes them, before the mid-layer looks at the result.
 */
notrace void conv_attach_done(void *data, struct scsi_cmnd *scmd)
{
	const struct scsi_host_template *sht = READ_ONCE(scmd->device->host->hostt);
	struct request *rq = scsi_cmd_to_rq(scmd);
	struct conv_attach *at;

	if (sht->queuecommand != conv_attach_queuecommand)
		return;
	at = (struct conv_attach *)container_of(sht, struct conv_attach, sht);
	smq_attached_done(&smq_attached_hwq(at->hwqs, rq)->cmds[rq->tag].cmd, scmd);
}

static void conv_attach_commit_rqs(struct Scsi_Host *shost, u16 queue)
{
	struct conv_attach *at = conv_attach_of(shost);

	smq_policy_last(at->smq->hwq[queue]);
	at->orig->commit_rqs(shost, queue);
}

/* Work item of an attachment. It is canceled when the host has no commands any more. */
void conv_attach_check(struct work_struct *work)
{
	struct conv_attach *at = container_of(to_delayed_work(work), struct conv_attach, check);

	if (smq_attached_check(at->smq))
		queue_delayed_work(conv_attach_wq, &at->check, CONV_ATTACH_CHECK);
}

static smq_timeout_t conv_attach_timed_out(struct scsi_cmnd *scmd)
{
	const struct request *rq = scsi_cmd_to_rq(scmd);
	const int tag = READ_ONCE(rq->tag);
	smq_timeout_t ret = SCSI_EH_NOT_HANDLED;
	struct conv_attach *at;
	struct smq_cmd *cmd;

	/* The LLD has completed the command, and the mid-layer is repeating it. */
	if (tag < 0)
		return ret;
	rcu_read_lock();
	at = conv_attach_of(scmd->device->host);
	cmd = &smq_attached_hwq(at->hwqs, rq)->cmds[tag].cmd;
	if (smq_attached_timed_out(cmd))
		ret = SCSI_EH_RESET_TIMER;
	else if (at->orig->eh_timed_out && atomic_read(&cmd->state) != SMQ_FREE)
		ret = at->orig->eh_timed_out(scmd);
	if (ret == SCSI_EH_NOT_HANDLED) {
		smq_attached_late(cmd);
		queue_delayed_work(conv_attach_wq, &at->check, CONV_ATTACH_CHECK);
	}
	rcu_read_unlock();
	return ret;
}

/* Finds an attachment for a function that may sleep, and keeps it until srcu_read_unlock(). */
static struct conv_attach *conv_attach_lock_of(const struct scsi_cmnd *scmd, int *idx)
	__acquires(SRCU)
{
	struct conv_attach *at;

	rcu_read_lock();
	at = conv_attach_of(scmd->device->host);
	*idx = srcu_read_lock(&at->srcu);
	rcu_read_unlock();
	return at;
}

static int conv_attach_abort(struct scsi_cmnd *scmd)
{
	int idx, ret = SUCCESS;
	struct conv_attach *at = conv_attach_lock_of(scmd, &idx);
	struct smq_cmd *cmd = conv_attach_cmd(at, scmd);

	if (!smq_attached_abort(cmd)) {
		if (smq_fault_count_down(&smq_host_fault(at->smq)->fail_abort))
			ret = FAILED;
		else
			ret = at->orig->eh_abort_handler(scmd);
		if (ret == SUCCESS || ret == FAST_IO_FAIL)
			smq_attached_taken(cmd);
	}
	srcu_read_unlock(&at->srcu, idx);
	return ret;
}

/* A reset calls the LLD's handler. Held commands wait meanwhile, as new ones do. */
#define CONV_ATTACH_RESET(_name, _step)							\
static int conv_attach_##_name(struct scsi_cmnd *scmd)					\
{											\
	int idx, ret = FAILED;								\
	struct conv_attach *at = conv_attach_lock_of(scmd, &idx);			\
											\
	if (smq_attached_reset_begin(at->smq, _step))					\
		ret = at->orig->eh_##_name##_handler(scmd);				\
	smq_attached_reset_end(at->smq);						\
	srcu_read_unlock(&at->srcu, idx);						\
	return ret;									\
}

CONV_ATTACH_RESET(device_reset, SMQ_ATTACHED_LUN_RESET)
CONV_ATTACH_RESET(target_reset, SMQ_ATTACHED_TARGET_RESET)
CONV_ATTACH_RESET(bus_reset, SMQ_ATTACHED_TARGET_RESET)
CONV_ATTACH_RESET(host_reset, SMQ_ATTACHED_HOST_RESET)

/* Called for a new LUN, under the host's scan_mutex. */
static int conv_attach_sdev_init(struct scsi_device *sdev)
{
	struct conv_attach *at = conv_attach_of(sdev->host);
	int err = smq_attached_add_lun(at->smq, sdev);

	if (!err && at->orig->sdev_init)
		err = at->orig->sdev_init(sdev);
	return err;
}

/* Called for a LUN that is removed and has no commands, under the host's scan_mutex. */
static void conv_attach_sdev_destroy(struct scsi_device *sdev)
{
	struct conv_attach *at = conv_attach_of(sdev->host);

	if (at->orig->sdev_destroy)
		at->orig->sdev_destroy(sdev);
	at->lun_gone(at, sdev);
}

/* Fills the template of an attached host. A handler that the LLD does not have stays NULL. */
void conv_attach_fill(struct conv_attach *at)
{
	struct scsi_host_template *sht = &at->sht;

	*sht = *at->orig;
	at->queuecommand = sht->queuecommand;
	sht->queuecommand = conv_attach_queuecommand;
	sht->eh_timed_out = conv_attach_timed_out;
	sht->sdev_init = conv_attach_sdev_init;
	sht->sdev_destroy = conv_attach_sdev_destroy;
	if (sht->commit_rqs) {
		sht->commit_rqs = conv_attach_commit_rqs;
		at->lld.commit = conv_attach_commit;
	}
	if (sht->eh_abort_handler)
		sht->eh_abort_handler = conv_attach_abort;
	if (sht->eh_device_reset_handler)
		sht->eh_device_reset_handler = conv_attach_device_reset;
	if (sht->eh_target_reset_handler)
		sht->eh_target_reset_handler = conv_attach_target_reset;
	if (sht->eh_bus_reset_handler)
		sht->eh_bus_reset_handler = conv_attach_bus_reset;
	if (sht->eh_host_reset_handler)
		sht->eh_host_reset_handler = conv_attach_host_reset;
}
