// SPDX-License-Identifier: GPL-2.0
/*
 * bench_contended COUNT shared|own: runs two jobs that take the lock of an open file's position,
 * COUNT times each, and do nothing else. "shared": both use the same open file; "own": each uses a
 * file of its own. For test_bench_plugins.py.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../tools/bench/loop/jobs.h"

static int shared, files[2], fd;

static int take(unsigned long count)
{
	unsigned long i;

	for (i = 0; i < count; i++) {
		if (lseek(fd, 0, SEEK_CUR) < 0)
			return -errno;
	}
	return 0;
}

static void report(unsigned long count, unsigned long ns)
{
	printf("{\"loop\": \"lseek\", \"devices\": [], \"jobs\": 2, ");
	printf("\"count\": %lu, \"ns\": %lu}\n", count, ns);
}

static struct jobs_runs runs = { .nr_counts = 1 };

static int job(unsigned int n)
{
	fd = files[shared ? 0 : n];
	return jobs_measure(&runs, take, report) ? 1 : 0;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	runs.counts[0] = strtoul(argv[1], NULL, 10);
	shared = !strcmp(argv[2], "shared");
	/*
	 * Both jobs inherit both files. So each file has two users, and the kernel takes its lock
	 * even with "own".
	 */
	files[0] = open("/proc/self/status", O_RDONLY);
	files[1] = open("/proc/self/status", O_RDONLY);
	if (files[0] < 0 || files[1] < 0)
		return 1;
	return jobs_run(2, 300, job);
}
