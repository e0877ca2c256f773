/* SPDX-License-Identifier: GPL-2.0 */
/* Rows as cells of text, which the screen and --once draw. */
#ifndef SMQTOP_TABLE_H
#define SMQTOP_TABLE_H

#include "rows.h"

/* Why a cell is emphasised. */
enum meaning {
	MEANS_NOTHING,
	MEANS_ERROR,	/* commands failed in the interval */
	MEANS_RECOVERY,	/* the host does not run */
	MEANS_FULL,	/* as many commands in flight as the LUN or host takes */
	MEANINGS,
};

struct cell {
	char text[ROW_TEXT];
	enum meaning meaning;
};

/**
 * struct column - a column of a view
 * @head: its name
 * @width: in a window of 80 columns; 0: only in wider ones
 * @most: in a window that has room
 * @left: whether its cells begin at the left
 */
struct column {
	const char *head;
	int width;
	int most;
	bool left;
};

#define TABLE_COLUMNS	20
#define TABLE_LINE	1024
#define TABLE_WIDTH	80	/* what every terminal has */

unsigned int table_columns(enum view view);
const struct column *table_column(enum view view, unsigned int i);
/* Fills in a cell for each column. */
void table_cells(enum view view, const struct row *row, double seconds, struct cell *cells);
/* Fills in the width of each column for a window; 0 for one that is not shown. */
void table_fit(enum view view, int window, int *widths);
/* The names of the columns, and a row, in 80 columns; the last cell is whole. */
void table_head(enum view view, char *line, size_t size);
void table_row(enum view view, const struct row *row, double seconds, char *line, size_t size);

#define CELL_NUMBER	16

/* Three digits and a unit, in at most 5 columns; "-" for what is not known. */
void cell_time(char *text, bool known, __u64 ns);
/* Copies text to a terminal's safe characters. */
void cell_copy(char *to, size_t size, const char *from);

#endif
