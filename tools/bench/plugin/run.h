/* SPDX-License-Identifier: GPL-2.0 */
/* A measured run: what lies between a start and a stop marker. */
#ifndef SMQ_BENCH_RUN_H
#define SMQ_BENCH_RUN_H

#include <stdbool.h>
#include <stdio.h>

#include "qemu-plugin-v1.h"

/* What a plugin does at the markers; called with every vCPU still running. */
struct run_ops {
	void (*start)(void);
	/* Adds its figures to the line of the run in the file out=. */
	void (*stop)(FILE *out);
	/* Writes the run's details into a file of its own, hist=PREFIX.N. */
	void (*details)(FILE *file);
};

extern bool run_active;

/* Takes an out= or hist= argument. */
bool run_option(const char *arg);

void run_init(const struct run_ops *ops);

/* Plants the marker callbacks in a block being translated. */
void run_find_markers(const struct qemu_plugin_tb *tb);

#endif /* SMQ_BENCH_RUN_H */
