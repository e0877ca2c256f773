// SPDX-License-Identifier: GPL-2.0
/*
 * Commands that wait for room. Waiting for the inner depth belongs to the LUN: a command
 * that ends makes room there, and has the next one dispatched. Which one that is a policy
 * may say, in whose lists they wait then; what was refused comes before them. A command
 * that the LLD refused because its hardware queue is full waits in that queue, whatever the
 * policy, and what comes later behind it: no LUN's small commands pass another's large one.
 */
#include <linux/export.h>
#include <linux/rcupdate.h>
#include <linux/string.h>

#include "seen.h"
#include "wait.h"

/* Commands of a full hardware queue that are given to the LLD in one go. */
#define SMQ_WAIT_RUN	16

/* The device, or the hardware queue, is full: counted once for each command held for it. */
static void smq_wait_kept(struct smq_hwq *hwq)
{
	struct smq_host *host = hwq->host;

	this_cpu_inc(hwq->stats->kept);
	if (!smq_host_holds(host))
		return;
	/* Any of two times will do. */
	WRITE_ONCE(host->core->choice.kept_at, jiffies);
	smq_policy_found_use(host);
}

/* Into a list, from which its timer dispatches it if nothing else does. */
static void smq_wait_in(struct smq_hold *hold, struct smq_cmd *cmd, bool first, bool retry)
{
	unsigned long flags;

	smq_wait_kept(cmd->hwq);
	spin_lock_irqsave(&hold->lock, flags);
	smq_hold_add(hold, cmd, first);
	if (retry)
		smq_hold_wait(hold, SMQ_HOLD_RETRY_NS);
	spin_unlock_irqrestore(&hold->lock, flags);
}

/* A command that the LLD refused for want of room in its hardware queue, in front of others. */
static void smq_wait_in_hwq(struct smq_cmd *cmd)
{
	struct smq_hwq *hwq = cmd->hwq;
	struct smq_hold *hold = &hwq->core->refused;
	unsigned long flags;
	bool began;

	smq_wait_kept(hwq);
	spin_lock_irqsave(&hold->lock, flags);
	smq_hold_add(hold, cmd, true);
	/* There may be room without a completion. */
	smq_hold_wait(hold, SMQ_HOLD_RETRY_NS);
	began = !test_and_set_bit(SMQ_DETOUR_FULL, &hwq->detour);
	spin_unlock_irqrestore(&hold->lock, flags);
	/*
	 * Fully ordered, as the claim of a command that ends: the LLD has made room before that.
	 * So either the next try finds the room, or the completion sees the bit.
	 */
	if (began)
		smq_hold_kick(hold);
}

/*
 * A command of a hardware queue that may be full. True: it waits behind others.
 * Context: as queue_cmd, inside an RCU read-side section.
 */
bool smq_wait_behind(struct smq_cmd *cmd)
{
	struct smq_hwq *hwq = cmd->hwq;
	struct smq_hold *hold = &hwq->core->refused;
	unsigned long flags;
	bool full;

	spin_lock_irqsave(&hold->lock, flags);
	full = smq_hwq_is_full(hwq);
	if (full) {
		smq_hold_add(hold, cmd, false);
		smq_hold_wait(hold, SMQ_HOLD_RETRY_NS);
	}
	spin_unlock_irqrestore(&hold->lock, flags);
	if (full)
		smq_wait_kept(hwq);
	return full;
}

/* The same for a command that no policy has seen, nor will. */
bool smq_wait_behind_own(struct smq_cmd *cmd)
{
	if (!smq_hwq_is_full(cmd->hwq) || !smq_seen_begin_own(cmd))
		return false;
	if (smq_wait_behind(cmd))
		return true;
	smq_seen_end(cmd);
	return false;
}

/* The command is not the caller's any more after the call. */
static void smq_wait_for_room(struct smq_cmd *cmd, struct smq_depth *depth)
{
	const struct smq_policy_ops *ops = cmd->seen->policy->ops;

	if (!ops->wait) {
		smq_wait_in(&depth->wait, cmd, false, false);
		return;
	}
	smq_wait_kept(cmd->hwq);
	ops->wait(cmd->seen->lun, cmd);
	atomic_set(&depth->listed, 1);
}

/*
 * The part of smq_wait_enter() for a command that finds no room, or others waiting, or that
 * may have to wait all the same.
 */
