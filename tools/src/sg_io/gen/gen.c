// SPDX-License-Identifier: GPL-2.0
/* sg_io gen: command files for the usual loads. */
#include <argp.h>
#include <err.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "gen.h"
#include "util.h"
#include "cmdfile/cmdfile.h"
#include "cmdfile/pattern.h"
#include "device/ask.h"

#define COUNT_MAX	(16u << 20)	/* the most commands of a command file */
#define BLOCK_SIZE	512
#define SHARE_MAX	1000000

struct gen {
	struct load load;
	__u64 sizes[MIX_MAX];	/* bytes, as --size gives them */
	__u64 count;
	__u64 timeout;
	__u64 capacity;		/* blocks of the device, 0: not known */
	__u32 block_size;
	const char *device;
	const char *pattern;
	bool has_blocks;
	bool has_sizes;
	bool has_range;
	bool json;
};

enum {
	OPT_OP = 256, OPT_BLOCKS, OPT_COUNT, OPT_RANGE, OPT_RANDOM, OPT_BLOCK_SIZE,
	OPT_DEVICE, OPT_PATTERN, OPT_TIMEOUT, OPT_JSON, OPT_SIZE, OPT_ZIPF, OPT_STREAMS,
};

static const struct argp_option options[] = {
	{ "op", OPT_OP, "NAME[:SHARE],...", 0,
	  "Commands to generate, each with its share of them (1); --op help lists them", 0 },
	{ "blocks", OPT_BLOCKS, "N[:SHARE],...", 0, "Blocks per command (1)", 0 },
	{ "size", OPT_SIZE, "BYTES[:SHARE],...", 0, "The same in bytes, for example 4k:3,64k:1",
	  0 },
	{ "count", OPT_COUNT, "N", 0, "Number of commands (1)", 0 },
	{ "device", OPT_DEVICE, "DEV", 0,
	  "Ask this device for its capacity, which becomes the range, and its block size", 0 },
	{ "range", OPT_RANGE, "FIRST:LAST", 0,
	  "Only these LBAs, both included (all of --device; without it from 0 on, as many as the "
	  "commands need)", 0 },
	{ "random", OPT_RANDOM, "SEED", 0,
	  "Random LBAs, FIRST plus a multiple of --blocks; the same SEED makes the same file",
	  0 },
	{ "zipf", OPT_ZIPF, "S", 0,
	  "With --random, a hot spot: the n-th of the most popular places has n^S times fewer "
	  "commands than the first; they are spread over the range", 0 },
	{ "streams", OPT_STREAMS, "N", 0,
	  "Without --random: N sequences in turn, each in a part of the range of its own (1)", 0 },
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
	char buf[DEVICE_STATE];
	struct device dev;

	if (device_find(g->device, &dev) || ask_device(&dev, &a))
		exit(EXIT_DEVICE);
	if (!a.blocks || !a.block_size) {
		warnx("%s: has no capacity in blocks%s", g->device, device_state(&dev, buf));
		exit(EXIT_DEVICE);
	}
	if (g->block_size && g->block_size != a.block_size)
		argp_error(state, "--block-size: %u, but %s has blocks of %u bytes", g->block_size,
			   g->device, a.block_size);
	g->block_size = a.block_size;
	g->capacity = a.blocks;
	if (g->has_range && g->load.last >= a.blocks)
		argp_error(state, "--range: LBA %llu is over the last one of %s, %llu",
			   g->load.last, g->device, a.blocks - 1);
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
	struct load *l = &g->load;
	char first[32];

	if (!colon || (size_t)(colon - arg) >= sizeof(first))
		argp_error(state, "--range: '%s' is not FIRST:LAST", arg);
	memcpy(first, arg, colon - arg);
	first[colon - arg] = '\0';
	if (num_parse_size(first, 0, ~0ULL, &l->first) ||
	    num_parse_size(colon + 1, 0, ~0ULL, &l->last))
		argp_error(state, "--range: '%s' is not FIRST:LAST", arg);
	if (l->first > l->last)
		argp_error(state, "--range: FIRST %llu is after LAST %llu", l->first, l->last);
	g->has_range = true;
}

/* What the members of a mix are called, and how one is taken. */
struct member {
	const char *option;
	void (*take)(struct argp_state *state, const char *text, unsigned int nth, struct gen *g);
};

static void take_op(struct argp_state *state, const char *text, unsigned int nth, struct gen *g)
{
	g->load.ops[nth] = cdb_find_gen(text);
	if (!g->load.ops[nth])
		argp_error(state, "--op: '%s' is not known; --op help lists them", text);
}

static void take_blocks(struct argp_state *state, const char *text, unsigned int nth,
			struct gen *g)
{
	g->load.blocks[nth] = option_number(state, "--blocks", text, 1, 0xffffffff);
}

static void take_size(struct argp_state *state, const char *text, unsigned int nth, struct gen *g)
{
	g->sizes[nth] = option_number(state, "--size", text, 1, DATA_MAX);
}

