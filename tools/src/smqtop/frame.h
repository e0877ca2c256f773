/* SPDX-License-Identifier: GPL-2.0 */
/* An interval with the rows of all views: as smqtop has just read it, or from a recording. */
#ifndef SMQTOP_FRAME_H
#define SMQTOP_FRAME_H

#include <stdio.h>

#include <json-c/json.h>

#include "collect.h"

/**
 * struct frame - an interval
 * @time: when it ended, in seconds since 1970
 * @seconds: how long it was
 * @times: whether there are times; else the rows have what sysfs counts
 * @missed: see watch_missed()
 * @rows: of each view
 * @queues: of one LUN; a recording has none
 */
struct frame {
	double time;
	double seconds;
	bool times;
	__u64 missed;
	struct rows rows[VIEWS];
	struct lun_queues queues;
};

/* The collector's last interval, whose rows the collector frees. */
void frame_collected(struct frame *frame, const struct collector *c);

/* A line of a recording; false if it cannot be written. */
bool frame_write(const struct frame *frame, FILE *f);
/* Reads a line; false if it is no line of a recording. */
bool frame_parse(struct frame *frame, const char *line);
/* Copies a frame, with its rows. */
void frame_copy(struct frame *to, const struct frame *from);
/* Frees a frame that was read or copied. */
void frame_free(struct frame *frame);

/* The counts of an interval, without times, as JSON; @all: also those that are 0. */
struct json_object *frame_counts(const struct totals *t, bool all);

struct replay;

/* Opens a recording; on failure prints why and returns NULL. */
struct replay *replay_open(const char *path);
void replay_close(struct replay *r);
/* How many lines it has, and when a line's interval ended. */
unsigned int replay_lines(const struct replay *r);
double replay_time(const struct replay *r, unsigned int line);
/* Reads a line, counted from 0; false if it is damaged. */
bool replay_read(struct replay *r, unsigned int line, struct frame *frame);

#endif
