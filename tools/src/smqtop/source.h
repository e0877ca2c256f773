/* SPDX-License-Identifier: GPL-2.0 */
/* Where the intervals come from, this machine or a recording, and the files that receive them. */
#ifndef SMQTOP_SOURCE_H
#define SMQTOP_SOURCE_H

#include "frame.h"

/**
 * struct source - intervals, one after the other
 * @live: this machine, if @replay is NULL
 * @replay: the recording
 * @line: of the recording, that @frame is
 * @damaged: that line is none of a recording; @frame is empty
 * @frame: the last interval
 * @record: receives the intervals; NULL: none
 * @record_path: its name
 * @metrics: file that receives the counters; NULL: none
 * @failed: the file that cannot be written
 */
struct source {
	struct collector live;
	struct replay *replay;
	unsigned int line;
	bool damaged;
	struct frame frame;
	FILE *record;
	const char *record_path;
	const char *metrics;
	const char *failed;
};

enum source_end {
	SOURCE_NEXT,		/* there is an interval */
	SOURCE_END,		/* the recording has no other one */
	SOURCE_FAILED,		/* @failed cannot be written; errno says why */
};

/* Ends an interval of this machine, or reads the next one of the recording. */
enum source_end source_next(struct source *s);
/* Reads a line of the recording; the next one read is that behind it. */
void source_seek(struct source *s, unsigned int line);
/* From now on this machine's frames also have the queues of this LUN; empty: of none. */
void source_look_at(struct source *s, const char *lun);
/* Closes all; false if the recording cannot be written. */
bool source_close(struct source *s);

#endif
