/* SPDX-License-Identifier: GPL-2.0 */
/* A run from its options to its result. */
#ifndef SG_IO_RUN_H
#define SG_IO_RUN_H

#include <argp.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>

#include "engine.h"

#define MAX_DEVICES	64
#define MAX_VIAS	6

struct run_options {
	bool replay;
	const char *via;	/* NULL: by the node */
	const char *vias[MAX_VIAS];	/* all that were given; @via is the first of them */
	unsigned int nr_vias;
	__u64 depth;
	__u64 batch;
	__u64 count;		/* commands of each device; 0: the file once */
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
	__u64 rounds;
};

/* All measurements of a run. */
struct result {
	const char *path;
	const struct run_options *opt;
	double seconds;
	bool held;		/* the path keeps requests: */
	__u32 max_held;		/* of one job, the least of all devices */
	struct hist latency;
	struct tally tally;
	bool tally_short;
};

/**
 * run_execute() - issue the commands of a run that is prepared
 * @run: by run_prepare()
 * @opt: its options
 * @report: prints the result; returns a status, which becomes that of the run if it is not 0
 *
 * Return: the exit status, messages have been printed.
 */
int run_execute(struct run *run, const struct run_options *opt,
		int (*report)(const struct run *run, const struct result *r));

/* A path by its name, of @len characters; NULL if there is none. */
const char *run_find_path(const char *name, size_t len);

/* The options of the command line; these exit on a usage error. */
void run_parse_options(int argc, char **argv, struct run_options *opt);
void compare_parse_options(int argc, char **argv, struct run_options *opt);

/*
 * run_prepare() - devices, engine, checks, disks taken for writing; one message when it fails
 * Return: 0, or the exit status.
 */
int run_prepare(struct run *run, const struct run_options *opt,
		const struct cmdfile *file, struct device *devs, int *taken_fds);

/**
 * monitor() - watch the workers until they have finished
 * @run: started
 * @workers: all of them
 * @nr: how many
 * @gave_up: set if commands were still in flight and waiting for them was given up
 *
 * Shows progress on a terminal. A signal (signals are blocked) stops the run; a second one also
 * stops waiting for commands in flight.
 *
 * Return: the signal that ended the run, or 0.
 */
int monitor(struct run *run, struct worker *workers, unsigned int nr, bool *gave_up);

void report_text(const struct result *r);
/*
 * The result as a JSON object, to which members can be added; report_json() prints only this
 * object.
 */
struct json_object *report_object(const struct result *r);
void report_print(struct json_object *o);
/* p50, p99 and p999. */
struct json_object *report_percentiles(const struct hist *h);
void report_real(struct json_object *o, const char *key, double v);
void report_json(const struct result *r);

#endif
