// SPDX-License-Identifier: GPL-2.0
/* sg_io replay: the commands of a file at their times, on their CPUs. */
#include <err.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "run.h"
#include "util.h"
#include "cmdfile/map.h"
#include "cmdfile/opcodes.h"
#include "workers/lane.h"

#define DEPTH		64
#define SPEED_MAX	1e6
/* Time for all processes to reach their CPUs before the first command is due. */
#define LEAD_NS		(NS_PER_S / 50)
/*
 * Usually a lane has a CPU of its own, so it may spin while it waits for the next command: a
 * process that sleeps may wake up milliseconds late. If lanes share a CPU, one that spins delays
 * the others.
 */
#define AWAKE_US	10000
#define AWAKE_US_MAX	1000000
#define AWAKE_SHARED_US	100

struct replay_options {
	struct run_options run;
	double speed;		/* 0: commands do not wait for their times */
	__u64 awake_us;
	struct maps maps;
	const char *args[2];
	unsigned int nr_args;
};

enum {
	OPT_VIA = 256, OPT_SPEED, OPT_DEPTH, OPT_AWAKE, OPT_FORCE, OPT_UNCHECKED,
	OPT_MEMORY, OPT_JSON, OPT_SLOWEST,
	OPT_MAP, OPT_FROM, OPT_TO,
};

static void take_via(struct argp_state *state, const char *arg, struct run_options *o)
{
	o->via = run_find_path(arg, strlen(arg));
	if (!o->via)
		argp_error(state, "--via: '%s' is not sg, bsg-uring, smq or block", arg);
	if (!strcmp(o->via, "bsg"))
		argp_error(state,
			   "--via bsg: has one command at a time in flight; sg, bsg-uring, smq "
			   "or block have more");
	o->vias[0] = o->via;
	o->nr_vias = 1;
}

static double take_speed(struct argp_state *state, const char *arg)
{
	if (!strcmp(arg, "max") || !strcmp(arg, "0"))
		return 0;
	return option_real(state, "--speed", arg, SPEED_MAX, "; max or 0: ignore the times");
}

