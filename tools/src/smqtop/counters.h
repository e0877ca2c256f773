/* SPDX-License-Identifier: GPL-2.0 */
/* What the programs in the kernel count. The kernel writes it, smqtop reads it. */
#ifndef SMQTOP_COUNTERS_H
#define SMQTOP_COUNTERS_H

#include <linux/types.h>

/*
 * Histogram of times in units of 64 ns: values below 16 have a bucket each. Above, each power of
 * two has 8 equal buckets, so that a percentile is at most 1/8 too high. The last bucket also has
 * all that took longer than 4.6 minutes.
 */
#define HIST_UNIT	6	/* bits: 64 ns */
#define HIST_SUB	3	/* bits: 8 buckets */
#define HIST_BUCKETS	((33 - HIST_SUB) << HIST_SUB)
#define HIST_ROOM	256	/* what a __u8 can be: needs no check */

/* The bucket of a time. */
static inline __u32 hist_index(__u64 ns)
{
	__u64 v = ns >> HIST_UNIT;
	__u32 shift = 0;

	if (v >> 32)
		return HIST_BUCKETS - 1;
	while (v >> shift >= 2 << HIST_SUB)
		shift++;
	return (shift << HIST_SUB) + (v >> shift);
}

/*
 * The same in few instructions: the bucket of a time below 2^HIST_TABLE units stands in a table,
 * and that of 256 times the time is 64 buckets on.
 */
#define HIST_TABLE	11	/* bits */

static inline __u8 hist_bucket(const __u8 *table, __u64 ns)
{
	__u64 v = ns >> HIST_UNIT;

	if (!(v >> HIST_TABLE))
		return table[v];
	if (!(v >> (HIST_TABLE + 8)))
		return table[v >> 8] + (8 << HIST_SUB);
	if (!(v >> (HIST_TABLE + 16)))
		return table[v >> 16] + (16 << HIST_SUB);
	if (!(v >> 32))
		return table[v >> 24] + (24 << HIST_SUB);
	return HIST_BUCKETS - 1;
}

/**
 * struct slot - a command that a driver has
 * @cmd: address of its struct scsi_cmnd; below SLOT_TAKEN the slot is free, and this is how many
 *       commands get no time before the next one that does
 * @sent: when it was sent, in nanoseconds
 * @task: address of the task that sent it
 * @cpu: that sent it
 * @kept: why the slot is not free although the driver has ended the command, or error handling has
 *        taken it over: it may be sent again
 *
 * A slot is found by a hash of @cmd. A command whose slot another one has gets no time.
 */
struct slot {
	__u64 cmd;
	__u64 sent;
	__u64 task;
	__u16 cpu;
	__u16 kept;
};

#define SLOT_TAKEN	8192	/* above sample_mask */

#define SLOT_BITS	16
#define SLOTS		(1 << SLOT_BITS)
#define KEPT_FAILED	1
#define KEPT_LATE	2

/**
 * struct lun - a LUN that has had a command since smqtop began
 * @sdev: address of its struct scsi_device, 0 for a free entry
 * @known: whether the rest is valid; smqtop sets it and @sdev to 0 when the LUN is gone
 * @host: host number
 * @channel: of its address
 * @id: of its address
 * @lun: of its address
 *
 * The number of the entry is the LUN's place in the array of counters.
 */
struct lun {
	__u64 sdev;
	__u32 known;
	__u32 host;
	__u32 channel;
	__u32 id;
	__u64 lun;
};

#define LUN_BITS	10
#define MAX_LUNS	(1 << LUN_BITS)
#define LUN_PROBES	8	/* entries in which a LUN may be found */

/**
 * struct counters - the commands that one CPU sent to one LUN
 * @sdev: its struct scsi_device; 0 if the CPU has sent it nothing
 * @bytes: size of their data
 * @queued: how many commands @queue_ns has: one in QUEUE_SAMPLE that the block layer timed
 * @queue_ns: from the block layer's start to sent, sum over @queued
 * @retried: sent although they had failed before
 * @refused: not taken by the LLD: the mid-layer sends them again
 * @late: timed out, and taken over by error handling
 * @timeouts: how often a command timed out; with an LLD that asks for more time more than @late
 * @failed: done with another result than GOOD
 * @set_full: done with TASK SET FULL
 * @untimed: done, but it is not known when they were sent
 * @device: times from sent to done, of all others
 *
 * What the LLD has ended is @untimed and the sum over @device: no count of its own.
 */
struct counters {
	__u64 sdev;
	__u64 bytes;
	__u64 queue_ns;
	__u64 queued;
	__u64 retried;
	__u64 refused;
	__u64 late;
	__u64 timeouts;
	__u64 failed;
	__u64 set_full;
	__u64 untimed;
	__u32 device[HIST_ROOM];
};

#define QUEUE_SAMPLE	16	/* a power of two */

/* The commands with one opcode that one CPU sent, to all LUNs. */
struct opcode {
	__u64 untimed;
	__u32 device[HIST_ROOM];
};

/* What the commands that one CPU sent have: a single look-up in the kernel. */
struct of_cpu {
	struct counters luns[MAX_LUNS];
	struct opcode opcodes[256];
};

/* How commands failed; a LUN's @sdev, because a result outlives no LUN. */
struct failure {
	__u64 sdev;
	__u8 status;
	__u8 host;
	__u8 key;
	__u8 asc;
	__u8 ascq;
	__u8 opcode;
	__u8 spare[2];
};

#define MAX_FAILURES	4096
#define MAX_HOSTS	1024

/**
 * struct of_host - error handling of a host
 * @wakeups: how often its thread was woken
 * @eh_ns: time in it
 * @eh_began: when it began, 0 if it is not under way
 * @aborts: commands whose abort was tried
 * @escalations: how often aborts were not enough
 * @target_resets: tried
 * @bus_resets: tried
 * @host_resets: tried
 */
struct of_host {
	__u64 wakeups;
	__u64 eh_ns;
	__u64 eh_began;
	__u64 aborts;
	__u64 escalations;
	__u64 target_resets;
	__u64 bus_resets;
	__u64 host_resets;
};

/**
 * struct event - a command that was slow, failed or timed out
 * @number: which one it is, from 1 on; 0 while it is written
 * @ns: when that was, on the monotonic clock
 * @sdev: its LUN
 * @took: time from sent; 0 if it is not known
 * @task: its task's process, 0 if it is not known
 * @result: of the mid-layer
 * @timed_out: without a result
 * @bytes: size of its data
 */
struct event {
	__u64 number;
	__u64 ns;
	__u64 sdev;
	__u64 took;
	__u32 task;
	__u32 result;
	__u32 bytes;
	__u8 timed_out;
	__u8 key;
	__u8 asc;
	__u8 ascq;
	__u8 cdb[32];
	char comm[16];
};

#define EVENTS	64

/* What was not counted, and why. */
struct lost {
	__u64 luns;	/* commands of LUNs for which there was no entry */
	__u64 failures;	/* failures of a kind for which there was no entry */
};

#endif
