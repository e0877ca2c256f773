/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Straight issue: the context that sends a request itself calls queue_rq(), and bypasses the plug.
 */
#ifndef SMQSG_DIRECT_H
#define SMQSG_DIRECT_H

#include <linux/types.h>

struct request;

bool smqsg_direct_issue(struct request *rq, int *last_token);
bool smqsg_direct_issue_fresh(struct request *rq, int *last_token);

#endif /* SMQSG_DIRECT_H */
