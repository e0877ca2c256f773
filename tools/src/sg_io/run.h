/* SPDX-License-Identifier: GPL-2.0 */
/* A run from its options to its result. */
#ifndef SG_IO_RUN_H
#define SG_IO_RUN_H

#include <stdbool.h>
#include <stdio.h>

#include "engine.h"

#define MAX_DEVICES	64
#define MAX_VIAS	5

struct run_options {
	const char *via;	/* NULL: by the node */
	__u64 depth;
	__u64 batch;
	__u64 count;		/* of each device; 0: the file once */
	__u64 jobs;
	__u64 memory;		/* bytes */
	double time;		/* seconds; 0: no end by time */
	double rate;		/* commands a second; 0: as fast as they go */
	bool poll;
	bool force;
	bool unchecked;
	bool json;
	const char *devs[MAX_DEVICES];
	unsigned int nr_devs;
	const char *file;

	/* of compare alone */
	bool compare;
	const char *vias[MAX_VIAS];
	unsigned int nr_vias;
	__u64 rounds;
};

/* Everything of a run that has been measured. */
struct result {
	const char *path;
	const struct run_options *opt;
	double seconds;
	struct hist latency;
	struct tally tally;
	bool tally_short;
};

/* The options of the command line; these exit on a usage error. */
void run_parse_options(int argc, char **argv, struct run_options *opt);
void compare_parse_options(int argc, char **argv, struct run_options *opt);

/*
 * run_prepare() - devices, engine, checks, claims; one message when it fails
 * Return: 0, or the exit status.
 */
int run_prepare(struct run *run, const struct run_options *opt,
		const struct cmdfile *file, struct device *devs, int *claims);

/**
 * monitor() - watch the workers until they have finished
 * @run: started
 * @workers: all of them
 * @nr: how many
 * @stuck: set when commands stayed out so long that waiting has been given up
 *
 * Shows progress on a terminal. SIGINT and SIGTERM stop the run, a second one
 * also the waiting for commands in flight.
 *
 * Return: the signal that ended the run, or 0.
 */
int monitor(struct run *run, struct worker *workers, unsigned int nr, bool *stuck);

/* Block the signals monitor() waits for, in this thread and those to come. */
void monitor_block_signals(void);

void report_text(const struct result *r);
void report_json(const struct result *r);

#endif
