// SPDX-License-Identifier: GPL-2.0
/*
 * sg_io compare: the same commands through each path, in turns.
 *
 * Each turn is an sg_io run in a process of its own, so threads, rings and open files of one path
 * are gone before the next turn.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "child.h"
#include "commands.h"
#include "compare.h"
#include "util.h"

#define MAX_ARGS	32
#define ARG_BYTES	48

struct comparison {
	struct run_options opt;
	struct device dev;
	struct contestant c[MAX_CONTESTANTS];
	unsigned int nr;
	int input;		/* copy of a FILE that can be read only once, or -1 */
};

/* The arguments of sg_io run for a turn; @text holds the numbers. */
struct arguments {
	char *argv[MAX_ARGS];
	char text[MAX_ARGS][ARG_BYTES];
	unsigned int nr;
};

static void add_arg(struct arguments *a, const char *arg)
{
	a->argv[a->nr++] = (char *)arg;
}

static void add_number(struct arguments *a, const char *option, __u64 n)
{
	add_arg(a, option);
	snprintf(a->text[a->nr], ARG_BYTES, "%llu", n);
	add_arg(a, a->text[a->nr]);
}

static void add_real(struct arguments *a, const char *option, double v)
{
	add_arg(a, option);
	snprintf(a->text[a->nr], ARG_BYTES, "%.17g", v);
	add_arg(a, a->text[a->nr]);
}

static void build_arguments(const struct comparison *cmp, const struct contestant *c,
			    struct arguments *a)
{
	const struct run_options *o = &cmp->opt;

	a->nr = 0;
	add_arg(a, "sg_io");
	add_arg(a, "run");
	add_arg(a, "--json");
	add_arg(a, "--via");
	add_arg(a, c->via);
	add_number(a, "--depth", o->depth);
	add_number(a, "--batch", o->batch);
	add_number(a, "--jobs", o->jobs);
	add_number(a, "--memory", o->memory >> 20);
	if (o->count)
		add_number(a, "--count", o->count);
	if (o->time)
		add_real(a, "--time", o->time);
	if (o->rate)
		add_real(a, "--rate", o->rate);
	if (o->poll)
		add_arg(a, "--poll");
	if (o->force)
		add_arg(a, "--force");
	if (o->unchecked)
		add_arg(a, "--unchecked");
	if (o->fold_cpus)
		add_arg(a, "--fold-cpus");
	add_arg(a, "--");
	add_arg(a, c->node);
	add_arg(a, cmp->input < 0 ? o->file : "-");
	a->argv[a->nr] = NULL;
}

/* Stores the last message, which is the error: warnings come before it. Drops "sg_io: ". */
static void store_reason(struct contestant *c, const struct child *child)
{
	static const char name[] = "sg_io: ";
	char *messages = child->messages, *line;
	size_t len = strlen(messages);

	while (len && messages[len - 1] == '\n')
		messages[--len] = '\0';
	line = strrchr(messages, '\n');
	line = line ? line + 1 : messages;
	if (!strncmp(line, name, sizeof(name) - 1))
		line += sizeof(name) - 1;
	if (*line)
		snprintf(c->why, sizeof(c->why), "%s", line);
	else
		snprintf(c->why, sizeof(c->why), "ended with status %d", child->status);
}

static bool store_result(struct contestant *c, const struct child *child)
{
	struct json_object *o = json_tokener_parse(child->output), *commands, *seconds;
	double n, s;

	if (!o || !json_object_object_get_ex(o, "commands", &commands) ||
	    !json_object_object_get_ex(o, "seconds", &seconds)) {
		json_object_put(o);
		return false;
	}
	n = json_object_get_double(commands);
	s = json_object_get_double(seconds);
	if (n < 1) {
		json_object_put(o);
		return false;
	}
	c->rounds[c->nr] = o;
	c->ns[c->nr++] = s * 1e9 / n;
	return true;
}

