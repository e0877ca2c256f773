/* SPDX-License-Identifier: GPL-2.0 */
/* The commands of a device as they were sent, derived from trace events. */
#ifndef SG_IO_RECORDING_H
#define SG_IO_RECORDING_H

#include <stdio.h>

#include "hist.h"
#include "opcodes.h"
#include "trace.h"

#define TAG_CHAINS	1024

struct recorded {
	__u64 ns;
	__s32 tag;
	__u32 before;		/* the next in flight in this chain of tags: index + 1, or 0 */
	__u16 cpu;
	__u8 cdb_len;
	bool has_data;
	bool protected;
	bool refused;		/* the driver had no room: it was queued again */
	__u8 cdb[CDB_MAX];
};

struct recording {
	__u64 limit;			/* commands */
	struct recorded *cmds;
	size_t nr;
	size_t room;
	size_t refused;			/* commands that the driver refused */
	struct trace_event *events;	/* not in order yet */
	size_t nr_events;
	size_t events_room;
	__u32 in_flight[TAG_CHAINS];	/* index + 1 of the latest, by tag */
	unsigned int now;		/* in flight */
	unsigned int most;
	struct hist latency;
	__u64 not_good;
	bool full;			/* limit reached, and all have ended or another came */
	bool no_memory;
};

/* The output of a command file's lines, and counts of those left out. */
struct writing {
	FILE *out;
	__u32 block_size;	/* of the device, 0: not known */
	const char *pattern;	/* of data-out, NULL: lba, but zero of WRITE SAME */
	struct opcodes written;
	__u64 nr_written;
	struct opcodes left_out;
	__u64 nr_left_out;
};

/* Callback of trace_read(): false ends the reading. */
bool recording_take(const struct trace_event *event, void *recording);

/**
 * recording_sort() - sorts events by time, and combines commands with their ends
 * @r: the recording
 * @before_ns: newer events stay unsorted, because events of other CPUs may still come before them
 */
void recording_sort(struct recording *r, __u64 before_ns);

/**
 * recording_write() - the lines of a command file
 * @r: the recording, completely sorted
 * @w: where to; the counts are filled in
 *
 * Commands whose data is not known from the tracepoints become comments.
 */
void recording_write(const struct recording *r, struct writing *w);

/* Seconds from the first command to the last. */
double recording_seconds(const struct recording *r);
unsigned int recording_cpus(const struct recording *r);
void recording_free(struct recording *r);

#endif
