// SPDX-License-Identifier: GPL-2.0
/*
 * sg_io readback: for sg_io's own use, so --help does not list it. Reads a device back for sg_io
 * verify: judge/verify.py says which blocks, and judges those that differ from what the commands of
 * a file wrote.
 */
#include <err.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "issue/cmdfile/dataset.h"
#include "issue/cmdfile/map.h"
#include "issue/run/run.h"
#include "util.h"
#include "written.h"

#define READ_BYTES	(256u << 10)	/* of one READ, if the device's limits allow it */
#define READ10_BLOCKS	0xffffu
#define READ_TIMEOUT_MS	TIMEOUT_MS_DEFAULT

/* What the Python part asks for: these, then the extents, and the READs of them. */
struct request_head {
	__u32 dev;
	__u32 same;		/* blocks with the right data are sent, not those with other data */
	__u64 nr_extents;
	__u64 nr_reads;
};

struct part {			/* of the medium, last written by one command */
	__u64 lba;
	__u64 end;
	__u64 cmd;
};

struct part_read {
	__u64 lba;
	__u32 blocks;
	__u32 part;		/* in which it begins */
};

/* What the Python part gets: a head, and @nr blocks or characters of JSON. */
enum answer { ANSWER_BLOCKS, ANSWER_RESULT, ANSWER_STATUS };

struct answer_head {
	__u32 kind;
	__u32 nr;
};

/* Each block: this, the data that was found, and the data that the file wrote. */
struct block_head {
	__u64 lba;
	__u64 part;
};

struct readback {
	struct maps maps;
	const char *args[MAX_DEVICES + 1];
	unsigned int nr_args;
	struct run_options opt;
	struct written written;
	FILE *in;
	FILE *out;
	pthread_mutex_t lock;		/* protects @out, @read and @written, which jobs use */
	struct request_head ask;
	struct part *parts;
	struct part_read *list;
	struct cmdfile reads;
	__u64 read;			/* blocks */
};

static void answer(struct readback *b, enum answer kind, __u32 nr)
{
	const struct answer_head head = { kind, nr };

	fwrite(&head, sizeof(head), 1, b->out);
}

/* Goes through the blocks of a READ. Return: how many are to be sent; sends them if @send. */
static __u32 go_through(struct readback *b, const struct part_read *r, const __u8 *found,
			bool send)
{
	struct written *w = &b->written;
	const struct part *p = &b->parts[r->part];
	__u32 size = w->disks[b->ask.dev].block_size, nr = 0;
	struct block_head head = { .lba = r->lba };
	const void *expected;

	for (; head.lba < r->lba + r->blocks; head.lba++, found += size) {
		while (head.lba >= p->end)
			p++;
		expected = written_block(w, &w->file->cmds[p->cmd], head.lba);
		if ((memcmp(found, expected, size) == 0) != b->ask.same)
			continue;
		nr++;
		if (!send)
			continue;
		head.part = p - b->parts;
		fwrite(&head, sizeof(head), 1, b->out);
		fwrite(found, size, 1, b->out);
		fwrite(expected, size, 1, b->out);
	}
	return nr;
}

/* Checks the data of a READ that did not fail. */
static void check(struct run *run, const struct request *rq)
{
	struct readback *b = run->check_arg;
	const struct part_read *r = &b->list[rq->cmd - b->reads.cmds];
	__u32 nr;

	pthread_mutex_lock(&b->lock);
	b->read += r->blocks;
	nr = go_through(b, r, rq->buffer, false);
	if (nr) {
		answer(b, ANSWER_BLOCKS, nr);
		go_through(b, r, rq->buffer, true);
	}
	pthread_mutex_unlock(&b->lock);
}

