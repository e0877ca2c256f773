// SPDX-License-Identifier: GPL-2.0
/* smqtop: a live view of SCSI hosts. */
#include <argp.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cost.h"
#include "screen.h"
#include "show.h"
#include "table.h"
#include "text.h"

/* As in sg_io. */
#define EXIT_GOOD	0
#define EXIT_USAGE	2
#define EXIT_OUTPUT	3
#define EXIT_RECORDING	4
#define EXIT_SIGNAL	128

enum {
	KEY_ONCE = 0x100,
	KEY_VIEW,
	KEY_SORT,
	KEY_SYSFS,
	KEY_RECORD,
	KEY_REPLAY,
	KEY_PROMETHEUS,
	KEY_COUNTS,
	KEY_SAMPLE,
	KEY_SLOW,
	KEY_COST,
};

const char *argp_program_version = "smqtop " VERSION;

static int find_name(struct argp_state *state, const char *given, const char *const *names,
		     unsigned int nr)
{
	char all[256];
	unsigned int i, used = 0;

	for (i = 0; i < nr; i++)
		if (!strcmp(given, names[i]))
			return i;
	for (i = 0; i < nr; i++)
		used += snprintf(all + used, sizeof(all) - used, "%s%s",
				 !i ? "" : i + 1 < nr ? ", " : " or ", names[i]);
	argp_error(state, "'%s' is not %s", given, all);
	return 0;
}

static double parse_interval(struct argp_state *state, const char *arg)
{
	char *end;
	double seconds = strtod(arg, &end);

	if (end == arg || *end || !(seconds >= 0.1 && seconds <= 3600))
		argp_error(state, "'%s' is no interval: 0.1 to 3600 seconds", arg);
	return seconds;
}

static unsigned long parse_count(struct argp_state *state, const char *arg)
{
	unsigned long n;
	char *end;

	errno = 0;
	n = strtoul(arg, &end, 10);
	if (end == arg || *end || errno || !n || *arg == '-')
		argp_error(state, "'%s' is no count of intervals", arg);
	return n;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	char *end;

	switch (key) {
	case KEY_ONCE:
		o->text = true;
		o->count = 1;
		return 0;
	case KEY_SYSFS:
		o->sysfs = true;
		return 0;
	case KEY_RECORD:
		o->record = arg;
		return 0;
	case KEY_PROMETHEUS:
		o->metrics = arg;
		return 0;
	case KEY_REPLAY:
		o->replay = arg;
		return 0;
	case KEY_COUNTS:
		o->counts = true;
		return 0;
	case KEY_SAMPLE:
		o->sample = parse_count(state, arg);
		if (o->sample & (o->sample - 1) || o->sample > 4096)
			argp_error(state, "'%s' is no power of two up to 4096", arg);
		return 0;
	case KEY_SLOW:
		o->slow = strtod(arg, &end);
		if (end == arg || *end || !(o->slow >= 0 && o->slow <= 1e6))
			argp_error(state, "'%s' is no number of milliseconds", arg);
		return 0;
	case KEY_COST:
		exit(cost_print(arg) ? EXIT_OUTPUT : EXIT_GOOD);
	case 'j':
		o->json = true;
		return 0;
	case 'i':
		o->interval = parse_interval(state, arg);
		return 0;
	case 'c':
		o->count = parse_count(state, arg);
		return 0;
	case 'f':
		o->filter = arg;
		return 0;
	case KEY_VIEW:
		o->view = find_name(state, arg, view_names, VIEWS);
		return 0;
	case KEY_SORT:
		o->sort = find_name(state, arg, sort_names, SORTS);
		return 0;
	case ARGP_KEY_END:
		if (o->replay && (o->record || o->metrics))
			argp_error(state, "--replay cannot be with --record or --prometheus");
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s': there are only options", arg);
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static void print_text(const struct rows *rows, double seconds)
{
	char line[TABLE_LINE];
	unsigned int i;

	table_head(rows->view, line, sizeof(line));
	puts(line);
	for (i = 0; i < rows->nr; i++) {
		table_row(rows->view, &rows->row[i], seconds, line, sizeof(line));
		puts(line);
	}
}

/* False if standard output cannot be written. */
static bool print(const struct frame *frame, const struct options *o)
{
	const struct rows *rows = &frame->rows[o->view];
	struct rows shown = *rows;
	struct json_object *json;

	/* The collector compares the next rows with all of these, in any order. */
	shown.row = malloc(rows->nr * sizeof(*rows->row) + 1);
	if (!shown.row)
		err(EXIT_OUTPUT, "memory");
	memcpy(shown.row, rows->row, rows->nr * sizeof(*rows->row));
	if (o->filter)
		rows_filter(&shown, o->filter);
	rows_sort(&shown, o->sort, SORT_IOPS);
	if (o->json) {
		json = show_json(frame, &shown);
		puts(json_object_to_json_string_ext(json, JSON_C_TO_STRING_PLAIN |
						    JSON_C_TO_STRING_NOSLASHESCAPE));
		json_object_put(json);
	} else {
		print_text(&shown, frame->seconds);
	}
	free(shown.row);
	return !fflush(stdout);
}

/* Waits for the end of the interval. Returns the signal that ends smqtop, or 0. */
static int wait_interval(int signals, double seconds)
{
	struct pollfd fd = { .fd = signals, .events = POLLIN };
	struct signalfd_siginfo info;

	if (poll(&fd, 1, seconds * 1000) > 0 && read(signals, &info, sizeof(info)) > 0)
		return info.ssi_signo;
	return 0;
}

static int open_signals(bool screen)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	if (screen) {
		sigaddset(&set, SIGTSTP);
		sigaddset(&set, SIGCONT);
		sigaddset(&set, SIGWINCH);
	}
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC);
}

