/* SPDX-License-Identifier: GPL-2.0 */
/* Reads the kernel's scsi tracepoints for some devices, in a separate tracing instance. */
#ifndef SG_IO_TRACE_H
#define SG_IO_TRACE_H

#include "issue/cmdfile/cdb.h"
#include "issue/device/device.h"

#define TRACE_DEVICES	64

enum trace_kind {
	TRACE_START,	/* the mid-layer gave the command to the LLD */
	TRACE_REFUSED,	/* the LLD refused the command: a TRACE_START will follow */
	TRACE_DONE,
};

struct trace_event {
	__u64 ns;		/* CLOCK_MONOTONIC */
	__u32 order;		/* order of reading, for events of the same time */
	__s32 tag;
	__s32 result;		/* of the command, for TRACE_DONE */
	__u16 cpu;
	__u8 kind;		/* enum trace_kind */
	__u8 cdb_len;
	__u8 dev;		/* index of the device, 0 if there is one */
	bool has_data;
	bool protected;		/* the command has protection information in addition to the data */
	__u8 cdb[CDB_MAX];
};

struct trace;

/**
 * trace_start() - start the kernel's recording of devices' commands
 * @devs: the devices; an event has the index of its device
 * @nr: how many, 1 to TRACE_DEVICES
 * @buffer_kb: size of each CPU's buffer, in KiB
 *
 * Other users of tracing are not affected, and do not affect this recording.
 *
 * Return: NULL after one message.
 */
struct trace *trace_start(const struct device *devs, unsigned int nr, unsigned int buffer_kb);

/**
 * trace_read() - read new events, at most one full buffer of each CPU
 * @t: the trace
 * @take: called for each event; the events of one CPU are in order. Returns false to end the
 *	reading
 * @arg: for @take
 *
 * Return: false if @take ended the reading; false after one message if the reading failed.
 */
bool trace_read(struct trace *t, bool (*take)(const struct trace_event *event, void *arg),
		void *arg);

/* Stop recording; the events recorded so far can still be read. */
void trace_stop(struct trace *t);

/*
 * Counts the events that were lost because the buffers were full. Returns false if the kernel's
 * counts cannot be read.
 */
bool trace_lost(const struct trace *t, __u64 *events);

void trace_close(struct trace *t);

#endif
