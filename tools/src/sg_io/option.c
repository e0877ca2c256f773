// SPDX-License-Identifier: GPL-2.0
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "num.h"
#include "option.h"

__u64 option_number(struct argp_state *state, const char *option, const char *arg,
		    __u64 min, __u64 max)
{
	__u64 n = min;

	if (num_parse_size(arg, min, max, &n))
		argp_error(state, "%s: '%s' is no number from %llu to %llu", option, arg, min, max);
	return n;
}

/* Parses a decimal fraction; @end receives the first character after it. */
static bool parse_real(const char *arg, char **end, double *v)
{
	*v = strtod(arg, end);
	return *end != arg && isfinite(*v);
}

double option_real(struct argp_state *state, const char *option, const char *arg,
		   double max, const char *more)
{
	double v;
	char *end;

	if (!parse_real(arg, &end, &v) || *end || v < OPTION_REAL_MIN || v > max)
		argp_error(state, "%s: '%s' is no number from %.6f to %.0f%s", option, arg,
			   OPTION_REAL_MIN, max, more);
	return v;
}

double option_seconds(struct argp_state *state, const char *option, const char *arg)
{
	static const double units[] = { 1, 60, 3600 };
	static const char letters[] = "smh";
	const double max = 86400 * 365.0;
	const char *letter;
	double v;
	char *end;

	if (parse_real(arg, &end, &v)) {
		letter = *end ? strchr(letters, *end) : NULL;
		if (letter) {
			v *= units[letter - letters];
			end++;
		}
		if (!*end && v >= OPTION_REAL_MIN && v <= max)
			return v;
	}
	argp_error(state, "%s: '%s' is no time from %.6f to %.0f seconds; it may end in s, m or h",
		   option, arg, OPTION_REAL_MIN, max);
	return max;
}
