/* SPDX-License-Identifier: GPL-2.0 */
/* Where the user is: the view, the way from a host to what it does, and the selected row. */
#ifndef SMQTOP_PLACE_H
#define SMQTOP_PLACE_H

#include "frame.h"

#define LEVELS		4

/**
 * struct level - a view, on the way from a host to what it does
 * @view: the view
 * @scope: only rows of this host or LUN; empty: all
 * @name: of the selected row; empty: the first one, whichever that is
 * @label: of the selected row
 * @text: of the selected row
 * @at: index of the selected row
 * @top: index of the first row on the screen
 */
struct level {
	enum view view;
	char scope[ROW_NAME];
	char name[ROW_NAME];
	char label[ROW_NAME];
	char text[ROW_TEXT];
	unsigned int at;
	unsigned int top;
};

/**
 * struct place - the rows that are shown
 * @levels: from the first view to the present one
 * @depth: index of the present one
 * @first: sort key
 * @second: the order of rows that are equal by @first
 * @filter: only rows that match it; empty: all
 * @shown: the rows
 * @seconds: how long they were counted
 * @whole_host: they are queues of the host of a LUN, not only of that LUN
 */
struct place {
	struct level levels[LEVELS];
	unsigned int depth;
	enum sort first, second;
	char filter[64];
	struct rows shown;
	double seconds;
	bool whole_host;
};

struct level *place_level(struct place *p);
/* Fills in the rows of an interval that are shown, and finds the selected one among them. */
void place_arrange(struct place *p, const struct frame *frame);
/* The LUN whose queues are shown now, or after Enter; or empty. */
const char *place_lun(struct place *p);
/* Whether the host or LUN of the level is in the interval. */
bool place_is_there(struct place *p, const struct frame *frame);
/* The host or LUN that is selected or, in a view of neither, that the level is of; or empty. */
const char *place_target(struct place *p);
/* The number of a host by its name or that of a LUN of it: of host3, and of 3:0:0:1. */
unsigned int place_host(const char *name);

/* Selects a row, the nearest one if there is none. */
void place_move(struct place *p, long at);
/* The first level of a view. */
void place_go_to(struct place *p, enum view view);
/* From a row to what is of it: of a host to its LUNs, and so on. */
void place_go_in(struct place *p);

#endif
