// SPDX-License-Identifier: GPL-2.0
/* sg_io replay: the commands of a file at their times, on their CPUs. */
#include <err.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "columns.h"
#include "commands.h"
#include "inputs.h"
#include "issue/cmdfile/map.h"
#include "issue/cmdfile/opcodes.h"
#include "issue/run/run.h"
#include "lane.h"
#include "replay/recording/recorder.h"
#include "replay/timed/timed.h"
#include "util.h"

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
/* The kernel wakes up in time, unless the CPU was in deep sleep. */
#define AWAKE_KERNEL_US	20

struct replay_options {
	struct run_options run;	/* the first, for run_file_options and run_output_options */
	struct plan_options plan;
	bool has_speed;
	bool has_window;
	bool user_pace;
	bool kernel_pace;
	__u64 awake_us;		/* ~0: not given */
	__u64 passes;
	struct stop_when stop_when;
	const char *record;	/* the recording of the replay; NULL: none */
	struct recorder recorder;
	struct maps maps;
	const char *args[MAX_DEVICES + 1];
	unsigned int nr_args;
};

enum {
	OPT_VIA = 1, OPT_MODE, OPT_SPEED, OPT_WINDOW, OPT_MAP, OPT_FROM, OPT_TO, OPT_STOP_WHEN,
	OPT_PACE,
};

static void take_via(struct argp_state *state, const char *arg, struct run_options *o)
{
	o->via = run_find_path(arg, strlen(arg));
	if (!o->via)
		argp_error(state, "--via: '%s' is not sg, bsg, bsg-uring, smq or block", arg);
}

static void take_pace(struct argp_state *state, const char *arg, struct replay_options *o)
{
	o->kernel_pace = !strcmp(arg, "kernel");
	o->user_pace = !strcmp(arg, "user");
	if (!o->kernel_pace && !o->user_pace)
		argp_error(state, "--pace: '%s' is not kernel or user", arg);
}

static void take_stop_when(struct argp_state *state, const char *arg, struct stop_when *when)
{
	const char *value = strchr(arg, '=');
	size_t len = value ? (size_t)(value - arg) : 0;
	__u64 ns;

	if (len == 4 && !memcmp(arg, "late", len)) {
		if (num_parse_decimal(value + 1, 1000000, &ns) || !ns)
			argp_error(state, "--stop-when late: '%s' is no time in milliseconds",
				   value + 1);
		when->late_ns = ns;
	} else if (len == 6 && !memcmp(arg, "errors", len)) {
		when->errors = option_number(state, "--stop-when errors", value + 1, 1, ~0ULL);
	} else if (len == 8 && !memcmp(arg, "inflight", len)) {
		when->in_flight = option_number(state, "--stop-when inflight", value + 1, 1,
						1 << 20);
	} else {
		argp_error(state, "--stop-when: '%s' is not late=MS, errors=N or inflight=N", arg);
	}
}

/* Whether the mode's options fit it. */
static void check_mode(struct argp_state *state, const struct replay_options *o)
{
	enum plan_mode mode = o->plan.mode;

	if (o->has_speed && mode != PLAN_TIME)
		argp_error(state, "--speed: --mode %s has no times", plan_modes[mode]);
	if (o->stop_when.late_ns && mode != PLAN_TIME)
		argp_error(state, "--stop-when late: --mode %s has no times", plan_modes[mode]);
	if (o->has_window && mode != PLAN_DEPEND)
		argp_error(state, "--window is for --mode depend");
}

