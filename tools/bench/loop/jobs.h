/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Jobs that are measured together: one process each, pinned to a CPU of its
 * own (jobs beyond the CPUs share them, in turns), started and stopped together.
 * Set-up and warm-up stay outside the markers.
 */
#ifndef SMQ_BENCH_JOBS_H
#define SMQ_BENCH_JOBS_H

#include <stdbool.h>
#include <stddef.h>

#define MAX_JOBS	128
#define MAX_COUNTS	8
#define MAX_CHUNKS	1024

/* What every job runs: @warmup, and then each of the counts between markers. */
struct jobs_runs {
	unsigned int seconds;	/* none of them outlives this */
	unsigned int warmup;
	unsigned int chunk;	/* I/Os that are timed together, 0: no chunks */
	unsigned long counts[MAX_COUNTS];
	size_t nr_counts;
};

/*
 * Runs @job(n) in @jobs processes. None of them outlives @seconds. Returns
 * the exit status for main().
 */
int jobs_run(unsigned int jobs, unsigned int seconds,
	     int (*job)(unsigned int n));

/* Every job calls this before its warm-up; returns in all at the same time. */
void jobs_meet(void);

/*
 * How many of @inflight I/Os have to be done before a batch more fits into the
 * depth, or a batch of them if no more will come (@last).
 */
unsigned int jobs_wait_for(unsigned int inflight, unsigned int depth,
			   unsigned int batch, bool last);

/*
 * Every job calls this once it is set up: @run(count) for the warm-up, then for each
 * count between markers that all jobs pass at the same time. The first job says
 * how long that took by @report. Returns 0 or what @run returned, a negative errno.
 */
int jobs_measure(const struct jobs_runs *runs, int (*run)(unsigned long count),
		 void (*report)(unsigned long count, unsigned long ns));

/*
 * Every job calls this after each batch of a run if there is a chunk, @done I/Os of
 * the run having ended: a chunk ends with the first batch that fills it.
 */
void jobs_batch_done(unsigned long done);

/*
 * A job calls this after a run: how long each of its I/Os took, in ticks of jobs_tick(). Sorts
 * them. The first job's are what jobs_print_latencies() prints as JSON, in ns.
 */
void jobs_latencies(unsigned long *ticks, unsigned long count);
void jobs_print_latencies(void);
unsigned long jobs_tick(void);

/* For a report: of every job the chunks of the run, each as [I/Os, ns], as JSON. */
void jobs_print_chunks(void);

#endif /* SMQ_BENCH_JOBS_H */
