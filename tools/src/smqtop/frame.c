// SPDX-License-Identifier: GPL-2.0
#include "frame.h"

#include <err.h>
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FORMAT	1
#define BEGIN	"{\"smqtop\":1,"

static const struct {
	const char *key;
	size_t offset;
} counts[] = {
	{ "done", offsetof(struct totals, done) },
	{ "bytes", offsetof(struct totals, bytes) },
	{ "failed", offsetof(struct totals, failed) },
	{ "task_set_full", offsetof(struct totals, set_full) },
	{ "refused", offsetof(struct totals, refused) },
	{ "retried", offsetof(struct totals, retried) },
	{ "timeouts", offsetof(struct totals, timeouts) },
	{ "taken_over", offsetof(struct totals, late) },
	{ "eh_wakeups", offsetof(struct totals, wakeups) },
	{ "eh_ns", offsetof(struct totals, eh_ns) },
	{ "aborts", offsetof(struct totals, aborts) },
	{ "escalations", offsetof(struct totals, escalations) },
	{ "target_resets", offsetof(struct totals, target_resets) },
	{ "bus_resets", offsetof(struct totals, bus_resets) },
	{ "host_resets", offsetof(struct totals, host_resets) },
};

#define NR_COUNTS	(sizeof(counts) / sizeof(*counts))

void frame_collected(struct frame *frame, const struct collector *c)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	*frame = (struct frame){
		.time = now.tv_sec + now.tv_nsec / 1e9,
		.seconds = c->seconds,
		.times = c->watch,
		.missed = c->watch ? watch_missed(c->watch) : 0,
	};
	memcpy(frame->rows, c->now, sizeof(frame->rows));
	frame->queues = c->queues;
}

static void add(struct json_object *o, const char *key, __u64 n)
{
	json_object_object_add(o, key, json_object_new_int64(n));
}

struct json_object *frame_counts(const struct totals *t, bool all)
{
	struct json_object *o = json_object_new_object();
	unsigned int i;
	__u64 n;

	for (i = 0; i < NR_COUNTS; i++) {
		n = *(const __u64 *)((const char *)t + counts[i].offset);
		if (n || all)
			add(o, counts[i].key, n);
	}
	return o;
}

/* A bucket, how many times it has, the next one, ... */
static struct json_object *hist_json(const __u32 *h)
{
	struct json_object *list = json_object_new_array();
	unsigned int i;

	for (i = 0; i < HIST_BUCKETS; i++) {
		if (h[i]) {
			json_object_array_add(list, json_object_new_int64(i));
			json_object_array_add(list, json_object_new_int64(h[i]));
		}
	}
	return list;
}

static struct json_object *row_json(const struct row *row)
{
	struct json_object *o = json_object_new_object(), *diff = frame_counts(&row->diff, false);

	json_object_object_add(o, "name", json_object_new_string(row->name));
	json_object_object_add(o, "label", json_object_new_string(row->label));
	json_object_object_add(o, "text", json_object_new_string(row->text));
	json_object_object_add(o, "inflight", json_object_new_int64(row->inflight));
	json_object_object_add(o, "depth", json_object_new_int64(row->depth));
	json_object_object_add(o, "total", frame_counts(&row->total, false));
	if (row->diff.queued) {
		add(diff, "queued", row->diff.queued);
		add(diff, "queue_ns", row->diff.queue_ns);
	}
	if (row->diff.done)
		json_object_object_add(diff, "device", hist_json(row->diff.device));
	json_object_object_add(o, "interval", diff);
	return o;
}

bool frame_write(const struct frame *frame, FILE *f)
{
	struct json_object *o = json_object_new_object(), *list;
	unsigned int view, i;
	bool good;

	/* A reader finds the time without a parser: see replay_open(). */
	add(o, "smqtop", FORMAT);
	json_object_object_add(o, "time", json_object_new_double(frame->time));
	json_object_object_add(o, "seconds", json_object_new_double(frame->seconds));
	json_object_object_add(o, "times", json_object_new_boolean(frame->times));
	add(o, "missed", frame->missed);
	for (view = 0; view < VIEWS; view++) {
		list = json_object_new_array();
		for (i = 0; i < frame->rows[view].nr; i++)
			json_object_array_add(list, row_json(&frame->rows[view].row[i]));
		json_object_object_add(o, view_names[view], list);
	}
	good = fputs(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN |
						       JSON_C_TO_STRING_NOSLASHESCAPE), f) >= 0 &&
		putc('\n', f) != EOF && !fflush(f);
	json_object_put(o);
	return good;
}

/* A member of a type; NULL if there is none. */
static struct json_object *get(struct json_object *o, const char *key, enum json_type type)
{
	struct json_object *found;

	return json_object_object_get_ex(o, key, &found) && json_object_is_type(found, type) ?
		found : NULL;
}

static __s64 get_number(struct json_object *o, const char *key, __s64 least)
{
	__s64 n = json_object_get_int64(get(o, key, json_type_int));

	return n < least ? least : n;
}

static double get_double(struct json_object *o, const char *key)
{
	struct json_object *found;

	return json_object_object_get_ex(o, key, &found) ? json_object_get_double(found) : 0;
}

static void get_text(struct json_object *o, const char *key, char *text, size_t size)
{
	const char *found = json_object_get_string(get(o, key, json_type_string));

	snprintf(text, size, "%s", found ?: "");
}