static int report(const struct run *run, const struct result *r)
{
	struct readback *b = run->check_arg;
	struct json_object *o = report_object(r);
	const char *text;

	/* If the monitor has stopped waiting, READs may still end. */
	pthread_mutex_lock(&b->lock);
	json_object_object_add(o, "read", json_object_new_uint64(b->read));
	text = json_object_to_json_string(o);
	answer(b, ANSWER_RESULT, strlen(text));
	fputs(text, b->out);
	fflush(b->out);
	pthread_mutex_unlock(&b->lock);
	json_object_put(o);
	return 0;
}

/* Makes the commands of the READs. */
static bool make_reads(struct readback *b)
{
	struct cmdfile *reads = &b->reads;
	const struct command *from;
	const struct part_read *r;
	const struct cdb_op *op;
	struct command *cmd;

	*reads = (struct cmdfile){
		.name = b->written.file->name, .nr = b->ask.nr_reads,
		.max_timeout_ms = READ_TIMEOUT_MS, .data = dataset_new(NULL, 0),
		.cmds = calloc(b->ask.nr_reads, sizeof(*reads->cmds)),
	};
	if (!reads->data || !reads->cmds)
		return false;
	for (r = b->list; r < b->list + reads->nr; r++) {
		op = cdb_find_gen(r->lba + r->blocks - 1 <= 0xffffffff &&
				  r->blocks <= READ10_BLOCKS ? "read10" : "read16");
		from = &b->written.file->cmds[b->parts[r->part].cmd];
		cmd = &reads->cmds[r - b->list];
		*cmd = (struct command){
			.cdb_len = op->len, .dir = DIR_IN, .cpu = CPU_ANY, .line = from->line,
			.bytes = r->blocks * b->written.disks[b->ask.dev].block_size,
			.timeout_ms = READ_TIMEOUT_MS,
		};
		cdb_build(op, r->lba, r->blocks, cdb_of(cmd));
		if (cmd->bytes > reads->max_in)
			reads->max_in = cmd->bytes;
	}
	reads->max_bytes = reads->max_in;
	return true;
}

/* Reads an array; NULL without memory, or if the Python part has ended. */
static void *take(struct readback *b, size_t nr, size_t size)
{
	void *array = calloc(nr, size);

	if (array && fread(array, size, nr, b->in) == nr)
		return array;
	free(array);
	return NULL;
}

/* Reads the blocks that the Python part asks for. */
static int serve(struct readback *b)
{
	struct run run = { .check = check, .check_arg = b };
	struct run_options opt = b->opt;
	int status = EXIT_DEVICE, taken_fd = -1;
	struct device dev;

	opt.devs[0] = b->maps.nr ? b->maps.targets[b->ask.dev].name : b->args[0];
	b->read = 0;
	b->parts = take(b, b->ask.nr_extents, sizeof(*b->parts));
	b->list = b->parts ? take(b, b->ask.nr_reads, sizeof(*b->list)) : NULL;
	if (!b->list || !make_reads(b))
		warnx("no memory for the READs of what was written");
	else
		status = run_prepare(&run, &opt, &b->reads, &dev, &taken_fd);
	if (!status)
		status = run_execute(&run, &opt, report);
	free(run.targets);
	cmdfile_free(&b->reads);
	free(b->list);
	free(b->parts);
	return status;
}

/* Finds the size and number of the blocks; they are known only if the device has a disk driver. */
static int ask_blocks(const char *name, struct disk *disk)
{
	char path[200];
	struct device dev;
	__u64 bytes;
	__s64 n;

	if (device_find(name, &dev))
		return EXIT_DEVICE;
	n = dev.queue[0] ? sysfs_number(dev.queue, "logical_block_size") : -1;
	if (n <= 0) {
		warnx("%s: no disk whose blocks could be compared", name);
		return EXIT_DEVICE;
	}
	disk->block_size = n;
	snprintf(path, sizeof(path), "%s/..", dev.queue);
	n = sysfs_number(path, "size");
	disk->last_lba = n > 0 ? ((__u64)n << 9) / disk->block_size - 1 : ~0ULL;
	bytes = device_max_bytes(&dev);
	disk->most = (bytes < READ_BYTES ? bytes : READ_BYTES) / disk->block_size ?: 1;
	return 0;
}

