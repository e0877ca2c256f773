// SPDX-License-Identifier: GPL-2.0
/* sg_io verify: checks that the device has the data that the commands of a file wrote. */
#include <err.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "util.h"
#include "written.h"
#include "cmdfile/dataset.h"
#include "cmdfile/map.h"
#include "cmdfile/tag.h"
#include "run/run.h"

#define DEPTH		8
#define READ_BYTES	(256u << 10)	/* of one READ, if the device's limits allow it */
#define READ10_BLOCKS	0xffffu
#define READ_TIMEOUT_MS	TIMEOUT_MS_DEFAULT

/* Adjacent wrong blocks that were written by one command. */
struct difference {
	__u64 lba;
	__u64 blocks;
	__u32 line;
	__u32 offset;		/* of the first wrong byte in the first block */
	__u8 expected;
	__u8 found;
	bool tagged;		/* the expected data has tags: @want and @finding are valid */
	struct tag want;	/* of the first block */
	struct tag_finding finding;	/* of the first block */
	size_t cmd;		/* that should have written the blocks */
	__u64 healed;		/* blocks that had the right data when they were read again */
};

struct verify {
	struct written written;
	struct cmdfile reads;
	size_t *first;			/* for each READ: the extent in which it begins */
	__u64 memory;			/* limit for the READs, in bytes */
	bool over;			/* @memory was not enough */
	__u64 most;			/* blocks of one READ */
	struct difference *again;	/* what is read again, by extent; NULL: the first reading */
	bool reread;			/* the differences have been read again */
	pthread_mutex_t lock;		/* protects the fields below, which several jobs use */
	struct difference *list;
	size_t nr;
	size_t room;
	bool short_list;
	__u64 differ;			/* blocks */
	__u64 read;			/* blocks */
};

/* Doubles @room, the number of READs that fit. Return: the new number; 0 after one message. */
static size_t more_reads(struct verify *v, size_t room)
{
	struct cmdfile *reads = &v->reads;
	void *bigger;

	room = room ? room * 2 : 1024;
	if (room * (sizeof(*reads->cmds) + sizeof(*v->first)) > v->memory) {
		warnx("%s: more than %zu READs of the blocks that it wrote need more than %llu MiB "
		      "(--memory)", v->written.file->name, reads->nr, v->memory >> 20);
		v->over = true;
		return 0;
	}
	bigger = realloc(reads->cmds, room * sizeof(*reads->cmds));
	if (!bigger)
		goto nomem;
	reads->cmds = bigger;
	bigger = realloc(v->first, room * sizeof(*v->first));
	if (!bigger)
		goto nomem;
	v->first = bigger;
	return room;
nomem:
	warnx("no memory for the READs of what was written");
	return 0;
}

static bool add_read(struct verify *v, size_t *room, __u64 lba, __u64 blocks, size_t extent)
{
	struct cmdfile *reads = &v->reads;
	bool small = lba + blocks - 1 <= 0xffffffff && blocks <= READ10_BLOCKS;
	const struct cdb_op *op = cdb_find_gen(small ? "read10" : "read16");
	struct command *cmd;

	if (reads->nr == *room) {
		*room = more_reads(v, *room);
		if (!*room)
			return false;
	}
	v->first[reads->nr] = extent;
	cmd = &reads->cmds[reads->nr++];
	*cmd = (struct command){
		.cdb_len = op->len, .dir = DIR_IN, .cpu = CPU_ANY,
		.bytes = blocks * v->written.block_size, .timeout_ms = READ_TIMEOUT_MS,
		.line = v->written.file->cmds[v->written.extents[extent].cmd].line,
	};
	cdb_build(op, lba, blocks, cdb_of(cmd));
	if (cmd->bytes > reads->max_in)
		reads->max_in = cmd->bytes;
	return true;
}

/*
 * Makes READs of all blocks whose data is known. Each is as large as possible: it may cover several
 * extents.
 */
