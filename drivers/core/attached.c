// SPDX-License-Identifier: GPL-2.0
/*
 * Attached hosts: the layer's part of a host of another driver lies beside the host. See
 * <smq/attached.h>.
 */
#include <linux/export.h>
#include <linux/kobject.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <smq/attached.h>

#include "core.h"
#include "policy_cmd.h"
#include "smq.h"
#include "trace.h"
#include "wait.h"

/**
 * struct smq_attached_lun - the layer's part of a LUN of an attached host
 * @core: as for the layer's own hosts
 * @told: the queue_depth from which the inner depth was computed
 */
struct smq_attached_lun {
	struct smq_lun_core core;
	int told;
};

bool smq_host_is_own(const struct Scsi_Host *shost)
{
	return shost->hostt->init_cmd_priv == smq_init_cmd_priv;
}
EXPORT_SYMBOL_GPL(smq_host_is_own);

struct smq_lun_core *smq_attached_lun(struct smq_host *host, const struct scsi_device *sdev)
{
	return smq_attached_find(host->attached, sdev);
}
EXPORT_SYMBOL_GPL(smq_attached_lun);

static void smq_attached_set_depth(struct smq_attached_lun *lun)
{
	struct smq_depth *depth = &lun->core.depth;
	unsigned long flags;

	spin_lock_irqsave(&depth->lock, flags);
	lun->told = READ_ONCE(lun->core.sdev->queue_depth);
	depth->max = smq_depth_inner(lun->told);
	WRITE_ONCE(depth->depth, depth->max);
	spin_unlock_irqrestore(&depth->lock, flags);
}

void smq_attached_depth(struct smq_cmd *cmd)
{
	struct smq_attached_lun *lun = container_of(cmd->lun, struct smq_attached_lun, core);

	if (unlikely(READ_ONCE(lun->told) != READ_ONCE(cmd->lun->sdev->queue_depth)))
		smq_attached_set_depth(lun);
}
EXPORT_SYMBOL_GPL(smq_attached_depth);

int smq_attached_add_lun(struct smq_host *host, struct scsi_device *sdev)
{
	struct smq_attached_lun *lun = kzalloc(sizeof(*lun), GFP_KERNEL);
	struct smq_attached *attached = host->attached;
	struct smq_policy *policy;
	int err = 0;

	if (!lun)
		return -ENOMEM;
	lun->core.sdev = sdev;
	smq_hold_init(&lun->core.depth.wait, host, smq_wait_dispatch_lun);
	mutex_lock(&host->core->choice.lock);
	smq_depth_init(&lun->core.depth, sdev);
	smq_attached_set_depth(lun);
	policy = smq_choice_policy(&host->core->choice);
	if (policy)
		err = smq_policy_add_lun(policy, &lun->core);
	if (!err) {
		mutex_lock(&attached->lock);
		hash_add_rcu(attached->luns, &lun->core.attached, (unsigned long)sdev);
		mutex_unlock(&attached->lock);
	}
	mutex_unlock(&host->core->choice.lock);
	if (err) {
		smq_hold_exit(&lun->core.depth.wait);
		kfree(lun);
	}
	return err;
}
EXPORT_SYMBOL_GPL(smq_attached_add_lun);

/* Context: the caller took the LUN off the hash, or no code looks for it any more. */
static void smq_attached_free_lun(struct smq_host *host, struct smq_lun_core *lun)
{
	lockdep_assert_held(&host->core->choice.lock);
	/* As in smq_sdev_destroy(). */
	smq_hold_exit(&lun->depth.wait);
	smq_policy_remove_lun(lun);
	synchronize_rcu();
	kfree(container_of(lun, struct smq_attached_lun, core));
}

/* Ends the layer's part of a command that ended unseen. Context: late_lock. */
static void smq_attached_settle(struct smq_cmd *cmd)
{
	smq_cmd_forget(cmd);
	atomic_inc(&cmd->hwq->host->attached->unseen);
	/* Release: the next user of the tag writes to the command after this. */
	atomic_set_release(&cmd->state, SMQ_FREE);
}