/* False if that is not possible, after a message. */
static bool open_source(struct source *s, const struct options *o)
{
	struct watch *w = NULL;
	char why[256];

	if (o->replay) {
		s->replay = replay_open(o->replay);
		return s->replay;
	}
	if (o->record) {
		s->record_path = o->record;
		s->record = text_stream(open(o->record,
					     O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
		if (!s->record) {
			warn("%s", o->record);
			return false;
		}
	}
	s->metrics = o->metrics;
	if (!o->sysfs)
		w = watch_open(why, sizeof(why), o->counts);
	if (!w && !o->sysfs)
		warnx("%s: showing what sysfs has, without times", why);
	if (w)
		watch_slow(w, o->slow * 1e6);
	collect_begin(&s->live, w, o->sample);
	return true;
}

/* Prints each interval; a recording's without waiting. */
static int run_text(struct source *s, const struct options *o, int signals)
{
	int got, status = EXIT_GOOD;
	bool first = s->replay;
	unsigned long n;

	for (n = 0; !o->count || n < o->count; n++) {
		got = wait_interval(signals, s->replay ? 0 : o->interval);
		if (got)
			return EXIT_SIGNAL + got;
		if (first) {
			source_seek(s, 0);
			first = false;
		} else {
			switch (source_next(s)) {
			case SOURCE_END:
				return status;
			case SOURCE_FAILED:
				warn("%s", s->failed);
				return EXIT_OUTPUT;
			case SOURCE_NEXT:
				break;
			}
		}
		if (s->damaged) {
			warnx("%s: line %u is damaged", o->replay, s->line + 1);
			status = EXIT_RECORDING;
		} else if (!print(&s->frame, o)) {
			warn("standard output");
			return EXIT_OUTPUT;
		}
	}
	return status;
}

static int run(const struct options *o)
{
	bool screen = !o->text && !o->json && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) &&
		screen_possible();
	int signals = open_signals(screen), status;
	struct source s = {};

	if (!screen)
		stdout = text_stream(STDOUT_FILENO) ?: stdout;
	if (!open_source(&s, o))
		return o->replay ? EXIT_RECORDING : EXIT_OUTPUT;
	status = screen ? screen_run(&s, o, signals) : run_text(&s, o, signals);
	if (!source_close(&s)) {
		warn("%s", o->record);
		return EXIT_OUTPUT;
	}
	return status;
}

int main(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "once", KEY_ONCE, NULL, 0, "Show one interval as text and end", 0 },
		{ "json", 'j', NULL, 0, "A line with a JSON object per interval", 0 },
		{ "sysfs", KEY_SYSFS, NULL, 0,
		  "Show only what sysfs counts, without times: costs commands nothing", 0 },
		{ "record", KEY_RECORD, "FILE", 0, "Also write all views of each interval to FILE",
		  0 },
		{ "replay", KEY_REPLAY, "FILE", 0, "Show a recording in place of this machine", 0 },
		{ "prometheus", KEY_PROMETHEUS, "FILE", 0,
		  "Also replace FILE by the counters since the begin, in each interval, in "
		  "Prometheus' text format, for node_exporter", 0 },
		{ "counts", KEY_COUNTS, NULL, 0, "Take no times, which costs commands less", 0 },
		{ "sample", KEY_SAMPLE, "N", 0,
		  "Time one in N commands, a power of two; if not given, all or, above 40000 a "
		  "second, one in 32", 0 },
		{ "slow", KEY_SLOW, "MS", 0, "What takes longer is slow; 100 if not given", 0 },
		{ "cost", KEY_COST, "DISK", 0,
		  "Show what watching costs a READ of this disk, and end", 0 },
		{ "interval", 'i', "SECONDS", 0, "Length of an interval; 1 if not given", 0 },
		{ "count", 'c', "N", 0, "End after N intervals", 0 },
		{ "filter", 'f', "TEXT", 0,
		  "Only rows with this text, or that match this pattern", 0 },
		{ "view", KEY_VIEW, "VIEW", 0,
		  "hosts, luns, queues, opcodes, errors, commands, files or smq; luns if not given",
		  0 },
		{ "sort", KEY_SORT, "COLUMN", 0,
		  "The largest first: iops, mbps, inflight, p50, p90, p99, p999, queue, size or "
		  "errors; or by name; p99 if not given", 0 },
		{ 0 }
	};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.doc = "Show what the SCSI hosts of this machine do: on a screen, or with --once, "
			"--json or without a terminal as text."
			"\vExit status: 0; 2 bad option; 3 an output cannot be written; 4 a recording "
			"cannot be read; 128+N ended by signal N.",
	};
	struct options o = { .interval = 1, .slow = SLOW_MS, .view = VIEW_LUNS, .sort = SORT_P99 };

	stderr = text_stream(STDERR_FILENO) ?: stderr;
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, &o);
	return run(&o);
}
