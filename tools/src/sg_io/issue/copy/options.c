// SPDX-License-Identifier: GPL-2.0
#include "copy.h"

#define DEPTH	64
#define BATCH	32

#define NUMBER_OF(field, min, max)	NUMBER(struct copy_options, field, min, max)

/* Options that both commands have. */
static const struct known_option common[] = {
	{ "chunk", "BYTES", "What each command moves (128k, or less if a device takes less)", 1,
	  NUMBER_OF(chunk, 1, DATA_MAX) },
	{ "skip", "N", "First block on the first device (0)", 1, NUMBER_OF(skip, 0, ~0ULL) },
	{ "seek", "N", "First block on the second device (0)", 1, NUMBER_OF(seek, 0, ~0ULL) },
	{ "blocks", "N", "How many blocks (all)", 1, NUMBER_OF(blocks, 1, ~0ULL) },
	{ "depth", "N", "Commands that each job has in flight (64)", 2,
	  NUMBER_OF(depth, 1, COPY_DEPTH_MAX) },
	{ "batch", "N", "On smqsg nodes: commands for one entry of the ring (32)", 2,
	  NUMBER_OF(batch, 1, COPY_DEPTH_MAX) },
	{ "jobs", "N", "Threads that share the work (one for each CPU, up to 4)", 2,
	  NUMBER_OF(jobs, 1, COPY_JOBS_MAX) },
	{ "memory", "MIB", "Limit of the memory for data (1024)", 3,
	  MEBIBYTES(struct copy_options, memory) },
	{ "max-errors", "N", "Stop when N commands have failed (1)", 3,
	  NUMBER_OF(max_errors, 1, 1 << 20) },
	{ "json", NULL, "One JSON object on standard output", 3, FLAG(struct copy_options, json) },
	{ 0 }
};

static const struct known_option force_option[] = {
	{ "force", NULL, "Write to a disk that is in use or has data", 3,
	  FLAG(struct copy_options, force) },
	{ 0 }
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
	const struct argp argp = {
		.parser = parse, .args_doc = opt->compare ? "DEV-A DEV-B" : "DEV-FROM DEV-TO",
		.doc = opt->compare ? compare_doc : copy_doc,
	};
	const struct known_option * const tables[] = {
		common, opt->compare ? NULL : force_option, NULL,
	};

	opt->depth = DEPTH;
	opt->batch = BATCH;
	opt->memory = 1024ULL << 20;
	opt->max_errors = 1;
	options_parse(argc, argv, &argp, tables, opt);
}
