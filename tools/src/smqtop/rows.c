// SPDX-License-Identifier: GPL-2.0
#include "rows.h"

#include <err.h>
#include <fnmatch.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hist.h"

const char *const view_names[VIEWS] = {
	"hosts", "luns", "queues", "opcodes", "errors", "commands", "files", "smq",
};

const char *const sort_names[SORTS] = {
	"name", "iops", "mbps", "inflight", "p50", "p90", "p99", "p999", "queue", "size", "errors",
};

struct row *rows_add(struct rows *rows, const char *name, const char *label)
{
	struct row *row;

	if (rows->nr == rows->room) {
		rows->room = rows->room ? 2 * rows->room : 16;
		rows->row = realloc(rows->row, rows->room * sizeof(*rows->row));
		if (!rows->row)
			err(3, "memory");
	}
	row = &rows->row[rows->nr++];
	*row = (struct row){ .depth = -1, .inflight = -1 };
	snprintf(row->name, sizeof(row->name), "%s", name);
	snprintf(row->label, sizeof(row->label), "%s", label);
	return row;
}

struct row *rows_get(struct rows *rows, const char *name, const char *label)
{
	unsigned int i;

	/* The last ones first: rows are mostly asked for one after the other. */
	for (i = rows->nr; i-- > 0;)
		if (!strcmp(rows->row[i].name, name) && !strcmp(rows->row[i].label, label))
			return &rows->row[i];
	return rows_add(rows, name, label);
}

/* Adds all counts of a struct to those of another one: @nr of 64 bits. */
static void add_counts(void *to, const void *from, size_t nr)
{
	const __u64 *more = from;
	__u64 *sum = to;

	while (nr--)
		sum[nr] += more[nr];
}

#define FIELDS(from, to) ((offsetof(struct counters, to) - offsetof(struct counters, from)) / 8)

static void add_counters(struct totals *t, const struct counters *c)
{
	if (!c->sdev)
		return;
	add_counts(&t->bytes, &c->bytes, FIELDS(bytes, device));
	hist_add(t->device, c->device);
}

void totals_count(struct totals *t)
{
	t->done = t->untimed + hist_count(t->device);
}

static void add_host(struct totals *t, const struct of_host *host)
{
	struct timespec now;

	add_counts(&t->wakeups, host, sizeof(*host) / 8);
	if (!t->eh_began)
		return;
	/* What the last time in error handling lasts up to now. */
	clock_gettime(CLOCK_MONOTONIC, &now);
	t->eh_ns += now.tv_sec * 1000000000ULL + now.tv_nsec - t->eh_began;
}

static struct row *row_of_host(struct rows *rows, const struct sys_host *host)
{
	char name[ROW_NAME];
	struct row *row;

	snprintf(name, sizeof(name), "host%u", host->number);
	row = rows_get(rows, name, host->driver);
	row->depth = host->depth;
	row->inflight = host->inflight;
	snprintf(row->text, sizeof(row->text), "%s", host->state);
	return row;
}

static struct row *row_of_queue(struct rows *rows, const struct sys_host *host, unsigned int cpu)
{
	char name[ROW_NAME], label[ROW_NAME] = "-";

	snprintf(name, sizeof(name), "host%u", host->number);
	if (host->queue_of && host->queue_of[cpu] >= 0)
		snprintf(label, sizeof(label), "q%d", host->queue_of[cpu]);
	return rows_get(rows, name, label);
}

static struct row *row_of_lun(struct rows *rows, const struct sys_lun *lun)
{
	struct row *row = rows_get(rows, lun->name, lun->disk);

	row->depth = lun->depth;
	row->inflight = lun->inflight;
	return row;
}

static struct row *row_of(struct rows *rows, const struct sys *sys, const struct sys_lun *lun,
			  unsigned int cpu)
{
	switch (rows->view) {
	case VIEW_HOSTS:
		return row_of_host(rows, &sys->hosts[lun->host]);
	case VIEW_QUEUES:
		return row_of_queue(rows, &sys->hosts[lun->host], cpu);
	default:
		return row_of_lun(rows, lun);
	}
}