/* With --map the devices are its targets, and FILE is the only argument. */
static void take_args(struct argp_state *state, struct replay_options *o)
{
	unsigned int i;

	if (o->maps.from_us >= o->maps.to_us)
		argp_error(state, "--from is not before --to");
	if (o->maps.nr) {
		if (o->nr_args != 1)
			argp_error(state, "--map names the devices: FILE is the only argument");
		for (i = 0; i < o->maps.nr_targets; i++)
			o->run.devs[i] = o->maps.targets[i].name;
		o->run.nr_devs = o->maps.nr_targets;
		o->run.file = o->args[0];
		return;
	}
	if (!o->nr_args)
		argp_error(state, "DEV and FILE are missing");
	if (o->nr_args < 2)
		argp_error(state, "only '%s' given: DEV or FILE is missing", o->args[0]);
	o->run.devs[o->run.nr_devs++] = o->args[0];
	o->run.file = o->args[1];
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct replay_options *o = state->input;

	switch (key) {
	case OPT_VIA:
		take_via(state, arg, &o->run);
		return 0;
	case OPT_SPEED:
		o->speed = take_speed(state, arg);
		return 0;
	case OPT_DEPTH:
		o->run.depth = option_number(state, "--depth", arg, 1, 4096);
		return 0;
	case OPT_AWAKE:
		o->awake_us = option_number(state, "--awake", arg, 0, AWAKE_US_MAX);
		return 0;
	case OPT_FORCE:
		o->run.force = true;
		return 0;
	case OPT_UNCHECKED:
		o->run.unchecked = true;
		return 0;
	case OPT_MEMORY:
		o->run.memory = option_number(state, "--memory", arg, 1, 1 << 20) << 20;
		return 0;
	case OPT_SLOWEST:
		o->run.slowest = option_number(state, "--slowest", arg, 1, SLOWEST_MAX);
		return 0;
	case OPT_MAP:
		map_add(state, arg, &o->maps);
		return 0;
	case OPT_FROM:
		o->maps.from_us = option_seconds(state, "--from", arg) * 1e6;
		return 0;
	case OPT_TO:
		o->maps.to_us = option_seconds(state, "--to", arg) * 1e6;
		return 0;
	case OPT_JSON:
		o->run.json = true;
		return 0;
	case ARGP_KEY_ARG:
		if (o->nr_args == 2)
			argp_error(state, "'%s': one device and one file", arg);
		o->args[o->nr_args++] = arg;
		return 0;
	case ARGP_KEY_END:
		take_args(state, o);
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

/* The sums over all lanes. */
struct replayed {
	struct hist late;
	struct opcodes opcodes;
	__u64 waited;
	__u64 overtaken;
	__u64 held;
};

static void sum_up(const struct run *run, struct replayed *all)
{
	const struct command *cmd;
	const struct lane *l;
	size_t i;

	for (l = run->lanes; l < run->lanes + run->nr_lanes; l++) {
		hist_merge(&all->late, &l->late);
		all->waited += l->waited;
		all->overtaken += l->overtaken;
		all->held += l->held;
		for (i = 0; i < l->next; i++) {
			cmd = &run->file->cmds[l->cmds[i]];
			opcodes_add(&all->opcodes, cmd->cdb, cmd->cdb_len);
		}
	}
}

static void report_more_text(const struct run *run, const struct replayed *all)
{
	fputs("  ", stdout);
	opcodes_print(&all->opcodes, stdout);
	putchar('\n');
	if (run->lanes[0].speed)
		printf("issue error: p50 %.1f us, p99 %.1f us, p99.9 %.1f us, longest %.1f us; "
		       "speed %g, %u CPU%s\n",
		       hist_percentile(&all->late, 500) / 1e3,
		       hist_percentile(&all->late, 990) / 1e3,
		       hist_percentile(&all->late, 999) / 1e3, all->late.max / 1e3,
		       run->lanes[0].speed, run->nr_lanes, run->nr_lanes == 1 ? "" : "s");
	if (all->waited)
		printf("%llu commands were due while --depth %u were in flight: issued late\n",
		       all->waited, run->depth);
	if (all->held)
		printf("%llu commands waited for the end of earlier ones with the same blocks\n",
		       all->held);
	if (all->overtaken)
		printf("%llu commands were overtaken by later ones: %s had no room for them\n",
		       all->overtaken, run->targets[0].dev->given);
}

static void report_more_json(const struct run *run, const struct replayed *all,
			     struct json_object *o)
{
	struct json_object *ns = NULL;

	if (run->lanes[0].speed) {
		ns = report_percentiles(&all->late);
		json_object_object_add(ns, "max", json_object_new_uint64(all->late.max));
		report_real(o, "speed", run->lanes[0].speed);
	} else {
		json_object_object_add(o, "speed", NULL);
	}
	json_object_object_add(o, "issue_error_ns", ns);
	json_object_object_add(o, "lanes", json_object_new_uint64(run->nr_lanes));
	json_object_object_add(o, "opcodes", opcodes_json(&all->opcodes));
	json_object_object_add(o, "waited_for_depth", json_object_new_uint64(all->waited));
	json_object_object_add(o, "waited_for_conflicts", json_object_new_uint64(all->held));
	json_object_object_add(o, "overtaken", json_object_new_uint64(all->overtaken));
}

static int report(const struct run *run, const struct result *r)
{
	struct replayed *all = calloc(1, sizeof(*all));
	struct json_object *o;

	if (!all) {
		warnx("no memory");
		return EXIT_DEVICE;
	}
	sum_up(run, all);
	if (r->opt->json) {
		o = report_object(r);
		report_more_json(run, all, o);
		report_print(o);
	} else {
		report_text(r);
		report_more_text(run, all);
	}
	free(all);
	return 0;
}

static void set_awake(struct run *run, const struct replay_options *opt)
{
	unsigned int cpus = CPU_COUNT(&run->cpus), k;
	__u64 us = opt->awake_us;

	if (opt->speed && run->nr_lanes > cpus) {
		warnx("warning: lines without cpu= share %u CPUs with the others: all may be late",
		      cpus);
		us = us < AWAKE_SHARED_US ? us : AWAKE_SHARED_US;
	}
	for (k = 0; k < run->nr_lanes; k++)
		run->lanes[k].awake_ns = us * 1000;
}

/*
 * Opens /dev/cpu_dma_latency. While it is open, CPUs do not enter deep idle states: leaving such a
 * state takes longer than a command may be late. (cyclictest does the same.) Without permission to
 * open it, replay runs anyway.
 */
static int keep_cpus_awake(void)
{
	int fd = open("/dev/cpu_dma_latency", O_WRONLY | O_CLOEXEC);
	__s32 us = 0;

	if (fd >= 0 && write(fd, &us, sizeof(us)) != sizeof(us)) {
		close(fd);
		return -1;
	}
	return fd;
}

static int replay(struct run *run, const struct replay_options *opt, struct device *devs,
		  int *taken_fds)
{
	int status = run_prepare(run, &opt->run, run->file, devs, taken_fds), awake = -1;

	if (status)
		return status;
	if (run->engine->sync && run->depth > 1) {
		warnx("%s: without an sg node it has one command at a time in flight: "
		      "use --depth 1", devs[0].given);
		return EXIT_DEVICE;
	}
	/* A lane sends to all devices, so it must not wait for one. */
	if (run->engine->sync && run->nr_targets > 1) {
		warnx("--depth 1: several devices need 2 or more");
		return EXIT_USAGE;
	}
	run->lanes = lanes_new(run->file, opt->speed, &run->nr_lanes);
	if (!run->lanes)
		return EXIT_USAGE;
	set_awake(run, opt);
	run->lead_ns = LEAD_NS;
	if (opt->speed)
		awake = keep_cpus_awake();
	status = run_execute(run, &opt->run, report);
	if (awake >= 0)
		close(awake);
	lanes_free(run->lanes, run->nr_lanes);
	return status;
}

static int load(struct replay_options *opt, struct cmdfile *file)
{
	const struct cmdfile_options how = {
		.unchecked = opt->run.unchecked, .names_unchecked = true, .shared = true,
		.memory = opt->run.memory, .maps = map_any(&opt->maps) ? &opt->maps : NULL,
	};
	int status;

	run_set_type(&opt->run);
	if (!device_comes_first(opt->run.devs[0]))
		return EXIT_USAGE;
	status = map_find_targets(&opt->maps);
	if (status)
		return status;
	if (cmdfile_load(opt->run.file, &how, file))
		return EXIT_USAGE;
	if (file->timed || !opt->speed)
		return 0;
	warnx("%s: no command has at=, so there are no times to replay; use --speed max",
	      file->name);
	cmdfile_free(file);
	return EXIT_USAGE;
}

int cmd_replay(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "speed", OPT_SPEED, "X", 0,
		  "X times as fast as the file says (1); max or 0: ignore the times", 1 },
		{ "map", OPT_MAP, "OLD=NEW[,offset=BLOCKS][,scale=X]", 0, map_help, 1 },
		{ "from", OPT_FROM, "SECONDS", 0,
		  "Leave out commands before this time of FILE; it may end in s, m or h", 1 },
		{ "to", OPT_TO, "SECONDS", 0, "Leave out commands from this time of FILE on", 1 },
		{ "via", OPT_VIA, "PATH", 0,
		  "sg, bsg-uring, smq or block (smq on an smqsg node, otherwise sg)", 1 },
		{ "depth", OPT_DEPTH, "N", 0, "The most commands in flight from each CPU (64)", 1 },
		{ "awake", OPT_AWAKE, "US", 0,
		  "Do not sleep if the next command is due within US microseconds (10000)", 1 },
		{ "force", OPT_FORCE, NULL, 0, "Write to a disk that is in use or has data", 2 },
		{ "unchecked", OPT_UNCHECKED, NULL, 0,
		  "Accept a direction and BYTES that contradict the CDB, as in 'sg_io run'", 2 },
		{ "memory", OPT_MEMORY, "MIB", 0, "Limit of the memory for data (1024)", 2 },
		{ "slowest", OPT_SLOWEST, "N", 0,
		  "List the N slowest commands with their lines, as in 'sg_io run'", 2 },
		{ "json", OPT_JSON, NULL, 0, "One JSON object on standard output", 2 },
		{ 0 }
	};
	static const struct argp argp = {
		.options = options, .parser = parse, .args_doc = "DEV FILE\n--map OLD=NEW... FILE",
		.doc =
		"Issue the commands of FILE ('-': standard input) to DEV at their times.\n"
		"Overwrites the blocks that FILE writes with a pattern: use a scratch disk.\v"
		"at= is the time when a command is issued, in microseconds; the smallest in the\n"
		"file is the start. A command without at= is issued right after the one before\n"
		"it on its CPU. cpu= is the CPU. For each CPU a separate process issues the\n"
		"commands. Another process, which may run on any CPU, issues the commands\n"
		"without cpu=. The commands of a CPU are issued in the order of the file, even\n"
		"if earlier ones fail or have not ended. Between CPUs the times give an order.\n"
		"\n"
		"But a command waits until earlier ones have ended, on any CPU, if they use the\n"
		"same blocks and one of them writes: so each block gets its data in the order\n"
		"of the times, with --speed max of the lines. SYNCHRONIZE CACHE waits for the\n"
		"writes before it, except at --speed 1. A command that may change blocks and\n"
		"has no LBA, or whose opcode is not known, counts as a write of all blocks.\n"
		"The report counts commands that waited.\n"
		"\n"
		"--map OLD=NEW sends the commands with dev=OLD to NEW; it is given once for\n"
		"each device of FILE, and there is no argument DEV. Several may go to one NEW,\n"
		"at different offsets. If FILE has no dev=, one --map is possible, with any\n"
		"OLD. scale= multiplies the first LBA and the one after the last, so that\n"
		"neighbours stay neighbours. A command that does not fit on NEW is refused with\n"
		"its line, before the first is sent. Commands that --from and --to leave out\n"
		"are not checked.\n"
		"\n"
		"'issue error' is how late the kernel got a command: from the time given by at=\n"
		"to the start of the system call that submits it. A process that sleeps wakes\n"
		"up late, so each process spins while the next command is due within --awake.\n"
		"With permission to open /dev/cpu_dma_latency, replay keeps all CPUs out of\n"
		"deep idle states. A command that is due while --depth commands are in flight\n"
		"waits for room. The report counts such commands. It also counts commands that\n"
		"later ones overtook because the path had no room for them.\n"
		"\n"
		"Example, the commands of two disks on two others:\n"
		"  sg_io replay --map /dev/sda=/dev/sdc --map /dev/sdb=/dev/sdd load.cdb\n"
		"\n"
		"'sg_io run --help' describes the paths and says when a run ends. 'sg_io\n"
		"--help' describes the format of FILE and the exit statuses.\n",
	};
	struct replay_options opt = {
		.run = { .replay = true, .depth = DEPTH, .batch = 1, .jobs = 1,
			 .memory = 1024ULL << 20 },
		.speed = 1,
		.awake_us = AWAKE_US,
		.maps.to_us = ~0ULL,
	};
	struct cmdfile file;
	struct device devs[MAX_DEVICES];
	int taken_fds[MAX_DEVICES], status;
	struct run *run;
	unsigned int i;

	argp_parse(&argp, argc, argv, 0, NULL, &opt);
	status = load(&opt, &file);
	if (status)
		return status;
	memset(taken_fds, -1, sizeof(taken_fds));
	run = shared_alloc(sizeof(*run));
	if (!run) {
		warnx("no memory");
		cmdfile_free(&file);
		return EXIT_DEVICE;
	}
	run->file = &file;
	status = replay(run, &opt, devs, taken_fds);
	for (i = 0; i < opt.run.nr_devs; i++)
		if (taken_fds[i] >= 0)
			close(taken_fds[i]);
	free(run->targets);
	shared_free(run, sizeof(*run));
	cmdfile_free(&file);
	return status;
}
