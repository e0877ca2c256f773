// SPDX-License-Identifier: GPL-2.0
#include "show.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "hist.h"

#define CELL	48

/* Three digits and a unit, in at most 5 columns; "-" for what is not known. */
static void show_time(char *cell, bool known, __u64 ns)
{
	static const char units[] = { 'n', 'u', 'm', 's' };
	unsigned int unit = 0;
	double v = ns;

	while (v >= 999.5 && unit + 1 < sizeof(units)) {
		v /= 1000;
		unit++;
	}
	if (!known)
		strcpy(cell, "-");
	else
		snprintf(cell, CELL, "%.*f%c", v < 9.95 && unit ? 1 : 0, v, units[unit]);
}

/* The same for a number: 950, 12.3k, 4.0M. */
static void show_number(char *cell, double n)
{
	static const char units[] = { 0, 'k', 'M', 'G', 'T' };
	unsigned int unit = 0;

	while (n >= 9999.5 && unit + 1 < sizeof(units)) {
		n /= 1000;
		unit++;
	}
	if (unit)
		snprintf(cell, CELL, "%.*f%c", n < 99.95 ? 1 : 0, n, units[unit]);
	else
		snprintf(cell, CELL, "%.0f", n);
}

/* Bytes, in powers of 1024. */
static void show_bytes(char *cell, bool known, double n)
{
	static const char units[] = { 'B', 'K', 'M', 'G', 'T' };
	unsigned int unit = 0;

	while (n >= 1023.5 && unit + 1 < sizeof(units)) {
		n /= 1024;
		unit++;
	}
	if (!known)
		strcpy(cell, "-");
	else
		snprintf(cell, CELL, "%.*f%c", n < 9.95 && unit ? 1 : 0, n, units[unit]);
}

static void show_inflight(char *cell, const struct row *row)
{
	if (row->inflight < 0)
		strcpy(cell, "-");
	else if (row->depth < 0)
		snprintf(cell, CELL, "%ld", row->inflight);
	else
		snprintf(cell, CELL, "%ld/%ld", row->inflight, row->depth);
}

void show_head(enum view view, char *line, size_t size)
{
	static const char *const what[VIEWS] = {
		"HOST   DRIVER", "DISK  LUN", "QUEUE HOST", "CODE  OPCODE", "",
	};

	if (view == VIEW_ERRORS)
		snprintf(line, size, "%-12s %8s %7s %-18s %s", "LUN", "TOTAL", "PER_S", "OPCODE",
			 "WHAT");
	else
		snprintf(line, size, "%-17s %6s %5s %8s %5s %5s %5s %5s %5s %4s %4s", what[view],
			 "IOPS", "MB/s", "INFLIGHT", "P50", "P90", "P99", "P99.9", "QUEUE",
			 "SIZE", "ERR");
}

static void show_name(enum view view, const struct row *row, char *cell, size_t size)
{
	/* A host that does not run has no use for its driver's name. */
	if (view == VIEW_HOSTS)
		snprintf(cell, size, "%-6.6s %.10s", row->name,
			 strcmp(row->text, "running") ? row->text : row->label);
	else
		snprintf(cell, size, "%-5.5s %.11s", row->label, row->name);
}

void show_row(enum view view, const struct row *row, double seconds, char *line, size_t size)
{
	static const unsigned int permille[] = { 500, 900, 990, 999 };
	char name[ROW_NAME], iops[CELL], mb[CELL], inflight[CELL], p[4][CELL], queue[CELL];
	char bytes[CELL], errors[CELL];
	const struct totals *d = &row->diff;
	unsigned int i;

	show_number(errors, d->failed + d->timeouts + d->refused);
	show_number(iops, (view == VIEW_ERRORS ? d->failed : d->done) / seconds);
	if (view == VIEW_ERRORS) {
		snprintf(line, size, "%-12s %8llu %7s %-18.18s %s", row->name, row->total.failed,
			 iops, row->label, row->text);
		return;
	}
	show_name(view, row, name, sizeof(name));
	show_number(mb, d->bytes / seconds / 1e6);
	if (view == VIEW_OPCODES)	/* has no sizes */
		strcpy(mb, "-");
	show_inflight(inflight, row);
	for (i = 0; i < 4; i++)
		show_time(p[i], row_has_percentile(row, permille[i]),
			  row_percentile(row, permille[i]));
	show_time(queue, row_queue_ns(row) >= 0, row_queue_ns(row));
	show_bytes(bytes, d->done && d->bytes, d->done ? (double)d->bytes / d->done : 0);
	snprintf(line, size, "%-17s %6s %5s %8s %5s %5s %5s %5s %5s %4s %4s", name, iops, mb,
		 inflight, p[0], p[1], p[2], p[3], queue, bytes, errors);
}