/* Parses MEMBER[:SHARE],... */
static void parse_mix(struct argp_state *state, const struct member *member, const char *arg,
		      struct mix *m, struct gen *g)
{
	char *list = strdup(arg), *rest = list, *word, *share;

	*m = (struct mix){};
	while ((word = strsep(&rest, ","))) {
		if (m->nr == MIX_MAX)
			argp_error(state, "%s: more than %d", member->option, MIX_MAX);
		share = strchr(word, ':');
		if (share)
			*share++ = '\0';
		m->share[m->nr] = share ? option_number(state, member->option, share, 1,
							SHARE_MAX) : 1;
		m->sum += m->share[m->nr];
		member->take(state, word, m->nr++, g);
	}
	free(list);
}

/* Turns --size into blocks, whose size is known now. */
static void set_blocks(struct argp_state *state, struct gen *g)
{
	unsigned int i;

	for (i = 0; g->has_sizes && i < g->load.size_mix.nr; i++) {
		if (g->sizes[i] % g->block_size)
			argp_error(state, "--size: %llu is no multiple of the block size, %u",
				   g->sizes[i], g->block_size);
		g->load.blocks[i] = g->sizes[i] / g->block_size;
	}
}

/* Whether the commands move data-out. */
static bool is_out(const struct cdb_op *op)
{
	return op->dir == DIR_OUT && !(op->flags & CDB_BYTCHK);
}

static void check_sizes(struct argp_state *state, const struct gen *g, const struct cdb_op *op)
{
	__u64 most = load_most(&g->load);

	if (most > cdb_max_blocks(op))
		argp_error(state, "--%s: %llu is over the limit of %s, %llu",
			   g->has_sizes ? "size" : "blocks", most, op->name, cdb_max_blocks(op));
	if (op->size == SIZE_BLOCKS && !(op->flags & CDB_BYTCHK) &&
	    most * g->block_size > DATA_MAX)
		argp_error(state,
			   "--blocks: %llu blocks of %u bytes are over the limit of %u bytes",
			   most, g->block_size, DATA_MAX);
}

/* Checks the range, or chooses one. @op: the command that reaches the fewest LBAs. */
static void check_range(struct argp_state *state, struct gen *g, const struct cdb_op *op)
{
	struct load *l = &g->load;
	__u64 most = load_most(l);

	if (!g->has_range) {
		l->last = cdb_max_lba(op);
		/*
		 * If the capacity is not known, choose LBAs only from the first blocks, as many as
		 * the commands need: these are likely to exist.
		 */
		if (!g->capacity && (l->random || l->streams > 1) && most <= l->last / g->count)
			l->last = most * g->count - 1;
		if (g->capacity && g->capacity - 1 <= l->last)
			l->last = g->capacity - 1;
		else if (g->capacity)
			warnx("%s cannot address the blocks of %s above LBA %llu", op->name,
			      g->device, l->last);
	}
	if (l->last > cdb_max_lba(op))
		argp_error(state, "--range: LBA %llu is over the limit of %s, %llu", l->last,
			   op->name, cdb_max_lba(op));
	if (l->last - l->first < most - 1)
		argp_error(state, "--range: %llu to %llu has no room for %llu blocks", l->first,
			   l->last, most);
	if (l->streams > 1 && load_part(l) < most)
		argp_error(state, "--streams: %llu to %llu has no room for %u of %llu blocks",
			   l->first, l->last, l->streams, most);
}

