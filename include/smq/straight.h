/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Straight issue: the context that sends a passthrough request takes its place in the device's
 * budget and calls queue_rq() itself; and the short end of such a request. For kernels that were
 * checked for it, see SMQ_CAN_OWN.
 */
#ifndef SMQ_STRAIGHT_H
#define SMQ_STRAIGHT_H

#include <linux/rcupdate.h>
#include <linux/sbitmap.h>
#include <linux/timer.h>
#include <scsi/scsi_cmnd.h>
#include <scsi/scsi_device.h>
#include <scsi/scsi_host.h>
#include <smq/compat.h>
#include <smq/prepare.h>
#include <smq/tracepoint.h>

#ifdef CONFIG_SCSI_LOGGING
/* What the mid-layer logs. It exports the symbol, but its header is private. */
extern unsigned int scsi_logging_level;
#define smq_logging_level	scsi_logging_level
#else
#define smq_logging_level	0
#endif

/*
 * Takes the token of the device's budget that a command had last (@last), if that is free. Tokens
 * enforce the queue depth. When a bit of an sbitmap is given back, the sbitmap sets it in a second
 * word, "cleared", which its next search reads. The context that clears the bit there gets the
 * token. @last is out of range if there was none yet (below 0), or if the depth was lowered since.
 */
static __always_inline bool smq_token_again(struct scsi_device *sdev, int last)
{
	struct sbitmap *map = &sdev->budget_map;
	unsigned int token = last;

	return token < READ_ONCE(map->depth) &&
	       test_and_clear_bit(token & (BIT(map->shift) - 1),
				  &map->map[token >> map->shift].cleared);
}

/*
 * Makes the search for the first token of a command begin in another word of the map on each CPU:
 * a command takes its last token again, so each CPU then writes words, and cache lines, of its own.
 */
static inline void smq_token_spread(struct sbitmap *map)
{
	if (map->alloc_hint)
		raw_cpu_write(*map->alloc_hint,
			      raw_smp_processor_id() % map->map_nr << map->shift);
}

/*
 * Takes a token, @last if that is free; below 0: there is none. A blocked device needs
 * get_budget(), because only that unblocks it.
 */
static __always_inline int smq_straight_budget(struct scsi_device *sdev, int last)
{
	struct request_queue *q = sdev->request_queue;

	if (likely(!atomic_read(&sdev->device_blocked) && smq_token_again(sdev, last)))
		return last;
	if (last < 0)
		smq_token_spread(&sdev->budget_map);
	return q->mq_ops->get_budget(q);
}

/**
 * struct smq_straight_traces - what shows whether a command's way to the LLD is traced
 * @start: the key of scsi_dispatch_cmd_start
 * @error: the key of scsi_dispatch_cmd_error
 * @issue: the key of block_rq_issue
 */
struct smq_straight_traces {
	const struct static_key *start;
	const struct static_key *error;
	const struct static_key *issue;
};

/* Called when the module is loaded, before it sends a command. May sleep. */
static inline void smq_straight_find_traces(struct smq_straight_traces *traces)
{
	traces->start = smq_tracepoint_key("scsi_dispatch_cmd_start");
	traces->error = smq_tracepoint_key("scsi_dispatch_cmd_error");
	traces->issue = smq_tracepoint_key("block_rq_issue");
}

/*
 * Whether a device's commands may be sent by smq_straight_queue(): the target has no limit of its
 * own, and CDBs have no LUN. None of this changes while there is a LUN.
 */
static inline bool smq_straight_is_plain(struct scsi_device *sdev)
{
	const struct scsi_target *starget = scsi_target(sdev);

	return starget->can_queue <= 0 && !starget->single_lun && !sdev->lun_in_cdb;
}

/*
 * Whether scsi_queue_rq() would do no more with a command than smq_straight_queue(): it is prepared
 * and not too long, its device and host are in no state in which it is refused or ended, no one
 * waits for places of the host, and it is not to be logged or traced. smq_straight_is_plain() is
 * true for @sdev. Called in the RCU section in which the command is sent: whoever changes such a
 * state waits for that section, or error handling counts the command.
 */
