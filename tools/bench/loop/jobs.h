/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Jobs that are measured together: one process each, pinned to a CPU of its own (if there are more
 * jobs than CPUs, jobs share CPUs), started and stopped together. Set-up and warm-up stay outside
 * the markers.
 */
#ifndef SMQ_BENCH_JOBS_H
#define SMQ_BENCH_JOBS_H

#include <stdbool.h>
#include <stddef.h>

#define MAX_JOBS	128
#define MAX_COUNTS	8
#define MAX_CHUNKS	1024

/* What every job runs: the warm-up, and then each of the counts between markers. */
struct jobs_runs {
	unsigned int seconds;	/* no job runs longer */
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
 * How many of @inflight I/Os must end before one more batch fits into the depth. If no more batch
 * will come (@last): how many a caller should wait for, which is a batch.
 */
unsigned int jobs_wait_for(unsigned int inflight, unsigned int depth,
			   unsigned int batch, bool last);

/*
 * Every job calls this when it is set up. It runs @run(count) for the warm-up, and then for each
 * count between markers, which all jobs pass at the same time. The first job reports by @report how
 * long that took. Returns 0 or what @run returned, a negative errno.
 */
int jobs_measure(const struct jobs_runs *runs, int (*run)(unsigned long count),
		 void (*report)(unsigned long count, unsigned long ns));

/*
 * If I/Os are timed in chunks, every job calls this after each batch of a run; @done I/Os of the
 * run have ended. A chunk ends with the first batch that fills it.
 */
void jobs_batch_done(unsigned long done);

/*
 * A job calls this after a run. @ticks says how long each of its I/Os took, in ticks of
 * jobs_tick(); the function sorts them. jobs_print_latencies() prints those of the first job as
 * JSON, in ns.
 */
void jobs_latencies(unsigned long *ticks, unsigned long count);
void jobs_print_latencies(void);
unsigned long jobs_tick(void);

/* Prints the chunks of the run for every job, as JSON: each chunk is [I/Os, ns]. */
void jobs_print_chunks(void);

#endif /* SMQ_BENCH_JOBS_H */
