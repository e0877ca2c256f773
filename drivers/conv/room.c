// SPDX-License-Identifier: GPL-2.0
/*
 * What happens when the lower host has no free tag: other LUNs have all tags, or the LUN already
 * has its share of the shared tags. Submitters to devices that are not claimed sleep until a tag is
 * free, and get tags in turn. A submitter to an upper device must not sleep: its command goes back
 * to the upper mid-layer, which tries again later. By then a sleeping submitter has nearly always
 * taken the tag that was free. So each claim has a work item that sleeps until it gets a tag, and
 * keeps this one tag for the next command.
 */
#include <linux/blk-mq.h>
#include <scsi/scsi_cmnd.h>

#include "conv.h"

/*
 * How long a spare request is kept if no command takes it. A command that waits takes it at once;
 * but the error handler sends a refused command of its own again only after 100 ms.
 */
#define CONV_KEEP	(3 * HZ / 20)

static void conv_room_work(struct work_struct *work)
{
	struct conv_lun *cl = container_of(to_delayed_work(work), struct conv_lun, room);
	struct request *rq = xchg(&cl->spare, NULL);
	bool wanted = xchg(&cl->no_tag, false);
	struct scsi_device *upper;

	/* No command needs the spare request: those that waited have ended in another way. */
	if (rq && !wanted)
		blk_mq_free_request(rq);
	if (!wanted)
		return;
	if (!rq)
		rq = scsi_alloc_request(cl->lower->request_queue, REQ_OP_DRV_IN, 0);
	/* The lower device is being removed. */
	if (IS_ERR(rq))
		return;
	/* Release: a CPU that takes @rq sees its contents. No other code stores a request here. */
	smp_store_release(&cl->spare, rq);
	queue_delayed_work(cl->room_wq, &cl->room, CONV_KEEP);
	upper = conv_lun_upper(cl);
	if (!upper)
		return;
	smq_lun_room(upper);
	put_device(&upper->sdev_gendev);
}

/**
 * conv_room_take_spare() - takes the request that the work item has allocated
 * @cl: the claim
 * @opf: operation and flags of the request
 *
 * Context: any. Return: a request as from scsi_alloc_request(), or NULL if another command took it.
 */
struct request *conv_room_take_spare(struct conv_lun *cl, blk_opf_t opf)
{
	struct request *rq = xchg(&cl->spare, NULL);

	/* The request was allocated for REQ_OP_DRV_IN; its hctx serves all values of @opf. */
	if (rq)
		rq->cmd_flags = opf;
	return rq;
}

/**
 * conv_room_wait() - starts the work item, because a command has found no lower tag
 * @cl: the claim
 *
 * The caller's queue_cmd then returns SMQ_DEVICE_BUSY. Context: any.
 */
void conv_room_wait(struct conv_lun *cl)
{
	if (READ_ONCE(cl->no_tag))
		return;
	WRITE_ONCE(cl->no_tag, true);
	mod_delayed_work(cl->room_wq, &cl->room, 0);
}

/* Return: 0 or -ENOMEM; conv_room_free() undoes it. */
int conv_room_init(struct conv_lun *cl)
{
	INIT_DELAYED_WORK(&cl->room, conv_room_work);
	cl->room_wq = alloc_ordered_workqueue("smq_conv_room", WQ_MEM_RECLAIM);
	return cl->room_wq ? 0 : -ENOMEM;
}

void conv_room_free(struct conv_lun *cl)
{
	destroy_workqueue(cl->room_wq);
}

/* Called after the claim's last command. May sleep until the lower device has a free tag. */
void conv_room_exit(struct conv_lun *cl)
{
	cancel_delayed_work_sync(&cl->room);
	if (cl->spare)
		blk_mq_free_request(cl->spare);
	cl->spare = NULL;
}