static __always_inline bool smq_straight_may_queue(struct request *rq,
						   const struct scsi_device *sdev,
						   const struct smq_straight_traces *traces)
{
	const struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	const struct Scsi_Host *shost = sdev->host;

	return likely((rq->rq_flags & RQF_DONTPREP) &&
		      READ_ONCE(sdev->sdev_state) == SDEV_RUNNING &&
		      READ_ONCE(shost->shost_state) == SHOST_RUNNING &&
		      !shost->tmf_in_progress && !shost->host_self_blocked &&
		      !atomic_read(&shost->host_blocked) && list_empty(&sdev->starved_entry) &&
		      scmd->cmd_len <= shost->max_cmd_len && !smq_logging_level &&
		      !atomic_read(&traces->start->enabled) &&
		      !atomic_read(&traces->error->enabled) &&
		      !atomic_read(&traces->issue->enabled));
}

/*
 * Starts a request as blk_mq_start_request(), whose tracepoint is off. The queue's timer need not
 * be set if it expires before the request's time is over: it then finds the request, and is set
 * anew.
 */
static __always_inline void smq_straight_start(struct request *rq)
{
	unsigned long deadline = jiffies + rq->timeout;

	if (unlikely((rq->bio && rq->cmd_flags & REQ_POLLED) || !rq->timeout ||
		     !timer_pending(&rq->q->timeout) ||
		     time_before(deadline, READ_ONCE(rq->q->timeout.expires)))) {
		blk_mq_start_request(rq);
		return;
	}
	rq->rq_flags &= ~RQF_TIMED_OUT;
	WRITE_ONCE(rq->deadline, deadline);
	WRITE_ONCE(rq->state, MQ_RQ_IN_FLIGHT);
}

/*
 * A command was refused by the LLD: sets what scsi_queue_rq() sets then, gives the token back, and
 * returns as scsi_queue_rq().
 */
static noinline __maybe_unused blk_status_t smq_straight_refused(struct scsi_cmnd *scmd, int reason)
{
	struct scsi_device *sdev = scmd->device;
	struct Scsi_Host *shost = sdev->host;

	__clear_bit(SCMD_STATE_INFLIGHT, &scmd->state);
	/*
	 * As scsi_dec_host_busy(): whoever begins error handling counts commands in flight after it
	 * has set the host's state.
	 */
	smp_mb();
	if (unlikely(scsi_host_in_recovery(shost))) {
		/*
		 * Error handling may wait for the end of this command, and only the mid-layer can
		 * tell it: make it repeat the command.
		 */
		scmd->result = DID_REQUEUE << 16;
		scsi_done(scmd);
		return BLK_STS_OK;
	}
	if (reason == SCSI_MLQUEUE_DEVICE_BUSY)
		atomic_set(&sdev->device_blocked, sdev->max_device_blocked);
	else if (reason == SCSI_MLQUEUE_TARGET_BUSY)
		atomic_set(&scsi_target(sdev)->target_blocked,
			   scsi_target(sdev)->max_target_blocked);
	else
		atomic_set(&shost->host_blocked, shost->max_host_blocked);
	sbitmap_put(&sdev->budget_map, scmd->budget_token);
	scmd->budget_token = -1;
	return BLK_STS_RESOURCE;
}

/**
 * smq_straight_queue() - gives a command to the LLD as scsi_queue_rq() does
 * @rq: a request for which smq_straight_may_queue() is true, in the same RCU section
 * @last: whether the LLD rings its doorbell
 *
 * The caller counts the command for the device's iorequest_cnt.
 *
 * Return: as scsi_queue_rq(). Context: as for it.
 */
static __always_inline blk_status_t smq_straight_queue(struct request *rq, bool last)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	struct scsi_device *sdev = scmd->device;	/* set when it was prepared */
	struct Scsi_Host *shost = sdev->host;
	const struct scsi_host_template *sht = shost->hostt;
	int reason;

#ifndef SMQ_PREPARE_CLEARS
	if (sht->cmd_size && !sht->init_cmd_priv)
		memset(scmd + 1, 0, sht->cmd_size);
#endif
	scmd->state = BIT(SCMD_STATE_INFLIGHT);
	scmd->flags = (scmd->flags & SCMD_PRESERVED_FLAGS) |
		      (sdev->simple_tags ? SCMD_TAGGED : 0) | (last ? SCMD_LAST : 0);
	scmd->resid_len = 0;
	/* smq_straight_new() cleared the buffer. The first byte of sense is never 0 (SPC-5). */
	if (unlikely(scmd->sense_buffer[0]))
		memset(scmd->sense_buffer, 0, SCSI_SENSE_BUFFERSIZE);
	scmd->submitter = SUBMITTED_BY_BLOCK_LAYER;
	smq_straight_start(rq);
	reason = sht->queuecommand(shost, scmd);
	return likely(!reason) ? BLK_STS_OK : smq_straight_refused(scmd, reason);
}

