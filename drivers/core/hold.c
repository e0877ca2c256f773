// SPDX-License-Identifier: GPL-2.0
/*
 * Holding: what all policies share that keep commands. Whoever may end a held
 * command (its policy, an abort, a reset, its time) takes it off the list under
 * the lock; who gives it to the LLD does so inside the RCU read-side section in
 * which it was taken, which is what error handling waits for.
 */
#include <linux/ktime.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "hold.h"
#include "policy.h"
#include "smq.h"
#include "trace.h"

/* Into the list, first or last. Called with the lock held, interrupts off. */
void smq_hold_add(struct smq_hold *hold, struct smq_cmd *cmd, bool first)
{
	if (!cmd->since)
		cmd->since = jiffies | 1;
	if (first)
		list_add(&cmd->node, &hold->cmds);
	else
		list_add_tail(&cmd->node, &hold->cmds);
	hold->bytes += scsi_bufflen(smq_cmd_to_scmd(cmd));
	WRITE_ONCE(hold->nr, hold->nr + 1);
	atomic_set(&cmd->state, SMQ_HELD);
}

/*
 * Out of the list: the caller owns the command. @state is what others see of it from
 * then on, with nothing in between that they could claim. Called with the lock held.
 */
static void smq_hold_del(struct smq_hold *hold, struct smq_cmd *cmd, enum smq_cmd_state state)
{
	list_del_init(&cmd->node);
	hold->bytes -= scsi_bufflen(smq_cmd_to_scmd(cmd));
	WRITE_ONCE(hold->nr, hold->nr - 1);
	if (!hold->nr)
		WRITE_ONCE(hold->full, false);
	if (cmd->flags & SMQ_CMD_WAITING) {
		cmd->flags &= ~SMQ_CMD_WAITING;
		atomic_dec(&smq_cmd_lun(cmd)->waiting);
	}
	/* Release: flags and given are looked at without the lock, once it is OWNED. */
	atomic_set_release(&cmd->state, state);
}

/*
 * Looks again in @ns at the latest. A timer that runs already is left alone: it
 * sees for itself whether it came too early. Called with the lock held.
 */
void smq_hold_wait(struct smq_hold *hold, u64 ns)
{
	if (!hrtimer_is_queued(&hold->timer))
		hrtimer_start(&hold->timer, ns_to_ktime(ns), HRTIMER_MODE_REL_PINNED);
}

/* The device is full, which is counted for one command. */
static void smq_hold_kept(struct smq_cmd *cmd)
{
	struct smq_host *host = cmd->hwq->host;

	this_cpu_inc(cmd->hwq->stats->kept);
	WRITE_ONCE(host->kept_at, jiffies);
	smq_policy_holds(host);
}

static void smq_hold_mark_waiting(struct smq_cmd *cmd)
{
	if (cmd->flags & SMQ_CMD_WAITING)
		return;
	cmd->flags |= SMQ_CMD_WAITING;
	/* Fully ordered, as smq_lun_put() is on the other side. */
	atomic_inc_return(&smq_cmd_lun(cmd)->waiting);
	smq_hold_kept(cmd);
}

/*
 * A LUN has no room. The command says that it waits before the room is looked at
 * again: a completion makes room before it looks for who waits.
 */
static bool smq_hold_room(struct smq_cmd *cmd, struct smq_lun *lun)
{
	if (smq_lun_get(lun))
		return true;
	if (cmd->flags & SMQ_CMD_WAITING)
		return false;
	smq_hold_mark_waiting(cmd);
	return smq_lun_get(lun);
}

/*
 * Takes what may go to the LLD now, @most commands, in order but for LUNs that
 * are full. One that error handling wants stays: it is looked for there.
 */
