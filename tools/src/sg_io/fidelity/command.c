// SPDX-License-Identifier: GPL-2.0
/* sg_io fidelity: how faithful a replay was. */
#include <argp.h>
#include <err.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "fidelity.h"
#include "inputs.h"
#include "util.h"
#include "cmdfile/map.h"
#include "run/run.h"

#define TIMER_NS	15000	/* a timer that is later (p99) is mentioned */
#define HEAD_LINES	8	/* of a recording, in which record's figure of the timer is */

struct fidelity_options {
	const char *files[2];
	unsigned int nr;
	struct maps maps;
	struct fidelity_how how;
	const char *svg;
	bool json;
};

static const char * const verdicts[] = {
	[VERDICT_NONE] = "no verdict",
	[VERDICT_FAITHFUL] = "faithful",
	[VERDICT_LATE] = "late",
	[VERDICT_REORDERED] = "reordered",
	[VERDICT_LOAD] = "other load",
	[VERDICT_VIOLATED] = "violated",
	[VERDICT_INCOMPLETE] = "incomplete",
};

enum {
	OPT_MAP = 256, OPT_MODE, OPT_SPEED, OPT_WINDOW, OPT_LATE, OPT_SVG, OPT_JSON,
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct fidelity_options *o = state->input;

	switch (key) {
	case OPT_MAP:
		map_add(state, arg, &o->maps);
		return 0;
	case OPT_MODE:
		plan_mode_option(state, arg, &o->how.plan);
		return 0;
	case OPT_WINDOW:
		plan_window_option(state, arg, &o->how.plan);
		return 0;
	case OPT_SPEED:
		o->how.plan.speed = option_real(state, "--speed", arg, 1e6, "");
		return 0;
	case OPT_LATE:
		o->how.late_us = option_number(state, "--late", arg, 1, 1000000000);
		return 0;
	case OPT_SVG:
		o->svg = arg;
		return 0;
	case OPT_JSON:
		o->json = true;
		return 0;
	case ARGP_KEY_ARG:
		if (o->nr == 2)
			argp_error(state, "'%s': two files are compared", arg);
		o->files[o->nr++] = arg;
		return 0;
	case ARGP_KEY_END:
		if (o->nr < 2)
			argp_error(state, "ORIGINAL and REPLAYED are needed");
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

/* What record found out about the machine, from the comments at the start of a recording. */
static __u64 read_timer(const char *name)
{
	FILE *in = fopen(name, "re");
	char text[256];
	double us = 0;
	int i;

	for (i = 0; in && i < HEAD_LINES && fgets(text, sizeof(text), in); i++)
		if (sscanf(text, "# an empty timer was %lf us late (p99)", &us) == 1)
			break;
	if (in)
		fclose(in);
	return us * 1000;
}

/*
 * For each device of the original its index in the replay: they have the same names, or there is
 * one of each.
 */
static void find_devices(const char * const *names, unsigned int nr,
			 const struct cmdfile *replayed, int *devs)
{
	unsigned int i, k;

	devs[0] = 0;
	for (i = 0; i < nr; i++) {
		devs[i] = -1;
		for (k = 0; k < replayed->nr_devs; k++)
			if (!strcmp(replayed->devs[k], names[i]))
				devs[i] = k;
		if (nr == 1 && replayed->nr_devs <= 1)
			devs[i] = 0;
	}
}

static void print_spread(const char *what, const struct spread *s)
{
	printf("%s: p50 %.1f us, p99 %.1f us, p99.9 %.1f us, longest %.1f us\n", what, s->p50 / 1e3,
	       s->p99 / 1e3, s->p999 / 1e3, s->max / 1e3);
}

static void print_text(const struct fidelity *f, const struct fidelity_how *how,
		       const struct cmdfile *replayed)
{
	unsigned int i;

	printf("%zu commands in both", f->nr);
	if (f->missing)
		printf(", %zu missing in the replay", f->missing);
	if (f->extra)
		printf(", %zu more in the replay", f->extra);
	putchar('\n');
	if (how->plan.mode == PLAN_TIME)
		print_spread("issue error", &f->late);
	printf("times between commands: Kolmogorov-Smirnov distance %.4f\n", f->ks);
	printf("order: %llu inversions", f->inversions);
	for (i = 0; f->nr_devs > 1 && i < f->nr_devs; i++)
		printf("%s%s %llu", i ? ", " : " over all; ", replayed->devs[i],
		       f->dev_inversions[i]);
	putchar('\n');
	if (f->loads)
		printf("in flight: mean %.2f, most %u; original %.2f, most %u; the curves differ "
		       "by %.1f %%\n"
		       "in flight while busy: mean %.2f, original %.2f\n",
		       f->reload.mean, f->reload.max, f->load.mean, f->load.max,
		       100 * f->load_error, f->reload.groups, f->load.groups);
	else
		puts("in flight: not known, some lines have no took=");
	if (f->took.nr && f->retook.nr) {
		print_spread("latency", &f->retook);
		print_spread("latency of the original", &f->took);
	}
	if (f->same_cpu + f->other_cpu)
		printf("CPUs: %zu of %zu commands on the CPU of the original\n", f->same_cpu,
		       f->same_cpu + f->other_cpu);
	if (f->timer_p99 > TIMER_NS)
		printf("machine: an empty timer was %.1f us late (p99), so are commands\n",
		       f->timer_p99 / 1e3);
	if (how->plan.mode == PLAN_DEPEND)
		printf("dependencies: %zu violated, window %g ms\n", f->violated,
		       how->plan.window_ns / 1e6);
	printf("%s: %s\n", verdicts[f->verdict], f->why);
}

static struct json_object *spread_object(const struct spread *s)
{
	struct json_object *o = json_object_new_object();

	if (!s->nr) {
		json_object_put(o);
		return NULL;
	}
	json_object_object_add(o, "p50", json_object_new_uint64(s->p50));
	json_object_object_add(o, "p99", json_object_new_uint64(s->p99));
	json_object_object_add(o, "p999", json_object_new_uint64(s->p999));
	json_object_object_add(o, "max", json_object_new_uint64(s->max));
	return o;
}

static struct json_object *load_object(const struct load *l)
{
	struct json_object *o = json_object_new_object(), *curve = json_object_new_array();
	unsigned int i;

	report_real(o, "mean", l->mean);
	report_real(o, "busy_mean", l->groups);
	json_object_object_add(o, "max", json_object_new_uint64(l->max));
	for (i = 0; i < CURVE; i++)
		json_object_array_add(curve,
				      json_object_new_double(round(1e3 * l->curve[i]) / 1e3));
	json_object_object_add(o, "curve", curve);
	return o;
}

static struct json_object *make_object(const struct fidelity *f, const struct fidelity_how *how,
				       const struct cmdfile *replayed)
{
	struct json_object *o = json_object_new_object(), *devs = json_object_new_object();
	unsigned int i;

	json_object_object_add(o, "mode", json_object_new_string(plan_modes[how->plan.mode]));
	json_object_object_add(o, "commands", json_object_new_uint64(f->nr));
	json_object_object_add(o, "missing", json_object_new_uint64(f->missing));
	json_object_object_add(o, "extra", json_object_new_uint64(f->extra));
	json_object_object_add(o, "issue_error_ns", spread_object(&f->late));
	report_real(o, "ks_distance", f->ks);
	json_object_object_add(o, "inversions", json_object_new_uint64(f->inversions));
	for (i = 0; i < f->nr_devs && i < replayed->nr_devs; i++)
		json_object_object_add(devs, replayed->devs[i],
				       json_object_new_uint64(f->dev_inversions[i]));
	json_object_object_add(o, "device_inversions", devs);
	json_object_object_add(o, "lat_ns", spread_object(&f->retook));
	json_object_object_add(o, "original_lat_ns", spread_object(&f->took));
	json_object_object_add(o, "in_flight", f->loads ? load_object(&f->reload) : NULL);
	json_object_object_add(o, "original_in_flight", f->loads ? load_object(&f->load) : NULL);
	if (f->loads)
		report_real(o, "in_flight_error", f->load_error);
	json_object_object_add(o, "violated", how->plan.mode == PLAN_DEPEND ?
			       json_object_new_uint64(f->violated) : NULL);
	json_object_object_add(o, "same_cpu", json_object_new_uint64(f->same_cpu));
	json_object_object_add(o, "other_cpu", json_object_new_uint64(f->other_cpu));
	json_object_object_add(o, "timer_p99_ns", f->timer_p99 ?
			       json_object_new_uint64(f->timer_p99) : NULL);
	json_object_object_add(o, "verdict", f->verdict == VERDICT_NONE ? NULL :
			       json_object_new_string(verdicts[f->verdict]));
	json_object_object_add(o, "why", json_object_new_string(f->why));
	return o;
}

int fidelity_compare(const struct fidelity_how *how, const struct cmdfile *original,
		     const char * const *names, unsigned int nr, const char *path,
		     const char *svg, struct json_object **json)
{
	const struct cmdfile_options opt = {
		.many_devices = true, .unchecked = true, .make_later = true, .memory = ~0ULL,
	};
	struct fidelity *f = calloc(1, sizeof(*f));
	int devs[FILE_DEVICES] = {}, status = EXIT_DEVICE;
	struct cmdfile replayed;

	if (cmdfile_load(path, &opt, &replayed)) {
		free(f);
		return EXIT_USAGE;
	}
	if (!output_check("--svg", svg)) {
		status = EXIT_USAGE;
		goto out;
	}
	find_devices(names, nr, &replayed, devs);
	if (!f || !fidelity_match(original, &replayed, how->plan.speed, devs, f) ||
	    !fidelity_measure(f, how)) {
		warnx("no memory");
		goto out;
	}
	f->timer_p99 = read_timer(path);
	fidelity_judge(f, how);
	if (svg && !fidelity_draw(f, svg)) {
		warn("%s", svg);
		goto out;
	}
	if (json)
		*json = make_object(f, how, &replayed);
	else
		print_text(f, how, &replayed);
	status = f->verdict == VERDICT_FAITHFUL ? EXIT_GOOD : EXIT_NOT_GOOD;
out:
	if (f)
		free(f->pairs);
	free(f);
	cmdfile_free(&replayed);
	return status;
}

int cmd_fidelity(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "map", OPT_MAP, "OLD=NEW[,offset=BLOCKS][,scale=X]", 0,
		  "The mapping of the replay; NEW is the name in REPLAYED", 1 },
		{ "mode", OPT_MODE, "MODE", 0, "The --mode of the replay (time)", 1 },
		{ "window", OPT_WINDOW, "MS", 0, "The --window of the replay (100)", 1 },
		{ "speed", OPT_SPEED, "X", 0, "The --speed of the replay (1)", 1 },
		{ "late", OPT_LATE, "US", 0,
		  "Call a replay late if p99 of its issue error is over US microseconds (50)", 1 },
		{ "svg", OPT_SVG, "FILE", 0,
		  "Write a picture: commands in flight and lateness over time", 1 },
		{ "json", OPT_JSON, NULL, 0, "One JSON object on standard output", 1 },
		{ 0 }
	};
	static const struct argp argp = {
		.options = options, .parser = parse, .args_doc = "ORIGINAL REPLAYED",
		.doc =
		"Tell how faithful a replay was: REPLAYED is a recording of the replay of\n"
		"ORIGINAL.\v"
		"The nth of equal commands of a device in ORIGINAL is paired with the nth in\n"
		"REPLAYED. If REPLAYED has more, the first are left over: a replay begins with\n"
		"reads that look for a file system. 'issue error' is how late each was issued,\n"
		"compared with the one that was the least late. The Kolmogorov-Smirnov distance\n"
		"is the greatest difference between the distributions of the times between\n"
		"commands, 0 to 1. An inversion is a pair of commands that were issued in the\n"
		"other order; commands of the same microsecond have no order. 'the curves\n"
		"differ by' is the mean distance of the commands in flight over time, as a\n"
		"share of the original's mean.\n"
		"\n"
		"The verdict is 'incomplete' if commands are missing, 'reordered' if there are\n"
		"inversions, 'late' if p99 of the issue error is over --late, otherwise\n"
		"'faithful'. With --mode load it is 'other load' if the commands in flight\n"
		"while the device was busy differ by more than 2 % in the mean; each 64 commands\n"
		"have the same weight. With --mode depend it is 'violated' if a command was\n"
		"issued before one that it depends on had ended.\n"
		"'sg_io record' notes how late an empty timer was; if that was more than --late,\n"
		"the machine was too slow for a verdict about times, order or another load.\n"
		"\n"
		"Example, with a recording of the replay:\n"
		"  sg_io record --output again.cdb /dev/sdc &\n"
		"  sleep 2\n"
		"  sg_io replay --map /dev/sda=/dev/sdc load.cdb\n"
		"  kill $!\n"
		"  wait\n"
		"  sg_io fidelity --map /dev/sda=/dev/sdc --svg load.svg load.cdb again.cdb\n"
		"\n"
		"Exit status: 0 faithful, 1 not, or no verdict; 2 bad option or file.\n",
	};
	struct fidelity_options o = {
		.how = { .plan = PLAN_DEFAULTS, .late_us = FIDELITY_LATE_US }, .maps.to_us = ~0ULL,
	};
	struct cmdfile_options how = {
		.many_devices = true, .unchecked = true, .make_later = true, .memory = ~0ULL,
	};
	const char *names[FILE_DEVICES];
	struct json_object *json = NULL;
	struct cmdfile original;
	unsigned int i, nr;
	int status;

	argp_parse(&argp, argc, argv, 0, NULL, &o);
	how.maps = o.maps.nr ? &o.maps : NULL;
	if (cmdfile_load(o.files[0], &how, &original))
		return EXIT_USAGE;
	/* Read with --map, the original has the targets as devices. */
	nr = o.maps.nr ? o.maps.nr_targets : original.nr_devs;
	for (i = 0; i < nr; i++)
		names[i] = o.maps.nr ? o.maps.targets[i].name : original.devs[i];
	status = fidelity_compare(&o.how, &original, names, nr, o.files[1], o.svg,
				  o.json ? &json : NULL);
	if (json)
		report_print(json);
	cmdfile_free(&original);
	return finish_output(status);
}