static void add_count(struct json_object *o, const char *key, __u64 n)
{
	json_object_object_add(o, key, json_object_new_uint64(n));
}

/* json-c writes null for NULL. */
static void add_known(struct json_object *o, const char *key, bool known, __s64 n)
{
	json_object_object_add(o, key, known ? json_object_new_int64(n) : NULL);
}

static void add_text(struct json_object *o, const char *key, const char *text)
{
	json_object_object_add(o, key, json_object_new_string(text));
}

static struct json_object *times_json(const struct row *row)
{
	struct json_object *o = json_object_new_object();
	__u64 n = hist_count(row->diff.device);

	add_known(o, "p50", row_has_percentile(row, 500), row_percentile(row, 500));
	add_known(o, "p90", row_has_percentile(row, 900), row_percentile(row, 900));
	add_known(o, "p99", row_has_percentile(row, 990), row_percentile(row, 990));
	add_known(o, "p999", row_has_percentile(row, 999), row_percentile(row, 999));
	add_known(o, "mean", n, n ? hist_sum(row->diff.device) / n : 0);
	return o;
}

static struct json_object *counts_json(const struct totals *t)
{
	struct json_object *o = json_object_new_object();

	add_count(o, "done", t->done);
	add_count(o, "bytes", t->bytes);
	add_count(o, "failed", t->failed);
	add_count(o, "task_set_full", t->set_full);
	add_count(o, "refused", t->refused);
	add_count(o, "retried", t->retried);
	add_count(o, "timeouts", t->timeouts);
	add_count(o, "taken_over", t->late);
	add_count(o, "eh_wakeups", t->wakeups);
	return o;
}

static struct json_object *row_json(enum view view, const struct row *row, double seconds)
{
	struct json_object *o = json_object_new_object();
	const struct totals *d = &row->diff;

	add_text(o, "name", row->name);
	add_text(o, "label", row->label);
	if (view == VIEW_ERRORS) {
		add_text(o, "what", row->text);
		add_count(o, "count", d->failed);
		add_count(o, "total", row->total.failed);
		return o;
	}
	if (view == VIEW_HOSTS)
		add_text(o, "state", row->text);
	json_object_object_add(o, "iops", json_object_new_double(d->done / seconds));
	json_object_object_add(o, "mbps", view == VIEW_OPCODES ? NULL :
			       json_object_new_double(d->bytes / seconds / 1e6));
	add_known(o, "inflight", row->inflight >= 0, row->inflight);
	add_known(o, "depth", row->depth >= 0, row->depth);
	json_object_object_add(o, "device_ns", times_json(row));
	add_known(o, "queue_ns", row_queue_ns(row) >= 0, row_queue_ns(row));
	json_object_object_add(o, "interval", counts_json(d));
	json_object_object_add(o, "total", counts_json(&row->total));
	return o;
}

struct json_object *show_json(const struct rows *rows, double seconds, const struct watch *w)
{
	struct json_object *o = json_object_new_object(), *list = json_object_new_array();
	struct timespec now;
	unsigned int i;

	clock_gettime(CLOCK_REALTIME, &now);
	json_object_object_add(o, "time", json_object_new_double(now.tv_sec + now.tv_nsec / 1e9));
	json_object_object_add(o, "seconds", json_object_new_double(seconds));
	add_text(o, "view", view_names[rows->view]);
	add_text(o, "source", w ? "tracepoints" : "sysfs");
	add_known(o, "missed", w, w ? watch_missed(w) : 0);
	for (i = 0; i < rows->nr; i++)
		json_object_array_add(list, row_json(rows->view, &rows->row[i], seconds));
	json_object_object_add(o, "rows", list);
	return o;
}
