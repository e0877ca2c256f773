/* SPDX-License-Identifier: GPL-2.0 */
/* The commands that a replay issues on one CPU, in the order and at the times of the file. */
#ifndef SG_IO_LANE_H
#define SG_IO_LANE_H

#include "worker.h"

struct lane {
	int cpu;		/* CPU_ANY: those without cpu= */
	__u32 *cmds;		/* indices into the file, in its order */
	size_t nr;
	size_t next;		/* to issue; all before it have been */
	__u64 first_us;		/* at= of the file's first moment */
	double speed;		/* 0: nothing is waited for */
	__u64 awake_ns;		/* a command that is due within this is not slept for */
	struct hist late;	/* ns from when a command was due until it was issued */
	__u64 room_ns;		/* when there last was room again after --depth in flight */
	__u64 waited;		/* commands that were due before that */
	__u64 overtaken;	/* issued after one that comes behind them in the file */
};

/* What the worker of a lane does: all of its commands, until run->stop. */
void lane_work(struct worker *w);

/**
 * lanes_new() - share a file's commands out by CPU
 * @file: the commands
 * @speed: of the replay, 0 for no waiting
 * @nr: how many lanes
 *
 * Return: the lanes, for lanes_free(); NULL after one message: no memory, or times that go back.
 */
struct lane *lanes_new(const struct cmdfile *file, double speed, unsigned int *nr);
void lanes_free(struct lane *lanes, unsigned int nr);

#endif
