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
 * @place: the view and its rows
 * @dialog: what the user is asked
 * @heat: how long the commands of all LUNs took
 * @heat_name: the LUN whose heat map is shown
 * @mode: what is shown in place of the rows
 * @interval: seconds of an interval
 * @paused: no other interval is shown
 * @page: how many rows the terminal has room for
 */
struct screen {
	struct source *source;
	struct place place;
	struct dialog dialog;
	struct heat heat;
	char heat_name[ROW_NAME];
	enum mode mode;
	double interval;
	bool paused;
	unsigned int page;
};

#endif
