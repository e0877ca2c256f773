// SPDX-License-Identifier: GPL-2.0
/*
 * The model of the hardware behind a hardware queue: a ring, a doorbell, a service time, an
 * interrupt. The commands on the ring have already been executed and their data moved; the model
 * decides when they complete, and how much CPU time that costs.
 */
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/math64.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>

#include "ram.h"

static struct ram_model *ram_hwq_model(struct smq_hwq *hwq)
{
	struct ram_host *ram = smq_host_priv(hwq->host);

	return ram->model;
}

/* Reserves the link for @bytes, from @now at the earliest. Returns when the transfer will end. */
static u64 ram_book_link(struct ram_model *model, u64 now, u32 bytes, u64 rate)
{
	u64 cost = mul_u64_u64_div_u64(bytes, NSEC_PER_SEC, rate);
	s64 old = atomic64_read(&model->link_free), new;

	do {
		new = max_t(s64, old, now) + cost;
	} while (!atomic64_try_cmpxchg(&model->link_free, &old, new));
	return new;
}

/* Reserves a place in the ring for a command; returns false if the ring is full. Context: any. */
bool ram_reserve(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	struct ram_hwq *rq = smq_hwq_priv(hwq);
	struct ram_cmd *rc = smq_cmd_priv(cmd);
	u32 limit = READ_ONCE(ram_hwq_model(hwq)->hwq_depth);
	unsigned long flags;

	spin_lock_irqsave(&rq->lock, flags);
	rc->reserved = !limit || rq->nr < limit;
	rq->nr += rc->reserved;
	spin_unlock_irqrestore(&rq->lock, flags);
	return rc->reserved;
}

static void ram_unreserve(struct ram_hwq *rq, struct ram_cmd *rc)
{
	rq->nr -= rc->reserved;
	rc->reserved = false;
}

/* Gives back the place of a command that was not put on the ring. */
void ram_release(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	struct ram_hwq *rq = smq_hwq_priv(hwq);
	unsigned long flags;

	spin_lock_irqsave(&rq->lock, flags);
	ram_unreserve(rq, smq_cmd_priv(cmd));
	spin_unlock_irqrestore(&rq->lock, flags);
}

/*
 * Adds a command to the list, which is sorted by @due. Searches from the end, where most commands
 * belong.
 */
static void ram_insert(struct ram_hwq *rq, struct smq_cmd *cmd, u64 due)
{
	struct ram_cmd *rc = smq_cmd_priv(cmd);
	struct smq_cmd *prev;

	rc->due = due;
	rc->listed = true;
	list_for_each_entry_reverse(prev, &rq->busy, node) {
		struct ram_cmd *prc = smq_cmd_priv(prev);

		if (prc->due <= due) {
			list_add(&cmd->node, &prev->node);
			return;
		}
	}
	list_add(&cmd->node, &rq->busy);
}

/* Sets the timer for the command that is due first. */
static void ram_arm(struct smq_hwq *hwq, struct ram_hwq *rq)
{
	struct smq_cmd *first = list_first_entry_or_null(&rq->busy, struct smq_cmd, node);
	struct ram_cmd *rc;

	lockdep_assert_held(&rq->lock);
	if (!first || hwq->type == HCTX_TYPE_POLL)
		return;
	rc = smq_cmd_priv(first);
	hrtimer_start(&rq->timer, rc->due, HRTIMER_MODE_ABS);
}

/*
 * Completes the commands that are due. One RCU read-side section begins before a command leaves
 * the list and ends after its completion: ram_forget() waits for that end.
 */
static int ram_complete_due(struct smq_hwq *hwq)
{
	struct ram_hwq *rq = smq_hwq_priv(hwq);
	struct smq_cmd *cmd, *next;
	u64 now = ktime_get_ns();
	unsigned long flags;
	LIST_HEAD(done);
	int found = 0;

	rcu_read_lock();
	spin_lock_irqsave(&rq->lock, flags);
	list_for_each_entry_safe(cmd, next, &rq->busy, node) {
		struct ram_cmd *rc = smq_cmd_priv(cmd);

		if (rc->due > now)
			break;
		ram_unreserve(rq, rc);
		rc->listed = false;
		list_move_tail(&cmd->node, &done);
	}
	ram_arm(hwq, rq);
	spin_unlock_irqrestore(&rq->lock, flags);

	list_for_each_entry_safe(cmd, next, &done, node) {
		list_del_init(&cmd->node);
		smq_cmd_done(cmd);
		found++;
	}
	rcu_read_unlock();
	return found;
}