static int make_reads(struct verify *v)
{
	const struct written *w = &v->written;
	__u64 lba = 0, blocks = 0, most = v->most, at, n;
	size_t i, first = 0, room = 0;
	const struct extent *e;
	bool ok = true;

	for (i = 0; i < w->nr && ok; i++) {
		e = &w->extents[i];
		if (!e->known)
			continue;
		for (at = e->lba; ok && at < e->lba + e->blocks; at += n) {
			if (blocks && (at != lba + blocks || blocks == most)) {
				ok = add_read(v, &room, lba, blocks, first);
				blocks = 0;
			}
			if (!blocks) {
				lba = at;
				first = i;
			}
			n = e->lba + e->blocks - at;
			if (n > most - blocks)
				n = most - blocks;
			blocks += n;
		}
	}
	if (ok && blocks)
		ok = add_read(v, &room, lba, blocks, first);
	if (!ok)
		return -1;
	v->reads.name = w->file->name;
	v->reads.max_bytes = v->reads.max_in;
	v->reads.max_timeout_ms = READ_TIMEOUT_MS;
	/* READs send no data: do not give the file's data-out buffers to the path. */
	v->reads.data = dataset_new(NULL, 0);
	if (v->reads.data)
		return 0;
	warnx("no memory");
	return -1;
}

/* Says what a block has instead of the tags that it should have. */
static void judge(struct verify *v, struct difference *d, const __u8 *found,
		  const __u8 *expected)
{
	struct written *w = &v->written;
	struct tag_finding *f = &d->finding;
	const struct tag *want = &d->want;

	d->tagged = w->block_size >= TAG_UNIT && tag_read(expected, &d->want);
	if (!d->tagged)
		return;
	tag_judge(found, w->block_size, want, f);
	/* A WRITE SAME writes the LBA of its first block to all its blocks. */
	if (f->verdict == TAG_MISPLACED && f->found.seed == want->seed &&
	    f->found.pass == want->pass && f->found.line < want->line &&
	    written_by_line(w, f->found.line, d->lba, found))
		f->verdict = TAG_STALE;
}

/* Whether @next can be reported together with @d, the difference before. */
static bool continues(const struct difference *d, const struct difference *next)
{
	const struct tag_finding *a = &d->finding, *b = &next->finding;
	struct tag moved = a->found;

	if (d->lba + d->blocks != next->lba || d->cmd != next->cmd)
		return false;
	if (!d->tagged)
		return true;
	if (a->verdict != b->verdict || a->verdict == TAG_TORN)
		return false;
	if (a->verdict == TAG_EMPTY || a->verdict == TAG_CORRUPT)
		return true;
	/* The blocks of a WRITE SAME have the same LBA in their tags. */
	if (tag_equal(&a->found, &b->found))
		return true;
	moved.lba += d->blocks;
	return tag_equal(&moved, &b->found);
}

static void add_difference(struct verify *v, __u64 lba, size_t cmd, const __u8 *found,
			   const __u8 *expected)
{
	struct difference *d = v->nr ? &v->list[v->nr - 1] : NULL;
	struct difference next = {
		.lba = lba, .blocks = 1, .line = v->written.file->cmds[cmd].line, .cmd = cmd,
	};
	__u32 i;

	v->differ++;
	judge(v, &next, found, expected);
	if (d && continues(d, &next)) {
		d->blocks++;
		return;
	}
	if (!array_make_room(&v->list, sizeof(*v->list), v->nr, &v->room)) {
		v->short_list = true;
		return;
	}
	for (i = 0; found[i] == expected[i]; i++)
		;
	next.offset = i;
	next.expected = expected[i];
	next.found = found[i];
	v->list[v->nr++] = next;
}

/* Checks the data of a READ that did not fail. */
static void check(struct run *run, const struct request *rq)
{
	struct verify *v = run->check_arg;
	struct written *w = &v->written;
	size_t nth = rq->cmd - v->reads.cmds;
	const struct extent *e = &w->extents[v->first[nth]];
	const struct cdb_op *op = cdb_find(cdb_of(rq->cmd), rq->cmd->cdb_len);
	__u64 lba = cdb_lba(op, cdb_of(rq->cmd)), end = lba + cdb_blocks(op, cdb_of(rq->cmd));
	const __u8 *found = rq->buffer, *expected;
	bool same;

	pthread_mutex_lock(&v->lock);
	v->read += end - lba;
	for (; lba < end; lba++, found += w->block_size) {
		/* Skip extents before this LBA; and those with unknown data, which are not read. */
		while (lba >= e->lba + e->blocks || !e->known)
			e++;
		expected = written_block(w, e, lba);
		same = !memcmp(found, expected, w->block_size);
		if (v->again)
			v->again[e - w->extents].healed += same;
		else if (!same)
			add_difference(v, lba, e->cmd, found, expected);
	}
	pthread_mutex_unlock(&v->lock);
}

