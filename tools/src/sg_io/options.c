// SPDX-License-Identifier: GPL-2.0
#include <stdbool.h>
#include <stdio.h>

#include "options.h"
#include "util.h"

#define FIRST_KEY	256	/* none of these is a letter, which would be a short option */

static const struct known_option *known[OPTIONS_MAX];
static argp_parser_t other;

static error_t store(const struct known_option *o, char *arg, struct argp_state *state)
{
	void *to = (char *)state->input + o->at;
	char name[32];

	snprintf(name, sizeof(name), "--%s", o->name);
	switch (o->kind) {
	case OPTION_FLAG:
		*(bool *)to = true;
		return 0;
	case OPTION_TEXT:
		*(const char **)to = arg;
		return 0;
	case OPTION_NUMBER:
		*(__u64 *)to = option_number(state, name, arg, o->min, o->max) << o->shift;
		return 0;
	case OPTION_REAL:
		*(double *)to = option_real(state, name, arg, o->max, "");
		return 0;
	case OPTION_SECONDS:
		*(double *)to = option_seconds(state, name, arg);
		if (*(double *)to < o->min / 1e3)
			argp_error(state, "%s: '%s' is below %g s", name, arg, o->min / 1e3);
		return 0;
	case OPTION_OTHER:
		break;
	}
	return other(o->at, arg, state);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	unsigned int nth = key - FIRST_KEY;

	if (nth < OPTIONS_MAX && known[nth])
		return store(known[nth], arg, state);
	return other(key, arg, state);
}

void options_parse(int argc, char **argv, const struct argp *argp,
		   const struct known_option * const *tables, void *to)
{
	struct argp_option list[OPTIONS_MAX + 1] = {};
	struct argp all = *argp;
	const struct known_option *o;
	unsigned int n = 0;

	for (; *tables; tables++) {
		for (o = *tables; o->name; o++, n++) {
			known[n] = o;
			list[n] = (struct argp_option){
				o->name, FIRST_KEY + n, o->arg, 0, o->doc, o->group,
			};
		}
	}
	other = argp->parser;
	all.options = list;
	all.parser = parse;
	argp_parse(&all, argc, argv, 0, NULL, to);
}
