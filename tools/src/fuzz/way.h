/* SPDX-License-Identifier: GPL-2.0 */
/* The ways in which a command can be sent. Each waits until the command has ended. */
#ifndef FUZZ_WAY_H
#define FUZZ_WAY_H

#include <scsi/smq_sg.h>

#include "life.h"
#include "random.h"
#include "tally.h"

struct transfer {
	enum op op;
	struct smq_sg_slot slot;	/* with SMQ_SG_RUN_LBA its LBA is not used */
	struct smq_sg_run run;
	void *data;
};

/* How and when the last transfer was sent, for the report of a fault. */
extern struct sending {
	const char *way;
	const struct ring *ring;	/* NULL: by no ring */
	double began, ended;		/* by seconds_now() */
} last_sending;

/*
 * Sends @transfer by file @fd: in a way that supports run.flags if these are not 0, otherwise in
 * any way. Counts the transfer. Return: 0 good, above 0 the device reported a status, below 0 an
 * errno. If the result is not 0, the command may still be in flight.
 */
int send_by_some_way(struct life *life, int fd, const struct transfer *transfer, struct rnd *r);

#endif /* FUZZ_WAY_H */
