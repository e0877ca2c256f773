/* SPDX-License-Identifier: GPL-2.0 */
/* Option values for argp parsers. */
#ifndef SG_IO_OPTION_H
#define SG_IO_OPTION_H

#include <argp.h>
#include <linux/types.h>

/* Parses a number within limits; anything else is a usage error that names @option. */
__u64 option_number(struct argp_state *state, const char *option, const char *arg,
		    __u64 min, __u64 max);
/* The lowest value of a time in seconds or a rate. A shorter time could become 0 ns. */
#define OPTION_REAL_MIN	0.000001

/* Parses a decimal fraction from OPTION_REAL_MIN to @max, for seconds and rates. */
double option_real(struct argp_state *state, const char *option, const char *arg,
		   double max);

#endif
