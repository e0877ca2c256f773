// SPDX-License-Identifier: GPL-2.0
#include "rows.h"

#include <err.h>
#include <fnmatch.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

void totals_count(struct totals *t)
{
	t->done = t->untimed + hist_count(t->device);
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

	/* Commands are in the order of time, files behind their node, what smq says in its own. */
	if (rows->nr && rows->view < VIEW_COMMANDS)
		qsort_r(rows->row, rows->nr, sizeof(*rows->row), compare, &by);
}
