/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Jobs that are measured together: one process each, pinned to a CPU of its
 * own, started and stopped together. Set-up and warm-up stay outside the
 * markers.
 */
#ifndef SMQ_BENCH_JOBS_H
#define SMQ_BENCH_JOBS_H

#include <stdbool.h>
#include <stddef.h>

#define MAX_JOBS	8

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
 * Every job calls these around what is measured; both return in all jobs at
 * the same time. jobs_stop() returns the nanoseconds in between.
 */
void jobs_start(void);
unsigned long jobs_stop(void);

#endif /* SMQ_BENCH_JOBS_H */
