// SPDX-License-Identifier: GPL-2.0
/*
 * Kept lower requests: how many there may be, and when they are given back. None of those who need
 * one can notify this module, so a periodic work item, the scan, checks for them.
 */
#include <linux/jiffies.h>
#include <linux/rcupdate.h>
#include <linux/wait_bit.h>
#include <scsi/scsi_host.h>

#include "kept.h"

/* The time between two scans. Others wait for a kept request at most twice as long. */
#define CONV_KEPT_SCAN		max(HZ / 50, 1)
/* How long a request is kept that no command uses. */
#define CONV_KEPT_IDLE		HZ

/*
 * How many requests all claims of a lower host may keep: an eighth of the tags is left to LUNs that
 * need a tag at once. The others are given back when a task sleeps for a tag.
 */
static int conv_kept_limit(const struct Scsi_Host *lower)
{
	const struct blk_mq_tag_set *set = &lower->tag_set;
	unsigned int queues = set->flags & BLK_MQ_F_TAG_HCTX_SHARED ? 1 : set->nr_hw_queues;

	return (set->queue_depth - DIV_ROUND_UP(set->queue_depth, 8)) * queues;
}

/**
 * conv_kept_enter() - lets a command keep the request that it has just allocated
 * @cl: the claim
 * @cc: the command
 * @rq: the request
 *
 * Not if too many are kept already. Context: queue_cmd.
 */
void conv_kept_enter(struct conv_lun *cl, struct conv_cmd *cc, const struct request *rq)
{
	struct conv_host *ch = cl->host;

	if (atomic_inc_return(&ch->kept) > conv_kept_limit(ch->lower)) {
		atomic_dec(&ch->kept);
		WRITE_ONCE(cc->keeper, NULL);
		return;
	}
	/* Fully ordered before the test: the scan sees the count, or is scheduled here. */
	atomic_inc_return(&cl->kept);
	if (!delayed_work_pending(&cl->kept_scan))
		queue_delayed_work(system_wq, &cl->kept_scan, CONV_KEPT_SCAN);
	cc->kept_cpu = raw_smp_processor_id();
	WRITE_ONCE(cc->keeper, cl);
	if (cc->listed)
		return;
	cc->listed = true;
	llist_add(&cc->keeping, &ch->keepers);
}

/* Frees a request that a command has kept. Context: any. */
void conv_kept_drop(struct request *rq)
{
	struct conv_lun *cl = conv_kept_owner(rq);

	blk_mq_free_request(rq);
	atomic_dec(&cl->host->kept);
	/*
	 * The last access to the claim, for which conv_kept_exit() waits. It also waits for the RCU
	 * section.
	 */
	rcu_read_lock();
	if (atomic_dec_and_test(&cl->kept))
		wake_up_var(&cl->kept);
	rcu_read_unlock();
}

/*
 * Gives back a claim's idle requests: all, or those that are wanted or that no command has used for
 * a while. Unless @all, the caller references the lower queue: so no tag of the lower host, idle or
 * not, is freed.
 */
static void conv_kept_collect(struct conv_lun *cl, bool all)
{
	struct conv_cmd *cc;
	struct request *rq;

	/* Nothing is ever removed: the commands live as long as the upper host. */
	llist_for_each_entry(cc, READ_ONCE(cl->host->keepers.first), keeping) {
		if (READ_ONCE(cc->keeper) != cl)
			continue;
		/* Pairs with conv_kept_end(). */
		rq = smp_load_acquire(&cc->kept);
		if (!rq)
			continue;
		if (!all && READ_ONCE(rq->q) == cl->lower->request_queue && !conv_kept_wanted(rq) &&
		    time_before(jiffies, READ_ONCE(((struct scsi_cmnd *)
				blk_mq_rq_to_pdu(rq))->jiffies_at_alloc) + CONV_KEPT_IDLE))
			continue;
		/* This may be the request of a later command, which loses nothing but time. */
		rq = xchg(&cc->kept, NULL);
		if (rq)
			conv_kept_drop(rq);
	}
}

static void conv_kept_scan(struct work_struct *work)
{
	struct conv_lun *cl = container_of(to_delayed_work(work), struct conv_lun, kept_scan);
	struct request_queue *q = cl->lower->request_queue;

	if (!percpu_ref_tryget_live(&q->q_usage_counter)) {
		conv_kept_collect(cl, true);
	} else {
		if (!list_empty_careful(&cl->lower->host->starved_list))
			conv_kept_collect(cl, true);
		else if (smq_kept_scan_due(&cl->kept_state, q))
			conv_kept_collect(cl, false);
		percpu_ref_put(&q->q_usage_counter);
	}
	/* Also while commands in flight may keep theirs. */
	if (atomic_read(&cl->kept))
		queue_delayed_work(system_wq, &cl->kept_scan, CONV_KEPT_SCAN);
}

void conv_kept_init(struct conv_lun *cl)
{
	INIT_DELAYED_WORK(&cl->kept_scan, conv_kept_scan);
}

/* Called after the claim's last command. May sleep. */
void conv_kept_exit(struct conv_lun *cl)
{
	conv_kept_collect(cl, true);
	cancel_delayed_work_sync(&cl->kept_scan);
	/* A command of another claim may just give back a request that its tag has kept for us. */
	wait_var_event(&cl->kept, !atomic_read(&cl->kept));
}
