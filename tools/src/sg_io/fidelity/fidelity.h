/* SPDX-License-Identifier: GPL-2.0 */
/* How faithful a replay was: a recording of it, compared with the original recording. */
#ifndef SG_IO_FIDELITY_H
#define SG_IO_FIDELITY_H

#include <json-c/json.h>

#include "cmdfile/cmdfile.h"
#include "workers/plan.h"

#define CURVE			200	/* points of a curve over time */
#define FIDELITY_LATE_US	50

/* A command that is in both recordings. Times are from the start of the original, in ns. */
struct pair {
	__u64 due;	/* when it was issued in the original, divided by the speed */
	__s64 late;	/* how much later the replay issued it, at least 0 */
	__u64 took;	/* in the original; 0: not known */
	__u64 retook;	/* in the replay; 0: not known */
	__u8 dev;
	bool other_cpu;	/* both CPUs are known, and differ */
	bool same_cpu;
};

/* Percentiles, in ns. */
struct spread {
	size_t nr;
	__u64 p50, p99, p999, max;
};

struct load {
	double mean;	/* commands in flight, over time */
	double groups;	/* the same without idle times, as level.h says: mean of the groups */
	unsigned int max;
	double curve[CURVE];
};

enum verdict {
	VERDICT_NONE,		/* the machine was too slow, or there is nothing to compare */
	VERDICT_FAITHFUL,
	VERDICT_LATE,
	VERDICT_REORDERED,
	VERDICT_LOAD,		/* of a replay with --mode load */
	VERDICT_VIOLATED,	/* of a replay with --mode depend */
	VERDICT_INCOMPLETE,
};

struct fidelity {
	struct pair *pairs;		/* by time in the original */
	size_t nr;
	size_t missing;			/* commands that only the original has */
	size_t extra;			/* commands that only the replay has */
	struct spread late;
	double ks;			/* Kolmogorov-Smirnov, of the times between commands */
	__u64 inversions;		/* pairs of commands issued the other way round */
	__u64 dev_inversions[FILE_DEVICES];	/* among a device's commands */
	unsigned int nr_devs;
	size_t same_cpu;
	size_t other_cpu;
	struct spread took;
	struct spread retook;
	bool loads;			/* the ends of all commands are known: @load and @reload */
	struct load load;
	struct load reload;
	size_t violated;		/* commands issued before one that they depend on ended */
	double load_error;		/* mean distance of the curves, as a share of the mean */
	__u64 span;			/* ns from the first command to the last end */
	__u64 late_curve[CURVE];	/* the latest command of each piece of time */
	__u64 timer_p99;		/* of the replay's machine, in ns; 0: not known */
	enum verdict verdict;
	char why[256];
};

/* How the replay was made, and what it is judged by. */
struct fidelity_how {
	struct plan_options plan;
	__u64 late_us;		/* the p99 up to which a replay is not called late */
};

/**
 * fidelity_compare() - compare a recording of a replay with the original
 * @how: of the replay
 * @original: the original, whose devices are those of the replay
 * @names: of its devices
 * @nr: how many devices
 * @path: the recording of the replay
 * @svg: the picture to draw; NULL: none
 * @json: receives the result as an object; NULL: it is printed as text
 *
 * Return: an exit status: EXIT_NOT_GOOD if the replay was not faithful or there is no verdict.
 */
int fidelity_compare(const struct fidelity_how *how, const struct cmdfile *original,
		     const char * const *names, unsigned int nr, const char *path,
		     const char *svg, struct json_object **json);

/**
 * fidelity_match() - find the commands that are in both files
 * @original: the original
 * @replayed: the recording of the replay
 * @speed: of the replay
 * @devs: for each device of @original its index in @replayed, or -1
 * @f: receives the pairs, and how many commands have no partner
 *
 * The nth of several equal commands of a device is paired with the nth. If the replay has more of
 * them, the first ones are left over.
 *
 * Return: false if there is no memory.
 */
bool fidelity_match(const struct cmdfile *original, const struct cmdfile *replayed, double speed,
		    const int *devs, struct fidelity *f);

/* Computes all figures of the pairs. Return: false if there is no memory. */
bool fidelity_measure(struct fidelity *f, const struct fidelity_how *how);

/* Sets verdict and reason. */
void fidelity_judge(struct fidelity *f, const struct fidelity_how *how);

/* Writes a picture of commands in flight and of lateness over time. Return: false on an error. */
bool fidelity_draw(const struct fidelity *f, const char *path);

#endif
