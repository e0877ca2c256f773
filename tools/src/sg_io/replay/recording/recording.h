/* SPDX-License-Identifier: GPL-2.0 */
/* A recording: the commands that devices got, derived from trace events. */
#ifndef SG_IO_RECORDING_H
#define SG_IO_RECORDING_H

#include <argp.h>
#include <stdio.h>

#include "issue/cmdfile/opcodes.h"
#include "issue/workers/hist.h"
#include "trace.h"

#define TAG_CHAINS	1024

#define NO_CPU		0xffff	/* trace_event.cpu: not known */

struct recorded {
	__u64 ns;
	__u64 took_ns;		/* 0: it has not ended, or that is not known */
	__s32 tag;
	__u32 before;		/* an earlier command in flight in this chain: index + 1, or 0 */
	__u16 cpu;
	__u8 cdb_len;
	__u8 dev;
	bool has_data;
	bool protected;
	bool refused;		/* the LLD refused it: the mid-layer queues it again */
	__u8 cdb[CDB_MAX];
};

struct recording {
	__u64 limit;			/* commands */
	struct recorded *cmds;
	size_t nr;
	size_t room;
	size_t refused;			/* how many of @cmds the LLD refused */
	struct trace_event *events;	/* not sorted yet */
	size_t nr_events;
	size_t events_room;
	__u32 in_flight[TAG_CHAINS];	/* by tag: index + 1 of the latest command */
	unsigned int nr_in_flight;
	unsigned int most_in_flight;	/* the most at a time */
	struct hist latency;
	struct hist timer;		/* how late record's own timer was, in ns */
	__u64 not_good;
	bool full;	/* @limit commands are recorded, and all have ended or another came */
	bool no_memory;
};

struct recorded_device {
	const char *name;
	__u32 block_size;	/* 0: not known */
};

/* The output of a command file's lines; counts of commands written and left out. */
struct writing {
	FILE *out;
	const struct recorded_device *devs;
	unsigned int nr_devs;	/* if there is more than one, lines have dev= */
	const char *pattern;	/* of data-out; NULL: lba, but zero for WRITE SAME */
	struct opcodes written;
	__u64 nr_written;
	struct opcodes left_out;
	__u64 nr_left_out;
};

/* Where a recording goes, and what it says about data. */
struct writing_options {
	const char *output;	/* NULL: standard output */
	const char *pattern;
	bool json;		/* the summary on standard output; @output is set */
};

/* --output, --pattern and --json; its input is a struct writing_options. */
extern const struct argp writing_argp;

/* A callback for trace_read(): stores an event. Returns false if there is no memory. */
bool recording_take(const struct trace_event *event, void *recording);

/**
 * recording_sort() - sort events by time, and match the ends of commands with their starts
 * @r: the recording
 * @before_ns: events from this time on stay unsorted, because some may not have been read yet
 */
void recording_sort(struct recording *r, __u64 before_ns);

/**
 * recording_write() - write the lines of a command file
 * @r: the recording, completely sorted
 * @w: where they are written; receives the counts
 *
 * Commands that a line cannot describe become comments.
 */
void recording_write(const struct recording *r, struct writing *w);

/* Seconds from the first command to the last. */
double recording_seconds(const struct recording *r);
/* How many commands device @dev got. */
__u64 recording_count(const struct recording *r, unsigned int dev);
unsigned int recording_cpus(const struct recording *r);
void recording_free(struct recording *r);

#endif
