/* SPDX-License-Identifier: GPL-2.0 */
/* What the screen shows: keys change it, and it is drawn. */
#ifndef SMQTOP_STATE_H
#define SMQTOP_STATE_H

#include "dialog.h"
#include "heat.h"
#include "place.h"
#include "source.h"

enum mode { MODE_TABLE, MODE_HELP, MODE_HEAT, MODE_SETTINGS };

/**
 * struct screen - what is shown
 * @source: the intervals
 * @frame: the one that is shown: the last one, or @held
 * @held: a copy of that of this machine at which the user has paused
 * @is_held: there is such a copy
 * @place: the view and its rows
 * @dialog: what the user is asked
 * @heat: how long the commands of all LUNs took
 * @heat_name: the LUN whose heat map is shown
 * @heat_end: heat.intervals at @frame
 * @mode: what is shown in place of the rows
 * @interval: seconds of an interval
 * @paused: no other interval is shown; those of this machine are collected all the same
 * @page: how many rows the terminal has room for
 */
struct screen {
	struct source *source;
	const struct frame *frame;
	struct frame held;
	bool is_held;
	struct place place;
	struct dialog dialog;
	struct heat heat;
	char heat_name[ROW_NAME];
	unsigned int heat_end;
	enum mode mode;
	double interval;
	bool paused;
	unsigned int page;
};

#endif