/*
 * Returns the CPU that gets the interrupt of a hardware queue, or -1 for the CPU of the timer.
 * Context: the queue has a command, which keeps the map from being freed.
 */
static int ram_irq_cpu(struct smq_hwq *hwq)
{
	const struct blk_mq_queue_map *map = &hwq->host->shost->tag_set.map[HCTX_TYPE_DEFAULT];
	unsigned int cpu;

	if (!READ_ONCE(ram_hwq_model(hwq)->irq_affinity))
		return -1;
	for_each_online_cpu(cpu) {
		if (map->mq_map[cpu] == hwq->index)
			return cpu;
	}
	return -1;
}

static void ram_remote_interrupt(void *data)
{
	struct smq_hwq *hwq = data;
	struct ram_hwq *rq = smq_hwq_priv(hwq);

	ram_complete_due(hwq);
	/* Release: after ram_hwq_exit() has read this value the queue may be freed. */
	atomic_dec_return_release(&rq->remotes);
}

static enum hrtimer_restart ram_interrupt(struct hrtimer *timer)
{
	struct ram_hwq *rq = container_of(timer, struct ram_hwq, timer);
	struct smq_hwq *hwq = container_of((void *)rq, struct smq_hwq, priv);
	int cpu = READ_ONCE(rq->irq_cpu);
	int err = -ENXIO;

	if (cpu >= 0 && cpu != smp_processor_id()) {
		atomic_inc(&rq->remotes);
		err = smp_call_function_single_async(cpu, &rq->remote);
		if (err)
			atomic_dec(&rq->remotes);
	}
	/* -EBUSY: the previous call has not begun yet; it will see these commands too. */
	if (err && err != -EBUSY)
		ram_complete_due(hwq);
	/* ram_complete_due() sets the timer again if more commands are due later. */
	return HRTIMER_NORESTART;
}

/* Rings the doorbell for the commands in the ring. Context: any. */
void ram_doorbell(struct smq_hwq *hwq)
{
	struct ram_hwq *rq = smq_hwq_priv(hwq);
	struct ram_model *model = ram_hwq_model(hwq);
	u64 service = READ_ONCE(model->service_ns), rate = READ_ONCE(model->bytes_per_sec);
	u64 each = READ_ONCE(model->hwq_ns);
	u32 cost = READ_ONCE(model->doorbell_ns);
	struct smq_cmd *cmd, *next;
	unsigned long flags;
	LIST_HEAD(ring);
	u64 now;

	if (cost) {
		udelay(cost / NSEC_PER_USEC);
		ndelay(cost % NSEC_PER_USEC);
	}

	spin_lock_irqsave(&rq->lock, flags);
	list_splice_init(&rq->ring, &ring);
	rq->doorbells += !list_empty(&ring);
	if (!list_empty(&ring))
		WRITE_ONCE(rq->irq_cpu, ram_irq_cpu(hwq));
	now = ktime_get_ns();
	list_for_each_entry_safe(cmd, next, &ring, node) {
		u64 due = now;

		if (rate)
			due = ram_book_link(model, now, scsi_bufflen(smq_cmd_to_scmd(cmd)), rate);
		if (each) {
			rq->free = max(rq->free, due) + each;
			due = rq->free;
		}
		ram_insert(rq, cmd, due + service);
	}
	ram_arm(hwq, rq);
	spin_unlock_irqrestore(&rq->lock, flags);

	if (!service && hwq->type != HCTX_TYPE_POLL)
		ram_complete_due(hwq);
}

