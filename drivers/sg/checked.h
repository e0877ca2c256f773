/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Whether this kernel's block layer and mid-layer were checked for what smq_sg does in their place.
 */
#ifndef SMQSG_CHECKED_H
#define SMQSG_CHECKED_H

#include <smq/compat.h>

extern bool smqsg_checked_kernel;

/* Whether nodes may have a request queue of their own, and keep requests. Any context. */
static inline bool smqsg_can_own(void)
{
	return SMQ_CAN_OWN && smqsg_checked_kernel;
}

/* Whether smq_sg may prepare commands without a bio. Any context. */
static inline bool smqsg_can_prepare(void)
{
	return SMQ_CAN_PREPARE && smqsg_checked_kernel;
}

void smqsg_check_kernel(void);

#endif /* SMQSG_CHECKED_H */