/* Makes a new request ready for smq_straight_queue(). The caller owns the request. */
static __always_inline void smq_straight_new(struct request *rq)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);

	smq_rq_has_tag(rq);
	memset(scmd->sense_buffer, 0, SCSI_SENSE_BUFFERSIZE);
}

/*
 * Makes a request that was kept as good as a new one: sets all that freeing and allocating it would
 * set, and its user does not. Context: process; the caller owns the request.
 */
static __always_inline void smq_rq_use_again(struct request *rq, blk_opf_t opf)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);

	rq->rq_flags &= SMQ_RQF_OF_TAG;
	rq->cmd_flags = opf;
	scmd->sense_len = 0;
	scmd->retries = 0;
	scmd->jiffies_at_alloc = jiffies;
}

/* Runs what the mid-layer would run for others when a command ends, as scsi_run_queue_async(). */
static noinline __maybe_unused void smq_straight_run_others(struct scsi_device *sdev)
{
	int old;

	if (scsi_target(sdev)->single_lun || !list_empty(&sdev->host->starved_list)) {
		kblockd_schedule_work(&sdev->requeue_work);
		return;
	}
	old = atomic_read(&sdev->restarts);
	if (old && atomic_cmpxchg(&sdev->restarts, old, 0) == old)
		blk_mq_run_hw_queues(sdev->request_queue, true);
}

/*
 * Whether the mid-layer has to complete a command: it did not end with GOOD, has a scatterlist to
 * be freed, is to be logged, or ends a state that only the mid-layer ends. (All commands of a host
 * with protection information have a prot_sdb; only those that use it have elements in its list.)
 */
static __always_inline bool smq_straight_needs_mid_layer(struct scsi_cmnd *scmd,
							 struct scsi_device *sdev)
{
	const struct scsi_target *starget = scsi_target(sdev);
	const struct Scsi_Host *shost = sdev->host;

	return scmd->result || scsi_prot_sg_count(scmd) ||
	       scmd->sdb.table.orig_nents > SMQ_INLINE_SEGMENTS ||
	       atomic_read(&shost->host_blocked) || atomic_read(&sdev->device_blocked) ||
	       atomic_read(&starget->target_blocked) || starget->can_queue > 0 ||
	       /* REPORT LUNS answers a unit attention. A lowered queue depth rises again. */
	       scmd->cmnd[0] == REPORT_LUNS ||
	       (shost->hostt->track_queue_depth && sdev->queue_depth < sdev->max_queue_depth) ||
	       smq_logging_level;
}

/*
 * Whether a passthrough command that has ended is completed by smq_straight_completed(), and not by
 * the mid-layer. Any context.
 */
static __always_inline bool smq_straight_completes(struct request *rq)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	struct scsi_device *sdev = scmd->device;
	bool recovery;

	if (unlikely(smq_straight_needs_mid_layer(scmd, sdev)))
		return false;
	/*
	 * Error handling waits until all commands have ended. If it began before this section, the
	 * mid-layer has to count them; if later, it waits for the section and sees the bit cleared.
	 */
	rcu_read_lock();
	__clear_bit(SCMD_STATE_INFLIGHT, &scmd->state);
	recovery = scsi_host_in_recovery(sdev->host);
	rcu_read_unlock();
	return likely(!recovery);
}

/*
 * Completes a command: what scsi_complete(), scsi_finish_command() and scsi_end_request() do for a
 * passthrough command that ended with GOOD. The caller counts it for the device's iodone_cnt, and
 * then ends the request. Its bios are not ended: nothing waits for that, and blk_rq_unmap_user()
 * does not look at it. Has a full barrier behind all that it does. Any context.
 */
static __always_inline void smq_straight_completed(struct request *rq)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	struct scsi_device *sdev = scmd->device;

	scmd->flags = 0;
	rq->bio = NULL;
	sbitmap_put(&sdev->budget_map, scmd->budget_token);
	scmd->budget_token = -1;
	/* Pairs with scsi_mq_get_budget(): it finds the token, or restarts is seen here. */
	smp_mb__after_atomic();
	/* Before the request ends, which may drop the reference to the device's queue. */
	if (unlikely(atomic_read(&sdev->restarts) || !list_empty(&sdev->host->starved_list) ||
		     scsi_target(sdev)->single_lun))
		smq_straight_run_others(sdev);
}

#endif /* SMQ_STRAIGHT_H */
