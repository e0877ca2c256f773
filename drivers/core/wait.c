// SPDX-License-Identifier: GPL-2.0
/*
 * Commands that wait for room. A command that needs room in the inner depth waits in a list of its
 * LUN; each command that completes makes room, and starts the dispatch of the next one. A policy
 * may keep waiting commands in lists of its own and choose the next one; refused commands still go
 * first. A command that the LLD refused because its hardware queue is full waits in a list of that
 * queue, with any policy or none. Later commands for the queue wait behind it, so that small
 * commands of one LUN do not overtake a large command of another LUN.
 */
#include <linux/export.h>
#include <linux/rcupdate.h>
#include <linux/string.h>

#include "policy_cmd.h"
#include "wait.h"

/* How many commands of a full hardware queue are given to the LLD in one go. */
#define SMQ_WAIT_RUN	16

/* Counts a command each time it is held because the device or the hardware queue is full. */
static void smq_wait_count_full(struct smq_hwq *hwq)
{
	struct smq_host *host = hwq->host;

	this_cpu_inc(hwq->stats->held_full);
	if (!smq_host_holds(host))
		return;
	/* If two CPUs write at once, either value is good enough. */
	WRITE_ONCE(host->core->choice.last_full, jiffies);
	smq_policy_found_use(host);
}

/* Adds a command to a LUN's list. @retry: start the timer, which dispatches the list. */
static void smq_wait_hold_for_lun(struct smq_hold *hold, struct smq_cmd *cmd, bool first,
				  bool retry)
{
	unsigned long flags;

	smq_wait_count_full(cmd->hwq);
	spin_lock_irqsave(&hold->lock, flags);
	smq_hold_add(hold, cmd, first);
	if (retry)
		smq_hold_wait(hold, SMQ_HOLD_RETRY_NS);
	spin_unlock_irqrestore(&hold->lock, flags);
}

/*
 * The LLD refused a command because its hardware queue is full: puts it first in that queue's list.
 */
static void smq_wait_hold_for_hwq(struct smq_cmd *cmd)
{
	struct smq_hwq *hwq = cmd->hwq;
	struct smq_hold *hold = &hwq->core->refused;
	unsigned long flags;
	bool began;

	smq_wait_count_full(hwq);
	spin_lock_irqsave(&hold->lock, flags);
	smq_hold_add(hold, cmd, true);
	/* Start the timer, because room may appear without a completion of this queue. */
	smq_hold_wait(hold, SMQ_HOLD_RETRY_NS);
	began = !test_and_set_bit(SMQ_DETOUR_FULL, &hwq->detour);
	spin_unlock_irqrestore(&hold->lock, flags);
	/*
	 * Setting the bit is fully ordered, and so is smq_cmd_own() in a completion. The LLD makes
	 * room before it completes a command. So either the next try finds the room, or the
	 * completion sees the bit.
	 */
	if (began)
		smq_hold_kick(hold);
}

/*
 * Holds a command behind others if its hardware queue is full. Returns whether it is held.
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
		smq_wait_count_full(hwq);
	return full;
}

/* As smq_wait_behind(), for a command that no policy has seen or will see. */
bool smq_wait_behind_no_policy(struct smq_cmd *cmd)
{
	if (!smq_hwq_is_full(cmd->hwq) || !smq_seen_begin_no_policy(cmd))
		return false;
	if (smq_wait_behind(cmd))
		return true;
	smq_seen_end(cmd);
	return false;
}

/* Holds a command until its LUN has room. The caller no longer owns the command after the call. */
static void smq_wait_for_room(struct smq_cmd *cmd, struct smq_depth *depth)
{
	const struct smq_policy_ops *ops = cmd->seen->policy->ops;

	smq_depth_lacked(depth);
	if (!ops->wait) {
		smq_wait_hold_for_lun(&depth->wait, cmd, false, false);
		return;
	}
	/* A device that is full only by what was learned is no reason to stay effective. */
	if (atomic_read(&depth->inflight) >= (int)READ_ONCE(depth->depth))
		smq_wait_count_full(cmd->hwq);
	else
		this_cpu_inc(cmd->hwq->stats->held_full);
	ops->wait(cmd->seen->lun, cmd);
	atomic_set(&depth->listed, 1);
}

/*
 * The slow part of smq_wait_enter(): there is no room, other commands wait, or the policy has
 * a rate, so that the command may have to wait although there is room.
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
	 * Pairs with smq_depth_put(): this CPU adds the command to a list before it checks for
	 * room again; a completion makes room before it checks for waiting commands.
	 */
	smp_mb();
	if (atomic_read(&depth->inflight) < smq_depth_now(depth))
		smq_wait_dispatch_lun(&depth->wait);
	return false;
}

/*
 * Issues commands that have room, in order. Consecutive ones for one hardware queue form a batch.
 */
static void smq_wait_issue_all(struct list_head *list)
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

/*
 * Grants room to commands in the LUN's list, and takes them off it. Returns false if room ran out.
 */
static bool smq_wait_grant(struct smq_depth *depth, struct list_head *list)
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
 * Whether a policy must let all commands of a LUN go: the host drops the policy, the LUN is
 * being removed, or the block layer waits for all commands of the request queue (a freeze, a
 * change of elevator, suspend).
 */
