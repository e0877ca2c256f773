// SPDX-License-Identifier: GPL-2.0
#include "show.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "hist.h"

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

static struct json_object *row_json(enum view view, const struct row *row, double seconds)
{
	struct json_object *o = json_object_new_object();
	const struct totals *d = &row->diff;

	add_text(o, "name", row->name);
	add_text(o, "label", row->label);
	if (view == VIEW_COMMANDS || view == VIEW_SMQ) {
		add_text(o, "what", row->text);
		return o;
	}
	if (view == VIEW_ERRORS) {
		add_text(o, "what", row->text);
		add_count(o, "count", d->failed);
		add_count(o, "total", row->total.failed);
		return o;
	}
	if (view == VIEW_FILES)
		add_text(o, "what", row->text);
	if (view == VIEW_HOSTS)
		add_text(o, "state", row->text);
	json_object_object_add(o, "iops", json_object_new_double(d->done / seconds));
	json_object_object_add(o, "mbps", view == VIEW_OPCODES ? NULL :
			       json_object_new_double(d->bytes / seconds / 1e6));
	add_known(o, "inflight", row->inflight >= 0, row->inflight);
	add_known(o, "depth", row->depth >= 0, row->depth);
	json_object_object_add(o, "device_ns", times_json(row));
	add_known(o, "queue_ns", row_queue_ns(row) >= 0, row_queue_ns(row));
	json_object_object_add(o, "interval", frame_counts(d, true));
	json_object_object_add(o, "total", frame_counts(&row->total, true));
	return o;
}

struct json_object *show_json(const struct frame *frame, const struct rows *rows)
{
	struct json_object *o = json_object_new_object(), *list = json_object_new_array();
	unsigned int i;

	json_object_object_add(o, "time", json_object_new_double(frame->time));
	json_object_object_add(o, "seconds", json_object_new_double(frame->seconds));
	add_text(o, "view", view_names[rows->view]);
	add_text(o, "source", frame->times ? "tracepoints" : "sysfs");
	add_known(o, "missed", frame->times, frame->missed);
	for (i = 0; i < rows->nr; i++)
		json_object_array_add(list, row_json(rows->view, &rows->row[i], frame->seconds));
	json_object_object_add(o, "rows", list);
	return o;
}
