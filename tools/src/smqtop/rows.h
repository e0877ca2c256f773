/* SPDX-License-Identifier: GPL-2.0 */
/* A view's rows: what was counted up to now, and in the last interval. */
#ifndef SMQTOP_ROWS_H
#define SMQTOP_ROWS_H

#include <stdbool.h>

#include "counters.h"
#include "sysfs.h"
#include "watch.h"

enum view {
	VIEW_HOSTS,
	VIEW_LUNS,
	VIEW_QUEUES,
	VIEW_OPCODES,
	VIEW_ERRORS,
	VIEWS,
};

enum sort {
	SORT_NAME,
	SORT_IOPS,
	SORT_MBPS,
	SORT_INFLIGHT,
	SORT_P50,
	SORT_P90,
	SORT_P99,
	SORT_P999,
	SORT_QUEUE,
	SORT_SIZE,
	SORT_ERRORS,
	SORTS,
};

extern const char *const view_names[VIEWS];
extern const char *const sort_names[SORTS];

/* Sums of struct counters, and of what sysfs has. */
struct totals {
	__u64 done;
	__u64 bytes;
	__u64 queue_ns;
	__u64 queued;
	__u64 retried;
	__u64 refused;
	__u64 late;
	__u64 timeouts;
	__u64 failed;
	__u64 set_full;
	__u64 wakeups;
	__u32 device[HIST_BUCKETS];
};

#define ROW_NAME	40
#define ROW_TEXT	128

/**
 * struct row - one line
 * @name: H:C:T:L, hostN, an opcode's name, ...: unique in its view, with @label
 * @label: disk, queue, ...
 * @text: driver of a host; what went wrong, in the errors' view
 * @depth: how many commands it takes, -1 if not known
 * @inflight: how many it has, -1 if not known
 * @total: since smqtop began
 * @diff: in the interval
 */
struct row {
	char name[ROW_NAME];
	char label[ROW_NAME];
	char text[ROW_TEXT];
	long depth;
	long inflight;
	struct totals total;
	struct totals diff;
};

struct rows {
	enum view view;
	struct row *row;
	unsigned int nr;
	unsigned int room;
};

/**
 * rows_read() - read a view
 * @rows: receives it; freed by rows_free()
 * @view: the view
 * @sys: hosts and LUNs
 * @w: the programs' counters; NULL: only what sysfs has
 */
void rows_read(struct rows *rows, enum view view, const struct sys *sys, const struct watch *w);
void rows_free(struct rows *rows);

/* Fills in @diff of each row: what came since @before, of the same view. */
void rows_compare(struct rows *rows, const struct rows *before);
/* Leaves only the rows in which name, label or text contain or match the pattern. */
void rows_filter(struct rows *rows, const char *pattern);
/* The largest first, names in their order; rows that are equal by @first are sorted by @second. */
void rows_sort(struct rows *rows, enum sort first, enum sort second);

/* Adds a row. */
struct row *rows_add(struct rows *rows, const char *name, const char *label);
/* The row with this name and label, which it adds if there is none. */
struct row *rows_get(struct rows *rows, const char *name, const char *label);

/* Fills in the views of opcodes and of errors. */
void rows_of_opcodes(struct rows *rows, const struct watch *w);
void rows_of_errors(struct rows *rows, const struct sys *sys, const struct watch *w);

/* A percentile of the interval in nanoseconds, 0 without a command. */
__u64 row_percentile(const struct row *row, unsigned int permille);
/* Whether there were enough commands for it: 2, 10, 100 and 1000 for the four that are shown. */
bool row_has_percentile(const struct row *row, unsigned int permille);
/* Mean time from the block layer to the driver; -1 if it is not known. */
long row_queue_ns(const struct row *row);

#endif
