// SPDX-License-Identifier: GPL-2.0
/*
 * Lists of held commands. A command leaves its list under the list's lock: the dispatcher, error
 * handling, or the scan of held commands takes it off. The dispatcher takes a command and gives it
 * to the LLD inside one RCU read-side section. So after a grace period error handling finds a
 * command held, with the LLD, or ended.
 */
#include <linux/export.h>
#include <linux/rcupdate.h>

#include "core.h"

void smq_hold_add(struct smq_hold *hold, struct smq_cmd *cmd, bool first)
{
	struct smq_host_holds *all = &hold->host->core->hold;
	struct smq_policy_cmd *seen = cmd->seen;

	lockdep_assert_held(&hold->lock);
	WRITE_ONCE(seen->held_at, jiffies);
	if (!seen->held_since)
		WRITE_ONCE(seen->held_since, jiffies | 1);
	if (first)
		list_add(&cmd->node, &hold->cmds);
	else
		list_add_tail(&cmd->node, &hold->cmds);
	hold->bytes += scsi_bufflen(smq_cmd_to_scmd(cmd));
	WRITE_ONCE(hold->nr, hold->nr + 1);
	WRITE_ONCE(seen->held_in, hold);
	/* Release: error handling reads the fields above once it sees SMQ_HELD. */
	atomic_set_release(&cmd->state, SMQ_HELD);
	if (!delayed_work_pending(&all->scan))
		queue_delayed_work(all->wq, &all->scan, SMQ_HOLD_SCAN);
}
EXPORT_SYMBOL_GPL(smq_hold_add);

/*
 * Takes a command off its list: the caller then owns it. The state changes from SMQ_HELD to
 * @state in one step, so no other CPU can take the command in between.
 */
void smq_hold_del(struct smq_hold *hold, struct smq_cmd *cmd, enum smq_cmd_state state)
{
	lockdep_assert_held(&hold->lock);
	list_del_init(&cmd->node);
	hold->bytes -= scsi_bufflen(smq_cmd_to_scmd(cmd));
	WRITE_ONCE(hold->nr, hold->nr - 1);
	WRITE_ONCE(cmd->seen->held_in, NULL);
	WRITE_ONCE(cmd->seen->issued_at, jiffies);
	/* Release: a CPU that reads SMQ_OWNED may then read flags and times without the lock. */
	atomic_set_release(&cmd->state, state);
}

unsigned int smq_hold_take(struct smq_hold *hold, struct list_head *list, unsigned int most)
{
	struct smq_cmd *cmd, *next;
	unsigned int nr = 0;

	lockdep_assert_held(&hold->lock);
	/* Either this sees that a reset has set @frozen, or the reset waits for this section. */
	if (READ_ONCE(hold->host->frozen))
		return 0;
	list_for_each_entry_safe(cmd, next, &hold->cmds, node) {
		if (nr == most)
			break;
		if (smq_cmd_in_eh(cmd))
			continue;
		smq_hold_del(hold, cmd, SMQ_OWNED);
		list_add_tail(&cmd->node, list);
		nr++;
	}
	return nr;
}
EXPORT_SYMBOL_GPL(smq_hold_take);

void smq_hold_wait(struct smq_hold *hold, u64 ns)
{
	lockdep_assert_held(&hold->lock);
	if (!hrtimer_is_queued(&hold->timer))
		hrtimer_start(&hold->timer, ns_to_ktime(ns), HRTIMER_MODE_REL_PINNED);
}
EXPORT_SYMBOL_GPL(smq_hold_wait);

void smq_hold_kick(struct smq_hold *hold)
{
	queue_work(hold->host->core->hold.wq, &hold->work);
}
EXPORT_SYMBOL_GPL(smq_hold_kick);

void smq_policy_commit(struct smq_hwq *hwq)
{
	LIST_HEAD(none);

	hwq->host->core->dispatch(hwq, &none, true);
}
EXPORT_SYMBOL_GPL(smq_policy_commit);

static enum hrtimer_restart smq_hold_timer(struct hrtimer *timer)
{
	smq_hold_kick(container_of(timer, struct smq_hold, timer));
	return HRTIMER_NORESTART;
}

static void smq_hold_work(struct work_struct *work)
{
	struct smq_hold *hold = container_of(work, struct smq_hold, work);

	rcu_read_lock();
	hold->dispatch(hold);
	rcu_read_unlock();
}

void smq_hold_init(struct smq_hold *hold, struct smq_host *host,
		   void (*dispatch)(struct smq_hold *hold))
{
	struct smq_host_holds *all = &host->core->hold;

	hold->host = host;
	hold->dispatch = dispatch;
	spin_lock_init(&hold->lock);
	INIT_LIST_HEAD(&hold->cmds);
	INIT_WORK(&hold->work, smq_hold_work);
	hrtimer_setup(&hold->timer, smq_hold_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED);
	spin_lock_irq(&all->lock);
	list_add_tail(&hold->node, &all->lists);
	spin_unlock_irq(&all->lock);
}
EXPORT_SYMBOL_GPL(smq_hold_init);

