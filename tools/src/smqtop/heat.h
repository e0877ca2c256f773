/* SPDX-License-Identifier: GPL-2.0 */
/* How long the commands of each LUN took, interval by interval. */
#ifndef SMQTOP_HEAT_H
#define SMQTOP_HEAT_H

#include "source.h"

#define HEAT_COLUMNS	256	/* intervals */
#define HEAT_ROWS	33	/* row r: below 64 ns << r */

struct heat_lun {
	char name[ROW_NAME];
	unsigned int seen;		/* the last interval that had it */
	__u32 count[HEAT_COLUMNS][HEAT_ROWS];
};

struct heat {
	struct heat_lun *luns;
	unsigned int nr;
	unsigned int room;
	unsigned int intervals;		/* so far; the last one is in column (@intervals - 1) %
					 * HEAT_COLUMNS
					 */
	unsigned int line;		/* of the recording, that is the last one */
};

/* Has the heat map end with the interval that the source is at. */
void heat_follow(struct heat *heat, const struct source *source);
void heat_free(struct heat *heat);
const struct heat_lun *heat_find(const struct heat *heat, const char *name);

#endif
