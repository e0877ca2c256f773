/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Ends the waiting of commands that may not wait any longer.
 */
#ifndef SMQSG_EXPIRE_H
#define SMQSG_EXPIRE_H

#include <linux/types.h>

struct smqsg_dev;
struct smqsg_fd;

long smqsg_ioctl_cancel(struct smqsg_fd *fd, void __user *user);
void smqsg_expire_init(struct smqsg_dev *sg);
void smqsg_expire_soon(struct smqsg_dev *sg);
void smqsg_expire_exit(struct smqsg_dev *sg);

#endif /* SMQSG_EXPIRE_H */
