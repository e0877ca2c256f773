/* SPDX-License-Identifier: GPL-2.0 */
/* What a path to the device (sg, bsg, smq, block) does for a worker. */
#ifndef SG_IO_ENGINE_H
#define SG_IO_ENGINE_H

#include <stdbool.h>
#include <stddef.h>

#include "cmdfile.h"
#include "device.h"
#include "worker.h"

/**
 * struct engine - a path
 * @name: as in --via and in the results
 * @node: the kind of node it opens
 * @sync: queue() returns with the command finished; depth is made by threads
 * @polls: can poll for completions
 * @batch_each: each target has its own batch of run.batch commands
 * @check: may this command go this way? Called for each one before the run,
 *	with a reason in @why when it may not
 * @open: get the worker's files and memory; one message when it fails
 * @queue: take a command. Never fails: what goes wrong is its outcome, told by
 *	worker_done(), which may be called from here
 * @submit: send what is queued (NULL: queue() has sent it)
 * @reap: send what is queued, then call worker_done() for finished commands;
 *	wait until there are @min of them or @wait_ns have passed
 * @close: drop what open() got
 */
struct engine {
	const char *name;
	enum node_kind node;
	bool sync;
	bool polls;
	bool batch_each;
	bool (*check)(const struct target *target, const struct command *cmd,
		      char *why, size_t size);
	int (*open)(struct worker *w);
	void (*queue)(struct worker *w, struct slot *slot);
	void (*submit)(struct worker *w);
	void (*reap)(struct worker *w, unsigned int min, __u64 wait_ns);
	void (*close)(struct worker *w);
};

extern const struct engine engine_sg_ioctl;
extern const struct engine engine_sd_ioctl;
extern const struct engine engine_sg_queue;
extern const struct engine engine_bsg;
extern const struct engine engine_bsg_uring;
extern const struct engine engine_smq_uring;
extern const struct engine engine_smq;
extern const struct engine engine_smq_held;
extern const struct engine engine_block;

#define MAX_RING	32768	/* entries io_uring takes */

/* How many a worker's ring has: with more slots some wait until others were sent. */
static inline unsigned int engine_ring_entries(const struct worker *w)
{
	return w->nr_slots < MAX_RING ? w->nr_slots : MAX_RING;
}

/* Passthrough's own check: does the transfer fit the request queue? */
bool passthrough_check(const struct target *target, const struct command *cmd,
		       char *why, size_t size);

/*
 * Open a node for a worker that may only read, or write as well when the
 * commands do; prints the reason when it fails.
 */
int engine_open_node(const struct worker *w, const struct target *target,
		     enum node_kind kind, int flags);

#endif
