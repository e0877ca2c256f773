// SPDX-License-Identifier: GPL-2.0
/*
 * QEMU TCG plugin: from one marker to the next, counts cache lines that move between two vCPUs. One
 * transfer is a read of a line that the other vCPU has written, or a write to a line that the other
 * vCPU holds. Caches are assumed to be infinite, so only sharing is counted.
 *
 * A transfer is charged to our modules if they, or functions that they call, do the access, or did
 * the earlier write that took the line from this vCPU. Interrupts are counted separately: timers
 * tick in real time, while the guest runs slowly.
 *
 * Arguments: out=FILE hist=PREFIX window=INSNS seed=NUMBER and those of
 * symbols.c. A run adds one line of key=value to out; PREFIX.N holds
 * "line NUMBER ADDRESS PC KIND COUNT", KIND a set of the letters r (read), w (write), o (our
 * modules' access), l (a write by our modules had taken the line away), i (interrupt).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "block.h"
#include "pace.h"
#include "run.h"
#include "scope.h"
#include "symbols.h"

#define LINE_SHIFT	6
#define NR_LINES	(1ULL << 26)	/* 4 GiB of guest memory */

/* The state of a line: the vCPUs that hold it, whether one wrote it, and whether our code did. */
#define HELD_BY(vcpu)	(1 << (vcpu))
#define HELD_MASK	3
#define DIRTY		4
#define OWN_WROTE	8

enum kind {
	KIND_READ	= 1 << 0,
	KIND_WRITE	= 1 << 1,
	KIND_OWN	= 1 << 2,
	KIND_LOST	= 1 << 3,
	KIND_IRQ	= 1 << 4,
};

struct transfer {
	uint64_t line, pc, va, count;
	unsigned int kind;
};

#define TABLE_BITS	16

static struct vcpu {
	uint64_t insns, accesses, own_accesses, beyond, overflow;
	enum account account;
	struct scope scope;
	struct transfer *table;
} __attribute__((aligned(128))) vcpus[PACED_VCPUS];

static uint8_t *lines;

static void record(struct vcpu *vcpu, uint64_t line, uint64_t pc, uint64_t va,
		   unsigned int kind)
{
	uint64_t hash = (line * 0x9e3779b97f4a7c15ULL) ^
			(pc * 0xc2b2ae3d27d4eb4fULL) ^ kind;
	size_t i, slot = hash * 0x9e3779b97f4a7c15ULL >> (64 - TABLE_BITS);

	for (i = 0; i < 1 << TABLE_BITS; i++) {
		struct transfer *t = &vcpu->table[slot];

		if (!t->count) {
			t->line = line;
			t->pc = pc;
			t->kind = kind;
			t->va = va;
		}
		if (t->line == line && t->pc == pc && t->kind == kind) {
			t->count++;
			return;
		}
		slot = (slot + 1) % (1 << TABLE_BITS);
	}
	vcpu->overflow++;
}