static void parse_totals(struct totals *t, struct json_object *o)
{
	struct json_object *list = get(o, "device", json_type_array);
	size_t i, nr = list ? json_object_array_length(list) : 0;
	__s64 bucket;

	for (i = 0; i < NR_COUNTS; i++)
		*(__u64 *)((char *)t + counts[i].offset) = get_number(o, counts[i].key, 0);
	t->queued = get_number(o, "queued", 0);
	t->queue_ns = get_number(o, "queue_ns", 0);
	for (i = 0; i + 1 < nr; i += 2) {
		bucket = json_object_get_int64(json_object_array_get_idx(list, i));
		if (bucket >= 0 && bucket < HIST_BUCKETS)
			t->device[bucket] =
				json_object_get_int64(json_object_array_get_idx(list, i + 1));
	}
}

static void parse_row(struct rows *rows, struct json_object *o)
{
	char name[ROW_NAME];
	struct row *row;

	/* A new row, whatever its name is. */
	get_text(o, "name", name, sizeof(name));
	row = rows_add(rows, name, "");
	get_text(o, "label", row->label, sizeof(row->label));
	get_text(o, "text", row->text, sizeof(row->text));
	row->inflight = get_number(o, "inflight", -1);
	row->depth = get_number(o, "depth", -1);
	parse_totals(&row->total, get(o, "total", json_type_object));
	parse_totals(&row->diff, get(o, "interval", json_type_object));
}

bool frame_parse(struct frame *frame, const char *line)
{
	struct json_object *o = json_tokener_parse(line), *list;
	unsigned int view;
	size_t i;

	*frame = (struct frame){};
	for (view = 0; view < VIEWS; view++)
		frame->rows[view].view = view;
	frame->time = get_double(o, "time");
	frame->seconds = get_double(o, "seconds");
	frame->times = json_object_get_boolean(get(o, "times", json_type_boolean));
	frame->missed = get_number(o, "missed", 0);
	if (get_number(o, "smqtop", 0) != FORMAT || !isfinite(frame->time) ||
	    !(frame->seconds > 0 && frame->seconds < 1e9)) {
		json_object_put(o);
		return false;
	}
	for (view = 0; view < VIEWS; view++) {
		list = get(o, view_names[view], json_type_array);
		for (i = 0; list && i < json_object_array_length(list); i++)
			parse_row(&frame->rows[view], json_object_array_get_idx(list, i));
	}
	json_object_put(o);
	return true;
}

static void copy_rows(struct rows *to, const struct rows *from)
{
	size_t size = from->nr * sizeof(*from->row);

	*to = *from;
	to->row = malloc(size + 1);
	if (!to->row)
		err(3, "memory");
	memcpy(to->row, from->row, size);
	to->room = to->nr;
}

void frame_copy(struct frame *to, const struct frame *from)
{
	unsigned int view;

	*to = *from;
	for (view = 0; view < VIEWS; view++)
		copy_rows(&to->rows[view], &from->rows[view]);
	copy_rows(&to->queues.rows, &from->queues.rows);
}

void frame_free(struct frame *frame)
{
	unsigned int view;

	for (view = 0; view < VIEWS; view++)
		rows_free(&frame->rows[view]);
	rows_free(&frame->queues.rows);
}

struct replay {
	FILE *f;
	char *line;	/* for getline() */
	size_t size;
	unsigned int nr;
	struct {
		off_t at;
		double time;
	} *lines;
};

struct replay *replay_open(const char *path)
{
	struct replay *r = calloc(1, sizeof(*r));
	unsigned int room = 0;
	double last = 0;
	off_t at = 0;
	ssize_t got;

	if (!r)
		err(3, "memory");
	r->f = fopen(path, "re");
	if (!r->f) {
		warn("%s", path);
		replay_close(r);
		return NULL;
	}
	errno = 0;
	while ((got = getline(&r->line, &r->size, r->f)) > 0) {
		if (!r->nr && strncmp(r->line, BEGIN, strlen(BEGIN)))
			break;
		if (r->nr == room) {
			room = room ? 2 * room : 256;
			r->lines = realloc(r->lines, room * sizeof(*r->lines));
			if (!r->lines)
				err(3, "memory");
		}
		/* A damaged line has the time of the one before. */
		sscanf(r->line, BEGIN "\"time\":%lf", &last);
		r->lines[r->nr].at = at;
		r->lines[r->nr++].time = last;
		at += got;
	}
	if (r->nr)
		return r;
	if (errno)
		warn("%s", path);
	else
		warnx("%s is no recording of smqtop", path);
	replay_close(r);
	return NULL;
}

void replay_close(struct replay *r)
{
	if (r->f)
		fclose(r->f);
	free(r->line);
	free(r->lines);
	free(r);
}

unsigned int replay_lines(const struct replay *r)
{
	return r->nr;
}

double replay_time(const struct replay *r, unsigned int line)
{
	return r->lines[line].time;
}

bool replay_read(struct replay *r, unsigned int line, struct frame *frame)
{
	if (fseeko(r->f, r->lines[line].at, SEEK_SET) || getline(&r->line, &r->size, r->f) <= 0)
		return false;
	return frame_parse(frame, r->line);
}
