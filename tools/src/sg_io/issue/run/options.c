// SPDX-License-Identifier: GPL-2.0
#include <err.h>
#include <string.h>

#include "run.h"
#include "util.h"

enum { OPT_VIA = 1 };

#define PATHS		"sg, bsg, bsg-uring, smq or block"
#define INTERVAL_MIN	10	/* milliseconds */

/* The old name of the path smq, whose slots have the same gain now. */
#define OLD_SMQ		"smq-held"

static const char * const paths[] = {
	"sg", "bsg", "bsg-uring", "smq", "block",
};

#define NUMBER_OF(field, min, max)	NUMBER(struct run_options, field, min, max)

static const struct known_option options[] = {
	{ "via", "PATH", "The path, see below (the path of the kind of node given)", 1,
	  OTHER(OPT_VIA) },
	{ "depth", "N", "Commands that each job has in flight on each DEV (1)", 1,
	  NUMBER_OF(depth, 1, 4096) },
	{ "jobs", "N", "Threads that share the work (1)", 1, NUMBER_OF(jobs, 1, 1024) },
	{ "batch", "N", "With io_uring: submit and wait in groups of N (1)", 1,
	  NUMBER_OF(batch, 1, 4096) },
	{ "poll", NULL,
	  "Paths smq and block, and bsg-uring on an smqsg node: poll for completions in the "
	  "host's poll queues", 1, FLAG(struct run_options, poll) },
	{ "count", "N",
	  "Commands for each DEV; FILE repeats if it has fewer (FILE once; no limit with --time)",
	  2, NUMBER_OF(count, 1, 1ULL << 48) },
	{ "time", "SECONDS", "Stop after this time; it may end in s, m or h", 2,
	  SECONDS(struct run_options, time) },
	{ "rate", "N", "The most commands per second, for all DEVs together", 2,
	  REAL(struct run_options, rate, 1000000000) },
	{ "unchecked", NULL,
	  "Accept a direction and BYTES that contradict the CDB or the disk's block size, for tests "
	  "of residuals", 3, FLAG(struct run_options, unchecked) },
	{ 0 }
};

const struct known_option run_file_options[] = {
	{ "force", NULL, "Write to a disk that is in use or has data", 3,
	  FLAG(struct run_options, force) },
	{ "fold-cpus", NULL,
	  "If this process may not run on CPU N of cpu=N, use the CPU at place N, modulo their "
	  "number, of those it may run on", 3, FLAG(struct run_options, fold_cpus) },
	{ "memory", "MIB", "Limit of the memory for data (1024)", 3,
	  MEBIBYTES(struct run_options, memory) },
	{ 0 }
};

const struct known_option run_output_options[] = {
	{ "warm-up", "SECONDS",
	  "Do not count commands that end in this time at the beginning: neither their latency nor "
	  "their errors; --time begins after it, --count includes them", 4,
	  SECONDS(struct run_options, warm_up) },
	{ "interval", "SECONDS",
	  "Print a line for each such time after the warm-up, with --json a JSON object with from "
	  "and to in seconds", 4, SECONDS(struct run_options, interval), .min = INTERVAL_MIN },
	{ "log", "FILE",
	  "Write a line of CSV for each command, those of the warm-up too: when it was issued and "
	  "how long it took, in microseconds, its device, line and name, the result, the sense "
	  "data as KEY/ASC/ASCQ in hex, and the residual", 4, TEXT(struct run_options, log) },
	{ "slowest", "N",
	  "List the N slowest commands, at most 1000: how long each took, its line, device and "
	  "name, when it was issued, and whether it failed", 4,
	  NUMBER_OF(slowest, 1, SLOWEST_MAX) },
	{ "json", NULL, "One JSON object on standard output", 4, FLAG(struct run_options, json) },
	{ 0 }
};

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
		.parser = parse, .args_doc = "DEV... FILE", .doc = run_doc,
	};
	static const struct known_option * const tables[] = {
		options, run_file_options, run_output_options, NULL,
	};

	*opt = (struct run_options){
		.depth = 1, .batch = 1, .jobs = 1, .memory = 1024ULL << 20,
	};
	options_parse(argc, argv, &argp, tables, opt);
}
