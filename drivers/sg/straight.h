/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Straight issue: the context that sends a request on the node's own queue takes a token of the
 * device's budget, of which there are as many as the queue depth, and calls queue_rq() itself.
 */
#ifndef SMQSG_STRAIGHT_H
#define SMQSG_STRAIGHT_H

#include <linux/percpu-refcount.h>
#include <linux/types.h>
#include <smq/straight.h>

#include "sg.h"

struct request;

int smqsg_token_find(struct scsi_device *sdev, int last);
void smqsg_token_put(struct scsi_device *sdev, int token);
bool smqsg_straight_issue(struct smqsg_fd *fd, struct request *rq, int token);

/**
 * smqsg_token_take() - takes a token, as scsi_dev_queue_ready() does
 * @sdev: the device
 * @last: the token that the command had last, which it gets again if that is free; or below 0
 *
 * Does not tell the mid-layer that the command waits if there is no token.
 *
 * Return: the token; below 0: there is none; or the device is blocked, which only the mid-layer's
 * function ends; or block I/O waits for a token: the command then waits with it, in the same queue,
 * because others would otherwise take every token that is given back. Process context.
 */
static __always_inline int smqsg_token_take(struct scsi_device *sdev, int last)
{
	if (unlikely(atomic_read(&sdev->device_blocked) || atomic_read(&sdev->restarts)))
		return -1;
	return likely(smq_token_again(sdev, last)) ? last : smqsg_token_find(sdev, last);
}

/*
 * Called at the end of a request that smqsg_straight_issue() has sent: drops its reference to
 * the device's queue. Any context.
 */
static __always_inline void smqsg_straight_ended(struct smqsg_fd *fd)
{
	percpu_ref_put(&fd->q->q_usage_counter);
}

#endif /* SMQSG_STRAIGHT_H */
