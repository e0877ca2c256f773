/* SPDX-License-Identifier: GPL-2.0 */
/* Command lines of the loop programs: what is wrong with one ends the program, with status 2. */
#ifndef SMQ_BENCH_OPTION_H
#define SMQ_BENCH_OPTION_H

#include <stddef.h>

#include "jobs.h"

enum option_kind { OPTION_END, OPTION_IS_FLAG, OPTION_IS_NUMBER, OPTION_IS_BYTES, OPTION_IS_WORD,
		   OPTION_IS_COUNTS };

/* An option of a program; below is how to write one. */
struct option_spec {
	enum option_kind kind;
	const char *name;
	void *value;
	size_t size;		/* of a number at @value */
	unsigned long min, max;
	const char * const *words;
};

/* --name: @field, a bool, is true. */
#define OPTION_FLAG(text, field) \
	{ .kind = OPTION_IS_FLAG, .name = text, .value = &(field) }

/* --name N: a number from @least to @most, to any unsigned integer. */
#define OPTION_NUMBER(text, field, least, most) \
	{ .kind = OPTION_IS_NUMBER, .name = text, .value = &(field), .size = sizeof(field), \
	  .min = least, .max = most }

/* --name BYTES: a multiple of @block, up to @most. */
#define OPTION_BYTES(text, field, block, most) \
	{ .kind = OPTION_IS_BYTES, .name = text, .value = &(field), .size = sizeof(field), \
	  .min = block, .max = most }

/* --name WORD: the index of one of @list, which NULL ends. */
#define OPTION_WORD(text, field, list) \
	{ .kind = OPTION_IS_WORD, .name = text, .value = &(field), .size = sizeof(field), \
	  .words = list }

#define OPTION_MAX_COUNT	1000000000UL

/* Of a struct jobs_runs. All measured loops have the first three; see option_check_chunks(). */
#define OPTION_COUNTS(runs) \
	{ .kind = OPTION_IS_COUNTS, .name = "count", .value = &(runs) }
#define OPTION_WARMUP(runs) \
	OPTION_NUMBER("warmup", (runs).warmup, 0, OPTION_MAX_COUNT)
#define OPTION_TIMEOUT(runs) \
	OPTION_NUMBER("timeout", (runs).seconds, 1, 86400)
#define OPTION_CHUNK(runs) \
	OPTION_NUMBER("chunk", (runs).chunk, 1, OPTION_MAX_COUNT)

/*
 * Takes the options of @specs, which OPTION_END (0) ends, and --help, for which, as for an
 * unknown one, it prints @help. What is wrong is named with its limits. What follows the
 * options begins at optind.
 */
void option_parse(int argc, char **argv, const struct option_spec *specs, const char *help);

/* Exits with a message if a run has more chunks than there is room for. */
void option_check_chunks(const struct jobs_runs *runs);

#endif /* SMQ_BENCH_OPTION_H */
