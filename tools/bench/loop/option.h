/* SPDX-License-Identifier: GPL-2.0 */
/* Command-line numbers of the loop programs. */
#ifndef SMQ_BENCH_OPTION_H
#define SMQ_BENCH_OPTION_H

#include <stddef.h>

#define MAX_COUNTS	8
#define MAX_DEVICES	16

/* Exits with a message that names the option and its limits. */
unsigned long option_number(const char *name, const char *text,
			    unsigned long min, unsigned long max);

/* Numbers separated by commas; returns how many. */
size_t option_counts(const char *name, const char *text,
		     unsigned long counts[MAX_COUNTS]);

#endif /* SMQ_BENCH_OPTION_H */
