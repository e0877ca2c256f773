/* SPDX-License-Identifier: GPL-2.0 */
/* io_uring rings of all kinds, and the books: each SQE that was submitted has exactly one CQE. */
#ifndef FUZZ_RING_H
#define FUZZ_RING_H

#include <stdbool.h>

#include "life.h"
#include "random.h"
#include "tally.h"

/* A command for ring_push(). */
struct ring_command {
	enum op op;
	unsigned int cmd_op;
	const void *arg;
	unsigned int size;
	bool fixed;		/* its data is in the registered buffer */
};

void ring_open(struct life *life, struct ring *ring, struct rnd *r);

/* Closes the ring, whether requests are in flight or not. */
void ring_close(struct ring *ring);

/* Puts an SQE for @fd into the ring. Return: its user_data, or -1 if there is no place. */
int ring_push(struct life *life, struct ring *ring, int fd, const struct ring_command *command,
	      struct rnd *r);
void ring_submit(struct ring *ring);

/* Takes the CQEs that are there. */
void ring_reap(struct ring *ring);

/* Waits for the CQE of user_data @index. Return: its result, or -ETIMEDOUT after a fault. */
int ring_wait(struct life *life, struct ring *ring, int index);

/* Waits until each submitted SQE has its CQE; reports a fault if one does not come. */
void ring_drain(struct life *life, struct ring *ring);

#endif /* FUZZ_RING_H */