void smq_hold_exit(struct smq_hold *hold)
{
	struct smq_host_holds *all = &hold->host->core->hold;

	spin_lock_irq(&all->lock);
	list_del(&hold->node);
	spin_unlock_irq(&all->lock);
	hrtimer_cancel(&hold->timer);
	cancel_work_sync(&hold->work);
}
EXPORT_SYMBOL_GPL(smq_hold_exit);

/* Dispatches all lists of a host soon. Context: any. */
void smq_hold_kick_all(struct smq_host *host)
{
	struct smq_host_holds *all = &host->core->hold;
	struct smq_hold *hold;
	unsigned long flags;

	spin_lock_irqsave(&all->lock, flags);
	list_for_each_entry(hold, &all->lists, node) {
		if (READ_ONCE(hold->nr))
			smq_hold_kick(hold);
	}
	spin_unlock_irqrestore(&all->lock, flags);
}

/* How many commands are held for a host. Context: any. */
unsigned int smq_hold_sum(struct smq_host *host)
{
	struct smq_host_holds *all = &host->core->hold;
	struct smq_hold *hold;
	unsigned long flags;
	unsigned int sum = 0;

	spin_lock_irqsave(&all->lock, flags);
	list_for_each_entry(hold, &all->lists, node)
		sum += READ_ONCE(hold->nr);
	spin_unlock_irqrestore(&all->lock, flags);
	return sum;
}

/*
 * If a command is held in @hold, takes it off this list and sets its state to @state. Returns true
 * if so: the caller then owns the command. @seen: cmd->seen when the command was held; the command
 * may have ended since. Context: any, inside an RCU read-side section.
 */
bool smq_hold_take_from(struct smq_hold *hold, struct smq_cmd *cmd,
			const struct smq_policy_cmd *seen, enum smq_cmd_state state)
{
	unsigned long flags;
	bool held;

	spin_lock_irqsave(&hold->lock, flags);
	held = seen->held_in == hold;
	if (held)
		smq_hold_del(hold, cmd, state);
	spin_unlock_irqrestore(&hold->lock, flags);
	return held;
}

/*
 * As smq_hold_take_from(), for whatever list the command is in. Tries again if the command moves to
 * another list meanwhile.
 */
bool smq_hold_take_back(struct smq_cmd *cmd, enum smq_cmd_state state)
{
	struct smq_policy_cmd *seen = READ_ONCE(cmd->seen);
	struct smq_hold *hold;
	bool held = false;

	while (!held && seen && atomic_read_acquire(&cmd->state) == SMQ_HELD) {
		hold = READ_ONCE(seen->held_in);
		if (hold)
			held = smq_hold_take_from(hold, cmd, seen, state);
		else
			/* Another CPU is taking the command, under the list's lock. */
			cpu_relax();
	}
	return held;
}

/*
 * Called when the block timer of a command expired. Returns true if the command needs more time:
 * it is still held, or was held for so long that the device has not had the whole timeout yet.
 */
bool smq_hold_timed_out(struct smq_cmd *cmd)
{
	unsigned long timeout = scsi_cmd_to_rq(smq_cmd_to_scmd(cmd))->timeout;
	const struct smq_policy_cmd *seen;
	unsigned long issued, since;
	bool ours = false;

	rcu_read_lock();
	switch (atomic_read_acquire(&cmd->state)) {
	case SMQ_HELD:
	case SMQ_RETURNING:
		ours = true;
		break;
	case SMQ_OWNED:
	case SMQ_WITHHELD:
		seen = READ_ONCE(cmd->seen);
		if (!seen)
			break;
		since = READ_ONCE(seen->held_since);
		issued = READ_ONCE(seen->issued_at);
		/* A command that was held only briefly gets no more time: its timeout is over. */
		ours = since && issued - since + 1 > timeout / 8 &&
		       time_before(jiffies, issued + timeout);
		break;
	}
	rcu_read_unlock();
	return ours;
}

int smq_holds_init_host(struct smq_host *host)
{
	struct smq_host_holds *all = &host->core->hold;

	spin_lock_init(&all->lock);
	INIT_LIST_HEAD(&all->lists);
	all->wq = alloc_workqueue("smq_hold_%d", WQ_MEM_RECLAIM | WQ_HIGHPRI | WQ_PERCPU, 0,
				  host->shost->host_no);
	return all->wq ? 0 : -ENOMEM;
}

/* Stops the scan. The host has no command left. Context: may sleep. */
void smq_holds_stop_host(struct smq_host *host)
{
	cancel_delayed_work_sync(&host->core->hold.scan);
}

void smq_holds_free_host(struct smq_host *host)
{
	if (host->core->hold.wq)
		destroy_workqueue(host->core->hold.wq);
}