static int by_lba(const void *a, const void *b)
{
	const struct difference *x = a, *y = b;

	return (x->lba > y->lba) - (x->lba < y->lba);
}

/* Sorts the differences, and joins adjacent ones that two READs found. */
static void sort_differences(struct verify *v)
{
	size_t i, kept = 0;

	if (!v->nr)
		return;
	qsort(v->list, v->nr, sizeof(*v->list), by_lba);
	for (i = 1; i < v->nr; i++) {
		if (continues(&v->list[kept], &v->list[i]))
			v->list[kept].blocks += v->list[i].blocks;
		else
			v->list[++kept] = v->list[i];
	}
	v->nr = kept + 1;
}

static void put_tag(const struct tag *t, bool blank, const struct difference *d)
{
	if (blank) {
		fputs("zeroes", stdout);
		return;
	}
	printf("line %u", t->line);
	if (d->want.seed != t->seed || d->want.pass != t->pass)
		printf(" of pass %u, seed %llu", t->pass, t->seed);
	if (t->lba != d->lba)
		printf(" for LBA %llu", t->lba);
}

/* What a block has, which should have tags: "stale, has line 3". */
static void put_finding(const struct difference *d)
{
	const struct tag_finding *f = &d->finding;

	printf("%s", tag_verdict_name(f->verdict));
	switch (f->verdict) {
	case TAG_STALE:
	case TAG_MISPLACED:
	case TAG_OTHER:
		fputs(", has ", stdout);
		put_tag(&f->found, false, d);
		break;
	case TAG_TORN:
		fputs(", has ", stdout);
		put_tag(&f->found, f->blank, d);
		printf(", from byte %u on ", f->at);
		put_tag(&f->next, f->next_blank, d);
		break;
	case TAG_EMPTY:
		fputs(", has zeroes", stdout);
		break;
	case TAG_CORRUPT:
		printf(", byte %u%s is %02Xh, not %02Xh", d->offset,
		       d->blocks == 1 ? "" : " of the first", d->found, d->expected);
		break;
	}
}

static void put_healed(const struct difference *d)
{
	if (d->healed == d->blocks)
		fputs("; read again: healed", stdout);
	else if (d->healed)
		printf("; read again: %llu of %llu healed", d->healed, d->blocks);
	else
		fputs("; read again: not healed", stdout);
}

static void show_text(const struct verify *v, const struct result *r)
{
	const struct written *w = &v->written;
	const struct difference *d;
	char text[512];
	unsigned int k;

	printf("%s via %s: %llu of the %llu blocks that %s writes have the data it wrote last, "
	       "%llu differ, %llu could not be read\n",
	       r->opt->devs[0], r->path, v->read - v->differ, w->blocks, w->file->name, v->differ,
	       w->blocks - v->read);
	for (d = v->list; d < v->list + v->nr; d++) {
		if (d->blocks == 1)
			printf("  LBA %llu", d->lba);
		else
			printf("  LBA %llu to %llu", d->lba, d->lba + d->blocks - 1);
		printf(", line %u: ", d->line);
		if (d->tagged)
			put_finding(d);
		else
			printf("byte %u%s is %02Xh, not %02Xh", d->offset,
			       d->blocks == 1 ? "" : " of the first", d->found, d->expected);
		if (v->reread)
			put_healed(d);
		putchar('\n');
	}
	if (v->short_list)
		puts("  (no memory to list all)");
	for (k = 0; k < r->tally.nr; k++) {
		outcome_describe(&r->tally.entries[k].what, text, sizeof(text));
		printf("  READ: %llu x %s; first for line %u\n", r->tally.entries[k].count, text,
		       r->tally.entries[k].line);
	}
}

static struct json_object *tag_json(const struct tag *t)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "lba", json_object_new_uint64(t->lba));
	json_object_object_add(o, "seed", json_object_new_uint64(t->seed));
	json_object_object_add(o, "pass", json_object_new_uint64(t->pass));
	json_object_object_add(o, "line", json_object_new_uint64(t->line));
	return o;
}

