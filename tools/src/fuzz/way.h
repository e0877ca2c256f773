/* SPDX-License-Identifier: GPL-2.0 */
/* The ways in which one command can be sent, each of which waits for its end. */
#ifndef FUZZ_WAY_H
#define FUZZ_WAY_H

#include <scsi/smq_sg.h>

#include "random.h"
#include "tally.h"

struct life;
struct ring;

struct transfer {
	enum op op;
	struct smq_sg_slot slot;	/* its LBA may be another one with SMQ_SG_RUN_LBA */
	struct smq_sg_run run;
	void *data;
};

/* How the last transfer was sent, and what came back, for people. */
extern struct sending {
	const char *way;
	const struct ring *ring;	/* NULL: by no ring */
	double began, ended;		/* as seconds_now() has it */
} last_sending;

/*
 * Sends @transfer by file @fd: with run.flags by a way that has them, else by any. Counts it.
 * Return: 0 good, above 0 the device reported a status, below 0 an errno; it may be under way
 * still if that is not 0.
 */
int send_by_some_way(struct life *life, int fd, const struct transfer *transfer, struct rnd *r);

#endif /* FUZZ_WAY_H */
