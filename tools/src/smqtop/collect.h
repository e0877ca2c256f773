/* SPDX-License-Identifier: GPL-2.0 */
/* Reads all views once an interval. */
#ifndef SMQTOP_COLLECT_H
#define SMQTOP_COLLECT_H

#include "rows.h"

struct collector {
	struct watch *watch;	/* NULL: only sysfs */
	struct sys sys;
	struct rows now[VIEWS];
	double seconds;		/* length of the last interval */
	__u64 ns;		/* when the last one ended */
	unsigned char gone[MAX_LUNS];
};

/* Begins the first interval. */
void collect_begin(struct collector *c, struct watch *w);
/* Ends an interval: @now has what came since the one before. */
void collect(struct collector *c);
void collect_end(struct collector *c);

#endif
