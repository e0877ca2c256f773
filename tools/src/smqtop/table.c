// SPDX-License-Identifier: GPL-2.0
#include "table.h"

#include <stdio.h>
#include <string.h>

#include "hist.h"

void cell_time(char *text, bool known, __u64 ns)
{
	static const char units[] = { 'n', 'u', 'm', 's' };
	unsigned int unit = 0;
	double v = ns;

	while (v >= 999.5 && unit + 1 < sizeof(units)) {
		v /= 1000;
		unit++;
	}
	if (!known)
		strcpy(text, "-");
	else
		snprintf(text, CELL_NUMBER, "%.*f%c", v < 9.95 && unit ? 1 : 0, v, units[unit]);
}

/* The same for a number: 950, 12.3k, 4.0M. */
static void cell_number(char *text, double n)
{
	static const char units[] = { 0, 'k', 'M', 'G', 'T' };
	unsigned int unit = 0;

	while (n >= 9999.5 && unit + 1 < sizeof(units)) {
		n /= 1000;
		unit++;
	}
	if (unit)
		snprintf(text, CELL_NUMBER, "%.*f%c", n < 99.95 ? 1 : 0, n, units[unit]);
	else
		snprintf(text, CELL_NUMBER, "%.0f", n);
}

/* Bytes, in powers of 1024. */
static void cell_bytes(char *text, bool known, double n)
{
	static const char units[] = { 'B', 'K', 'M', 'G', 'T' };
	unsigned int unit = 0;

	while (n >= 1023.5 && unit + 1 < sizeof(units)) {
		n /= 1024;
		unit++;
	}
	if (!known)
		strcpy(text, "-");
	else
		snprintf(text, CELL_NUMBER, "%.*f%c", n < 9.95 && unit ? 1 : 0, n, units[unit]);
}

void cell_copy(char *to, size_t size, const char *from)
{
	size_t i;

	for (i = 0; from[i] && i + 1 < size; i++)
		to[i] = from[i] >= ' ' && from[i] <= '~' ? from[i] : '?';
	to[i] = 0;
}

/* What stands before the figures. */
static const struct column names[VIEWS][2] = {
	[VIEW_HOSTS] = { { "HOST", 6, 8, true }, { "DRIVER", 10, 32, true } },
	[VIEW_LUNS] = { { "DISK", 5, 16, true }, { "LUN", 11, 32, true } },
	[VIEW_QUEUES] = { { "QUEUE", 5, 8, true }, { "HOST", 11, 32, true } },
	[VIEW_OPCODES] = { { "CODE", 5, 6, true }, { "OPCODE", 11, 32, true } },
};

static const struct column figures[] = {
	{ "IOPS", 6, 7 }, { "MB/s", 5, 6 }, { "INFLIGHT", 8, 11 },
	{ "P50", 5, 6 }, { "P90", 5, 6 }, { "P99", 5, 6 }, { "P99.9", 5, 6 },
	{ "QUEUE", 5, 6 }, { "SIZE", 4, 6 }, { "ERR", 4, 6 },
	{ "MEAN", 0, 6 }, { "FULL", 0, 6 }, { "BUSY", 0, 6 }, { "RETRY", 0, 6 },
	{ "TIMEOUT", 0, 8 },
};

/* Of hosts, before those that 80 columns have no room for. */
static const struct column handling[] = {
	{ "EH", 0, 6 }, { "ABORT", 0, 6 }, { "RESET", 0, 6 },
};

#define NARROW		10	/* figures that 80 columns have room for */
#define HANDLING	(sizeof(handling) / sizeof(*handling))

static const struct column errors[] = {
	{ "LUN", 11, 24, true }, { "TOTAL", 6, 10 }, { "PER_S", 5, 8 }, { "OPCODE", 15, 32, true },
	{ "WHAT", 39, ROW_TEXT - 1, true },
};

static const struct column commands[] = {
	{ "LUN", 12, 24, true }, { "NR", 5, 8 },
	{ "TASK, TIME, COMMAND, RESULT", 61, ROW_TEXT - 1, true },
};

