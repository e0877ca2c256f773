// SPDX-License-Identifier: GPL-2.0
/*
 * sg_io_memory MODE: reads a command file from standard input as sg_io replay does, and makes the
 * plan and the lanes. Prints the commands, the bytes of memory that each takes then and took at
 * most, and the seconds.
 */
#include <err.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "workers/lane.h"

static double resident(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	long pages;

	if (!f || fscanf(f, "%*d %ld", &pages) != 1)
		errx(2, "/proc/self/statm");
	fclose(f);
	return (double)pages * sysconf(_SC_PAGESIZE);
}

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	struct cmdfile_options how = {
		.make_later = true, .by_time = true, .memory = 1 << 20, .many_devices = true,
	};
	struct plan_options opt = { .speed = 1, .window_ns = 100000000 };
	double start = seconds(), base = resident(), now;
	struct cmdfile file;
	struct rusage usage;
	struct lane *lanes;
	struct plan *plan;
	unsigned int nr;

	if (argc != 2 || !plan_find_mode(argv[1], &opt.mode))
		errx(2, "MODE");
	if (opt.mode == PLAN_LOAD || opt.mode == PLAN_DEPEND)
		how.needs_took = "MODE";
	if (cmdfile_load("-", &how, &file))
		return 2;
	plan = plan_new(&file, &opt);
	lanes = plan ? lanes_new(plan, &nr) : NULL;
	if (!lanes)
		errx(2, "no memory");
	malloc_trim(0);
	now = resident();
	getrusage(RUSAGE_SELF, &usage);
	printf("%zu %.1f %.1f %.2f\n", file.nr, (now - base) / file.nr,
	       (usage.ru_maxrss * 1024.0 - base) / file.nr, seconds() - start);
	lanes_free(lanes, nr);
	plan_free(plan);
	cmdfile_free(&file);
	return 0;
}
