/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Jobs that are measured together. Each is a process, pinned to a CPU of its own (if there are more
 * jobs than CPUs, jobs share CPUs). All jobs start and stop a run together. Set-up and warm-up
 * are outside the markers.
 */
#ifndef SMQ_BENCH_JOBS_H
#define SMQ_BENCH_JOBS_H

#include <stdbool.h>
#include <stddef.h>

#define MAX_JOBS	128
#define MAX_COUNTS	8
#define MAX_CHUNKS	1024

/*
 * What every job runs: @warmup I/Os, then for each number in @counts a run between markers. With
 * @again the only job does this whenever it reads a line "measure", with the same open files. A
 * line "use N" makes it run N I/Os that may fail, and print how many failed. It ends at the end of
 * its input.
 */
struct jobs_runs {
	unsigned int seconds;	/* limit for all runs of a job together */
	unsigned int warmup;
	unsigned int chunk;	/* I/Os that are timed together, 0: no chunks */
	bool again;
	unsigned int cpu;	/* where the job runs with @again */
	unsigned long counts[MAX_COUNTS];
	size_t nr_counts;
};

/*
 * Runs @job(n) in @jobs processes. A process that has not ended after @seconds is killed. Returns
 * the exit status for main().
 */
int jobs_run(unsigned int jobs, unsigned int seconds,
	     int (*job)(unsigned int n));

/* Every job calls this before its warm-up. Waits until all jobs have called it. */
void jobs_meet(void);

/*
 * Returns how many of @inflight I/Os must end before one more batch fits into the depth. If @last,
 * no batch follows: returns @batch, or @inflight if that is less.
 */
unsigned int jobs_wait_for(unsigned int inflight, unsigned int depth,
			   unsigned int batch, bool last);

/*
 * Every job calls this after its set-up. Calls @run(count) for the warm-up, and then for each
 * count between two markers, which all jobs pass at the same time. In the first job, calls @report
 * with the time that each count took. Returns 0, or the negative errno that @run returned.
 */
int jobs_measure(const struct jobs_runs *runs, int (*run)(unsigned long count),
		 void (*report)(unsigned long count, unsigned long ns));

/*
 * A job that finds that an I/O has failed calls this. Returns whether it goes on as if the I/O had
 * succeeded.
 */
bool jobs_may_fail(void);

/*
 * If I/Os are timed in chunks, every job calls this after each batch of a run. @done: how many I/Os
 * of the run have ended. A chunk ends with the first batch that fills it.
 */
void jobs_batch_done(unsigned long done);

/*
 * A job calls jobs_latencies() after a run, which sorts @ticks: how long each I/O of the run took,
 * in ticks of jobs_tick(). jobs_print_latencies() prints the latencies of the calling job as JSON,
 * in ns.
 */
void jobs_latencies(unsigned long *ticks, unsigned long count);
void jobs_print_latencies(void);
unsigned long jobs_tick(void);

/* Prints the chunks of the run for every job, as JSON: each chunk is [I/Os, ns]. */
void jobs_print_chunks(void);

#endif /* SMQ_BENCH_JOBS_H */