bool smq_wait_enter_slow(struct smq_cmd *cmd)
{
	struct smq_policy *policy = cmd->seen->policy;
	bool rated = policy->ops->rated && policy->ops->rated(policy);
	struct smq_depth *depth = &smq_cmd_lun(cmd)->depth;

	if (!rated && !smq_depth_has_waiting(depth) && smq_depth_get(depth)) {
		cmd->seen->flags |= SMQ_SEEN_COUNTED;
		return !smq_hwq_is_full(cmd->hwq) || !smq_wait_behind(cmd);
	}
	smq_wait_for_room(cmd, depth);
	/*
	 * Pairs with smq_depth_put(): the command is in a list before the room is looked at
	 * again; a completion makes room before it looks for a waiting command.
	 */
	smp_mb();
	if (atomic_read(&depth->inflight) < READ_ONCE(depth->depth))
		smq_wait_for_lun(&depth->wait);
	return false;
}

/* Sends commands that have got their room, in order, each batch of a hardware queue as one. */
static void smq_wait_send(struct list_head *list)
{
	struct smq_hwq *run_hwq = NULL, *to;
	struct smq_cmd *cmd, *next;
	LIST_HEAD(run);
	bool last;

	while ((cmd = list_first_entry_or_null(list, struct smq_cmd, node))) {
		list_del_init(&cmd->node);
		next = list_first_entry_or_null(list, struct smq_cmd, node);
		last = !next || next->hwq != cmd->hwq;
		to = smq_seen_queue(cmd, last);
		if (!to)
			continue;
		if (to != cmd->hwq)
			smq_move(cmd, to);
		if (to != run_hwq && !list_empty(&run))
			smq_policy_issue(run_hwq, &run, true);
		run_hwq = to;
		list_add_tail(&cmd->node, &run);
	}
	if (!list_empty(&run))
		smq_policy_issue(run_hwq, &run, true);
}

/* Takes what has been refused, and has room again. False: it, too, is short of room. */
static bool smq_wait_take(struct smq_depth *depth, struct list_head *list)
{
	struct smq_hold *hold = &depth->wait;
	struct smq_cmd *cmd, *next;
	unsigned long flags;
	bool room = true;

	spin_lock_irqsave(&hold->lock, flags);
	list_for_each_entry_safe(cmd, next, &hold->cmds, node) {
		if (smq_cmd_in_eh(cmd))
			continue;
		room = smq_depth_get(depth);
		if (!room)
			break;
		cmd->seen->flags |= SMQ_SEEN_COUNTED;
		smq_depth_credit(depth, cmd);
		smq_hold_del(hold, cmd, SMQ_OWNED);
		list_add_tail(&cmd->node, list);
	}
	spin_unlock_irqrestore(&hold->lock, flags);
	return room;
}

/*
 * Whether nothing may be kept back: the policy goes, or the LUN, or somebody waits for the
 * end of all its commands, as a freeze, a change of elevator and suspend do.
 */
bool smq_wait_drains(const struct smq_policy_lun *lun)
{
	const struct smq_policy *policy = lun->policy;
	struct scsi_device *sdev = lun->lun->sdev;

	return rcu_access_pointer(policy->host->policy) != policy ||
	       READ_ONCE(sdev->sdev_state) != SDEV_RUNNING ||
	       percpu_ref_is_dying(&sdev->request_queue->q_usage_counter);
}

/* The policy's next command, or NULL if none may go and @depth.listed says so. */
static struct smq_cmd *smq_wait_next(struct smq_depth *depth, struct smq_policy_lun *lun)
{
	bool drain = smq_wait_drains(lun);
	struct smq_cmd *cmd = lun->policy->ops->next(lun, drain);

	if (cmd)
		return cmd;
	/* Fully ordered: the policy is asked after all those were added who had set it. */
	if (!atomic_xchg(&depth->listed, 0))
		return NULL;
	cmd = lun->policy->ops->next(lun, drain);
	if (cmd)
		atomic_set(&depth->listed, 1);
	return cmd;
}

/* Takes what the policy says is next, while there is room. */
static void smq_wait_take_listed(struct smq_depth *depth, struct smq_policy_lun *lun,
				 struct list_head *list)
{
	struct smq_cmd *cmd;

	while (atomic_read(&depth->listed) && smq_depth_get(depth)) {
		cmd = smq_wait_next(depth, lun);
		if (cmd) {
			cmd->seen->flags |= SMQ_SEEN_COUNTED;
			smq_depth_credit(depth, cmd);
			list_add_tail(&cmd->node, list);
			continue;
		}
		/*
		 * Fully ordered: who adds a command sets @listed before it looks for room, and
		 * either finds this one's or is seen here.
		 */
		atomic_dec_return(&depth->inflight);
	}
}