static unsigned int smq_hold_take(struct smq_hold *hold, struct list_head *list,
				  unsigned int most)
{
	struct smq_lun *lun, *blocked = NULL;
	struct smq_cmd *cmd, *next;
	unsigned int nr = 0;

	/* Set before a grace period that this section delays, or seen. */
	if (READ_ONCE(hold->hwq->host->frozen))
		return 0;
	WRITE_ONCE(hold->full, false);
	list_for_each_entry_safe(cmd, next, &hold->cmds, node) {
		if (nr == most)
			break;
		if (smq_cmd_in_eh(cmd))
			continue;
		lun = smq_cmd_lun(cmd);
		if (lun == blocked) {
			smq_hold_mark_waiting(cmd);
			continue;
		}
		if (!smq_hold_room(cmd, lun)) {
			blocked = lun;
			continue;
		}
		cmd->flags |= SMQ_CMD_COUNTED | SMQ_CMD_BATCHED;
		WRITE_ONCE(cmd->given, jiffies);
		smq_hold_del(hold, cmd, SMQ_OWNED);
		list_add_tail(&cmd->node, list);
		nr++;
	}
	atomic_add(nr, &hold->inflight);
	return nr;
}

/* What the LLD did not take goes back to where it was, in front. */
static void smq_hold_put_back(struct smq_hold *hold, struct list_head *list)
{
	struct smq_cmd *cmd, *prev;
	unsigned long flags;

	spin_lock_irqsave(&hold->lock, flags);
	list_for_each_entry_safe_reverse(cmd, prev, list, node) {
		list_del_init(&cmd->node);
		cmd->flags &= ~(SMQ_CMD_COUNTED | SMQ_CMD_BATCHED);
		atomic_dec(&hold->inflight);
		smq_lun_put(smq_cmd_lun(cmd));
		smq_hold_kept(cmd);
		smq_hold_add(hold, cmd, true);
	}
	WRITE_ONCE(hold->full, true);
	/* With commands in flight a completion comes first. */
	smq_hold_wait(hold, SMQ_HOLD_RETRY_NS);
	spin_unlock_irqrestore(&hold->lock, flags);
}

static bool smq_hold_give(struct smq_hold *hold, struct list_head *list, bool commit)
{
	struct smq_host *host = hold->hwq->host;

	host->dispatch(hold->hwq, list, commit);
	if (likely(list_empty(list)))
		return true;
	smq_hold_put_back(hold, list);
	return false;
}

/* Gives the LLD one command, and times its doorbell alone. */
static void smq_hold_sample(struct smq_hold *hold)
{
	const struct smq_lld *lld = hold->hwq->host->lld;
	unsigned long flags;
	LIST_HEAD(list);
	bool dear;
	u64 ns;

	spin_lock_irqsave(&hold->lock, flags);
	smq_hold_take(hold, &list, 1);
	spin_unlock_irqrestore(&hold->lock, flags);
	if (list_empty(&list))
		return;
	/* What went by before, marked or not, is not this one's cost. */
	if (READ_ONCE(hold->hwq->host->passes) || atomic_xchg(&hold->passed, 0))
		lld->commit(hold->hwq);
	if (!smq_hold_give(hold, &list, false))
		return;

	ns = ktime_get_ns();
	lld->commit(hold->hwq);
	ns = ktime_get_ns() - ns;

	spin_lock_irqsave(&hold->lock, flags);
	smq_batch_sample(&hold->batch, ns);
	dear = hold->batch.dear;
	spin_unlock_irqrestore(&hold->lock, flags);
	if (dear)
		smq_policy_holds(hold->hwq->host);
}

/*
 * Gives the LLD what is held for a hardware queue, as far as it takes it.
 * @sample: and finds out what a doorbell costs.
 *
 * Context: as queue_cmd, inside an RCU read-side section.
 */
void smq_hold_dispatch(struct smq_hwq *hwq, bool sample)
{
	struct smq_hold *hold = hwq->hold;
	unsigned long flags;
	LIST_HEAD(list);

	if (sample)
		smq_hold_sample(hold);
	spin_lock_irqsave(&hold->lock, flags);
	smq_hold_take(hold, &list, UINT_MAX);
	spin_unlock_irqrestore(&hold->lock, flags);
	if (!list_empty(&list))
		smq_hold_give(hold, &list, true);
}

/* Has a hardware queue dispatch, from wherever its commands complete. */
void smq_hold_kick(struct smq_hold *hold)
{
	queue_work(hold->hwq->host->wq, &hold->work);
}

/* Room that any hardware queue may be waiting for. Context: any. */
void smq_hold_kick_all(struct smq_host *host)
{
	unsigned int i;

	for (i = 0; i < host->nr_hwqs; i++) {
		if (READ_ONCE(host->hwq[i]->hold->nr))
			smq_hold_kick(host->hwq[i]->hold);
	}
}

