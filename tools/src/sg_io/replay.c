// SPDX-License-Identifier: GPL-2.0
/* sg_io replay: the commands of a file at their times, on their CPUs. */
#include <err.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "lane.h"
#include "opcodes.h"
#include "option.h"
#include "run.h"

#define DEPTH		64
#define SPEED_MAX	1e6
/* For all threads to be on their CPUs when the first command is due. */
#define LEAD_NS		(NS_PER_S / 50)

struct replay_options {
	struct run_options run;
	double speed;		/* 0: as fast as they go */
};

enum {
	OPT_VIA = 256, OPT_SPEED, OPT_DEPTH, OPT_FORCE, OPT_UNCHECKED, OPT_MEMORY, OPT_JSON,
};

static void take_via(struct argp_state *state, const char *arg, struct run_options *o)
{
	o->via = run_find_path(arg, strlen(arg));
	if (!o->via)
		argp_error(state, "--via: '%s' is not sg, bsg-uring, smq or block", arg);
	if (!strcmp(o->via, "bsg"))
		argp_error(state,
			   "--via bsg: has one command at a time in flight; sg, bsg-uring, smq or "
			   "block have more");
}

static double take_speed(struct argp_state *state, const char *arg)
{
	if (!strcmp(arg, "max") || !strcmp(arg, "0"))
		return 0;
	return option_real(state, "--speed", arg, SPEED_MAX);
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
	case OPT_FORCE:
		o->run.force = true;
		return 0;
	case OPT_UNCHECKED:
		o->run.unchecked = true;
		return 0;
	case OPT_MEMORY:
		o->run.memory = option_number(state, "--memory", arg, 1, 1 << 20) << 20;
		return 0;
	case OPT_JSON:
		o->run.json = true;
		return 0;
	case ARGP_KEY_ARG:
		if (o->run.file)
			argp_error(state, "'%s': one device and one file", arg);
		if (o->run.nr_devs)
			o->run.file = arg;
		else
			o->run.devs[o->run.nr_devs++] = arg;
		return 0;
	case ARGP_KEY_END:
		if (!o->run.nr_devs)
			argp_error(state, "DEV and FILE are missing");
		if (!o->run.file)
			argp_error(state, "only '%s' given: DEV or FILE is missing",
				   o->run.devs[0]);
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

/* What all lanes together have done. */
struct replayed {
	struct hist late;
	struct opcodes opcodes;
	__u64 waited;
	__u64 overtaken;
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
		       "speed %g, %u CPUs\n",
		       hist_percentile(&all->late, 500) / 1e3,
		       hist_percentile(&all->late, 990) / 1e3,
		       hist_percentile(&all->late, 999) / 1e3, all->late.max / 1e3,
		       run->lanes[0].speed, run->nr_lanes);
	if (all->waited)
		printf("%llu commands were due while --depth %u were in flight: they came late\n",
		       all->waited, run->depth);
	if (all->overtaken)
		printf("%llu commands were overtaken: %s had no room for them in their turn\n",
		       all->overtaken, run->targets[0].dev->given);
}

static void report_more_json(const struct run *run, const struct replayed *all,
			     struct json_object *o)
{
	struct json_object *ns = NULL;