/* smq_hold.dispatch of a LUN: commands for which there is room by now. */
void smq_wait_for_lun(struct smq_hold *hold)
{
	struct smq_depth *depth = container_of(hold, struct smq_depth, wait);
	struct smq_lun_core *core = container_of(depth, struct smq_lun_core, depth);
	struct smq_policy_lun *lun = rcu_dereference(core->policy);
	LIST_HEAD(list);

	/* Set before a grace period that this section delays, or seen. */
	if (READ_ONCE(hold->host->frozen))
		return;
	if (smq_wait_take(depth, &list)) {
		if (lun && lun->policy->ops->next)
			smq_wait_take_listed(depth, lun, &list);
		else
			/*
			 * Left by another policy. One that has lists adds to them a grace
			 * period after it became the LUN's at the earliest.
			 */
			atomic_set(&depth->listed, 0);
	}
	smq_wait_send(&list);
}

/* Puts what a policy that was given up still holds where the layer dispatches it. */
static void smq_wait_inherit(struct smq_depth *depth, struct smq_policy_lun *lun)
{
	struct smq_hold *hold = &depth->wait;
	struct smq_cmd *cmd;
	unsigned long flags;

	while ((cmd = lun->policy->ops->next(lun, true))) {
		smq_depth_credit(depth, cmd);
		spin_lock_irqsave(&hold->lock, flags);
		smq_hold_add(hold, cmd, false);
		spin_unlock_irqrestore(&hold->lock, flags);
	}
}

/**
 * smq_policy_room() - commands that a policy kept in a list of a LUN may go
 * @lun: the policy's part of the LUN
 *
 * Asks the policy's next for what goes while there is room.
 *
 * Context: as smq_hold.dispatch, of one of the policy's lists.
 */
void smq_policy_room(struct smq_policy_lun *lun)
{
	struct smq_lun_core *core = lun->lun;

	if (rcu_access_pointer(core->policy) != lun)
		smq_wait_inherit(&core->depth, lun);
	else
		atomic_set(&core->depth.listed, 1);
	smq_wait_for_lun(&core->depth.wait);
}
EXPORT_SYMBOL_GPL(smq_policy_room);

/**
 * smq_policy_lun_is_full() - whether a LUN has as many commands as its device takes
 * @lun: the policy's part of the LUN
 *
 * Context: any; the LUN has commands. Commands that the policy has not seen do not count.
 */
bool smq_policy_lun_is_full(const struct smq_policy_lun *lun)
{
	const struct smq_depth *depth = &lun->lun->depth;

	return atomic_read(&depth->inflight) >= (int)READ_ONCE(depth->depth);
}
EXPORT_SYMBOL_GPL(smq_policy_lun_is_full);

/* A command that the LLD refused, or did not even get to see, is held again, in front. */
static void smq_wait_refused_one(struct smq_cmd *cmd, enum smq_status st, bool first)
{
	struct smq_depth *depth = &smq_cmd_lun(cmd)->depth;
	struct smq_policy_cmd *seen = cmd->seen;

	smq_seen_done(cmd);
	/* Where commands are counted, one that is not gets its room first. */
	if ((st == SMQ_HWQ_BUSY || st == SMQ_HOST_BUSY) &&
	    (seen->flags & SMQ_SEEN_COUNTED || !smq_host_holds(cmd->hwq->host))) {
		smq_wait_in_hwq(cmd);
		return;
	}
	if (seen->flags & SMQ_SEEN_COUNTED) {
		seen->flags &= ~SMQ_SEEN_COUNTED;
		/* Without a look at the list: this command is to be the first of it. */
		atomic_dec_return(&depth->inflight);
	}
	if (first)
		smq_depth_refused(depth);
	smq_move_home(cmd);
	/* The timer: nothing of its LUN may be in flight. */
	smq_wait_in(&depth->wait, cmd, true, true);
}

/*
 * The LLD did not take the first command of a list: that one and the rest are held.
 * Context: as queue_cmd, inside an RCU read-side section.
 */
void smq_wait_refused(struct smq_hwq *hwq, struct list_head *list, enum smq_status st)
{
	struct smq_cmd *cmd, *prev;

	list_for_each_entry_safe_reverse(cmd, prev, list, node) {
		bool first = list_is_first(&cmd->node, list);

		list_del_init(&cmd->node);
		smq_wait_refused_one(cmd, st, first);
	}
}

/*
 * Gives commands to the LLD, and holds what it refuses. True if it took them all; *@some:
 * whether it took any.
 */
static bool smq_wait_give(struct smq_hwq *hwq, struct list_head *list, bool commit, bool *some)
{
	const struct list_head *first = list->next;
	enum smq_status st = hwq->host->core->dispatch(hwq, list, commit);

	/* Only compared: the command may be gone. */
	*some |= list->next != first;
	if (likely(list_empty(list)))
		return true;
	smq_count_refusal(hwq, st);
	smq_wait_refused(hwq, list, st);
	return false;
}

/*
 * Commands leave the list of their hardware queue. Where the device is to have counted ones only,
 * those that are not wait for their LUN.
 */