/*
 * Commits what went to the LLD without a mark in @passed: the last of its batch may be
 * held. Context: may sleep.
 */
void smq_hold_commit_all(struct smq_host *host)
{
	unsigned int i;
	LIST_HEAD(none);

	for (i = 0; i < host->nr_hwqs; i++) {
		rcu_read_lock();
		/* A reset ends them all. */
		if (!READ_ONCE(host->frozen))
			host->dispatch(host->hwq[i], &none, true);
		rcu_read_unlock();
	}
}

static unsigned long smq_hold_bound(struct smq_cmd *cmd)
{
	return min_t(unsigned long, SMQ_HOLD_BOUND,
		     scsi_cmd_to_rq(smq_cmd_to_scmd(cmd))->timeout / 4);
}

/*
 * Commands held for too long, or with @all any, go back to the mid-layer, which tries
 * them again as long as it sees fit: a full device is no error. Those that error
 * handling has already stay for it.
 *
 * Context: inside an RCU read-side section.
 */
static void smq_hold_give_back(struct smq_hold *hold, bool all)
{
	struct smq_cmd *cmd, *next;
	unsigned long flags;
	LIST_HEAD(list);

	spin_lock_irqsave(&hold->lock, flags);
	hold->expired = false;
	list_for_each_entry_safe(cmd, next, &hold->cmds, node) {
		if (smq_cmd_in_eh(cmd) ||
		    (!all && time_before(jiffies, cmd->since + smq_hold_bound(cmd))))
			continue;
		smq_hold_del(hold, cmd, SMQ_BACK);
		list_add_tail(&cmd->node, &list);
	}
	spin_unlock_irqrestore(&hold->lock, flags);

	list_for_each_entry_safe(cmd, next, &list, node) {
		list_del_init(&cmd->node);
		smq_cmd_to_scmd(cmd)->result = DID_REQUEUE << 16;
		/* Its patience is for the device: it has not had the command. */
		smq_cmd_to_scmd(cmd)->jiffies_at_alloc = jiffies;
		this_cpu_inc(cmd->hwq->stats->done);
		this_cpu_inc(cmd->hwq->stats->errors);
		trace_smq_done(cmd);
		atomic_set(&cmd->state, SMQ_FREE);
		scsi_done(smq_cmd_to_scmd(cmd));
	}
}

static void smq_hold_expire(struct smq_hold *hold)
{
	smq_hold_give_back(hold, false);
	/* Others may have waited behind them for a LUN that has room by now. */
	smq_hold_kick_all(hold->hwq->host);
}

static void smq_hold_work(struct work_struct *work)
{
	struct smq_hold *hold = container_of(work, struct smq_hold, work);

	rcu_read_lock();
	if (READ_ONCE(hold->expired))
		smq_hold_expire(hold);
	smq_hold_dispatch(hold->hwq, false);
	rcu_read_unlock();
}

/*
 * The error handler begins when each command of the host has ended or failed. Those held
 * behind a lost one would be found by their own timers only, so they go back as soon as
 * the host is in recovery: the mid-layer keeps them until that is over. Where a command
 * met the host before that, and is held after it, the next look finds it.
 */
void smq_hold_recovery(struct work_struct *work)
{
	struct smq_host *host = container_of(to_delayed_work(work), struct smq_host, recovery);
	struct Scsi_Host *shost = host->shost;
	bool recovers, near;
	unsigned int i;

	/* host_lock: under it the mid-layer moves a command from an abort to recovery. */
	spin_lock_irq(shost->host_lock);
	recovers = scsi_host_in_recovery(shost);
	near = recovers || !list_empty(&shost->eh_abort_list);
	spin_unlock_irq(shost->host_lock);

	for (i = 0; recovers && i < host->nr_hwqs; i++) {
		rcu_read_lock();
		if (READ_ONCE(host->hwq[i]->hold->nr))
			smq_hold_give_back(host->hwq[i]->hold, true);
		rcu_read_unlock();
	}
	/* From an abort that failed to recovery it is a moment: two looks see neither. */
	if (near || READ_ONCE(host->eh_near))
		queue_delayed_work(host->wq, &host->recovery, SMQ_RECOVERY_LOOK);
	WRITE_ONCE(host->eh_near, near);
}

