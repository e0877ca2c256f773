/* SPDX-License-Identifier: GPL-2.0 */
/* Command lines of the loop programs: what is wrong with one ends the program, with status 2. */
#ifndef SMQ_BENCH_OPTION_H
#define SMQ_BENCH_OPTION_H

#include "jobs.h"

/* Exits with a message that names the option and its limits. */
unsigned long option_number(const char *name, const char *text,
			    unsigned long min, unsigned long max);

/* Bytes, from one @block on; exits likewise, also for what is no multiple of it. */
unsigned long option_bytes(const char *name, const char *text,
			   unsigned long block, unsigned long max);

/* The index of @text in @words, which NULL ends; exits with a message that lists them. */
unsigned int option_word(const char *name, const char *text, const char * const *words);

/* Takes --help 'h', prints @help for any other option too, and exits. */
_Noreturn void option_help(int c, const char *help);

/*
 * The same after --count 'c', --warmup 'w' and --timeout 't', which all measured loops have, and
 * --chunk 'C', which some have.
 */
void option_runs(int c, const char *text, const char *help, struct jobs_runs *runs);

/* Exits with a message if a run has more chunks than there is room for. */
void option_check_chunks(const struct jobs_runs *runs);

#endif /* SMQ_BENCH_OPTION_H */