static void add_watched(struct rows *rows, const struct sys *sys, const struct watch *w)
{
	unsigned int entry, cpu;
	char name[SYS_NAME];

	for (entry = 0; entry < MAX_LUNS; entry++) {
		const struct lun *lun = watch_lun(w, entry);
		const struct sys_lun *found;
		struct row *row = NULL;

		if (!lun)
			continue;
		snprintf(name, sizeof(name), "%u:%u:%u:%llu", lun->host, lun->channel, lun->id,
			 lun->lun);
		found = sys_find(sys, name);
		for (cpu = 0; found && cpu < watch_cpus(w); cpu++) {
			if (!cpu || rows->view == VIEW_QUEUES)
				row = row_of(rows, sys, found, cpu);
			add_counters(&row->total, watch_counters(w, cpu, entry));
		}
	}
}

/* A row for all that there is, with or without commands. */
static void add_all(struct rows *rows, const struct sys *sys, unsigned int nr_cpus)
{
	unsigned int i, cpu;

	for (i = 0; rows->view == VIEW_HOSTS && i < sys->nr_hosts; i++)
		row_of_host(rows, &sys->hosts[i]);
	for (i = 0; rows->view == VIEW_LUNS && i < sys->nr_luns; i++)
		row_of_lun(rows, &sys->luns[i]);
	for (i = 0; rows->view == VIEW_QUEUES && i < sys->nr_hosts; i++)
		for (cpu = 0; sys->hosts[i].queue_of && cpu < nr_cpus; cpu++)
			if (sys->hosts[i].queue_of[cpu] >= 0)
				row_of_queue(rows, &sys->hosts[i], cpu);
}

/* What the mid-layer and the block layer count themselves. */
static void add_sysfs(struct rows *rows, const struct sys *sys)
{
	unsigned int i;

	for (i = 0; i < sys->nr_luns; i++) {
		const struct sys_lun *lun = &sys->luns[i];
		struct totals *t = &row_of(rows, sys, lun, 0)->total;

		t->done += lun->done;
		t->bytes += lun->bytes;
		t->failed += lun->errors;
		t->timeouts += lun->timeouts;
	}
}

/* What smq says of its hosts: a row each. */
static void rows_of_smq(struct rows *rows, const struct sys *sys)
{
	const struct sys_host *host;
	char name[ROW_NAME];
	unsigned int i;

	for (host = sys->hosts; host < sys->hosts + sys->nr_hosts; host++) {
		snprintf(name, sizeof(name), "host%u", host->number);
		for (i = 0; i < host->nr_pairs; i++) {
			struct row *row = rows_get(rows, name, host->pairs[i].name);

			snprintf(row->text, sizeof(row->text), "%s", host->pairs[i].value);
		}
	}
}

void rows_read(struct rows *rows, enum view view, const struct sys *sys, const struct watch *w)
{
	unsigned int i;

	*rows = (struct rows){ .view = view };
	if (view == VIEW_OPCODES) {
		if (w)
			rows_of_opcodes(rows, w);
		return;
	}
	if (view == VIEW_COMMANDS) {
		rows_of_commands(rows, sys, w);
		return;
	}
	if (view == VIEW_FILES) {
		rows_of_files(rows, sys);
		return;
	}
	if (view == VIEW_SMQ) {
		rows_of_smq(rows, sys);
		return;
	}
	if (view == VIEW_ERRORS) {
		rows_of_errors(rows, sys, w);
		return;
	}
	add_all(rows, sys, w ? watch_cpus(w) : 0);
	if (w)
		add_watched(rows, sys, w);
	else if (view != VIEW_QUEUES)
		add_sysfs(rows, sys);
	for (i = 0; w && i < rows->nr; i++)
		totals_count(&rows->row[i].total);
	for (i = 0; w && view == VIEW_HOSTS && i < sys->nr_hosts; i++)
		add_host(&row_of_host(rows, &sys->hosts[i])->total,
			 watch_host(w, sys->hosts[i].number));
}

void rows_free(struct rows *rows)
{
	free(rows->row);
	*rows = (struct rows){};
}