/* The caller becomes the owner of a late command, unless the LLD completes it at this moment. */
static bool smq_attached_own_late(struct smq_cmd *cmd)
{
	lockdep_assert_held(&cmd->hwq->host->attached->late_lock);
	return atomic_cmpxchg(&cmd->state, SMQ_LATE, SMQ_SETTLED) == SMQ_LATE;
}

/*
 * Settles the late commands of a LUN that has no command left: their @seen and @lun must not be
 * used after this.
 */
static void smq_attached_settle_lun(struct smq_host *host, const struct smq_lun_core *lun)
{
	struct smq_attached *attached = host->attached;
	unsigned int i;

	for (i = 0; i < attached->nr; i++) {
		struct smq_cmd *cmd = &attached->cmds[i].cmd;

		/* Acquire: the CPU that settled it no longer uses the LUN. */
		if (atomic_read_acquire(&cmd->state) == SMQ_FREE)
			continue;
		spin_lock_irq(&attached->late_lock);
		/* @lun is set if a policy has seen the command. */
		if (atomic_read(&cmd->state) == SMQ_LATE && cmd->seen &&
		    cmd->lun == lun && smq_attached_own_late(cmd))
			smq_attached_settle(cmd);
		spin_unlock_irq(&attached->late_lock);
	}
}

void smq_attached_remove_lun(struct smq_host *host, struct scsi_device *sdev)
{
	struct smq_attached *attached = host->attached;
	struct smq_lun_core *lun;

	mutex_lock(&host->core->choice.lock);
	mutex_lock(&attached->lock);
	lun = smq_attached_find(attached, sdev);
	if (lun)
		hash_del_rcu(&lun->attached);
	mutex_unlock(&attached->lock);
	if (lun) {
		smq_attached_settle_lun(host, lun);
		smq_attached_free_lun(host, lun);
	}
	mutex_unlock(&host->core->choice.lock);
}
EXPORT_SYMBOL_GPL(smq_attached_remove_lun);

static void smq_attached_free_luns(struct smq_host *host)
{
	struct smq_lun_core *lun;
	struct hlist_node *next;
	int bucket;

	mutex_lock(&host->core->choice.lock);
	hash_for_each_safe(host->attached->luns, bucket, next, lun, attached) {
		hash_del_rcu(&lun->attached);
		smq_attached_free_lun(host, lun);
	}
	mutex_unlock(&host->core->choice.lock);
}

static int smq_attached_init(struct smq_host *host)
{
	struct smq_attached *attached = &host->core->attached;
	unsigned int i;

	host->attached = attached;
	mutex_init(&attached->lock);
	spin_lock_init(&attached->late_lock);
	hash_init(attached->luns);
	INIT_LIST_HEAD(&attached->node);
	attached->nr = smq_host_nr_cmds(host);
	attached->cmds = kvcalloc(attached->nr, sizeof(*attached->cmds), GFP_KERNEL);
	attached->hwqs = kcalloc(host->nr_hwqs, sizeof(*attached->hwqs), GFP_KERNEL);
	if (!attached->cmds || !attached->hwqs) {
		kvfree(attached->cmds);
		kfree(attached->hwqs);
		return -ENOMEM;
	}
	for (i = 0; i < host->nr_hwqs; i++) {
		attached->hwqs[i].hwq = host->hwq[i];
		attached->hwqs[i].cmds = attached->cmds + i * smq_host_tag_step(host);
	}
	for (i = 0; i < attached->nr; i++) {
		INIT_WORK(&attached->cmds[i].cmd.work, smq_cmd_work);
		INIT_LIST_HEAD(&attached->cmds[i].cmd.node);
		attached->cmds[i].cmd.hwq = host->hwq[0];
	}
	return 0;
}