/* Returns the kind of the transfer, 0 if there is none. */
static unsigned int access_line(uint8_t *line, unsigned int n, bool store,
				bool own)
{
	uint8_t me = HELD_BY(n), old, new;
	unsigned int kind;

	old = __atomic_load_n(line, __ATOMIC_RELAXED);
	do {
		kind = 0;
		if (store) {
			new = me | DIRTY;
			if (own || ((old & me) && (old & OWN_WROTE)))
				new |= OWN_WROTE;
			if (old & HELD_MASK & ~me)
				kind = KIND_WRITE;
		} else {
			if (old & me)
				return 0;
			new = (old & (HELD_MASK | OWN_WROTE)) | me;
			if (old & DIRTY)
				kind = KIND_READ;
		}
		if (new == old)
			return 0;
	} while (!__atomic_compare_exchange_n(line, &old, new, false,
					      __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	if (kind && (old & OWN_WROTE) && !(old & me))
		kind |= KIND_LOST;
	return kind;
}

static void accessed(unsigned int n, qemu_plugin_meminfo_t info, uint64_t va,
		     void *pc)
{
	const struct qemu_plugin_hwaddr *hwaddr;
	struct vcpu *vcpu = &vcpus[n];
	unsigned int kind;
	bool own;
	uint64_t pa;

	if (!run_active || n >= PACED_VCPUS)
		return;
	hwaddr = qemu_plugin_get_hwaddr(info, va);
	if (!hwaddr || qemu_plugin_hwaddr_is_io(hwaddr))
		return;
	pa = qemu_plugin_hwaddr_phys_addr(hwaddr);
	if (pa >> LINE_SHIFT >= NR_LINES) {
		vcpu->beyond++;
		return;
	}
	vcpu->accesses++;
	own = vcpu->account == ACCOUNT_OWN;
	vcpu->own_accesses += own;
	kind = access_line(&lines[pa >> LINE_SHIFT], n,
			   qemu_plugin_mem_is_store(info), own);
	if (!kind)
		return;
	if (own)
		kind |= KIND_OWN;
	else if (vcpu->account == ACCOUNT_IRQ)
		kind |= KIND_IRQ;
	record(vcpu, pa >> LINE_SHIFT, (uintptr_t)pc, va, kind);
}

static void block_runs(unsigned int n, void *data)
{
	const struct block *block = data;

	if (!run_active || n >= PACED_VCPUS)
		return;
	vcpus[n].account = scope_step(&vcpus[n].scope, block);
	vcpus[n].insns += block->insns;
	pace_wait(n, block->insns);
}

static void start(void)
{
	unsigned int i;

	for (i = 0; i < PACED_VCPUS; i++) {
		struct vcpu *vcpu = &vcpus[i];

		vcpu->insns = 0;
		vcpu->accesses = 0;
		vcpu->own_accesses = 0;
		vcpu->beyond = 0;
		vcpu->overflow = 0;
		vcpu->account = ACCOUNT_OTHER;
		scope_reset(&vcpu->scope);
		memset(vcpu->table, 0,
		       sizeof(*vcpu->table) << TABLE_BITS);
	}
	/* After this, private anonymous memory reads as zeroes. */
	madvise(lines, NR_LINES, MADV_DONTNEED);
	pace_start();
}

static void stop(FILE *out)
{
	uint64_t insns = 0, accesses = 0, own_accesses = 0, beyond = 0;
	uint64_t reads = 0, writes = 0, irq = 0, own = 0, lost = 0;
	uint64_t overflow = 0;
	unsigned int i;
	size_t j;

	for (i = 0; i < PACED_VCPUS; i++) {
		insns += vcpus[i].insns;
		accesses += vcpus[i].accesses;
		own_accesses += vcpus[i].own_accesses;
		beyond += vcpus[i].beyond;
		overflow += vcpus[i].overflow;
		for (j = 0; j < 1 << TABLE_BITS; j++) {
			const struct transfer *t = &vcpus[i].table[j];

			if (t->kind & KIND_OWN)
				own += t->count;
			else if (t->kind & KIND_LOST)
				lost += t->count;
			if (t->kind & KIND_IRQ)
				irq += t->count;
			else if (t->kind & KIND_READ)
				reads += t->count;
			else
				writes += t->count;
		}
	}
	fprintf(out, " insns=%" PRIu64 " accesses=%" PRIu64
		" own_accesses=%" PRIu64, insns, accesses, own_accesses);
	fprintf(out, " reads=%" PRIu64 " writes=%" PRIu64 " irq=%" PRIu64
		" own=%" PRIu64 " lost=%" PRIu64, reads, writes, irq, own,
		lost);
	fprintf(out, " slips=%" PRIu64 " beyond=%" PRIu64 " overflow=%" PRIu64,
		pace_slips(), beyond, overflow);
}

static void details(FILE *file)
{
	static const char letters[] = "rwoli";
	unsigned int i, bit;
	size_t j;

	for (i = 0; i < PACED_VCPUS; i++) {
		for (j = 0; j < 1 << TABLE_BITS; j++) {
			const struct transfer *t = &vcpus[i].table[j];

			if (!t->count)
				continue;
			fprintf(file, "line %" PRIx64 " %" PRIx64 " %" PRIx64
				" ", t->line, t->va, t->pc);
			for (bit = 0; letters[bit]; bit++) {
				if (t->kind & (1 << bit))
					fputc(letters[bit], file);
			}
			fprintf(file, " %" PRIu64 "\n", t->count);
		}
	}
}

static void translated(struct qemu_plugin_tb *tb)
{
	size_t i, n = qemu_plugin_tb_n_insns(tb);

	qemu_plugin_register_vcpu_tb_exec_cb(tb, block_runs,
					     QEMU_PLUGIN_CB_NO_REGS,
					     block_get(tb));
	for (i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uintptr_t pc = qemu_plugin_insn_vaddr(insn);

		qemu_plugin_register_vcpu_mem_cb(insn, accessed,
						 QEMU_PLUGIN_CB_NO_REGS,
						 QEMU_PLUGIN_MEM_RW,
						 (void *)pc);
	}
	run_find_markers(tb);
}

PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id,
				      const qemu_info_t *info, int argc,
				      char **argv)
{
	static const struct run_ops ops = {
		.start = start,
		.stop = stop,
		.details = details,
	};
	int i;

	if (!info->system_emulation ||
	    info->system.smp_vcpus != PACED_VCPUS) {
		fprintf(stderr, "lines: needs a machine with %d vCPUs\n",
			PACED_VCPUS);
		return -1;
	}
	for (i = 0; i < argc; i++) {
		if (!run_option(argv[i]) && !symbols_option(argv[i]) &&
		    !pace_option(argv[i])) {
			fprintf(stderr, "lines: unknown argument %s\n", argv[i]);
			return -1;
		}
	}
	lines = mmap(NULL, NR_LINES, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (lines == MAP_FAILED) {
		perror("lines");
		return -1;
	}
	for (i = 0; i < PACED_VCPUS; i++) {
		vcpus[i].table = calloc(1 << TABLE_BITS,
					sizeof(*vcpus[i].table));
		if (!vcpus[i].table) {
			perror("lines");
			return -1;
		}
	}
	api_init(info);
	run_init(&ops);
	pace_init(id);
	on_translation(id, translated);
	return 0;
}
