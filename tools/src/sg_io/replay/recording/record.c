// SPDX-License-Identifier: GPL-2.0
/* sg_io record: writes the commands that other programs send to a device to a command file. */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commands.h"
#include "inputs.h"
#include "issue/cmdfile/cmdfile.h"
#include "issue/run/run.h"
#include "recorder.h"
#include "recording.h"
#include "signals.h"
#include "util.h"

#define BUFFER_KB	4096
#define BUFFER_KB_MAX	(1u << 20)
#define READ_MS		10	/* between two reads of the buffers */
#define PROGRESS_NS	(NS_PER_S / 5)
/*
 * The CPUs' buffers are read one after the other. So events newer than this are sorted only after
 * each buffer has been read once more.
 */
#define LATE_NS		(NS_PER_S / 50)
#define LOSS_BYTES	32

struct record_options {
	const char *names[FILE_DEVICES];
	unsigned int nr;
	struct writing_options to;
	__u64 buffer_kb;
	__u64 count;
	double time;
	bool quiet;		/* for a recorder: @stop ends the recording, not a signal */
	int stop;
	int ready;		/* receives a byte when the recording has begun */
};

enum {
	OPT_TIME = 256, OPT_COUNT, OPT_BUFFER,
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct record_options *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->to;
		return 0;
	case OPT_TIME:
		o->time = option_seconds(state, "--time", arg);
		return 0;
	case OPT_COUNT:
		o->count = option_number(state, "--count", arg, 1, MAX_COMMANDS);
		return 0;
	case OPT_BUFFER:
		o->buffer_kb = option_number(state, "--buffer", arg, 4, BUFFER_KB_MAX);
		return 0;
	case ARGP_KEY_ARG:
		if (o->nr == FILE_DEVICES)
			argp_error(state, "more than %d devices", FILE_DEVICES);
		if (o->nr && (strlen(arg) > FILE_DEVICE_NAME || strpbrk(arg, " \t#=,")))
			argp_error(state, "'%s' cannot be a name in dev= and --map", arg);
		o->names[o->nr++] = arg;
		return 0;
	case ARGP_KEY_END:
		if (!o->nr)
			argp_error(state, "DEV is missing");
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

/* Reads and sorts new events. Return: whether all devices are still there. */
static bool read_events(struct trace *t, struct recording *r, const struct record_options *o,
			const struct device *devs)
{
	__u64 now = clock_ns();
	unsigned int i;

	if (!trace_read(t, recording_take, r))
		r->no_memory = true;
	recording_sort(r, now - LATE_NS);
	for (i = 0; i < o->nr && !access(devs[i].sysfs, F_OK); i++)
		;
	return i == o->nr;
}

/* How many events were lost. If not @known, there may be more. */
struct loss {
	bool known;
	__u64 events;
};

static struct loss count_lost(const struct trace *t)
{
	struct loss lost;