bool smq_wait_must_drain(const struct smq_policy_lun *lun)
{
	const struct smq_policy *policy = lun->policy;
	struct scsi_device *sdev = lun->lun->sdev;

	return rcu_access_pointer(policy->host->policy) != policy ||
	       READ_ONCE(sdev->sdev_state) != SDEV_RUNNING ||
	       percpu_ref_is_dying(&sdev->request_queue->q_usage_counter);
}

/* Returns the policy's next command. If none may go, clears @listed and returns NULL. */
static struct smq_cmd *smq_wait_next(struct smq_depth *depth, struct smq_policy_lun *lun)
{
	bool drain = smq_wait_must_drain(lun);
	struct smq_cmd *cmd = lun->policy->ops->next(lun, drain);

	if (cmd)
		return cmd;
	/*
	 * The exchange is fully ordered: if a CPU set @listed before it, that CPU's command is
	 * already in a list, and the second call of next() finds it.
	 */
	if (!atomic_xchg(&depth->listed, 0))
		return NULL;
	cmd = lun->policy->ops->next(lun, drain);
	if (cmd)
		atomic_set(&depth->listed, 1);
	return cmd;
}

/* Grants room to commands in the policy's order, and takes them. */
static void smq_wait_grant_listed(struct smq_depth *depth, struct smq_policy_lun *lun,
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
		 * Fully ordered: a CPU that adds a command sets @listed before it checks for
		 * room. So either that CPU finds the room given back here, or this loop sees
		 * its @listed.
		 */
		atomic_dec_return(&depth->inflight);
		/* The same for a command that the scan has moved to the LUN's own list. */
		if (READ_ONCE(depth->wait.nr))
			smq_hold_kick(&depth->wait);
	}
}

/* smq_hold.dispatch of a LUN: issues the commands for which there is room now. */
void smq_wait_dispatch_lun(struct smq_hold *hold)
{
	struct smq_depth *depth = container_of(hold, struct smq_depth, wait);
	struct smq_lun_core *core = container_of(depth, struct smq_lun_core, depth);
	struct smq_policy_lun *lun = rcu_dereference(core->policy);
	LIST_HEAD(list);

	/* Either this sees that a reset has set @frozen, or the reset waits for this section. */
	if (READ_ONCE(hold->host->frozen))
		return;
	if (smq_wait_grant(depth, &list)) {
		if (lun && lun->policy->ops->next)
			smq_wait_grant_listed(depth, lun, &list);
		else
			/*
			 * @listed may still be set by an earlier policy. Clearing it loses no
			 * command: a policy with lists adds its first one no earlier than a grace
			 * period after the LUN got the policy, when this RCU section is over.
			 */
			atomic_set(&depth->listed, 0);
	}
	smq_wait_issue_all(&list);
}

/* Moves the commands that a dropped policy still has in its lists to the LUN's own list. */
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

void smq_policy_room(struct smq_policy_lun *lun)
{
	struct smq_lun_core *core = lun->lun;

	if (rcu_access_pointer(core->policy) != lun)
		smq_wait_inherit(&core->depth, lun);
	else
		atomic_set(&core->depth.listed, 1);
	smq_wait_dispatch_lun(&core->depth.wait);
}
EXPORT_SYMBOL_GPL(smq_policy_room);

bool smq_policy_lun_is_full(const struct smq_policy_lun *lun)
{
	const struct smq_depth *depth = &lun->lun->depth;

	return atomic_read(&depth->inflight) >= (int)READ_ONCE(depth->depth);
}
EXPORT_SYMBOL_GPL(smq_policy_lun_is_full);

/* Puts a command that the LLD refused, or that came behind a refused one, first in its list. */
static void smq_wait_refused_one(struct smq_cmd *cmd, enum smq_status st)
{
	struct smq_depth *depth = &smq_cmd_lun(cmd)->depth;
	struct smq_policy_cmd *seen = cmd->seen;

	smq_seen_done(cmd);
	/* If the chosen policy holds commands, an uncounted one must first get room in its LUN. */
	if ((st == SMQ_HWQ_BUSY || st == SMQ_HOST_BUSY) &&
	    (seen->flags & SMQ_SEEN_COUNTED || !smq_host_holds(cmd->hwq->host))) {
		smq_wait_hold_for_hwq(cmd);
		return;
	}
	if (seen->flags & SMQ_SEEN_COUNTED) {
		seen->flags &= ~SMQ_SEEN_COUNTED;
		/* Start no dispatch before this command is the first of the list. */
		atomic_dec_return(&depth->inflight);
	}
	smq_move_home(cmd);
	/* Start the timer, because the LUN may have nothing in flight. */
	smq_wait_hold_for_lun(&depth->wait, cmd, true, true);
}

/*
 * Called when the LLD refused the first command of a list: holds that one and the rest. Begins
 * with the last one, because each is added at the front. Context: as queue_cmd, inside an RCU
 * read-side section.
 */
