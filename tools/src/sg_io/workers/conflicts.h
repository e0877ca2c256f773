/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which commands of a replay conflict: they use the same blocks, and at least one of them writes.
 * A command must not be issued before the earlier commands that it conflicts with have ended,
 * whichever CPU issues them: otherwise the disk could end with other data than FILE says.
 *
 * Earlier means by at=, and by line where times are equal or do not matter (--speed max).
 */
#ifndef SG_IO_CONFLICTS_H
#define SG_IO_CONFLICTS_H

#include "cmdfile/cmdfile.h"

struct conflicts;

/* What a process knows about the commands that have ended. Zeroed at first. */
struct conflict_view {
	__u32 ended;	/* the first so many commands have ended */
	__u32 checked;	/* of the first so many, only the last can hold the next command */
};

/**
 * conflicts_new() - find the conflicts of all commands
 * @file: the commands
 * @speed: of the replay. At speed 1 SYNCHRONIZE CACHE comes at its time; at other speeds it waits
 *	for earlier writes of its blocks. With 0 the order is that of the lines
 *
 * Takes O(n log n) time. Processes that are forked later share what ends.
 *
 * Return: for conflicts_free(); NULL if there is no memory.
 */
struct conflicts *conflicts_new(const struct cmdfile *file, double speed);
void conflicts_free(struct conflicts *c);

/**
 * conflicts_hold() - whether a command has to wait
 * @c: the conflicts
 * @view: of the calling process
 * @cmd: index in the file; after true it is called with the same @cmd until it returns false
 *
 * May return true for a command without unfinished conflicts if one of the commands more than
 * 4096 before its last conflict has not ended. The first command that has not ended is never held.
 */
bool conflicts_hold(const struct conflicts *c, struct conflict_view *view, size_t cmd);

/* The command with index @cmd in the file has ended, with whatever result. */
void conflicts_ended(struct conflicts *c, size_t cmd);

#endif