static const struct column files[] = {
	{ "NODE", 9, 12, true }, { "DISK OR FILE", 18, 32, true }, { "INFLIGHT", 8, 11 },
	{ "WHAT", 42, ROW_TEXT - 1, true },
};

static const struct column smq[] = {
	{ "HOST", 7, 8, true }, { "WHAT", 21, 31, true }, { "VALUE", 50, ROW_TEXT - 1, true },
};

unsigned int table_columns(enum view view)
{
	switch (view) {
	case VIEW_ERRORS:
		return sizeof(errors) / sizeof(*errors);
	case VIEW_COMMANDS:
		return sizeof(commands) / sizeof(*commands);
	case VIEW_FILES:
		return sizeof(files) / sizeof(*files);
	case VIEW_SMQ:
		return sizeof(smq) / sizeof(*smq);
	case VIEW_HOSTS:
		return 2 + HANDLING + sizeof(figures) / sizeof(*figures);
	default:
		return 2 + sizeof(figures) / sizeof(*figures);
	}
}

const struct column *table_column(enum view view, unsigned int i)
{
	if (view == VIEW_ERRORS)
		return &errors[i];
	if (view == VIEW_COMMANDS)
		return &commands[i];
	if (view == VIEW_FILES)
		return &files[i];
	if (view == VIEW_SMQ)
		return &smq[i];
	if (i < 2)
		return &names[view][i];
	i -= 2;
	if (view == VIEW_HOSTS && i >= NARROW)
		return i < NARROW + HANDLING ? &handling[i - NARROW] : &figures[i - HANDLING];
	return &figures[i];
}

static void error_cell(struct cell *cell, __u64 n)
{
	cell_number(cell->text, n);
	if (n)
		cell->meaning = MEANS_ERROR;
}

static void inflight_cell(struct cell *cell, const struct row *row)
{
	if (row->inflight < 0)
		strcpy(cell->text, "-");
	else if (row->depth < 0)
		snprintf(cell->text, sizeof(cell->text), "%ld", row->inflight);
	else
		snprintf(cell->text, sizeof(cell->text), "%ld/%ld", row->inflight, row->depth);
	if (row->depth > 0 && row->inflight >= row->depth)
		cell->meaning = MEANS_FULL;
}

static void error_cells(const struct row *row, double seconds, struct cell *cells)
{
	cell_copy(cells[0].text, sizeof(cells[0].text), row->name);
	snprintf(cells[1].text, sizeof(cells[1].text), "%llu", row->total.failed);
	cell_number(cells[2].text, row->diff.failed / seconds);
	if (row->diff.failed)
		cells[2].meaning = MEANS_ERROR;
	cell_copy(cells[3].text, sizeof(cells[3].text), row->label);
	cell_copy(cells[4].text, sizeof(cells[4].text), row->text);
}

