// SPDX-License-Identifier: GPL-2.0
/*
 * The device's budget: the search for a token, and giving one back.
 */
#include "budget.h"

/**
 * smqsg_token_find() - smqsg_token_take() if the command's last token is not free
 * @sdev: the device, not blocked
 * @last: below 0: the command had no token yet
 *
 * Return: the token, or below 0 if there is none. Process context.
 */
int smqsg_token_find(struct scsi_device *sdev, int last)
{
	if (last < 0)
		smq_token_spread(&sdev->budget_map);
	return sbitmap_get(&sdev->budget_map);
}

/**
 * smqsg_token_put() - gives back the token of a command that was not sent
 * @sdev: the device
 * @token: the token
 *
 * Any context.
 */
void smqsg_token_put(struct scsi_device *sdev, int token)
{
	sbitmap_put(&sdev->budget_map, token);
	/* Pairs with scsi_mq_get_budget(): it finds the token, or restarts is seen here. */
	smp_mb__after_atomic();
	if (atomic_read(&sdev->restarts))
		smq_straight_run_others(sdev);
}