/* Return: 0, or -1 when the comparison cannot continue. */
static int take_turn(const struct comparison *cmp, struct contestant *c)
{
	struct arguments a;
	struct child child;
	bool kept = false;

	build_arguments(cmp, c, &a);
	if (child_run(a.argv, cmp->input, &child))
		return -1;
	c->status = child.status;
	if (child.status == EXIT_GOOD || child.status == EXIT_NOT_GOOD)
		kept = store_result(c, &child);
	if (!kept)
		store_reason(c, &child);
	child_free(&child);
	return 0;
}

static void show_turn(const struct comparison *cmp, unsigned int round, const struct contestant *c)
{
	if (isatty(STDERR_FILENO))
		dprintf(STDERR_FILENO, "\rround %u of %llu: %s %s\033[K", round + 1,
			cmp->opt.rounds, c->via, c->node);
}

/* Runs all turns. Return: 0, or the exit status if the comparison ended early. */
static int compete(struct comparison *cmp)
{
	struct contestant *c;
	unsigned int round, i;
	int status = 0;

	for (round = 0; round < cmp->opt.rounds && !status; round++) {
		for (i = 0; i < cmp->nr && !status; i++) {
			/* The order alternates, so that drift affects all paths alike. */
			c = &cmp->c[round % 2 ? cmp->nr - 1 - i : i];
			if (c->why[0])
				continue;
			show_turn(cmp, round, c);
			if (take_turn(cmp, c))
				status = EXIT_DEVICE;
			if (child_signal())
				status = EXIT_SIGNAL + child_signal();
		}
	}
	if (isatty(STDERR_FILENO))
		dprintf(STDERR_FILENO, "\r\033[K");
	return status;
}

static void find_median(struct contestant *c)
{
	unsigned int i, j, below;

	for (i = 0; i < c->nr; i++) {
		if (!i || c->ns[i] < c->ns_least)
			c->ns_least = c->ns[i];
		if (!i || c->ns[i] > c->ns_most)
			c->ns_most = c->ns[i];
		/* With an even number of turns, take the lower one of the two in the middle. */
		for (j = 0, below = 0; j < c->nr; j++)
			below += c->ns[j] < c->ns[i] || (c->ns[j] == c->ns[i] && j < i);
		if (below == (c->nr - 1) / 2) {
			c->median = i;
			c->ns_median = c->ns[i];
		}
	}
}

static int add_contestant(struct comparison *cmp, const char *via, enum node_kind node)
{
	struct contestant *c = &cmp->c[cmp->nr++];

	c->via = via;
	c->node = cmp->dev.node[node];
	if (!c->node[0]) {
		snprintf(c->why, sizeof(c->why), "%s has no %s node%s", cmp->opt.devs[0],
			 node_kind_name(node), node == NODE_SMQ ? " (modprobe smq_sg)" : "");
		c->status = EXIT_DEVICE;
	}
	c->rounds = calloc(cmp->opt.rounds, sizeof(*c->rounds));
	c->ns = calloc(cmp->opt.rounds, sizeof(*c->ns));
	return c->rounds && c->ns ? 0 : -1;
}

static int add_contestants(struct comparison *cmp)
{
	static const struct {
		const char *via;
		enum node_kind node;
	} ways[] = {
		{ "sg", NODE_SG }, { "bsg", NODE_BSG }, { "bsg-uring", NODE_BSG },
		{ "bsg-uring", NODE_SMQ }, { "smq", NODE_SMQ }, { "block", NODE_BLOCK },
	};
	unsigned int i, j;

	_Static_assert(ARRAY_SIZE(ways) == MAX_CONTESTANTS, "one struct contestant for each");

	for (i = 0; i < cmp->opt.nr_vias; i++)
		for (j = 0; j < MAX_CONTESTANTS; j++)
			if (!strcmp(cmp->opt.vias[i], ways[j].via) &&
			    add_contestant(cmp, cmp->opt.vias[i], ways[j].node)) {
				warnx("no memory");
				return -1;
			}
	return 0;
}

