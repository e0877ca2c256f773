// SPDX-License-Identifier: GPL-2.0
/*
 * QEMU TCG plugin: counts guest instructions between two markers, in total and by block of code. It
 * also counts the instructions that run in our modules or in functions that our modules call, and
 * the calls of watched functions, by caller.
 *
 * Arguments: out=FILE hist=PREFIX symbols=PREFIX own=MODULE leave=GLOB
 * irq=GLOB reset=GLOB watch=GLOB. All but the first three may be repeated.
 *
 * A run adds one line of key=value to out. PREFIX.N holds "block ADDRESS
 * INSNS RUNS OWN-RUNS IRQ-RUNS" and "call ENTRY CALLER OWN-CALLS OTHER-CALLS".
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "block.h"
#include "run.h"
#include "scope.h"
#include "symbols.h"

static struct vcpu {
	struct tally tally;
} __attribute__((aligned(128))) vcpus[MAX_VCPUS];

static pthread_mutex_t callers_lock = PTHREAD_MUTEX_INITIALIZER;

static void count_caller(struct block *entry, const struct block *from,
			 bool own)
{
	struct caller *caller;

	pthread_mutex_lock(&callers_lock);
	for (caller = entry->callers; caller; caller = caller->next) {
		if (caller->from == from)
			break;
	}
	if (!caller) {
		caller = calloc(1, sizeof(*caller));
		if (!caller) {
			perror("caller");
			exit(1);
		}
		caller->from = from;
		caller->next = entry->callers;
		entry->callers = caller;
	}
	if (own)
		caller->in_scope++;
	else
		caller->outside++;
	pthread_mutex_unlock(&callers_lock);
}

static void block_runs(unsigned int n, void *data)
{
	struct vcpu *vcpu = &vcpus[n % MAX_VCPUS];
	const struct block *from = vcpu->tally.scope.last;
	struct block *block = data;
	enum account account;

	if (!run_active)
		return;
	account = tally_step(&vcpu->tally, block, n % MAX_VCPUS);
	if ((block->role & ROLE_WATCH) && from)
		count_caller(block, from, account == ACCOUNT_OWN);
}

static void start(void)
{
	unsigned int i;

	for (i = 0; i < MAX_VCPUS; i++)
		tally_reset(&vcpus[i].tally);
	block_for_each(block_clear, NULL);
}

static void stop(FILE *out)
{
	uint64_t insns = 0, own = 0, irq = 0;
	unsigned int i;

	for (i = 0; i < MAX_VCPUS; i++) {
		insns += vcpus[i].tally.insns;
		own += vcpus[i].tally.own_insns;
		irq += vcpus[i].tally.irq_insns;
	}
	fprintf(out, " insns=%" PRIu64 " own=%" PRIu64 " irq=%" PRIu64,
		insns, own, irq);
}

static void print_block(struct block *block, void *data)
{
	const struct caller *caller;
	FILE *file = data;

	if (!block_print(block, file))
		return;
	for (caller = block->callers; caller; caller = caller->next) {
		if (!caller->in_scope && !caller->outside)
			continue;
		fprintf(file, "call %" PRIx64 " %" PRIx64 " %" PRIu64 " %"
			PRIu64 "\n", block->va, caller->from->va,
			caller->in_scope, caller->outside);
	}
}

static void details(FILE *file)
{
	block_for_each(print_block, file);
}

static void translated(struct qemu_plugin_tb *tb)
{
	qemu_plugin_register_vcpu_tb_exec_cb(tb, block_runs,
					     QEMU_PLUGIN_CB_NO_REGS,
					     block_get(tb));
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

	if (info->system_emulation && info->system.smp_vcpus > MAX_VCPUS) {
		fprintf(stderr, "count: %d vCPUs, at most %d can be counted\n",
			info->system.smp_vcpus, MAX_VCPUS);
		return -1;
	}
	for (i = 0; i < argc; i++) {
		if (!run_option(argv[i]) && !symbols_option(argv[i])) {
			fprintf(stderr, "count: unknown argument %s\n", argv[i]);
			return -1;
		}
	}
	api_init(info);
	run_init(&ops);
	on_translation(id, translated);
	return 0;
}
