// SPDX-License-Identifier: GPL-2.0
/*
 * QEMU TCG plugin: counts the locks taken between two markers, and how many of them were not free.
 * It counts separately for each lock function, its caller and the lock's address.
 *
 * A lock function's first access with a lock prefix is to the lock itself. So different locks that
 * are taken at the same place are distinguished, and a lock that is taken at several places is
 * recognised. Inline locks (bit spin locks) are not seen.
 *
 * The plugin keeps two vCPUs in step by counting their instructions. So how often one of them finds
 * a lock taken depends on how long the other holds it, not on the host's scheduler.
 *
 * Arguments: out=FILE hist=PREFIX and those of symbols.c and pace.c. A run adds
 * one line of key=value to out; PREFIX.N holds "block ..." as the count plugin
 * writes it and "lock ENTRY CALLER ADDRESS COUNT CONTENDED IRQ".
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "block.h"
#include "pace.h"
#include "run.h"
#include "scope.h"
#include "symbols.h"

#define TABLE_BITS	14
#define MAX_PREFIXES	4
#define LOCK_PREFIX	0xf0
/* With one CPU the kernel replaces the lock prefix by this, a DS prefix without effect. */
#define LOCK_PREFIX_UP	0x3e

struct taking {
	uint64_t entry, caller, address;
	uint64_t count, contended, irq;
};

static struct vcpu {
	struct tally tally;
	uint64_t overflow;
	/*
	 * The entry of a lock function, and its caller. Set while the vCPU runs that function,
	 * until it accesses the lock.
	 */
	const struct block *entry, *caller;
	bool in_irq;
	struct taking *last;	/* the latest; counts as contended if a slow path follows */
	struct taking *table;
} __attribute__((aligned(128))) vcpus[PACED_VCPUS];

static unsigned int nr_vcpus;

static struct taking *find(struct vcpu *vcpu, uint64_t entry, uint64_t caller,
			   uint64_t address)
{
	uint64_t hash = entry * 0x9e3779b97f4a7c15ULL ^
			caller * 0xc2b2ae3d27d4eb4fULL ^ address;
	size_t i, slot = hash * 0x9e3779b97f4a7c15ULL >> (64 - TABLE_BITS);

	for (i = 0; i < 1 << TABLE_BITS; i++) {
		struct taking *t = &vcpu->table[slot];

		if (!t->count) {
			t->entry = entry;
			t->caller = caller;
			t->address = address;
		}
		if (t->entry == entry && t->caller == caller &&
		    t->address == address)
			return t;
		slot = (slot + 1) % (1 << TABLE_BITS);
	}
	return NULL;
}

static void locked_access(unsigned int n, qemu_plugin_meminfo_t info,
			  uint64_t va, void *unused)
{
	struct vcpu *vcpu = &vcpus[n % PACED_VCPUS];

	/* QEMU reports a read-modify-write twice, as a load and as a store: count the store. */
	if (!run_active || !vcpu->entry || !qemu_plugin_mem_is_store(info))
		return;
	vcpu->last = find(vcpu, vcpu->entry->va, vcpu->caller->va, va);
	if (vcpu->last) {
		vcpu->last->count++;
		vcpu->last->irq += vcpu->in_irq;
	} else {
		vcpu->overflow++;
	}
	vcpu->entry = NULL;
}

static void block_runs(unsigned int n, void *data)
{
	struct vcpu *vcpu = &vcpus[n % PACED_VCPUS];
	const struct block *from = vcpu->tally.scope.last;
	struct block *block = data;
	enum account account;

	if (!run_active)
		return;
	account = tally_step(&vcpu->tally, block, n % PACED_VCPUS);
	if ((block->role & ROLE_LOCK) && from) {
		vcpu->entry = block;
		vcpu->caller = from;
		vcpu->in_irq = account == ACCOUNT_IRQ;
		vcpu->last = NULL;
	} else if ((block->role & ROLE_SLOW) && vcpu->last) {
		vcpu->last->contended++;
		vcpu->last = NULL;
	}
	if (nr_vcpus > 1)
		pace_wait(n, block->insns);
}

