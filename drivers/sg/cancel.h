/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SMQ_SG_CANCEL: ends the waiting of commands.
 */
#ifndef SMQSG_CANCEL_H
#define SMQSG_CANCEL_H

struct smqsg_fd;

long smqsg_ioctl_cancel(struct smqsg_fd *fd, void __user *user);

#endif /* SMQSG_CANCEL_H */
