// SPDX-License-Identifier: GPL-2.0
#include "issue/cmdfile/pattern.h"
#include "recording.h"

enum {
	OPT_PATTERN = 256, OPT_JSON,
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct writing_options *o = state->input;
	struct pattern p;
	char why[256];

	switch (key) {
	case 'o':
		o->output = arg;
		return 0;
	case OPT_PATTERN:
		if (!pattern_parse(arg, &p, why, sizeof(why)))
			argp_error(state, "--pattern: %s", why);
		o->pattern = arg;
		return 0;
	case OPT_JSON:
		o->json = true;
		return 0;
	case ARGP_KEY_END:
		if (o->json && !o->output)
			argp_error(state, "--json prints the summary to standard output; "
				   "give --output FILE for the commands");
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

const struct argp writing_argp = {
	.options = (const struct argp_option[]){
		{ "output", 'o', "FILE", 0, "The file to write (standard output)", 1 },
		{ "pattern", OPT_PATTERN, "NAME", 0,
		  "Data-out of WRITEs in the file: " PATTERN_FORMS " (lba)", 1 },
		{ "json", OPT_JSON, NULL, 0, "The summary as a JSON object; needs --output", 1 },
		{ 0 }
	},
	.parser = parse,
};