static void subtract(struct totals *diff, const struct totals *now, const struct totals *before)
{
	const __u64 *old = (const __u64 *)before;
	unsigned int i;

	*diff = *now;
	for (i = 0; i < offsetof(struct totals, device) / 8; i++)
		((__u64 *)diff)[i] -= old[i];
	for (i = 0; i < HIST_BUCKETS; i++)
		diff->device[i] = now->device[i] - before->device[i];
}

static bool same(const struct row *a, const struct row *b, enum view view)
{
	return !strcmp(a->name, b->name) && !strcmp(a->label, b->label) &&
		(view != VIEW_ERRORS || !strcmp(a->text, b->text));
}

void rows_compare(struct rows *rows, const struct rows *before)
{
	static const struct totals none;
	unsigned int i, k = 0, tried;

	for (i = 0; i < rows->nr; i++) {
		struct row *row = &rows->row[i];
		const struct totals *old = &none;

		/* The order is mostly the same: begin behind the last one found. */
		for (tried = 0; tried < before->nr && old == &none; tried++, k++) {
			const struct row *was = &before->row[k % before->nr];

			if (same(was, row, rows->view))
				old = &was->total;
		}
		/* Another LUN of the same name begins with zero again. */
		if (row->total.done < old->done || row->total.failed < old->failed)
			old = &none;
		subtract(&row->diff, &row->total, old);
	}
}

static bool matches(const char *text, const char *pattern)
{
	return strstr(text, pattern) || !fnmatch(pattern, text, 0);
}

void rows_filter(struct rows *rows, const char *pattern)
{
	unsigned int i, kept = 0;

	for (i = 0; i < rows->nr; i++) {
		const struct row *row = &rows->row[i];

		if (matches(row->name, pattern) || matches(row->label, pattern) ||
		    matches(row->text, pattern))
			rows->row[kept++] = *row;
	}
	rows->nr = kept;
}

__u64 row_percentile(const struct row *row, unsigned int permille)
{
	return hist_percentile(row->diff.device, permille);
}

bool row_has_percentile(const struct row *row, unsigned int permille)
{
	unsigned int least = permille <= 500 ? 2 : permille <= 900 ? 10 : permille <= 990 ? 100 :
		1000;

	return hist_count(row->diff.device) >= least;
}

long row_queue_ns(const struct row *row)
{
	return row->diff.queued ? (long)(row->diff.queue_ns / row->diff.queued) : -1;
}

static __u64 sort_value(const struct row *row, enum sort by)
{
	const struct totals *d = &row->diff;

	switch (by) {
	case SORT_IOPS:
		return d->done;
	case SORT_MBPS:
		return d->bytes;
	case SORT_INFLIGHT:
		return row->inflight + 1;
	case SORT_P50:
		return row_percentile(row, 500);
	case SORT_P90:
		return row_percentile(row, 900);
	case SORT_P99:
		return row_percentile(row, 990);
	case SORT_P999:
		return row_percentile(row, 999);
	case SORT_QUEUE:
		return row_queue_ns(row) + 1;
	case SORT_SIZE:
		return d->done ? d->bytes / d->done : 0;
	case SORT_ERRORS:
		return d->failed + d->timeouts + d->refused;
	default:
		return 0;
	}
}

/* qsort_r() hands it to compare(). */
struct order {
	enum sort first, second;
};

static int compare(const void *a, const void *b, void *arg)
{
	const struct row *one = a, *two = b;
	const struct order *by = arg;
	__u64 x = sort_value(one, by->first), y = sort_value(two, by->first);

	if (x == y && by->first != SORT_NAME) {
		x = sort_value(one, by->second);
		y = sort_value(two, by->second);
	}
	if (x != y)
		return x < y ? 1 : -1;
	return strverscmp(one->name, two->name) ?: strverscmp(one->label, two->label);
}

void rows_sort(struct rows *rows, enum sort first, enum sort second)
{
	struct order by = { first, second };

	/* Commands are in the order of time, what smq says in its own. */
	if (rows->nr && rows->view != VIEW_COMMANDS && rows->view != VIEW_SMQ)
		qsort_r(rows->row, rows->nr, sizeof(*rows->row), compare, &by);
}
