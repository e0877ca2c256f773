/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The plan of a replay: when each command is due, which earlier ones it waits for, and how many may
 * be in flight when it is issued. It does not depend on the path.
 *
 * In every mode a command waits until the earlier ones that it conflicts with have ended, whichever
 * CPU issues them: they use the same blocks, and at least one of the two writes. Otherwise the disk
 * could end with other data than FILE says.
 */
#ifndef SG_IO_PLAN_H
#define SG_IO_PLAN_H

#include <stdatomic.h>

#include "issue/cmdfile/cmdfile.h"

enum plan_mode {
	PLAN_TIME,	/* at its time */
	PLAN_MAX,	/* at once */
	PLAN_LOAD,	/* in order, with as many in flight in the mean as in the recording */
	PLAN_DEPEND,	/* after those that had ended before it was issued in the recording */
};

/* "time", "max", "load" or "depend". */
extern const char * const plan_modes[];
bool plan_find_mode(const char *name, enum plan_mode *mode);

struct plan_options {
	enum plan_mode mode;
	double speed;		/* of PLAN_TIME */
	__u64 window_ns;	/* of PLAN_DEPEND: commands that ended earlier do not count */
	bool counts;		/* what is in flight is counted, as with PLAN_LOAD */
	bool streamed;		/* for a struct stream: without plan_hold() and what follows it */
};

#define PLAN_DEFAULTS	{ .mode = PLAN_TIME, .speed = 1, .window_ns = 100000000 }

/* What all processes of a replay share. Times are in us from the start of the pass. */
struct plan_state {
	/*
	 * If plan_options.counts: the commands in flight times 2^48, and the sum of the times when
	 * commands have ended less the sum of those when commands were issued.
	 */
	atomic_llong flight;
	atomic_size_t turn;	/* of PLAN_LOAD: the next command */
	/* Of PLAN_LOAD, used by the process whose turn it is: */
	unsigned int limit;	/* fewer may be in flight when the next command is issued */
	__u64 issued_us;	/* when the last one was issued */
	double area;		/* commands in flight times us, until then */
	double debt;		/* so much more it should be */

	atomic_ullong ended_us;	/* when a command ended, the last one */
	atomic_uint pass;	/* how often the file has been issued completely */
	atomic_uint arrived;	/* processes that have finished this pass */
	__u64 start_ns;		/* of this pass: clock_ns() at time 0 of FILE */
};

/* Commands are in the order of their times; with PLAN_MAX, and of equal times, of their lines. */
struct plan {
	const struct cmdfile *file;
	struct plan_options opt;
	__u64 first_us;			/* the smallest at= in the file */
	__u32 *after;			/* all that a command waits for comes before this one */
	float *means;			/* of PLAN_LOAD: in flight in the recording; see level.h */
	unsigned int most;		/* of PLAN_LOAD: in flight in the recording */
	/*
	 * The command has ended. Each is written once in a pass, by the process that issued the
	 * command: the release in plan_ended() pairs with the acquire in has_ended(). So what comes
	 * after a command that was held also comes after the end of those that it waited for.
	 */
	atomic_uchar *ended;
	struct plan_state *state;
};

/* What a process knows about the commands that have ended. Zeroed at first. */
struct plan_view {
	__u32 ended;	/* the first so many commands have ended */
	__u32 checked;	/* of the first so many, only the last can hold the next command */
};

/**
 * plan_new() - make the plan of a file
 * @file: the commands, in their order; with PLAN_LOAD and PLAN_DEPEND each has took=
 * @opt: the mode
 *
 * Processes that are forked later share what ends.
 *
 * Return: for plan_free(); NULL if there is no memory.
 */
struct plan *plan_new(const struct cmdfile *file, const struct plan_options *opt);
void plan_free(struct plan *p);

/* When a command is due, in ns from the start; 0 in all modes but PLAN_TIME. */
__u64 plan_due(const struct plan *p, size_t cmd);

/* When a command ended in the recording. */
__u64 plan_end(const struct plan *p, size_t cmd);

enum use {
	USE_NONE,
	USE_READ,
	USE_FLUSH,	/* waits for writes; nothing waits for it */
	USE_WRITE,
};

/* The blocks that a command uses, from the first to the last. */
struct blocks {
	__u64 first;
	__u64 last;
	enum use use;
};

struct blocks plan_blocks(const struct plan *p, const struct command *cmd);
/* Whether a command has to wait for an earlier one of the same device. */
bool plan_conflict(const struct blocks *earlier, const struct blocks *later);

/**
 * plan_hold() - whether a command has to wait for the end of others
 * @p: the plan
 * @view: of the calling process
 * @cmd: index in the file; after true it is called with the same @cmd until it returns false
 *
 * May return true for a command that need not wait if one of those more than 4096 before it has not
 * ended. The first command that has not ended is never held.
 */
bool plan_hold(const struct plan *p, struct plan_view *view, size_t cmd);

/* Of PLAN_LOAD: how many commands should be in flight as long as @cmd is the last issued one. */
double plan_load(const struct plan *p, size_t cmd);

/* Whether it is a command's turn, and the load allows it. */
bool plan_admits(const struct plan *p, size_t cmd);

/*
 * The command is to be issued, @ns from the start of the pass. Return: how many are in flight then,
 * if they are counted.
 */
unsigned int plan_issued(struct plan *p, size_t cmd, __u64 ns);
/* The command has ended, with whatever result, @ns from the start of the pass. */
void plan_ended(struct plan *p, size_t cmd, __u64 ns);
/* All commands are to be issued once more, from @start_ns on. No process may issue any now. */
void plan_again(struct plan *p, __u64 start_ns);

#endif