/* The members that only blocks with tags have; null for other blocks. */
static void add_finding(struct json_object *o, const struct difference *d)
{
	const struct tag_finding *f = &d->finding;
	struct json_object *verdict = NULL, *tags = json_object_new_array();
	bool torn = d->tagged && f->verdict == TAG_TORN;

	if (d->tagged)
		verdict = json_object_new_string(tag_verdict_name(f->verdict));
	json_object_object_add(o, "verdict", verdict);
	if (d->tagged && f->verdict != TAG_CORRUPT && f->verdict != TAG_EMPTY)
		json_object_array_add(tags, f->blank ? NULL : tag_json(&f->found));
	if (torn)
		json_object_array_add(tags, f->next_blank ? NULL : tag_json(&f->next));
	json_object_object_add(o, "tags", tags);
	json_object_object_add(o, "torn_at", torn ? json_object_new_uint64(f->at) : NULL);
}

static void show_json(const struct verify *v, const struct result *r)
{
	struct json_object *o = report_object(r), *list = json_object_new_array(), *one;
	const struct difference *d;

	json_object_object_add(o, "blocks", json_object_new_uint64(v->written.blocks));
	json_object_object_add(o, "differ", json_object_new_uint64(v->differ));
	json_object_object_add(o, "unread", json_object_new_uint64(v->written.blocks - v->read));
	for (d = v->list; d < v->list + v->nr; d++) {
		one = json_object_new_object();
		json_object_object_add(one, "lba", json_object_new_uint64(d->lba));
		json_object_object_add(one, "blocks", json_object_new_uint64(d->blocks));
		json_object_object_add(one, "line", json_object_new_uint64(d->line));
		json_object_object_add(one, "offset", json_object_new_uint64(d->offset));
		json_object_object_add(one, "found", json_object_new_int(d->found));
		json_object_object_add(one, "expected", json_object_new_int(d->expected));
		add_finding(one, d);
		json_object_object_add(one, "healed",
				       v->reread ? json_object_new_uint64(d->healed) : NULL);
		json_object_array_add(list, one);
	}
	json_object_object_add(o, "differences", list);
	report_print(o);
}

static int report_nothing(const struct run *run, const struct result *r)
{
	(void)run;
	(void)r;
	return 0;
}

/* Reads the blocks that differ once more, and counts those that have the right data now. */
static void read_again(struct verify *v, const struct run_options *opt)
{
	struct verify again = {
		.lock = PTHREAD_MUTEX_INITIALIZER, .memory = v->memory, .most = v->most,
		.again = v->list,
		.written = v->written,
	};
	struct run run = { .check = check, .check_arg = &again };
	struct run_options once = *opt;
	struct device dev;
	int taken_fd = -1;
	size_t i;

	again.written.nr = 0;
	again.written.extents = calloc(v->nr, sizeof(struct extent));
	if (!again.written.extents) {
		warnx("no memory to read the differences again");
		return;
	}
	for (i = 0; i < v->nr; i++)
		again.written.extents[again.written.nr++] = (struct extent){
			.lba = v->list[i].lba, .blocks = v->list[i].blocks,
			.cmd = v->list[i].cmd, .known = true,
		};
	if (!make_reads(&again) && !run_prepare(&run, &once, &again.reads, &dev, &taken_fd)) {
		run_execute(&run, &once, report_nothing);
		v->reread = true;
	}
	free(run.targets);
	cmdfile_free(&again.reads);
	free(again.first);
	free(again.written.extents);
	/* The data that was made last is now what @again has made. */
	memcpy(v->written.made, again.written.made, sizeof(v->written.made));
}

static int report(const struct run *run, const struct result *r)
{
	struct verify *v = run->check_arg;
	bool differ;

	/* If the monitor has stopped waiting, READs may still end and add differences. */
	pthread_mutex_lock(&v->lock);
	sort_differences(v);
	if (v->nr && !atomic_load(&run->stop))
		read_again(v, r->opt);
	if (r->opt->json)
		show_json(v, r);
	else
		show_text(v, r);
	differ = v->differ;
	pthread_mutex_unlock(&v->lock);
	return differ ? EXIT_NOT_GOOD : 0;
}

