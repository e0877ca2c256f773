/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A life is one process of the load: it opens a node, makes random calls on it, and ends. The seed
 * determines the calls of a life, but not when the kernel answers them.
 */
#ifndef FUZZ_LIFE_H
#define FUZZ_LIFE_H

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
 * An unused mapping behind the area, longer than any buffer: the data of a command that goes beyond
 * the area does not reach a ring.
 */
#define GUARD_SIZE	(2UL << 30)
/*
 * All lives use the first SHARED_BLOCKS of a disk. A random command transfers at most MOST_BLOCKS
 * of them.
 */
#define SHARED_BLOCKS	8192
#define MOST_BLOCKS	64
/* Blocks that one life alone writes, and the slots for them: one for writes, one for reads. */
#define OWN_BLOCKS	64
#define OWN_SLOTS	2
/* The size of every disk: the parameters of its driver in tests/fuzz/devices.py set it. */
#define DISK_BLOCKS	131072
/* The most SQEs that a ring takes before it is closed. */
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
	bool fixed_file;	/* the life's file is registered as 0 */
	bool fixed_buffer;	/* the life's area is registered as 0 */
	unsigned int used;
	unsigned int pending;
	/* By user_data: the op + 1 while it is pending, then RING_ENDED. */
	unsigned char state[RING_MAX_SQES];
	int watched;			/* the user_data whose CQE sets what follows, or -1 */
	int outcome;			/* the command's: an errno, or the SCSI result */
	/* The members of the CQE; rest only if the ring is big. */
	int res;
	unsigned int cqe_flags;
	uint64_t rest[2];
};

struct own {
	int fd;			/* used by step_own() only; -1: none is open */
	uint64_t seed;
	uint32_t lba;		/* of the first of the life's own blocks */
	uint32_t sequence;	/* number of the last write */
	uint32_t written[OWN_BLOCKS];	/* sequence of each block's last write, or OWN_* */
	unsigned char *memory;
	const unsigned char *status;	/* status of the slots */
	uint64_t status_size;
	uint32_t status_stride;
	unsigned int runs[OWN_SLOTS];	/* status.runs of each slot before its last command */
	unsigned int forks;		/* forks since the memory was lent */
};

struct life {
	const struct options *options;
	uint64_t seed;
	unsigned int next_step;	/* number of the next step */
	unsigned int steps_left;
	double end;		/* the seconds_now() after which no step begins */
	int fd;
	bool nonblock;
	bool over;		/* a step was the last one */
	bool abandon;		/* it ends without waiting for its commands */
	bool child;		/* another life forked it; it must not use its parent's rings */
	unsigned char *area;	/* parts of it may be unmapped: only the kernel looks at it */
	struct ring rings[RINGS];
	struct own own;
};

static inline double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

#endif /* FUZZ_LIFE_H */