void table_cells(enum view view, const struct row *row, double seconds, struct cell *cells)
{
	static const unsigned int permille[] = { 500, 900, 990, 999 };
	const struct totals *d = &row->diff;
	const char *first = row->label, *second = row->name;
	__u64 timed = hist_count(d->device);
	struct cell *cell = cells + 2;
	unsigned int i;

	for (i = 0; i < TABLE_COLUMNS; i++)
		cells[i].meaning = MEANS_NOTHING;
	if (view == VIEW_ERRORS) {
		error_cells(row, seconds, cells);
		return;
	}
	if (view == VIEW_COMMANDS || view == VIEW_FILES || view == VIEW_SMQ) {
		cell_copy(cells[0].text, sizeof(cells[0].text), row->name);
		cell_copy(cells[1].text, sizeof(cells[1].text), row->label);
		if (view == VIEW_FILES)
			inflight_cell(&cells[2], row);
		i = table_columns(view) - 1;
		cell_copy(cells[i].text, sizeof(cells[i].text), row->text);
		return;
	}
	if (view == VIEW_HOSTS) {
		first = row->name;
		second = row->label;
		/* A host that does not run has no use for its driver's name. */
		if (*row->text && strcmp(row->text, "running")) {
			second = row->text;
			cells[1].meaning = MEANS_RECOVERY;
		}
	}
	cell_copy(cells[0].text, sizeof(cells[0].text), first);
	cell_copy(cells[1].text, sizeof(cells[1].text), second);
	cell_number(cell++->text, d->done / seconds);
	if (view == VIEW_OPCODES)	/* has no sizes */
		strcpy(cell++->text, "-");
	else
		cell_number(cell++->text, d->bytes / seconds / 1e6);
	inflight_cell(cell++, row);
	for (i = 0; i < 4; i++)
		cell_time(cell++->text, row_has_percentile(row, permille[i]),
			  row_percentile(row, permille[i]));
	cell_time(cell++->text, row_queue_ns(row) >= 0, row_queue_ns(row));
	cell_bytes(cell++->text, d->done && d->bytes, d->done ? (double)d->bytes / d->done : 0);
	error_cell(cell++, d->failed + d->timeouts + d->refused);
	if (view == VIEW_HOSTS) {
		cell_time(cell->text, d->eh_ns, d->eh_ns);
		cell++->meaning = d->eh_ns ? MEANS_RECOVERY : MEANS_NOTHING;
		error_cell(cell++, d->aborts);
		error_cell(cell++, d->target_resets + d->bus_resets + d->host_resets);
	}
	cell_time(cell++->text, timed, timed ? hist_sum(d->device) / timed : 0);
	error_cell(cell++, d->set_full);
	error_cell(cell++, d->refused);
	error_cell(cell++, d->retried);
	error_cell(cell++, d->timeouts);
}

void table_fit(enum view view, int window, int *widths)
{
	unsigned int i, nr = table_columns(view);
	const struct column *column;
	int room = window, more;

	for (i = 0; i < nr; i++) {
		widths[i] = table_column(view, i)->width;
		room -= widths[i] ? widths[i] + 1 : 0;
	}
	/* First what 80 columns have no room for, then longer names, then space. */
	for (i = 0; i < nr; i++) {
		column = table_column(view, i);
		if (!widths[i] && room > column->most) {
			widths[i] = column->most;
			room -= widths[i] + 1;
		}
	}
	for (i = 0; i < 2 * nr && room > 0; i++) {
		bool texts = i < nr;

		column = table_column(view, i % nr);
		if (!widths[i % nr] || column->left != texts)
			continue;
		more = column->most - widths[i % nr];
		more = more < room ? more : room;
		widths[i % nr] += more;
		room -= more;
	}
}

static void join(enum view view, const struct cell *cells, char *line, size_t size)
{
	unsigned int i, last, nr = table_columns(view);
	int widths[TABLE_COLUMNS], width;
	size_t used = 0;

	table_fit(view, TABLE_WIDTH, widths);
	for (last = nr - 1; !widths[last]; last--)
		;
	for (i = 0; i <= last && used < size; i++) {
		bool left = table_column(view, i)->left;

		width = left ? -widths[i] : widths[i];
		if (i == last && left)	/* the last one is whole */
			used += snprintf(line + used, size - used, "%s", cells[i].text);
		else if (widths[i])
			used += snprintf(line + used, size - used, "%*.*s%s", width,
					 left ? widths[i] : (int)sizeof(cells->text),
					 cells[i].text, i < last ? " " : "");
	}
}

void table_head(enum view view, char *line, size_t size)
{
	unsigned int i, nr = table_columns(view);
	struct cell cells[TABLE_COLUMNS];

	for (i = 0; i < nr; i++)
		snprintf(cells[i].text, sizeof(cells[i].text), "%s",
			 table_column(view, i)->head);
	join(view, cells, line, size);
}

void table_row(enum view view, const struct row *row, double seconds, char *line, size_t size)
{
	struct cell cells[TABLE_COLUMNS];

	table_cells(view, row, seconds, cells);
	join(view, cells, line, size);
}
