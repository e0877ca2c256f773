// SPDX-License-Identifier: GPL-2.0
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../marker.h"
#include "block.h"
#include "run.h"
#include "symbols.h"

bool run_active;

static const struct run_ops *ops;
static unsigned int sequence;
static struct timespec started;
static char *hist_prefix;
static FILE *out;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

bool run_option(const char *arg)
{
	if (!strncmp(arg, "out=", 4)) {
		out = fopen(arg + 4, "w");
		if (!out) {
			perror(arg + 4);
			exit(1);
		}
		return true;
	}
	if (!strncmp(arg, "hist=", 5)) {
		free(hist_prefix);
		hist_prefix = strdup(arg + 5);
		return true;
	}
	return false;
}

void run_init(const struct run_ops *plugin_ops)
{
	ops = plugin_ops;
	if (!out)
		out = stderr;
}

static void start(void)
{
	if (symbols_refresh())
		block_new_roles();
	ops->start();
	sequence++;
	clock_gettime(CLOCK_MONOTONIC, &started);
	__atomic_store_n(&run_active, true, __ATOMIC_SEQ_CST);
}

static void stop(void)
{
	struct timespec now;
	char path[4096];
	FILE *file;

	__atomic_store_n(&run_active, false, __ATOMIC_SEQ_CST);
	clock_gettime(CLOCK_MONOTONIC, &now);
	/* A callback of another vCPU may have seen the run as active: let it finish. */
	usleep(1000);
	if (hist_prefix) {
		snprintf(path, sizeof(path), "%s.%u", hist_prefix, sequence);
		file = fopen(path, "w");
		if (!file) {
			perror(path);
			exit(1);
		}
		ops->details(file);
		if (fclose(file)) {
			perror(path);
			exit(1);
		}
	}
	fprintf(out, "run=%u symbols=%u wall_ms=%.0f", sequence,
		symbols_generation(),
		(now.tv_sec - started.tv_sec) * 1e3 +
		(now.tv_nsec - started.tv_nsec) / 1e6);
	ops->stop(out);
	fputc('\n', out);
	if (fflush(out)) {
		perror("out=");
		exit(1);
	}
}

static void marked(unsigned int vcpu, void *data)
{
	uintptr_t op = (uintptr_t)data;

	pthread_mutex_lock(&lock);
	if (op == MARKER_START && !run_active)
		start();
	else if (op == MARKER_STOP && run_active)
		stop();
	pthread_mutex_unlock(&lock);
}

void run_find_markers(const struct qemu_plugin_tb *tb)
{
	static const uint8_t head[] = MARKER_HEAD, tail[] = MARKER_TAIL;
	size_t i, n = qemu_plugin_tb_n_insns(tb);

	for (i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint8_t b[MARKER_LEN];

		if (qemu_plugin_insn_size(insn) != MARKER_LEN)
			continue;
		insn_bytes(insn, b, sizeof(b));
		if (memcmp(b, head, sizeof(head)) ||
		    memcmp(b + MARKER_OP_BYTE + 1, tail, sizeof(tail)))
			continue;
		qemu_plugin_register_vcpu_insn_exec_cb(insn, marked,
						       QEMU_PLUGIN_CB_NO_REGS,
						       (void *)(uintptr_t)b[MARKER_OP_BYTE]);
	}
}
