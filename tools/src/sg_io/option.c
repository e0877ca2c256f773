// SPDX-License-Identifier: GPL-2.0
#include <math.h>
#include <stdlib.h>

#include "num.h"
#include "option.h"

__u64 option_number(struct argp_state *state, const char *option, const char *arg,
		    __u64 min, __u64 max)
{
	__u64 n = min;

	if (num_parse(arg, min, max, &n))
		argp_error(state, "%s: '%s' is no number from %llu to %llu", option, arg, min, max);
	return n;
}

double option_real(struct argp_state *state, const char *option, const char *arg,
		   double max)
{
	char *end;
	double v = strtod(arg, &end);

	if (end == arg || *end || !isfinite(v) || v < OPTION_REAL_MIN || v > max)
		argp_error(state, "%s: '%s' is no number from %g to %g", option, arg,
			   OPTION_REAL_MIN, max);
	return v;
}
