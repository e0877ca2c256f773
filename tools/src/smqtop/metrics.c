// SPDX-License-Identifier: GPL-2.0
#include "metrics.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "hist.h"
#include "table.h"

/* Bounds of the histograms: from 1 us to half a minute, by powers of two. */
#define FIRST_BOUND	10
#define LAST_BOUND	35

static const struct {
	enum view view;
	const char *name;
	const char *help;
	size_t offset;		/* of struct totals */
	bool watched;		/* sysfs does not have it */
	bool ns;		/* nanoseconds, to be printed as seconds */
} counters[] = {
	{ VIEW_LUNS, "scsi_lun_commands_total", "Commands that ended.",
	  offsetof(struct totals, done) },
	{ VIEW_LUNS, "scsi_lun_bytes_total", "Size of the data of commands.",
	  offsetof(struct totals, bytes) },
	{ VIEW_LUNS, "scsi_lun_failed_commands_total", "Commands with another result than GOOD.",
	  offsetof(struct totals, failed) },
	{ VIEW_LUNS, "scsi_lun_task_set_full_total", "Commands that ended with TASK SET FULL.",
	  offsetof(struct totals, set_full), true },
	{ VIEW_LUNS, "scsi_lun_refused_commands_total", "Commands that the driver did not take.",
	  offsetof(struct totals, refused), true },
	{ VIEW_LUNS, "scsi_lun_retries_total", "Commands sent again after a failure.",
	  offsetof(struct totals, retried), true },
	{ VIEW_LUNS, "scsi_lun_timeouts_total", "Timeouts of commands.",
	  offsetof(struct totals, timeouts) },
	{ VIEW_HOSTS, "scsi_host_commands_total", "Commands that ended.",
	  offsetof(struct totals, done) },
	{ VIEW_HOSTS, "scsi_host_error_handling_total", "Times that error handling was woken.",
	  offsetof(struct totals, wakeups), true },
	{ VIEW_HOSTS, "scsi_host_error_handling_seconds_total", "Time in error handling.",
	  offsetof(struct totals, eh_ns), true, true },
	{ VIEW_HOSTS, "scsi_host_aborts_total", "Commands whose abort was tried.",
	  offsetof(struct totals, aborts), true },
	{ VIEW_HOSTS, "scsi_host_escalations_total", "Times that aborts were not enough.",
	  offsetof(struct totals, escalations), true },
	{ VIEW_HOSTS, "scsi_host_target_resets_total", "Target resets that were tried.",
	  offsetof(struct totals, target_resets), true },
	{ VIEW_HOSTS, "scsi_host_bus_resets_total", "Bus resets that were tried.",
	  offsetof(struct totals, bus_resets), true },
	{ VIEW_HOSTS, "scsi_host_host_resets_total", "Host resets that were tried.",
	  offsetof(struct totals, host_resets), true },
	{ VIEW_ERRORS, "scsi_errors_total", "Failures by LUN or host, opcode and cause.",
	  offsetof(struct totals, failed) },
};