static void take_args(struct argp_state *state, struct replay_options *o)
{
	unsigned int i;

	check_mode(state, o);
	if (o->kernel_pace && !o->run.via)
		take_via(state, "smq", &o->run);
	if (o->kernel_pace && strcmp(o->run.via, "smq"))
		argp_error(state, "--pace kernel is for --via smq");
	o->run.smq = o->user_pace ? NULL : &engine_timed;
	if (o->maps.from_us >= o->maps.to_us)
		argp_error(state, "--from is not before --to");
	o->run.file = map_take_args(state, o->args, o->nr_args, &o->maps);
	o->run.devs[0] = o->args[0];
	for (i = 0; i < o->maps.nr_targets; i++)
		o->run.devs[i] = o->maps.targets[i].name;
	o->run.nr_devs = i ?: 1;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct replay_options *o = state->input;

	switch (key) {
	case OPT_VIA:
		take_via(state, arg, &o->run);
		return 0;
	case OPT_MODE:
		if (!plan_find_mode(arg, &o->plan.mode))
			argp_error(state, "--mode: '%s' is not time, max, load or depend", arg);
		return 0;
	case OPT_SPEED:
		if (!strcmp(arg, "max")) {
			o->plan.mode = PLAN_MAX;
			return 0;
		}
		o->plan.speed = option_real(state, "--speed", arg, SPEED_MAX, ", or max");
		o->has_speed = true;
		return 0;
	case OPT_WINDOW:
		if (num_parse_decimal(arg, 1000000, &o->plan.window_ns) || !o->plan.window_ns)
			argp_error(state, "--window: '%s' is no time in milliseconds", arg);
		o->has_window = true;
		return 0;
	case OPT_STOP_WHEN:
		take_stop_when(state, arg, &o->stop_when);
		return 0;
	case OPT_PACE:
		take_pace(state, arg, o);
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
	case ARGP_KEY_ARG:
		if (o->nr_args == ARRAY_SIZE(o->args))
			argp_error(state, "more than %d devices", MAX_DEVICES);
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
	const struct cmdfile *file = run->file;
	const struct lane *l;
	__u64 count;
	size_t i;

	for (l = run->lanes; l < run->lanes + run->nr_lanes; l++) {
		hist_merge(&all->late, &l->late);
		all->waited += l->waited;
		all->overtaken += l->overtaken;
		all->held += l->held;
		for (i = 0; i < l->nr; i++) {
			count = l->pass + (i < l->next);
			opcodes_add(&all->opcodes, cdb_of(&file->cmds[l->cmds[i]]),
				    file->cmds[l->cmds[i]].cdb_len, count);
		}
	}
}

static const char * const stops[] = {
	[STOP_LATE] = "late", [STOP_ERRORS] = "errors", [STOP_IN_FLIGHT] = "inflight",
};

static void report_more_text(const struct run *run, const struct replayed *all)
{
	const struct plan *plan = run->lanes[0].plan;
	int stopped = atomic_load(&run->stopped);

	fputs("  ", stdout);
	opcodes_print(&all->opcodes, stdout);
	putchar('\n');
	if (plan->opt.mode == PLAN_TIME) {
		fputs("issue error: ", stdout);
		report_latency(stdout, &all->late, true);
		printf("; speed %g", plan->opt.speed);
	} else {
		printf("mode %s", plan_modes[plan->opt.mode]);
	}
	printf(", %u CPU%s\n", run->nr_lanes, run->nr_lanes == 1 ? "" : "s");
	if (all->waited)
		printf("%llu commands were due while --depth %u were in flight: issued late\n",
		       all->waited, run->depth);
	if (all->held)
		printf("%llu commands waited for the end of earlier ones %s\n", all->held,
		       plan->opt.mode == PLAN_DEPEND ? "that had ended before them in the file, or "
		       "with the same blocks" : "with the same blocks");
	if (all->overtaken)
		printf("%llu commands were overtaken by later ones: %s had no room for them\n",
		       all->overtaken, run->targets[0].dev->given);
	if (stopped)
		printf("stopped early: --stop-when %s\n", stops[stopped]);
}

static void report_more_json(const struct run *run, const struct replayed *all,
			     struct json_object *o)
{
	const struct plan *plan = run->lanes[0].plan;
	int stopped = atomic_load(&run->stopped);
	struct json_object *ns = NULL;

	report_string(o, "mode", plan_modes[plan->opt.mode]);
	if (plan->opt.mode == PLAN_TIME) {
		ns = report_percentiles(&all->late);
		report_number(ns, "max", all->late.max);
		report_real(o, "speed", plan->opt.speed);
	} else {
		json_object_object_add(o, "speed", NULL);
	}
	json_object_object_add(o, "issue_error_ns", ns);
	report_number(o, "lanes", run->nr_lanes);
	json_object_object_add(o, "opcodes", opcodes_json(&all->opcodes));
	report_number(o, "waited_for_depth", all->waited);
	report_number(o, "waited_for_earlier", all->held);
	report_number(o, "overtaken", all->overtaken);
	report_string(o, "stopped", stops[stopped]);
}

/* What a process that judges the replay reads as its standard input; -1 after one message. */
static int commands_to_judge(const struct run *run, const struct replay_options *opt)
{
	int fd = memfd_create("sg_io", MFD_CLOEXEC);
	FILE *out = fd >= 0 ? fdopen(dup(fd), "we") : NULL;
	bool written = out;

	if (out) {
		columns_write(run->file, opt->run.devs, opt->run.nr_devs, out);
		written = !ferror(out);
		written &= !fclose(out);
	}
	if (written)
		return fd;
	warn("the commands of %s", run->file->name);
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Ends the recording of the replay, and compares it with FILE. Return: an exit status. */
static int report_fidelity(const struct run *run, struct replay_options *opt,
			   struct json_object **json)
{
	int status = recorder_end(&opt->recorder), fd;
	char mode[32], speed[64], window[64];
	const char * const argv[] = {
		"sg_io", "fidelity", "--columns", json ? "--json" : "--columns", mode, speed,
		window, "--", "-", opt->record, NULL,
	};
	char *output = NULL;
	int judged;

	/* Some commands may be missing in an incomplete recording. */
	if (status > EXIT_NOT_GOOD)
		return status;
	fd = commands_to_judge(run, opt);
	if (fd < 0)
		return EXIT_DEVICE;
	snprintf(mode, sizeof(mode), "--mode=%s", plan_modes[opt->plan.mode]);
	snprintf(speed, sizeof(speed), "--speed=%.17g", opt->plan.speed);
	snprintf(window, sizeof(window), "--window=%.6f", opt->plan.window_ns / 1e6);
	judged = judge_run((char * const *)argv, fd, json ? &output : NULL);
	close(fd);
	if (output)
		*json = json_tokener_parse(output);
	free(output);
	return judged > status ? judged : status;
}

static int report(const struct run *run, const struct result *r)
{
	struct replay_options *opt = run->check_arg;
	struct replayed *all = calloc(1, sizeof(*all));
	struct json_object *o, *fidelity = NULL;
	int status = EXIT_GOOD;

	if (!all) {
		warnx("no memory");
		return EXIT_DEVICE;
	}
	sum_up(run, all);
	if (r->opt->json) {
		o = report_object(r);
		report_more_json(run, all, o);
		if (opt->record)
			status = report_fidelity(run, opt, &fidelity);
		json_object_object_add(o, "fidelity", fidelity);
		report_print(o);
	} else {
		report_text(r);
		report_more_text(run, all);
		if (opt->record)
			status = report_fidelity(run, opt, NULL);
	}
	free(all);
	return status == EXIT_GOOD && atomic_load(&run->stopped) ? EXIT_NOT_GOOD : status;
}

static void set_awake(struct run *run, const struct replay_options *opt)
{
	unsigned int cpus = CPU_COUNT(&run->cpus), k;
	__u64 us = opt->awake_us;

	if (us == ~0ULL)
		us = run->engine == &engine_timed ? AWAKE_KERNEL_US : AWAKE_US;
	if (opt->plan.mode != PLAN_MAX && run->nr_lanes > cpus) {
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

/* Issues the commands of a run that is prepared. */
static int execute(struct run *run, struct replay_options *opt)
{
	struct plan *plan;
	int status = EXIT_USAGE, awake = -1;

	opt->plan.streamed = run->engine == &engine_timed;
	plan = plan_new(run->file, &opt->plan);
	if (!plan) {
		warnx("no memory for the plan of %zu commands", run->file->nr);
		return EXIT_USAGE;
	}
	run->lanes = lanes_new(plan, &run->nr_lanes);
	if (run->lanes) {
		set_awake(run, opt);
		run->lead_ns = LEAD_NS;
		run->passes = opt->passes;
		run->total = run->file->nr * run->passes;
		run->any_target = true;
		run->forks = !opt->plan.streamed;
		run->nr_workers = run->forks ? run->nr_lanes : 1;
		run->memory = run->forks ? 0 : timed_bytes(run->file);
		run->work = run->forks ? lane_work : timed_work;
		run->assign = lane_assign;
		run->stop_when = opt->stop_when;
		run->check_arg = opt;
		if (opt->plan.mode != PLAN_MAX)
			awake = keep_cpus_awake();
		status = run_execute(run, &opt->run, report);
		if (awake >= 0)
			close(awake);
		lanes_free(run->lanes, run->nr_lanes);
	}
	plan_free(plan);
	return status;
}

static int replay(struct run *run, struct replay_options *opt, struct device *devs,
		  int *taken_fds)
{
	int status = run_prepare(run, &opt->run, run->file, devs, taken_fds);

	if (status)
		return status;
	if (!output_check("--log", opt->run.log) || !output_check("--record", opt->record))
		return EXIT_USAGE;
	if (run->engine->sync && run->depth > 1) {
		warnx("%s: --via %s has one command at a time in flight%s: use --depth 1",
		      devs[0].given, run->engine->name,
		      run->engine->node == NODE_BLOCK ? " without an sg node" : "");
		return EXIT_DEVICE;
	}
	/* A lane sends to all devices, so it must not wait for one. */
	if (run->engine->sync && run->nr_targets > 1) {
		warnx("--depth 1: several devices need 2 or more");
		return EXIT_USAGE;
	}
	if (opt->record && !recorder_start(&opt->recorder, devs, &opt->run.devs[0],
					   opt->run.nr_devs, opt->record))
		return EXIT_DEVICE;
	status = execute(run, opt);
	/* Nothing was reported if the run did not begin. */
	recorder_end(&opt->recorder);
	return status;
}

static int read_file(struct replay_options *opt, struct cmdfile *file)
{
	const enum plan_mode mode = opt->plan.mode;
	struct cmdfile_options how = {
		.unchecked = opt->run.unchecked, .names_unchecked = true, .make_later = true,
		.by_time = mode != PLAN_MAX,
		.memory = opt->run.memory, .maps = map_any(&opt->maps) ? &opt->maps : NULL,
	};
	int status;

	if (mode == PLAN_LOAD)
		how.needs_took = "--mode load";
	if (mode == PLAN_DEPEND)
		how.needs_took = "--mode depend";
	run_set_type(&opt->run);
	if (!device_comes_first(opt->run.devs[0]))
		return EXIT_USAGE;
	status = map_find_targets(&opt->maps);
	if (status)
		return status;
	if (cmdfile_load(opt->run.file, &how, file))
		return EXIT_USAGE;
	if (file->timed || mode == PLAN_MAX)
		return 0;
	warnx("%s: no command has at=, so there are no times to replay; use --mode max",
	      file->name);
	cmdfile_free(file);
	return EXIT_USAGE;
}

int cmd_replay(int argc, char **argv)
{
	static const struct known_option options[] = {
		{ "mode", "MODE",
		  "When commands are issued: time, max, load or depend, see below (time)", 1,
		  OTHER(OPT_MODE) },
		{ "speed", "X",
		  "X times as fast as the file says (1); --speed max is --mode max", 1,
		  OTHER(OPT_SPEED) },
		{ "window", "MS",
		  "With --mode depend: commands that ended longer before do not count (100)", 1,
		  OTHER(OPT_WINDOW) },
		{ "loop", "N",
		  "Issue FILE N times, each time when all has ended; 0: until Ctrl-C (1)", 1,
		  NUMBER(struct replay_options, passes, 0, 1000000000) },
		{ "stop-when", "WHAT=N",
		  "End when a command is issued more than N milliseconds late (late=N), when N "
		  "commands were not good (errors=N), or when more than N are in flight "
		  "(inflight=N); may be given for each", 1, OTHER(OPT_STOP_WHEN) },
		{ "record", "FILE",
		  "Record the replay in FILE as 'sg_io record' does, and say how faithful it was as "
		  "'sg_io fidelity' does", 1, TEXT(struct replay_options, record) },
		{ "map", "OLD=NEW[,offset=BLOCKS][,scale=X]", map_help, 1, OTHER(OPT_MAP) },
		{ "from", "SECONDS",
		  "Leave out commands before this time of FILE; it may end in s, m or h", 1,
		  OTHER(OPT_FROM) },
		{ "to", "SECONDS", "Leave out commands from this time of FILE on", 1,
		  OTHER(OPT_TO) },
		{ "via", "PATH",
		  "sg, bsg, bsg-uring, smq or block (smq on an smqsg node, otherwise sg)", 1,
		  OTHER(OPT_VIA) },
		{ "depth", "N", "The most commands in flight from each CPU (64)", 1,
		  NUMBER(struct replay_options, run.depth, 1, 4096) },
		{ "pace", "WHO",
		  "Who issues each command at its time: kernel, the timed batches of smq_sg, or "
		  "user, a process for each CPU (kernel with --via smq, otherwise user)", 1,
		  OTHER(OPT_PACE) },
		{ "awake", "US",
		  "Do not sleep if the next command is due within US microseconds (10000; with "
		  "--pace kernel 20, at most 1000)", 1,
		  NUMBER(struct replay_options, awake_us, 0, AWAKE_US_MAX) },
		{ "unchecked", NULL,
		  "Accept a direction and BYTES that contradict the CDB or the disk's block size, as in "
		  "'sg_io run'", 3, FLAG(struct replay_options, run.unchecked) },
		{ 0 }
	};
	static const struct known_option * const tables[] = {
		options, run_file_options, run_output_options, NULL,
	};
	static const struct argp argp = {
		.parser = parse,
		.args_doc = "DEV... FILE\n--map OLD=NEW... [DEV...] FILE",
		.doc =
		"Issue the commands of FILE ('-': standard input) to DEV as they were recorded.\n"
		"Overwrites the blocks that FILE writes with a pattern: use a scratch disk.\v"
		"at= is the time when a command was issued, in microseconds; the smallest in\n"
		"the file is the start. A command without at= has the time of the one before it\n"
		"on its CPU. cpu= is the CPU, from which the command is issued; a command\n"
		"without cpu= is issued from any CPU. The commands of a CPU are issued in the\n"
		"order of the file, even if earlier ones fail or have not ended.\n"
		"\n"
		"With --via smq the kernel issues the commands (--pace kernel): it gets them in\n"
		"advance, as timed batches, with their times and what they wait for. Otherwise,\n"
		"or with --pace user, a process for each CPU issues them, and one for those\n"
		"without cpu=.\n"
		"\n"
		"Modes:\n"
		"  time       Each command at its time; between CPUs the times give an order.\n"
		"  max        Each command as soon as there is room.\n"
		"  load       All commands in the order of their times, without pauses, with as\n"
		"             many in flight in the mean as in the recording at this place.\n"
		"             Needs took=; a command without it counts as ended last.\n"
		"  depend     Each command when those have ended that had ended, not more than\n"
		"             --window before, when it was issued. Needs took= as load does.\n"
		"\n"
		"In each mode a command waits until earlier ones have ended, on any CPU, if\n"
		"they use the same blocks and one of them writes: so each block gets its data\n"
		"in the order of the times, with --mode max of the lines. SYNCHRONIZE CACHE\n"
		"waits for the writes before it, except with --mode time at --speed 1. A\n"
		"command that may change blocks and has no LBA, or whose opcode is not known,\n"
		"counts as a write of all blocks. The report counts commands that waited.\n"
		"\n"
		"What ends in the --warm-up is in no figure, and does not make --stop-when end\n"
		"the replay. If that ends it, the exit status is 1; also if --record finds that\n"
		"the replay was not faithful, or has no verdict.\n"
		"\n"
		"--map OLD=NEW sends the commands with dev=OLD to NEW. Of several DEVs, and\n"
		"beside --map, DEV stands for --map DEV=DEV. Several OLDs may go to one NEW, at\n"
		"different offsets. If FILE has no dev=, one --map is possible, with any OLD. A\n"
		"single DEV gets all commands of a FILE of one device. scale= multiplies the\n"
		"first LBA and the one after the last, so that neighbours stay neighbours. A\n"
		"command that does not fit on NEW is refused with its line, before the first is\n"
		"sent. Commands that --from and --to leave out are not checked.\n"
		"\n"
		"'issue error' is how late a command was: from the time given by at= until the\n"
		"kernel sends it or, with --pace user, to the start of the system call that\n"
		"submits it. Who sleeps wakes up late, so --awake says when to spin instead.\n"
		"With permission to open /dev/cpu_dma_latency, replay keeps all CPUs out of\n"
		"deep idle states. A command that is due while --depth commands are in flight\n"
		"waits for room; with --pace kernel the CPUs share the sum of their --depth.\n"
		"The report counts such commands. With --pace user it also counts commands that\n"
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
		.plan = PLAN_DEFAULTS,
		.passes = 1,
		.awake_us = ~0ULL,
		.maps.to_us = ~0ULL,
	};
	struct cmdfile file;
	struct device devs[MAX_DEVICES];
	int taken_fds[MAX_DEVICES], status;
	struct run *run;
	unsigned int i;

	options_parse(argc, argv, &argp, tables, &opt);
	opt.plan.counts = opt.stop_when.in_flight;
	status = read_file(&opt, &file);
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
