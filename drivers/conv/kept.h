/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Kept lower requests: an upper command keeps the lower request of its tag's last command, so that
 * the next command need not allocate one.
 *
 * A kept request keeps its lower tag and its reference to the lower queue. So the end of each
 * command, and a work item every 20 ms, check whether others need it.
 */
#ifndef CONV_KEPT_H
#define CONV_KEPT_H

#include <linux/blk-mq.h>
#include <linux/smp.h>
#include <scsi/scsi_cmnd.h>
#include <smq/straight.h>

#include "conv.h"

void conv_kept_enter(struct conv_lun *cl, struct conv_cmd *cc, const struct request *rq);
void conv_kept_drop(struct request *rq);

/* The claim for which an idle request counts. The LLD uses the field only while a command runs. */
static inline struct conv_lun *conv_kept_owner(struct request *rq)
{
	const struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);

	return (struct conv_lun *)scmd->host_scribble;
}

/*
 * Whether others want a request: a freeze of its queue, a task that sleeps for a tag, an hctx whose
 * CPUs go offline. The request references the queue, so the hctx exists.
 */
static __always_inline bool conv_kept_wanted(const struct request *rq)
{
	const struct blk_mq_hw_ctx *hctx = rq->mq_hctx;

	return percpu_ref_is_dying(&rq->q->q_usage_counter) ||
	       atomic_read(&hctx->tags->bitmap_tags.ws_active) ||
	       READ_ONCE(hctx->state) & BIT(BLK_MQ_S_INACTIVE);
}

/**
 * conv_kept_take() - takes a command's kept request
 * @cl: the claim
 * @cc: the command
 * @from: the upper request
 * @opf: operation and flags of the lower request
 *
 * Return: the request, as from scsi_alloc_request(); NULL if there is none. Context: queue_cmd.
 */
static __always_inline struct request *conv_kept_take(struct conv_lun *cl, struct conv_cmd *cc,
						      const struct request *from, blk_opf_t opf)
{
	const struct request_queue *q = cl->lower->request_queue;
	struct request *rq;

	rq = READ_ONCE(cc->kept) ? xchg(&cc->kept, NULL) : NULL;
	if (unlikely(!rq))
		return NULL;
	/*
	 * The tag's last command may have been for another LUN, or on another CPU, whose hctx the
	 * request has. The block layer's scan for timeouts may still have a reference from the last
	 * command, and would apply that command's deadline to this one: the exchange orders the
	 * read of rq->ref after the write of rq->state. While only power management may use the
	 * queue, or it is being frozen, the allocation decides.
	 */
	if (unlikely(rq->q != q || cc->kept_cpu != raw_smp_processor_id() ||
		     atomic_read(&rq->ref) != 1 || blk_queue_pm_only(q) ||
		     percpu_ref_is_dying(&rq->q->q_usage_counter))) {
		conv_kept_drop(rq);
		return NULL;
	}
	smq_rq_use_again(rq, opf);
	return rq;
}

/*
 * Ends a command's use of its lower request: keeps it, or frees it. @good: the command ended with
 * GOOD; otherwise error handling may have changed the request. Context: any.
 */
static __always_inline void conv_kept_end(struct conv_cmd *cc, struct request *rq, bool good)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	struct conv_lun *keeper = cc->keeper;

	if (likely(keeper)) {
		scmd->host_scribble = (void *)keeper;
		if (unlikely(!good || rq->rq_flags & RQF_TIMED_OUT || conv_kept_wanted(rq))) {
			conv_kept_drop(rq);
			return;
		}
		/* A walk over all tags skips requests that are not started. */
		WRITE_ONCE(rq->state, MQ_RQ_IDLE);
		/* Pairs with the exchanges: their CPU then sees all of the above. */
		smp_store_release(&cc->kept, rq);
		return;
	}
	blk_mq_free_request(rq);
}

#endif /* CONV_KEPT_H */
