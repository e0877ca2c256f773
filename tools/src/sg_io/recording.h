/* SPDX-License-Identifier: GPL-2.0 */
/* The commands of a device as they were sent, made of trace events. */
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
	__u32 before;		/* one in flight whose tag hashes alike: its index + 1, or 0 */
	__u16 cpu;
	__u8 cdb_len;
	bool has_data;
	bool protected;
	bool refused;		/* the driver had no room: it came again */
	__u8 cdb[CDB_MAX];
};

struct recording {
	__u64 limit;			/* commands */
	struct recorded *cmds;
	size_t nr;
	size_t room;
	size_t refused;			/* of them */
	struct trace_event *events;	/* not in order yet */
	size_t nr_events;
	size_t events_room;
	__u32 in_flight[TAG_CHAINS];	/* index + 1 of the latest, by tag */
	unsigned int now;		/* in flight */
	unsigned int most;
	struct hist latency;
	__u64 not_good;
	bool full;			/* the limit: all of them ended, or one more came */
	bool no_memory;
};

/* Where the lines of a command file go, and what they cannot say. */
struct writing {
	FILE *out;
	__u32 block_size;	/* of the device, 0: not known */
	const char *pattern;	/* of data-out, NULL: lba, but zero of WRITE SAME */
	struct opcodes written;
	__u64 nr_written;
	struct opcodes left_out;
	__u64 nr_left_out;
};

/* For trace_read(): false when there is no going on. */
bool recording_take(const struct trace_event *event, void *recording);

/**
 * recording_sort() - put events in the order of time, and commands and their ends together
 * @r: the recording
 * @before_ns: what is younger waits; nothing of a CPU is older than what it gave before
 */
void recording_sort(struct recording *r, __u64 before_ns);

/**
 * recording_write() - the lines of a command file
 * @r: the recording, sorted to its end
 * @w: where to; the counts are filled in
 *
 * Commands whose data the tracepoints do not tell are comments.
 */
void recording_write(const struct recording *r, struct writing *w);

/* From the first to the last. */
double recording_seconds(const struct recording *r);
unsigned int recording_cpus(const struct recording *r);
void recording_free(struct recording *r);

#endif
