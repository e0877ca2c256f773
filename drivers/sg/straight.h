/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Straight issue: the context that sends a request on the node's own queue calls queue_rq() itself.
 */
#ifndef SMQSG_STRAIGHT_H
#define SMQSG_STRAIGHT_H

#include <linux/percpu-refcount.h>
#include <linux/types.h>

#include "sg.h"

struct request;

bool smqsg_straight_issue(struct smqsg_fd *fd, struct request *rq, int token);

/*
 * Called at the end of a request that smqsg_straight_issue() has sent: drops its reference to
 * the device's queue. Any context.
 */
static __always_inline void smqsg_straight_ended(struct smqsg_fd *fd)
{
	percpu_ref_put(&fd->q->q_usage_counter);
}

#endif /* SMQSG_STRAIGHT_H */
