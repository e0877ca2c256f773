/* SPDX-License-Identifier: GPL-2.0 */
/* Options in tables: how --help lists each, and where its value goes. */
#ifndef SG_IO_OPTIONS_H
#define SG_IO_OPTIONS_H

#include <argp.h>
#include <linux/types.h>
#include <stddef.h>

#define OPTIONS_MAX	32	/* of a command */

struct known_option {
	const char *name;	/* NULL ends a table */
	const char *arg;	/* NULL: it has none */
	const char *doc;
	int group;		/* of --help */
	enum {
		OPTION_OTHER,	/* the parser gets its key, which is @at */
		OPTION_FLAG,	/* sets a bool */
		OPTION_TEXT,
		OPTION_NUMBER,	/* a __u64 from @min to @max, times 2^@shift */
		OPTION_REAL,	/* a double up to @max */
		OPTION_SECONDS,	/* a double from @min milliseconds on */
	} kind;
	size_t at;		/* of the value in the struct that options_parse() gets */
	__u64 min;
	__u64 max;
	unsigned int shift;
};

#define OTHER(key)		.kind = OPTION_OTHER, .at = (key)
#define FLAG(type, field)	.kind = OPTION_FLAG, .at = offsetof(type, field)
#define TEXT(type, field)	.kind = OPTION_TEXT, .at = offsetof(type, field)
#define NUMBER(type, field, low, high)	\
	.kind = OPTION_NUMBER, .at = offsetof(type, field), .min = (low), .max = (high)
#define MEBIBYTES(type, field)	\
	.kind = OPTION_NUMBER, .at = offsetof(type, field), .min = 1, .max = 1 << 20, .shift = 20
#define REAL(type, field, high)	\
	.kind = OPTION_REAL, .at = offsetof(type, field), .max = (high)
#define SECONDS(type, field)	.kind = OPTION_SECONDS, .at = offsetof(type, field)

/**
 * options_parse() - parse the command line of a command
 * @argc: its arguments
 * @argv: its arguments
 * @argp: what --help says; its parser gets the options OPTION_OTHER, and all that is no option
 * @tables: the options, ended by NULL
 * @to: the struct that receives the values; state->input of the parser
 *
 * Exits on a usage error.
 */
void options_parse(int argc, char **argv, const struct argp *argp,
		   const struct known_option * const *tables, void *to);

#endif
