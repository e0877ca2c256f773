// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../marker.h"
#include "jobs.h"

#define ORDER_USECS	100000

/*
 * Times are in ticks of the TSC. Under User Mode Linux, asking the kernel for the time would take
 * as long as ten I/Os.
 */
struct chunk {
	unsigned int ios;
	unsigned long ticks;
};

/* Jobs wait here for each other. If a job fails, the others do not wait for it. */
static struct meeting {
	unsigned long arrived;
	char apart[64];		/* keeps @arrived and @failed in different cache lines */
	bool failed;
	/* Each job writes its own element during a run. After the run the first job reads all. */
	struct job_chunks {
		struct chunk chunks[MAX_CHUNKS];
		unsigned int nr;
	} __attribute__((aligned(64))) of[MAX_JOBS];
} *meeting;

static unsigned int nr_jobs, me;
static long nr_cpus;
static unsigned long meetings;
static unsigned int chunk_ios;
static struct timespec started;
static unsigned long started_tick, chunk_tick, chunk_first;
static double ns_per_tick;
static const unsigned int permille[] = { 500, 990, 999 };
static unsigned long latencies[3];
static bool may_fail;
static unsigned long failed;

void jobs_meet(void)
{
	unsigned long all = ++meetings * nr_jobs;

	__atomic_add_fetch(&meeting->arrived, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&meeting->arrived, __ATOMIC_SEQ_CST) < all) {
		if (__atomic_load_n(&meeting->failed, __ATOMIC_RELAXED))
			exit(1);
		/* If jobs share a CPU, yield instead of spinning for a whole time slice. */
		if (nr_jobs > (unsigned int)nr_cpus)
			sched_yield();
		else
			__builtin_ia32_pause();
	}
}

unsigned int jobs_wait_for(unsigned int inflight, unsigned int depth,
			   unsigned int batch, bool last)
{
	if (last || batch > depth)
		return inflight < batch ? inflight : batch;
	return inflight + batch > depth ? inflight + batch - depth : 0;
}

unsigned long jobs_tick(void)
{
	return __builtin_ia32_rdtsc();
}

void jobs_batch_done(unsigned long done)
{
	struct job_chunks *mine = &meeting->of[me];
	unsigned long now;

	if (done - chunk_first < chunk_ios || mine->nr == MAX_CHUNKS)
		return;
	now = jobs_tick();
	mine->chunks[mine->nr++] = (struct chunk) { done - chunk_first, now - chunk_tick };
	chunk_first = done;
	chunk_tick = now;
}

void jobs_print_chunks(void)
{
	unsigned int n, i;

	printf("\"chunks\": [");
	for (n = 0; n < nr_jobs; n++) {
		const struct job_chunks *job = &meeting->of[n];

		printf("%s[", n ? ", " : "");
		for (i = 0; i < job->nr; i++)
			printf("%s[%u, %.0f]", i ? ", " : "", job->chunks[i].ios,
			       job->chunks[i].ticks * ns_per_tick);
		printf("]");
	}
	printf("]");
}

static int by_size(const void *a, const void *b)
{
	unsigned long one = *(const unsigned long *)a, other = *(const unsigned long *)b;

	return (one > other) - (one < other);
}

void jobs_latencies(unsigned long *ticks, unsigned long count)
{
	unsigned int i;

	qsort(ticks, count, sizeof(*ticks), by_size);
	for (i = 0; i < 3; i++)
		latencies[i] = ticks[(count - 1) * permille[i] / 1000];
}

void jobs_print_latencies(void)
{
	printf("\"lat_ns\": {\"p50\": %.0f, \"p99\": %.0f, \"p999\": %.0f}",
	       latencies[0] * ns_per_tick, latencies[1] * ns_per_tick, latencies[2] * ns_per_tick);
}

static void begin_chunks(void)
{
	meeting->of[me].nr = 0;
	chunk_first = 0;
	chunk_tick = jobs_tick();
}

