// SPDX-License-Identifier: GPL-2.0
/*
 * The device's budget: the search for a token, and giving one back.
 */
#include <linux/blk-mq.h>
#include <scsi/scsi_host.h>

#include "budget.h"

/**
 * smqsg_token_find() - smqsg_token_take() if the command's last token is not free
 * @sdev: the device, not blocked
 * @last: below 0: the command had no token yet
 *
 * The search for the first token of a command begins in another word of the map on each CPU: a
 * command takes its last token again, so each CPU then writes words, and cache lines, of its own.
 *
 * Return: the token, or below 0 if there is none. Process context.
 */
int smqsg_token_find(struct scsi_device *sdev, int last)
{
	struct sbitmap *map = &sdev->budget_map;

	if (last < 0 && map->alloc_hint)
		raw_cpu_write(*map->alloc_hint,
			      raw_smp_processor_id() % map->map_nr << map->shift);
	return sbitmap_get(map);
}

/**
 * smqsg_budget_run_others() - runs what waits for a token, as scsi_run_queue_async()
 * @sdev: the device
 *
 * Called when a token has been given back, and sdev->restarts or the host's starved list says that
 * others wait. Any context.
 */
void smqsg_budget_run_others(struct scsi_device *sdev)
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
		smqsg_budget_run_others(sdev);
}
