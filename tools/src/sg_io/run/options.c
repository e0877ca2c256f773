// SPDX-License-Identifier: GPL-2.0
#include <argp.h>
#include <err.h>
#include <string.h>

#include "run.h"
#include "util.h"

enum {
	OPT_VIA = 256, OPT_DEPTH, OPT_BATCH, OPT_COUNT, OPT_TIME, OPT_JOBS, OPT_RATE,
	OPT_POLL, OPT_FORCE, OPT_UNCHECKED, OPT_MEMORY, OPT_JSON,
	OPT_SLOWEST, OPT_WARM_UP, OPT_INTERVAL, OPT_LOG, OPT_FOLD_CPUS,
};

#define PATHS		"sg, bsg, bsg-uring, smq or block"
#define INTERVAL_MIN	0.01	/* seconds */

/* The old name of the path smq, whose slots have the same gain now. */
#define OLD_SMQ		"smq-held"

static const char * const paths[] = {
	"sg", "bsg", "bsg-uring", "smq", "block",
};

const char fold_cpus_help[] =
	"If this process may not run on CPU N of cpu=N, use the CPU at place N, modulo their "
	"number, of those it may run on";

static const struct argp_option options[] = {
	{ "via", OPT_VIA, "PATH", 0,
	  "The path, see below (the path of the kind of node given)", 1 },
	{ "depth", OPT_DEPTH, "N", 0, "Commands that each job has in flight on each DEV (1)", 1 },
	{ "jobs", OPT_JOBS, "N", 0, "Threads that share the work (1)", 1 },
	{ "batch", OPT_BATCH, "N", 0,
	  "With io_uring: submit and wait in groups of N (1)", 1 },
	{ "poll", OPT_POLL, NULL, 0,
	  "Paths smq and block, and bsg-uring on an smqsg node: poll for completions in the "
	  "host's poll queues", 1 },
	{ "count", OPT_COUNT, "N", 0,
	  "Commands for each DEV; FILE repeats if it has fewer (FILE once; no limit with --time)",
	  2 },
	{ "time", OPT_TIME, "SECONDS", 0, "Stop after this time; it may end in s, m or h", 2 },
	{ "rate", OPT_RATE, "N", 0, "The most commands per second, for all DEVs together", 2 },
	{ "force", OPT_FORCE, NULL, 0, "Write to a disk that is in use or has data", 3 },
	{ "unchecked", OPT_UNCHECKED, NULL, 0,
	  "Accept a direction and BYTES that contradict the CDB or the disk's block size, for tests "
	  "of residuals", 3 },
	{ "fold-cpus", OPT_FOLD_CPUS, NULL, 0, fold_cpus_help, 3 },
	{ "memory", OPT_MEMORY, "MIB", 0, "Limit of the memory for data (1024)", 3 },
	{ 0 }
};

/* What run and replay say about their commands. */
static const struct argp_option output_options[] = {
	{ "warm-up", OPT_WARM_UP, "SECONDS", 0,
	  "Do not count commands that end in this time at the beginning: neither their latency nor "
	  "their errors; --time begins after it, --count includes them", 1 },
	{ "interval", OPT_INTERVAL, "SECONDS", 0,
	  "Print a line for each such time after the warm-up, with --json a JSON object with from "
	  "and to in seconds", 1 },
	{ "log", OPT_LOG, "FILE", 0,
	  "Write a line of CSV for each command, those of the warm-up too: when it was issued and "
	  "how long it took, in microseconds, its device, line and name, the result, the sense "
	  "data as KEY/ASC/ASCQ in hex, and the residual", 1 },
	{ "slowest", OPT_SLOWEST, "N", 0,
	  "List the N slowest commands, at most 1000: how long each took, its line, device and "
	  "name, when it was issued, and whether it failed", 1 },
	{ "json", OPT_JSON, NULL, 0, "One JSON object on standard output", 1 },
	{ 0 }
};