/* If FILE can be read only once (a pipe, for example), copies it, because every turn reads it. */
static int copy_input(struct comparison *cmp)
{
	const char *name = cmp->opt.file;
	bool standard = !strcmp(name, "-") || !strcmp(name, "/dev/stdin");
	int from = standard ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
	char buf[65536];
	struct stat st;
	ssize_t n;

	cmp->input = -1;
	if (from < 0 || fstat(from, &st)) {
		warn("%s", name);
		return EXIT_USAGE;
	}
	/* For a directory, check_file() prints the error. */
	if (!standard && !S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode) && !S_ISSOCK(st.st_mode)) {
		close(from);
		return 0;
	}
	cmp->input = memfd_create("commands", MFD_CLOEXEC);
	while (cmp->input >= 0 && (n = read(from, buf, sizeof(buf)))) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			warn("%s", standard ? "standard input" : name);
			return EXIT_USAGE;
		}
		if (write(cmp->input, buf, n) != n) {
			warnx("no memory for a copy of FILE");
			return EXIT_DEVICE;
		}
	}
	if (!standard)
		close(from);
	if (cmp->input >= 0)
		return 0;
	warn("memory for a copy of FILE");
	return EXIT_DEVICE;
}

/* Checks FILE before the first turn, so that an error in it is reported only once. */
static int check_file(const struct comparison *cmp)
{
	const struct cmdfile_options opt = {
		.unchecked = cmp->opt.unchecked, .names_unchecked = true,
		.memory = cmp->opt.memory,
	};
	struct cmdfile file;
	int ret;

	if (cmp->input >= 0 && (lseek(cmp->input, 0, SEEK_SET) < 0 ||
				dup2(cmp->input, STDIN_FILENO) < 0)) {
		warn("copy of FILE");
		return EXIT_DEVICE;
	}
	run_set_type(&cmp->opt);
	ret = cmdfile_load(cmp->input >= 0 ? "-" : cmp->opt.file, &opt, &file);
	if (ret)
		return EXIT_USAGE;
	cmdfile_free(&file);
	return 0;
}

/* Whether no path has completed a turn. */
static bool none_ran(const struct comparison *cmp)
{
	unsigned int i;

	for (i = 0; i < cmp->nr; i++)
		if (cmp->c[i].nr)
			return false;
	return true;
}

static int conclude(const struct comparison *cmp, int status)
{
	unsigned int i;

	if (cmp->opt.json)
		compare_json(&cmp->opt, cmp->c, cmp->nr);
	else
		compare_text(&cmp->opt, cmp->c, cmp->nr);
	if (status)
		return status;
	if (none_ran(cmp))
		return cmp->c[0].status ?: EXIT_DEVICE;
	for (i = 0; i < cmp->nr; i++) {
		/* The path ran in some rounds, but could not run in a later one. */
		if (cmp->c[i].nr && cmp->c[i].why[0])
			return EXIT_DEVICE;
		if (contestant_bad(&cmp->c[i]))
			status = EXIT_NOT_GOOD;
	}
	return status;
}

static void free_contestants(struct comparison *cmp)
{
	struct contestant *c;
	unsigned int i;

	for (c = cmp->c; c < cmp->c + cmp->nr; c++) {
		for (i = 0; i < c->nr; i++)
			json_object_put(c->rounds[i]);
		free(c->rounds);
		free(c->ns);
	}
}

int cmd_compare(int argc, char **argv)
{
	struct comparison *cmp = calloc(1, sizeof(*cmp));
	unsigned int i;
	int status;

	if (!cmp) {
		warnx("no memory");
		return EXIT_DEVICE;
	}
	cmp->input = -1;
	compare_parse_options(argc, argv, &cmp->opt);
	status = device_comes_first(cmp->opt.devs[0]) ? copy_input(cmp) : EXIT_USAGE;
	if (!status)
		status = check_file(cmp);
	if (!status && (device_find(cmp->opt.devs[0], &cmp->dev) || add_contestants(cmp)))
		status = EXIT_DEVICE;
	if (!status) {
		child_catch_signals();
		status = compete(cmp);
		for (i = 0; i < cmp->nr; i++)
			find_median(&cmp->c[i]);
		status = finish_output(conclude(cmp, status));
	}
	free_contestants(cmp);
	if (cmp->input >= 0)
		close(cmp->input);
	free(cmp);
	return status;
}
