/* SPDX-License-Identifier: GPL-2.0 */
/* An engine: the operations of a path to the device (sg, bsg, smq, block). Workers call them. */
#ifndef SG_IO_ENGINE_H
#define SG_IO_ENGINE_H

#include <stdbool.h>
#include <stddef.h>

#include "issue/cmdfile/cmdfile.h"
#include "issue/device/device.h"
#include "worker.h"

/**
 * struct engine - a path to the device
 * @name: as in --via and in the results
 * @node: the kind of node that the path opens
 * @flags: for open(2) of the nodes, whose files are worker.files; OPENS_ITSELF: open() opens them
 * @per_file: a file takes so many commands at a time, so that a target may need several; 0: one
 *	file takes all
 * @sync: queue() returns when the command has ended; a depth of N takes N threads
 * @polls: the path can poll for completions
 * @batch_each: the path collects a batch of run.batch commands for each target separately
 * @check: tells whether this path can issue a command. Called for each command before the run;
 *	writes the reason to @why if it cannot. NULL: it can if max_hw_sectors_kb allows it
 * @open: allocates the worker's memory; prints one message if it fails. NULL: needs none
 * @queue: takes a command, and may call worker_done() for it. Never fails: an error becomes the
 *	command's outcome. NULL: run.work does all, without requests
 * @submit: sends the queued commands (NULL: queue() has sent them)
 * @reap: sends the queued commands, then calls worker_done() for commands that have ended;
 *	waits until there are @min of them or @wait_ns have passed
 * @close: frees the memory of open(), if worker.priv is set
 */
struct engine {
	const char *name;
	enum node_kind node;
	int flags;
	unsigned int per_file;
	bool sync;
	bool polls;
	bool batch_each;
	bool (*check)(const struct target *target, const struct command *cmd,
		      char *why, size_t size);
	int (*open)(struct worker *w);
	void (*queue)(struct worker *w, struct request *rq);
	void (*submit)(struct worker *w);
	void (*reap)(struct worker *w, unsigned int min, __u64 wait_ns);
	void (*close)(struct worker *w);
};

#define OPENS_ITSELF	(-1)

#define MAX_RING	32768	/* the most entries that io_uring accepts */

/*
 * The number of entries of a worker's ring. If the worker has more requests, some commands wait
 * until others have been submitted.
 */
static inline unsigned int engine_ring_entries(const struct worker *w)
{
	return w->nr_requests < MAX_RING ? w->nr_requests : MAX_RING;
}

#endif
