/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel's scsi tracepoints, of one device, in a tracing instance of their own. */
#ifndef SG_IO_TRACE_H
#define SG_IO_TRACE_H

#include "cdb.h"
#include "device.h"

enum trace_kind {
	TRACE_START,	/* given to the low-level driver */
	TRACE_REFUSED,	/* which had no room: it will start again */
	TRACE_DONE,
};

struct trace_event {
	__u64 ns;		/* CLOCK_MONOTONIC */
	__u32 order;		/* among those of one time: as they were read */
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
 * trace_start() - have the kernel note the commands of a device from now on
 * @dev: the device
 * @buffer_kb: of the buffer that each CPU has
 *
 * Other users of tracing are not disturbed, nor do they disturb this.
 *
 * Return: NULL after one message.
 */
struct trace *trace_start(const struct device *dev, unsigned int buffer_kb);

/**
 * trace_read() - fetch what has come since, at most a buffer of each CPU
 * @t: the trace
 * @take: called for each event, those of a CPU in order; false ends the reading
 * @arg: for @take
 *
 * Return: false when it was ended, or failed, then after one message.
 */
bool trace_read(struct trace *t, bool (*take)(const struct trace_event *event, void *arg),
		void *arg);

/* No event is added any more; those that are there can still be read. */
void trace_stop(struct trace *t);

/* Events for which there was no room in the buffers; false where that cannot be read. */
bool trace_lost(const struct trace *t, __u64 *events);

void trace_close(struct trace *t);

#endif
