/* SPDX-License-Identifier: GPL-2.0 */
/* Option values for argp parsers. */
#ifndef SG_IO_OPTION_H
#define SG_IO_OPTION_H

#include <argp.h>
#include <linux/types.h>

/*
 * Parses a number within limits, see num_parse_size(); anything else is a usage error that names
 * @option.
 */
__u64 option_number(struct argp_state *state, const char *option, const char *arg,
		    __u64 min, __u64 max);
/* The lowest value of a time in seconds or a rate. A shorter time could become 0 ns. */
#define OPTION_REAL_MIN	0.000001

/*
 * Parses a decimal fraction from OPTION_REAL_MIN to @max, for rates. @more: the end of the message
 * about another value.
 */
double option_real(struct argp_state *state, const char *option, const char *arg,
		   double max, const char *more);
/* Parses a time from OPTION_REAL_MIN seconds to a year; it may end in s, m or h. */
double option_seconds(struct argp_state *state, const char *option, const char *arg);

#endif