/* Finds the size and number of the blocks; they are known only if the device has a disk driver. */
static int ask_blocks(const struct device *dev, __u32 *block_size, __u64 *last_lba,
		      __u64 *most)
{
	char disk[200];
	__s64 n = dev->queue[0] ? sysfs_number(dev->queue, "logical_block_size") : -1;

	if (n <= 0) {
		warnx("%s: no disk whose blocks could be compared", dev->given);
		return EXIT_DEVICE;
	}
	*block_size = n;
	snprintf(disk, sizeof(disk), "%s/..", dev->queue);
	n = sysfs_number(disk, "size");
	*last_lba = n > 0 ? ((__u64)n << 9) / *block_size - 1 : ~0ULL;
	*most = device_max_bytes(dev);
	*most = (*most < READ_BYTES ? *most : READ_BYTES) / *block_size;
	if (!*most)
		*most = 1;
	return 0;
}

static int prepare(struct verify *v, const struct run_options *opt, const struct cmdfile *file)
{
	struct device dev;
	__u32 block_size;
	__u64 last_lba;

	if (device_find(opt->devs[0], &dev) || ask_blocks(&dev, &block_size, &last_lba, &v->most))
		return EXIT_DEVICE;
	if (written_find(file, block_size, last_lba, &v->written))
		return EXIT_USAGE;
	if (v->written.unclear)
		warnx("%s: what %llu commands wrote, if anything, is not known", file->name,
		      v->written.unclear);
	if (!v->written.blocks) {
		warnx("%s: writes no block that could be compared", file->name);
		return EXIT_USAGE;
	}
	if (make_reads(v))
		return v->over ? EXIT_USAGE : EXIT_DEVICE;
	return 0;
}

static int verify(const struct run_options *opt, const struct cmdfile *file)
{
	struct verify v = { .lock = PTHREAD_MUTEX_INITIALIZER, .memory = opt->memory };
	struct run run = { .check = check, .check_arg = &v };
	int status = prepare(&v, opt, file), taken_fd = -1;
	struct device dev;

	if (!status)
		status = run_prepare(&run, opt, &v.reads, &dev, &taken_fd);
	if (!status)
		status = run_execute(&run, opt, report);
	free(run.targets);
	cmdfile_free(&v.reads);
	free(v.first);
	free(v.list);
	written_free(&v.written);
	return status;
}

struct verify_options {
	struct run_options run;
	struct maps maps;
	const char *args[MAX_DEVICES + 1];
	unsigned int nr_args;
};

/* Verifies each target of --map, by the commands that went to it. */
static int verify_targets(struct verify_options *opt, const struct cmdfile *file)
{
	struct cmdfile one = *file;
	int status = EXIT_GOOD, ret;
	unsigned int t;
	size_t i;

	one.cmds = calloc(file->nr, sizeof(*one.cmds));
	if (!one.cmds) {
		warnx("no memory");
		return EXIT_DEVICE;
	}
	for (t = 0; t < opt->maps.nr_targets; t++) {
		for (one.nr = 0, i = 0; i < file->nr; i++)
			if (file->cmds[i].dev == t)
				one.cmds[one.nr++] = file->cmds[i];
		opt->run.devs[0] = opt->maps.targets[t].name;
		ret = one.nr ? verify(&opt->run, &one) : EXIT_GOOD;
		if (ret > status)
			status = ret;
		if (ret > EXIT_NOT_GOOD)
			break;
	}
	free(one.cmds);
	return status;
}

enum {
	OPT_VIA = 256, OPT_DEPTH, OPT_JOBS, OPT_MEMORY, OPT_JSON, OPT_MAP,
};

