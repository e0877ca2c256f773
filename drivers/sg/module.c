// SPDX-License-Identifier: GPL-2.0
/*
 * The module's workqueues, and what it says on a kernel whose block layer was not checked for
 * smq_sg's own queue and for commands without a bio.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>

#include "module.h"

struct workqueue_struct *smqsg_send_wq;
struct workqueue_struct *smqsg_wq;

/**
 * smqsg_work_start() - creates the workqueues
 *
 * Called when the module is loaded.
 *
 * Return: 0 or -ENOMEM.
 */
int smqsg_work_start(void)
{
	/*
	 * Unbound, and as many as possible at a time (512, or more on many CPUs): work items sleep
	 * for tags, and those of one device should not delay those of another. Freezable: once a
	 * hibernation image exists, no command may be sent, because the resumed system would send
	 * it again.
	 */
	smqsg_send_wq = alloc_workqueue("smq_sg_send", WQ_UNBOUND | WQ_MEM_RECLAIM | WQ_FREEZABLE,
					WQ_UNBOUND_MAX_ACTIVE);
	if (!smqsg_send_wq)
		return -ENOMEM;
	/*
	 * Work that does not sleep for tags has its own workqueue, so that it never waits for work
	 * that does.
	 */
	smqsg_wq = alloc_workqueue("smq_sg", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (smqsg_wq)
		return 0;
	destroy_workqueue(smqsg_send_wq);
	return -ENOMEM;
}

/**
 * smqsg_work_stop() - waits for the last work items and frees the workqueues
 *
 * Called when the module is unloaded.
 */
void smqsg_work_stop(void)
{
	destroy_workqueue(smqsg_wq);
	destroy_workqueue(smqsg_send_wq);
}

/* Does not change after smqsg_check_kernel(). */
bool smqsg_checked_kernel = true;
module_param_named(checked_kernel, smqsg_checked_kernel, bool, 0444);
MODULE_PARM_DESC(checked_kernel,
		 "0: run as on a kernel whose block layer was not checked; such a kernel shows N");

/* Called when the module is loaded, before there are nodes. */
void __init smqsg_check_kernel(void)
{
	if (!SMQ_CAN_OWN || !SMQ_CAN_PREPARE)
		smqsg_checked_kernel = false;
	if (!smqsg_checked_kernel)
		pr_info("the block layer of this kernel was not checked: commands go through the device's queue, a prepared one takes about twice the instructions (docs/fast-path.md, Kernels)\n");
}
