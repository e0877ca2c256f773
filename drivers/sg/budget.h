/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The device's budget: the mid-layer's tokens, as many as the queue depth. A command with a token
 * may be sent.
 */
#ifndef SMQSG_BUDGET_H
#define SMQSG_BUDGET_H

#include <smq/straight.h>

int smqsg_token_find(struct scsi_device *sdev, int last);
void smqsg_token_put(struct scsi_device *sdev, int token);

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

#endif /* SMQSG_BUDGET_H */
