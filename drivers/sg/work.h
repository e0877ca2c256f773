/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The module's workqueue.
 *
 * Its work items may sleep for tags, and memory reclaim may depend on them. Each has ended before
 * smqsg_work_stop(): a device's items are cancelled with its node, a batch's item keeps its file
 * open.
 */
#ifndef SMQSG_WORK_H
#define SMQSG_WORK_H

#include <linux/workqueue.h>

extern struct workqueue_struct *smqsg_wq;

int smqsg_work_start(void);
void smqsg_work_stop(void);

#endif /* SMQSG_WORK_H */