static void start(void)
{
	jobs_meet();
	clock_gettime(CLOCK_MONOTONIC, &started);
	started_tick = jobs_tick();
	if (!me)
		marker(MARKER_START);
	jobs_meet();
	begin_chunks();
}

static unsigned long stop(void)
{
	struct timespec now;
	unsigned long ns;

	jobs_meet();
	if (!me)
		marker(MARKER_STOP);
	clock_gettime(CLOCK_MONOTONIC, &now);
	ns = (now.tv_sec - started.tv_sec) * 1000000000L + (now.tv_nsec - started.tv_nsec);
	ns_per_tick = (double)ns / (jobs_tick() - started_tick);
	jobs_meet();
	return ns;
}

bool jobs_may_fail(void)
{
	failed++;
	return may_fail;
}

static int pin(unsigned int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	return sched_setaffinity(0, sizeof(cpus), &cpus);
}

static int measure(const struct jobs_runs *runs, int (*run)(unsigned long count),
		   void (*report)(unsigned long count, unsigned long ns))
{
	unsigned long ns;
	size_t i;
	int err;

	chunk_ios = runs->chunk;
	begin_chunks();
	err = run(runs->warmup);
	for (i = 0; !err && i < runs->nr_counts; i++) {
		start();
		err = run(runs->counts[i]);
		ns = stop();
		if (!err && !me)
			report(runs->counts[i], ns);
	}
	return err;
}

/* Whoever gave the order may share the CPU: waits until it sleeps. */
static int measure_alone(const struct jobs_runs *runs, int (*run)(unsigned long count),
			 void (*report)(unsigned long count, unsigned long ns))
{
	usleep(ORDER_USECS);
	return measure(runs, run, report);
}

static int use(unsigned long count, int (*run)(unsigned long count))
{
	int err;

	failed = 0;
	may_fail = true;
	err = run(count);
	may_fail = false;
	if (!err)
		printf("{\"used\": %lu, \"failed\": %lu}\n", count, failed);
	return err;
}

int jobs_measure(const struct jobs_runs *runs, int (*run)(unsigned long count),
		 void (*report)(unsigned long count, unsigned long ns))
{
	unsigned long count;
	char line[64];
	int err = 0;

	if (!runs->again)
		return measure(runs, run, report);
	while (!err && fgets(line, sizeof(line), stdin)) {
		/* The kernel takes a process from a CPU that goes offline, and not back to it. */
		if (pin(runs->cpu) && !runs->cpu)
			return -errno;
		if (!strcmp(line, "measure\n"))
			err = measure_alone(runs, run, report);
		else if (sscanf(line, "use %lu\n", &count) == 1)
			err = use(count, run);
		else
			err = -EINVAL;
		fflush(stdout);
	}
	return err;
}

static int pinned(unsigned int n, unsigned int seconds,
		  int (*job)(unsigned int n))
{
	int status = 1;

	me = n;
	alarm(seconds);
	if (pin(n % nr_cpus))
		fprintf(stderr, "job %u: no CPU %lu to run on\n", n, n % nr_cpus);
	else
		status = job(n);
	if (status)
		__atomic_store_n(&meeting->failed, true, __ATOMIC_SEQ_CST);
	fflush(NULL);
	return status;
}

int jobs_run(unsigned int jobs, unsigned int seconds,
	     int (*job)(unsigned int n))
{
	int status = 0, child;
	unsigned int n;

	nr_jobs = jobs;
	nr_cpus = sysconf(_SC_NPROCESSORS_ONLN);
	meeting = mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (meeting == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	for (n = 1; n < jobs; n++) {
		switch (fork()) {
		case -1:
			perror("fork");
			meeting->failed = true;
			status = 1;
			jobs = n;
			break;
		case 0:
			_exit(pinned(n, seconds, job));
		}
	}
	if (!status)
		status = pinned(0, seconds, job);
	while (wait(&child) > 0) {
		if (child)
			status = 1;
	}
	return status;
}
