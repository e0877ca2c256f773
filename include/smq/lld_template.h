/* SPDX-License-Identifier: GPL-2.0 */
/*
 * smq: what SMQ_LLD_TEMPLATE() instantiates for an LLD: queuecommand and what lies
 * between it and the LLD's own operations. <smq/lld.h> includes this file. An LLD itself
 * uses only the macro.
 */
#ifndef SMQ_LLD_TEMPLATE_H
#define SMQ_LLD_TEMPLATE_H

#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/tracepoint-defs.h>
#include <smq/lld.h>

DECLARE_TRACEPOINT(smq_queue);
DECLARE_TRACEPOINT(smq_done);
void smq_trace_queue(struct smq_cmd *cmd);
void smq_trace_done(struct smq_cmd *cmd);
extern const struct static_key *smq_done_key;

int smq_init_cmd_priv(struct Scsi_Host *shost, struct scsi_cmnd *scmd);
int smq_sdev_init(struct scsi_device *sdev);
SMQ_SDEV_CONFIGURE(smq_sdev_configure);
void smq_sdev_destroy(struct scsi_device *sdev);
void smq_map_queues(struct Scsi_Host *shost);
smq_timeout_t smq_eh_timed_out(struct scsi_cmnd *scmd);
int smq_eh_abort(struct scsi_cmnd *scmd);
int smq_eh_lun_reset(struct scsi_cmnd *scmd);
int smq_eh_target_reset(struct scsi_cmnd *scmd);
int smq_eh_host_reset(struct scsi_cmnd *scmd);
smq_qc_t smq_cmd_refused(struct smq_cmd *cmd, enum smq_status st);

/* The calls of the effective policy for a command (drivers/core/policy_path.c). */
struct smq_policy *smq_policy_rings(struct smq_hwq *hwq);
struct smq_hwq *smq_policy_queue(struct smq_hwq *hwq, struct smq_cmd *cmd, bool last);
void smq_policy_ring(struct smq_policy *policy, struct smq_hwq *hwq);
void smq_policy_uncommitted(struct smq_hwq *hwq);
bool smq_policy_take_uncommitted(struct smq_hwq *hwq);
void smq_policy_last(struct smq_hwq *hwq);
bool smq_policy_fall_back(struct smq_hwq *hwq, struct smq_cmd *cmd, enum smq_status st);
bool smq_policy_done(struct smq_cmd *cmd);
bool smq_policy_full(struct smq_cmd *cmd);

/**
 * struct smq_stats - counted on the CPU where it happens, summed when read
 * @queued: accepted by the LLD, or still on the way there
 * @done: completed, whatever the result
 * @errors: of @done, those with a result other than GOOD
 * @busy: returned to the mid-layer
 * @deferred: sent through the worker
 * @polled: completed by poll
 * @held_full: held because the device, or the hardware queue, was full
 * @commits: doorbells
 * @dispatches: batches of held commands given to the LLD
 * @dispatched: commands in these batches
 * @busy_hwq: refused by the LLD with SMQ_HWQ_BUSY
 * @busy_host: refused with SMQ_HOST_BUSY
 * @busy_device: refused with SMQ_DEVICE_BUSY
 * @busy_target: refused with SMQ_TARGET_BUSY
 */
struct smq_stats {
	u64 queued;
	u64 done;
	u64 errors;
	u64 busy;
	u64 deferred;
	u64 polled;
	u64 held_full;
	u64 commits;
	u64 dispatches;
	u64 dispatched;
	u64 busy_hwq;
	u64 busy_host;
	u64 busy_device;
	u64 busy_target;
};

extern const struct attribute_group *smq_host_groups[];

/*
 * Completes a command in process context on the submitting CPU. On a host with one hardware queue
 * scsi_done() would raise the softirq; scsi_done_direct() saves that. But it bypasses the queue's
 * own function for completion: smq_sg's own queues, and those that smq_conv has claimed, have one,
 * which costs less; smq_sg's is needed for commands that the mid-layer retries. Where scsi_done()
 * would do no more than call it, because the hctx has one CPU and no one traces, it is called here,
 * also if the task has left that CPU meanwhile.
 */
