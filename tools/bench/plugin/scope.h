/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Keeps a shadow call stack, to charge the code that a vCPU runs to an account. Functions that our
 * modules call are charged to our modules. Once our modules have given a command back to the
 * mid-layer, the mid-layer's work on it is charged to the mid-layer. Interrupts are counted
 * separately.
 *
 * The guest must run without retpolines (mitigations=off): they return to addresses that no call
 * has pushed.
 */
#ifndef SMQ_BENCH_SCOPE_H
#define SMQ_BENCH_SCOPE_H

#include "block.h"

enum account {
	ACCOUNT_OTHER,	/* the rest of the kernel, and user space */
	ACCOUNT_OWN,	/* our modules and their callees */
	ACCOUNT_AWAY,	/* called by our modules, but charged to the mid-layer */
	ACCOUNT_IRQ,
};

#define SCOPE_DEPTH	256

struct scope {
	const struct block *last;
	unsigned int depth;
	struct frame {
		uint64_t ret;
		const struct block *last; /* IRQ: the block that ran before the handler */
		enum account account;
	} frame[SCOPE_DEPTH];
};

void scope_reset(struct scope *scope);

/* Called when a vCPU is about to run @block. Returns the account to which it is charged. */
enum account scope_step(struct scope *scope, const struct block *block);

/* Counts of a vCPU by account; each block counts its runs by account as well. */
struct tally {
	uint64_t insns, own_insns, irq_insns;
	struct scope scope;
};

void tally_reset(struct tally *tally);

/* Counts a block that vCPU @n is about to run. Inline, because it is called for every block. */
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