/* Sends what the commands of the file write. */
static int send_extents(struct readback *b)
{
	struct written *w = &b->written;
	const struct cmdfile *file = w->file;
	unsigned int t, nr = b->maps.nr ? b->maps.nr_targets : 1;
	int status;
	size_t i;

	for (i = 0; i < file->nr; i++) {
		t = file->cmds[i].dev;
		status = w->disks[t].block_size ? 0 :
			ask_blocks(b->maps.nr ? b->maps.targets[t].name : b->args[0], &w->disks[t]);
		if (status)
			return status;
	}
	w->made = malloc(file->max_bytes + 1);
	if (!w->made || !written_find(w))
		return w->made ? EXIT_USAGE : EXIT_DEVICE;
	fprintf(b->out, "%zu %u\n", w->nr, nr);
	for (t = 0; t < nr; t++)
		fprintf(b->out, "%u %u %llu\n", w->disks[t].block_size, w->disks[t].most,
			w->disks[t].unclear);
	w->out = b->out;
	written_find(w);
	return fflush(b->out) ? EXIT_DEVICE : 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct readback *b = state->input;

	switch (key) {
	case 'm':
		map_add(state, arg, &b->maps);
		return 0;
	case ARGP_KEY_ARG:
		if (b->nr_args == ARRAY_SIZE(b->args))
			argp_error(state, "more than %d devices", MAX_DEVICES);
		b->args[b->nr_args++] = arg;
		return 0;
	case ARGP_KEY_END:
		b->opt.file = map_take_args(state, b->args, b->nr_args, &b->maps);
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

/* The options were checked by the Python part: VIA is empty if it was not given. */
static int read_back(struct readback *b)
{
	struct cmdfile_options how = {
		.make_later = true, .memory = b->opt.memory, .maps = b->maps.nr ? &b->maps : NULL,
	};
	struct cmdfile file;
	int status;

	if (!device_comes_first(b->maps.nr ? b->maps.targets[0].name : b->args[0]))
		return EXIT_USAGE;
	status = map_find_targets(&b->maps);
	if (status)
		return status;
	/* The file is read with all checks, so that the data of each block is known. */
	if (cmdfile_load(b->opt.file, &how, &file))
		return EXIT_USAGE;
	b->written.file = &file;
	status = send_extents(b);
	while (!status && fread(&b->ask, sizeof(b->ask), 1, b->in) == 1) {
		answer(b, ANSWER_STATUS, serve(b));
		fflush(b->out);
	}
	free(b->written.made);
	cmdfile_free(&file);
	return status;
}

/*
 * FD is a socket to the Python part:
 * sg_io readback FD VIA DEPTH JOBS MEMORY [--map MAPPING]... DEV... FILE
 */
int cmd_readback(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "map", 'm', "MAPPING", 0, NULL, 0 },
		{ 0 }
	};
	static const struct argp argp = { .options = options, .parser = parse };
	struct readback *b = calloc(1, sizeof(*b));
	int status;

	if (!b || argc < 6)
		return EXIT_USAGE;
	*b = (struct readback){
		.lock = PTHREAD_MUTEX_INITIALIZER, .maps.to_us = ~0ULL,
		.in = fdopen(atoi(argv[1]), "r"), .out = fdopen(dup(atoi(argv[1])), "w"),
		.opt = {
			.via = *argv[2] ? run_find_path(argv[2], strlen(argv[2])) : NULL,
			.nr_devs = 1, .batch = 1, .depth = atoi(argv[3]), .jobs = atoi(argv[4]),
			.memory = strtoull(argv[5], NULL, 10) << 20,
		},
	};
	argv[5] = (char *)"sg_io verify";
	argp_parse(&argp, argc - 5, argv + 5, 0, NULL, b);
	status = b->in && b->out ? read_back(b) : EXIT_DEVICE;
	free(b);
	return status;
}
