/* SPDX-License-Identifier: GPL-2.0 */
/*
 * sg_io copy and compare-luns: READs on one device, and WRITEs, VERIFYs or READs of the same blocks
 * on another.
 *
 * Each job has two workers in one thread, one for each device, and places: buffers that are read
 * into and then written from. The commands of all places are prepared once; only their LBAs change.
 */
#ifndef SG_IO_COPY_H
#define SG_IO_COPY_H

#include "issue/run/run.h"

#define COPY_JOBS_MAX	64
#define COPY_DEPTH_MAX	1024

struct copy_options {
	bool compare;
	__u64 chunk;		/* bytes of each command; 0: not given */
	__u64 skip;		/* first block on the first device */
	__u64 seek;		/* first block on the second device */
	__u64 blocks;		/* 0: to the end of both */
	__u64 depth;
	__u64 batch;
	__u64 jobs;
	__u64 memory;		/* bytes */
	__u64 max_errors;
	bool force;
	bool json;
	const char *devs[2];
	unsigned int nr_devs;
};

/* The devices: what is read first, and what is written or compared. */
enum { FIRST, SECOND, SIDES };

/* Commands that a place can send. */
enum copy_step {
	STEP_IDLE,
	STEP_READ,		/* READ on the first device */
	STEP_WRITE,		/* WRITE on the second device; VERIFY if it is compared */
	STEP_READ_BACK,		/* READ on the second device, to find the blocks that differ */
};

/* Blocks that could not be read, written or compared. */
struct copy_failure {
	unsigned int side;
	const char *what;	/* name of the command */
	__u64 lba;
	__u64 blocks;
	struct outcome_class outcome;
};

/* Adjacent blocks that differ; @lba is that on the first device. */
struct copy_difference {
	__u64 lba;
	__u64 blocks;
};

struct copy_side {
	struct device dev;
	struct run run;
	struct cmdfile file;
	struct run_options options;	/* that run_prepare() needs */
	int taken_fd;
	__u64 first;			/* LBA of the first block */
	struct worker *workers;		/* of each job */
};

struct copy_job;

struct copy {
	const struct copy_options *opt;
	struct copy_side sides[SIDES];
	struct copy_job *jobs;
	unsigned int nr_jobs;
	__u32 block_size;
	__u32 chunk;			/* blocks of each command */
	__u64 blocks;			/* all */
	__u64 nr_chunks;
	atomic_bool no_verify;		/* the second device has no VERIFY that compares data */
	const struct cdb_op *ops[STEP_READ_BACK + 1];	/* what each step sends */
	/* Where the commands of each step begin in the file of their side: for chunks, blocks. */
	size_t starts[STEP_READ_BACK + 1][2];
	atomic_ullong next;		/* chunk */
	atomic_uint started;		/* jobs */
	pthread_mutex_t lock;		/* protects the fields below */
	__u64 done;			/* blocks copied, or compared */
	__u64 differ;			/* blocks */
	struct copy_failure *failures;	/* room for max_errors; more are only counted */
	__u64 nr_failures;
	struct copy_difference *differences;
	size_t nr_differences;
	size_t room;
	bool short_list;
};

/* Parses the options of copy or, if @opt->compare is set, of compare-luns; exits on an error. */
void copy_parse_options(int argc, char **argv, struct copy_options *opt);

/* Makes the places of all jobs. Return: false if there is no memory. */
bool copy_jobs_new(struct copy *c);
void copy_jobs_free(struct copy *c);

/* run.work of the second device's workers: does the share of one job. */
void copy_job_work(struct worker *w);

/* Prints the result; @signal ended the copy, or 0. */
void copy_report(struct copy *c, double seconds, int signal);

#endif
