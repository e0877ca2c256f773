// SPDX-License-Identifier: GPL-2.0
/* sg_io copy and compare-luns: from the options to the result. */
#include <err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "commands.h"
#include "copy.h"
#include "issue/cmdfile/dataset.h"
#include "issue/device/ask.h"
#include "issue/workers/workers.h"
#include "signals.h"

#define CHUNK		(128u << 10)	/* bytes, if the devices take as many */
#define JOBS		4
#define VERIFY_BYTCHK	0x02		/* compare with the data-out */
#define SHORT_BLOCKS	0xffff		/* of a command of 10 bytes */

static int ask_size(struct copy_side *side, struct answers *a)
{
	char state[DEVICE_STATE];

	if (device_find(side->options.devs[0], &side->dev) || ask_device(&side->dev, a))
		return EXIT_DEVICE;
	if (a->blocks && a->block_size)
		return 0;
	warnx("%s: has no capacity in blocks%s", side->dev.given, device_state(&side->dev, state));
	return EXIT_DEVICE;
}

/* How many blocks there are: --blocks, or all from --skip and --seek on, which must be as many. */
static int find_range(struct copy *c, const struct answers *a)
{
	const char *names[SIDES] = { "--skip", "--seek" };
	const struct copy_side *s = c->sides;
	__u64 left[SIDES];
	unsigned int i;

	for (i = 0; i < SIDES; i++) {
		if (s[i].first >= a[i].blocks) {
			warnx("%s: LBA %llu is over the last one of %s, %llu", names[i],
			      s[i].first, s[i].dev.given, a[i].blocks - 1);
			return EXIT_USAGE;
		}
		left[i] = a[i].blocks - s[i].first;
		if (c->opt->blocks > left[i]) {
			warnx("--blocks: %llu, but %s has %llu from LBA %llu on", c->opt->blocks,
			      s[i].dev.given, left[i], s[i].first);
			return EXIT_USAGE;
		}
	}
	c->blocks = c->opt->blocks ?: left[FIRST];
	if (c->opt->blocks || left[FIRST] == left[SECOND] ||
	    (!c->opt->compare && left[FIRST] < left[SECOND]))
		return 0;
	warnx("%s has %llu blocks from LBA %llu on, %s has %llu from LBA %llu on: --blocks says "
	      "how many", s[FIRST].dev.given, left[FIRST], s[FIRST].first, s[SECOND].dev.given,
	      left[SECOND], s[SECOND].first);
	return EXIT_USAGE;
}

static int find_chunk(struct copy *c)
{
	__u64 most, bytes = c->opt->chunk;
	unsigned int i;

	if (bytes % c->block_size) {
		warnx("--chunk: %llu is no multiple of the blocks' %u bytes", bytes,
		      c->block_size);
		return EXIT_USAGE;
	}
	for (i = 0; i < SIDES; i++) {
		most = device_max_bytes(&c->sides[i].dev);
		if (bytes > most) {
			warnx("--chunk: %llu bytes are over the limit of %s, %llu", bytes,
			      c->sides[i].dev.given, most);
			return EXIT_USAGE;
		}
		if (!c->opt->chunk && (!bytes || bytes > most))
			bytes = most < CHUNK ? most : CHUNK;
	}
	c->chunk = bytes / c->block_size ?: 1;
	if (c->chunk > c->blocks)
		c->chunk = c->blocks;
	c->nr_chunks = (c->blocks + c->chunk - 1) / c->chunk;
	return 0;
}

static int find_sizes(struct copy *c)
{
	struct answers a[SIDES] = {};
	int status = ask_size(&c->sides[FIRST], &a[FIRST]);

	if (!status)
		status = ask_size(&c->sides[SECOND], &a[SECOND]);
	if (status)
		return status;
	if (!strcmp(c->sides[FIRST].dev.sysfs, c->sides[SECOND].dev.sysfs)) {
		warnx("%s and %s are the same device", c->sides[FIRST].dev.given,
		      c->sides[SECOND].dev.given);
		return EXIT_USAGE;
	}
	if (a[FIRST].block_size != a[SECOND].block_size) {
		warnx("%s has blocks of %u bytes, %s of %u", c->sides[FIRST].dev.given,
		      a[FIRST].block_size, c->sides[SECOND].dev.given, a[SECOND].block_size);
		return EXIT_USAGE;
	}
	c->block_size = a[FIRST].block_size;
	status = find_range(c, a);
	return status ? status : find_chunk(c);
}

