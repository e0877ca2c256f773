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

/* What a vCPU has run, by account; its blocks count their runs likewise. */
struct tally {
	uint64_t insns, own_insns, irq_insns;
	struct scope scope;
};

void tally_reset(struct tally *tally);

/* vCPU @n is about to run @block: counts it. Inline, for it is called for every block. */
static inline enum account tally_step(struct tally *tally, struct block *block, unsigned int n)
{
	enum account account = scope_step(&tally->scope, block);

	tally->insns += block->insns;
	block->runs[n]++;
	if (account == ACCOUNT_OWN) {
		tally->own_insns += block->insns;
		block->own_runs[n]++;
	} else if (account == ACCOUNT_IRQ) {
		tally->irq_insns += block->insns;
		block->irq_runs[n]++;
	}
	return account;
}

#endif /* SMQ_BENCH_SCOPE_H */