static void head(FILE *f, const char *name, const char *type, const char *help)
{
	fprintf(f, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void label(FILE *f, const char *name, const char *value, const char *before)
{
	char text[ROW_TEXT];
	const char *c;

	cell_copy(text, sizeof(text), value);
	fprintf(f, "%s%s=\"", before, name);
	for (c = text; *c; c++)
		fprintf(f, *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
	fputc('"', f);
}

/* What tells a row from the others of its view. */
static void labels(FILE *f, enum view view, const struct row *row)
{
	static const char *const names[VIEWS][2] = {
		[VIEW_HOSTS] = { "host", "driver" },
		[VIEW_LUNS] = { "lun", "device" },
		[VIEW_OPCODES] = { "opcode", "code" },
		[VIEW_ERRORS] = { "source", "opcode" },
	};

	label(f, names[view][0], row->name, "");
	label(f, names[view][1], row->label, ",");
	if (view == VIEW_ERRORS)
		label(f, "cause", row->text, ",");
}

static void sample(FILE *f, const char *name, enum view view, const struct row *row, double value)
{
	fprintf(f, "%s{", name);
	labels(f, view, row);
	fprintf(f, "} %.17g\n", value);
}

/* The samples of each family have to stand together. */
static void write_counters(FILE *f, const struct frame *frame)
{
	unsigned int i, k;

	for (i = 0; i < sizeof(counters) / sizeof(*counters); i++) {
		const struct rows *rows = &frame->rows[counters[i].view];
		const char *t;

		if (counters[i].watched && !frame->times)
			continue;
		head(f, counters[i].name, "counter", counters[i].help);
		for (k = 0; k < rows->nr; k++) {
			t = (const char *)&rows->row[k].total;
			sample(f, counters[i].name, counters[i].view, &rows->row[k],
			       *(const __u64 *)(t + counters[i].offset) /
			       (counters[i].ns ? 1e9 : 1));
		}
	}
}

static void write_inflight(FILE *f, const struct frame *frame, enum view view, const char *inflight,
			   const char *depth)
{
	const struct rows *rows = &frame->rows[view];
	unsigned int i;

	head(f, inflight, "gauge", "Commands in flight.");
	for (i = 0; i < rows->nr; i++)
		if (rows->row[i].inflight >= 0)
			sample(f, inflight, view, &rows->row[i], rows->row[i].inflight);
	head(f, depth, "gauge", "Commands that it takes.");
	for (i = 0; i < rows->nr; i++)
		if (rows->row[i].depth >= 0)
			sample(f, depth, view, &rows->row[i], rows->row[i].depth);
}

static void write_histogram(FILE *f, const struct frame *frame, enum view view, const char *name)
{
	const struct rows *rows = &frame->rows[view];
	unsigned int i, bound, bucket, next;
	__u64 n;

	head(f, name, "histogram", "Time from the driver's start of a command to its end.");
	for (i = 0; i < rows->nr; i++) {
		const struct row *row = &rows->row[i];

		for (bucket = 0, n = 0, bound = FIRST_BOUND; bound <= LAST_BOUND; bound++) {
			next = hist_index(1ULL << bound);
			while (bucket < next)
				n += row->total.device[bucket++];
			fprintf(f, "%s_bucket{", name);
			labels(f, view, row);
			fprintf(f, ",le=\"%.10g\"} %llu\n", (1ULL << bound) / 1e9, n);
		}
		n = hist_count(row->total.device);
		fprintf(f, "%s_bucket{", name);
		labels(f, view, row);
		fprintf(f, ",le=\"+Inf\"} %llu\n%s_sum{", n, name);
		labels(f, view, row);
		fprintf(f, "} %.9g\n", hist_sum(row->total.device) / 1e9);
		fprintf(f, "%s_count{", name);
		labels(f, view, row);
		fprintf(f, "} %llu\n", n);
	}
}

static void write_all(FILE *f, const struct frame *frame)
{
	const struct rows *hosts = &frame->rows[VIEW_HOSTS];
	unsigned int i;

	write_counters(f, frame);
	write_inflight(f, frame, VIEW_LUNS, "scsi_lun_inflight_commands", "scsi_lun_queue_depth");
	write_inflight(f, frame, VIEW_HOSTS, "scsi_host_inflight_commands",
		       "scsi_host_queue_depth");
	head(f, "scsi_host_running", "gauge", "1 if the host runs, 0 in error handling.");
	for (i = 0; i < hosts->nr; i++)
		sample(f, "scsi_host_running", VIEW_HOSTS, &hosts->row[i],
		       !strcmp(hosts->row[i].text, "running"));
	if (!frame->times)
		return;
	write_histogram(f, frame, VIEW_LUNS, "scsi_lun_device_seconds");
	write_histogram(f, frame, VIEW_OPCODES, "scsi_opcode_device_seconds");
	head(f, "smqtop_missed_events_total", "counter", "Events that the kernel left out.");
	fprintf(f, "smqtop_missed_events_total %llu\n", frame->missed);
}

bool metrics_write(const struct frame *frame, const char *path)
{
	char other[PATH_MAX];
	bool good;
	FILE *f;

	/* node_exporter reads only names that end with .prom. */
	if (snprintf(other, sizeof(other), "%s.new", path) >= (int)sizeof(other)) {
		errno = ENAMETOOLONG;
		return false;
	}
	f = fopen(other, "we");
	if (!f)
		return false;
	write_all(f, frame);
	good = !ferror(f);
	if (fclose(f) || !good || rename(other, path)) {
		int error = errno;

		unlink(other);
		errno = error;
		return false;
	}
	return true;
}
