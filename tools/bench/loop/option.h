/* SPDX-License-Identifier: GPL-2.0 */
/* Command-line numbers of the loop programs. */
#ifndef SMQ_BENCH_OPTION_H
#define SMQ_BENCH_OPTION_H

#include "jobs.h"

#define MAX_DEVICES	16

/* Exits with a message that names the option and its limits. */
unsigned long option_number(const char *name, const char *text,
			    unsigned long min, unsigned long max);

/*
 * Takes --count 'c', --warmup 'w', --timeout 't' and --help 'h', which all loops have; any
 * other option prints @help and exits.
 */
void option_runs(int c, const char *text, const char *help, struct jobs_runs *runs);

#endif /* SMQ_BENCH_OPTION_H */
