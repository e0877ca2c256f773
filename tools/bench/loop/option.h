/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Parses the command lines of the loop programs. A wrong option ends the program with status 2.
 */
#ifndef SMQ_BENCH_OPTION_H
#define SMQ_BENCH_OPTION_H

#include <stddef.h>

#include "jobs.h"

enum option_kind { OPTION_END, OPTION_IS_FLAG, OPTION_IS_NUMBER, OPTION_IS_BYTES, OPTION_IS_WORD,
		   OPTION_IS_COUNTS };

/* An option of a program. It is written with one of the macros below. */
struct option_spec {
	enum option_kind kind;
	const char *name;
	void *value;
	size_t size;		/* of a number at @value */
	unsigned long min, max;
	const char * const *words;
};

/* --name: sets @field, a bool, to true. */
#define OPTION_FLAG(text, field) \
	{ .kind = OPTION_IS_FLAG, .name = text, .value = &(field) }

/* --name N: stores a number from @least to @most in @field, an unsigned integer of any size. */
#define OPTION_NUMBER(text, field, least, most) \
	{ .kind = OPTION_IS_NUMBER, .name = text, .value = &(field), .size = sizeof(field), \
	  .min = least, .max = most }

/* --name BYTES: stores a multiple of @block, up to @most. */
#define OPTION_BYTES(text, field, block, most) \
	{ .kind = OPTION_IS_BYTES, .name = text, .value = &(field), .size = sizeof(field), \
	  .min = block, .max = most }

/* --name WORD: stores the word's index in @list, whose last element is NULL. */
#define OPTION_WORD(text, field, list) \
	{ .kind = OPTION_IS_WORD, .name = text, .value = &(field), .size = sizeof(field), \
	  .words = list }

#define OPTION_MAX_COUNT	1000000000UL

/*
 * Options that set fields of a struct jobs_runs. All measured loops have the first three. A program
 * with OPTION_CHUNK() calls option_check_chunks().
 */
#define OPTION_COUNTS(runs) \
	{ .kind = OPTION_IS_COUNTS, .name = "count", .value = &(runs) }
#define OPTION_WARMUP(runs) \
	OPTION_NUMBER("warmup", (runs).warmup, 0, OPTION_MAX_COUNT)
#define OPTION_TIMEOUT(runs) \
	OPTION_NUMBER("timeout", (runs).seconds, 1, 86400)
#define OPTION_CHUNK(runs) \
	OPTION_NUMBER("chunk", (runs).chunk, 1, OPTION_MAX_COUNT)

#define OPTION_MAX_CPU		1023

/* Options for jobs that wait for orders; a program with these calls option_check_again(). */
#define OPTION_AGAIN(runs) \
	OPTION_FLAG("again", (runs).again)
#define OPTION_CPU(runs) \
	OPTION_NUMBER("cpu", (runs).cpu, 0, OPTION_MAX_CPU)

/*
 * Parses the options of @specs, whose last element is OPTION_END (0). For --help, and for an
 * unknown option, it prints @help. The message for a bad value has the option's name and limits.
 * The arguments behind the options begin at optind.
 */
void option_parse(int argc, char **argv, const struct option_spec *specs, const char *help);

/* Exits with a message if a run has more chunks than there is room for. */
void option_check_chunks(const struct jobs_runs *runs);

/* Exits with a message if several jobs would wait for orders, or a CPU is given without --again. */
void option_check_again(const struct jobs_runs *runs, unsigned int jobs);

#endif /* SMQ_BENCH_OPTION_H */