/*
 * A command has timed out, or could not be aborted: recovery may be near. Nobody is told
 * when it begins, so it is looked for until there is no abort any more that may lead to
 * it. Context: any; the caller's command keeps the host.
 */
void smq_hold_watch_recovery(struct smq_host *host)
{
	WRITE_ONCE(host->eh_near, true);
	queue_delayed_work(host->wq, &host->recovery, SMQ_RECOVERY_LOOK);
}

/* A batch has waited long enough, or a full device is to be tried again. */
static enum hrtimer_restart smq_hold_timer(struct hrtimer *timer)
{
	struct smq_hold *hold = container_of(timer, struct smq_hold, timer);
	u64 wait = READ_ONCE(hold->hwq->host->limits.usecs) * (u64)NSEC_PER_USEC;
	enum hrtimer_restart again = HRTIMER_NORESTART;
	unsigned long flags;
	u64 now = ktime_get_ns();

	spin_lock_irqsave(&hold->lock, flags);
	if (hrtimer_is_queued(timer)) {
		/* Set again while this waited for the lock. */
	} else if (hold->nr && !hold->full && now < hold->opened + wait) {
		/* Set for an earlier batch. */
		hrtimer_set_expires(timer, ns_to_ktime(hold->opened + wait));
		again = HRTIMER_RESTART;
	} else if (hold->nr) {
		smq_hold_kick(hold);
	}
	spin_unlock_irqrestore(&hold->lock, flags);
	return again;
}

/*
 * Takes a held command for error handling: true if it was held and now is the
 * caller's to end, FREE.
 */
bool smq_hold_claim(struct smq_cmd *cmd)
{
	struct smq_hold *hold;
	unsigned long flags;
	bool held;

	if (!cmd->hwq || atomic_read(&cmd->state) != SMQ_HELD)
		return false;
	hold = cmd->hwq->hold;
	spin_lock_irqsave(&hold->lock, flags);
	held = atomic_read(&cmd->state) == SMQ_HELD;
	if (held)
		smq_hold_del(hold, cmd, SMQ_FREE);
	spin_unlock_irqrestore(&hold->lock, flags);
	return held;
}

/*
 * The block timer ran out on a command. True if the time was not its device's:
 * it is held, or was for long enough that its timeout is not over yet.
 */
bool smq_hold_timed_out(struct smq_cmd *cmd)
{
	unsigned long timeout = scsi_cmd_to_rq(smq_cmd_to_scmd(cmd))->timeout;
	struct smq_hold *hold;

	/* Since and given are only ever set for a held command, before it is given. */
	switch (atomic_read_acquire(&cmd->state)) {
	case SMQ_HELD:
		if (time_after_eq(jiffies, READ_ONCE(cmd->since) + smq_hold_bound(cmd))) {
			hold = cmd->hwq->hold;
			WRITE_ONCE(hold->expired, true);
			smq_hold_kick(hold);
		}
		return true;
	case SMQ_BACK:
		return true;
	case SMQ_OWNED:
		/* One that was held for a moment only has had its time. */
		return cmd->flags & SMQ_CMD_BATCHED &&
		       READ_ONCE(cmd->given) - READ_ONCE(cmd->since) + 1 > timeout / 8 &&
		       time_before(jiffies, READ_ONCE(cmd->given) + timeout);
	default:
		return false;
	}
}

/*
 * The device was full: the command is held again, in front of what came later.
 * False: error handling has it, and it has ended; not so if the LLD did not even
 * take it (@force), which leaves it for error handling to find. Context: any.
 */
static bool smq_hold_again(struct smq_cmd *cmd, bool force)
{
	struct smq_hold *hold = cmd->hwq->hold;
	unsigned long flags;
	bool keep;

	spin_lock_irqsave(&hold->lock, flags);
	keep = force || !smq_cmd_in_eh(cmd);
	if (keep) {
		smq_hold_kept(cmd);
		smq_hold_add(hold, cmd, true);
		/* Should nothing of its LUN be in flight. */
		smq_hold_wait(hold, SMQ_HOLD_RETRY_NS);
	}
	spin_unlock_irqrestore(&hold->lock, flags);
	return keep;
}

