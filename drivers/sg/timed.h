/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Timed batches: each entry is sent when it is due.
 */
#ifndef SMQSG_TIMED_H
#define SMQSG_TIMED_H

struct smq_sg_batch;
struct smqsg_batch;

int smqsg_timed_start(struct smqsg_batch *batch, const struct smq_sg_batch *arg);
void smqsg_timed_begin(struct smqsg_batch *batch);
int smqsg_timed_finish(struct smqsg_batch *batch);

#endif /* SMQSG_TIMED_H */
