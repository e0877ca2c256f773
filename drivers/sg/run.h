/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SQEs of a node's files.
 */
#ifndef SMQSG_RUN_H
#define SMQSG_RUN_H

struct io_uring_cmd;

int smqsg_uring_cmd(struct io_uring_cmd *ioucmd, unsigned int issue_flags);

#endif /* SMQSG_RUN_H */
