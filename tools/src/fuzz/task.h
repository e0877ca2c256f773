/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A task is one process of the load: it opens a node, makes random calls on it, and exits. The seed
 * determines the calls of a task, but not when the kernel completes them.
 */
#ifndef FUZZ_TASK_H
#define FUZZ_TASK_H

#include <liburing.h>
#include <scsi/smq_sg.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define BLOCK		512
#define SLOTS		64
#define RINGS		3
#define BUFFERS		6
#define BUFFER_SIZE	65536
#define AREA_SIZE	((size_t)BUFFERS * BUFFER_SIZE)
/*
 * Size of an inaccessible mapping directly behind the area. It is larger than any buffer: a command
 * whose data runs past the end of the area hits this mapping, and cannot overwrite a ring.
 */
#define GUARD_SIZE	(2UL << 30)
/*
 * All tasks read and write the first SHARED_BLOCKS of a disk. A random command transfers at most
 * MOST_BLOCKS of them.
 */
#define SHARED_BLOCKS	8192
#define MOST_BLOCKS	64
/* Blocks that only one task writes, and the slots for them: one for writes, one for reads. */
#define OWN_BLOCKS	64
#define OWN_SLOTS	2
/* The size of every disk, as SIZE_MB in tests/fuzz/devices.py sets it. */
#define DISK_BLOCKS	131072
/* The most SQEs that are put into a ring before it is closed. */
#define RING_MAX_SQES	8192
#define RING_ENTRIES	128

#define ADDRESS(p)	((uint64_t)(uintptr_t)(p))

struct options {
	uint64_t seed;
	unsigned int seconds;
	unsigned int workers;
	unsigned int time_factor;	/* factor for time limits */
	bool no_fork;
};

struct ring {
	struct io_uring uring;
	unsigned int flags;	/* IORING_SETUP_* */
	bool open;
	bool big;		/* SQE128 and CQE32 */
	bool fixed_file;	/* the task's file is registered as 0 */
	bool fixed_buffer;	/* the task's area is registered as 0 */
	unsigned int used;	/* how many SQEs it got; also the user_data of the next one */
	unsigned int pending;	/* SQEs without a CQE */
	/* Indexed by user_data: the op + 1 while the SQE is pending, then RING_ENDED. */
	unsigned char state[RING_MAX_SQES];
	int watched;		/* user_data of the CQE to copy to the fields below; -1: none */
	int outcome;		/* of that command: a negative errno, or its SCSI result */
	/* Copied from that CQE; rest only if the ring is big. */
	int res;
	unsigned int cqe_flags;
	uint64_t rest[2];
};

struct own {
	int fd;			/* a file that only step_own() uses; -1: none is open */
	uint64_t seed;
	uint32_t lba;		/* of the first of the task's own blocks */
	uint32_t sequence;	/* number of the last write */
	uint32_t written[OWN_BLOCKS];	/* sequence of each block's last write, or OWN_* */
	unsigned char *memory;
	const unsigned char *status;	/* status of the slots */
	uint64_t status_size;
	uint32_t status_stride;
	unsigned int runs[OWN_SLOTS];	/* status.runs of each slot before its last command */
	unsigned int forks;		/* forks since the memory was lent */
};

struct task {
	const struct options *options;
	uint64_t seed;
	unsigned int next_step;	/* number of the next step */
	unsigned int steps_left;
	double end;		/* no step begins after this time, see seconds_now() */
	int fd;
	bool nonblock;
	bool over;		/* no step follows the current one */
	bool abandon;		/* exit without waiting for the commands in flight */
	bool child;		/* forked by another task, whose rings it must not use */
	unsigned char *area;	/* only the kernel accesses it: parts of it may be unmapped */
	struct ring rings[RINGS];
	struct own own;
};

static inline double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

#endif /* FUZZ_TASK_H */
