/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One process of the load: it opens a node, does random things with it, and ends. What a life does
 * follows from its seed; when the kernel answers what does not.
 */
#ifndef FUZZ_LIFE_H
#define FUZZ_LIFE_H

#include <scsi/smq_sg.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "own.h"
#include "random.h"
#include "ring.h"
#include "tally.h"

#define BLOCK		512
#define SLOTS		64
#define RINGS		3
#define BUFFERS		6
#define BUFFER_SIZE	65536
#define AREA_SIZE	((size_t)BUFFERS * BUFFER_SIZE)
/* Behind the area, longer than a buffer may be: no ring is mapped where data may go. */
#define GUARD_SIZE	(2UL << 30)
/* LBAs below belong to everybody. Random commands move up to MOST_BLOCKS there. */
#define SHARED_BLOCKS	8192
#define MOST_BLOCKS	64
/* CDBs of 6, 10, 12 and 16 bytes. */
#define MEDIA_KINDS	4
#define NOBODY		65534
/* What a process of NOBODY may lock: not all of its area. */
#define NOBODY_LOCKS	(256 << 10)

#define ADDRESS(p)	((uint64_t)(uintptr_t)(p))

struct options {
	uint64_t seed;
	unsigned int seconds;
	unsigned int workers;
	unsigned int patience;	/* how many times as long as elsewhere things may take */
	bool no_fork;
};

struct life {
	const struct options *options;
	uint64_t seed;
	int fd;
	bool nonblock;
	bool over;		/* a step was the last one */
	bool abandon;		/* it ends without waiting for its commands */
	bool child;		/* of another life, whose rings it must not use */
	unsigned char *area;	/* parts of it may be unmapped: only the kernel looks at it */
	struct ring rings[RINGS];
	struct own own;
};

/* Does not return. */
void live(const struct options *options, unsigned int worker, unsigned long number,
	  uint64_t seed) __attribute__((noreturn));

/* Up to @steps steps, the first of which is number @first. */
void life_steps(struct life *life, unsigned int first, unsigned int steps);

/* Gives up root's rights. */
void become_nobody(void);

/* A random node's descriptor, or -1. */
int open_node(struct rnd *r, int flags);

static inline double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

/* The steps, each by its random choices. A file's subject is in its name. */
void step_info(struct life *life, struct rnd *r);		/* file.c */
void step_setup(struct life *life, struct rnd *r);
void step_map(struct life *life, struct rnd *r);
void step_lend(struct life *life, struct rnd *r);
void step_take_back(struct life *life, struct rnd *r);
void step_unmap(struct life *life, struct rnd *r);
void step_excl(struct life *life, struct rnd *r);
void step_prepare(struct life *life, struct rnd *r);		/* slot.c */
void step_run(struct life *life, struct rnd *r);		/* run.c */
void step_batch(struct life *life, struct rnd *r);
void step_run_ioctl(struct life *life, struct rnd *r);
void step_cancel(struct life *life, struct rnd *r);
void step_adhoc(struct life *life, struct rnd *r);		/* adhoc.c */
void step_sg_io3(struct life *life, struct rnd *r);		/* sgio.c */
void step_sg_io4(struct life *life, struct rnd *r);
void step_write(struct life *life, struct rnd *r);
void step_read(struct life *life, struct rnd *r);
void step_poll(struct life *life, struct rnd *r);
void step_query(struct life *life, struct rnd *r);
void step_reap(struct life *life, struct rnd *r);		/* ring.c */
void step_ring(struct life *life, struct rnd *r);
void step_own(struct life *life, struct rnd *r);		/* own.c */
void step_pass(struct life *life, struct rnd *r);		/* fate.c */
void step_race(struct life *life, struct rnd *r);
void step_fork(struct life *life, struct rnd *r);
void step_fate(struct life *life, struct rnd *r);

/* An LBA for a command of up to MOST_BLOCKS: everybody's, or beyond every disk. */
uint64_t shared_lba(struct rnd *r);				/* slot.c */

/*
 * Makes an empty slot a READ, of @kind below MEDIA_KINDS, or a WRITE, of one above. Its buffer and
 * offset are the caller's.
 */
void media_command(struct smq_sg_slot *slot, unsigned int kind, uint32_t lba, unsigned int blocks);

/* Counts a call whose structure names the field at fault, and looks at the name. */
void tally_field(enum op op, int result, uint32_t field);		/* file.c */

/* A timer that ends sleeps in system calls with EINTR, until it is stopped. */
void interrupt_soon(unsigned int usec);				/* life.c */
void interrupt_no_more(void);

#endif /* FUZZ_LIFE_H */