	lost.known = trace_lost(t, &lost.events);
	return lost;
}

/* Writes "N", or "N or more", to @buf, which has LOSS_BYTES bytes. */
static const char *describe_loss(const struct loss *lost, char *buf)
{
	if (lost->known)
		snprintf(buf, LOSS_BYTES, "%llu", lost->events);
	else
		snprintf(buf, LOSS_BYTES, "%llu or more", lost->events);
	return buf;
}

static void show_progress(const struct recording *r, const struct trace *t, double seconds)
{
	struct loss lost = count_lost(t);
	char text[LOSS_BYTES];

	dprintf(STDERR_FILENO, "\r%zu commands  %u in flight  %s events lost  %.0f s\033[K",
		r->nr - r->refused, r->nr_in_flight, describe_loss(&lost, text), seconds);
}

/*
 * Waits until the buffers are read again. How late such a timer is tells how exactly commands can
 * be issued on this machine: fidelity needs that.
 */
static void sleep_once(struct recording *r)
{
	const struct timespec ts = { .tv_nsec = READ_MS * 1000000 };
	__u64 due = clock_ns() + ts.tv_nsec, now;

	clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
	now = clock_ns();
	hist_add(&r->timer, now > due ? now - due : 0);
}

/* Return: whether all devices are still there at the end. */
static bool record(struct trace *t, struct recording *r, const struct record_options *o,
		   const struct device *devs, int signals)
{
	struct pollfd fd = { .fd = signals, .events = POLLIN };
	__u64 start = clock_ns(), shown = start, now = start;
	bool terminal = !o->quiet && isatty(STDERR_FILENO), there = true;

	/* By default a timer may be 50 us late. */
	prctl(PR_SET_TIMERSLACK, 1);
	while (there && !r->full && !r->no_memory && poll(&fd, 1, 0) <= 0) {
		sleep_once(r);
		there = read_events(t, r, o, devs);
		now = clock_ns();
		if (o->time && now - start >= o->time * NS_PER_S)
			break;
		if (terminal && now - shown >= PROGRESS_NS) {
			show_progress(r, t, (now - start) / 1e9);
			shown = now;
		}
	}
	trace_stop(t);
	if (!r->no_memory)
		read_events(t, r, o, devs);
	recording_sort(r, ~0ULL);
	if (terminal)
		dprintf(STDERR_FILENO, "\r\033[K");
	return there;
}

/* "/dev/sda (0:0:0:0, VENDOR MODEL)" */
static void write_device(FILE *out, const struct device *dev)
{
	char vendor[32] = "", model[32] = "";
	size_t n;

	sysfs_read(dev->sysfs, "vendor", vendor, sizeof(vendor));
	sysfs_read(dev->sysfs, "model", model, sizeof(model));
	/* Both are padded with spaces. */
	vendor[strcspn(vendor, " ")] = '\0';
	for (n = strlen(model); n && model[n - 1] == ' ';)
		model[--n] = '\0';
	fprintf(out, "%s (%s, %s %s)", dev->given, dev->hctl, vendor, model);
}

static void write_head(FILE *out, const struct record_options *o, const struct device *devs,
		       const struct recording *r, const struct loss *lost)
{
	char text[LOSS_BYTES];
	unsigned int i;

	fputs("# sg_io record ", out);
	for (i = 0; i < o->nr; i++) {
		fputs(i ? ", " : "", out);
		write_device(out, &devs[i]);
	}
	fprintf(out, ": %zu commands in %.6f s\n", r->nr - r->refused, recording_seconds(r));
	fprintf(out, "# an empty timer was %.1f us late (p99)\n",
		hist_percentile(&r->timer, 990) / 1e3);
	if (lost->events || !lost->known)
		fprintf(out, "# %s events lost: commands %s missing\n", describe_loss(lost, text),
			lost->events ? "are" : "may be");
}

static void print_text(FILE *out, const struct record_options *o, const struct recording *r,
		       const struct writing *w, const struct loss *lost)
{
	unsigned int cpus = recording_cpus(r), i;
	char text[LOSS_BYTES];

	for (i = 0; i < o->nr; i++)
		fprintf(out, "%s%s", i ? ", " : "", o->names[i]);
	fprintf(out, ": %llu commands in %.3f s from %u CPU%s, at most %u in flight\n",
		w->nr_written, recording_seconds(r), cpus, cpus == 1 ? "" : "s",
		r->most_in_flight);
	if (w->nr_written) {
		fputs("  ", out);
		opcodes_print(&w->written, out);
		fputc('\n', out);
	}
	for (i = 0; i < o->nr && o->nr > 1; i++)
		fprintf(out, "  %s: %llu\n", o->names[i], recording_count(r, i));
	if (r->latency.count) {
		fputs("latency: ", out);
		report_latency(out, &r->latency, false);
		fprintf(out, "; %llu not GOOD\n", r->not_good);
	}
	if (w->nr_left_out) {
		fprintf(out, "left out: %llu (", w->nr_left_out);
		opcodes_print(&w->left_out, out);
		fputs("), in comments of the file with the reason\n", out);
	}
	fprintf(out, "events lost: %s\n", describe_loss(lost, text));
}

static void print_json(const struct record_options *o, const struct recording *r,
		       const struct writing *w, const struct loss *lost)
{
	struct json_object *all = json_object_new_object(), *devs = json_object_new_object();
	unsigned int i;

	report_string(all, "device", o->names[0]);
	for (i = 0; i < o->nr; i++)
		report_number(devs, o->names[i], recording_count(r, i));
	json_object_object_add(all, "devices", devs);
	report_string(all, "file", o->to.output);
	report_number(all, "commands", w->nr_written);
	report_real(all, "seconds", recording_seconds(r));
	report_number(all, "cpus", recording_cpus(r));
	report_number(all, "most_in_flight", r->most_in_flight);
	json_object_object_add(all, "opcodes", opcodes_json(&w->written));
	json_object_object_add(all, "lat_ns", report_percentiles(&r->latency));
	report_number(all, "timer_p99_ns", hist_percentile(&r->timer, 990));
	report_number(all, "not_good", r->not_good);
	report_number(all, "left_out", w->nr_left_out);
	json_object_object_add(all, "left_out_opcodes", opcodes_json(&w->left_out));
	if (lost->known)
		report_number(all, "lost", lost->events);
	else
		json_object_object_add(all, "lost", NULL);
	report_print(all);
}

static int conclude(const struct record_options *o, const struct device *devs,
		    const struct recording *r, FILE *out,
		    const struct recorded_device *recorded,
		    const struct loss *lost)
{
	struct writing *w = calloc(1, sizeof(*w));
	int status = EXIT_GOOD;

	if (!w) {
		warnx("no memory");
		return EXIT_DEVICE;
	}
	*w = (struct writing){ .out = out, .devs = recorded, .nr_devs = o->nr,
				.pattern = o->to.pattern };
	/* Truncate only now, so that a failed recording does not destroy an older one. */
	if (o->to.output && ftruncate(fileno(out), 0) && errno != EINVAL) {
		warn("%s", o->to.output);
		free(w);
		return EXIT_DEVICE;
	}
	write_head(out, o, devs, r, lost);
	recording_write(r, w);
	if (ferror(out) || fflush(out) || (o->to.output && fclose(out))) {
		warn("%s", o->to.output ?: "standard output");
		free(w);
		return EXIT_DEVICE;
	}
	if (o->to.json)
		print_json(o, r, w, lost);
	else if (!o->quiet)
		print_text(o->to.output ? stdout : stderr, o, r, w, lost);
	if (w->nr_left_out)
		status = EXIT_NOT_GOOD;
	if (lost->events) {
		warnx("%llu events were lost, commands are missing: --buffer %llu was too small",
		      lost->events, o->buffer_kb);
		status = EXIT_NOT_GOOD;
	}
	if (!lost->known) {
		warnx("tracing: per_cpu/cpu*/stats cannot be read, so more events may have been "
		      "lost");
		status = EXIT_NOT_GOOD;
	}
	if (r->full && !o->count) {
		warnx("the recording ended: a command file has %u commands at most", MAX_COMMANDS);
		status = EXIT_NOT_GOOD;
	}
	if (r->no_memory) {
		warnx("the recording ended early: no memory, or reading the trace failed");
		status = EXIT_DEVICE;
	}
	free(w);
	return finish_output(status);
}

static void print_begin(const struct record_options *o, const struct device *devs)
{
	unsigned int i;

	fputs("recording ", stderr);
	for (i = 0; i < o->nr; i++)
		fprintf(stderr, "%s%s (%s)", i ? ", " : "", o->names[i], devs[i].hctl);
	fprintf(stderr, "%s\n", o->time || o->count ? "" : ": Ctrl-C ends it");
}

static void begin_quietly(const struct record_options *o)
{
	if (write(o->ready, "", 1) != 1)
		warn("the recording");
	close(o->ready);
}

/* Records, and writes the file. Sets @begun if the recording began. */
static int execute(const struct record_options *o, const struct device *devs, FILE *out,
		   bool *begun)
{
	struct recording *r = calloc(1, sizeof(*r));
	int signals = o->quiet ? o->stop : signals_open(), status;
	struct trace *t;
	struct recorded_device recorded[FILE_DEVICES];
	struct loss lost;
	unsigned int i;
	bool there;

	for (i = 0; i < o->nr; i++)
		recorded[i] = (struct recorded_device){ o->names[i], devs[i].block_size };
	if (!r || signals < 0) {
		warnx("no memory");
		free(r);
		return EXIT_DEVICE;
	}
	signals_block();
	r->limit = o->count ? o->count : MAX_COMMANDS;
	t = trace_start(devs, o->nr, o->buffer_kb);
	if (!t) {
		free(r);
		return EXIT_DEVICE;
	}
	*begun = true;
	if (o->quiet)
		begin_quietly(o);
	else
		print_begin(o, devs);
	there = record(t, r, o, devs, signals);
	lost = count_lost(t);
	trace_close(t);
	/* The reader of the output may be slow: let the next signal end the program. */
	if (!o->quiet) {
		signals_take(signals);
		signals_unblock();
	}
	status = conclude(o, devs, r, out, recorded, &lost);
	if (!there) {
		for (i = 0; i < o->nr; i++)
			if (access(devs[i].sysfs, F_OK))
				warnx("%s: the device is gone, the recording ended early",
				      o->names[i]);
		status = EXIT_DEVICE;
	}
	recording_free(r);
	free(r);
	close(signals);
	return status;
}

/* Opens the file without truncating it. Sets @made if the file did not exist before. */
static FILE *open_output(const char *path, bool *made)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	FILE *out;