void smq_wait_refused(struct smq_hwq *hwq, struct list_head *list, enum smq_status st)
{
	struct smq_cmd *cmd, *prev;

	list_for_each_entry_safe_reverse(cmd, prev, list, node) {
		list_del_init(&cmd->node);
		smq_wait_refused_one(cmd, st);
	}
}

/*
 * Gives commands to the LLD, and holds those that it refuses. Returns true if the LLD took all
 * of them; sets *@some if it took any.
 */
static bool smq_wait_issue(struct smq_hwq *hwq, struct list_head *list, bool commit, bool *some)
{
	const struct list_head *first = list->next;
	enum smq_status st = hwq->host->core->dispatch(hwq, list, commit);

	/* Compares only the pointers: the command may have ended. */
	*some |= list->next != first;
	if (likely(list_empty(list)))
		return true;
	smq_count_refusal(hwq, st);
	smq_wait_refused(hwq, list, st);
	return false;
}

/*
 * Called for commands that have left the list of their hardware queue. While the inner depth is
 * kept, commands that are not counted in it are held until their LUN has room.
 */
static void smq_wait_hold_uncounted(struct smq_host *host, struct list_head *list)
{
	bool holds = smq_host_holds(host);
	struct smq_cmd *cmd, *next;

	list_for_each_entry_safe(cmd, next, list, node) {
		smq_depth_credit(&smq_cmd_lun(cmd)->depth, cmd);
		if (!holds || cmd->seen->flags & SMQ_SEEN_COUNTED)
			continue;
		list_del_init(&cmd->node);
		smq_wait_hold_for_lun(&smq_cmd_lun(cmd)->depth.wait, cmd, false, true);
	}
}

/*
 * smq_hold.dispatch of a hardware queue: gives refused commands to the LLD again, in order,
 * until it refuses one. No other code issues commands from the list. The queue stays marked as
 * full meanwhile, so that new commands go to the end of the list.
 */
void smq_wait_dispatch_hwq(struct smq_hold *hold)
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
		smq_wait_hold_uncounted(hold->host, &list);
		room = list_empty(&list) || smq_wait_issue(core->hwq, &list, false, &some);
	}
	if (some)
		smq_policy_commit(core->hwq);

	spin_lock_irqsave(&hold->lock, flags);
	nr = hold->nr;
	if (!nr)
		clear_bit(SMQ_DETOUR_FULL, &core->hwq->detour);
	spin_unlock_irqrestore(&hold->lock, flags);
	/* Leave commands that came meanwhile to the next run: otherwise this one may never end. */
	if (nr && took && room)
		smq_hold_kick(hold);
}

bool smq_policy_issue(struct smq_hwq *hwq, struct list_head *list, bool commit)
{
	struct smq_cmd *cmd, *next;
	bool some = false;

	if (likely(!smq_hwq_is_full(hwq)))
		return smq_wait_issue(hwq, list, commit, &some);
	list_for_each_entry_safe(cmd, next, list, node) {
		list_del_init(&cmd->node);
		/* The policy sees this as a refusal by the LLD. */
		smq_seen_done(cmd);
		if (!smq_wait_behind(cmd)) {
			/* The queue is no longer full: issue this command and the rest. */
			list_add(&cmd->node, list);
			return smq_wait_issue(hwq, list, commit, &some);
		}
	}
	if (commit)
		smq_policy_commit(hwq);
	return false;
}
EXPORT_SYMBOL_GPL(smq_policy_issue);

/*
 * The device answered a command with TASK SET FULL: puts it first in its LUN's list. The caller
 * owns the command, which is no longer counted. Returns false, and holds nothing, if error handling
 * has the command: the caller then ends it. Does not dispatch waiting commands: the device would
 * refuse them too.
 *
 * Context: any, inside an RCU read-side section.
 */
bool smq_wait_full(struct smq_cmd *cmd)
{
	struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);
	struct smq_hold *hold = &smq_cmd_lun(cmd)->depth.wait;
	unsigned long flags;
	bool held;

	smq_move_home(cmd);
	/* Restore the state in which the mid-layer calls queuecommand. */
	scmd->result = 0;
	scsi_set_resid(scmd, 0);
	memset(scmd->sense_buffer, 0, SCSI_SENSE_BUFFERSIZE);

	spin_lock_irqsave(&hold->lock, flags);
	held = !smq_cmd_in_eh(cmd);
	if (held) {
		smq_wait_count_full(cmd->hwq);
		smq_hold_add(hold, cmd, true);
		/* Start the timer, because the LUN may have nothing in flight. */
		smq_hold_wait(hold, SMQ_HOLD_RETRY_NS);
	}
	spin_unlock_irqrestore(&hold->lock, flags);
	return held;
}

/*
 * Called when a command ends or is returned, if a policy has seen it. Context: as smq_wait_full().
 */
void smq_wait_leave(struct smq_cmd *cmd)
{
	bool counted = cmd->seen->flags & SMQ_SEEN_COUNTED;

	smq_seen_done(cmd);
	smq_seen_end(cmd);
	if (counted)
		smq_depth_put(&smq_cmd_lun(cmd)->depth);
	smq_wait_room(cmd->hwq);
}
