/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The module's workqueues.
 *
 * Work items of smqsg_send_wq send commands, and may sleep for their tags; those of smqsg_wq do not
 * sleep for tags. Memory reclaim may depend on both workqueues. Before smqsg_work_stop() a device's
 * items are cancelled with its node, and the item of a batch or command keeps its file open, or
 * only frees memory.
 */
#ifndef SMQSG_WORK_H
#define SMQSG_WORK_H

#include <linux/workqueue.h>

extern struct workqueue_struct *smqsg_send_wq;
extern struct workqueue_struct *smqsg_wq;

int smqsg_work_start(void);
void smqsg_work_stop(void);

#endif /* SMQSG_WORK_H */
