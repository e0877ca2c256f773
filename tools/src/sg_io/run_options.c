// SPDX-License-Identifier: GPL-2.0
#include <argp.h>
#include <string.h>

#include "array_size.h"
#include "option.h"
#include "run.h"

enum {
	OPT_VIA = 256, OPT_DEPTH, OPT_BATCH, OPT_COUNT, OPT_TIME, OPT_JOBS, OPT_RATE,
	OPT_POLL, OPT_FORCE, OPT_UNCHECKED, OPT_MEMORY, OPT_JSON, OPT_ROUNDS,
};

#define PATHS		"sg, bsg, bsg-uring, smq, smq-held or block"
#define MAX_ROUNDS	1000
#define MAX_OWN		3	/* options that only one of them has */

static const char * const paths[] = {
	"sg", "bsg", "bsg-uring", "smq", "smq-held", "block",
};

/* What run and compare have in common. */
static const struct argp_option common[] = {
	{ "depth", OPT_DEPTH, "N", 0, "Commands in flight of each job on each DEV (1)", 1 },
	{ "jobs", OPT_JOBS, "N", 0, "Threads that share the work (1)", 1 },
	{ "batch", OPT_BATCH, "N", 0,
	  "With io_uring: submit and wait in groups of N (1)", 1 },
	{ "poll", OPT_POLL, NULL, 0, "Smq, block, and bsg-uring on a smqsg node: poll for "
	  "completions in the host's poll queues", 1 },
	{ "count", OPT_COUNT, "N", 0,
	  "Commands to each DEV, round and round through FILE (once, or no limit with --time)", 2 },
	{ "time", OPT_TIME, "SECONDS", 0, "Stop after this time", 2 },
	{ "rate", OPT_RATE, "N", 0, "Commands a second at most, all DEVs together", 2 },
	{ "force", OPT_FORCE, NULL, 0, "Write to a disk that is mounted or held", 3 },
	{ "unchecked", OPT_UNCHECKED, NULL, 0,
	  "Take a direction and BYTES that contradict the CDB, as tests of residuals need", 3 },
	{ "memory", OPT_MEMORY, "MIB", 0, "Most memory for data (1024)", 3 },
	{ 0 }
};

static const struct argp_option run_options[] = {
	{ "via", OPT_VIA, "PATH", 0, "The path, see below (that of the node given)", 1 },
	{ "json", OPT_JSON, NULL, 0, "One JSON object on standard output", 3 },
	{ 0 }
};

static const struct argp_option compare_options[] = {
	{ "via", OPT_VIA, "PATH,...", 0, "These paths, the first is what ratios refer to (all)",
	  1 },
	{ "rounds", OPT_ROUNDS, "N", 0, "Times that each path has its turn (5)", 2 },
	{ "json", OPT_JSON, NULL, 0, "A JSON list with one object for each path", 3 },
	{ 0 }
};

static const char run_doc[] =
	"Issue the commands of FILE ('-': standard input) to each DEV.\v"
	"Paths:\n"
	"  sg         v3 header. --depth 1: SG_IO on the sg or sd node given. Deeper:\n"
	"             write, poll and read on the sg node, opened again for each 16\n"
	"             commands, as many as sg takes from one open file.\n"
	"  bsg        SG_IO with the v4 header; --depth is made by threads.\n"
	"  bsg-uring  struct bsg_uring_cmd through io_uring, on the smqsg node if that\n"
	"             is given, else on the bsg node, which needs Linux 7.1.\n"
	"  smq        Slots of the smqsg node, all prepared before the first is run; of a\n"
	"             --batch above 1 the whole is one entry of the ring for each DEV.\n"
	"  smq-held   The same, and as many slots as half of the queue depth keep request\n"
	"             and tag from one run to the next: those that have run first. Whoever\n"
	"             else needs them gets them. For files of a few commands.\n"
	"  block      READ and WRITE as direct block I/O through io_uring, nothing else.\n"
	"bsg-uring, smq, smq-held and block submit more than one command a system call:\n"
	"--batch is for them. What all but block have no room for while the device is full\n"
	"goes when a command has ended. Several DEV share one ring of each job and take turns in it. The block\n"
	"layer may merge neighbours of a batch (queue/nomerges keeps it from it).\n"
	"\n"
	"All commands and their data are built before the first is issued, and sg_io\n"
	"retries nothing: a unit attention counts like any other status. (The kernel\n"
	"may send a bsg command again after error handling, and gives those of bsg and\n"
	"of SG_IO on sd at least 7 s.) at= in FILE is not looked at. A command still\n"
	"unanswered a minute beyond its timeout ends the run. Ctrl-C stops it with the\n"
	"result so far; a second one does so without waiting for what is in flight.\n"
	"\n"
	"'sg_io --help' has the format of FILE and the exit statuses.\n";