struct smq_host *smq_attached_alloc(const struct smq_lld *lld, const struct smq_template *tmpl,
				    struct Scsi_Host *shost)
{
	const struct blk_mq_tag_set *set = &shost->tag_set;
	struct smq_host *host = kzalloc(smq_host_size(lld), GFP_KERNEL);
	int err;

	if (!host)
		return ERR_PTR(-ENOMEM);
	host->shost = shost;
	host->lld = lld;
	host->depth = shost->can_queue;
	host->nr_hwqs = max(set->nr_hw_queues, 1U);
	if (set->nr_maps > HCTX_TYPE_POLL)
		host->nr_poll = set->map[HCTX_TYPE_POLL].nr_queues;
	err = smq_host_set_up(host, tmpl);
	if (!err) {
		err = smq_attached_init(host);
		if (!err)
			return host;
		smq_host_tear_down(host);
	}
	kfree(host);
	return ERR_PTR(err);
}
EXPORT_SYMBOL_GPL(smq_attached_alloc);

int smq_attached_show(struct smq_host *host)
{
	struct kobject *kobj = &host->shost->shost_dev.kobj;
	int err;

	smq_attached_list(host->attached);
	host->core->eh.removing = false;
	if (!host->core->no_policy)
		smq_no_policy_add(host);
	err = sysfs_create_groups(kobj, smq_host_groups);
	if (err)
		return err;
	host->attached->shown = true;
	smq_registry_show_host(host);
	smq_stats_add_host(host);
	smq_faults_start_host(host);
	kobject_uevent(kobj, KOBJ_CHANGE);
	return 0;
}
EXPORT_SYMBOL_GPL(smq_attached_show);

void smq_attached_hide(struct smq_host *host)
{
	struct smq_attached *attached = host->attached;

	mutex_lock(&host->core->eh.lock);
	host->core->eh.removing = true;
	mutex_unlock(&host->core->eh.lock);
	smq_policy_wait_for_change(host);
	if (attached->shown) {
		smq_registry_hide_host(host);
		smq_stats_remove_host(host);
		sysfs_remove_groups(&host->shost->shost_dev.kobj, smq_host_groups);
		attached->shown = false;
	}
	smq_attached_unlist(attached);
}
EXPORT_SYMBOL_GPL(smq_attached_hide);

/* Requeues the commands that fault injection withholds. */
static void smq_attached_end_faults(struct smq_host *host)
{
	struct smq_attached *attached = host->attached;
	unsigned int i;

	WRITE_ONCE(smq_host_fault(host)->kind, SMQ_FAULT_NONE);
	synchronize_rcu();
	for (i = 0; i < attached->nr; i++) {
		struct smq_cmd *cmd = &attached->cmds[i].cmd;

		rcu_read_lock();
		/* If error handling has the command, error handling ends it. */
		if (atomic_read_acquire(&cmd->state) == SMQ_WITHHELD && !smq_cmd_in_eh(cmd) &&
		    smq_fault_take_back(cmd)) {
			smq_cmd_taken(cmd);
			cmd->scmd->result = DID_REQUEUE << 16;
			scsi_done(cmd->scmd);
		}
		rcu_read_unlock();
	}
}

void smq_attached_drain(struct smq_host *host)
{
	smq_policy_drop(host);
	smq_attached_end_faults(host);
}
EXPORT_SYMBOL_GPL(smq_attached_drain);

void smq_attached_end(struct smq_host *host)
{
	struct smq_attached *attached = host->attached;
	unsigned int i;

	WARN_ONCE(smq_hold_sum(host), "smq: an attached host without commands holds some");
	for (i = 0; i < attached->nr; i++)
		smq_attached_used_again(&attached->cmds[i].cmd);
}
EXPORT_SYMBOL_GPL(smq_attached_end);

void smq_attached_stop(struct smq_host *host)
{
	smq_policy_stop_host(host);
	smq_holds_stop_host(host);
	smq_faults_stop_host(host);
}
EXPORT_SYMBOL_GPL(smq_attached_stop);