static __always_inline void smq_scsi_done_inline(struct scsi_cmnd *scmd)
{
	struct request *rq = scsi_cmd_to_rq(scmd);
	const struct request_queue *q = rq->q;
	bool one_cpu = rq->mq_hctx->nr_ctx == 1;

	if (likely(q->mq_ops == q->tag_set->ops) ||
	    (!scmd->result && !one_cpu && q->nr_hw_queues == 1)) {
		scsi_done_direct(scmd);
	} else if (one_cpu && scmd->submitter == SUBMITTED_BY_BLOCK_LAYER &&
		   !atomic_read(&smq_done_key->enabled) && !blk_should_fake_timeout(rq->q)) {
		if (unlikely(test_and_set_bit(SCMD_STATE_COMPLETE, &scmd->state)))
			return;
		WRITE_ONCE(rq->state, MQ_RQ_COMPLETE);
		q->mq_ops->complete(rq);
	} else {
		scsi_done(scmd);
	}
}

/*
 * Completes a command that only the submitter knows of. Error handling does not compete
 * for it, because an abort waits until queue_cmd has returned.
 */
static __always_inline void smq_cmd_done_inline(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);

	if (unlikely(scmd->result)) {
		if (scmd->result == SAM_STAT_TASK_SET_FULL && smq_policy_full(cmd))
			return;
		this_cpu_inc(hwq->stats->errors);
	}
	this_cpu_inc(hwq->stats->done);
	if (tracepoint_enabled(smq_done))
		smq_trace_done(cmd);
	atomic_set(&cmd->state, SMQ_FREE);
	smq_scsi_done_inline(scmd);
}

/*
 * Calls an old driver's queuecommand_lck under host_lock, as DEF_SCSI_QCMD() does. If the command
 * ends before the entry returns, the submitter completes it after the lock is dropped, because the
 * mid-layer's completion may take the lock.
 */
