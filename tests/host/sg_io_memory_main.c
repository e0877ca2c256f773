// SPDX-License-Identifier: GPL-2.0
/*
 * sg_io_memory MODE COMMANDS DEVICES: reads a recording as sg_io replay does, and makes the plan
 * and the lanes. Prints the commands, the bytes of memory that each takes in the replay and took at
 * most, and the seconds of CPU time.
 *
 * The recording is random and comes from a pipe. Its commands have 4 KiB each, and the memory for
 * data is 1 MiB.
 */
#include <err.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "replay/lane.h"
#include "util.h"

static void write_lines(FILE *out, unsigned long commands, unsigned int devices)
{
	unsigned long n;
	__u64 r;

	for (n = 0; n < commands; n++) {
		r = prng_mix(n);
		fprintf(out, "%s00%08x00000800 %s at=%lu cpu=%lu dev=/dev/sd%u took=%u.512\n",
			r & 1 ? "28" : "2a", (unsigned int)(r >> 32),
			r & 1 ? "in 4096" : "out 4096 pattern=lba", 5 * n, n % 8,
			(unsigned int)(r >> 8 & 0xff) % devices, (unsigned int)(r >> 16 & 0xff));
	}
	if (fflush(out))
		err(2, "pipe");
}

/* Makes standard input the recording, which another process writes. */
static void start_recording(unsigned long commands, unsigned int devices)
{
	int fds[2];

	if (pipe(fds))
		err(2, "pipe");
	switch (fork()) {
	case -1:
		err(2, "fork");
	case 0:
		close(fds[0]);
		write_lines(fdopen(fds[1], "w"), commands, devices);
		_exit(0);
	}
	close(fds[1]);
	dup2(fds[0], STDIN_FILENO);
}

static double resident(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	long pages;

	if (!f || fscanf(f, "%*d %ld", &pages) != 1)
		errx(2, "/proc/self/statm");
	fclose(f);
	return (double)pages * sysconf(_SC_PAGESIZE);
}

static double seconds(const struct rusage *usage)
{
	return usage->ru_utime.tv_sec + usage->ru_stime.tv_sec +
		(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv)
{
	struct cmdfile_options how = {
		.make_later = true, .by_time = true, .memory = 1 << 20, .many_devices = true,
	};
	struct plan_options opt = { .speed = 1, .window_ns = 100000000 };
	struct cmdfile file;
	struct rusage usage;
	struct lane *lanes;
	struct plan *plan;
	double base, now;
	unsigned int nr;
	size_t i;

	if (argc != 4 || !plan_find_mode(argv[1], &opt.mode))
		errx(2, "MODE COMMANDS DEVICES");
	if (opt.mode == PLAN_LOAD || opt.mode == PLAN_DEPEND)
		how.needs_took = "MODE";
	start_recording(strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10));
	base = resident();
	if (cmdfile_load("-", &how, &file))
		return 2;
	plan = plan_new(&file, &opt);
	lanes = plan ? lanes_new(plan, &nr) : NULL;
	if (!lanes)
		errx(2, "no memory");
	malloc_trim(0);
	/* What a replay writes while it runs. */
	for (i = 0; i < file.nr; i++)
		plan_ended(plan, i, 0);
	now = resident();
	getrusage(RUSAGE_SELF, &usage);
	printf("%zu %.1f %.1f %.2f\n", file.nr, (now - base) / file.nr,
	       (usage.ru_maxrss * 1024.0 - base) / file.nr, seconds(&usage));
	lanes_free(lanes, nr);
	plan_free(plan);
	cmdfile_free(&file);
	return 0;
}