static void smq_wait_left(struct smq_host *host, struct list_head *list)
{
	bool holds = smq_host_holds(host);
	struct smq_cmd *cmd, *next;

	list_for_each_entry_safe(cmd, next, list, node) {
		smq_depth_credit(&smq_cmd_lun(cmd)->depth, cmd);
		if (!holds || cmd->seen->flags & SMQ_SEEN_COUNTED)
			continue;
		list_del_init(&cmd->node);
		smq_wait_in(&smq_cmd_lun(cmd)->depth.wait, cmd, false, true);
	}
}

/*
 * smq_hold.dispatch of a hardware queue: commands that it had no room for, in order, until it
 * has none again. The only one that takes from the list; the queue stays full meanwhile, so
 * that what comes goes behind.
 */
void smq_wait_for_hwq(struct smq_hold *hold)
{
	struct smq_hwq_core *core = container_of(hold, struct smq_hwq_core, refused);
	unsigned int left = READ_ONCE(hold->nr), nr;
	bool room = true, some = false, took = false;
	unsigned long flags;
	LIST_HEAD(list);

	while (room && left) {
		spin_lock_irqsave(&hold->lock, flags);
		nr = smq_hold_take(hold, &list, min(left, SMQ_WAIT_RUN));
		spin_unlock_irqrestore(&hold->lock, flags);
		if (!nr)
			break;
		took = true;
		left -= nr;
		smq_wait_left(hold->host, &list);
		room = list_empty(&list) || smq_wait_give(core->hwq, &list, false, &some);
	}
	if (some)
		smq_policy_commit(core->hwq);

	spin_lock_irqsave(&hold->lock, flags);
	nr = hold->nr;
	if (!nr)
		clear_bit(SMQ_DETOUR_FULL, &core->hwq->detour);
	spin_unlock_irqrestore(&hold->lock, flags);
	/* Those that have come meanwhile: not in this turn, which has to end. */
	if (nr && took && room)
		smq_hold_kick(hold);
}

/**
 * smq_policy_issue() - gives commands to the LLD
 * @hwq: a hardware queue
 * @list: commands for it that the caller owns; empty after the call
 * @commit: ring the doorbell after the last of them
 *
 * What the LLD refuses is held, and tried again. While others wait for room in the hardware
 * queue these go behind them.
 *
 * Context: as queue_cmd, inside the RCU read-side section in which the caller came to
 * own the commands. Return: whether the LLD took them all.
 */
bool smq_policy_issue(struct smq_hwq *hwq, struct list_head *list, bool commit)
{
	struct smq_cmd *cmd, *next;
	bool some = false;

	if (likely(!smq_hwq_is_full(hwq)))
		return smq_wait_give(hwq, list, commit, &some);
	list_for_each_entry_safe(cmd, next, list, node) {
		list_del_init(&cmd->node);
		/* As if the LLD had refused it. */
		smq_seen_done(cmd);
		if (!smq_wait_behind(cmd)) {
			/* It is not full any more: this one and the rest. */
			list_add(&cmd->node, list);
			return smq_wait_give(hwq, list, commit, &some);
		}
	}
	if (commit)
		smq_policy_commit(hwq);
	return false;
}
EXPORT_SYMBOL_GPL(smq_policy_issue);

/*
 * TASK SET FULL: true if the command is held, in front of what came later; false if error
 * handling has it, and it has ended. The caller owns it; it is not counted any more.
 * No waiting command is dispatched: it would find the same.
 *
 * Context: any, inside an RCU read-side section.
 */
bool smq_wait_full(struct smq_cmd *cmd)
{
	struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);
	struct smq_hold *hold = &smq_cmd_lun(cmd)->depth.wait;
	unsigned long flags;
	bool keep;

	smq_move_home(cmd);
	/* As the mid-layer hands it to queuecommand. */
	scmd->result = 0;
	scsi_set_resid(scmd, 0);
	memset(scmd->sense_buffer, 0, SCSI_SENSE_BUFFERSIZE);

	spin_lock_irqsave(&hold->lock, flags);
	keep = !smq_cmd_in_eh(cmd);
	if (keep) {
		smq_wait_kept(cmd->hwq);
		smq_hold_add(hold, cmd, true);
		/* Should nothing of its LUN be in flight. */
		smq_hold_wait(hold, SMQ_HOLD_RETRY_NS);
	}
	spin_unlock_irqrestore(&hold->lock, flags);
	return keep;
}

/* A command that a policy has seen ends, or goes back. Context: as smq_wait_full(). */
void smq_wait_leave(struct smq_cmd *cmd)
{
	bool counted = cmd->seen->flags & SMQ_SEEN_COUNTED;

	smq_seen_done(cmd);
	smq_seen_end(cmd);
	if (counted)
		smq_depth_put(&smq_cmd_lun(cmd)->depth);
	smq_wait_room(cmd->hwq);
}