/* Puts an executed command on the ring. Context: any. */
enum smq_status ram_submit(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	struct ram_hwq *rq = smq_hwq_priv(hwq);
	struct ram_cmd *rc = smq_cmd_priv(cmd);
	unsigned long flags;

	spin_lock_irqsave(&rq->lock, flags);
	rc->listed = true;
	list_add_tail(&cmd->node, &rq->ring);
	spin_unlock_irqrestore(&rq->lock, flags);
	return SMQ_QUEUED;
}

/* Without a model: makes an executed command available to the poller. Context: any. */
enum smq_status ram_ready(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	struct ram_hwq *rq = smq_hwq_priv(hwq);
	struct ram_cmd *rc = smq_cmd_priv(cmd);
	unsigned long flags;

	rc->reserved = false;
	spin_lock_irqsave(&rq->lock, flags);
	ram_insert(rq, cmd, 0);
	spin_unlock_irqrestore(&rq->lock, flags);
	return SMQ_QUEUED;
}

/* Completes the commands that are ready on a poll queue. */
int ram_poll(struct smq_hwq *hwq)
{
	struct ram_hwq *rq = smq_hwq_priv(hwq);

	if (list_empty_careful(&rq->busy))
		return 0;
	return ram_complete_due(hwq);
}

/*
 * Takes a command back, off the list that it is in. If another CPU is completing it, waits a
 * grace period for that CPU. Context: may sleep.
 */
void ram_forget(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	struct ram_hwq *rq = smq_hwq_priv(hwq);
	struct ram_cmd *rc = smq_cmd_priv(cmd);
	unsigned long flags;
	bool mine;

	spin_lock_irqsave(&rq->lock, flags);
	/* A command that is not listed may be in the local list of ram_complete_due(). */
	mine = rc->listed;
	if (mine)
		list_del_init(&cmd->node);
	rc->listed = false;
	/* Even if the command is not listed: a deferred command has kept its place until now. */
	ram_unreserve(rq, rc);
	spin_unlock_irqrestore(&rq->lock, flags);
	if (!mine)
		synchronize_rcu();
}

static void ram_forget_list(struct ram_hwq *rq, struct list_head *list,
			    const struct ram_lun *lun)
{
	struct smq_cmd *cmd, *next;

	list_for_each_entry_safe(cmd, next, list, node) {
		struct ram_cmd *rc = smq_cmd_priv(cmd);

		if (lun && ram_scmd_lun(smq_cmd_to_scmd(cmd)) != lun)
			continue;
		list_del_init(&cmd->node);
		rc->listed = false;
		ram_unreserve(rq, rc);
	}
}

/* Takes back all commands of @lun; NULL: of all LUNs. The caller then waits a grace period. */
void ram_forget_lun(struct smq_hwq *hwq, const struct ram_lun *lun)
{
	struct ram_hwq *rq = smq_hwq_priv(hwq);
	unsigned long flags;

	spin_lock_irqsave(&rq->lock, flags);
	ram_forget_list(rq, &rq->ring, lun);
	ram_forget_list(rq, &rq->busy, lun);
	/* The time reserved for these commands stays reserved unless the queue is empty now. */
	if (list_empty(&rq->ring) && list_empty(&rq->busy))
		rq->free = 0;
	spin_unlock_irqrestore(&rq->lock, flags);
}

void ram_hwq_init(struct smq_hwq *hwq)
{
	struct ram_hwq *rq = smq_hwq_priv(hwq);

	spin_lock_init(&rq->lock);
	INIT_LIST_HEAD(&rq->ring);
	INIT_LIST_HEAD(&rq->busy);
	hrtimer_setup(&rq->timer, ram_interrupt, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	INIT_CSD(&rq->remote, ram_remote_interrupt, hwq);
}

void ram_hwq_exit(struct smq_hwq *hwq)
{
	struct ram_hwq *rq = smq_hwq_priv(hwq);

	hrtimer_cancel(&rq->timer);
	/* Acquire: pairs with ram_remote_interrupt(). Wait for calls that are under way. */
	while (atomic_read_acquire(&rq->remotes))
		cpu_relax();
}
