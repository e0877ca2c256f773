// SPDX-License-Identifier: GPL-2.0
#include <argp.h>
#include <string.h>

#include "copy.h"
#include "util.h"

#define DEPTH	64
#define BATCH	32

enum {
	OPT_CHUNK = 256, OPT_SKIP, OPT_SEEK, OPT_BLOCKS, OPT_DEPTH, OPT_BATCH, OPT_JOBS, OPT_MEMORY,
	OPT_MAX_ERRORS, OPT_FORCE, OPT_JSON,
};

/* Options that both commands have. */
static const struct argp_option common[] = {
	{ "chunk", OPT_CHUNK, "BYTES", 0,
	  "What each command moves (128k, or less if a device takes less)", 1 },
	{ "skip", OPT_SKIP, "N", 0, "First block on the first device (0)", 1 },
	{ "seek", OPT_SEEK, "N", 0, "First block on the second device (0)", 1 },
	{ "blocks", OPT_BLOCKS, "N", 0, "How many blocks (all)", 1 },
	{ "depth", OPT_DEPTH, "N", 0, "Commands that each job has in flight (64)", 2 },
	{ "batch", OPT_BATCH, "N", 0,
	  "On smqsg nodes: commands for one entry of the ring (32)", 2 },
	{ "jobs", OPT_JOBS, "N", 0,
	  "Threads that share the work (one for each CPU, up to 4)", 2 },
	{ "memory", OPT_MEMORY, "MIB", 0, "Limit of the memory for data (1024)", 3 },
	{ "max-errors", OPT_MAX_ERRORS, "N", 0, "Stop when N commands have failed (1)", 3 },
	{ "json", OPT_JSON, NULL, 0, "One JSON object on standard output", 3 },
};

static const struct argp_option force_option = {
	"force", OPT_FORCE, NULL, 0, "Write to a disk that is in use or has data", 3
};

static const char copy_doc[] =
	"Copy the blocks of FROM to TO: READs on one, WRITEs on the other.\v"
	"The kind of the nodes determines the path, as in 'sg_io run': prepared\n"
	"commands on an smqsg node, direct block I/O on a disk's. FROM and TO may be of\n"
	"different kinds. Their blocks must have the same size. A command that fails is\n"
	"sent up to three times, then its blocks are copied one by one.\n"
	"\n"
	"TO is refused without --force if it is in use, or if libblkid finds a file\n"
	"system, a partition table or the like on it.\n"
	"\n"
	"Ctrl-C stops the copy and prints the result so far. Exit status: 0 all blocks\n"
	"were copied, 1 some were not. 'sg_io --help' describes the others.\n"
	"\n"
	"Example:\n"
	"  sg_io copy /dev/smqsg2 /dev/smqsg3\n";

static const char compare_doc[] =
	"Compare the blocks of two devices: READs on A, VERIFYs with its data on B.\v"
	"Nothing is written. If VERIFY finds a difference, or B has no VERIFY that\n"
	"compares data, the blocks of B are read to find those that differ; a disk's\n"
	"block node is always read. The kind of the nodes determines the path, as in\n"
	"'sg_io run'; A and B may be of different kinds. A command that fails is sent\n"
	"up to three times, then its blocks are compared one by one.\n"
	"\n"
	"Exit status: 0 all blocks are equal, 1 some differ or could not be compared.\n"
	"'sg_io --help' describes the others.\n"
	"\n"
	"Example, with a copy of the first 4096 blocks:\n"
	"  sg_io copy --blocks 4096 /dev/smqsg2 /dev/smqsg3\n"
	"  sg_io compare-luns --blocks 4096 /dev/smqsg2 /dev/smqsg3\n";

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct copy_options *o = state->input;

	switch (key) {
	case OPT_CHUNK:
		o->chunk = option_number(state, "--chunk", arg, 1, DATA_MAX);
		return 0;
	case OPT_SKIP:
		o->skip = option_number(state, "--skip", arg, 0, ~0ULL);
		return 0;
	case OPT_SEEK:
		o->seek = option_number(state, "--seek", arg, 0, ~0ULL);
		return 0;
	case OPT_BLOCKS:
		o->blocks = option_number(state, "--blocks", arg, 1, ~0ULL);
		return 0;
	case OPT_DEPTH:
		o->depth = option_number(state, "--depth", arg, 1, COPY_DEPTH_MAX);
		return 0;
	case OPT_BATCH:
		o->batch = option_number(state, "--batch", arg, 1, COPY_DEPTH_MAX);
		return 0;
	case OPT_JOBS:
		o->jobs = option_number(state, "--jobs", arg, 1, COPY_JOBS_MAX);
		return 0;
	case OPT_MEMORY:
		o->memory = option_number(state, "--memory", arg, 1, 1 << 20) << 20;
		return 0;
	case OPT_MAX_ERRORS:
		o->max_errors = option_number(state, "--max-errors", arg, 1, 1 << 20);
		return 0;
	case OPT_FORCE:
		o->force = true;
		return 0;
	case OPT_JSON:
		o->json = true;
		return 0;
	case ARGP_KEY_ARG:
		if (o->nr_devs == SIDES)
			argp_error(state, "'%s': two devices", arg);
		o->devs[o->nr_devs++] = arg;
		return 0;
	case ARGP_KEY_END:
		if (o->nr_devs < SIDES)
			argp_error(state, "two devices are needed: %s",
				   o->compare ? "A and B" : "FROM and TO");
		if (o->batch > o->depth)
			o->batch = o->depth;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

void copy_parse_options(int argc, char **argv, struct copy_options *opt)
{
	struct argp_option all[ARRAY_SIZE(common) + 2] = {};
	const struct argp argp = {
		.options = all, .parser = parse,
		.args_doc = opt->compare ? "DEV-A DEV-B" : "DEV-FROM DEV-TO",
		.doc = opt->compare ? compare_doc : copy_doc,
	};

	memcpy(all, common, sizeof(common));
	if (!opt->compare)
		all[ARRAY_SIZE(common)] = force_option;
	opt->depth = DEPTH;
	opt->batch = BATCH;
	opt->memory = 1024ULL << 20;
	opt->max_errors = 1;
	argp_parse(&argp, argc, argv, 0, NULL, opt);
}
