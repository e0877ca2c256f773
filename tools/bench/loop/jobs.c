// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../marker.h"
#include "jobs.h"

/* Where the jobs meet; a job that fails lets the others go. */
static struct meeting {
	unsigned long arrived;
	char apart[64];		/* two cache lines */
	bool failed;
} *meeting;

static unsigned int nr_jobs, me;
static unsigned long meetings;
static struct timespec started;

void jobs_meet(void)
{
	unsigned long all = ++meetings * nr_jobs;

	__atomic_add_fetch(&meeting->arrived, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&meeting->arrived, __ATOMIC_SEQ_CST) < all) {
		if (__atomic_load_n(&meeting->failed, __ATOMIC_RELAXED))
			exit(1);
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

static void start(void)
{
	jobs_meet();
	clock_gettime(CLOCK_MONOTONIC, &started);
	if (!me)
		marker(MARKER_START);
	jobs_meet();
}

static unsigned long stop(void)
{
	struct timespec now;

	jobs_meet();
	if (!me)
		marker(MARKER_STOP);
	clock_gettime(CLOCK_MONOTONIC, &now);
	jobs_meet();
	return (now.tv_sec - started.tv_sec) * 1000000000L +
	       (now.tv_nsec - started.tv_nsec);
}

int jobs_measure(const struct jobs_runs *runs, int (*run)(unsigned long count),
		 void (*report)(unsigned long count, unsigned long ns))
{
	int err = run(runs->warmup);
	unsigned long ns;
	size_t i;

	for (i = 0; !err && i < runs->nr_counts; i++) {
		start();
		err = run(runs->counts[i]);
		ns = stop();
		if (!err && !me)
			report(runs->counts[i], ns);
	}
	return err;
}

static int pinned(unsigned int n, unsigned int seconds,
		  int (*job)(unsigned int n))
{
	cpu_set_t cpus;
	int status = 1;

	me = n;
	alarm(seconds);
	CPU_ZERO(&cpus);
	CPU_SET(n, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		fprintf(stderr, "job %u: no CPU %u to run on\n", n, n);
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
