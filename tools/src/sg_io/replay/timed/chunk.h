/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The chunks of a replay by timed batches: build.c fills them, timed.c sends them, and collect.c
 * takes the results.
 *
 * The file is sent in chunks. A chunk is the next commands of the file, and has a part for each
 * lane, the timed batch of its commands. A part is sent by a thread of its own on the lane's CPU,
 * and its first entry waits until the part before it has been sent, so that up to CHUNKS chunks can
 * be in the kernel at a time. A chunk takes the place of the one that is CHUNKS before it, when all
 * lanes have ended that: so no number is waited for that is too old (SMQ_SG_TIMED_WINDOW).
 *
 * Each command has a slot of its own in the chunk, and its data-out a place in the chunk's memory.
 * All data-in goes to the same memory, unless a line says what it should be.
 */
#ifndef SG_IO_CHUNK_H
#define SG_IO_CHUNK_H

#include <libsmq.h>
#include <pthread.h>

#include "issue/workers/engine.h"
#include "replay/lane.h"
#include "replay/level.h"
#include "replay/stream.h"

#define CHUNK_PAGE	4096ULL
#define CHUNKS		4
#define CHUNK_COMMANDS	(STREAM_WINDOW / CHUNKS)
#define CHUNK_NUMBERS	(SMQ_SG_TIMED_WINDOW / CHUNKS)

enum part_state { PART_NONE, PART_READY, PART_SENT };

/* What a lane sends of a chunk. */
struct part {
	struct timed *t;
	struct chunk *chunk;
	const struct lane *lane;
	pthread_t thread;
	bool has_thread;
	pthread_cond_t changed;
	enum part_state state;	/* under timed.lock */
	int error;		/* of the call; set before PART_SENT */
	struct smq_sg_timed head;
	struct smq_sg_timed_entry *entries;
	struct smq_sg_timed_result *results;
	unsigned int nr;
	size_t entries_room;
	size_t results_room;
};

/* Where a command of a chunk is. */
struct ref {
	__u32 entry;		/* of the lane's part */
	__u16 lane;
	__s16 error;		/* why it has no slot; 0: it has one */
	__u32 page;		/* of its data, in timed.memory */
};

struct chunk {
	struct part *parts;	/* by lane */
	struct ref *refs;	/* by command */
	__u32 first;		/* command of the file */
	unsigned int nr;
	unsigned int taken;	/* so many results have been taken */
	unsigned int written;	/* so many results were there at the last look */
	unsigned int running;	/* parts that are not PART_SENT; under timed.lock */
	double gain;		/* of PLAN_LOAD: what the recording's load was multiplied by */
};

/*
 * Of PLAN_LOAD: commands end before others can be issued, so fewer are in flight than the limits
 * allow. The chunks that have ended show how many fewer.
 */
struct timed_load {
	double allowed;		/* sums of commands in flight times ns; older ones weigh less */
	double had;
	double now;		/* allowed since the last command that was taken */
	double rest;		/* by which the limits, as whole numbers, are too small */
};

struct timed_target {
	struct smq_device *dev;
	unsigned int room;		/* slots of a chunk */
	unsigned int nr;		/* of the chunk that is being filled */
	struct smq_sg_slot *slots;
	__u32 *which;			/* by slot: the command, as its place in the chunk */
};

/* What is known about a lane. */
struct timed_lane {
	__u32 sent;		/* number of the entry that ends when all before it were sent */
	unsigned int chunk;	/* in which that is */
	__u64 issued;		/* when the last command was issued that was taken */
};

struct timed {
	struct worker *w;
	struct stream *stream;
	struct smq_device *leader;	/* the file whose batches all are */
	struct timed_target *targets;
	int *fds;			/* of @targets */
	struct timed_lane *lanes;
	__u16 lane_of[CPU_SETSIZE + 1];	/* by CPU - CPU_ANY */
	struct chunk chunks[CHUNKS];
	unsigned int built;		/* chunks of this pass */
	unsigned int published;
	unsigned int ended;
	bool has_step;			/* the stream's command is in no chunk yet */
	__u32 number;			/* the last one given to an entry */
	__u32 numbers[STREAM_WINDOW];	/* of the last commands */
	__u64 ends[SMQ_SG_TIMED_WINDOW];	/* by number: when the command has ended */
	unsigned int depth;		/* of all lanes */
	__u64 start_ns;			/* of this pass */
	struct level level;		/* when a command was issued, or was due with PLAN_TIME */
	struct timed_load feedback;
	char *memory;
	__u64 in_bytes;			/* at the start of @memory: for all data-in */
	__u64 chunk_bytes;		/* for the data of each chunk, behind that */
	__u64 used;			/* of the chunk that is being filled */

	pthread_mutex_t lock;
	pthread_cond_t ended_cond;	/* a part was sent */
	bool stop;			/* no more parts are sent */
	bool quit;			/* the threads are to end */
};

static inline struct chunk *timed_chunk(struct timed *t, unsigned int nth)
{
	return &t->chunks[nth % CHUNKS];
}

/* The memory of the chunk that a command's data needs. */
__u64 chunk_own_bytes(const struct cmdfile *file, const struct command *cmd);

/*
 * Finds out how much memory a chunk can need and, if @t is not NULL, how many slots of each target.
 */
__u64 chunk_measure(const struct cmdfile *file, struct timed *t);

/* Adds an entry that only waits for @after, if it is not 0. Return: NULL without memory. */
struct smq_sg_timed_entry *chunk_add_entry(struct timed *t, struct part *p, __u64 due, __u32 after);

#endif
