/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The device's budget: the mid-layer's tokens, as many as the queue depth. A command with a token
 * may be sent.
 */
#ifndef SMQSG_BUDGET_H
#define SMQSG_BUDGET_H

#include <linux/sbitmap.h>
#include <scsi/scsi_device.h>

int smqsg_token_find(struct scsi_device *sdev, int last);
void smqsg_token_put(struct scsi_device *sdev, int token);
void smqsg_budget_run_others(struct scsi_device *sdev);

/**
 * smqsg_token_take() - takes a token, as scsi_dev_queue_ready() does
 * @sdev: the device
 * @last: the token that the command had last, which it gets again if that is free; or below 0
 *
 * When a bit of an sbitmap is given back, the sbitmap sets it in a second word, "cleared", which
 * its next search reads. The context that clears the bit there gets the token.
 *
 * Return: the token; below 0: there is none, or the device is blocked, which only the mid-layer's
 * function ends. Process context.
 */
static __always_inline int smqsg_token_take(struct scsi_device *sdev, int last)
{
	struct sbitmap *map = &sdev->budget_map;
	unsigned int token = last;

	if (unlikely(atomic_read(&sdev->device_blocked)))
		return -1;
	/* It is out of range if there was none yet, or if the depth was lowered since. */
	if (likely(token < READ_ONCE(map->depth) &&
		   test_and_clear_bit(token & (BIT(map->shift) - 1),
				      &map->map[token >> map->shift].cleared)))
		return token;
	return smqsg_token_find(sdev, last);
}

#endif /* SMQSG_BUDGET_H */
