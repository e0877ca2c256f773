// SPDX-License-Identifier: GPL-2.0
/* sg_io gen: command files for the usual loads. */
#include <argp.h>
#include <err.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "util.h"
#include "cmdfile/cmdfile.h"
#include "cmdfile/pattern.h"
#include "device/ask.h"

#define COUNT_MAX	(16u << 20)	/* the most commands of a command file */
#define BLOCK_SIZE	512

struct gen {
	const struct cdb_op *op;
	__u64 blocks;
	__u64 count;
	__u64 first;
	__u64 last;
	__u64 seed;
	__u64 timeout;
	__u64 capacity;		/* blocks of the device, 0: not known */
	__u32 block_size;
	const char *device;
	const char *pattern;
	bool has_blocks;
	bool has_range;
	bool random;
	bool json;
};

enum {
	OPT_OP = 256, OPT_BLOCKS, OPT_COUNT, OPT_RANGE, OPT_RANDOM, OPT_BLOCK_SIZE,
	OPT_DEVICE, OPT_PATTERN, OPT_TIMEOUT, OPT_JSON,
};

static const struct argp_option options[] = {
	{ "op", OPT_OP, "NAME", 0, "Command to generate; --op help lists them", 0 },
	{ "blocks", OPT_BLOCKS, "N", 0, "Blocks per command (1)", 0 },
	{ "count", OPT_COUNT, "N", 0, "Number of commands (1)", 0 },
	{ "device", OPT_DEVICE, "DEV", 0,
	  "Ask this device for its capacity, which becomes the range, and its block size", 0 },
	{ "range", OPT_RANGE, "FIRST:LAST", 0,
	  "Only these LBAs, both included (all of --device; without it from 0 on, as many as the "
	  "commands need)", 0 },
	{ "random", OPT_RANDOM, "SEED", 0,
	  "Random LBAs, FIRST plus a multiple of --blocks; the same SEED makes the same file",
	  0 },
	{ "block-size", OPT_BLOCK_SIZE, "BYTES", 0,
	  "The size of the device's logical blocks (that of --device, or 512)", 0 },
	{ "pattern", OPT_PATTERN, "NAME", 0, "Data-out: " PATTERN_FORMS " (lba)", 0 },
	{ "timeout", OPT_TIMEOUT, "MS", 0, "The value of timeout= in each line", 0 },
	{ "json", OPT_JSON, NULL, 0, "An array of objects instead of a command file", 0 },
	{ 0 }
};

/* Asks --device for its capacity and block size. Exits if it has none. */
static void ask(struct argp_state *state, struct gen *g)
{
	struct answers a = {};
	struct device dev;

	if (device_find(g->device, &dev) || ask_device(&dev, &a))
		exit(EXIT_DEVICE);
	if (!a.blocks || !a.block_size) {
		warnx("%s: has no capacity in blocks", g->device);
		exit(EXIT_DEVICE);
	}
	if (g->block_size && g->block_size != a.block_size)
		argp_error(state, "--block-size: %u, but %s has blocks of %u bytes", g->block_size,
			   g->device, a.block_size);
	g->block_size = a.block_size;
	g->capacity = a.blocks;
	if (g->has_range && g->last >= a.blocks)
		argp_error(state, "--range: LBA %llu is over the last one of %s, %llu", g->last,
			   g->device, a.blocks - 1);
}

static void list_ops(FILE *out)
{
	const char *name;
	unsigned int i;

	for (i = 0; (name = cdb_gen_name(i)); i++)
		fprintf(out, "%s%s", i ? " " : "", name);
	fputc('\n', out);
}

static void parse_range(struct argp_state *state, const char *arg, struct gen *g)
{
	const char *colon = strchr(arg, ':');
	char first[32];

	if (!colon || (size_t)(colon - arg) >= sizeof(first))
		argp_error(state, "--range: '%s' is not FIRST:LAST", arg);
	memcpy(first, arg, colon - arg);
	first[colon - arg] = '\0';
	if (num_parse_size(first, 0, ~0ULL, &g->first) ||
	    num_parse_size(colon + 1, 0, ~0ULL, &g->last))
		argp_error(state, "--range: '%s' is not FIRST:LAST", arg);
	if (g->first > g->last)
		argp_error(state, "--range: FIRST %llu is after LAST %llu", g->first, g->last);
	g->has_range = true;
}

