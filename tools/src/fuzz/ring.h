/* SPDX-License-Identifier: GPL-2.0 */
/* io_uring rings of all kinds, and the books: each SQE that was submitted has exactly one CQE. */
#ifndef FUZZ_RING_H
#define FUZZ_RING_H

#include <liburing.h>
#include <stdbool.h>

#include "random.h"
#include "tally.h"

/* SQEs of one ring in its life. */
#define RING_MOST	8192
#define RING_ENTRIES	128

struct life;

struct ring {
	struct io_uring uring;
	unsigned int flags;	/* IORING_SETUP_* */
	bool open;
	bool big;		/* SQE128 and CQE32 */
	bool fixed_file;	/* the life's file is registered as 0 */
	bool fixed_buffer;	/* and its area as 0 */
	unsigned int used;
	unsigned int pending;
	/* By user_data: the op + 1 while it is pending, then RING_ENDED. */
	unsigned char state[RING_MOST];
	int watched;			/* user_data of which result is the result, or -1 */
	int result;
	/* Its CQE, of which only the longer ones have the rest. */
	int res;
	unsigned int cqe_flags;
	uint64_t rest[2];
};

/* A command for ring_push(). */
struct ring_command {
	enum op op;
	unsigned int cmd_op;
	const void *arg;
	unsigned int size;
	bool fixed;		/* its data is in the registered buffer */
};

void ring_open(struct life *life, struct ring *ring, struct rnd *r);

/* With requests in flight or without. */
void ring_close(struct ring *ring);

/* Puts an SQE for @fd into the ring; its user_data, or -1 if there is no place. */
int ring_push(struct life *life, struct ring *ring, int fd, const struct ring_command *command,
	      struct rnd *r);
void ring_submit(struct ring *ring);

/* Takes the CQEs that are there. */
void ring_reap(struct ring *ring);

/* Waits until user_data @index has its CQE; its result, or -ETIMEDOUT after a fault. */
int ring_wait(struct life *life, struct ring *ring, int index);

/* Waits until all that was submitted has its CQE; a fault if that does not come. */
void ring_drain(struct life *life, struct ring *ring);

#endif /* FUZZ_RING_H */