/* The LLD did not take a command that was passed to it: it is held now. */
void smq_hold_refused(struct smq_cmd *cmd)
{
	if (cmd->flags & SMQ_CMD_COUNTED)
		smq_lun_put(smq_cmd_lun(cmd));
	cmd->flags &= ~SMQ_CMD_COUNTED;
	WRITE_ONCE(cmd->hwq->hold->full, true);
	smq_hold_again(cmd, true);
}

/* One command less with the device. True: it was the last of its hardware queue. */
static __always_inline bool smq_hold_uncount(struct smq_cmd *cmd, u8 flags)
{
	smq_lun_put(smq_cmd_lun(cmd));
	return flags & SMQ_CMD_BATCHED && !atomic_dec_return(&cmd->hwq->hold->inflight);
}

/* Has those go on who waited for this command to end. */
static __always_inline void smq_hold_wake(struct smq_cmd *cmd, bool idle)
{
	struct smq_hold *hold = cmd->hwq->hold;

	if (unlikely(atomic_read(&smq_cmd_lun(cmd)->waiting)))
		smq_hold_kick_all(cmd->hwq->host);
	else if (READ_ONCE(hold->nr) && (idle || READ_ONCE(hold->full)))
		smq_hold_kick(hold);
}

/*
 * TASK SET FULL: true if the command is held again. Nobody is woken: they would find
 * the same. Context: any, inside an RCU read-side section.
 */
bool smq_hold_full(struct smq_cmd *cmd, u8 flags)
{
	struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);
	struct smq_lun *lun = smq_cmd_lun(cmd);

	/* What is not counted is known to the mid-layer: this command and all others. */
	smq_lun_full(lun, flags & SMQ_CMD_COUNTED ? atomic_read(&lun->inflight) :
						    scsi_device_busy(scmd->device) - 1);
	/* As the mid-layer hands it to queuecommand. */
	scmd->result = 0;
	scsi_set_resid(scmd, 0);
	memset(scmd->sense_buffer, 0, SCSI_SENSE_BUFFERSIZE);
	return smq_hold_again(cmd, false);
}

/*
 * A command given to the LLD under a holding policy has ended; @flags is what was
 * counted. True: TASK SET FULL, and it is held again.
 *
 * Context: any, inside an RCU read-side section.
 */
bool smq_hold_done(struct smq_cmd *cmd, u8 flags)
{
	int result = smq_cmd_to_scmd(cmd)->result;
	bool idle = smq_hold_uncount(cmd, flags);

	if (likely(!result)) {
		struct smq_lun *lun = smq_cmd_lun(cmd);

		if (unlikely(READ_ONCE(lun->depth) < READ_ONCE(lun->max)))
			smq_lun_grow(lun);
	} else if (result == SAM_STAT_TASK_SET_FULL) {
		const struct smq_policy *policy = rcu_dereference(cmd->hwq->host->policy);

		if (policy && policy->holds && smq_hold_full(cmd, flags))
			return true;
	}
	smq_hold_wake(cmd, idle);
	return false;
}

/* The same for a command that error handling has taken from the LLD. */
void smq_hold_taken(struct smq_cmd *cmd, u8 flags)
{
	smq_hold_wake(cmd, smq_hold_uncount(cmd, flags));
}

struct smq_hold *smq_hold_alloc(struct smq_hwq *hwq)
{
	/* A power of two is aligned to itself: lines of its own. */
	struct smq_hold *hold = kzalloc(roundup_pow_of_two(sizeof(*hold)), GFP_KERNEL);

	if (!hold)
		return NULL;
	hold->hwq = hwq;
	spin_lock_init(&hold->lock);
	INIT_LIST_HEAD(&hold->cmds);
	INIT_WORK(&hold->work, smq_hold_work);
	hrtimer_setup(&hold->timer, smq_hold_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED);
	return hold;
}

/* No command is left: nothing will start either again. */
void smq_hold_stop(struct smq_hold *hold)
{
	hrtimer_cancel(&hold->timer);
	cancel_work_sync(&hold->work);
}

void smq_hold_free(struct smq_hold *hold)
{
	kfree(hold);
}
