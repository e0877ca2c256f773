/* SPDX-License-Identifier: GPL-2.0 */
/* The interfaces by which a command can be sent. Each function waits for the end of the command. */
#ifndef FUZZ_WAY_H
#define FUZZ_WAY_H

#include <scsi/smq_sg.h>

#include "task.h"
#include "random.h"
#include "tally.h"

struct transfer {
	enum op op;
	struct smq_sg_slot slot;	/* with SMQ_SG_RUN_LBA, the LBA of the run is used */
	struct smq_sg_run run;
	void *data;
};

/* How and when the last transfer was sent, for the report of a failure. */
extern struct sending {
	const char *way;		/* see the functions by_*() */
	const struct ring *ring;	/* NULL: not sent by a ring */
	double began, ended;		/* see seconds_now() */
} last_sending;

/*
 * Sends @transfer through file @fd, by a random interface: if run.flags is not 0, by an interface
 * that runs prepared slots, otherwise by any. Counts the transfer.
 *
 * Return: 0 success, above 0 the device reported a status, below 0 an errno. If the result is not
 * 0, the command may still be in flight.
 */
int send_by_some_way(struct task *task, int fd, const struct transfer *transfer, struct rnd *r);

#endif /* FUZZ_WAY_H */