static const char compare_doc[] =
	"Issue the commands of FILE ('-': standard input) to DEV through each path.\v"
	"Each path that works for DEV has a turn in every round, in order and in the next\n"
	"round backwards, as a run of its own: 'sg_io run --help' tells the paths and what\n"
	"the options mean. A turn is FILE once, or what --count or --time says. bsg-uring\n"
	"has two turns, one on the bsg node and one on the smqsg node. A path that cannot\n"
	"run is listed with the reason.\n"
	"\n"
	"ns/command is the time of a turn divided by its commands: the median of the\n"
	"rounds, with the lowest and the highest beside. At a --depth above 1 that is not\n"
	"a command's latency. ratio is this median by that of the first path that ran;\n"
	"below 1 is faster. Preparing is not in it.\n"
	"\n"
	"'sg_io --help' has the format of FILE and the exit statuses; 0 and 1 are of the\n"
	"paths that ran, and when none did it is that of the first.\n";

const char *run_find_path(const char *name, size_t len)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(paths); i++)
		if (strlen(paths[i]) == len && !strncmp(paths[i], name, len))
			return paths[i];
	return NULL;
}

/* One path, or for compare a list of them. */
static void take_via(struct argp_state *state, const char *arg, struct run_options *o)
{
	const char *at, *path;
	unsigned int i;
	size_t len;

	o->nr_vias = 0;
	for (at = arg;; at += len + 1) {
		len = o->compare ? strcspn(at, ",") : strlen(at);
		path = run_find_path(at, len);
		if (!path)
			argp_error(state, "--via: '%.*s' is not " PATHS, (int)len, at);
		for (i = 0; i < o->nr_vias; i++)
			if (o->vias[i] == path)
				argp_error(state, "--via: '%s' is there twice", path);
		o->vias[o->nr_vias++] = path;
		if (!at[len])
			break;
	}
	o->via = o->vias[0];
}

static void take_arg(struct argp_state *state, const char *arg, struct run_options *o)
{
	/* The last one is the file: each takes the place of the one before. */
	if (o->file) {
		if (o->compare && o->nr_devs)
			argp_error(state, "'%s': one device at a time", arg);
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
		take_via(state, arg, o);
		return 0;
	case OPT_ROUNDS:
		o->rounds = option_number(state, "--rounds", arg, 1, MAX_ROUNDS);
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

static void parse_options(int argc, char **argv, const struct argp_option *own,
			  const char *args_doc, const char *doc, struct run_options *opt)
{
	struct argp_option all[ARRAY_SIZE(common) + MAX_OWN] = {};
	const struct argp argp = {
		.options = all, .parser = parse, .args_doc = args_doc, .doc = doc,
	};
	unsigned int n = 0;

	for (; own->name; own++)
		all[n++] = *own;
	memcpy(all + n, common, sizeof(common));
	opt->depth = 1;
	opt->batch = 1;
	opt->jobs = 1;
	opt->memory = 1024ULL << 20;
	argp_parse(&argp, argc, argv, 0, NULL, opt);
}

void run_parse_options(int argc, char **argv, struct run_options *opt)
{
	*opt = (struct run_options){};
	parse_options(argc, argv, run_options, "DEV... FILE", run_doc, opt);
}

void compare_parse_options(int argc, char **argv, struct run_options *opt)
{
	*opt = (struct run_options){ .compare = true, .rounds = 5 };
	memcpy(opt->vias, paths, sizeof(paths));
	opt->nr_vias = ARRAY_SIZE(paths);
	parse_options(argc, argv, compare_options, "DEV FILE", compare_doc, opt);
}