static __always_inline enum smq_status
smq_lld_queue_lck(const struct smq_lld *lld, struct smq_host *host, struct smq_cmd *cmd)
{
	spinlock_t *host_lock = host->shost->host_lock;
	unsigned long flags;
	int ret;

	smq_cmd_enter(cmd);
	spin_lock_irqsave(host_lock, flags);
	ret = lld->queuecommand_lck(smq_cmd_to_scmd(cmd));
	spin_unlock_irqrestore(host_lock, flags);

	if (smq_cmd_leave(cmd) == SMQ_DONE)
		return SMQ_DONE;
	switch (ret) {
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

/* Calls the LLD's queue_cmd, or queuecommand_lck; the compiler drops the other branch. */
static __always_inline enum smq_status
smq_lld_enter(const struct smq_lld *lld, struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	if (lld->queuecommand_lck)
		return smq_lld_queue_lck(lld, hwq->host, cmd);
	return lld->queue_cmd(hwq, cmd);
}

/* As smq_lld_enter(). While any host has faults, the command goes through drivers/core/fault.c. */
static __always_inline enum smq_status
smq_lld_queue(const struct smq_lld *lld, struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	if (static_branch_unlikely(&smq_faults))
		return smq_fault_queue(hwq, cmd);
	return smq_lld_enter(lld, hwq, cmd);
}

static __always_inline void smq_lld_commit(const struct smq_lld *lld, struct smq_hwq *hwq)
{
	this_cpu_inc(hwq->stats->commits);
	lld->commit(hwq);
}

/* Completes a command that a policy may have seen, unless the layer holds it again. */
static __always_inline void smq_cmd_end_inline(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	if (likely(!cmd->seen) || !smq_policy_done(cmd))
		smq_cmd_done_inline(hwq, cmd);
}

/*
 * Rings the doorbells that are due after a command. @to: where the command went; NULL: it is held.
 */
static __always_inline void smq_detour_commit(const struct smq_lld *lld, struct smq_hwq *hwq,
					      struct smq_hwq *to, bool last)
{
	/* The batch of another queue may have no last command: commit at once. */
	if (unlikely(to && to != hwq))
		smq_lld_commit(lld, to);
	if (!last) {
		if (to == hwq)
			smq_policy_uncommitted(hwq);
	} else if (to == hwq || smq_policy_take_uncommitted(hwq)) {
		smq_lld_commit(lld, hwq);
	}
}

/*
 * The part of smq_queue_one() for a host that has an effective policy, and for a hardware queue in
 * which commands wait for room.
 */
static __always_inline smq_qc_t
smq_queue_detour(const struct smq_lld *lld, struct smq_hwq *hwq, struct smq_cmd *cmd, bool last)
{
	struct smq_hwq *to = smq_policy_queue(hwq, cmd, last);
	smq_qc_t ret = (smq_qc_t)0;
	enum smq_status st;

	while (to) {
		st = smq_lld_queue(lld, to, cmd);
		if (st == SMQ_DONE) {
			smq_cmd_end_inline(to, cmd);
		} else if (unlikely(st != SMQ_QUEUED)) {
			if (to != hwq && smq_policy_fall_back(hwq, cmd, st)) {
				to = hwq;
				continue;
			}
			ret = smq_cmd_refused(cmd, st);
		}
		break;
	}
	if (lld->commit && !ret)
		smq_detour_commit(lld, hwq, to, last);
	return ret;
}

/* The part of smq_queue_one() for a policy that only rings doorbells. */
static __always_inline smq_qc_t
smq_queue_ringing(const struct smq_lld *lld, struct smq_hwq *hwq, struct smq_cmd *cmd, bool last,
		  struct smq_policy *policy)
{
	enum smq_status st = smq_lld_queue(lld, hwq, cmd);

	if (st == SMQ_DONE) {
		smq_cmd_done_inline(hwq, cmd);
	} else if (unlikely(st != SMQ_QUEUED)) {
		smq_qc_t ret = smq_cmd_refused(cmd, st);

		if (ret)
			return ret;
	}
	if (lld->commit && last)
		smq_policy_ring(policy, hwq);
	return (smq_qc_t)0;
}

static __always_inline smq_qc_t
smq_queue_one(const struct smq_lld *lld, struct Scsi_Host *shost, struct scsi_cmnd *scmd,
	      bool by_block_layer)
{
	struct smq_host *host = smq_shost_to_host(shost);
	struct smq_cmd *cmd = smq_scmd_to_cmd(scmd);
	struct smq_hwq *hwq = host->hwq[scsi_cmd_to_rq(scmd)->mq_hctx->queue_num];
	/* Read the flag now: once the LLD has the command, the command may end at any time. */
	bool last = lld->commit && (scmd->flags & SCMD_LAST);
	enum smq_status st;

	cmd->hwq = hwq;
	/*
	 * A plain store is enough: the LLD's lock, or the barrier of its doorbell, orders it before
	 * another CPU can complete the command.
	 */
	atomic_set(&cmd->state, SMQ_OWNED);
	this_cpu_inc(hwq->stats->queued);
	if (tracepoint_enabled(smq_queue))
		smq_trace_queue(cmd);

	/* data_race: code that depends on a change waits for submitters that saw the old value. */
	if (by_block_layer && unlikely(data_race(hwq->detour))) {
		struct smq_policy *policy = smq_policy_rings(hwq);

		if (policy)
			return smq_queue_ringing(lld, hwq, cmd, last, policy);
		return smq_queue_detour(lld, hwq, cmd, scmd->flags & SCMD_LAST);
	}

	st = smq_lld_queue(lld, hwq, cmd);
	if (st == SMQ_DONE) {
		smq_cmd_done_inline(hwq, cmd);
	} else if (unlikely(st != SMQ_QUEUED)) {
		smq_qc_t ret = smq_cmd_refused(cmd, st);

		/*
		 * If the command is returned, the block layer calls commit_rqs. If it is held,
		 * it may have been the last of a batch: the doorbell is rung below.
		 */
		if (ret)
			return ret;
	}

	if (last)
		smq_lld_commit(lld, hwq);
	return (smq_qc_t)0;
}

/* See struct smq_template. */
static __always_inline enum smq_status
smq_dispatch_list(const struct smq_lld *lld, struct smq_hwq *hwq, struct list_head *cmds,
		  bool commit)
{
	enum smq_status st = SMQ_QUEUED;
	unsigned int given = 0;
	struct smq_cmd *cmd;

	while ((cmd = list_first_entry_or_null(cmds, struct smq_cmd, node))) {
		list_del_init(&cmd->node);
		st = smq_lld_queue(lld, hwq, cmd);
		if (st == SMQ_DONE) {
			smq_cmd_end_inline(hwq, cmd);
		} else if (unlikely(st != SMQ_QUEUED)) {
			list_add(&cmd->node, cmds);
			break;
		}
		given++;
	}
	if (given) {
		this_cpu_inc(hwq->stats->dispatches);
		this_cpu_add(hwq->stats->dispatched, given);
	}
	if (lld->commit && commit)
		smq_lld_commit(lld, hwq);
	return st;
}

/**
 * SMQ_LLD_TEMPLATE() - defines the scsi_host_template of an LLD
 * @tmpl: name of the template
 * @ops: its static const struct smq_lld, complete at this point
 *
 * blk-mq calls queuecommand inside an RCU read-side section. The error handler calls it outside
 * one, for the few commands that it sends itself. The template enters a section only for these
 * commands, so that other commands do not pay for it. Before the mid-layer sends them, it does not
 * check whether the host is blocked. So the template refuses them while a reset by ioctl runs, and
 * the error handler tries them again.
 */
#define SMQ_LLD_TEMPLATE(tmpl, ops)						\
static noinline smq_qc_t tmpl##_queue_eh(struct Scsi_Host *shost,		\
					 struct scsi_cmnd *scmd)		\
{										\
	smq_qc_t ret = SCSI_MLQUEUE_HOST_BUSY;					\
										\
	rcu_read_lock();							\
	if (!READ_ONCE(smq_shost_to_host(shost)->frozen))			\
		ret = smq_queue_one(&(ops), shost, scmd, false);		\
	rcu_read_unlock();							\
	return ret;								\
}										\
										\
static smq_qc_t tmpl##_queuecommand(struct Scsi_Host *shost,			\
				    struct scsi_cmnd *scmd)			\
{										\
	if (unlikely(scmd->submitter != SUBMITTED_BY_BLOCK_LAYER))		\
		return tmpl##_queue_eh(shost, scmd);				\
	return smq_queue_one(&(ops), shost, scmd, true);			\
}										\
										\