static error_t parse_output(int key, char *arg, struct argp_state *state)
{
	struct run_options *o = state->input;

	switch (key) {
	case OPT_WARM_UP:
		o->warm_up = option_seconds(state, "--warm-up", arg);
		return 0;
	case OPT_INTERVAL:
		o->interval = option_seconds(state, "--interval", arg);
		if (o->interval < INTERVAL_MIN)
			argp_error(state, "--interval: '%s' is below %g s", arg, INTERVAL_MIN);
		return 0;
	case OPT_LOG:
		o->log = arg;
		return 0;
	case OPT_SLOWEST:
		o->slowest = option_number(state, "--slowest", arg, 1, SLOWEST_MAX);
		return 0;
	case OPT_JSON:
		o->json = true;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

const struct argp run_output_argp = { .options = output_options, .parser = parse_output };

static const char run_doc[] =
	"Issue the commands of FILE ('-': standard input) to each DEV.\v"
	"Paths:\n"
	"  sg         The v3 header. With --depth 1: SG_IO on the sg or sd node given.\n"
	"             With more: write, poll and read on the sg node, which is opened\n"
	"             once for each 16 commands: sg takes no more from an open file.\n"
	"  bsg        SG_IO with the v4 header, by as many threads as --depth.\n"
	"  bsg-uring  struct bsg_uring_cmd through io_uring, on the smqsg node if that\n"
	"             is given, otherwise on the bsg node, which needs Linux 7.1.\n"
	"  smq        Slots of the smqsg node, all prepared before the first is run. A\n"
	"             --batch above 1 is one entry of the ring for each DEV.\n"
	"  block      Only READ and WRITE, as direct block I/O through io_uring.\n"
	"bsg-uring, smq and block can submit several commands per system call: --batch\n"
	"is for these paths. On all paths but block, a command for which the device has\n"
	"no room is sent when another command has ended. If there are several DEVs,\n"
	"each job has one ring for all of them, and gives them commands in turn.\n"
	"smq-held is another name of smq: once only the slots of that path kept their\n"
	"requests from one run to the next, now those of smq do.\n"
	"On the path block, the block layer may merge neighbouring commands of a batch,\n"
	"unless queue/nomerges is set.\n"
	"\n"
	"All commands but those that sg_io knows to be harmless, such as READs, are\n"
	"refused without --force if the disk is in use, or if libblkid finds a file\n"
	"system, a partition table or the like on it.\n"
	"\n"
	"All commands and their data are built before the first is issued, and sg_io\n"
	"retries no command: a unit attention counts like any other status. (The kernel\n"
	"may send a bsg command again after error handling; its timeouts for bsg, and\n"
	"for SG_IO on sd, are at least 7 s.) at= in FILE is ignored. If a command has\n"
	"not ended a minute after its timeout, the run ends. Ctrl-C stops the run and\n"
	"prints the result so far. A second Ctrl-C ends it without waiting for the\n"
	"commands in flight.\n"
	"\n"
	"The --log has the commands of a job in the order in which they ended, and\n"
	"leaves none out: if its file is slow, the run waits. The lines of --interval\n"
	"are left to the next interval while the reader of the output is slow.\n"
	"\n"
	"Example:\n"
	"  sg_io gen --device /dev/sg0 --op read10 --size 4k --count 1000 \\\n"
	"          --random 1 >reads.cdb\n"
	"  sg_io run --via smq --depth 32 --batch 16 --time 2 /dev/smqsg0 \\\n"
	"          /dev/smqsg1 reads.cdb\n"
	"  echo 000000000000 none 0 | sg_io run /dev/sg0 -\n"
	"\n"
	"'sg_io --help' describes the format of FILE and the exit statuses.\n";

const char *run_find_path(const char *name, size_t len)
{
	unsigned int i;

	if (len == strlen(OLD_SMQ) && !strncmp(OLD_SMQ, name, len)) {
		warnx("--via " OLD_SMQ ": is another name of smq, which gains as much now");
		return run_find_path("smq", strlen("smq"));
	}
	for (i = 0; i < ARRAY_SIZE(paths); i++)
		if (strlen(paths[i]) == len && !strncmp(paths[i], name, len))
			return paths[i];
	return NULL;
}

static void take_arg(struct argp_state *state, const char *arg, struct run_options *o)
{
	/* The last argument is the file. An argument that is followed by another is a device. */
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
		o->via = run_find_path(arg, strlen(arg));
		if (!o->via)
			argp_error(state, "--via: '%s' is not " PATHS, arg);
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
		o->time = option_seconds(state, "--time", arg);
		return 0;
	case OPT_RATE:
		o->rate = option_real(state, "--rate", arg, 1e9, "");
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
	case OPT_FOLD_CPUS:
		o->fold_cpus = true;
		return 0;
	case OPT_JSON:
		o->json = true;
		return 0;
	case ARGP_KEY_INIT:
		state->child_inputs[0] = o;
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
	static const struct argp_child children[] = { { &run_output_argp, 0, NULL, 3 }, { 0 } };
	static const struct argp argp = {
		.options = options, .parser = parse, .args_doc = "DEV... FILE", .doc = run_doc,
		.children = children,
	};

	*opt = (struct run_options){
		.depth = 1, .batch = 1, .jobs = 1, .memory = 1024ULL << 20,
	};
	argp_parse(&argp, argc, argv, 0, NULL, opt);
}