/* Checks that need all options. */
static void check(struct argp_state *state, struct gen *g)
{
	const struct cdb_op *op, *lowest = NULL;
	struct load *l = &g->load;
	bool out = false;
	struct pattern p;
	char why[256];
	unsigned int i;

	if (!l->op_mix.nr)
		argp_error(state, "--op NAME is needed; --op help lists them");
	if (g->has_blocks && g->has_sizes)
		argp_error(state, "--blocks and --size exclude each other");
	if (l->random && l->streams > 1)
		argp_error(state, "--random and --streams exclude each other");
	if (l->zipf && !l->random)
		argp_error(state, "--zipf needs --random SEED");
	for (i = 0; i < l->op_mix.nr; i++) {
		op = l->ops[i];
		out |= is_out(op);
		if (op->lba_len && (!lowest || cdb_max_lba(op) < cdb_max_lba(lowest)))
			lowest = op;
	}
	op = l->ops[0];
	if (!lowest && (g->has_range || l->random || l->streams > 1))
		argp_error(state, "--%s: %s has no LBA", g->has_range ? "range" : l->random ?
			   "random" : "streams", op->name);
	if (g->device)
		ask(state, g);
	if (!g->block_size)
		g->block_size = BLOCK_SIZE;
	set_blocks(state, g);
	if (!lowest && (g->has_blocks || g->has_sizes))
		argp_error(state, "--%s: %s moves no blocks", g->has_sizes ? "size" : "blocks",
			   op->name);
	for (i = 0; i < l->op_mix.nr; i++)
		if (l->ops[i]->lba_len)
			check_sizes(state, g, l->ops[i]);
	if (g->pattern && !out)
		argp_error(state, "--pattern: %s has no data-out", op->name);
	if (g->pattern && !pattern_parse(g->pattern, &p, why, sizeof(why)))
		argp_error(state, "--pattern: %s", why);
	if (lowest)
		check_range(state, g, lowest);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	static const struct member ops = { "--op", take_op }, blocks = { "--blocks", take_blocks },
				   sizes = { "--size", take_size };
	struct gen *g = state->input;
	struct load *l = &g->load;

	switch (key) {
	case OPT_OP:
		if (!strcmp(arg, "help")) {
			list_ops(stdout);
			exit(finish_output(EXIT_GOOD));
		}
		parse_mix(state, &ops, arg, &l->op_mix, g);
		return 0;
	case OPT_BLOCKS:
		parse_mix(state, &blocks, arg, &l->size_mix, g);
		g->has_blocks = true;
		return 0;
	case OPT_SIZE:
		parse_mix(state, &sizes, arg, &l->size_mix, g);
		g->has_sizes = true;
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
		l->seed = option_number(state, "--random", arg, 0, ~0ULL);
		l->random = true;
		return 0;
	case OPT_ZIPF:
		l->zipf = option_real(state, "--zipf", arg, 100, "");
		return 0;
	case OPT_STREAMS:
		l->streams = option_number(state, "--streams", arg, 1, STREAMS_MAX);
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

static const char *pattern_of(const struct gen *g, const struct cdb_op *op)
{
	return g->pattern ? g->pattern : op->lba_len ? "lba" : "zero";
}

static void print_json(const char *hex, const struct cdb_op *op, enum cdb_dir dir, __u32 bytes,
		       const struct gen *g)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "cdb", json_object_new_string(hex));
	json_object_object_add(o, "direction", json_object_new_string(cdb_dir_name(dir)));
	json_object_object_add(o, "bytes", json_object_new_uint64(bytes));
	if (dir == DIR_OUT)
		json_object_object_add(o, "pattern", json_object_new_string(pattern_of(g, op)));
	if (g->timeout)
		json_object_object_add(o, "timeout", json_object_new_uint64(g->timeout));
	fputs(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN), stdout);
	json_object_put(o);
}

static void print_line(const char *hex, const struct cdb_op *op, enum cdb_dir dir, __u32 bytes,
		       const struct gen *g)
{
	printf("%s %s %u", hex, cdb_dir_name(dir), bytes);
	if (dir == DIR_OUT)
		printf(" pattern=%s", pattern_of(g, op));
	if (g->timeout)
		printf(" timeout=%llu", g->timeout);
	putchar('\n');
}

static void print_command(const struct gen *g, const struct load_command *cmd, bool first)
{
	const struct cdb_op *op = cmd->op;
	enum cdb_dir dir = op->dir;
	char hex[2 * CDB_MAX + 1];
	__u32 bytes = op->bytes;
	__u8 cdb[CDB_MAX];
	unsigned int i;

	cdb_build(op, cmd->lba, op->lba_len ? cmd->blocks : op->bytes, cdb);
	for (i = 0; i < op->len; i++)
		sprintf(hex + 2 * i, "%02x", cdb[i]);
	if (op->flags & CDB_BYTCHK)
		dir = DIR_NONE;
	else if (op->size == SIZE_BLOCKS)
		bytes = cmd->blocks * g->block_size;
	else if (op->size == SIZE_BLOCK)
		bytes = g->block_size;
	if (!g->json) {
		print_line(hex, op, dir, bytes, g);
		return;
	}
	fputs(first ? "[\n" : ",\n", stdout);
	print_json(hex, op, dir, bytes, g);
}

static int generate(const struct gen *g)
{
	struct choice *c = choice_new(&g->load);
	struct load_command cmd;
	__u64 i;

	if (!c) {
		warnx("no memory");
		return EXIT_DEVICE;
	}
	for (i = 0; i < g->count && !ferror(stdout); i++) {
		choice_next(c, &cmd);
		print_command(g, &cmd, !i);
	}
	if (g->json)
		fputs("\n]\n", stdout);
	free(c);
	return EXIT_GOOD;
}

int cmd_gen(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.doc =
		"Write a command file for --count commands.\n"
		"Without --random each LBA is where the command before ended; at the end of the\n"
		"range the LBAs begin again. A command of a mix is drawn at random, too: SHAREs\n"
		"of 70 and 30 make about 70 and 30 of 100 commands.\v"
		"Example, with a few places far more popular than the others:\n"
		"  sg_io gen --device /dev/sg0 --op read10:70,write10:30 --size 4k:3,64k:1 \\\n"
		"          --random 1 --zipf 1.2 --count 10000 >mixed.cdb\n",
	};
	struct gen g = { .count = 1 };

	g.load.streams = 1;
	g.load.blocks[0] = 1;
	g.load.size_mix = (struct mix){ .nr = 1, .share = { 1 }, .sum = 1 };
	argp_parse(&argp, argc, argv, 0, NULL, &g);
	return finish_output(generate(&g));
}
