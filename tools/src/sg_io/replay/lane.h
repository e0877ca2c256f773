/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A lane: the commands that a replay issues on one CPU, in the order and at the times of the file.
 */
#ifndef SG_IO_LANE_H
#define SG_IO_LANE_H

#include "issue/workers/worker.h"
#include "plan.h"

struct lane {
	int cpu;		/* CPU_ANY: the lane of the commands without cpu= */
	__u32 *cmds;		/* indices of its commands in the file, in the file's order */
	size_t nr;
	size_t next;		/* index in @cmds of the next command to issue */
	struct request *rq;	/* has the next command and its data; NULL: not yet */
	unsigned int pass;	/* how often it has begun again */
	__u64 begin_ns;		/* of this pass: time 0 of the file */
	__u64 awake_ns;		/* no sleep before a command that is due within this time */
	struct hist late;	/* ns from when a command was due until it was issued */
	__u64 room_ns;		/* when a command last ended while all requests were in use */
	__u64 waited;		/* commands that were due before @room_ns */
	__u64 overtaken;	/* commands issued after a later one of the file */
	struct plan *plan;	/* of all lanes */
	struct plan_view view;
	__u64 held_ns;		/* since when the next command waits for earlier ones; 0: no */
	bool holds;		/* it waits for the end of one, so @held includes it */
	__u64 held;		/* commands that waited for the end of earlier ones */
};

/* The work function of a lane's worker: issues all of its commands, until run->stop. */
void lane_work(struct worker *w);
/* The run.assign of lanes. */
void lane_assign(struct worker *w, unsigned int nth);

/**
 * lanes_new() - distribute a file's commands to lanes, by CPU
 * @plan: of the file
 * @nr: how many lanes
 *
 * Return: the lanes, for lanes_free(); NULL after one message: no memory.
 */
struct lane *lanes_new(struct plan *plan, unsigned int *nr);
void lanes_free(struct lane *lanes, unsigned int nr);

#endif