void smq_attached_free(struct smq_host *host)
{
	smq_attached_free_luns(host);
	smq_host_tear_down(host);
	kvfree(host->attached->cmds);
	kfree(host->attached->hwqs);
	kfree(host);
}
EXPORT_SYMBOL_GPL(smq_attached_free);

void smq_attached_seen_done(struct smq_cmd *cmd)
{
	rcu_read_lock();
	smq_cmd_count_attached(cmd);
	rcu_read_unlock();
}
EXPORT_SYMBOL_GPL(smq_attached_seen_done);

void smq_attached_done_late(struct smq_cmd *cmd, const struct scsi_cmnd *scmd)
{
	/*
	 * If the mid-layer ends a command without queuecommand, the tag's last command may still be
	 * the layer's.
	 */
	if (cmd->scmd == scmd && atomic_cmpxchg(&cmd->state, SMQ_LATE, SMQ_FREE) == SMQ_LATE)
		smq_attached_seen_done(cmd);
}
EXPORT_SYMBOL_GPL(smq_attached_done_late);

void smq_attached_taken(struct smq_cmd *cmd)
{
	struct smq_attached *attached = cmd->hwq->host->attached;
	unsigned long flags;

	spin_lock_irqsave(&attached->late_lock, flags);
	if (smq_attached_own_late(cmd)) {
		smq_cmd_taken(cmd);
		atomic_set_release(&cmd->state, SMQ_FREE);
	}
	spin_unlock_irqrestore(&attached->late_lock, flags);
}
EXPORT_SYMBOL_GPL(smq_attached_taken);

void smq_attached_used_again(struct smq_cmd *cmd)
{
	struct smq_attached *attached = cmd->hwq->host->attached;
	unsigned long flags;

	if (atomic_read_acquire(&cmd->state) == SMQ_FREE)
		return;
	/* Waits for the CPU that settles the command, if one does. */
	spin_lock_irqsave(&attached->late_lock, flags);
	if (atomic_read(&cmd->state) != SMQ_FREE)
		smq_attached_settle(cmd);
	spin_unlock_irqrestore(&attached->late_lock, flags);
}
EXPORT_SYMBOL_GPL(smq_attached_used_again);

bool smq_attached_abort(struct smq_cmd *cmd)
{
	bool ours;

	atomic_inc(&cmd->hwq->host->core->eh.aborts);
	/* As in smq_abort_cmd(): wait for a queuecommand that is under way. */
	synchronize_rcu();
	rcu_read_lock();
	ours = smq_hold_take_back(cmd, SMQ_FREE);
	rcu_read_unlock();
	if (ours)
		smq_cmd_taken(cmd);
	/*
	 * If fault injection withheld the command, it ended for the layer when its timer expired. A
	 * command that the LLD has completed is not aborted. The error handler also aborts commands
	 * of its own, which pass by the layer.
	 */
	return ours || (atomic_read(&cmd->state) == SMQ_FREE &&
			cmd->scmd->submitter == SUBMITTED_BY_BLOCK_LAYER);
}
EXPORT_SYMBOL_GPL(smq_attached_abort);

bool smq_attached_timed_out(struct smq_cmd *cmd)
{
	if (smq_hold_timed_out(cmd))
		return true;
	atomic_inc(&cmd->hwq->host->core->eh.timeouts);
	if (smq_fault_take_back(cmd))
		smq_cmd_taken(cmd);
	return false;
}
EXPORT_SYMBOL_GPL(smq_attached_timed_out);

void smq_attached_late(struct smq_cmd *cmd)
{
	struct smq_attached *attached = cmd->hwq->host->attached;
	unsigned long flags;

	/*
	 * A check that begins after this finds that the mid-layer has the command in flight. One
	 * that has begun may have looked for such commands already.
	 */
	spin_lock_irqsave(&attached->late_lock, flags);
	container_of(cmd, struct smq_attached_cmd, cmd)->seen_in = attached->checks;
	/* Fully ordered: a CPU that sees SMQ_LATE sees what the submitter wrote. */
	atomic_cmpxchg(&cmd->state, SMQ_OWNED, SMQ_LATE);
	spin_unlock_irqrestore(&attached->late_lock, flags);
}
EXPORT_SYMBOL_GPL(smq_attached_late);

