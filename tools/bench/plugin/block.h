/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Blocks of guest code as QEMU translates them. QEMU drops its code cache now and then; a block
 * that it translates again keeps its struct block and its counters.
 */
#ifndef SMQ_BENCH_BLOCK_H
#define SMQ_BENCH_BLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "qemu-plugin.h"

#define MAX_VCPUS	8

/* How a block's last instruction leaves it. */
enum block_end {
	END_OTHER,
	END_CALL,
	END_RET,
	END_IRET,
};

/*
 * A block that calls a watched function: how many of its calls are charged to our modules
 * (in_scope), and how many are not (outside).
 */
struct caller {
	struct caller *next;
	const struct block *from;
	uint64_t in_scope, outside;
};

struct block {
	struct block *next;
	uint64_t va;
	uint64_t end_va;	/* address of the first instruction after the block */
	uint32_t insns;
	uint32_t role;		/* enum role */
	enum block_end end;
	struct caller *callers;
	uint64_t runs[MAX_VCPUS];
	uint64_t own_runs[MAX_VCPUS];
	uint64_t irq_runs[MAX_VCPUS];
};

struct block *block_get(const struct qemu_plugin_tb *tb);

void block_for_each(void (*fn)(struct block *block, void *data), void *data);

/* Resets the counters of a block and of its callers. */
void block_clear(struct block *block, void *unused);

/* Writes "block ADDRESS INSNS RUNS OWN-RUNS IRQ-RUNS". Returns false if the block did not run. */
bool block_print(const struct block *block, FILE *file);

/* Looks up the roles of all blocks again, after the symbols changed. */
void block_new_roles(void);

#endif /* SMQ_BENCH_BLOCK_H */