	if (run->lanes[0].speed) {
		ns = json_object_new_object();
		json_object_object_add(ns, "p50",
				       json_object_new_uint64(hist_percentile(&all->late, 500)));
		json_object_object_add(ns, "p99",
				       json_object_new_uint64(hist_percentile(&all->late, 990)));
		json_object_object_add(ns, "p999",
				       json_object_new_uint64(hist_percentile(&all->late, 999)));
		json_object_object_add(ns, "max", json_object_new_uint64(all->late.max));
		report_real(o, "speed", run->lanes[0].speed);
	} else {
		json_object_object_add(o, "speed", NULL);
	}
	json_object_object_add(o, "issue_error_ns", ns);
	json_object_object_add(o, "lanes", json_object_new_uint64(run->nr_lanes));
	json_object_object_add(o, "opcodes", opcodes_json(&all->opcodes));
	json_object_object_add(o, "waited_for_depth", json_object_new_uint64(all->waited));
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

static int replay(struct run *run, const struct replay_options *opt, struct device *dev,
		  int *claim)
{
	int status = run_prepare(run, &opt->run, run->file, dev, claim);

	if (status)
		return status;
	if (run->engine->sync && run->depth > 1) {
		warnx("%s: without an sg node it has one command at a time in flight: --depth 1",
		      dev->given);
		return EXIT_DEVICE;
	}
	run->lanes = lanes_new(run->file, opt->speed, &run->nr_lanes);
	if (!run->lanes)
		return EXIT_USAGE;
	run->lead_ns = LEAD_NS;
	status = run_execute(run, &opt->run, report);
	lanes_free(run->lanes, run->nr_lanes);
	return status;
}

static int load(const struct replay_options *opt, struct cmdfile *file)
{
	const struct cmdfile_options how = {
		.unchecked = opt->run.unchecked, .memory = opt->run.memory,
	};

	if (cmdfile_load(opt->run.file, &how, file))
		return -1;
	if (file->timed || !opt->speed)
		return 0;
	warnx("%s: no command has at=, there is no time to replay; --speed max does without",
	      file->name);
	cmdfile_free(file);
	return -1;
}

int cmd_replay(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "speed", OPT_SPEED, "X", 0,
		  "X times as fast as the file says (1); max or 0: without waiting", 1 },
		{ "via", OPT_VIA, "PATH", 0,
		  "sg, bsg-uring, smq or block (smq on an smqsg node, else sg)", 1 },
		{ "depth", OPT_DEPTH, "N", 0, "Commands in flight from each CPU at most (64)", 1 },
		{ "force", OPT_FORCE, NULL, 0, "Write to a disk that is mounted or held", 2 },
		{ "unchecked", OPT_UNCHECKED, NULL, 0,
		  "Take a direction and BYTES that contradict the CDB", 2 },
		{ "memory", OPT_MEMORY, "MIB", 0, "Most memory for data (1024)", 2 },
		{ "json", OPT_JSON, NULL, 0, "One JSON object on standard output", 2 },
		{ 0 }
	};
	static const struct argp argp = {
		.options = options, .parser = parse, .args_doc = "DEV FILE",
		.doc =
		"Issue the commands of FILE ('-': standard input) to DEV at the times it says.\v"
		"at= is when a command is issued, in microseconds, the smallest of the file being the\n"
		"start; a line without it goes right after the one before. cpu= is where: each CPU has\n"
		"a thread of its own, lines without it share one that goes anywhere. The commands of a\n"
		"CPU go in the order of the file, whatever becomes of those before them; between CPUs\n"
		"the times alone make an order.\n"
		"\n"
		"issue error is how long after its time a command was given to the kernel: until the\n"
		"system call begins that carries it. The last 100 us before a command its CPU waits\n"
		"awake. One that is due while --depth are in flight waits for room, which is counted,\n"
		"and so are commands that were overtaken because the path had no room for them.\n"
		"\n"
		"'sg_io run --help' tells the paths and when a run ends, 'sg_io --help' has the format\n"
		"of FILE and the exit statuses.\n",
	};
	struct replay_options opt = {
		.run = { .replay = true, .depth = DEPTH, .batch = 1, .jobs = 1,
			 .memory = 1024ULL << 20 },
		.speed = 1,
	};
	struct run run = {};
	struct cmdfile file;
	struct device dev;
	int claim = -1, status;

	argp_parse(&argp, argc, argv, 0, NULL, &opt);
	if (load(&opt, &file))
		return EXIT_USAGE;
	run.file = &file;
	status = replay(&run, &opt, &dev, &claim);
	if (claim >= 0)
		close(claim);
	free(run.targets);
	cmdfile_free(&file);
	return status;
}
