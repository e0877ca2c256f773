/* SPDX-License-Identifier: GPL-2.0 */
/* io_uring rings of all kinds. Checks that each submitted SQE gets exactly one CQE. */
#ifndef FUZZ_RING_H
#define FUZZ_RING_H

#include <stdbool.h>

#include "task.h"
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

void ring_open(struct task *task, struct ring *ring, struct rnd *r);

/* Closes the ring, even with requests in flight. */
void ring_close(struct ring *ring);

/* Puts an SQE for @fd into the ring. Return: its user_data, or -1 if there is no room. */
int ring_push(struct task *task, struct ring *ring, int fd, const struct ring_command *command,
	      struct rnd *r);
void ring_submit(struct ring *ring);

/* Reaps the CQEs that are available. Does not wait. */
void ring_reap(struct ring *ring);

/*
 * Waits for the CQE of user_data @index. Return: its result, or -ETIMEDOUT after a report if the
 * CQE does not come.
 */
int ring_wait(struct task *task, struct ring *ring, int index);

/* Waits until each submitted SQE has its CQE; reports a failure if one does not come. */
void ring_drain(struct task *task, struct ring *ring);

#endif /* FUZZ_RING_H */
