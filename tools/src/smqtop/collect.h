/* SPDX-License-Identifier: GPL-2.0 */
/* Reads all views once an interval. */
#ifndef SMQTOP_COLLECT_H
#define SMQTOP_COLLECT_H

#include "rows.h"

/**
 * struct lun_queues - the queues of one LUN
 * @lun: H:C:T:L; empty: of none
 * @begun: when the counts were read first
 * @seconds: how long they were counted, in the last interval; 0: no interval has ended since
 * @rows: of its queues
 */
struct lun_queues {
	char lun[ROW_NAME];
	__u64 begun;
	double seconds;
	struct rows rows;
};

struct collector {
	struct watch *watch;	/* NULL: only sysfs */
	struct sys sys;
	struct rows now[VIEWS];
	double seconds;		/* length of the last interval */
	__u64 ns;		/* when the last one ended */
	unsigned int sample;	/* time one in so many commands; 0: as many as the rate allows */
	unsigned int every;	/* which that was in the last interval */
	struct command commands[EVENTS];	/* the last slow or failed ones, newest first */
	unsigned int nr_commands;
	struct lun_queues queues;	/* of the LUN at which the user looks */
	unsigned char gone[MAX_LUNS];
};

/* Begins the first interval; @sample as in struct collector. */
void collect_begin(struct collector *c, struct watch *w, unsigned int sample);
/* Ends an interval: @now has what came since the one before. */
void collect(struct collector *c);
/* From now on also counts by the queues of this LUN; empty: of none. */
void collect_queues(struct collector *c, const char *lun);
void collect_end(struct collector *c);

#endif
