// SPDX-License-Identifier: GPL-2.0
/*
 * The module's workqueue.
 */
#include "work.h"

struct workqueue_struct *smqsg_wq;

/**
 * smqsg_work_start() - creates the workqueue
 *
 * Called when the module is loaded.
 *
 * Return: 0 or -ENOMEM.
 */
int smqsg_work_start(void)
{
	/* Unbound: work items of one device, which sleep for tags, must not delay another's. */
	smqsg_wq = alloc_workqueue("smq_sg", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return smqsg_wq ? 0 : -ENOMEM;
}

/**
 * smqsg_work_stop() - waits for the last work items and frees the workqueue
 *
 * Called when the module is unloaded.
 */
void smqsg_work_stop(void)
{
	destroy_workqueue(smqsg_wq);
}
