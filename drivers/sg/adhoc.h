/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Ad hoc commands: the SQE contains the whole command instead of naming a slot.
 */
#ifndef SMQSG_ADHOC_H
#define SMQSG_ADHOC_H

#include <linux/types.h>

struct io_uring_cmd;
struct smqsg_fd;

int smqsg_adhoc_run(struct smqsg_fd *fd, struct io_uring_cmd *ioucmd, unsigned int issue_flags);
void smqsg_adhoc_polled(struct io_uring_cmd *ioucmd);

#endif /* SMQSG_ADHOC_H */
