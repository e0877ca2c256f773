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
};

struct verify {
	struct written written;
	struct cmdfile reads;
	size_t *first;			/* for each READ: the extent in which it begins */
	__u64 memory;			/* limit for the READs, in bytes */
	bool over;			/* @memory was not enough */
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
	cdb_build(op, lba, blocks, cmd->cdb);
	if (cmd->bytes > reads->max_in)
		reads->max_in = cmd->bytes;
	return true;
}

/*
 * Makes READs of all blocks whose data is known. Each is as large as possible: it may cover several
 * extents.
 */
static int make_reads(struct verify *v, __u64 most)
{
	const struct written *w = &v->written;
	__u64 lba = 0, blocks = 0, at, n;
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
	v->reads.data = dataset_new(NULL, 0, false);
	if (v->reads.data)
		return 0;
	warnx("no memory");
	return -1;
}

static void add_difference(struct verify *v, __u64 lba, __u32 line, const __u8 *found,
			   const __u8 *expected)
{
	struct difference *d = v->nr ? &v->list[v->nr - 1] : NULL;
	struct difference *bigger;
	size_t room;
	__u32 i;

	v->differ++;
	if (d && d->lba + d->blocks == lba && d->line == line) {
		d->blocks++;
		return;
	}
	if (v->nr == v->room) {
		room = v->room ? v->room * 2 : 64;
		bigger = realloc(v->list, room * sizeof(*bigger));
		if (!bigger) {
			v->short_list = true;
			return;
		}
		v->list = bigger;
		v->room = room;
	}
	for (i = 0; found[i] == expected[i]; i++)
		;
	v->list[v->nr++] = (struct difference){
		.lba = lba, .blocks = 1, .line = line, .offset = i,
		.expected = expected[i], .found = found[i],
	};
}

/* Checks the data of a READ that did not fail. */
static void check(struct run *run, const struct request *rq)
{
	struct verify *v = run->check_arg;
	const struct written *w = &v->written;
	size_t nth = rq->cmd - v->reads.cmds;
	const struct extent *e = &w->extents[v->first[nth]];
	const struct cdb_op *op = cdb_find(rq->cmd->cdb, rq->cmd->cdb_len);
	__u64 lba = cdb_lba(op, rq->cmd->cdb), end = lba + cdb_blocks(op, rq->cmd->cdb);
	const __u8 *found = rq->in, *expected;

	pthread_mutex_lock(&v->lock);
	v->read += end - lba;
	for (; lba < end; lba++, found += w->block_size) {
		/* Skip extents before this LBA; and those with unknown data, which are not read. */
		while (lba >= e->lba + e->blocks || !e->known)
			e++;
		expected = written_block(w, e, lba);
		if (memcmp(found, expected, w->block_size))
			add_difference(v, lba, w->file->cmds[e->cmd].line, found, expected);
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
		if (v->list[kept].lba + v->list[kept].blocks == v->list[i].lba &&
		    v->list[kept].line == v->list[i].line)
			v->list[kept].blocks += v->list[i].blocks;
		else
			v->list[++kept] = v->list[i];
	}
	v->nr = kept + 1;
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
		printf(", line %u: byte %u%s is %02Xh, not %02Xh\n", d->line, d->offset,
		       d->blocks == 1 ? "" : " of the first", d->found, d->expected);
	}
	if (v->short_list)
		puts("  (no memory to list all)");
	for (k = 0; k < r->tally.nr; k++) {
		outcome_describe(&r->tally.entries[k].what, text, sizeof(text));
		printf("  READ: %llu x %s; first for line %u\n", r->tally.entries[k].count, text,
		       r->tally.entries[k].line);
	}
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
		json_object_array_add(list, one);
	}
	json_object_object_add(o, "differences", list);
	report_print(o);
}

static int report(const struct run *run, const struct result *r)
{
	struct verify *v = run->check_arg;
	bool differ;

	/* If the monitor has stopped waiting, READs may still end and add differences. */
	pthread_mutex_lock(&v->lock);
	sort_differences(v);
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
	n = sysfs_number(dev->queue, "max_hw_sectors_kb");
	*most = (n > 0 && n << 10 < READ_BYTES ? n << 10 : READ_BYTES) / *block_size;
	/* Each page of a buffer may be a segment of its own. */
	n = sysfs_number(dev->queue, "max_segments");
	if (n > 0 && *most > (__u64)n * sysconf(_SC_PAGESIZE) / *block_size)
		*most = (__u64)n * sysconf(_SC_PAGESIZE) / *block_size;
	if (!*most)
		*most = 1;
	return 0;
}

static int prepare(struct verify *v, const struct run_options *opt, const struct cmdfile *file)
{
	__u64 last_lba, most;
	struct device dev;
	__u32 block_size;

	if (device_find(opt->devs[0], &dev) || ask_blocks(&dev, &block_size, &last_lba, &most))
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
	if (make_reads(v, most))
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
	const char *args[2];
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

/* With --map the devices are its targets, and FILE is the only argument. */
static void take_args(struct argp_state *state, struct verify_options *v)
{
	struct run_options *o = &v->run;

	if (v->maps.nr) {
		if (v->nr_args != 1)
			argp_error(state, "--map names the devices: FILE is the only argument");
		o->devs[0] = v->maps.targets[0].name;
		o->file = v->args[0];
	} else {
		if (!v->nr_args)
			argp_error(state, "DEV and FILE are missing");
		if (v->nr_args < 2)
			argp_error(state, "only '%s' given: DEV or FILE is missing", v->args[0]);
		o->devs[0] = v->args[0];
		o->file = v->args[1];
	}
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
		if (v->nr_args == 2)
			argp_error(state, "'%s': one device and one file", arg);
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
		.options = options, .parser = parse, .args_doc = "DEV FILE\n--map OLD=NEW... FILE",
		.doc =
		"Compare DEV with what the commands of FILE ('-': standard input) wrote.\v"
		"Nothing is written. Each block that a WRITE, WRITE AND VERIFY, WRITE SAME or\n"
		"COMPARE AND WRITE of FILE has written is read and compared with its data= or\n"
		"pattern=. If several commands wrote a block, the last line counts, as after\n"
		"'sg_io run' with --depth 1. Blocks that were unmapped or formatted afterwards\n"
		"are not compared. Each block that differs is reported, with the line that\n"
		"wrote it.\n"
		"\n"
		"With --map as in 'sg_io replay' each NEW is compared with what went to it;\n"
		"--json prints an object for each.\n"
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
		.memory = opt.run.memory, .maps = opt.maps.nr ? &opt.maps : NULL,
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