static bool smq_attached_reset_may(struct smq_host *host, enum smq_attached_step step)
{
	struct smq_fault *fault = smq_host_fault(host);
	struct smq_host_eh *eh = &host->core->eh;

	switch (step) {
	case SMQ_ATTACHED_LUN_RESET:
		atomic_inc(&eh->lun_resets);
		return !smq_fault_count_down(&fault->fail_lun_reset);
	case SMQ_ATTACHED_TARGET_RESET:
		atomic_inc(&eh->target_resets);
		return !smq_fault_count_down(&fault->fail_target_reset);
	default:
		atomic_inc(&eh->host_resets);
		return true;
	}
}

/* Counts the resets that run: an ioctl's and the error handler's may run at the same time. */
static void smq_attached_reset_count(struct smq_host *host, int more)
{
	mutex_lock(&host->core->eh.lock);
	host->attached->resets += more;
	WRITE_ONCE(host->frozen, host->attached->resets);
	mutex_unlock(&host->core->eh.lock);
}

bool smq_attached_reset_begin(struct smq_host *host, enum smq_attached_step step)
{
	smq_attached_reset_count(host, 1);
	/* After this no dispatcher of held commands is on its way to the LLD. */
	synchronize_rcu();
	return smq_attached_reset_may(host, step);
}
EXPORT_SYMBOL_GPL(smq_attached_reset_begin);

void smq_attached_reset_end(struct smq_host *host)
{
	smq_attached_reset_count(host, -1);
	smq_hold_kick_all(host);
}
EXPORT_SYMBOL_GPL(smq_attached_reset_end);

/* Marks a command that the mid-layer has in flight. The block layer has referenced the request. */
static bool smq_attached_see(struct request *rq, void *data)
{
	const struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	struct smq_host *host = data;
	struct smq_cmd *cmd = smq_rq_to_cmd(host, rq);

	spin_lock_irq(&host->attached->late_lock);
	/* data_race: a command that begins now is not late. */
	if (data_race(cmd->scmd) == scmd && test_bit(SCMD_STATE_INFLIGHT, &scmd->state))
		container_of(cmd, struct smq_attached_cmd, cmd)->seen_in = host->attached->checks;
	spin_unlock_irq(&host->attached->late_lock);
	return true;
}

/*
 * The mid-layer sets SCMD_STATE_INFLIGHT before queuecommand, and clears it when the command ends
 * or is requeued. So a late command without it has ended, or its tag is being used again, for which
 * smq_attached_used_again() waits.
 */
static bool smq_attached_check_one(struct smq_host *host, struct smq_attached_cmd *at)
{
	struct smq_attached *attached = host->attached;
	bool late;

	if (atomic_read_acquire(&at->cmd.state) != SMQ_LATE)
		return false;
	spin_lock_irq(&attached->late_lock);
	late = at->seen_in == attached->checks;
	if (!late && smq_attached_own_late(&at->cmd))
		smq_attached_settle(&at->cmd);
	spin_unlock_irq(&attached->late_lock);
	return late;
}

bool smq_attached_check(struct smq_host *host)
{
	struct smq_attached *attached = host->attached;
	bool late = false;
	unsigned int i;

	mutex_lock(&attached->lock);
	spin_lock_irq(&attached->late_lock);
	attached->checks++;
	spin_unlock_irq(&attached->late_lock);
	blk_mq_tagset_busy_iter(&host->shost->tag_set, smq_attached_see, host);
	for (i = 0; i < attached->nr; i++)
		late |= smq_attached_check_one(host, &attached->cmds[i]);
	mutex_unlock(&attached->lock);
	return late;
}
EXPORT_SYMBOL_GPL(smq_attached_check);
