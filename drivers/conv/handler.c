// SPDX-License-Identifier: GPL-2.0
/*
 * The device handler (scsi_dh) of a claimed device. A handler such as ALUA's makes the mid-layer
 * repeat commands that end with certain unit attentions. On the lower device this would hide them
 * from the upper one. So while a device is claimed, a handler that decides nothing takes the place
 * of its own; the upper device, which has the same INQUIRY data, gets a handler of its own.
 *
 * The mid-layer has no call that detaches a handler, so sdev->handler, which the mid-layer reads
 * for each command, is exchanged. The data and the module reference of the former handler stay with
 * the device meanwhile.
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
	sdev_printk(KERN_INFO, lower, "activate: refused while smq_conv has claimed it\n");
	if (fn)
		fn(data, SCSI_DH_NOSYS);
	return -EOPNOTSUPP;
}

/* Not registered, so that no other code can attach it by its name, or detach it. */
static struct scsi_device_handler conv_handler = {
	.name		= "smq_conv",
	.module		= THIS_MODULE,
	.check_sense	= conv_check_sense,
	.activate	= conv_activate,
};

/*
 * Exchanges a device's handler. The mid-layer reads the pointer twice, to test for a function and
 * to call it. Between the two it must not change: while the queue is frozen, no command is in
 * flight for which check_sense or prep_fn would be called; rescan is called with the device's lock
 * held, as this function is. The dh_state attribute reads the pointer without a lock, by plain
 * loads, hence WRITE_ONCE(). It may see either handler, but uses only name and activate, which
 * every handler in the kernel has.
 */
static struct scsi_device_handler *conv_handler_swap(struct scsi_device *lower,
						     struct scsi_device_handler *handler)
{
	struct request_queue *q = lower->request_queue;
	struct scsi_device_handler *former;
	unsigned int flags;

	device_lock_assert(&lower->sdev_gendev);
	flags = smq_queue_freeze(q);
	former = lower->handler;
	WRITE_ONCE(lower->handler, handler);
	smq_queue_unfreeze(q, flags);
	return former;
}

/**
 * conv_handler_replace() - puts smq_conv's handler in the place of a device's own
 * @cl: the claim
 *
 * Context: the driver's probe; waits for the commands of the device.
 */
void conv_handler_replace(struct conv_lun *cl)
{
	cl->handler = conv_handler_swap(cl->lower, &conv_handler);
}

/**
 * conv_handler_restore() - gives a device its handler back
 * @cl: the claim; no upper device may use it any more
 *
 * On return the last lower request is gone.
 *
 * Context: the driver's remove; waits for the commands of the device.
 */
void conv_handler_restore(struct conv_lun *cl)
{
	conv_handler_swap(cl->lower, cl->handler);
}
