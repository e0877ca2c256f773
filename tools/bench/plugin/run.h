/* SPDX-License-Identifier: GPL-2.0 */
/* A measured run: the time between a start and a stop marker. */
#ifndef SMQ_BENCH_RUN_H
#define SMQ_BENCH_RUN_H

#include <stdbool.h>
#include <stdio.h>

#include "qemu-plugin.h"

/* A plugin's functions that are called at the markers, while the other vCPUs keep running. */
struct run_ops {
	void (*start)(void);
	/* Adds the plugin's figures to the run's line in the file out=. */
	void (*stop)(FILE *out);
	/* Writes the run's details to the file PREFIX.N, where hist=PREFIX and N is the run. */
	void (*details)(FILE *file);
};

extern bool run_active;

/* Takes an out= or hist= argument. */
bool run_option(const char *arg);

void run_init(const struct run_ops *ops);

/* Adds the markers' callbacks to a block that is being translated. */
void run_find_markers(const struct qemu_plugin_tb *tb);

#endif /* SMQ_BENCH_RUN_H */