static void start(void)
{
	unsigned int i;

	for (i = 0; i < nr_vcpus; i++) {
		struct vcpu *vcpu = &vcpus[i];

		tally_reset(&vcpu->tally);
		vcpu->overflow = 0;
		vcpu->entry = NULL;
		vcpu->last = NULL;
		memset(vcpu->table, 0, sizeof(*vcpu->table) << TABLE_BITS);
	}
	block_for_each(block_clear, NULL);
	pace_start();
}

static void stop(FILE *out)
{
	uint64_t insns = 0, irq = 0, overflow = 0;
	unsigned int i;

	for (i = 0; i < nr_vcpus; i++) {
		insns += vcpus[i].tally.insns;
		irq += vcpus[i].tally.irq_insns;
		overflow += vcpus[i].overflow;
	}
	fprintf(out, " insns=%" PRIu64 " irq=%" PRIu64 " slips=%" PRIu64
		" overflow=%" PRIu64, insns, irq, pace_slips(), overflow);
}

static void print_block(struct block *block, void *file)
{
	block_print(block, file);
}

static void details(FILE *file)
{
	unsigned int i;
	size_t j;

	block_for_each(print_block, file);
	for (i = 0; i < nr_vcpus; i++) {
		for (j = 0; j < 1 << TABLE_BITS; j++) {
			const struct taking *t = &vcpus[i].table[j];

			if (t->count)
				fprintf(file, "lock %" PRIx64 " %" PRIx64 " %"
					PRIx64 " %" PRIu64 " %" PRIu64 " %"
					PRIu64 "\n", t->entry, t->caller,
					t->address, t->count, t->contended,
					t->irq);
		}
	}
}

static bool has_lock_prefix(const struct qemu_plugin_insn *insn)
{
	uint8_t b[MAX_PREFIXES];
	size_t i, n = insn_bytes(insn, b, sizeof(b));

	for (i = 0; i < n; i++) {
		if (b[i] == LOCK_PREFIX || b[i] == LOCK_PREFIX_UP)
			return true;
		/* operand size, segments */
		if (b[i] != 0x66 && b[i] != 0x2e && b[i] != 0x64 &&
		    b[i] != 0x65)
			return false;
	}
	return false;
}

static void translated(struct qemu_plugin_tb *tb)
{
	size_t i, n = qemu_plugin_tb_n_insns(tb);

	qemu_plugin_register_vcpu_tb_exec_cb(tb, block_runs,
					     QEMU_PLUGIN_CB_NO_REGS,
					     block_get(tb));
	for (i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);

		if (has_lock_prefix(insn))
			qemu_plugin_register_vcpu_mem_cb(insn, locked_access,
							 QEMU_PLUGIN_CB_NO_REGS,
							 QEMU_PLUGIN_MEM_RW,
							 NULL);
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
	unsigned int n;
	int i;

	nr_vcpus = info->system_emulation ? info->system.smp_vcpus : 0;
	if (nr_vcpus < 1 || nr_vcpus > PACED_VCPUS) {
		fprintf(stderr, "locks: needs a machine with 1 to %d vCPUs\n",
			PACED_VCPUS);
		return -1;
	}
	for (i = 0; i < argc; i++) {
		if (!run_option(argv[i]) && !symbols_option(argv[i]) &&
		    !pace_option(argv[i])) {
			fprintf(stderr, "locks: unknown argument %s\n", argv[i]);
			return -1;
		}
	}
	for (n = 0; n < nr_vcpus; n++) {
		vcpus[n].table = calloc(1 << TABLE_BITS,
					sizeof(*vcpus[n].table));
		if (!vcpus[n].table) {
			perror("locks");
			return -1;
		}
	}
	api_init(info);
	run_init(&ops);
	if (nr_vcpus > 1)
		pace_init(id);
	on_translation(id, translated);
	return 0;
}
