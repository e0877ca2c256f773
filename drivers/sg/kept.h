/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Places in the queue depth that CPUs keep for their next commands.
 */
#ifndef SMQSG_KEPT_H
#define SMQSG_KEPT_H

#include <linux/types.h>

struct scsi_device;
struct smqsg_dev;

void smqsg_keep_set(struct smqsg_dev *sg, struct scsi_device *sdev);
bool smqsg_unkeep(struct smqsg_dev *sg);
unsigned int smqsg_inflight(struct smqsg_dev *sg);
int smqsg_kept_init(struct smqsg_dev *sg);
void smqsg_kept_exit(struct smqsg_dev *sg);

#endif /* SMQSG_KEPT_H */
