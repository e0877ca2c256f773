// SPDX-License-Identifier: GPL-2.0
/*
 * What happens when the lower host has no free tag: other LUNs have all of them, or the LUN already
 * has its share of the shared tags. Submitters to devices that are not claimed sleep until a tag is
 * free, and get tags in turn. A command of an upper device may not sleep: it goes back to the upper
 * mid-layer, which tries again later, and nearly always finds that a sleeper got the tag. So a work
 * item, one for each claim, sleeps for one tag at a time and keeps it for the next command.
 */
#include <linux/blk-mq.h>
#include <scsi/scsi_cmnd.h>

#include "conv.h"

/* How long a spare request is kept if no command takes it; one that waits takes it at once. */
#define CONV_KEEP	(HZ / 20)

static void conv_room_work(struct work_struct *work)
{
	struct conv_lun *cl = container_of(to_delayed_work(work), struct conv_lun, room);
	struct request *rq = xchg(&cl->spare, NULL);
	bool wanted = xchg(&cl->short_of, false);
	struct scsi_device *upper;

	/* No command wants the spare request: those that waited have ended in another way. */
	if (rq && !wanted)
		blk_mq_free_request(rq);
	if (!wanted)
		return;
	if (!rq)
		rq = scsi_alloc_request(cl->lower->request_queue, REQ_OP_DRV_IN, 0);
	/* The lower device is being removed. */
	if (IS_ERR(rq))
		return;
	/* Release: a command that takes @rq sees all of it. No other code stores a request here. */
	smp_store_release(&cl->spare, rq);
	queue_delayed_work(system_unbound_wq, &cl->room, CONV_KEEP);
	upper = conv_lun_upper(cl);
	if (!upper)
		return;
	smq_lun_room(upper);
	put_device(&upper->sdev_gendev);
}

/**
 * conv_room_take_spare() - takes the request that the work item has waited for
 * @cl: the claim
 * @opf: what the request is for
 *
 * Context: any. Return: a request as from scsi_alloc_request(), or NULL: another command took it.
 */
struct request *conv_room_take_spare(struct conv_lun *cl, blk_opf_t opf)
{
	struct request *rq = xchg(&cl->spare, NULL);

	/* @opf may differ from the operation it was allocated for: both use the same hctxs. */
	if (rq)
		rq->cmd_flags = opf;
	return rq;
}

/**
 * conv_room_wait() - makes the work item wait for a tag, because a command has found none
 * @cl: the claim
 *
 * The caller answers SMQ_DEVICE_BUSY. Context: any.
 */
void conv_room_wait(struct conv_lun *cl)
{
	if (READ_ONCE(cl->short_of))
		return;
	WRITE_ONCE(cl->short_of, true);
	mod_delayed_work(system_unbound_wq, &cl->room, 0);
}

void conv_room_init(struct conv_lun *cl)
{
	INIT_DELAYED_WORK(&cl->room, conv_room_work);
}

/* Called when the claim has no more commands. May sleep until the lower device has a tag. */
void conv_room_exit(struct conv_lun *cl)
{
	cancel_delayed_work_sync(&cl->room);
	if (cl->spare)
		blk_mq_free_request(cl->spare);
	cl->spare = NULL;
}