static enum smq_status tmpl##_enter(struct smq_hwq *hwq, struct smq_cmd *cmd)	\
{										\
	return smq_lld_enter(&(ops), hwq, cmd);					\
}										\
										\
static enum smq_status tmpl##_dispatch(struct smq_hwq *hwq,			\
				       struct list_head *cmds, bool commit)	\
{										\
	return smq_dispatch_list(&(ops), hwq, cmds, commit);			\
}										\
										\
static void tmpl##_commit_rqs(struct Scsi_Host *shost, u16 queue)		\
{										\
	struct smq_host *host = smq_shost_to_host(shost);			\
										\
	/* A reset has begun, and has rung this doorbell or will ring it. */	\
	if (unlikely(READ_ONCE(host->frozen)))					\
		return;								\
	if (unlikely(rcu_access_pointer(host->policy)))				\
		smq_policy_last(host->hwq[queue]);				\
	if ((ops).commit)							\
		smq_lld_commit(&(ops), host->hwq[queue]);			\
}										\
										\
static int tmpl##_mq_poll(struct Scsi_Host *shost, unsigned int queue)		\
{										\
	struct smq_hwq *hwq = smq_shost_to_host(shost)->hwq[queue];		\
	int found = (ops).poll ? (ops).poll(hwq) : 0;				\
										\
	if (found)								\
		this_cpu_add(hwq->stats->polled, found);			\
	return found;								\
}										\
										\
static struct smq_template tmpl = {						\
	.enter		= tmpl##_enter,						\
	.dispatch	= tmpl##_dispatch,					\
	.sht = {								\
		.module			= THIS_MODULE,				\
		.queuecommand		= tmpl##_queuecommand,			\
		.commit_rqs		= tmpl##_commit_rqs,			\
		.mq_poll		= tmpl##_mq_poll,			\
		.init_cmd_priv		= smq_init_cmd_priv,			\
		.sdev_init		= smq_sdev_init,			\
		.sdev_configure		= smq_sdev_configure,			\
		.sdev_destroy		= smq_sdev_destroy,			\
		.map_queues		= smq_map_queues,			\
		.change_queue_depth	= smq_change_queue_depth,		\
		.track_queue_depth	= 1,					\
		.eh_timed_out		= smq_eh_timed_out,			\
		.eh_abort_handler	= smq_eh_abort,				\
		.eh_device_reset_handler = smq_eh_lun_reset,			\
		.eh_target_reset_handler = smq_eh_target_reset,		\
		.eh_host_reset_handler	= smq_eh_host_reset,			\
		.skip_settle_delay	= 1,					\
		.this_id		= -1,					\
		.shost_groups		= smq_host_groups,			\
	},									\
}

#endif /* SMQ_LLD_TEMPLATE_H */
