// SPDX-License-Identifier: GPL-2.0
/*
 * The device handler (scsi_dh) of a claimed device. A handler such as ALUA's makes the mid-layer
 * retry commands that end with certain unit attentions. On the lower device this would hide the
 * unit attentions from the upper device. So while a device is claimed, smq_conv replaces the
 * device's handler by one that leaves all decisions to the mid-layer. The upper device has the same
 * INQUIRY data, so it gets a handler of its own.
 *
 * The mid-layer exports no function that detaches a handler. So smq_conv itself exchanges
 * sdev->handler, which the mid-layer reads for each command. The device keeps the data and the
 * module reference of the former handler meanwhile.
 */
#include <scsi/scsi_dh.h>

#include "conv.h"

static enum scsi_disposition conv_check_sense(struct scsi_device *lower,
					      struct scsi_sense_hdr *sshdr)
{
	return SCSI_RETURN_NOT_HANDLED;
}

static int conv_activate(struct scsi_device *lower, activate_complete fn, void *data)
{
	sdev_printk(KERN_INFO, lower, "activate: refused while smq_conv has claimed the device\n");
	if (fn)
		fn(data, SCSI_DH_NOSYS);
	return -EOPNOTSUPP;
}

/* Not registered, so that no other code can attach or detach it by its name. */
static struct scsi_device_handler conv_handler = {
	.name		= "smq_conv",
	.module		= THIS_MODULE,
	.check_sense	= conv_check_sense,
	.activate	= conv_activate,
};

/*
 * Exchanges a device's handler, and the operations of its queue if @ops is not NULL. The mid-layer
 * reads the handler's pointer twice, to test for a function and to call it, and the pointer must
 * not change in between. For check_sense and prep_fn the frozen queue ensures that: no command is
 * in flight. For rescan the device's lock ensures it: the caller holds that lock. The dh_state
 * attribute reads the pointer without a lock, by plain loads, hence WRITE_ONCE(). It may see either
 * handler, but uses only name and activate, which every handler in the kernel has.
 */
static struct scsi_device_handler *conv_handler_swap(struct scsi_device *lower,
						     struct scsi_device_handler *handler,
						     const struct blk_mq_ops *ops)
{
	struct request_queue *q = lower->request_queue;
	struct scsi_device_handler *former;
	unsigned int flags;

	device_lock_assert(&lower->sdev_gendev);
	flags = smq_queue_freeze(q);
	former = lower->handler;
	WRITE_ONCE(lower->handler, handler);
	if (ops)
		q->mq_ops = ops;
	smq_queue_unfreeze(q, flags);
	return former;
}

/**
 * conv_handler_replace() - replaces a device's own handler by conv_handler
 * @cl: the claim
 *
 * Context: the driver's probe; waits for the commands of the device.
 */
void conv_handler_replace(struct conv_lun *cl)
{
	cl->mid_layer = cl->lower->request_queue->mq_ops;
	cl->ops = *cl->mid_layer;
	cl->ops.complete = conv_complete;
	cl->handler = conv_handler_swap(cl->lower, &conv_handler, SMQ_CAN_OWN ? &cl->ops : NULL);
}

/**
 * conv_handler_restore() - gives a device its handler back
 * @cl: the claim; no upper device may use it any more
 *
 * The lower queue is empty when the handlers are exchanged, so on return the last lower request has
 * ended.
 *
 * Context: the driver's remove; waits for the commands of the device.
 */
void conv_handler_restore(struct conv_lun *cl)
{
	conv_handler_swap(cl->lower, cl->handler, cl->mid_layer);
}
