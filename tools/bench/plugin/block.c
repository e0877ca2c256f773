// SPDX-License-Identifier: GPL-2.0
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "block.h"
#include "symbols.h"

#define HASH_BITS	16
#define LONGEST_INSN	15

static struct block *hash[1 << HASH_BITS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* REX and legacy prefixes that compilers put before call, jmp and ret */
static bool is_prefix(uint8_t byte)
{
	return (byte & 0xf0) == 0x40 || byte == 0xf2 || byte == 0xf3 ||
	       byte == 0x2e || byte == 0x3e || byte == 0x66;
}

static enum block_end how_it_ends(const struct qemu_plugin_insn *insn)
{
	uint8_t bytes[LONGEST_INSN], *b = bytes;
	size_t n = insn_bytes(insn, bytes, sizeof(bytes));

	while (n > 1 && is_prefix(*b)) {
		b++;
		n--;
	}
	switch (*b) {
	case 0xe8:
		return END_CALL;
	case 0xff:		/* group 5: /2 and /3 are calls */
		return n > 1 && ((b[1] >> 3) & 7) / 2 == 1 ? END_CALL :
							     END_OTHER;
	case 0xc2:
	case 0xc3:
		return END_RET;
	case 0xcf:
		return END_IRET;
	}
	return END_OTHER;
}

struct block *block_get(const struct qemu_plugin_tb *tb)
{
	uint64_t va = qemu_plugin_tb_vaddr(tb);
	uint32_t insns = qemu_plugin_tb_n_insns(tb);
	uint64_t key = (va + insns) * 0x9e3779b97f4a7c15ULL;
	struct qemu_plugin_insn *last;
	struct block **head, *block;

	last = qemu_plugin_tb_get_insn(tb, insns - 1);
	pthread_mutex_lock(&lock);
	head = &hash[key >> (64 - HASH_BITS)];
	for (block = *head; block; block = block->next) {
		if (block->va == va && block->insns == insns)
			break;
	}
	if (!block) {
		block = calloc(1, sizeof(*block));
		if (!block) {
			perror("block");
			exit(1);
		}
		block->va = va;
		block->insns = insns;
		block->next = *head;
		*head = block;
	}
	/* Set these in a known block too: its address may now have another program's code. */
	block->end = how_it_ends(last);
	block->end_va = qemu_plugin_insn_vaddr(last) +
			qemu_plugin_insn_size(last);
	block->role = symbols_role(va);
	pthread_mutex_unlock(&lock);
	return block;
}

void block_for_each(void (*fn)(struct block *block, void *data), void *data)
{
	struct block *block;
	size_t i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < 1 << HASH_BITS; i++) {
		for (block = hash[i]; block; block = block->next)
			fn(block, data);
	}
	pthread_mutex_unlock(&lock);
}

static void new_role(struct block *block, void *data)
{
	block->role = symbols_role(block->va);
}

void block_new_roles(void)
{
	block_for_each(new_role, NULL);
}

void block_clear(struct block *block, void *unused)
{
	struct caller *caller;

	memset(block->runs, 0, sizeof(block->runs));
	memset(block->own_runs, 0, sizeof(block->own_runs));
	memset(block->irq_runs, 0, sizeof(block->irq_runs));
	for (caller = block->callers; caller; caller = caller->next) {
		caller->in_scope = 0;
		caller->outside = 0;
	}
}

bool block_print(const struct block *block, FILE *file)
{
	uint64_t runs = 0, own = 0, irq = 0;
	unsigned int i;

	for (i = 0; i < MAX_VCPUS; i++) {
		runs += block->runs[i];
		own += block->own_runs[i];
		irq += block->irq_runs[i];
	}
	if (runs)
		fprintf(file, "block %" PRIx64 " %u %" PRIu64 " %" PRIu64
			" %" PRIu64 "\n", block->va, block->insns, runs, own,
			irq);
	return runs;
}