/* The command with the shortest CDB that has room for all LBAs of a side. */
static const struct cdb_op *choose_op(const struct copy *c, unsigned int side, const char *shorter,
				      const char *longer)
{
	bool fits = c->sides[side].first + c->blocks - 1 <= 0xffffffff && c->chunk <= SHORT_BLOCKS;

	return cdb_find_gen(fits ? shorter : longer);
}

static void choose_ops(struct copy *c)
{
	bool compare = c->opt->compare;

	c->ops[STEP_READ] = choose_op(c, FIRST, "read10", "read16");
	c->ops[STEP_WRITE] = choose_op(c, SECOND, compare ? "verify10" : "write10",
				       compare ? "verify16" : "write16");
	c->ops[STEP_READ_BACK] = choose_op(c, SECOND, "read10", "read16");
}

/* Adds the commands of one step: for each place of each job one for a chunk, one for a block. */
static void add_commands(struct copy *c, struct cmdfile *file, enum copy_step step)
{
	const struct cdb_op *op = c->ops[step];
	unsigned int i, nr = c->nr_jobs * c->opt->depth;
	__u32 bytes = c->chunk * c->block_size;
	struct command *cmd;

	c->starts[step][0] = file->nr;
	c->starts[step][1] = file->nr + nr;
	for (i = 0; i < 2 * nr; i++) {
		cmd = &file->cmds[file->nr++];
		*cmd = (struct command){
			.cdb_len = op->len, .dir = op->dir, .cpu = CPU_ANY,
			.bytes = i < nr ? bytes : c->block_size, .timeout_ms = TIMEOUT_MS_DEFAULT,
		};
		cdb_build(op, 0, i < nr ? c->chunk : 1, cmd->cdb);
		if (op->flags & CDB_BYTCHK)
			cmd->cdb[1] |= VERIFY_BYTCHK;
	}
	if (op->dir == DIR_IN)
		file->max_in = bytes;
	file->max_bytes = bytes;
	file->max_timeout_ms = TIMEOUT_MS_DEFAULT;
}

/* Makes the commands of a side; it needs room for those of two steps. */
static int make_file(struct copy *c, unsigned int nr)
{
	struct copy_side *side = &c->sides[nr];
	struct cmdfile *file = &side->file;

	file->name = side->dev.given;
	file->cmds = calloc(4 * c->nr_jobs * c->opt->depth, sizeof(*file->cmds));
	file->data = dataset_new(NULL, 0);
	if (!file->cmds || !file->data) {
		warnx("no memory");
		return EXIT_DEVICE;
	}
	if (nr == FIRST) {
		add_commands(c, file, STEP_READ);
		return 0;
	}
	/* Block I/O has no VERIFY. */
	if (c->opt->compare && side->dev.kind == NODE_BLOCK)
		c->no_verify = true;
	else
		add_commands(c, file, STEP_WRITE);
	if (c->opt->compare)
		add_commands(c, file, STEP_READ_BACK);
	return 0;
}

static int prepare_side(struct copy *c, unsigned int nr)
{
	struct copy_side *side = &c->sides[nr];
	const struct copy_options *o = c->opt;
	int status = make_file(c, nr);

	if (status)
		return status;
	side->options.nr_devs = 1;
	side->options.depth = o->depth;
	side->options.batch = o->batch;
	side->options.jobs = o->jobs;
	side->options.memory = o->memory;
	side->options.force = o->force;
	status = run_prepare(&side->run, &side->options, &side->file, &side->dev,
			     &side->taken_fd);
	side->run.moving = true;
	return status;
}

static int check_memory(const struct copy *c)
{
	__u64 need = c->nr_jobs * c->opt->depth * (worker_request_bytes(&c->sides[FIRST].run) +
						   worker_request_bytes(&c->sides[SECOND].run));

	if (need <= c->opt->memory)
		return 0;
	warnx("--jobs, --depth and --chunk make %llu MiB of data, --memory is %llu",
	      (need >> 20) + 1, c->opt->memory >> 20);
	return EXIT_USAGE;
}

/* Opens the first device for each job, and lends what it reads to the second one. */
static int open_first(struct copy *c)
{
	struct copy_side *first = &c->sides[FIRST], *second = &c->sides[SECOND];
	unsigned int i, k, step = c->no_verify ? STEP_READ_BACK : STEP_WRITE;
	struct worker *w;

	first->workers = workers_new(&first->run, c->nr_jobs);
	if (!first->workers)
		return EXIT_DEVICE;
	for (i = 0; i < c->nr_jobs; i++) {
		w = &first->workers[i];
		if (worker_init(w, &first->run, i) ||
		    !dataset_add(second->file.data, w->buffers, w->buffer_bytes))
			goto nomem;
		if (worker_open(w))
			return EXIT_DEVICE;
		/* A synchronous path has one place: the other commands are not sent. */
		for (k = 0; step == STEP_WRITE && k < 2 * c->opt->depth; k++)
			second->file.cmds[c->starts[step][k % 2] + i * c->opt->depth + k / 2].data =
				w->requests[k / 2 % w->nr_requests].buffer;
	}
	return 0;
nomem:
	warnx("no memory for the commands in flight");
	return EXIT_DEVICE;
}

