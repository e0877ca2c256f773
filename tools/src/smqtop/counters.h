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

/* The bucket of a time; no loop, so that it is cheap in the kernel. */
static inline __u32 hist_index(__u64 ns)
{
	__u32 v = ns >> HIST_UNIT, shift = 0;

	if (ns >> (HIST_UNIT + 32))
		return HIST_BUCKETS - 1;
	if (v >> (16 + HIST_SUB)) {
		v >>= 16;
		shift += 16;
	}
	if (v >> (8 + HIST_SUB)) {
		v >>= 8;
		shift += 8;
	}
	if (v >> (4 + HIST_SUB)) {
		v >>= 4;
		shift += 4;
	}
	if (v >> (2 + HIST_SUB)) {
		v >>= 2;
		shift += 2;
	}
	if (v >> (1 + HIST_SUB)) {
		v >>= 1;
		shift += 1;
	}
	return (shift << HIST_SUB) + v;
}

/*
 * A slot holds when its command was sent: nanoseconds << SLOT_TIME | CPU << 1 | timed out. It is 0
 * while there is no command. The difference of two such times is right for 78 hours.
 */
#define SLOT_TIME	16
#define SLOT_CPU_MASK	0x7fff
#define SLOT_LATE	1

/**
 * struct lun - a LUN that has had a command since smqtop began
 * @sdev: address of its struct scsi_device, 0 for a free entry
 * @known: whether the rest is valid; smqtop sets it and @sdev to 0 when the LUN is gone
 * @host: host number
 * @channel: of its address
 * @id: of its address
 * @lun: of its address
 *
 * The number of the entry is the LUN's place in the arrays of slots and counters.
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
#define TOKEN_BITS	10	/* the mid-layer's default bound of a device's depth */
#define MAX_TOKENS	(1 << TOKEN_BITS)
#define LUN_PROBES	8	/* entries in which a LUN may be found */

/**
 * struct counters - the commands that one CPU sent to one LUN
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
	__u32 device[HIST_BUCKETS];
};

#define QUEUE_SAMPLE	16	/* a power of two */

/* The commands with one opcode that one CPU sent, to all LUNs. */
struct opcode {
	__u32 device[HIST_BUCKETS];
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

/* What was not counted, and why. */
struct lost {
	__u64 luns;	/* commands of LUNs for which there was no entry */
	__u64 slots;	/* commands whose budget token was beyond the array: without times */
	__u64 failures;	/* failures of a kind for which there was no entry */
};

#endif