	*made = fd >= 0;
	if (fd < 0 && errno == EEXIST)
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	out = fd < 0 ? NULL : fdopen(fd, "w");
	if (!out)
		warn("%s", path);
	return out;
}

static int record_to(const struct record_options *o, const struct device *devs)
{
	bool made, begun = false;
	FILE *out = open_output(o->to.output, &made);
	int status;

	if (!out)
		return EXIT_DEVICE;
	status = execute(o, devs, out, &begun);
	if (made && !begun)
		unlink(o->to.output);
	return status;
}

bool recorder_start(struct recorder *r, const struct device *devs, const char * const *names,
		    unsigned int nr, const char *path)
{
	struct record_options o = {
		.nr = nr, .to.output = path, .buffer_kb = BUFFER_KB, .quiet = true,
	};
	int stop[2], ready[2];
	char byte;
	ssize_t got;

	memcpy(o.names, names, nr * sizeof(*names));
	if (pipe2(stop, O_CLOEXEC) || pipe2(ready, O_CLOEXEC)) {
		warn("pipe");
		return false;
	}
	r->pid = fork();
	if (!r->pid) {
		close(stop[1]);
		close(ready[0]);
		o.stop = stop[0];
		o.ready = ready[1];
		_exit(record_to(&o, devs));
	}
	close(stop[0]);
	close(ready[1]);
	r->stop = stop[1];
	got = r->pid > 0 ? read(ready[0], &byte, 1) : 0;
	close(ready[0]);
	if (got == 1)
		return true;
	if (r->pid < 0)
		warn("fork");
	else
		recorder_end(r);	/* It has printed the reason. */
	return false;
}

