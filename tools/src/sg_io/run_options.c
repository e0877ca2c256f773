// SPDX-License-Identifier: GPL-2.0
#include <argp.h>
#include <string.h>

#include "option.h"
#include "run.h"

enum {
	OPT_VIA = 256, OPT_DEPTH, OPT_BATCH, OPT_COUNT, OPT_TIME, OPT_JOBS, OPT_RATE,
	OPT_POLL, OPT_FORCE, OPT_UNCHECKED, OPT_MEMORY, OPT_JSON,
};

static const struct argp_option options[] = {
	{ "via", OPT_VIA, "sg|bsg|block", 0, "The path, see below (that of the node given)", 1 },
	{ "depth", OPT_DEPTH, "N", 0, "Commands in flight of each job on each DEV (1)", 1 },
	{ "jobs", OPT_JOBS, "N", 0, "Threads that share the work (1)", 1 },
	{ "batch", OPT_BATCH, "N", 0, "Block: submit and wait in groups of N (1)", 1 },
	{ "poll", OPT_POLL, NULL, 0, "Block: poll for completions in the host's poll queues", 1 },
	{ "count", OPT_COUNT, "N", 0,
	  "Commands to each DEV, round and round through FILE (once, or no limit with --time)", 2 },
	{ "time", OPT_TIME, "SECONDS", 0, "Stop after this time", 2 },
	{ "rate", OPT_RATE, "N", 0, "Commands a second at most, all DEVs together", 2 },
	{ "force", OPT_FORCE, NULL, 0, "Write to a disk that is mounted or held", 3 },
	{ "unchecked", OPT_UNCHECKED, NULL, 0,
	  "Take a direction and BYTES that contradict the CDB, as tests of residuals need", 3 },
	{ "memory", OPT_MEMORY, "MIB", 0, "Most memory for data (1024)", 3 },
	{ "json", OPT_JSON, NULL, 0, "One JSON object on standard output", 3 },
	{ 0 }
};

static const char doc[] =
	"Issue the commands of FILE ('-': standard input) to each DEV.\v"
	"Paths:\n"
	"  sg     v3 header. --depth 1: SG_IO on the sg or sd node given. Deeper:\n"
	"         write, poll and read on the sg node, opened again for each 16\n"
	"         commands, as many as sg takes from one open file.\n"
	"  bsg    SG_IO with the v4 header; --depth is made by threads.\n"
	"  block  READ and WRITE as direct block I/O through io_uring, nothing else.\n"
	"Only block submits more than one command a system call: --batch is for it. The\n"
	"block layer may merge neighbours of a batch (queue/nomerges keeps it from it).\n"
	"\n"
	"All commands and their data are built before the first is issued, and sg_io\n"
	"retries nothing: a unit attention counts like any other status. (The kernel\n"
	"may send a bsg command again after error handling, and gives those of bsg and\n"
	"of SG_IO on sd at least 7 s.) at= in FILE is not looked at. A command still\n"
	"unanswered a minute beyond its timeout ends the run. Ctrl-C stops it with the\n"
	"result so far; a second one does so without waiting for what is in flight.\n"
	"\n"
	"'sg_io --help' has the format of FILE and the exit statuses.\n";

static void take_arg(struct argp_state *state, const char *arg, struct run_options *o)
{
	/* The last one is the file: each takes the place of the one before. */
	if (o->file) {
		if (o->nr_devs == MAX_DEVICES)
			argp_error(state, "more than %d devices", MAX_DEVICES);
		o->devs[o->nr_devs++] = o->file;
	}
	o->file = arg;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct run_options *o = state->input;

	switch (key) {
	case OPT_VIA:
		if (strcmp(arg, "sg") && strcmp(arg, "bsg") && strcmp(arg, "block"))
			argp_error(state, "--via: '%s' is not sg, bsg or block", arg);
		o->via = arg;
		return 0;
	case OPT_DEPTH:
		o->depth = option_number(state, "--depth", arg, 1, 4096);
		return 0;
	case OPT_BATCH:
		o->batch = option_number(state, "--batch", arg, 1, 4096);
		return 0;
	case OPT_JOBS:
		o->jobs = option_number(state, "--jobs", arg, 1, 1024);
		return 0;
	case OPT_COUNT:
		o->count = option_number(state, "--count", arg, 1, 1ULL << 48);
		return 0;
	case OPT_TIME:
		o->time = option_real(state, "--time", arg, 86400 * 365.0);
		return 0;
	case OPT_RATE:
		o->rate = option_real(state, "--rate", arg, 1e9);
		return 0;
	case OPT_MEMORY:
		o->memory = option_number(state, "--memory", arg, 1, 1 << 20) << 20;
		return 0;
	case OPT_POLL:
		o->poll = true;
		return 0;
	case OPT_FORCE:
		o->force = true;
		return 0;
	case OPT_UNCHECKED:
		o->unchecked = true;
		return 0;
	case OPT_JSON:
		o->json = true;
		return 0;
	case ARGP_KEY_ARG:
		take_arg(state, arg, o);
		return 0;
	case ARGP_KEY_END:
		if (!o->file)
			argp_error(state, "DEV and FILE are missing");
		if (!o->nr_devs)
			argp_error(state, "only '%s' given: DEV or FILE is missing", o->file);
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

void run_parse_options(int argc, char **argv, struct run_options *opt)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "DEV... FILE",
		.doc = doc,
	};

	*opt = (struct run_options){
		.depth = 1, .batch = 1, .jobs = 1, .memory = 1024ULL << 20,
	};
	argp_parse(&argp, argc, argv, 0, NULL, opt);
}
