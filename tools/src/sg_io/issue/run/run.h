/* SPDX-License-Identifier: GPL-2.0 */
/* A run from its options to its result. */
#ifndef SG_IO_RUN_H
#define SG_IO_RUN_H

#include <argp.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>

#include "issue/workers/engine.h"
#include "options.h"

#define MAX_DEVICES	64

struct run_options {
	bool replay;
	const struct engine *smq;	/* the engine of the path smq; NULL: engine_smq */
	const char *via;	/* the path; NULL: the one for the given kind of node */
	__u64 depth;
	__u64 batch;
	__u64 count;		/* commands of each device; 0: the file once */
	__u64 jobs;
	__u64 memory;		/* bytes */
	double time;		/* seconds; 0: no end by time */
	__u64 slowest;		/* how many of the slowest commands to list */
	double rate;		/* commands per second; 0: no limit */
	double warm_up;		/* seconds before the first command that counts */
	double interval;	/* seconds between lines; 0: no lines */
	const char *log;	/* the file of the log; NULL: none */
	bool poll;
	bool force;
	bool unchecked;
	bool fold_cpus;		/* cpu= may name CPUs that this process may not run on */
	bool json;
	const char *devs[MAX_DEVICES];
	unsigned int nr_devs;
	const char *file;
};

/* The measurements of one device. */
struct device_result {
	double seconds;		/* until its last command ended */
	struct hist latency;
	__u64 bad;
};

/* All measurements of a run. */
struct result {
	const char *path;
	const struct run_options *opt;
	double seconds;
	struct device_result *devices;	/* opt->nr_devs of them */
	int signal;		/* the signal that ended the run early, or 0 */
	struct hist latency;
	struct slowest slowest;
	__u64 start_ns;		/* when the first command could be issued: clock_ns() */
	struct tally tally;
	__u64 uncounted;	/* commands that ended in the warm-up */
};

/**
 * run_execute() - issue the commands of a run that is prepared
 * @run: prepared by run_prepare()
 * @opt: its options
 * @report: prints the result; returns 0, or a status that becomes the status of the run
 *
 * Return: the exit status. Messages have been printed.
 */
int run_execute(struct run *run, const struct run_options *opt,
		int (*report)(const struct run *run, const struct result *r));

/* A path by its name, of @len characters; NULL if there is none. */
const char *run_find_path(const char *name, size_t len);

/* --force, --fold-cpus and --memory, of a struct run_options. */
extern const struct known_option run_file_options[];
/* --warm-up, --interval, --log, --slowest and --json. */
extern const struct known_option run_output_options[];

/* Parses the options of the command line; exits on a usage error. */
void run_parse_options(int argc, char **argv, struct run_options *opt);

/*
 * Tells cdb_find() the type of the devices, before FILE is read. A device that cannot be found is
 * left to run_prepare(), which prints the message.
 */
void run_set_type(const struct run_options *opt);

/*
 * Finds the devices, chooses the engine, checks the commands, and takes the disks that are written
 * to; @taken_fds receives their files, see take_disk().
 * Return: 0, or the exit status after one message.
 */
int run_prepare(struct run *run, const struct run_options *opt,
		const struct cmdfile *file, struct device *devs, int *taken_fds);

struct intervals;

struct monitor_output {
	const struct run_options *opt;
	FILE *log;			/* NULL: no --log */
	struct intervals *intervals;	/* NULL: no --interval */
};

/**
 * monitor() - watch the workers until they have finished
 * @run: the run, started
 * @out: what is printed and written while it lasts
 * @workers: all workers of the run
 * @nr: number of @workers
 * @gave_up: receives true if commands were still in flight when the monitor stopped waiting
 *
 * Shows progress on a terminal, prints the lines of --interval, and writes the log. Signals are
 * blocked; the monitor reads them. A signal stops the run; after a second one the monitor does not
 * wait for commands in flight.
 *
 * Return: the signal that ended the run, or 0.
 */
int monitor(struct run *run, const struct monitor_output *out, struct worker *workers,
	    unsigned int nr, bool *gave_up);

/* The lines of --interval. Return: for intervals_free(); NULL without memory. */
struct intervals *intervals_new(const struct run *run, const struct run_options *opt,
				const struct worker *workers, unsigned int nr);
void intervals_free(struct intervals *it);
/* Prints a line if one is due at @now. Return: ns until the next one is. */
__u64 intervals_tick(struct intervals *it, __u64 now);
/* Prints a line for the commands after the last line, if there are any. */
void intervals_end(struct intervals *it);

/* Opens the log and writes its head; NULL after one message. */
FILE *log_open(const char *name);
/* Writes what the @nr workers have added to their logs. Return: whether there may be more. */
bool log_write(FILE *log, const struct run *run, const struct run_options *opt,
	       struct worker *workers, unsigned int nr);
/* Return: 0, or EXIT_DEVICE after one message: not all could be written. */
int log_close(FILE *log, const char *name);

/* The name of a command, or its opcode if it is not known. */
void report_name(const struct command *cmd, char *buf, size_t size);
void report_text(const struct result *r);
/* The result as the JSON object that report_json() prints; the caller may add members. */
struct json_object *report_object(const struct result *r);
void report_print(struct json_object *o);
/* p50, p99 and p999. */
struct json_object *report_percentiles(const struct hist *h);
void report_real(struct json_object *o, const char *key, double v);
void report_number(struct json_object *o, const char *key, __u64 n);
/* @text: NULL becomes null. */
void report_string(struct json_object *o, const char *key, const char *text);
/* "p50 1.0 us, p99 2.0 us, longest 3.0 us", if @all with p99.9, too. */
void report_latency(FILE *out, const struct hist *h, bool all);
void report_json(const struct result *r);

#endif