int recorder_end(struct recorder *r)
{
	int status;

	if (r->pid <= 0)
		return EXIT_GOOD;
	close(r->stop);
	status = wait_for_process(r->pid);
	r->pid = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_DEVICE;
}

int cmd_record(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "time", OPT_TIME, "SECONDS", 0, "Stop after this time; it may end in s, m or h",
		  1 },
		{ "count", OPT_COUNT, "N", 0, "Stop after this number of commands", 1 },
		{ "buffer", OPT_BUFFER, "KIB", 0,
		  "Size of each CPU's trace buffer, 4 to 1048576 (4096)", 1 },
		{ 0 }
	};
	static const struct argp_child children[] = { { &writing_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = {
		.children = children, .options = options, .parser = parse, .args_doc = "DEV...",
		.doc =
		"Write the commands that the kernel sends to each DEV as one command file.\v"
		"All commands are recorded: those of filesystems, of programs and of sg_io\n"
		"itself. Each has at=, the time since the first one, and cpu=, the CPU on which\n"
		"the low-level driver got it; 'sg_io replay' uses both. If the driver refuses a\n"
		"command, so that it is queued again, it is recorded only once. Ctrl-C, SIGTERM\n"
		"or the end of --time ends the recording, and the file is complete. A further\n"
		"signal also stops the writing of the file. An existing --output file stays\n"
		"unchanged until the recording ends.\n"
		"\n"
		"With several DEVs the file has one time line, and dev= in each line says which\n"
		"DEV got the command. took= is how long it took, if its end was seen.\n"
		"\n"
		"Tracepoints show the CDB, but not the data. In the file WRITEs have the data\n"
		"of --pattern. Without --pattern WRITE SAME has zeroes, and other WRITEs have\n"
		"the pattern lba. An UNMAP in the file unmaps nothing. Other commands that send\n"
		"parameters, and opcodes whose length is not known, are left out: in their\n"
		"place is a comment with the reason, and the exit status is 1. The exit status\n"
		"is also 1 if events were lost; their number is printed, and written to the\n"
		"file.\n"
		"\n"
		"The events go to a separate tracing instance: other users of tracing are not\n"
		"affected.\n"
		"\n"
		"Example:\n"
		"  sg_io record --time 2 --output load.cdb /dev/sda /dev/sdb\n",
	};
	struct record_options o = { .buffer_kb = BUFFER_KB };
	struct device devs[FILE_DEVICES];
	unsigned int i, k;
	bool begun;

	argp_parse(&argp, argc, argv, 0, NULL, &o);
	for (i = 0; i < o.nr; i++) {
		if (device_find(o.names[i], &devs[i]))
			return EXIT_DEVICE;
		for (k = 0; k < i; k++) {
			if (strcmp(devs[k].sysfs, devs[i].sysfs))
				continue;
			warnx("%s and %s are the same device", o.names[k], o.names[i]);
			return EXIT_USAGE;
		}
	}
	if (!output_check("--output", o.to.output))
		return EXIT_USAGE;
	return o.to.output ? record_to(&o, devs) : execute(&o, devs, stdout, &begun);
}