static int prepare(struct copy *c)
{
	int status = find_sizes(c);

	if (status)
		return status;
	choose_ops(c);
	status = prepare_side(c, FIRST);
	if (!status)
		status = prepare_side(c, SECOND);
	if (!status)
		status = check_memory(c);
	if (status)
		return status;
	c->failures = calloc(c->opt->max_errors, sizeof(*c->failures));
	if (!c->failures || !copy_jobs_new(c)) {
		warnx("no memory");
		return EXIT_DEVICE;
	}
	return open_first(c);
}

/* Runs all jobs. The workers of the second device are the run's. */
static int execute(struct copy *c)
{
	struct copy_side *second = &c->sides[SECOND];
	const struct monitor_output out = { .opt = &second->options };
	struct run *run = &second->run;
	int status, number;
	__u64 last;
	bool stuck;
	unsigned int i;

	run->check_arg = c;
	run->work = copy_job_work;
	run->total = c->nr_chunks;
	run->wake_fd = eventfd(0, EFD_CLOEXEC);
	if (run->wake_fd < 0) {
		warn("eventfd");
		return EXIT_DEVICE;
	}
	signals_block();
	second->workers = workers_start(run, c->nr_jobs);
	if (!second->workers)
		return EXIT_DEVICE;
	number = monitor(run, &out, second->workers, c->nr_jobs, &stuck);
	if (!stuck)
		workers_join(run, second->workers, c->nr_jobs);
	last = run->start_ns;
	for (i = 0; i < c->nr_jobs; i++)
		if (second->workers[i].last_ns > last)
			last = second->workers[i].last_ns;
	signals_unblock();
	copy_report(c, (last - run->start_ns) / 1e9, number);
	if (number)
		status = EXIT_SIGNAL + number;
	else if (stuck || atomic_load(&c->sides[FIRST].run.fatal) || atomic_load(&run->fatal))
		status = EXIT_DEVICE;
	else
		status = c->done == c->blocks && !c->differ ? EXIT_GOOD : EXIT_NOT_GOOD;
	status = finish_output(status);
	if (stuck)	/* The kernel may still write to the workers' memory. */
		_exit(status);
	workers_end(run, second->workers, c->nr_jobs);
	close(run->wake_fd);
	return status;
}

static void clean_up(struct copy *c)
{
	struct copy_side *s;

	workers_end(&c->sides[FIRST].run, c->sides[FIRST].workers, c->nr_jobs);
	for (s = c->sides; s < c->sides + SIDES; s++) {
		if (s->taken_fd >= 0)
			close(s->taken_fd);
		free(s->run.targets);
		cmdfile_free(&s->file);
	}
	copy_jobs_free(c);
	free(c->failures);
	free(c->differences);
}

static unsigned int default_jobs(void)
{
	cpu_set_t cpus;

	if (sched_getaffinity(0, sizeof(cpus), &cpus))
		return 1;
	return CPU_COUNT(&cpus) < JOBS ? CPU_COUNT(&cpus) : JOBS;
}

static int copy_or_compare(int argc, char **argv, bool compare)
{
	struct copy_options opt = { .compare = compare };
	struct copy c = { .opt = &opt, .lock = PTHREAD_MUTEX_INITIALIZER };
	unsigned int i;
	int status;

	copy_parse_options(argc, argv, &opt);
	if (!opt.jobs)
		opt.jobs = default_jobs();
	c.nr_jobs = opt.jobs;
	for (i = 0; i < SIDES; i++) {
		c.sides[i].options.devs[0] = opt.devs[i];
		c.sides[i].taken_fd = -1;
	}
	c.sides[FIRST].first = opt.skip;
	c.sides[SECOND].first = opt.seek;
	status = prepare(&c);
	if (!status)
		status = execute(&c);
	clean_up(&c);
	return status;
}

int cmd_copy(int argc, char **argv)
{
	return copy_or_compare(argc, argv, false);
}

int cmd_compare_luns(int argc, char **argv)
{
	return copy_or_compare(argc, argv, true);
}
