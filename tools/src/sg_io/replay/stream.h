/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the commands of a plan wait for, told before they are issued: for a sender that gives them
 * to the kernel in advance. A lane issues its commands in their order, each when those that it
 * waits for have ended.
 *
 * A command is not told to wait for another one if that follows from what its lane has waited for
 * before, or from what another command that it waits for has waited for.
 */
#ifndef SG_IO_STREAM_H
#define SG_IO_STREAM_H

#include "flight.h"
#include "plan.h"

/* How many commands back the earliest can be that has not ended; a power of two. */
#define STREAM_WINDOW	16384

struct stream {
	const struct plan *plan;
	unsigned int nr_lanes;
	__u32 next;		/* the next command */
	__u32 first;		/* all before this one have ended */
	struct blocks *blocks;	/* of the last STREAM_WINDOW commands */
	bool *known;		/* of these, by lane: it has waited for the command */
	struct flight flight;
	__u32 latest;		/* of those that have ended in the recording; index + 1, 0: none */
	struct flight_end *recent;	/* ended in the recording since @latest was issued */
	unsigned int nr_recent;
	size_t room;
	/* Of the command that stream_next() has returned: */
	__u32 *waits;		/* the commands that it waits for */
	unsigned int nr_waits;
};

/* @plan: made with plan_options.streamed. Return: for stream_free(); NULL without memory. */
struct stream *stream_new(const struct plan *plan, unsigned int nr_lanes);
void stream_free(struct stream *s);

static inline bool stream_has_next(const struct stream *s)
{
	return s->next < s->plan->file->nr;
}

/**
 * stream_next() - go on to the next command
 * @s: has a next command, at most STREAM_WINDOW after @s->first
 * @lane: which lane issues it
 *
 * Sets what @s knows about it, which is valid until the next call, and moves @s->next beyond it.
 *
 * Return: false if there is no memory.
 */
bool stream_next(struct stream *s, unsigned int lane);

/* The commands before @first have ended: nothing waits for them any more. */
void stream_forget(struct stream *s, __u32 first);
/* All commands are to be issued once more. */
void stream_again(struct stream *s);

#endif