static void take_args(struct argp_state *state, struct verify_options *v)
{
	struct run_options *o = &v->run;

	o->file = map_take_args(state, v->args, v->nr_args, &v->maps);
	o->devs[0] = v->maps.nr ? v->maps.targets[0].name : v->args[0];
	o->nr_devs = 1;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct verify_options *v = state->input;
	struct run_options *o = &v->run;

	switch (key) {
	case OPT_MAP:
		map_add(state, arg, &v->maps);
		return 0;
	case OPT_VIA:
		o->via = run_find_path(arg, strlen(arg));
		if (!o->via)
			argp_error(state, "--via: '%s' is not sg, bsg, bsg-uring, smq or block",
				   arg);
		return 0;
	case OPT_DEPTH:
		o->depth = option_number(state, "--depth", arg, 1, 4096);
		return 0;
	case OPT_JOBS:
		o->jobs = option_number(state, "--jobs", arg, 1, 1024);
		return 0;
	case OPT_MEMORY:
		o->memory = option_number(state, "--memory", arg, 1, 1 << 20) << 20;
		return 0;
	case OPT_JSON:
		o->json = true;
		return 0;
	case ARGP_KEY_ARG:
		if (v->nr_args == ARRAY_SIZE(v->args))
			argp_error(state, "more than %d devices", MAX_DEVICES);
		v->args[v->nr_args++] = arg;
		return 0;
	case ARGP_KEY_END:
		take_args(state, v);
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

int cmd_verify(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "via", OPT_VIA, "PATH", 0,
		  "sg, bsg, bsg-uring, smq or block (the path of the kind of node given)", 1 },
		{ "map", OPT_MAP, "OLD=NEW[,offset=BLOCKS][,scale=X]", 0, map_help, 1 },
		{ "depth", OPT_DEPTH, "N", 0, "READs that each job has in flight (8)", 1 },
		{ "jobs", OPT_JOBS, "N", 0, "Threads that share the work (1)", 1 },
		{ "memory", OPT_MEMORY, "MIB", 0, "Limit of the memory for data (1024)", 2 },
		{ "json", OPT_JSON, NULL, 0, "One JSON object on standard output", 2 },
		{ 0 }
	};
	static const struct argp argp = {
		.options = options, .parser = parse,
		.args_doc = "DEV... FILE\n--map OLD=NEW... [DEV...] FILE",
		.doc =
		"Compare DEV with what the commands of FILE ('-': standard input) wrote.\v"
		"Nothing is written. Each block that a WRITE, WRITE AND VERIFY, WRITE SAME or\n"
		"COMPARE AND WRITE of FILE has written is read and compared with its data= or\n"
		"pattern=. If several commands wrote a block, the last line counts, as after\n"
		"'sg_io run' with --depth 1. Blocks that were unmapped or formatted afterwards\n"
		"are not compared. Each block that differs is reported, with the line that\n"
		"wrote it. Blocks that differ are read once more, and the report says whether\n"
		"they healed.\n"
		"\n"
		"A block that pattern=tag wrote says which write it is from. So the report\n"
		"says of a block that should have a tag: stale, from an earlier line of FILE;\n"
		"empty, only zeroes; misplaced, written for another LBA; other, from a later\n"
		"write or one with another seed; torn, parts of several writes; or corrupt.\n"
		"\n"
		"With several DEVs or --map as in 'sg_io replay' each device is compared with\n"
		"what went to it; --json prints an object for each.\n"
		"\n"
		"Example:\n"
		"  sg_io gen --op write10 --count 100 --pattern random:1 >writes.cdb\n"
		"  sg_io run /dev/sg0 writes.cdb\n"
		"  sg_io verify /dev/sg0 writes.cdb\n"
		"\n"
		"Exit status: 0 all blocks have that data, 1 some differ or could not be read.\n"
		"'sg_io --help' describes the format of FILE and the other exit statuses.\n",
	};
	struct verify_options opt = {
		.run = { .depth = DEPTH, .batch = 1, .jobs = 1, .memory = 1024ULL << 20 },
		.maps.to_us = ~0ULL,
	};
	struct cmdfile_options how;
	struct cmdfile file;
	int status;

	argp_parse(&argp, argc, argv, 0, NULL, &opt);
	/* The file is read with all checks, so that the data of each block is known. */
	how = (struct cmdfile_options){
		.make_later = true, .memory = opt.run.memory,
		.maps = opt.maps.nr ? &opt.maps : NULL,
	};
	if (!device_comes_first(opt.run.devs[0]))
		return EXIT_USAGE;
	status = map_find_targets(&opt.maps);
	if (status)
		return status;
	if (cmdfile_load(opt.run.file, &how, &file))
		return EXIT_USAGE;
	status = opt.maps.nr ? verify_targets(&opt, &file) : verify(&opt.run, &file);
	cmdfile_free(&file);
	return status;
}
