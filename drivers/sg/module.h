/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What all of the module uses: its workqueues, whether this kernel's block layer and mid-layer were
 * checked for what smq_sg does in their place, and refusals.
 */
#ifndef SMQSG_MODULE_H
#define SMQSG_MODULE_H

#include <linux/printk.h>
#include <linux/workqueue.h>
#include <smq/compat.h>
#include <uapi/scsi/smq_sg.h>

/*
 * Work items of smqsg_send_wq send commands, and may sleep for their tags; those of smqsg_wq do not
 * sleep for tags. Memory reclaim may depend on both workqueues. Before smqsg_work_stop() a device's
 * items are cancelled with its node, and the item of a batch or command keeps its file open, or
 * only frees memory.
 */
extern struct workqueue_struct *smqsg_send_wq;
extern struct workqueue_struct *smqsg_wq;

extern bool smqsg_checked_kernel;

int smqsg_work_start(void);
void smqsg_work_stop(void);
void smqsg_check_kernel(void);

/* Whether nodes may have a request queue of their own, and keep requests. Any context. */
static inline bool smqsg_can_own(void)
{
	return SMQ_CAN_OWN && smqsg_checked_kernel;
}

/* Whether smq_sg may prepare commands without a bio. Any context. */
static inline bool smqsg_can_prepare(void)
{
	return SMQ_CAN_PREPARE && smqsg_checked_kernel;
}

/**
 * smqsg_refuse() - refuses the value of a field
 * @at: gets the number of the field at fault; a pointer to u32
 * @name: name of the field, as in SMQ_SG_FIELD_name
 * @error: an errno, below 0
 * @format: format of the debug message; its arguments follow
 *
 * A caller's mistake is no kernel error, so nothing is logged by default: the caller's structure
 * gets the number of the field at fault, and a debug message names the limit.
 *
 * Return: @error. Any context.
 */
#define smqsg_refuse(at, name, error, format, ...)	\
({							\
	pr_debug(format "\n", ##__VA_ARGS__);		\
	*(at) = SMQ_SG_FIELD_##name;			\
	(error);					\
})

#endif /* SMQSG_MODULE_H */
