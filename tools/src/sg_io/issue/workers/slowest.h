/* SPDX-License-Identifier: GPL-2.0 */
/* The slowest commands of a run. */
#ifndef SG_IO_SLOWEST_H
#define SG_IO_SLOWEST_H

#include <linux/types.h>
#include <stdbool.h>

#define SLOWEST_MAX	1000

struct command;

struct slow {
	__u64 ns;			/* how long the command took */
	__u64 issued_ns;		/* when it was issued: clock_ns() */
	const struct command *cmd;
	unsigned int device;		/* index of the target in the run */
	bool bad;			/* it is among the outcomes that are not good */
};

/**
 * struct slowest - the slowest commands that were added
 * @entries: memory of the caller for @room entries; the slowest is the first
 * @nr: how many there are
 * @room: the most
 */
struct slowest {
	struct slow *entries;
	unsigned int nr;
	unsigned int room;
};

/* For slowest_add(): makes room for a command that is slower than the least slow one. */
void slowest_insert(struct slowest *s, const struct slow *new);

/* Adds a command, if it is one of the slowest so far. */
static inline void slowest_add(struct slowest *s, const struct slow *new)
{
	if (s->nr < s->room || (s->room && new->ns > s->entries[s->nr - 1].ns))
		slowest_insert(s, new);
}

void slowest_merge(struct slowest *into, const struct slowest *from);

#endif
