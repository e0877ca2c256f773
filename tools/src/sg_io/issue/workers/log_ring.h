/* SPDX-License-Identifier: GPL-2.0 */
/* How each command of a worker ended, on its way to the log: the worker adds, the monitor takes. */
#ifndef SG_IO_LOG_RING_H
#define SG_IO_LOG_RING_H

#include <stdatomic.h>

#include "outcome.h"

struct log_entry {
	__u64 issued_ns;		/* clock_ns() */
	__u64 ns;			/* how long the command took */
	const struct command *cmd;
	struct outcome_class what;
	__s32 resid;
	bool good;
};

struct log_ring {
	unsigned int room;		/* a power of two; 0: there is no log */
	int wake_fd;			/* eventfd of the monitor */
	struct log_entry *entries;
	atomic_uint added;
	atomic_uint taken;
};

/* The room that each of @nr rings has. */
unsigned int log_ring_room(unsigned int nr);

/* Adds an entry. If the monitor is behind, waits for it: no entry is lost. */
void log_ring_add(struct log_ring *r, const struct log_entry *entry);
/* Takes the oldest entry; returns false if there is none. */
bool log_ring_take(struct log_ring *r, struct log_entry *entry);

#endif
