/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel's scsi tracepoints, of one device, in a tracing instance of their own. */
#ifndef SG_IO_TRACE_H
#define SG_IO_TRACE_H

#include "cdb.h"
#include "device.h"

enum trace_kind {
	TRACE_START,	/* given to the low-level driver */
	TRACE_REFUSED,	/* the low-level driver had no room: it will start again */
	TRACE_DONE,
};

struct trace_event {
	__u64 ns;		/* CLOCK_MONOTONIC */
	__u32 order;		/* order of reading, for events of the same time */
	__s32 tag;
	__s32 result;		/* of the command that is done */
	__u16 cpu;
	__u8 kind;		/* enum trace_kind */
	__u8 cdb_len;
	bool has_data;
	bool protected;		/* protection information beside the data */
	__u8 cdb[CDB_MAX];
};

struct trace;

/**
 * trace_start() - start the kernel's recording of a device's commands
 * @dev: the device
 * @buffer_kb: of the buffer that each CPU has
 *
 * Other users of tracing are not affected, and do not affect this recording.
 *
 * Return: NULL after one message.
 */
struct trace *trace_start(const struct device *dev, unsigned int buffer_kb);

/**
 * trace_read() - reads new events, at most a buffer of each CPU
 * @t: the trace
 * @take: called for each event, those of a CPU in order; false ends the reading
 * @arg: for @take
 *
 * Return: false if @take ended it, or if it failed, after one message.
 */
bool trace_read(struct trace *t, bool (*take)(const struct trace_event *event, void *arg),
		void *arg);

/* Stop recording; the events recorded so far can still be read. */
void trace_stop(struct trace *t);

/*
 * The number of events for which there was no room in the buffers. Returns false if it cannot be
 * read.
 */
bool trace_lost(const struct trace *t, __u64 *events);

void trace_close(struct trace *t);

#endif
