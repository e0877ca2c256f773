// SPDX-License-Identifier: GPL-2.0
/* A random load on the nodes of smq_sg, for the kernel that tools/fuzz boots. */
#include <argp.h>
#include <err.h>
#include <stdlib.h>

#include "supervisor.h"
#include "tally.h"

enum { OPTION_NO_FORK = 256 };

static const struct argp_option known[] = {
	{ "seed", 's', "N", 0, "seed of all random choices (default: 1)", 0 },
	{ "seconds", 't', "N", 0, "start new processes for N seconds (default: 60)", 0 },
	{ "workers", 'w', "N", 0, "processes at a time (default: 6)", 0 },
	{ "time-factor", 'p', "N", 0, "factor for all time limits (default: 1)", 0 },
	{ "no-fork", OPTION_NO_FORK, NULL, 0, "the processes do not fork", 0 },
	{ 0 },
};

static unsigned int positive(const char *text, struct argp_state *state)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (!*text || *end || !value || value > 1000000)
		argp_error(state, "'%s' is not a number from 1 to 1000000", text);
	return value;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *options = state->input;
	char *end;

	switch (key) {
	case 's':
		options->seed = strtoull(arg, &end, 0);
		if (!*arg || *end)
			argp_error(state, "'%s' is not a number", arg);
		return 0;
	case 't':
		options->seconds = positive(arg, state);
		return 0;
	case 'w':
		options->workers = positive(arg, state);
		return 0;
	case 'p':
		options->time_factor = positive(arg, state);
		return 0;
	case OPTION_NO_FORK:
		options->no_fork = true;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument '%s'", arg);
	}
	return ARGP_ERR_UNKNOWN;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		known, parse, NULL,
		"Runs processes that make random calls on all /dev/smqsgN. Needs root. Destroys "
		"the data on the disks.\v"
		"SIGTERM ends all processes at once.\n"
		"Exit status: 0 no failure found, 1 at least one found, 2 could not run."
	};
	struct options options = { .seed = 1, .seconds = 60, .workers = 6, .time_factor = 1 };

	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, &options);
	tally_begin();
	supervise(&options);
	check_locked_memory(&options);
	tally_summary();
	return failures() ? 1 : 0;
}