/* Checks that need all options. */
static void check(struct argp_state *state, struct gen *g)
{
	const struct cdb_op *op = g->op;
	char why[256];
	struct pattern p;
	__u64 bytes;

	if (!op)
		argp_error(state, "--op NAME is needed; --op help lists them");
	if (!op->lba_len && (g->has_range || g->random))
		argp_error(state, "--%s: %s has no LBA", g->has_range ? "range" : "random",
			   op->name);
	if (g->device)
		ask(state, g);
	if (!g->block_size)
		g->block_size = BLOCK_SIZE;
	if (!op->lba_len && g->has_blocks)
		argp_error(state, "--blocks: %s moves no blocks", op->name);
	if (op->lba_len && g->blocks > cdb_max_blocks(op))
		argp_error(state, "--blocks: %llu is over the limit of %s, %llu", g->blocks,
			   op->name, cdb_max_blocks(op));
	bytes = op->size == SIZE_BLOCKS && !(op->flags & CDB_BYTCHK) ?
		g->blocks * g->block_size : 0;
	if (bytes > DATA_MAX)
		argp_error(state,
			   "--blocks: %llu blocks of %u bytes are over the limit of %u bytes",
			   g->blocks, g->block_size, DATA_MAX);
	if (g->pattern && (op->dir != DIR_OUT || (op->flags & CDB_BYTCHK)))
		argp_error(state, "--pattern: %s has no data-out", op->name);
	if (g->pattern && !pattern_parse(g->pattern, &p, why, sizeof(why)))
		argp_error(state, "--pattern: %s", why);
	if (!op->lba_len)
		return;
	if (!g->has_range) {
		g->last = cdb_max_lba(op);
		/*
		 * If the capacity is not known, choose random LBAs only from the first blocks, as
		 * many as the commands need: these are likely to exist.
		 */
		if (!g->capacity && g->random && g->blocks <= g->last / g->count)
			g->last = g->blocks * g->count - 1;
		if (g->capacity && g->capacity - 1 <= g->last)
			g->last = g->capacity - 1;
		else if (g->capacity)
			warnx("%s cannot address the blocks of %s above LBA %llu", op->name,
			      g->device, g->last);
	}
	if (g->last > cdb_max_lba(op))
		argp_error(state, "--range: LBA %llu is over the limit of %s, %llu", g->last,
			   op->name, cdb_max_lba(op));
	if (g->last - g->first < g->blocks - 1)
		argp_error(state, "--range: %llu to %llu has no room for %llu blocks", g->first,
			   g->last, g->blocks);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct gen *g = state->input;

	switch (key) {
	case OPT_OP:
		if (!strcmp(arg, "help")) {
			list_ops(stdout);
			exit(finish_output(EXIT_GOOD));
		}
		g->op = cdb_find_gen(arg);
		if (!g->op)
			argp_error(state, "--op: '%s' is not known; --op help lists them", arg);
		return 0;
	case OPT_BLOCKS:
		g->blocks = option_number(state, "--blocks", arg, 1, 0xffffffff);
		g->has_blocks = true;
		return 0;
	case OPT_COUNT:
		g->count = option_number(state, "--count", arg, 1, COUNT_MAX);
		return 0;
	case OPT_DEVICE:
		g->device = arg;
		return 0;
	case OPT_RANGE:
		parse_range(state, arg, g);
		return 0;
	case OPT_RANDOM:
		g->seed = option_number(state, "--random", arg, 0, ~0ULL);
		g->random = true;
		return 0;
	case OPT_BLOCK_SIZE:
		g->block_size = option_number(state, "--block-size", arg, 1, 1 << 20);
		return 0;
	case OPT_PATTERN:
		g->pattern = arg;
		return 0;
	case OPT_TIMEOUT:
		g->timeout = option_number(state, "--timeout", arg, 1, TIMEOUT_MS_MAX);
		return 0;
	case OPT_JSON:
		g->json = true;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s': no arguments are taken, only options", arg);
		return 0;
	case ARGP_KEY_END:
		check(state, g);
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static void print_json(const char *hex, enum cdb_dir dir, __u32 bytes, const struct gen *g)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "cdb", json_object_new_string(hex));
	json_object_object_add(o, "direction", json_object_new_string(cdb_dir_name(dir)));
	json_object_object_add(o, "bytes", json_object_new_uint64(bytes));
	if (dir == DIR_OUT)
		json_object_object_add(o, "pattern", json_object_new_string(g->pattern));
	if (g->timeout)
		json_object_object_add(o, "timeout", json_object_new_uint64(g->timeout));
	fputs(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN), stdout);
	json_object_put(o);
}

static void print_line(const char *hex, enum cdb_dir dir, __u32 bytes, const struct gen *g)
{
	printf("%s %s %u", hex, cdb_dir_name(dir), bytes);
	if (dir == DIR_OUT)
		printf(" pattern=%s", g->pattern);
	if (g->timeout)
		printf(" timeout=%llu", g->timeout);
	putchar('\n');
}

static void print_command(const struct gen *g, __u64 lba, bool first)
{
	const struct cdb_op *op = g->op;
	char hex[2 * CDB_MAX + 1];
	__u8 cdb[CDB_MAX];
	enum cdb_dir dir = op->dir;
	__u32 bytes = op->bytes;
	unsigned int i;

	cdb_build(op, lba, op->lba_len ? g->blocks : op->bytes, cdb);
	for (i = 0; i < op->len; i++)
		sprintf(hex + 2 * i, "%02x", cdb[i]);
	if (op->flags & CDB_BYTCHK)
		dir = DIR_NONE;
	else if (op->size == SIZE_BLOCKS)
		bytes = g->blocks * g->block_size;
	else if (op->size == SIZE_BLOCK)
		bytes = g->block_size;
	if (!g->json) {
		print_line(hex, dir, bytes, g);
		return;
	}
	fputs(first ? "[\n" : ",\n", stdout);
	print_json(hex, dir, bytes, g);
}

static void generate(const struct gen *g)
{
	__u64 steps = 0, step = 0, state = g->seed, i;

	if (g->op->lba_len) {
		/* One less than the number of possible LBAs, which always fits into 64 bits. */
		steps = (g->last - g->first - (g->blocks - 1)) / g->blocks;
	}
	for (i = 0; i < g->count && !ferror(stdout); i++) {
		if (g->random)
			step = steps == ~0ULL ? prng_next(&state) : prng_below(&state, steps + 1);
		else if (g->op->lba_len)
			step = steps == ~0ULL ? i : i % (steps + 1);
		print_command(g, g->first + g->blocks * step, !i);
	}
	if (g->json)
		fputs("\n]\n", stdout);
}

int cmd_gen(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.doc =
		"Write a command file for --count commands of one kind.\n"
		"Without --random each LBA is --blocks higher than the one before; at the end\n"
		"of the range the LBAs begin again.\n",
	};
	struct gen g = { .blocks = 1, .count = 1 };

	argp_parse(&argp, argc, argv, 0, NULL, &g);
	if (!g.pattern)
		g.pattern = g.op->lba_len ? "lba" : "zero";
	generate(&g);
	return finish_output(EXIT_GOOD);
}
