/* SPDX-License-Identifier: GPL-2.0 */
/*
 * On whose account a vCPU runs: a shadow call stack, so that whatever our
 * modules call is charged to them, what the mid-layer does once it has its
 * command back is not, and interrupts are kept apart.
 *
 * The guest must run without retpolines (mitigations=off): they return to
 * where nobody called from.
 */
#ifndef SMQ_BENCH_SCOPE_H
#define SMQ_BENCH_SCOPE_H

#include "block.h"

enum account {
	ACCOUNT_OTHER,	/* the kernel at large, and user space */
	ACCOUNT_OWN,	/* our modules and their callees */
	ACCOUNT_AWAY,	/* called from ours, but on the mid-layer's account */
	ACCOUNT_IRQ,
};

#define SCOPE_DEPTH	256

struct scope {
	const struct block *last;
	unsigned int depth;
	struct frame {
		uint64_t ret;
		const struct block *last; /* IRQ: what it interrupted */
		enum account account;
	} frame[SCOPE_DEPTH];
};

void scope_reset(struct scope *scope);

/* The vCPU is about to run @block. */
enum account scope_step(struct scope *scope, const struct block *block);

#endif /* SMQ_BENCH_SCOPE_H */
